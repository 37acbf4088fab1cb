"""`due`: what will happen, and when."""

import re
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Annotated

import typer

from duebook_cli import arguments, options, words
from duebook_cli.command import Run, command, row, table
from duebook_client import Job
from duebook_client.client import LONGEST_WINDOW

OWN = "own"
BUILT_IN = (
    "reject_request", "cancel_unpaid", "close_event", "complete_order", "release_payment", "watch_dispute", "pay",
)  # fmt: skip
"""Names of the service's own jobs; `pay` stands for each payment's, `pay_1` and so on."""


def add_to(app: typer.Typer) -> None:
    command(app, "due", needs=["schedules"])(due)


def due(
    run: Run,
    within: options.Within = options.WEEK,
    start: Annotated[
        datetime | None,
        typer.Option("--from", parser=options.parsed(arguments.instant), metavar="TIME", help="Instead of from now."),
    ] = None,
    job: Annotated[str | None, typer.Option(help="One job's name; own: all of the callers' own.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many; whether there are more is told.")] = 1000,
) -> None:
    """Pending jobs in a window, in order."""
    begin = run.now if start is None else start
    end = arguments.later(begin, within)
    found = list(islice(_pending(run, begin, end, job), limit + 1))
    more, found = len(found) > limit, found[:limit]
    shown = table("when", "job", "booking", "attempts", right=["attempts"])
    for each in found:
        row(shown, run.when(each.run_at), each.job, each.booking_id, each.attempts or None)
    document = {
        "from": words.iso(begin),
        "to": words.iso(end),
        "jobs": [each.raw for each in found],
        "more": more,
    }
    run.show(document, *([shown] if found else []))
    what = words.count(len(found), "job") + (f" {job}" if job else "")
    run.say(f"{what} from {words.instant(begin)} to {words.instant(end)}")
    if not found and job is not None and not _is_built_in(job):
        run.say(f"The built-in jobs are {', '.join(BUILT_IN)}, pay_1, pay_2, ...; {job} is none of them.")
    if more:
        run.say(f"There are more than {limit}: narrow the window, or raise --limit.")


def _is_built_in(job: str) -> bool:
    return job in (*BUILT_IN, OWN) or re.fullmatch(r"pay_[0-9]+", job) is not None


def _pending(run: Run, start: datetime, end: datetime, job: str | None) -> Iterator[Job]:
    """As `Duebook.due`, of a window of any length."""
    while start < end:
        stop = start + min(end - start, LONGEST_WINDOW)
        yield from run.client.due(start, stop, job=job)
        start = stop
