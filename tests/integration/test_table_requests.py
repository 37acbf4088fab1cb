"""What the table's adapter asks of DynamoDB, where moto answers the same whatever is asked."""

from collections.abc import Callable
from typing import Any

import pytest

from duebook.adapters.table import DynamoTable
from duebook.service.ports import Check, Delete, If, Page, Put, Table, Update, Write

ROW = {"pk": "b1", "sk": "booking", "version": 3}


class Recorder:
    """A client whose calls are kept and answered with nothing found."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, operation: str) -> Callable[..., dict[str, Any]]:
        def call(**parameters: Any) -> dict[str, Any]:
            self.calls.append((operation, parameters))
            return {"Items": [], "ScannedCount": 0}

        return call


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def table(recorder: Recorder) -> DynamoTable:
    return DynamoTable(recorder, "duebook")


READS: dict[str, tuple[Callable[[Table], object], bool]] = {
    "get": (lambda table: table.get("b1", "booking"), True),
    "query": (lambda table: table.query("b1", "job#"), True),
    "scan": (lambda table: table.scan(), True),
    "query_index": (lambda table: table.query_index("due", "d"), False),
    "scan of an index": (lambda table: table.scan(index="due"), False),
}


@pytest.mark.parametrize(("read", "consistent"), READS.values(), ids=READS.keys())
def test_the_table_is_read_consistently_and_an_index_as_it_only_can_be(
    table: DynamoTable, recorder: Recorder, read: Callable[[Table], object], consistent: bool
) -> None:
    read(table)
    ((_, asked),) = recorder.calls
    assert asked.get("ConsistentRead", False) is consistent


def test_a_range_that_ends_before_it_begins_is_no_request_for_dynamodb_refuses_it(
    table: DynamoTable, recorder: Recorder
) -> None:
    assert table.query_index("due", "d", low="b", high="a") == Page(items=[], after=None, scanned=0)
    assert recorder.calls == []


def test_a_range_without_beginning_asks_for_no_empty_key_for_dynamodb_refuses_it(
    table: DynamoTable, recorder: Recorder
) -> None:
    table.query_index("due", "d", high="a")
    ((_, asked),) = recorder.calls
    assert asked["KeyConditionExpression"] == "due_pk = :pk AND due_sk <= :high"
    assert asked["ExpressionAttributeValues"] == {":pk": {"S": "d"}, ":high": {"S": "a"}}


def test_none_asks_for_a_missing_attribute_or_a_null_since_a_missing_one_equals_nothing(
    table: DynamoTable, recorder: Recorder
) -> None:
    table.write(Put(item=ROW, condition=If(exists=True, equals={"reason": None, "version": 2})))
    ((_, asked),) = recorder.calls
    put = asked["TransactItems"][0]["Put"]
    assert put["ConditionExpression"] == (
        "attribute_exists(pk) AND (attribute_not_exists(#n0) OR #n0 = :v0) AND #n1 = :v1"
    )
    assert put["ExpressionAttributeNames"] == {"#n0": "reason", "#n1": "version"}
    assert put["ExpressionAttributeValues"] == {":v0": {"NULL": True}, ":v1": {"N": "2"}}


PLAIN: dict[str, tuple[Write, str]] = {
    "put": (Put(item=ROW), "put_item"),
    "update": (Update(pk="b1", sk="booking", set={"version": 4}), "update_item"),
    "delete": (Delete(pk="b1", sk="booking"), "delete_item"),
}


@pytest.mark.parametrize(("write", "operation"), PLAIN.values(), ids=PLAIN.keys())
def test_a_single_write_without_condition_is_a_plain_request(
    table: DynamoTable, recorder: Recorder, write: Write, operation: str
) -> None:
    table.write(write)
    assert [call for call, _ in recorder.calls] == [operation]


GUARDED: dict[str, tuple[Write, ...]] = {
    "a condition": (Put(item=ROW, condition=If(absent=True)),),
    "a check": (Check(pk="b1", sk="booking", condition=If(exists=True)),),
    "two writes": (Put(item=ROW), Delete(pk="b1", sk="job#x")),
}


@pytest.mark.parametrize("writes", GUARDED.values(), ids=GUARDED.keys())
def test_every_other_write_is_a_transaction_with_a_token(
    table: DynamoTable, recorder: Recorder, writes: tuple[Write, ...]
) -> None:
    table.write(*writes)
    ((operation, asked),) = recorder.calls
    assert operation == "transact_write_items"
    assert len(asked["TransactItems"]) == len(writes)
    assert 1 <= len(asked["ClientRequestToken"]) <= 36


def test_what_is_refused_before_is_never_sent(table: DynamoTable, recorder: Recorder) -> None:
    with pytest.raises(ValueError, match="twice"):
        table.write(Put(item=ROW), Put(item=ROW))
    with pytest.raises(TypeError, match="float"):
        table.write(Put(item={**ROW, "price": 1.0}))
    table.write()
    assert recorder.calls == []
