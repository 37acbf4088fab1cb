"""`python -m benchmarks.handlers`: what the functions cost, in three tables.

It exits with 1 if a cold import is above its limit (after it was measured again, much longer), if a wake-up makes more
calls than it may, or if a listing reads rows that it throws away. Times and memory are stated, and fail nothing.
"""

import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks import cold_import, invocations, listing

T = TypeVar("T")

INTERRUPTED = 130
_WIDTH = 140
"""Of the tables where no terminal says how wide it is."""


def main() -> int:
    """Measure everything; the exit status."""
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, _interrupt)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _WIDTH
    try:
        with _progress(console) as progress:
            imports = _stage(progress, "cold imports", cold_import.steps(), cold_import.measure)
            calls = _stage(progress, "invocations", invocations.CASES, invocations.measure)
            readings = _stage(progress, "listings", listing.steps(), listing.measure)
    except KeyboardInterrupt:
        console.print("\nStopped; nothing is left running.")
        return INTERRUPTED
    console.print(_imports(imports), _invocations(calls), _readings(readings))
    marks = [*(each.passes for each in imports), *(each.passes for each in calls), *(each.passes for each in readings)]
    passes = all(marks)
    console.print("[green]Every limit is kept.[/green]" if passes else "[red]A limit is broken.[/red]")
    return 0 if passes else 1


def _imports(results: list[cold_import.Import]) -> Table:
    table = Table(title=f"Cold import with clients, against boto3 with the same clients (at most {cold_import.LIMIT})")
    for name in ("handler", "boto3, ms", "handler, ms", "ratio", ""):
        table.add_column(name, justify="left" if name == "handler" else "right")
    for result in results:
        mark = _mark(result.passes)
        table.add_row(
            result.handler,
            f"{result.baseline * 1000:.0f}",
            f"{result.own * 1000:.0f}",
            f"{result.ratio:.2f}",
            mark,
        )
    return table


def _invocations(results: list[invocations.Invocation]) -> Table:
    table = Table(title=f"Invocations (the first, then the median of {invocations.WARM}); * a consistent read")
    for name in ("handler", "what", "MB", "first, ms", "then, ms", "AWS calls", ""):
        table.add_column(name, justify="right" if name in ("MB", "first, ms", "then, ms") else "left")
    for result in results:
        table.add_row(
            result.case.handler,
            result.case.what,
            f"{result.memory_mb:.0f}",
            f"{result.first_ms:.0f}",
            f"{result.warm_ms:.1f}",
            ", ".join(f"{count} {call}" for call, count in sorted(result.calls.items())) or "none",
            _mark(result.passes) if result.case.wanted is not None else "",
        )
    return table


def _readings(results: list[listing.Reading]) -> Table:
    table = Table(title="GET /jobs, one call")
    for name in ("window", "pending jobs", "queries", "ScannedCount", "Count", "returned", ""):
        table.add_column(name, justify="left" if name == "window" else "right")
    for result in results:
        numbers = (result.pending, result.queries, result.scanned, result.count, result.returned)
        table.add_row(result.what, *(f"{number:,}" for number in numbers), _mark(result.passes))
    return table


def _mark(passes: bool) -> str:
    return "[green]✓[/green]" if passes else "[red]✗[/red]"


def _stage(progress: Progress, what: str, total: int, measure: Callable[[Callable[[str], None]], list[T]]) -> list[T]:
    task = progress.add_task(what, total=total)
    found = measure(lambda doing: progress.update(task, advance=1, description=f"{what}: {doing}"))
    progress.update(task, completed=total, total=total, description=what)
    return found


def _progress(console: Console) -> Progress:
    return Progress(BarColumn(20), TimeElapsedColumn(), TextColumn("{task.description}"), console=console)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
