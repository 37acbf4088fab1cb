"""`job put|delete`: the callers' own jobs."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from duebook_cli import arguments, options
from duebook_cli.command import Run, command, facts, group
from duebook_cli.exits import Usage
from duebook_client import UNSET, Anchor, JobChange

JobName = Annotated[str, typer.Argument(metavar="JOB", help="The job's name.")]
Revision = Annotated[int | None, typer.Option(min=0, help="Your increasing number: a lower one changes nothing.")]

_ANCHORS = ("event_start", "event_end")


def add_to(app: typer.Typer) -> None:
    jobs = group("job", "Make, move or remove an own job.")
    command(jobs, "put", needs=["schedules"])(put)
    command(jobs, "delete", needs=["schedules"])(delete)
    app.add_typer(jobs)


def put(
    run: Run,
    booking_id: options.BookingId,
    job: JobName,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="When: ISO 8601 with an offset.")] = None,
    after: Annotated[
        timedelta | None,
        typer.Option("--in", parser=options.parsed(arguments.duration), metavar="LENGTH", help="When, from now: 3d."),
    ] = None,
    anchor: Annotated[
        str | None, typer.Option(help="Of a managed booking: event_start or event_end, with --offset.")
    ] = None,
    offset: Annotated[
        timedelta | None,
        typer.Option(
            parser=options.parsed(arguments.signed_duration),
            metavar="LENGTH",
            help="From the anchor: 1d, --offset=-2h.",
        ),
    ] = None,
    zone: options.Zone = None,
    payload: Annotated[
        str | None, typer.Option(help="JSON that comes back with the event; @FILE reads it from a file.")
    ] = None,
    revision: Revision = None,
    keep_on_cancel: Annotated[bool, typer.Option(help="It stays when the booking is cancelled.")] = False,
) -> None:
    """Make an own job, or move it and replace its payload."""
    if sum(given is not None for given in (at, after, anchor)) != 1:
        raise Usage("give one of --at, --in, and --anchor")
    if anchor is not None and anchor not in _ANCHORS:
        raise Usage(f"--anchor: {anchor!r} is none of {', '.join(_ANCHORS)}")
    if anchor is None and offset is not None:
        raise Usage("--offset goes with --anchor")
    run_at = None if anchor is not None else options.time(at, zone, "--at") if at is not None else None
    if after is not None:
        run_at = arguments.later(run.now, after).replace(microsecond=0)
    change = run.client.put_job(
        booking_id,
        job,
        run_at,
        anchor=cast("Anchor | None", anchor),
        offset=offset or timedelta(),
        payload=_payload(payload),
        keep_on_cancel=keep_on_cancel,
        revision=revision,
    )
    _show(run, change)
    run.say("Set." if change.applied else "Nothing changed: it was so already, or a higher revision is known.")


def delete(run: Run, booking_id: options.BookingId, job: JobName, revision: Revision = None) -> None:
    """Remove an own job."""
    change = run.client.delete_job(booking_id, job, revision=revision)
    _show(run, change)
    run.say("Removed." if change.applied else "Nothing changed: there is no such job, or a higher revision is known.")


def _show(run: Run, change: JobChange) -> None:
    current = change.current
    at = run.when(current.run_at) if current else None
    run.show({"job": change.raw}, facts(booking=change.booking_id, job=change.job, run_at=at))


def _payload(text: str | None) -> Any:
    if text is None:
        return UNSET
    try:
        return json.loads(Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text)
    except (OSError, ValueError) as error:
        raise Usage(f"--payload: {error}") from None
