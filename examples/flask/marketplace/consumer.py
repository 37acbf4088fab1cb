"""The consumer: an event says 'it is time to look'; whether anything is to be done, our own row says.

Events come at least once, in any order, and late: a guest may have cancelled or moved a moment before. So each event's
id is acted on once, and only if the booking is still what it was when the job was asked for.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session, sessionmaker

from duebook_client import Event, EventReader

from .bookings import ASK_REVIEW, REMIND_GUEST
from .models import BOOKED, Booking, Mail, SeenEvent

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Decision:
    """Whether to act on an event, and why or why not."""

    act: bool
    reason: str


@dataclass
class Consumed:
    """What one pass did. `failed`: left in the queue, to come again."""

    acted: int = 0
    ignored: int = 0
    failed: int = 0


def decide(event: Event, booking: Booking | None, now: datetime) -> Decision:
    """Compare a due job with the booking as it is."""
    if booking is None:
        return Decision(False, "there is no such booking here")
    if booking.state != BOOKED:
        return Decision(False, f"the booking is {booking.state}")
    if event.payload != {"version": booking.version}:
        return Decision(False, "the booking has changed since; its newer job counts")
    if event.job == REMIND_GUEST and now >= booking.event_start:
        return Decision(False, "a reminder after the event helps nobody")
    if event.job not in (REMIND_GUEST, ASK_REVIEW):
        return Decision(False, f"nothing to do for {event.job}")
    return Decision(True, "it is time")


def handle(session: Session, event: Event, now: datetime) -> Decision:
    """Act on one event within the caller's transaction."""
    if event.type != "job.due":
        return Decision(False, f"{event.type} is only told")
    if session.get(SeenEvent, event.id) is not None:
        return Decision(False, "seen before")
    booking = session.get(Booking, event.booking_id)
    decision = decide(event, booking, now)
    # Where another consumer has the same event in hand, one of the two commits fails on this key.
    session.add(SeenEvent(id=event.id, decision=decision.reason, seen_at=now))
    if decision.act and booking is not None:
        session.add(Mail(booking_id=booking.id, kind=event.job, guest=booking.guest))
    return decision


def consume_once(
    sessions: sessionmaker[Session], reader: EventReader, now: Callable[[], datetime], *, most: int = 100
) -> Consumed:
    """Deal with at most `most` events. A message is deleted after its transaction is committed, never before."""
    consumed = Consumed()
    for delivery in reader.read(most=most):
        try:
            with delivery as event, sessions.begin() as session:
                decision = handle(session, event, now())
        except Exception:
            _logger.exception("event %s failed and will come again", delivery.event.id)
            consumed.failed += 1
            continue
        _logger.info("event %s: %s", event.id, decision.reason)
        if decision.act:
            consumed.acted += 1
        else:
            consumed.ignored += 1
    return consumed
