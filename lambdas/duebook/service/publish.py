"""Events out: every history row is published at least once, and until the bus accepts it, it is in the outbox."""

import contextlib
from collections.abc import Sequence
from datetime import datetime

from duebook.domain.errors import ConditionFailed
from duebook.service import rows
from duebook.service.backoff import backoff
from duebook.service.bookings import Bookings
from duebook.service.ports import Bus, If, Item, Update

REFUSED = frozenset(
    {
        "AccessDeniedException",
        "InvalidAccountIdException",
        "InvalidArgument",
        "MalformedDetail",
        "NotAuthorizedForDetailTypeException",
        "NotAuthorizedForSourceException",
        "RedactionFailure",
    }
)
"""Why the bus does not take an event that another attempt in a moment cannot mend: what EventBridge calls its
non-retryable errors (API reference, PutEventsResultEntry)."""


def publish(bookings: Bookings, bus: Bus, history: Sequence[Item]) -> list[str | None]:
    """Publish history rows; per row None, or why the bus did not take it. A repeat is a repeat of the same event id."""
    now = bookings.clock()
    answers = bus.publish([rows.event_of(row) for row in history])
    for row, failure in zip(history, answers, strict=True):
        if failure is None:
            with contextlib.suppress(ConditionFailed):
                bookings.table.write(rows.published(row, now))
    return list(answers)


def put_off(bookings: Bookings, row: Item, failure: str, now: datetime) -> None:
    """The bus did not take an event again: it stays in the outbox, with its reason, for later.

    Unless it left the outbox meanwhile, because the stream's publisher was luckier.
    """
    attempts = row.get("attempts", 0) + 1
    at = now + backoff(attempts + 1)
    values = {"attempts": attempts, "last_failure": failure, "since": row["at"]}
    later = Update(
        pk=row["pk"],
        sk=row["sk"],
        condition=If(equals={"attention_sk": row["attention_sk"]}),
        set={**values, **rows.outbox_keys(row["booking_id"], row["version"], at)},
    )
    with contextlib.suppress(ConditionFailed):
        bookings.table.write(later)
