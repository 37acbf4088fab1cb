"""What the two lanes' workers share: a message becomes a wake-up, and a typed permanent error kills its job."""

from collections.abc import Callable, Mapping
from typing import Any

from duebook.domain.errors import NewerRow, Permanent
from duebook.handlers.support import Batch, count, each, logger, message_id, source_of
from duebook.service.bookings import Bookings
from duebook.service.ports import WakeUp
from duebook.service.record import read_wake_up, record_failure
from duebook.service.wake import Woken


class Unreadable(ValueError):
    """The message is no wake-up; after its receives are used up, the recorder keeps it."""


def work(event: Mapping[str, Any], bookings: Callable[[], Bookings], act: Callable[[WakeUp, str], Woken]) -> Batch:
    """Act on each wake-up of an SQS batch."""

    def one(record: Mapping[str, Any]) -> None:
        wake_up = read_wake_up(record["body"])
        if wake_up is None:
            raise Unreadable(f"message {record['messageId']} is no wake-up")
        source = source_of(record)
        try:
            woken = act(wake_up, source)
        except NewerRow as error:
            # Nothing failed: the row stays due, and the sweeper wakes it until a worker runs that can read it.
            logger.warning("left to newer code", extra={**_names(wake_up), "reason": str(error)})
            count("WakeUpsLeft")
            return
        except Permanent as error:
            recorded = record_failure(bookings(), wake_up, str(error), permanent=True)
            logger.error("job is dead", extra={**_names(wake_up), "reason": str(error), "verdict": recorded.verdict})
            count("JobsDead")
            return
        logger.info(
            "woken", extra={**_names(wake_up), "source": source, "reason": woken.reason, "steps": woken.transitions}
        )

    return each(event["Records"], message_id, one)


def _names(wake_up: WakeUp) -> dict[str, Any]:
    return {"booking_id": wake_up.booking_id, "job": wake_up.job, "generation": wake_up.generation}
