"""The payments lane: calls to whoever moves the money, kept apart because they may be slow."""

from typing import Any

from duebook import wiring
from duebook.handlers.support import Batch, metrics
from duebook.handlers.worker import work
from duebook.service.pay import wake_payment


@metrics.log_metrics
def handler(event: dict[str, Any], context: object) -> Batch:
    """SQS batch of wake-ups → partial batch response."""
    return work(
        event,
        wiring.bookings,
        lambda wake_up, source: wake_payment(wiring.bookings(), wiring.queues(), wiring.provider(), wake_up, source),
    )
