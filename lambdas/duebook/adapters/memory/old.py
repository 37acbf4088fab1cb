"""In-memory twins of the adapters: the same behaviour on a virtual clock, and strict where AWS is strict.

They are held to the same contract tests as the real ones. Deterministic: no threads, no randomness.
"""

import copy
import json
import math
import re
from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from duebook.adapters.bus import SOURCE
from duebook.adapters.table import MOST_WRITES, from_image, to_image
from duebook.domain.errors import ConditionFailed, Permanent, ScheduleConflict
from duebook.service.ports import Check, Delete, If, Item, Page, Put, ScheduleRequest, Update, WakeUp, Write

Now = Callable[[], datetime]
Key = tuple[str, str]

LARGEST_ITEM = 400 * 1024
LARGEST_TRANSACTION = 4 * 1024 * 1024
INDEXES = {"due": ("due_pk", "due_sk"), "attention": ("attention_pk", "attention_sk")}
PROJECTED = frozenset(
    {
        *("pk", "sk", "due_pk", "due_sk", "attention_pk", "attention_sk"),
        *("booking_id", "job", "run_at", "wake_at", "status", "attempts", "generation", "lane", "reason", "since"),
        *("kind", "payment_id", "dispute_id", "failing_since"),
    }
)
"""What the indexes hold (INCLUDE); stacks/data_stack.py has the same list."""


class MemoryTable:
    """DynamoDB: conditions, atomic transactions and their limits, sparse indexes, and a stream of changes.

    `stream` grows with every change, as records in the JSON that Lambda gets; the reader takes them from it.
    `calls` counts requests by kind: get, put, update, delete, transact, query, query_index, scan.
    """

    def __init__(self, now: Now) -> None:
        self._now = now
        self._rows: dict[Key, Item] = {}
        self._partitions: dict[str, list[str]] = defaultdict(list)
        self._indexes: dict[str, dict[str, list[tuple[str, str, str]]]] = {name: defaultdict(list) for name in INDEXES}
        self._sequence = 0
        self.stream: list[dict[str, Any]] = []
        self.calls: Counter[str] = Counter()

    def get(self, pk: str, sk: str) -> Item | None:
        self.calls["get"] += 1
        return copy.deepcopy(self._rows.get((pk, sk)))

    def write(self, *writes: Write) -> None:
        if len(writes) > MOST_WRITES:
            raise Permanent(f"{len(writes)} writes in one transaction; DynamoDB takes {MOST_WRITES}")
        keys = [_key(write) for write in writes]
        if len(set(keys)) != len(keys):
            raise Permanent("a transaction cannot write one item twice")
        plain = len(writes) == 1 and not isinstance(writes[0], Check) and writes[0].condition == If()
        self.calls[type(writes[0]).__name__.lower() if plain else "transact"] += 1
        failed = [at for at, write in enumerate(writes) if not _holds(write.condition, self._rows.get(keys[at]))]
        if failed:
            raise ConditionFailed(failed=failed)
        after = [_applied(write, self._rows.get(key)) for write, key in zip(writes, keys, strict=True)]
        sizes = [_size(row) for row in after if row is not None]
        if max(sizes, default=0) > LARGEST_ITEM or sum(sizes) > LARGEST_TRANSACTION:
            raise Permanent("an item has at most 400 KB, a transaction 4 MB")
        for write, key, row in zip(writes, keys, after, strict=True):
            if not isinstance(write, Check):
                self._store(key, row)

    def query(
        self, pk: str, prefix: str, *, after: Item | None = None, limit: int = 100, newest_first: bool = False
    ) -> Page:
        self.calls["query"] += 1
        keys = self._partitions.get(pk, [])
        found = keys[bisect_left(keys, prefix) : bisect_right(keys, prefix + "\uffff")]
        if newest_first:
            found = [sk for sk in reversed(found) if after is None or sk < after["sk"]]
        elif after is not None:
            found = found[bisect_right(found, after["sk"]) :]
        rows = [copy.deepcopy(self._rows[(pk, sk)]) for sk in found[:limit]]
        return _page(rows, len(found) > limit, ("pk", "sk"))

    def query_index(
        self, index: str, pk: str, *, low: str = "", high: str = "\uffff", after: Item | None = None, limit: int = 100
    ) -> Page:
        self.calls["query_index"] += 1
        entries = self._indexes[index].get(pk, [])
        start = bisect_left(entries, (low,))
        if after is not None:
            start = max(start, bisect_right(entries, (after[INDEXES[index][1]], after["pk"], after["sk"])))
        end = bisect_right(entries, (high, "\uffff", "\uffff"))
        rows = [_projected(self._rows[(pk_, sk)]) for _, pk_, sk in entries[start : min(end, start + limit)]]
        return _page(rows, end - start > limit, ("pk", "sk", *INDEXES[index]))

    def scan(
        self, *, index: str | None = None, sk: str | None = None, after: Item | None = None, limit: int = 500
    ) -> Page:
        self.calls["scan"] += 1
        if index is None:
            keys = sorted(self._rows)
        else:
            keys = sorted((pk, sk_) for part in self._indexes[index].values() for _, pk, sk_ in part)
        start = bisect_right(keys, (after["pk"], after["sk"])) if after else 0
        rows = [copy.deepcopy(self._rows[key]) for key in keys[start : start + limit]]
        page = _page(rows, len(keys) - start > limit, ("pk", "sk"))
        kept = [row for row in page.items if sk is None or row["sk"] == sk]
        return Page(items=kept, after=page.after, scanned=page.scanned)

    def expire(self) -> None:
        """What time to live does, some day."""
        for key in [k for k, row in self._rows.items() if row.get("expires_at", math.inf) < self._now().timestamp()]:
            self._store(key, None)

    def _store(self, key: Key, row: Item | None) -> None:
        old = self._rows.get(key)
        if old is None and row is None:
            return
        for index, (partition, sort) in INDEXES.items():
            if old is not None and partition in old:
                self._indexes[index][old[partition]].remove((old[sort], *key))
            if row is not None and partition in row:
                insort(self._indexes[index][row[partition]], (row[sort], *key))
        if row is None:
            del self._rows[key]
            self._partitions[key[0]].remove(key[1])
        else:
            if old is None:
                insort(self._partitions[key[0]], key[1])
            self._rows[key] = row
        if old != row:
            self._record(key, old, row)

    def _record(self, key: Key, old: Item | None, new: Item | None) -> None:
        self._sequence += 1
        change: dict[str, Any] = {
            "Keys": to_image({"pk": key[0], "sk": key[1]}),
            "SequenceNumber": f"{self._sequence:021d}",
            "StreamViewType": "NEW_AND_OLD_IMAGES",
            "ApproximateCreationDateTime": int(self._now().timestamp()),
        }
        if old is not None:
            change["OldImage"] = to_image(old)
        if new is not None:
            change["NewImage"] = to_image(new)
        name = "INSERT" if old is None else "REMOVE" if new is None else "MODIFY"
        self.stream.append(
            {"eventID": str(self._sequence), "eventName": name, "eventSource": "aws:dynamodb", "dynamodb": change}
        )


class MemorySchedules:
    """EventBridge Scheduler: one group, full replacement, one-shot schedules that are deleted after they fired.

    Stricter than AWS on purpose: an instant that is past or within the minute raises ValueError, because whether AWS
    then fires is undocumented, so our code must never ask for it.
    """

    def __init__(self, now: Now) -> None:
        self._now = now
        self.requests: dict[str, ScheduleRequest] = {}
        self.calls: Counter[str] = Counter()
        self.fail: list[Exception] = []
        """Raised by the next calls, one each."""

    def create(self, request: ScheduleRequest) -> bool:
        self._called("create")
        self._check(request)
        if request.name in self.requests:
            return False
        self.requests[request.name] = request
        return True

    def replace(self, request: ScheduleRequest) -> bool:
        self._called("replace")
        self._check(request)
        if request.name not in self.requests:
            return False
        self.requests[request.name] = request
        return True

    def delete(self, name: str) -> bool:
        self._called("delete")
        return self.requests.pop(name, None) is not None

    def get(self, name: str) -> ScheduleRequest | None:
        self._called("get")
        return self.requests.get(name)

    def names(self, after: str | None) -> tuple[Sequence[str], str | None]:
        self._called("names")
        found = sorted(name for name in self.requests if after is None or name > after)
        return found[:100], found[99] if len(found) > 100 else None

    def due(self) -> list[ScheduleRequest]:
        """Fire what is due: each is handed over once and deleted."""
        now = self._now()
        fired = sorted((r for r in self.requests.values() if r.at <= now), key=lambda r: (r.at, r.name))
        for request in fired:
            del self.requests[request.name]
        return fired

    def _check(self, request: ScheduleRequest) -> None:
        if not re.fullmatch(r"[0-9a-zA-Z-_.]{1,64}", request.name):
            raise ValueError(f"{request.name!r} is no schedule name")
        if request.at.tzinfo is None or request.at.second or request.at.microsecond:
            raise ValueError(f"{request.at} is not an aware whole minute")
        if request.at <= self._now() + timedelta(minutes=1):
            raise ValueError(f"{request.at} is past or within a minute: what Scheduler does then is undocumented")

    def _called(self, kind: str) -> None:
        self.calls[kind] += 1
        if self.fail:
            raise self.fail.pop(0)


@dataclass(slots=True)
class Message:
    """One message of a queue, with what Lambda is told of it."""

    message_id: str
    body: str
    sent_at: datetime
    visible_at: datetime
    attributes: Mapping[str, Any] = field(default_factory=dict)
    receives: int = 0


class MemoryQueue:
    """One standard SQS queue: delay, visibility, and a dead-letter queue after `most_receives`.

    A moved message keeps its ORIGINAL enqueue time, and retention counts from that (SQS, dead-letter queues).
    """

    def __init__(
        self,
        name: str,
        now: Now,
        *,
        visibility: timedelta = timedelta(minutes=3),
        retention: timedelta = timedelta(days=14),
        most_receives: int = 5,
        dead_letters: "MemoryQueue | None" = None,
    ) -> None:
        self.name = name
        self._now = now
        self._visibility = visibility
        self._retention = retention
        self._most_receives = most_receives
        self._dead_letters = dead_letters
        self._sent = 0
        self.messages: list[Message] = []

    def send(self, body: str, *, delay: timedelta = timedelta(), attributes: Mapping[str, Any] | None = None) -> None:
        if not timedelta() <= delay <= timedelta(minutes=15):
            raise ValueError(f"a delay is 0 to 15 minutes, not {delay}")
        self._sent += 1
        now = self._now()
        self.messages.append(Message(f"{self.name}-{self._sent}", body, now, now + delay, attributes or {}))

    def receive(self, most: int = 10) -> list[dict[str, Any]]:
        """Visible messages as Lambda's records; each is hidden until deleted or its visibility ends."""
        now = self._now()
        self.messages = [message for message in self.messages if now - message.sent_at <= self._retention]
        records: list[dict[str, Any]] = []
        for message in list(self.messages):
            if message.visible_at > now or len(records) == most:
                continue
            message.receives += 1
            if self._dead_letters is not None and message.receives > self._most_receives:
                self.messages.remove(message)
                moved = Message(message.message_id, message.body, message.sent_at, now, message.attributes)
                self._dead_letters.messages.append(moved)
                continue
            message.visible_at = now + self._visibility
            records.append(self._record(message))
        return records

    def delete(self, message_id: str) -> None:
        self.messages = [message for message in self.messages if message.message_id != message_id]

    def finish(self, records: Sequence[Mapping[str, Any]], answer: Mapping[str, Any]) -> None:
        """What the event source mapping does with a partial batch response."""
        failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        for record in records:
            if record["messageId"] not in failed:
                self.delete(record["messageId"])

    def _record(self, message: Message) -> dict[str, Any]:
        attributes = {
            name: {"stringValue": value["StringValue"], "dataType": value["DataType"]}
            for name, value in message.attributes.items()
        }
        return {
            "messageId": message.message_id,
            "body": message.body,
            "messageAttributes": attributes,
            "attributes": {
                "ApproximateReceiveCount": str(message.receives),
                "SentTimestamp": str(int(message.sent_at.timestamp() * 1000)),
            },
            "eventSource": "aws:sqs",
            "eventSourceARN": f"arn:aws:sqs:eu-west-1:000000000000:{self.name}",
        }


class MemoryQueues:
    """The lanes' queues with their dead-letter queues, and the projection queue."""

    def __init__(self, now: Now, lanes: Sequence[str] = ("lifecycle", "payments")) -> None:
        self.dead = {lane: MemoryQueue(f"{lane}-dead", now) for lane in lanes}
        self.lanes = {lane: MemoryQueue(lane, now, dead_letters=self.dead[lane]) for lane in lanes}
        self.projection = MemoryQueue("projection", now)

    def wake(self, lane: str, wake_up: WakeUp, *, source: str, delay: timedelta = timedelta()) -> None:
        seconds = timedelta(seconds=min(900, math.ceil(max(delay, timedelta()).total_seconds())))
        attributes = {"source": {"DataType": "String", "StringValue": source}}
        self.lanes[lane].send(_body(wake_up), delay=seconds, attributes=attributes)

    def project(self, booking_id: str, job: str) -> None:
        self.projection.send(json.dumps({"booking_id": booking_id, "job": job}, separators=(",", ":")))

    def fire(self, request: ScheduleRequest) -> None:
        """What Scheduler's templated SQS target sends: the input as the body, no attributes."""
        self.lanes[request.lane].send(_body(request.wake_up))


class MemoryBus:
    """The bus: what was accepted, in order. `fail` holds error codes for the next entries, None accepting one."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.fail: list[str | None] = []

    def publish(self, events: Sequence[Mapping[str, Any]]) -> Sequence[str | None]:
        answers: list[str | None] = []
        for event in events:
            failure = self.fail.pop(0) if self.fail else None
            if failure is None:
                detail = json.loads(json.dumps(event))
                self.events.append({"source": SOURCE, "detail-type": event["type"], "detail": detail})
            answers.append(failure)
        return answers


class MemoryWorkflow:
    """The dispute's state machine, as far as our side sees it: executions by name, and tokens that wait."""

    def __init__(self) -> None:
        self.executions: dict[str, str] = {}
        self.waiting: set[str] = set()
        self.sent: list[str] = []
        self.fail: list[Exception] = []
        """Raised by the next calls, one each."""

    def start(self, dispute_id: str, run: int) -> bool:
        self._failing()
        name = f"{dispute_id}-{run}"
        if name in self.executions:
            return False
        self.executions[name] = "RUNNING"
        return True

    def is_running(self, dispute_id: str, run: int) -> bool:
        self._failing()
        return self.executions.get(f"{dispute_id}-{run}") == "RUNNING"

    def succeed(self, token: str) -> bool:
        self._failing()
        self.sent.append(token)
        if token not in self.waiting:
            return False
        self.waiting.remove(token)
        return True

    def events(self, dispute_id: str, run: int) -> Sequence[Mapping[str, Any]] | None:
        self._failing()
        return [] if f"{dispute_id}-{run}" in self.executions else None

    def console_url(self, dispute_id: str, run: int) -> str:
        return f"memory:{dispute_id}-{run}"

    def _failing(self) -> None:
        if self.fail:
            raise self.fail.pop(0)


def conflict() -> ScheduleConflict:
    """What AWS may answer to an update right after a create."""
    return ScheduleConflict("Scheduler answered ConflictException", aws_code="ConflictException")


def _body(wake_up: WakeUp) -> str:
    body = {"booking_id": wake_up.booking_id, "job": wake_up.job, "generation": wake_up.generation}
    return json.dumps(body, separators=(",", ":"))


def _key(write: Write) -> Key:
    return (write.item["pk"], write.item["sk"]) if isinstance(write, Put) else (write.pk, write.sk)


def _holds(condition: If, row: Item | None) -> bool:
    if (condition.absent and row is not None) or (condition.exists and row is None):
        return False
    return all((row or {}).get(name) == value for name, value in condition.equals.items())


def _applied(write: Write, row: Item | None) -> Item | None:
    match write:
        case Put():
            return _clean(write.item)
        case Update():
            merged = {**(row or {"pk": write.pk, "sk": write.sk}), **_clean(write.set)}
            return {name: value for name, value in merged.items() if name not in write.remove}
        case Delete():
            return None
        case Check():
            return row


def _clean(item: Mapping[str, Any]) -> Item:
    """As DynamoDB would give it back; raises TypeError for a float and ValueError for an empty key."""
    for name in ("pk", "sk", "due_pk", "due_sk", "attention_pk", "attention_sk"):
        if item.get(name) == "":
            raise ValueError(f"{name} is empty")
    return from_image(to_image(item))


def _size(row: Item) -> int:
    return len(json.dumps(row))


def _projected(row: Item) -> Item:
    return {name: copy.deepcopy(value) for name, value in row.items() if name in PROJECTED}


def _page(rows: list[Item], more: bool, names: tuple[str, ...]) -> Page:
    after = {name: rows[-1][name] for name in names if name in rows[-1]} if more and rows else None
    return Page(items=rows, after=after, scanned=len(rows))
