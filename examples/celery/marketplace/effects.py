"""What happens at an instant, whoever's clock says so. The state is checked first, on purpose."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from .models import CLOSED, PAID, PAID_OUT, PAY_AFTER, Booking, Payout

CLOSE_EVENT, PAY_CHEF = "end_event", "pay_chef"
_FROM_END = {CLOSE_EVENT: timedelta(), PAY_CHEF: PAY_AFTER}
_WAITS_FOR = {PAID: (CLOSE_EVENT, PAY_CHEF), CLOSED: (PAY_CHEF,)}


def jobs_for(booking: Booking) -> Mapping[str, datetime]:
    """What is still to happen to a booking, and when. This, and no message, is the schedule."""
    return {job: booking.event_end + _FROM_END[job] for job in _WAITS_FOR.get(booking.state, ())}


def act(session: Session, booking: Booking, job: str, now: datetime) -> str:
    """Do what is due within the caller's transaction; a sentence says what was done, or why nothing was."""
    run_at = jobs_for(booking).get(job)
    if run_at is None:
        return f"ignored: a booking that is {booking.state} has no {job}"
    if run_at > now:
        return f"ignored: {job} is not due before {run_at:%Y-%m-%d %H:%M}"
    if job == CLOSE_EVENT:
        booking.state = CLOSED
        return "the event is closed"
    booking.state = PAID_OUT
    session.add(Payout(booking_id=booking.id, amount_minor=booking.price_minor, decided_at=now))
    return "the chef is paid"
