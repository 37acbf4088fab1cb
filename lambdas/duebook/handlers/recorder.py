"""The lanes' dead-letter queues: each failure is noted on its job's row, which alone decides what comes next."""

from collections.abc import Mapping
from typing import Any

from duebook import wiring
from duebook.handlers.support import Batch, count, each, logger, message_id, metrics
from duebook.service.record import Recorded, read_wake_up, record_failure, record_poison


@metrics.log_metrics
def handler(event: dict[str, Any], context: object) -> Batch:
    """SQS batch from a lane's dead-letter queue → partial batch response."""
    return each(event["Records"], message_id, _record)


def _record(record: Mapping[str, Any]) -> None:
    wake_up = read_wake_up(record["body"])
    if wake_up is None:
        recorded = record_poison(wiring.bookings(), _queue(record), record["messageId"], record["body"])
    else:
        recorded = record_failure(wiring.bookings(), wake_up, f"every attempt of a round failed ({_queue(record)})")
    _tell(recorded, record["messageId"])


def _tell(recorded: Recorded, message: str) -> None:
    match recorded.verdict:
        case "dead":
            count("JobsDead")
        case "poison":
            count("PoisonMessages")
        case "retried":
            count("JobsRetried")
        case _:
            count("DeadLettersIgnored")
    logger.warning("dead letter", extra={"message_id": message, "verdict": recorded.verdict, "reason": recorded.reason})


def _queue(record: Mapping[str, Any]) -> str:
    return str(record["eventSourceARN"]).rpartition(":")[2]
