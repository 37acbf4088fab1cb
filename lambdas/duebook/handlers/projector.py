"""Job rows become schedules, and `watch_dispute` an execution too: woken by the stream and the projection queue."""

import json
from collections.abc import Mapping
from typing import Any

from duebook import wiring
from duebook.domain.errors import DuebookError
from duebook.domain.names import WATCH_DISPUTE
from duebook.handlers.support import Batch, count, each, logger, message_id, metrics, sequence_number
from duebook.service.project import project
from duebook.service.rows import JOB_PREFIX


@metrics.log_metrics
def handler(event: dict[str, Any], context: object) -> Batch:
    """DynamoDB stream batch, or SQS batch of `{booking_id, job}` → partial batch response."""
    records = event["Records"]
    if records and records[0]["eventSource"] == "aws:sqs":
        return each(records, message_id, _from_queue)
    return each(records, sequence_number, _from_stream)


def _from_queue(record: Mapping[str, Any]) -> None:
    key = json.loads(record["body"])
    _project(key["booking_id"], key["job"], is_new=False)


def _from_stream(record: Mapping[str, Any]) -> None:
    """A job row appeared, disappeared or has another generation; bookkeeping changes none of it: there is no loop.

    One that fails goes as a key to the projection queue, so that it does not hold up its neighbours in the shard.
    """
    change = record["dynamodb"]
    booking_id, sk = change["Keys"]["pk"]["S"], change["Keys"]["sk"]["S"]
    if not sk.startswith(JOB_PREFIX) or _facts(change.get("OldImage")) == _facts(change.get("NewImage")):
        return
    job = sk.removeprefix(JOB_PREFIX)
    try:
        _project(booking_id, job, is_new="OldImage" not in change)
    except DuebookError as error:
        logger.warning("projection put off", extra={"booking_id": booking_id, "job": job, "code": error.code})
        count("ProjectionsPutOff")
        wiring.queues().project(booking_id, job)


def _project(booking_id: str, job: str, *, is_new: bool) -> None:
    done = project(wiring.bookings(), wiring.schedules(), wiring.queues(), booking_id, job, is_new=is_new)
    logger.info("projected", extra={"booking_id": booking_id, "job": job, "reason": done})
    if job == WATCH_DISPUTE:
        started = wiring.disputes().start(booking_id)
        logger.info("dispute's workflow", extra={"booking_id": booking_id, "reason": started})


def _facts(image: Mapping[str, Any] | None) -> object:
    return (image["generation"]["N"], image["status"]["S"]) if image else None
