"""The lifecycle lane: deadlines, closings, completions, own jobs, and the second look at disputes."""

from typing import Any

from duebook import wiring
from duebook.domain.names import WATCH_DISPUTE
from duebook.handlers.support import Batch, metrics
from duebook.handlers.worker import work
from duebook.service.ports import WakeUp
from duebook.service.wake import Woken, wake


@metrics.log_metrics
def handler(event: dict[str, Any], context: object) -> Batch:
    """SQS batch of wake-ups → partial batch response."""
    return work(event, wiring.bookings, _act)


def _act(wake_up: WakeUp, source: str) -> Woken:
    if wake_up.job == WATCH_DISPUTE:
        return wiring.disputes().watch(wiring.queues(), wake_up, source)
    return wake(wiring.bookings(), wiring.queues(), wake_up, source)
