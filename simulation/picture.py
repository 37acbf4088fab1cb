"""The run as one picture: open bookings, pending jobs and schedules, and how late things were, over time."""

from pathlib import Path

from simulation.settings import Result


def draw(result: Result, path: Path) -> None:
    """Write it as PNG or SVG, by the name's ending. matplotlib is imported here alone, for it is slow to load."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    samples = result.samples
    at = [sample.at for sample in samples]
    figure, (counts, late) = pyplot.subplots(2, 1, sharex=True, figsize=(11, 7), layout="constrained")
    counts.plot(at, [sample.pending for sample in samples], label="pending jobs", color="tab:blue")
    counts.plot(at, [sample.schedules for sample in samples], label="schedules", color="tab:orange", linestyle="--")
    counts.plot(at, [sample.open for sample in samples], label="open bookings", color="tab:green")
    counts.set_ylim(bottom=0)
    counts.legend(loc="upper left")
    counts.set_title(f"{result.bookings:,} bookings, seed {result.settings.seed}: what waits, and how late it is done")
    late.plot(at, [max(0.5, sample.lateness) / 60 for sample in samples], color="tab:red", linewidth=0.8)
    late.set_yscale("log")
    late.set_ylabel("the latest effect, minutes")
    late.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
