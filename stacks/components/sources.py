"""Event sources: how queues and the table's stream reach a function's alias."""

import json
from collections.abc import Mapping
from typing import Any

from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.components.findings import ANY_RESOURCE, accept
from stacks.components.function import ServiceFunction
from stacks.components.lanes import may_consume, may_send
from stacks.components.storage import BookingTable

PARTIAL = ["ReportBatchItemFailures"]
"""A handler answers which messages failed, so one bad message never repeats its neighbours."""

STREAM_BATCH = 25
STREAM_RETRIES = 200
STREAM_HOURS = 6
"""A record whose function keeps failing as a whole (a bad deployment, not a bad record: handlers isolate those) is
retried for six hours, then its position is kept in the failures queue and its shard moves on. Unbounded, one record
blocks its shard for the stream's whole 24 hours."""


def consume_queue(
    scope: Construct,
    id: str,
    *,
    function: ServiceFunction,
    queue: sqs.Queue,
    batch: int,
    concurrency: int | None = None,
) -> None:
    """Send a queue's messages to a function, in partial batches and without a batching window.

    `concurrency`: the most invocations at once (2 to 1,000), which unlike reserved concurrency throttles nothing
    into the dead letters. Any window, even of one second, can hold a lone message for 20 s (Lambda developer guide).
    """
    function.allow(may_consume(queue))
    lambda_.CfnEventSourceMapping(
        scope,
        id,
        function_name=function.alias.function_arn,
        event_source_arn=queue.queue_arn,
        batch_size=batch,
        function_response_types=PARTIAL,
        scaling_config=None
        if concurrency is None
        else lambda_.CfnEventSourceMapping.ScalingConfigProperty(maximum_concurrency=concurrency),
    )


def follow_table(
    scope: Construct,
    id: str,
    *,
    function: ServiceFunction,
    table: BookingTable,
    failures: sqs.Queue,
    rows: str,
    now: Mapping[str, str] | None = None,
) -> None:
    """Send the table's changes to a function: of rows whose sort key begins with `rows`.

    `now`: attribute → how its text begins after the change. A filter may use the record's `dynamodb` key alone, so not
    `eventName` (Lambda developer guide, "Using event filtering with a DynamoDB event source"; AWS's own examples do).
    """
    function.allow(*table.may_read_stream(), may_send(failures))
    accept(function, ANY_RESOURCE, reason="ListStreams knows no resource.")
    image = {attribute: _begins_with(text) for attribute, text in (now or {}).items()}
    pattern = {"dynamodb": {"Keys": {"sk": _begins_with(rows)}, **({"NewImage": image} if image else {})}}
    mapping = lambda_.CfnEventSourceMapping
    mapping(
        scope,
        id,
        function_name=function.alias.function_arn,
        event_source_arn=table.stream_arn,
        starting_position="TRIM_HORIZON",
        batch_size=STREAM_BATCH,
        bisect_batch_on_function_error=True,
        maximum_retry_attempts=STREAM_RETRIES,
        maximum_record_age_in_seconds=STREAM_HOURS * 3600,
        function_response_types=PARTIAL,
        filter_criteria=mapping.FilterCriteriaProperty(
            filters=[mapping.FilterProperty(pattern=json.dumps(pattern, separators=(",", ":")))]
        ),
        destination_config=mapping.DestinationConfigProperty(
            on_failure=mapping.OnFailureProperty(destination=failures.queue_arn)
        ),
    )


def _begins_with(text: str) -> Mapping[str, Any]:
    """A filter rule for an attribute of text."""
    return {"S": [{"prefix": text}]}
