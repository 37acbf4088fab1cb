"""What can happen to a booking. Each change and the calls it asks for are one transaction."""

import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from .models import BOOKED, CANCELLED, Booking, Outbox

REMIND_GUEST = "remind_guest"
ASK_REVIEW = "ask_review"

_FROM_START = {REMIND_GUEST: timedelta(days=-2), ASK_REVIEW: timedelta(days=1)}


class Refused(Exception):
    """The change is not possible."""


def jobs_for(booking: Booking, now: datetime) -> Mapping[str, datetime | None]:
    """Every job a booking can have, and when it is to run. None: it is not to be there."""
    instants = {job: booking.event_start + offset for job, offset in _FROM_START.items()}
    return {job: at if booking.state == BOOKED and at > now else None for job, at in instants.items()}


def book(session: Session, guest: str, event_start: datetime, now: datetime) -> Booking:
    """A new booking. Raises `Refused`."""
    _in_the_future(event_start, now)
    booking = Booking(id=secrets.token_hex(8), guest=guest, event_start=event_start, state=BOOKED)
    session.add(booking)
    _ask_for_jobs(session, booking, now)
    return booking


def move(session: Session, booking: Booking, event_start: datetime, now: datetime) -> None:
    """The event takes place at another time. Raises `Refused`."""
    _in_the_future(event_start, now)
    if booking.state != BOOKED:
        raise Refused(f"the booking is {booking.state}")
    if booking.event_start != event_start:
        booking.event_start = event_start
        _ask_for_jobs(session, booking, now)


def cancel(session: Session, booking: Booking, now: datetime) -> None:
    """The event does not take place. Again is fine."""
    if booking.state != CANCELLED:
        booking.state = CANCELLED
        _ask_for_jobs(session, booking, now)


def _ask_for_jobs(session: Session, booking: Booking, now: datetime) -> None:
    session.flush()  # the booking has its new version from here on
    for job, run_at in jobs_for(booking, now).items():
        payload = {"version": booking.version}
        session.add(Outbox(booking_id=booking.id, job=job, version=booking.version, run_at=run_at, payload=payload))


def _in_the_future(event_start: datetime, now: datetime) -> None:
    if event_start <= now:
        raise Refused("the event is past")
