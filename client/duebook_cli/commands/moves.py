"""`move --from FILE`: many events at once, looked at beforehand by --dry-run."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from duebook_cli import options, words
from duebook_cli.arguments import later
from duebook_cli.bulk.calls import RATE, Calls, call_each
from duebook_cli.bulk.cells import BOOKING_ID, LONGEST_REASON, Cells
from duebook_cli.bulk.files import Refusal, Row, Wrong, read_rows
from duebook_cli.bulk.journal import Journal
from duebook_cli.command import Run, command, error_document, row, table
from duebook_cli.exits import Exit, Usage
from duebook_client import Booking, Job
from duebook_client.times import TimeIn

COLUMNS = ("booking_id", "event_start", "event_end", "zone", "reason")
NEEDED = ("booking_id", "event_start")


def add_to(app: typer.Typer) -> None:
    command(app, "move", needs=["bookings", "schedules"], patient=True)(move)


@dataclass(frozen=True, slots=True)
class Move:
    """Where an event is moved to: as sent, and the instants; no end is the policy's length."""

    event_start: TimeIn
    event_end: TimeIn | None
    start: datetime
    end: datetime | None
    reason: str | None


def read_move(cells: Mapping[str, Any]) -> Move | list[Wrong]:
    """One row."""
    row = Cells(cells)
    row.matching("booking_id", BOOKING_ID, needed=True)
    zone = row.text("zone", longest=64)
    start, end = row.moment("event_start", zone, needed=True), row.moment("event_end", zone)
    reason = row.text("reason", longest=LONGEST_REASON)
    if start is not None and end is not None and end[1] <= start[1]:
        row.refuse("event_end", "is not after event_start")
    if row.wrong or start is None:
        return row.wrong
    return Move(start[0], end and end[0], start[1], end and end[1], reason)


def move(
    run: Run,
    file: Annotated[
        Path,
        typer.Option(
            "--from", exists=True, dir_okay=False, readable=True, metavar="FILE", help=f"Columns: {', '.join(COLUMNS)}."
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would move, and send nothing.")] = False,
    rate: options.Rate = RATE,
    by: options.ByOperator = options.OPERATOR,
    yes: options.Yes = False,
) -> Exit:
    """Move many events; every job moves with its booking's event. Killed, the same command goes on."""
    rows = read_rows(file, COLUMNS, NEEDED, read_move)
    if rows.number == 0:
        raise Usage(f"{file} has no rows, so there is nothing to move")
    document: dict[str, Any] = {"file": str(file), "rows": rows.number, "dry_run": dry_run}
    if rows.refused:
        _tell(run, rows.refused)
        run.show({**document, "refused": [each.as_json() for each in rows.refused]}, "Nothing was sent.")
        return Exit.FAILED
    if dry_run:
        return _show_plan(run, rows.good, document, rate)
    journal_path = file.with_name(f"{file.name}.move.jsonl")
    with Journal(journal_path, kind="move", input=rows.digest, target=run.connection.url) as journal:
        left = [each for each in rows.good if each.booking_id not in journal.entries]
        before = len(rows.good) - len(left)
        if before:
            run.say(f"{words.count(before, 'row')} were moved before, by {journal_path}.")
        if left:
            run.confirm(f"Move {words.count(len(left), 'event')}?", yes=yes, number=len(left))

        def send(row: Row[Move]) -> bool:
            moved = run.client.move(
                row.booking_id,
                event_start=row.value.event_start,
                event_end=row.value.event_end,
                actor=by,
                reason=row.value.reason,
                idempotency_key=key_of(rows.digest, row),
            )
            journal.append(row.booking_id, {"line": row.line, "row": row.key, "outcome": "moved"})
            return moved.applied is not False

        calls = call_each(run, left, send, rate=rate, doing="Moving")
    refusals = [Refusal.by_service(each, error) for each, error in calls.refused]
    _tell(run, refusals)
    document |= {
        "moved": sum(applied for _, applied in calls.done),
        "unchanged": sum(not applied for _, applied in calls.done),
        "moved_before": before,
        "refused": [each.as_json() for each in refusals],
        "left": len(left) - len(calls.done) - len(refusals),
        "journal": str(journal_path),
        "stopped": None if calls.stopped is None else error_document(calls.stopped),
    }
    told = f"{words.count(document['moved'], 'event')} moved, {document['unchanged']:,} stood there already"
    run.show(document, told)
    if calls.stopped is not None:
        run.say("The same command again goes on.")
    return Exit.PARTLY if before and (calls.refused or calls.stopped) else calls.exit


def key_of(digest: str, row: Row[Move]) -> str:
    """The idempotency key of a row's move: the same row of the same file is the same command."""
    return "move-" + hashlib.sha256(f"{digest}/{row.line}/{row.key}".encode()).hexdigest()[:40]


def _show_plan(run: Run, rows: Sequence[Row[Move]], document: Mapping[str, Any], rate: float) -> Exit:
    def look(row: Row[Move]) -> dict[str, Any]:
        return _told(row.value, run.client.booking(row.booking_id), run.client.jobs(row.booking_id))

    calls: Calls[Row[Move], dict[str, Any]] = call_each(run, rows, look, rate=rate / 2, doing="Looking")
    if calls.stopped is not None:
        raise calls.stopped
    refusals = [Refusal.by_service(each, error) for each, error in calls.refused]
    shown = table("booking", "state", "what", "now", "then")
    plan = []
    for each, told in sorted(calls.done, key=lambda done: done[0].line):
        plan.append({"line": each.line, **told})
        then = told["event_start"]["then"]
        row(shown, each.booking_id, told["state"], "event start", told["event_start"]["now"], then)
        for job in told["jobs"]:
            row(shown, None, None, job["job"], job["run_at"], job["then"] or "moves only if it is tied to the event")
    run.show({**document, "plan": plan, "refused": [each.as_json() for each in refusals]}, shown)
    _tell(run, refusals)
    run.say(f"{words.count(len(plan), 'event')} would be asked to move. Nothing was sent.")
    return calls.exit


def _told(wanted: Move, booking: Booking, jobs: Sequence[Job]) -> dict[str, Any]:
    """What a move would do to a booking and its pending jobs as they are now.

    The jobs that follow from the event's end move by as much as it does; whether another one moves (an own
    job may be anchored, a deadline is at latest the event's start) the service alone knows: `then` null.
    """
    end = wanted.end or later(wanted.start, booking.policy.event_length or timedelta())
    by = end - booking.event_end.instant
    return {
        "booking_id": booking.booking_id,
        "state": booking.state,
        "event_start": {"now": words.iso(booking.event_start.instant), "then": words.iso(wanted.start)},
        "event_end": {"now": words.iso(booking.event_end.instant), "then": words.iso(end)},
        "jobs": [
            {
                "job": job.job,
                "run_at": words.iso(job.run_at),
                "then": words.iso(later(job.run_at, by)) if job.job in FOLLOW_THE_END else None,
            }
            for job in jobs
        ],
    }


FOLLOW_THE_END = ("close_event", "complete_order", "release_payment")
"""Jobs that are due at the event's end, or at a fixed time after it."""


def _tell(run: Run, refusals: Sequence[Refusal]) -> None:
    for each in refusals:
        where = ", ".join(filter(None, (f"line {each.line}", each.booking_id, each.field)))
        run.say(f"{where}: {each.reason}")
