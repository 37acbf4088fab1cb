"""DynamoDB streams to Lambda as AWS delivers them: in order, split, bounded, then sent on.

Replaces MiniStack's poller (see `local.shims.table_streams_give_up`). One batch
of a mapping is in flight at a time, off the polling thread.
"""

import json
import time
from dataclasses import dataclass
from typing import Any

from ministack.core.concurrency import esm_wake, spawn_background
from ministack.services import dynamodb, lambda_svc

_RETRY_SECONDS = 0.5
_FOREVER = -1

Mapping = dict[str, Any]
Record = dict[str, Any]


@dataclass
class Reader:
    """What is remembered of one mapping between batches."""

    attempts: int = 0
    window: int | None = None
    """At most so many records in the next batch, after a split."""
    not_before: float = 0.0
    """Monotonic time of the next attempt."""
    busy: bool = False


readers: dict[str, Reader] = {}


def poll() -> bool:
    """Start a batch of every mapping that has changes to read; whether any started."""
    started = False
    for account, region, mapping in lambda_svc._iter_all_esms():
        account_token = lambda_svc._request_account_id.set(account)
        region_token = lambda_svc._request_region.set(region)
        try:
            started = _poll_one(mapping) or started
        finally:
            lambda_svc._request_account_id.reset(account_token)
            lambda_svc._request_region.reset(region_token)
    return started


def settle(
    *,
    reader: Reader,
    mapping: Mapping,
    records: list[Record],
    failed_at: int | None,
) -> tuple[int, bool]:
    """Judge one attempt: how many records are done, and whether they were given up.

    `failed_at` is the index of the first record that failed, None if none did.
    """
    if failed_at is None:
        _start_afresh(reader)
        return len(records), False
    if failed_at > 0:
        _start_afresh(reader)
        reader.attempts = 1
        return failed_at, False
    if mapping.get("BisectBatchOnFunctionError") and len(records) > 1:
        reader.window = (len(records) + 1) // 2
        return 0, False
    reader.attempts += 1
    most = mapping.get("MaximumRetryAttempts", _FOREVER)
    if most is None or most == _FOREVER or reader.attempts <= most:
        return 0, False
    _start_afresh(reader)
    return len(records), True


def first_failure(*, result: dict[str, Any], mapping: Mapping, records: list[Record]) -> int | None:
    """The index of the first failed record, by the function's error or its response."""
    if result.get("error"):
        return 0
    if "ReportBatchItemFailures" not in (mapping.get("FunctionResponseTypes") or []):
        return None
    body = result.get("body")
    if isinstance(body, str):
        body = json.loads(body)
    failures = (body or {}).get("batchItemFailures") or []
    if not failures:
        return None
    numbers = [record["dynamodb"]["SequenceNumber"] for record in records]
    named = [failure.get("itemIdentifier") for failure in failures]
    known = [numbers.index(number) for number in named if number in numbers]
    return min(known) if len(known) == len(named) else 0


def _poll_one(mapping: Mapping) -> bool:
    source = mapping["EventSourceArn"]
    if ":dynamodb:" not in source or not mapping.get("Enabled", True):
        return False
    table_name = source.split("/")[1]
    table = dynamodb._tables.get(table_name)
    function, _ = lambda_svc._get_func_record_for_qualifier(mapping["FunctionName"], mapping.get("Qualifier"))
    if function is None or not table or table.get("LatestStreamArn") != source:
        return False
    reader = readers.setdefault(mapping["UUID"], Reader())
    if reader.busy or time.monotonic() < reader.not_before:
        return False
    position = _position(mapping, table_name)
    size = min(reader.window or 10_000, mapping.get("BatchSize") or 100)
    batch = list(dynamodb.stream_records_since(table_name, position, size))
    if not batch:
        return False
    reader.busy = True
    spawn_background(_deliver, mapping, function, reader, position, batch, thread_name="duebook-stream")
    return True


def _deliver(mapping: Mapping, function: Any, reader: Reader, position: int, batch: list[Record]) -> None:
    try:
        wanted = lambda_svc._apply_filter_criteria(batch, mapping)
        if not wanted:
            _move(mapping, position + len(batch))
            return
        result = lambda_svc._execute_function(function, {"Records": wanted})
        failed_at = first_failure(result=result, mapping=mapping, records=wanted)
        done, given_up = settle(reader=reader, mapping=mapping, records=wanted, failed_at=failed_at)
        _report(mapping, wanted, result, failed_at)
        if given_up:
            lambda_svc._send_ddb_stream_failure_record(
                mapping,
                function,
                wanted,
                mapping["EventSourceArn"],
                result,
                "RetryAttemptsExhausted",
            )
        if failed_at is not None and not given_up:
            reader.not_before = time.monotonic() + _RETRY_SECONDS
        if done:
            after = len(batch) if done == len(wanted) else batch.index(wanted[done])
            _move(mapping, position + after)
    finally:
        reader.busy = False
        esm_wake.set()


def _report(mapping: Mapping, records: list[Record], result: dict[str, Any], failed_at: int | None) -> None:
    name = mapping["FunctionName"]
    outcome = "OK" if failed_at is None else f"FAILED at {failed_at}: {result.get('body')}"
    mapping["LastProcessingResult"] = outcome
    lambda_svc.logger.info(
        "stream: %s was given %d table changes: %s\n%s",
        name,
        len(records),
        outcome,
        result.get("log", ""),
    )


def _position(mapping: Mapping, table_name: str) -> int:
    horizon: int = dynamodb.stream_start_position(table_name)
    with lambda_svc._dynamodb_stream_positions_lock:
        known = lambda_svc._dynamodb_stream_positions.get(mapping["UUID"])
        if known is None:
            latest = mapping.get("StartingPosition", "LATEST") != "TRIM_HORIZON"
            known = dynamodb.stream_end_position(table_name) if latest else horizon
        position: int = max(horizon, known)
        lambda_svc._dynamodb_stream_positions[mapping["UUID"]] = position
    return position


def _move(mapping: Mapping, position: int) -> None:
    with lambda_svc._dynamodb_stream_positions_lock:
        lambda_svc._dynamodb_stream_positions[mapping["UUID"]] = position


def _start_afresh(reader: Reader) -> None:
    reader.attempts = 0
    reader.window = None
