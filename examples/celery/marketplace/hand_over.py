"""The move: first the bookings are handed over, one by one; then the broker's old messages are thrown away.

The bookings come from the database, never from the messages: what Redis lost is found again here, and what it holds
twice is handed over once. It may be killed anywhere and run again.
"""

from dataclasses import dataclass, field

from celery import Celery
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from duebook_client import Duebook

from .effects import CLOSE_EVENT, PAY_CHEF, jobs_for
from .models import CELERY, DUEBOOK, Booking

_OURS = {f"marketplace.{job}" for job in (CLOSE_EVENT, PAY_CHEF)}


def hand_over(sessions: sessionmaker[Session], duebook: Duebook, *, most: int = 100) -> int:
    """Hand the next `most` bookings to Duebook; how many there were, so 0 when all is done.

    Jobs first, then the row. Until the row is written Celery acts, and Duebook's event comes again; from then on
    Duebook acts, and Celery's message does nothing. A PUT that is repeated changes nothing.
    """
    with sessions() as session:
        waiting = select(Booking.id).where(Booking.clock == CELERY).order_by(Booking.id).limit(most)
        ids = session.scalars(waiting).all()
    for booking_id in ids:
        with sessions.begin() as session:
            booking = session.get_one(Booking, booking_id)
            for job, run_at in jobs_for(booking).items():
                duebook.put_job(booking.id, job, run_at, revision=booking.version)
            booking.clock = DUEBOOK
    return len(ids)


@dataclass
class Drained:
    """Messages thrown away (task and booking), and how many of others were put back."""

    dropped: list[tuple[str, str]] = field(default_factory=list)
    kept: int = 0


def drain(app: Celery, sessions: sessionmaker[Session], *, queue: str = "celery") -> Drained:
    """Throw away each message whose booking Duebook has; put back every other. Once through the queue.

    Stop the workers first with TERM: they give back what they hold. What a killed worker held comes back after the
    visibility timeout; run this again then, or leave it: the task's question makes it harmless.
    """
    drained = Drained()
    with app.connection_for_read() as connection, connection.channel() as channel:
        here = app.amqp.queues[queue].bind(channel)
        kept = []
        for _ in range(here.queue_declare().message_count):
            message = here.get()
            if message is None:
                break
            task = message.headers["task"]
            booking_id = message.payload[0][0] if task in _OURS else None
            if booking_id is not None and _is_duebooks(sessions, booking_id):
                message.ack()
                drained.dropped.append((task, booking_id))
            else:
                kept.append(message)
        for message in kept:
            message.requeue()
        drained.kept = len(kept)
    return drained


def _is_duebooks(sessions: sessionmaker[Session], booking_id: str) -> bool:
    with sessions() as session:
        booking = session.get(Booking, booking_id)
        return booking is not None and booking.clock == DUEBOOK
