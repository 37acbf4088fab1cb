"""The decisions of the stream poller, as AWS documents them for DynamoDB event sources."""

from typing import Any

import pytest

from local.streams import Reader, first_failure, settle

REPORTING = {"FunctionResponseTypes": ["ReportBatchItemFailures"]}


def records(count: int) -> list[dict[str, Any]]:
    return [{"dynamodb": {"SequenceNumber": str(number)}} for number in range(count)]


@pytest.mark.parametrize(
    ("result", "mapping", "expected"),
    [
        ({"body": None}, {}, None),
        ({"error": True, "body": {}}, {}, 0),
        ({"error": True, "body": {}}, REPORTING, 0),
        ({"body": {"batchItemFailures": []}}, REPORTING, None),
        ({"body": None}, REPORTING, None),
        ({"body": {"batchItemFailures": [{"itemIdentifier": "2"}]}}, REPORTING, 2),
        ({"body": '{"batchItemFailures": [{"itemIdentifier": "2"}, {"itemIdentifier": "1"}]}'}, REPORTING, 1),
        ({"body": {"batchItemFailures": [{"itemIdentifier": "2"}]}}, {}, None),
        ({"body": {"batchItemFailures": [{"itemIdentifier": "unknown"}]}}, REPORTING, 0),
        ({"body": {"batchItemFailures": [{"itemIdentifier": ""}]}}, REPORTING, 0),
    ],
)
def test_the_first_failure_is_found(result: dict[str, Any], mapping: dict[str, Any], expected: int | None) -> None:
    assert first_failure(result=result, mapping=mapping, records=records(4)) == expected


def test_a_batch_without_failure_is_done() -> None:
    assert settle(reader=Reader(), mapping={}, records=records(3), failed_at=None) == (3, False)


def test_records_before_the_first_failure_are_done() -> None:
    assert settle(reader=Reader(), mapping={}, records=records(3), failed_at=2) == (2, False)


def test_a_failing_batch_is_split_without_counting_as_a_retry() -> None:
    reader = Reader()
    mapping = {"BisectBatchOnFunctionError": True, "MaximumRetryAttempts": 0}
    assert settle(reader=reader, mapping=mapping, records=records(3), failed_at=0) == (0, False)
    assert (reader.window, reader.attempts) == (2, 0)


def test_a_record_is_given_up_after_its_retries() -> None:
    reader = Reader(window=1)
    mapping = {"BisectBatchOnFunctionError": True, "MaximumRetryAttempts": 2}
    outcomes = [settle(reader=reader, mapping=mapping, records=records(1), failed_at=0) for _ in range(3)]
    assert outcomes == [(0, False), (0, False), (1, True)]
    assert reader == Reader()


@pytest.mark.parametrize("mapping", [{}, {"MaximumRetryAttempts": -1}])
def test_without_a_bound_it_is_retried_for_ever(mapping: dict[str, Any]) -> None:
    reader = Reader()
    outcomes = {settle(reader=reader, mapping=mapping, records=records(1), failed_at=0) for _ in range(100)}
    assert outcomes == {(0, False)}
