"""`python -m simulation`: one run, its report; on a failure the seed, the shrunk scenario and its history."""

import argparse
import json
import sys
from datetime import datetime
from pathlib import Path

from simulation.faults import FAULTS
from simulation.picture import draw
from simulation.report import report, reproduce, told
from simulation.run import simulate
from simulation.settings import Settings
from simulation.shrink import shrink

ALL = 10**9


def main(arguments: list[str] | None = None) -> int:
    """0 when everything held, 1 when something did not."""
    given = _parser().parse_args(arguments)
    settings = _settings(given)
    result = simulate(settings, _progress)
    _say("")
    print(report(result))
    if given.picture:
        draw(result, given.picture)
        print(f"picture: {given.picture}")
    if result.violation is None:
        print("everything held")
        return 0
    violation = result.violation
    print(f"\nseed {settings.seed}: {violation.invariant} does not hold for {violation.booking_id}: {violation.found}")
    if not given.no_shrink:
        print("looking for the shortest history ...")
        result = shrink(result, print)
    assert result.violation is not None
    print(told(result.violation))
    print(f"\nagain: {reproduce(result)}")
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bookings", type=int, help="default 1,000; of a trace all")
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--faults", default="1", help="a factor on every rate (0: none), or kinds by name with commas")
    parser.add_argument("--payments", choices=("provider", "external"), help="default: by the seed")
    parser.add_argument("--reconcile-days", type=int, help="default: daily, in large runs monthly")
    parser.add_argument("--trace", type=Path, help="real bookings, as CSV or gzipped CSV")
    parser.add_argument("--picture", type=Path, help="where to draw the run, as PNG or SVG")
    parser.add_argument("--tell", default="", help="bookings whose history is kept, with commas")
    parser.add_argument("--scenario", help="settings as JSON, as printed after a failure; replaces all others")
    parser.add_argument("--no-shrink", action="store_true", help="only say what does not hold")
    return parser


def _settings(given: argparse.Namespace) -> Settings:
    if given.scenario:
        return Settings.from_dict(json.loads(given.scenario))
    kinds: tuple[str, ...] | None = None
    try:
        factor = float(given.faults)
    except ValueError:
        factor, kinds = 1.0, tuple(given.faults.split(","))
        unknown = [kind for kind in kinds if kind not in FAULTS]
        if unknown:
            raise SystemExit(f"no such faults: {', '.join(unknown)}; there are {', '.join(FAULTS)}") from None
    bookings = given.bookings or (ALL if given.trace else 1_000)
    return Settings(
        seed=given.seed,
        bookings=bookings,
        days=given.days,
        faults=factor,
        only_faults=kinds,
        payments=given.payments or ("provider" if given.trace else None),
        reconcile_days=given.reconcile_days or (30 if given.trace or bookings > 2_000 else None),
        trace=given.trace,
        tell=frozenset(filter(None, given.tell.split(","))),
    )


def _progress(now: datetime, bookings: int) -> None:
    _say(f"{now:%Y-%m-%d}: {bookings:,} bookings")


def _say(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
