"""The payments lane: calls to whoever moves the money, kept apart because they may be slow."""

from typing import Any

from aws_lambda_powertools.metrics import MetricUnit

from duebook import wiring
from duebook.domain.names import payment_number
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
    _tell_age(woken, wake_up)
    return woken


def _tell_age(woken: Woken, wake_up: WakeUp) -> None:
    """How long an open payment is unknown, told at each of its attempts: the worker has it in hand, and they are never
    more than 12 hours apart, so nothing has to be searched for the oldest one."""
    number = payment_number(wake_up.job)
    if woken.booking is None or number is None or wake_up.job not in woken.booking.planned:
        return
    unknown = wiring.bookings().numbered_payment(wake_up.booking_id, number).unknown_for(wiring.utc_now())
    if unknown is not None:
        count("UnknownPaymentAge", unknown.total_seconds(), MetricUnit.Seconds)
