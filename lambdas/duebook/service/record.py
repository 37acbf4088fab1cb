"""The recorder: what came of a wake-up that a worker could not do. The row is the verdict, never the queue."""

import json
import re
from dataclasses import dataclass
from datetime import timedelta

from duebook.domain.errors import ConditionFailed
from duebook.domain.names import BOOKING_ID, JOB_NAME
from duebook.domain.times import iso, parse
from duebook.service import rows
from duebook.service.backoff import backoff
from duebook.service.bookings import Bookings
from duebook.service.ports import Put, WakeUp

DEAD_AFTER = timedelta(hours=24)
"""A job dies only when its rounds of attempts span more than this: a bad deploy of an hour kills nothing."""
POISON_IS_KEPT = timedelta(days=90)
POISON_SHOWN = 4_096
"""Characters of an unreadable message that are kept."""
NO_VERSION = 10**10
"""A booking never has this many versions: history sorts them by ten digits."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """`verdict`: retried, dead, ignored or poison."""

    verdict: str
    reason: str


def record_failure(bookings: Bookings, wake_up: WakeUp, reason: str, *, permanent: bool = False) -> Recorded:
    """One round of attempts of a job has failed: wake it again later, or let it die."""
    row = bookings.job_row(wake_up.booking_id, wake_up.job)
    if row is None or row["generation"] != wake_up.generation or row["status"] != rows.PENDING:
        return Recorded("ignored", "the job is gone, done, moved or dead already")
    now = bookings.clock()
    attempts = row["attempts"] + 1
    failing_since = row.get("failing_since", iso(now))
    dead = permanent or now - parse(failing_since) > DEAD_AFTER
    more = {"attempts": attempts, "failing_since": failing_since}
    if dead:
        update = rows.job_dead(row, now, reason, **more)
    else:
        update = rows.job_wake_later(row, now + backoff(attempts), reason=reason, **more)
    try:
        bookings.table.write(update)
    except ConditionFailed:
        return Recorded("ignored", "the job changed meanwhile")
    return Recorded("dead" if dead else "retried", reason)


def record_poison(bookings: Bookings, queue: str, message_id: str, body: str) -> Recorded:
    """A message that nobody can read: kept for a person, in the attention index, with its reason."""
    now = bookings.clock()
    reason = "not a wake-up: the body is no {booking_id, job, generation}"
    item = {
        "pk": f"poison#{message_id}",
        "sk": "message",
        "queue": queue,
        "body": body[:POISON_SHOWN],
        "since": iso(now),
        "reason": reason,
        "expires_at": int((now + POISON_IS_KEPT).timestamp()),
        **rows.attention_keys(rows.DEAD, message_id, now),
    }
    bookings.table.write(Put(item=item))
    return Recorded("poison", reason)


def read_wake_up(body: str) -> WakeUp | None:
    """The wake-up in a message's body; None when it is not one, or names what no booking, job or version can be."""
    try:
        value = json.loads(body)
        booking_id, job, generation = value["booking_id"], value["job"], value["generation"]
        if not (re.fullmatch(BOOKING_ID, booking_id) and re.fullmatch(JOB_NAME, job)):
            return None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if type(generation) is not int or not 0 <= generation < NO_VERSION:
        return None
    return WakeUp(booking_id=booking_id, job=job, generation=generation)
