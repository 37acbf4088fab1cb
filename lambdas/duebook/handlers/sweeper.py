"""Every few minutes: wake what is overdue, publish what is stuck, count what waits for people."""

from typing import Any

from aws_lambda_powertools.metrics import MetricUnit

from duebook import wiring
from duebook.handlers.support import count, logger, metrics
from duebook.service.sweep import sweep

ENOUGH_MS = 8_000
"""No new page is begun with less time left than this."""


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    swept = sweep(
        wiring.bookings(), wiring.queues(), wiring.bus(), lambda: context.get_remaining_time_in_millis() > ENOUGH_MS
    )
    count("JobsSwept", swept.woken)
    count("EventsRepublished", swept.published)
    count("EventsStuck", swept.unpublished)
    count("OldestOverdueJob", swept.oldest.total_seconds(), MetricUnit.Seconds)
    for waiting in swept.waiting:
        count("AttentionRows", waiting.rows, kind=waiting.kind)
        count("OldestAttention", waiting.oldest.total_seconds(), MetricUnit.Seconds, kind=waiting.kind)
    result = {
        "woken": swept.woken,
        "oldest_seconds": int(swept.oldest.total_seconds()),
        "published": swept.published,
        "unpublished": swept.unpublished,
        "complete": swept.complete,
    }
    logger.info("swept", extra=result)
    return result
