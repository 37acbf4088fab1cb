"""The table's stream: the twin's records have the shape of DynamoDB's (on moto)."""

from collections.abc import Callable
from typing import Any

import pytest

from duebook.adapters.memory import MemoryTable
from duebook.adapters.table import from_image
from duebook.service.ports import Delete, If, Put, Table, Update, Write
from tests.integration.conftest import Client
from tests.integration.tables import BOTH, now, on_dynamodb

Read = Callable[[], list[dict[str, Any]]]


@pytest.fixture(params=BOTH)
def streamed(request: pytest.FixtureRequest, fresh: Callable[[str], str]) -> tuple[Table, Read]:
    """A table and what is in its stream."""
    if request.param == "in memory":
        twin = MemoryTable(now)
        return twin, lambda: list(twin.stream)
    client: Client = request.getfixturevalue("client")
    name = fresh("duebook")
    return on_dynamodb(client, name), lambda: _records(client, name)


def test_every_change_is_a_record_with_keys_and_images(streamed: tuple[Table, Read]) -> None:
    table, read = streamed
    row = {"pk": "b1", "sk": "job#x", "generation": 1, "flag": True, "list": ["a", 1], "map": {"b": 2}}
    table.write(Put(item=row))
    table.write(Update(pk="b1", sk="job#x", set={"generation": 2}, remove=("map",)))
    table.write(Delete(pk="b1", sk="job#x"))
    records = read()
    assert [record["eventName"] for record in records] == ["INSERT", "MODIFY", "REMOVE"]
    assert all(
        record["dynamodb"]["Keys"] == {"pk": {"S": "b1"}, "sk": {"S": "job#x"}}
        and record["dynamodb"]["StreamViewType"] == "NEW_AND_OLD_IMAGES"
        and record["eventSource"] == "aws:dynamodb"
        for record in records
    )
    images = [(record["dynamodb"].get("OldImage"), record["dynamodb"].get("NewImage")) for record in records]
    changed = {"pk": "b1", "sk": "job#x", "generation": 2, "flag": True, "list": ["a", 1]}
    assert [[image and from_image(image) for image in pair] for pair in images] == [
        [None, row],
        [row, changed],
        [changed, None],
    ]
    assert images[0][1]["list"] == {"L": [{"S": "a"}, {"N": "1"}]}


# No update that makes its row: moto's record of it has the key alone.
SCRIPT: list[Write] = [
    Put(item={"pk": "b1", "sk": "job#x", "n": -7, "flag": False, "empty": "", "map": {"list": [1, {"a": None}]}}),
    Update(pk="b1", sk="job#x", set={"n": 10**20, "due_pk": "d", "due_sk": "1"}, remove=("map",)),
    Put(item={"pk": "b1", "sk": "made", "text": "☕"}),
    Put(item={"pk": "b1", "sk": "job#x", "n": 1}, condition=If(exists=True)),
    Put(item={"pk": "b2", "sk": "booking"}, condition=If(absent=True)),
    Delete(pk="b1", sk="made", condition=If(equals={"text": "☕"})),
    Delete(pk="b1", sk="never"),
    Delete(pk="b1", sk="job#x"),
]


def test_the_same_writes_give_the_same_records(client: Client, fresh: Callable[[str], str]) -> None:
    """But for what each AWS makes up itself: ids, numbers, instants, sizes."""
    twin, name = MemoryTable(now), fresh("duebook")
    real = on_dynamodb(client, name)
    for write in SCRIPT:
        twin.write(write)
        real.write(write)
    made, wanted = list(twin.stream), _records(client, name)
    assert len(made) == 7
    for mine, theirs in zip(made, wanted, strict=True):
        assert mine["eventName"] == theirs["eventName"]
        assert theirs.keys() <= mine.keys()
        same = {"Keys", "OldImage", "NewImage", "StreamViewType"}
        assert mine["dynamodb"].keys() | {"SizeBytes"} == theirs["dynamodb"].keys()
        assert {at: mine["dynamodb"][at] for at in same & mine["dynamodb"].keys()} == {
            at: theirs["dynamodb"][at] for at in same & theirs["dynamodb"].keys()
        }


def test_records_are_numbered_in_order(streamed: tuple[Table, Read]) -> None:
    table, read = streamed
    for version in range(12):
        table.write(Put(item={"pk": "b1", "sk": "booking", "version": version}))
    numbers = [int(record["dynamodb"]["SequenceNumber"]) for record in read()]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 12


def test_a_transaction_gives_a_record_for_each_row_and_a_failed_one_none(streamed: tuple[Table, Read]) -> None:
    table, read = streamed
    table.write(Put(item={"pk": "b1", "sk": "a"}), Put(item={"pk": "b1", "sk": "b"}))
    with pytest.raises(Exception, match="condition"):
        table.write(Put(item={"pk": "b1", "sk": "c"}), Put(item={"pk": "b1", "sk": "a"}, condition=If(absent=True)))
    assert [record["dynamodb"]["Keys"]["sk"]["S"] for record in read()] == ["a", "b"]


def test_deleting_what_is_not_there_gives_no_record(streamed: tuple[Table, Read]) -> None:
    table, read = streamed
    table.write(Delete(pk="b1", sk="a"))
    assert read() == []


def _records(client: Client, name: str) -> list[dict[str, Any]]:
    arn = client("dynamodb").describe_table(TableName=name)["Table"]["LatestStreamArn"]
    streams = client("dynamodbstreams")
    (shard,) = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    at = streams.get_shard_iterator(StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON")
    found: list[dict[str, Any]] = streams.get_records(ShardIterator=at["ShardIterator"])["Records"]
    return found
