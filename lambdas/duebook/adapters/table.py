"""The one DynamoDB table behind the `Table` port.

Sources: the DynamoDB API reference (TransactWriteItems: at most 100 actions, 4 MB, no item twice; its cancellation
reasons come in item order, `None` is a string; it is not retried by SDKs when it is cancelled).
"""

import random
import time
import uuid
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError

from duebook.domain.errors import AwsFailure, ConditionFailed, Contention, Permanent, Throttled
from duebook.service.ports import Check, Delete, If, Item, Page, Put, Update, Write

T = TypeVar("T")

MOST_WRITES = 100
MOST_TRIES = 4
_THROTTLES = frozenset(
    {"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "ThrottlingError"}
)
_BUSY = frozenset({"TransactionConflict", "TransactionConflictException", "TransactionInProgressException"})
_INDEX_KEYS = {"due": ("due_pk", "due_sk"), "attention": ("attention_pk", "attention_sk")}


def to_image(item: Mapping[str, Any]) -> dict[str, Any]:
    """A row as DynamoDB's typed values; None is left out, so that a missing attribute and None are one."""
    serialize = _serializer().serialize
    return {name: serialize(_checked(value)) for name, value in item.items() if value is not None}


def from_image(image: Mapping[str, Any]) -> Item:
    """The inverse of `to_image`: numbers are whole."""
    return {name: _read(value) for name, value in image.items()}


class DynamoTable:
    """`sleep` waits between tries of a transaction that another one held up."""

    def __init__(self, client: Any, name: str, sleep: Callable[[float], None] = time.sleep) -> None:
        self._client = client
        self._name = name
        self._sleep = sleep

    def get(self, pk: str, sk: str) -> Item | None:
        answer = self._call(
            lambda: self._client.get_item(TableName=self._name, Key=to_image({"pk": pk, "sk": sk}), ConsistentRead=True)
        )
        return from_image(answer["Item"]) if "Item" in answer else None

    def write(self, *writes: Write) -> None:
        """A single unconditional write is a plain request; all else a transaction, whose token makes the SDK's own
        repeat after a time-out idempotent (ClientRequestToken holds for 10 minutes): a conditional write that took
        effect is never mistaken for one that failed."""
        if len(writes) > MOST_WRITES:
            raise Permanent(f"{len(writes)} writes in one transaction; DynamoDB takes {MOST_WRITES}")
        if len(writes) == 1 and _is_plain(writes[0]):
            name, parameters = _action(writes[0], self._name)
            call = {"Put": "put_item", "Update": "update_item", "Delete": "delete_item"}[name]
            self._bounded(lambda: getattr(self._client, call)(**parameters))
            return
        items = [{name: parameters} for name, parameters in (_action(write, self._name) for write in writes)]
        token = str(uuid.uuid4())
        self._bounded(lambda: self._client.transact_write_items(TransactItems=items, ClientRequestToken=token))

    def query(
        self, pk: str, prefix: str, *, after: Item | None = None, limit: int = 100, newest_first: bool = False
    ) -> Page:
        values = {":pk": pk, ":prefix": prefix} if prefix else {":pk": pk}
        return self._page(
            self._client.query,
            KeyConditionExpression="pk = :pk" + (" AND begins_with(sk, :prefix)" if prefix else ""),
            ExpressionAttributeValues=to_image(values),
            ConsistentRead=True,
            ScanIndexForward=not newest_first,
            Limit=limit,
            after=after,
        )

    def query_index(
        self, index: str, pk: str, *, low: str = "", high: str = "\uffff", after: Item | None = None, limit: int = 100
    ) -> Page:
        partition, sort = _INDEX_KEYS[index]
        return self._page(
            self._client.query,
            IndexName=index,
            KeyConditionExpression=f"{partition} = :pk AND {sort} BETWEEN :low AND :high",
            ExpressionAttributeValues=to_image({":pk": pk, ":low": low or " ", ":high": high}),
            Limit=limit,
            after=after,
        )

    def scan(
        self, *, index: str | None = None, sk: str | None = None, after: Item | None = None, limit: int = 500
    ) -> Page:
        more: dict[str, Any] = {"IndexName": index} if index else {"ConsistentRead": True}
        if sk is not None:
            more |= {"FilterExpression": "sk = :sk", "ExpressionAttributeValues": to_image({":sk": sk})}
        return self._page(self._client.scan, Limit=limit, after=after, **more)

    def _page(self, operation: Callable[..., Any], *, after: Item | None, **parameters: Any) -> Page:
        if after is not None:
            parameters["ExclusiveStartKey"] = to_image(after)
        answer = self._call(lambda: operation(TableName=self._name, **parameters))
        last = answer.get("LastEvaluatedKey")
        return Page(
            items=[from_image(image) for image in answer["Items"]],
            after=from_image(last) if last else None,
            scanned=answer["ScannedCount"],
        )

    def _bounded(self, call: Callable[[], Any]) -> None:
        for attempt in range(MOST_TRIES):
            try:
                self._call(call)
                return
            except Contention:
                if attempt == MOST_TRIES - 1:
                    raise
                self._sleep(random.uniform(0, 0.05 * 2**attempt))

    def _call(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except ClientError as error:
            raise _translated(error) from error


def _translated(error: ClientError) -> Exception:
    code = error.response["Error"]["Code"]
    if code == "ConditionalCheckFailedException":
        return ConditionFailed(failed=[0])
    if code == "TransactionCanceledException":
        reasons = [reason.get("Code", "None") for reason in error.response.get("CancellationReasons", [])]
        failed = [position for position, reason in enumerate(reasons) if reason == "ConditionalCheckFailed"]
        if failed:
            return ConditionFailed(failed=failed)
        if any(reason in _BUSY for reason in reasons):
            return Contention(aws_code=code, reasons=reasons)
        if any(reason in _THROTTLES or reason == "ProvisionedThroughputExceeded" for reason in reasons):
            return Throttled(aws_code=code, reasons=reasons)
        return Permanent(f"DynamoDB cannot take this transaction: {sorted(set(reasons))}", aws_code=code)
    if code in _BUSY:
        return Contention(aws_code=code)
    if code in _THROTTLES:
        return Throttled(aws_code=code)
    if code == "ValidationException":
        return Permanent(f"DynamoDB refuses the request: {error.response['Error']['Message']}", aws_code=code)
    return AwsFailure(f"DynamoDB answered {code}", aws_code=code)


def _is_plain(write: Write) -> bool:
    return not isinstance(write, Check) and write.condition == If()


def _action(write: Write, table: str) -> tuple[str, dict[str, Any]]:
    """One write as a named action of TransactWriteItems, or the parameters of its plain call."""
    names: dict[str, str] = {}
    values: dict[str, Any] = {}
    parameters: dict[str, Any] = {"TableName": table}
    match write:
        case Put():
            name, parameters["Item"] = "Put", to_image(write.item)
        case Update():
            name, parameters["Key"] = "Update", to_image({"pk": write.pk, "sk": write.sk})
            parameters["UpdateExpression"] = _update(write, names, values)
        case Delete():
            name, parameters["Key"] = "Delete", to_image({"pk": write.pk, "sk": write.sk})
        case Check():
            name, parameters["Key"] = "ConditionCheck", to_image({"pk": write.pk, "sk": write.sk})
    condition = _condition(write.condition, names, values)
    if condition:
        parameters["ConditionExpression"] = condition
    if names:
        parameters["ExpressionAttributeNames"] = names
    if values:
        parameters["ExpressionAttributeValues"] = to_image(values)
    return name, parameters


def _update(write: Update, names: dict[str, str], values: dict[str, Any]) -> str:
    def alias(attribute: str) -> str:
        names[f"#{attribute}"] = attribute
        return f"#{attribute}"

    for attribute, value in write.set.items():
        values[f":{attribute}"] = value
    parts = []
    if write.set:
        parts.append("SET " + ", ".join(f"{alias(attribute)} = :{attribute}" for attribute in write.set))
    if write.remove:
        parts.append("REMOVE " + ", ".join(alias(attribute) for attribute in write.remove))
    return " ".join(parts)


def _condition(condition: If, names: dict[str, str], values: dict[str, Any]) -> str:
    parts = []
    if condition.absent:
        parts.append("attribute_not_exists(pk)")
    if condition.exists:
        parts.append("attribute_exists(pk)")
    for attribute, value in condition.equals.items():
        names[f"#{attribute}"] = attribute
        if value is None:
            parts.append(f"attribute_not_exists(#{attribute})")
        else:
            values[f":if_{attribute}"] = value
            parts.append(f"#{attribute} = :if_{attribute}")
    return " AND ".join(parts)


def _checked(value: Any) -> Any:
    if isinstance(value, float):
        raise TypeError(f"{value!r} is a float; a row holds whole numbers")
    if isinstance(value, Mapping):
        return {name: _checked(item) for name, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_checked(item) for item in value]
    return value


def _read(image: Any) -> Any:
    (kind, value), *_ = image.items()
    if kind == "N":
        return int(value)
    if kind == "M":
        return from_image(value)
    if kind == "L":
        return [_read(item) for item in value]
    return _deserializer().deserialize(image)


@cache
def _serializer() -> TypeSerializer:
    return TypeSerializer()


@cache
def _deserializer() -> TypeDeserializer:
    return TypeDeserializer()
