"""`booking show|move|cancel`: one booking, its jobs and its history."""

from typing import Annotated, Any

import typer
from rich.console import RenderableType

from duebook_cli import options, words
from duebook_cli.command import Run, command, facts, group, row, table
from duebook_client import Booking, HistoryEntry, Job, NotManaged


def add_to(app: typer.Typer) -> None:
    bookings = group("booking", "See, move or cancel one booking.")
    command(bookings, "show", needs=["bookings", "schedules"])(show)
    command(bookings, "move", needs=["bookings"])(move)
    command(bookings, "cancel", needs=["bookings"])(cancel)
    app.add_typer(bookings)


def show(run: Run, booking_id: options.BookingId) -> None:
    """A booking as it is, what will happen to it, and what has."""
    booking: Booking | None
    try:
        booking = run.client.booking(booking_id)
    except NotManaged:
        booking = None
    jobs, history = run.client.jobs(booking_id), list(run.client.history(booking_id))
    document: dict[str, Any] = {
        "booking": None if booking is None else booking.raw,
        "jobs": [each.raw for each in jobs],
        "history": [each.raw for each in history],
    }
    told = facts(booking=f"{booking_id} (own jobs only)") if booking is None else _facts(run, booking)
    run.show(document, told, "", *_jobs(run, jobs), *_history(history))


def move(
    run: Run,
    booking_id: options.BookingId,
    start: Annotated[str, typer.Option(metavar="TIME", help="When the event begins.")],
    end: Annotated[str | None, typer.Option(metavar="TIME", help="When it ends; else by its policy's length.")] = None,
    zone: options.Zone = None,
    by: options.ByOperator = options.OPERATOR,
    reason: options.Reason = None,
) -> None:
    """Move the event: every job moves with it."""
    booking = run.client.move(
        booking_id,
        event_start=options.time(start, zone, "--start"),
        event_end=None if end is None else options.time(end, zone, "--end"),
        actor=by,
        reason=reason,
    )
    jobs = run.client.jobs(booking_id)
    run.show({"booking": booking.raw, "jobs": [each.raw for each in jobs]}, _facts(run, booking), "", *_jobs(run, jobs))
    run.say("Moved." if booking.applied else "It stood there already.")


def cancel(
    run: Run,
    booking_id: options.BookingId,
    by: options.By,
    refund_minor: Annotated[
        int | None,
        typer.Option(
            min=0, help="In minor units. Else: all if chef or operator cancels, by the tiers if the customer."
        ),
    ] = None,
    reason: options.Reason = None,
    yes: options.Yes = False,
) -> None:
    """Cancel: what goes back and what is paid out are decided at once."""
    run.confirm(f"Cancel {booking_id} as {by.role}?", yes=yes)
    booking = run.client.cancel(booking_id, actor=by, refund_minor=refund_minor, reason=reason)
    run.show({"booking": booking.raw}, _facts(run, booking))
    run.say("Cancelled." if booking.applied else "It was cancelled already.")


def _facts(run: Run, booking: Booking) -> RenderableType:
    def amount(minor: int) -> str | None:
        return words.money(minor, booking.currency) if minor else None

    dispute = booking.raw.get("dispute")
    return facts(
        booking=booking.booking_id,
        state=booking.state,
        version=booking.version,
        event_start=f"{run.when(booking.event_start.instant)}, {booking.event_start.local} {booking.event_start.zone}",
        event_end=f"{run.when(booking.event_end.instant)}, {booking.event_end.local} {booking.event_end.zone}",
        price=words.money(booking.price_minor, booking.currency),
        captured=amount(booking.captured_minor),
        refunded=amount(booking.refunded_minor),
        paid_out=amount(booking.raw.get("paid_out_minor") or 0),
        fee=amount(booking.raw.get("fee_minor") or 0),
        payout="held until it is released" if booking.raw.get("payout_held") else None,
        payments=", ".join(f"{each.payment_id} {each.kind} {each.status}" for each in booking.payments) or None,
        dispute=f"{dispute['dispute_id']} {dispute['status']}" if dispute else None,
        customer=booking.customer_id,
        chef=booking.chef_id,
        requested=words.instant(booking.requested_at),
    )


def _jobs(run: Run, jobs: list[Job]) -> list[RenderableType]:
    shown = table("will happen", "job", "status", "attempts", "reason", right=["attempts"])
    for each in jobs:
        row(shown, run.when(each.run_at), each.job, each.status, each.attempts or None, each.reason)
    return [shown, ""] if jobs else ["Nothing is scheduled.", ""]


def _history(history: list[HistoryEntry]) -> list[RenderableType]:
    shown = table("happened", "what", "state", "by", "reason")
    for each in history:
        by = each.actor.role if each.actor else each.cause.source if each.cause else None
        row(shown, words.instant(each.at), each.type, each.state, by, each.reason)
    return [shown]
