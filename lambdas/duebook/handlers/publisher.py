"""Events out: new history rows, from the table's stream to the bus."""

from typing import Any

from duebook import wiring
from duebook.adapters.table import from_image
from duebook.handlers.support import Batch, count, logger, metrics, sequence_number
from duebook.service.publish import REFUSED, publish
from duebook.service.rows import HISTORY_PREFIX


@metrics.log_metrics
def handler(event: dict[str, Any], context: object) -> Batch:
    """DynamoDB stream batch → partial batch response. What stays unpublished is in the outbox, for the sweeper.

    Lambda takes the earliest failure as its checkpoint: what follows it in the batch is published again too, as the
    same event ids (Lambda developer guide, "Partial batch response"). So the stream repeats only what may soon pass,
    and a refused event holds up nobody.
    """
    records = [
        record
        for record in event["Records"]
        if record["eventName"] == "INSERT" and record["dynamodb"]["Keys"]["sk"]["S"].startswith(HISTORY_PREFIX)
    ]
    answers = publish(
        wiring.bookings(), wiring.bus(), [from_image(record["dynamodb"]["NewImage"]) for record in records]
    )
    failed = [(record, failure) for record, failure in zip(records, answers, strict=True) if failure]
    for record, failure in failed:
        logger.warning("event not accepted", extra={"keys": record["dynamodb"]["Keys"], "code": failure})
    count("EventsPublished", len(records) - len(failed))
    again = [record for record, failure in failed if failure not in REFUSED]
    return {"batchItemFailures": [{"itemIdentifier": sequence_number(record)} for record in again]}
