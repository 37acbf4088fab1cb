"""`python -m local.demo`: the story, August to December, on the embedded AWS.

It exits with 0 only if every statement was checked and holds. `DUEBOOK_TIME_TRAVEL=off` plays it in real time.
`--payments stripe` lets Stripe's own library pay, at a stand-in for Stripe that runs beside the embedded AWS.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from types import FrameType

from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from duebook_client import DuebookError
from local.deploy import DeployError
from local.emulator import EmulatorError
from local.story import BEGINS, SCENES, Ran, Statement, Story, title
from local.world import World, deployed

TIME_TRAVEL = "DUEBOOK_TIME_TRAVEL"
INTERRUPTED = 130
_WIDTH = 120
"""Of the table where no terminal says how wide it is."""


class StatementFailedError(Exception):
    """A statement does not hold. The message says what was found instead."""


class Narrator:
    """Tells the story on a console, and keeps what was checked."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.held: set[Statement] = set()

    def scene(self, number: int, words: str) -> None:
        self.console.print(f"\n[bold]{number}. {escape(words)}[/bold]")

    def tell(self, what: str) -> None:
        self.console.print(f"   {escape(what)}", style="dim", soft_wrap=True)

    def check(self, statement: Statement, holds: bool, found: object) -> None:
        """Raises StatementFailedError, which ends the story."""
        if not holds:
            self.console.print(f" [red]✗[/red] {escape(statement)}", soft_wrap=True)
            raise StatementFailedError(f"It does not hold: {statement}\nFound: {found}")
        self.held.add(statement)
        self.console.print(f" [green]✓[/green] {escape(statement)}", soft_wrap=True)


def main(arguments: Sequence[str] = ()) -> int:
    """Play the story; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m local.demo", description="The story, August to December.")
    parser.add_argument("--payments", choices=("ledger", "stripe"), default="ledger", help="by default the ledger")
    payments: str = parser.parse_args(arguments).payments
    for ending in (signal.SIGINT, signal.SIGTERM):  # also where a shell had them ignored
        signal.signal(ending, _interrupt)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _WIDTH
    try:
        return play(console, travel=os.environ.get(TIME_TRAVEL, "on") != "off", payments=payments)
    except KeyboardInterrupt:
        console.print("\nStopped; nothing is left running.")
        return INTERRUPTED
    except StatementFailedError as failure:
        console.print(f"\n[red]{escape(str(failure))}[/red]", soft_wrap=True)
    except (DeployError, DuebookError, EmulatorError, TimeoutError) as error:
        console.print(f"\n[red]{escape(str(error))}[/red]", soft_wrap=True)
    return 1


def play(console: Console, *, travel: bool, payments: str = "ledger") -> int:
    """Deploy, tell every scene, show what ran; 0 if every statement holds. Raises StatementFailedError."""
    started = time.monotonic()
    narrator = Narrator(console)
    with deployed(start_at=BEGINS, travel=travel, payments=payments) as world:
        ready = time.monotonic()
        console.print(f"Duebook is deployed on the embedded AWS; it is {world.now():%d %B %Y, %H:%M} UTC there.")
        if world.stripe is not None:
            console.print("Stripe's library pays, at a stand-in; captures arrive as signed events.")
        if not world.travels:
            console.print("Time does not travel here: the same story on deadlines of seconds. It takes 13 minutes.")
        story = Story(world, narrator)
        with console.status("") as status:
            world.watch = _watching(status, world)
            for number, scene in enumerate(SCENES, start=1):
                status.update(title(scene))
                narrator.scene(number, title(scene))
                scene(story)
            status.update("Reading every history")
            ran = story.what_ran()
            moved = world.stripe.moved() if world.stripe is not None else None
        console.print(_table(ran, world))
    if moved is not None:
        once = sum(1 for times in moved.values() if times == 1)
        console.print(f"Stripe moved money for {len(moved)} payments: {once} once, {len(moved) - once} more often.")
    missing = [statement for statement in Statement if statement not in narrator.held]
    for statement in missing:
        console.print(f" [red]✗[/red] not checked: {escape(statement)}", soft_wrap=True)
    console.print(
        f"{len(narrator.held)} of {len(Statement)} statements hold. "
        f"Deployed in {ready - started:.0f} s, told in {time.monotonic() - ready:.0f} s."
    )
    return 1 if missing else 0


def _watching(status: Status, world: World) -> Callable[[datetime, datetime], None]:
    def watching(now: datetime, goal: datetime) -> None:
        if world.travels:
            status.update(f"It is {now:%d %b %Y %H:%M} on the way to {goal:%d %b %Y %H:%M} UTC")
        else:
            status.update(f"Waiting: {(goal - now).total_seconds():.0f} s more")

    return watching


def _table(ran: list[Ran], world: World) -> Table:
    table = Table(
        title="What ran when, and how late",
        caption="Late: after its instant, or after it could be, where a booking or the end of its dispute came later.",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("due (UTC)", no_wrap=True)
    table.add_column("booking", no_wrap=True)
    table.add_column("what happened", no_wrap=True)
    table.add_column("late", justify="right", no_wrap=True)
    table.add_column("woken by", no_wrap=True)
    form = "%d %b %H:%M" if world.travels else "%H:%M:%S"
    for line in ran:
        late = (
            f"{line.late.total_seconds():.1f} s" if line.late < timedelta(minutes=1) else str(line.late).split(".")[0]
        )
        table.add_row(line.due.strftime(form), line.booking_id, line.what, late, line.woken_by)
    return table


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
