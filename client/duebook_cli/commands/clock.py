"""`clock show|advance|next`: the embedded AWS's time."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Annotated

import typer

from duebook_cli import arguments, options, words
from duebook_cli.command import Run, command, facts, group
from duebook_cli.connect import Clock
from duebook_cli.exits import Failed, Usage


def add_to(app: typer.Typer) -> None:
    clocks = group("clock", "The embedded AWS's time (local only).")
    command(clocks, "show")(show)
    command(clocks, "advance")(advance)
    command(clocks, "next")(next_)
    app.add_typer(clocks)


def show(run: Run) -> None:
    """What time it is there, and the next instant with work (a job, a delayed message, a workflow's wait)."""
    clock = _clock(run)
    upcoming = clock.upcoming()
    told = facts(
        now=words.instant(run.now),
        next=run.when(upcoming) if upcoming else "nothing is due",
        travels="yes" if clock.travels else "no: time is real on this machine",
    )
    document = {
        "now": words.iso(run.now),
        "next": None if upcoming is None else words.iso(upcoming),
        "travels": clock.travels,
    }
    run.show(document, told)


def advance(
    run: Run,
    by: Annotated[
        timedelta,
        typer.Argument(parser=options.parsed(arguments.duration), metavar="LENGTH", help="75d, 36h, 1d12h."),
    ],
) -> None:
    """Let time pass; everything due on the way happens in its order."""
    clock = _clock(run)
    with run.messages.status(f"{words.instant(run.now)} ...") as status:
        _moved(run, _settled(lambda: clock.advance(by, lambda now: status.update(f"{words.instant(now)} ..."))))


def next_(run: Run) -> None:
    """Let time pass to the next instant with work (a job, a delayed message, a workflow's wait)."""
    clock = _clock(run)
    _moved(run, _settled(clock.next))


def _moved(run: Run, now: datetime | None) -> None:
    reached = run.now if now is None else now
    document = {"from": words.iso(run.now), "now": words.iso(reached), "moved": now is not None}
    run.show(document, facts(was=words.instant(run.now), now=words.instant(reached)))
    if now is None:
        run.say("Nothing is due: no schedule, delayed message or workflow wait.")


def _settled(move: Callable[[], datetime | None]) -> datetime | None:
    try:
        return move()
    except TimeoutError as error:
        raise Failed(f"time moved, but what became due did not come to rest: {error}") from None


def _clock(run: Run) -> Clock:
    if run.connection.clock is None:
        raise Usage(f"only the embedded AWS's time can be moved (--env local), not that of {run.connection.name}")
    return run.connection.clock
