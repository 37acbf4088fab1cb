"""Explain a job from the table as it is: reads only."""

from dataclasses import dataclass
from datetime import datetime

from duebook.domain import explain as rules
from duebook.domain.booking import Booking
from duebook.domain.errors import NotFound
from duebook.domain.explain import Foreseen, Known, Paying, Told
from duebook.domain.names import payment_number
from duebook.domain.payment import Payment
from duebook.service import chefs, queries, rows
from duebook.service.bookings import Bookings
from duebook.service.pay import of_payout
from duebook.service.ports import Item, Manner

MOST_HISTORY = 50
"""Entries that are looked through, the newest first, for what a job that is gone did last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """`row`: the job's row as it is; `next`: the earliest pending job after the steps, and its instant."""

    job: str
    row: Item | None
    foreseen: Foreseen
    told: Told
    next: tuple[str, datetime] | None


def explain(bookings: Bookings, manner: Manner, booking_id: str, job: str) -> Explanation:
    """What a wake-up would do now, and why this job acts or does not. Raises `NotFound` for an unknown booking."""
    booking = bookings.load(booking_id)
    if booking is None:
        raise NotFound(f"there is no booking {booking_id}")
    found = {row["job"]: row for row in queries.jobs(bookings.table, booking_id)}
    foreseen = rules.foresee(booking, bookings.clock())
    row, planned = found.get(job), foreseen.after.planned
    dead = {name for name, row in found.items() if row["status"] == rows.DEAD}
    known = Known(
        died=row.get("reason", "no reason was recorded") if row and job in dead else None,
        done=None if job in planned else _last(bookings, booking_id, job),
        paying=_paying(bookings, manner, foreseen, job),
    )
    woken_by_nobody = frozenset(n for n in dead if n in planned and planned[n].generation == found[n]["generation"])
    return Explanation(
        job=job,
        row=row,
        foreseen=foreseen,
        told=rules.explain(foreseen, job, known),
        next=rules.pending_after(foreseen, woken_by_nobody),
    )


def _last(bookings: Bookings, booking_id: str, job: str) -> str | None:
    """The last thing that the job did, in words; None when it is too long ago, or never was."""
    page = bookings.table.query(booking_id, rows.HISTORY_PREFIX, limit=MOST_HISTORY, newest_first=True)
    for entry in page.items:
        if entry.get("job") == job and entry["type"] != "job.redriven":
            return f"{entry['type']} at {entry['at']}, {entry['reason']}"
    return None


def _paying(bookings: Bookings, manner: Manner, foreseen: Foreseen, job: str) -> Paying | None:
    """None for a job that is no payment's, or whose payment was not decided."""
    number = payment_number(job)
    if number is None:
        return None
    new = (payment for step in foreseen.steps for payment in step.payments if payment.number == number)
    payment = next(new, None) or _decided(bookings, foreseen.before, number)
    if payment is None:
        return None
    return Paying(
        payment=of_payout(bookings, foreseen.before, payment),
        chef=chefs.load(bookings.table, payment.chef_id),
        switch=chefs.switch(bookings.table),
        by_event=manner.by_event,
        needs_account=manner.needs_account,
    )


def _decided(bookings: Bookings, booking: Booking, number: int) -> Payment | None:
    try:
        return bookings.numbered_payment(booking.booking_id, number)
    except NotFound:
        return None
