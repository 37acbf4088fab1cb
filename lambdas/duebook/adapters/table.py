"""The one DynamoDB table behind the `Table` port.

Sources: the DynamoDB API reference and developer guide. TransactWriteItems takes at most 100 actions and 4 MB and no
item twice; it is not repeated by SDKs when it is cancelled; its cancellation reasons come in item order, and `None` is
a string. An item has at most 400 KB.
"""

import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, assert_never

from botocore.exceptions import ClientError

from duebook.adapters import aws
from duebook.domain.errors import AwsFailure, ConditionFailed, Contention, DuebookError, Permanent, Throttled
from duebook.service.ports import ALWAYS, Check, Delete, If, Item, Page, Put, Update, Write

T = TypeVar("T")
Key = tuple[str, str]

MOST_WRITES = 100
LARGEST_ITEM = 400 * 1024
LARGEST_TRANSACTION = 4 * 1024 * 1024
MOST_TRIES = 4
FIRST_PAUSE = 0.05
"""Seconds; doubled with each try, and a random part of it is waited."""
INDEXES = {name: (f"{name}_pk", f"{name}_sk") for name in ("due", "attention", "day")}
"""Index → its partition and sort key."""

CANCELLED = "TransactionCanceledException"
_LONGEST_KEYS = {"pk": 2048, **{key: 2048 for key, _ in INDEXES.values()}}
_KEYS = ("pk", "sk", *(name for keys in INDEXES.values() for name in keys))
_KINDS: Mapping[str, type[AwsFailure]] = {
    "ProvisionedThroughputExceededException": Throttled,
    "RequestLimitExceeded": Throttled,
    "ThrottlingException": Throttled,
    "ProvisionedThroughputExceeded": Throttled,
    "ThrottlingError": Throttled,
    "TransactionConflict": Contention,
    "TransactionConflictException": Contention,
    "TransactionInProgressException": Contention,
}
"""Codes of answers, and of a cancelled transaction's reasons."""


def to_image(item: Mapping[str, Any]) -> dict[str, Any]:
    """A row as DynamoDB's typed values. Attributes that are None are left out, in maps too.

    Raises TypeError for what a row cannot hold: a float, bytes, a set, a key that is no text.
    """
    return {_text(name): _typed(value) for name, value in item.items() if value is not None}


def from_image(image: Mapping[str, Any]) -> Item:
    """The inverse of `to_image`. Raises ValueError for a number that is not whole."""
    return {name: _plain(value) for name, value in image.items()}


def checked(writes: Sequence[Write]) -> list[Key]:
    """The rows that are written, in order.

    Raises ValueError or TypeError for what DynamoDB refuses whatever is stored (the code is wrong, and a later version
    of it may do better), and `Permanent` for more than it can take (trying again cannot help).
    """
    keys = []
    for write in writes:
        match write:
            case Put():
                keys.append(check_row_key(write.item.get("pk"), write.item.get("sk")))
                _check_index_keys(write.item)
            case Update():
                keys.append(check_row_key(write.pk, write.sk))
                _check_update(write)
            case Check() if write.condition == ALWAYS:
                raise ValueError("a check needs a condition")
            case Delete() | Check():
                keys.append(check_row_key(write.pk, write.sk))
            case _:
                assert_never(write)
    if len(writes) > MOST_WRITES:
        raise Permanent(f"{len(writes)} writes in one transaction; DynamoDB takes {MOST_WRITES}")
    if len(set(keys)) != len(keys):
        raise ValueError("a transaction cannot write one row twice")
    return keys


def check_row_key(pk: Any, sk: Any) -> Key:
    """Raises as `checked` does."""
    for name, value in (("pk", pk), ("sk", sk)):
        _check_key(name, value)
    return pk, sk


def check_limit(limit: int) -> None:
    """Raises ValueError for a page of no rows, which DynamoDB refuses."""
    if limit < 1:
        raise ValueError(f"a page has at least 1 row, not {limit}")


def is_plain(writes: Sequence[Write]) -> bool:
    """Whether these writes go as one plain request: a single one that has no condition."""
    return len(writes) == 1 and not isinstance(writes[0], Check) and writes[0].condition == ALWAYS


def written(write: Write) -> Mapping[str, Any] | None:
    """What a write surely stores; an update leaves the rest of its row, whose size only DynamoDB knows."""
    match write:
        case Put():
            return write.item
        case Update():
            return write.set
        case _:
            return None


def check_sizes(items: Sequence[Mapping[str, Any]]) -> None:
    """Raises `Permanent` for a row above 400 KB or a transaction above 4 MB."""
    most = [size_at_most(item) for item in items]
    if max(most, default=0) <= LARGEST_ITEM and sum(most) <= LARGEST_TRANSACTION:
        return
    sizes = [size(item) for item in items]
    if max(sizes) > LARGEST_ITEM:
        raise Permanent(f"a row of {max(sizes)} bytes; DynamoDB takes {LARGEST_ITEM}")
    if sum(sizes) > LARGEST_TRANSACTION:
        raise Permanent(f"a transaction of {sum(sizes)} bytes; DynamoDB takes {LARGEST_TRANSACTION}")


def size(item: Mapping[str, Any]) -> int:
    """Bytes as DynamoDB counts them (developer guide, "Item sizes and formats"): names and values."""
    return sum(len(name.encode()) + _size(value) for name, value in item.items() if value is not None)


def size_at_most(item: Mapping[str, Any]) -> int:
    """A quick upper bound of `size`: no character has more than 4 bytes."""
    return 4 * len(repr(item))


class DynamoTable:
    """`client` is a low-level one; `sleep` (seconds) waits between tries of a write that another one held up.

    Beside the port's errors: `Throttled` (after the SDK's own repeats), `AwsFailure` for any other answer, which may
    pass (a refused request included: it can be one of code that is about to be rolled back).
    """

    def __init__(self, client: Any, name: str, sleep: Callable[[float], None] = time.sleep) -> None:
        self._client = client
        self._name = name
        self._sleep = sleep

    def get(self, pk: str, sk: str) -> Item | None:
        key = dict(zip(("pk", "sk"), check_row_key(pk, sk), strict=True))
        answer = _call(lambda: self._client.get_item(TableName=self._name, Key=to_image(key), ConsistentRead=True))
        return from_image(answer["Item"]) if "Item" in answer else None

    def write(self, *writes: Write) -> None:
        """A single unconditional write is a plain request: setting the same values again changes nothing.

        All else is a transaction, a single conditional write too: were it a plain request, the SDK's repeat after a
        time-out would meet its own effect and report a failed condition. A transaction's ClientRequestToken (good for
        10 minutes) makes every repeat, the SDK's and ours, succeed without a second effect. It costs twice the write
        units of the one row, on writes that are rare.
        """
        if not writes:
            return
        checked(writes)
        check_sizes([stored for write in writes if (stored := written(write)) is not None])
        actions = [_action(write, self._name) for write in writes]
        if is_plain(writes):
            ((name, parameters),) = actions
            call = {"Put": "put_item", "Update": "update_item", "Delete": "delete_item"}[name]
            self._bounded(lambda: getattr(self._client, call)(**parameters))
            return
        items = [{name: parameters} for name, parameters in actions]
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
        check_limit(limit)
        if low > high:
            return Page(items=[], after=None, scanned=0)
        partition, sort = INDEXES[index]
        values = {":pk": pk, ":low": low, ":high": high} if low else {":pk": pk, ":high": high}
        return self._page(
            self._client.query,
            IndexName=index,
            KeyConditionExpression=f"{partition} = :pk AND {sort} {'BETWEEN :low AND' if low else '<='} :high",
            ExpressionAttributeValues=to_image(values),
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
        check_limit(parameters["Limit"])
        if after is not None:
            parameters["ExclusiveStartKey"] = to_image(after)
        answer = _call(lambda: operation(TableName=self._name, **parameters))
        last = answer.get("LastEvaluatedKey")
        return Page(
            items=[from_image(image) for image in answer["Items"]],
            after=from_image(last) if last else None,
            scanned=answer["ScannedCount"],
        )

    def _bounded(self, request: Callable[[], Any]) -> None:
        """What the SDK does not repeat: a cancelled transaction, whatever the reason, and a write that met another."""
        for attempt in range(MOST_TRIES):
            try:
                _call(request)
                return
            except (Contention, Throttled) as error:
                repeated_by_sdk = isinstance(error, Throttled) and error.details["aws_code"] != CANCELLED
                if repeated_by_sdk or attempt == MOST_TRIES - 1:
                    raise
                self._sleep(random.uniform(0, FIRST_PAUSE * 2**attempt))


def _call(request: Callable[[], T]) -> T:
    def translating() -> T:
        try:
            return request()
        except ClientError as error:
            code = aws.code_of(error)
            if code == "ConditionalCheckFailedException":
                raise ConditionFailed(failed=[0]) from error
            if code == CANCELLED:
                raise _cancelled(error.response.get("CancellationReasons", [])) from error
            raise

    return aws.call("DynamoDB", _KINDS, translating)


def _cancelled(reasons: Sequence[Mapping[str, Any]]) -> DuebookError:
    """A condition that does not hold counts first: it tells the caller to look again, which serves a conflict too."""
    codes = [str(reason.get("Code", "None")) for reason in reasons]
    failed = [position for position, code in enumerate(codes) if code == "ConditionalCheckFailed"]
    if failed:
        return ConditionFailed(failed=failed)
    kinds = [_KINDS.get(code, AwsFailure) for code in codes if code != "None"]
    kind = next((kind for kind in (AwsFailure, Contention, Throttled) if kind in kinds), AwsFailure)
    named = ", ".join(sorted(set(codes) - {"None"}))
    return kind(f"DynamoDB cancelled the transaction: {named}", aws_code=CANCELLED, reasons=codes)


class _Expression:
    """Aliases for names and values, so that neither a reserved word nor a clash can spoil an expression."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: dict[str, Any] = {}

    def name(self, attribute: str) -> str:
        alias = f"#n{len(self.names)}"
        self.names[alias] = attribute
        return alias

    def value(self, value: Any) -> str:
        alias = f":v{len(self.values)}"
        self.values[alias] = _typed(value)
        return alias


def _action(write: Write, table: str) -> tuple[str, dict[str, Any]]:
    """One write as a named action of TransactWriteItems, whose parameters are also those of its plain call."""
    used = _Expression()
    parameters: dict[str, Any] = {"TableName": table}
    match write:
        case Put():
            name, parameters["Item"] = "Put", to_image(write.item)
        case Update():
            name, parameters["Key"] = "Update", to_image({"pk": write.pk, "sk": write.sk})
            parameters["UpdateExpression"] = _update(write, used)
        case Delete():
            name, parameters["Key"] = "Delete", to_image({"pk": write.pk, "sk": write.sk})
        case Check():
            name, parameters["Key"] = "ConditionCheck", to_image({"pk": write.pk, "sk": write.sk})
    condition = _condition(write.condition, used)
    if condition:
        parameters["ConditionExpression"] = condition
    if used.names:
        parameters["ExpressionAttributeNames"] = used.names
    if used.values:
        parameters["ExpressionAttributeValues"] = used.values
    return name, parameters


def _update(write: Update, used: _Expression) -> str:
    """Setting None removes, as putting None leaves out."""
    sets = [f"{used.name(name)} = {used.value(value)}" for name, value in write.set.items() if value is not None]
    removes = [used.name(name) for name in _removed(write)]
    parts = (["SET " + ", ".join(sets)] if sets else []) + (["REMOVE " + ", ".join(removes)] if removes else [])
    return " ".join(parts)


def _removed(write: Update) -> list[str]:
    return list(dict.fromkeys([*write.remove, *(name for name, value in write.set.items() if value is None)]))


def _condition(condition: If, used: _Expression) -> str:
    parts = []
    if condition.absent:
        parts.append("attribute_not_exists(pk)")
    if condition.exists:
        parts.append("attribute_exists(pk)")
    for attribute, value in condition.equals.items():
        name = used.name(attribute)
        if value is None:
            parts.append(f"(attribute_not_exists({name}) OR {name} = {used.value(None)})")
        else:
            parts.append(f"{name} = {used.value(value)}")
    return " AND ".join(parts)


def _check_key(name: str, value: Any) -> None:
    """DynamoDB takes 1 to 2,048 bytes for a partition key, 1 to 1,024 for a sort key, of the table and of indexes."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}; it must be text")
    if not value:
        raise ValueError(f"{name} is empty")
    if len(value) > 256 and len(value.encode()) > _LONGEST_KEYS.get(name, 1024):
        raise Permanent(f"{name} has {len(value.encode())} bytes; DynamoDB takes {_LONGEST_KEYS.get(name, 1024)}")


def _check_index_keys(values: Mapping[str, Any]) -> None:
    for name in _KEYS[2:]:
        if values.get(name) is not None:
            _check_key(name, values[name])


def _check_update(write: Update) -> None:
    if not write.set and not write.remove:
        raise ValueError("an update changes something")
    if {"pk", "sk"} & {*write.set, *write.remove}:
        raise ValueError("an update cannot change a row's key")
    both = [name for name in write.remove if write.set.get(name) is not None]
    if both:
        raise ValueError(f"an update cannot both set and remove {', '.join(both)}")
    _check_index_keys(write.set)


def _text(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{name!r} is no attribute's name")
    return name


def _typed(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"S": str.__str__(value)}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int):
        return {"N": str(int(value))}
    if value is None:
        return {"NULL": True}
    if isinstance(value, Mapping):
        return {"M": to_image(value)}
    if isinstance(value, list | tuple):
        return {"L": [_typed(item) for item in value]}
    raise TypeError(f"{value!r} is a {type(value).__name__}; a row holds text, whole numbers, bool, lists and maps")


def _plain(image: Mapping[str, Any]) -> Any:
    ((kind, value),) = image.items()
    match kind:
        case "S" | "BOOL":
            return value
        case "N":
            return int(value)
        case "M":
            return from_image(value)
        case "L":
            return [_plain(item) for item in value]
        case "NULL":
            return None
        case _:
            raise ValueError(f"a row holds no {kind}")


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode())
    if value is None or isinstance(value, bool):
        return 1
    if isinstance(value, int):
        return len(str(abs(value))) // 2 + 2
    if isinstance(value, Mapping):
        return 3 + sum(1 + len(name.encode()) + _size(item) for name, item in value.items())
    return 3 + sum(1 + _size(item) for item in value)
