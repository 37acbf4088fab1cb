"""The payments lane: calls to whoever moves the money, kept apart because they may be slow."""

from typing import Any

from duebook import wiring
from duebook.domain.payment import Mismatched
from duebook.handlers.support import Batch, count, logger, metrics
from duebook.handlers.worker import work
from duebook.service.pay import wake_payment
from duebook.service.ports import WakeUp
from duebook.service.wake import Woken


@metrics.log_metrics
def handler(event: dict[str, Any], context: object) -> Batch:
    """SQS batch of wake-ups → partial batch response."""
    return work(event, wiring.bookings, _pay)


def _pay(wake_up: WakeUp, source: str) -> Woken:
    woken = wake_payment(wiring.bookings(), wiring.queues(), wiring.provider(), wake_up, source)
    if isinstance(woken.outcome, Mismatched):
        logger.error("payment mismatch", extra={"booking_id": wake_up.booking_id, "job": wake_up.job})
        count("PaymentMismatch")
    return woken
