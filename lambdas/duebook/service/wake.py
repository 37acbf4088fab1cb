"""The wake-up: what happens when a schedule, the sweeper or a queue says 'look at booking X'."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from duebook.domain import names
from duebook.domain.booking import Booking
from duebook.domain.errors import ConditionFailed, Contention, VersionConflict
from duebook.domain.payment import Outcome
from duebook.domain.times import iso
from duebook.service.bookings import MOST_TRIES, Bookings
from duebook.service.ports import Queues, WakeUp
from duebook.service.rows import Cause

LONGEST_DELAY = timedelta(minutes=15)
"""SQS: DelaySeconds is at most 900."""


@dataclass(frozen=True, slots=True)
class Woken:
    """What a wake-up came to, for the log. `booking`: None when there is none. `outcome`: the provider's."""

    booking: Booking | None
    reason: str
    transitions: int = 0
    outcome: Outcome | None = None


def wake(bookings: Bookings, queues: Queues, wake_up: WakeUp, source: str) -> Woken:
    """Apply everything that is due. A duplicate, late, reordered or stale wake-up is one consistent read.

    A job that is pending but not due (fired early, moved while its schedule was firing) is not lost: up to 15 minutes
    away it is sent again with that delay, further away its schedule is asserted again.
    """
    cause = Cause(source=source, job=wake_up.job, generation=wake_up.generation)
    for _ in range(MOST_TRIES):
        before = bookings.load(wake_up.booking_id)
        if before is None:
            return Woken(None, "no such booking: ignored")
        now = bookings.clock()
        try:
            after = bookings.caught_up(before, cause, now)
            assert after is not None
            after = bookings.refreshed(after, cause, now)
        except (ConditionFailed, Contention):
            continue
        reason = _pending(queues, after, wake_up.job, now)
        return Woken(after, reason, after.version - before.version)
    raise VersionConflict(f"{wake_up.booking_id} kept changing", booking_id=wake_up.booking_id)


def wake_at(queues: Queues, booking_id: str, job: str, generation: int, run_at: datetime, now: datetime) -> str:
    """Make sure that a pending job is woken at its instant; the reason says how."""
    left = run_at - now
    if left > LONGEST_DELAY:
        queues.project(booking_id, job)
        return f"not due before {iso(run_at)}: its schedule is asserted again"
    wake_up = WakeUp(booking_id=booking_id, job=job, generation=generation)
    delay = timedelta(seconds=math.ceil(max(left, timedelta()).total_seconds()))
    queues.wake(names.lane(job), wake_up, source="queue", delay=min(delay, LONGEST_DELAY))
    return f"due at {iso(run_at)}: sent again with that delay"


def _pending(queues: Queues, booking: Booking, job: str, now: datetime) -> str:
    planned = booking.planned.get(job)
    if planned is None:
        return f"{job} is not pending"
    if planned.run_at <= now:
        return f"{job} is due and has its own step"
    return wake_at(queues, booking.booking_id, job, planned.generation, planned.run_at, now)
