"""The table port over both: the twin, and the adapter over a table on moto that is as the stack makes it."""

from collections.abc import Callable
from datetime import UTC, datetime

from duebook.adapters.memory import PROJECTED
from duebook.adapters.table import INDEXES, DynamoTable
from tests.integration.conftest import Client

NOW = datetime(2026, 8, 1, 10, tzinfo=UTC)
BOTH = ("in memory", "DynamoDB")


def now() -> datetime:
    """August 2026."""
    return NOW


def on_dynamodb(client: Client, name: str, sleep: Callable[[float], None] = lambda _: None) -> DynamoTable:
    keys = {"pk", "sk", *(key for pair in INDEXES.values() for key in pair)}
    client("dynamodb").create_table(
        TableName=name,
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in sorted(keys)],
        KeySchema=_schema("pk", "sk"),
        GlobalSecondaryIndexes=[
            {
                "IndexName": index,
                "KeySchema": _schema(*pair),
                "Projection": {"ProjectionType": "ALL"}
                if index == "day"
                else {"ProjectionType": "INCLUDE", "NonKeyAttributes": sorted(PROJECTED - keys)},
            }
            for index, pair in INDEXES.items()
        ],
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )
    return DynamoTable(client("dynamodb"), name, sleep)


def _schema(partition: str, sort: str) -> list[dict[str, str]]:
    return [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]
