"""The lifecycle lane: deadlines, closings, completions and own jobs."""

from typing import Any

from duebook import wiring
from duebook.handlers.support import Batch, metrics
from duebook.handlers.worker import work
from duebook.service.wake import wake


@metrics.log_metrics
def handler(event: dict[str, Any], context: object) -> Batch:
    """SQS batch of wake-ups → partial batch response."""
    return work(
        event, wiring.bookings, lambda wake_up, source: wake(wiring.bookings(), wiring.queues(), wake_up, source)
    )
