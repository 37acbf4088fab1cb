"""After: the same effects, when Duebook's event says that it is time."""

import logging
from collections.abc import Callable
from datetime import datetime

from sqlalchemy.orm import Session, sessionmaker

from duebook_client import EventReader

from .effects import act
from .models import DUEBOOK, Booking

_logger = logging.getLogger(__name__)


class NotYetOurs(Exception):
    """The job was put, and the booking is not handed over yet: the event comes again."""


def fire(sessions: sessionmaker[Session], job: str, booking_id: str, now: datetime) -> str:
    """Act on one `job.due`. Raises `NotYetOurs` for a booking whose hand-over stopped halfway: an event that were
    ignored would be lost, for Celery stops firing once the hand-over is done."""
    with sessions.begin() as session:
        booking = session.get(Booking, booking_id)
        if booking is None:
            return "ignored: there is no such booking"
        if booking.clock != DUEBOOK:
            raise NotYetOurs(f"{booking_id} is still {booking.clock}'s")
        return act(session, booking, job, now)


def consume_once(
    sessions: sessionmaker[Session], reader: EventReader, now: Callable[[], datetime], *, most: int = 100
) -> list[str]:
    """Deal with at most `most` events; what was done with each. A message is deleted after the commit, never before."""
    done = []
    for delivery in reader.read(most=most):
        try:
            with delivery as event:
                if event.type == "job.due" and event.job is not None:
                    done.append(fire(sessions, event.job, event.booking_id, now()))
        except Exception as error:
            _logger.warning("event %s comes again: %s", delivery.event.id, error)
    return done
