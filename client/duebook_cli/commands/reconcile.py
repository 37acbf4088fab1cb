"""`reconcile`: compare bookings, jobs and schedules, and repair what differs."""

import time
from datetime import timedelta
from typing import Annotated

import typer

from duebook_cli import arguments, options
from duebook_cli.command import Run, command, facts
from duebook_cli.exits import Failed
from duebook_client import NotFound, ReconcileReport

_LOOK_AGAIN_SECONDS = 1.0


def add_to(app: typer.Typer) -> None:
    command(app, "reconcile", needs=["operations"])(reconcile)


def reconcile(
    run: Run,
    wait: Annotated[bool, typer.Option(help="Wait for the report.")] = True,
    at_most: Annotated[
        timedelta,
        typer.Option(
            parser=options.parsed(arguments.duration),
            metavar="LENGTH",
            help="Wait no longer than this.",
            show_default="15m",
        ),
    ] = timedelta(minutes=15),
) -> None:
    """Start a pass over everything; after a deploy or a restore, or when in doubt."""
    started = run.client.start_reconcile()
    if not wait:
        run.show({"started": started.started, "run": started.run, "report": None}, facts(started=started.run))
        return
    report = _report(run, started.run, at_most)
    shown = facts(
        run=report.run,
        schedules=f"{report.schedules_checked:,} checked",
        jobs=f"{report.jobs_checked:,} checked",
        bookings=f"{report.bookings_checked:,} checked",
        differences=f"{report.differences:,} found and repaired",
    )
    run.show({"started": started.started, "run": started.run, "report": report.raw}, shown)


def _report(run: Run, wanted: str | None, at_most: timedelta) -> ReconcileReport:
    """The report of the pass just started, once it is done; a pass that runs meanwhile is waited for too."""
    end = time.monotonic() + at_most.total_seconds()
    with run.messages.status("Comparing bookings, jobs and schedules ...") as status:
        while time.monotonic() < end:
            try:
                report = run.client.reconcile_report()
            except NotFound:
                report = None
            if report is not None and report.started_at >= run.now.replace(microsecond=0):
                if report.is_done:
                    return report
                checked = report.schedules_checked + report.jobs_checked + report.bookings_checked
                status.update(f"Comparing bookings, jobs and schedules: {checked:,} checked ...")
            time.sleep(_LOOK_AGAIN_SECONDS)
    raise Failed(f"the pass {wanted} was not done within {at_most}; it goes on, and its report is there when it is")
