"""The EventBridge bus: PutEvents takes 10 entries and 256 KB at once, and answers entry by entry."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from duebook.adapters import aws
from duebook.domain.errors import DuebookError

SOURCE = "duebook"
MOST_ENTRIES = 10
LARGEST_REQUEST = 256 * 1024 - 1
"""Bytes of one PutEvents request, all entries together: "less than 256 KB" (API reference, PutEvents)."""
Entry = Mapping[str, str]


def entry_of(event: Mapping[str, Any], bus: str) -> dict[str, str]:
    """An event envelope as an entry of PutEvents."""
    detail = json.dumps(event, separators=(",", ":"), allow_nan=False)
    return {"Source": SOURCE, "DetailType": event["type"], "Detail": detail, "EventBusName": bus}


def size_of(entry: Entry) -> int:
    """Bytes that count: source, detail type and detail."""
    return sum(len(entry[name].encode()) for name in ("Source", "DetailType", "Detail"))


class EventBridgeBus:
    """`name`: the bus's name or ARN."""

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self._name = name

    def publish(self, events: Sequence[Mapping[str, Any]]) -> Sequence[str | None]:
        answers: list[str | None] = []
        for batch in _batches([entry_of(event, self._name) for event in events]):
            answers += self._put(batch)
        return answers

    def _put(self, batch: list[Entry]) -> list[str | None]:
        """A whole request that failed counts for each of its entries: they stay in the outbox. Never raises for it."""
        try:
            answer = aws.call("EventBridge", {}, lambda: self._client.put_events(Entries=batch))
        except DuebookError as error:
            return [str(error.details["aws_code"])] * len(batch)
        return [entry.get("ErrorCode") for entry in answer["Entries"]]


def _batches(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """One that is too large alone goes alone: its refusal is its own."""
    batch: list[Entry] = []
    total = 0
    for entry in entries:
        size = size_of(entry)
        if batch and (len(batch) == MOST_ENTRIES or total + size > LARGEST_REQUEST):
            yield batch
            batch, total = [], 0
        batch.append(entry)
        total += size
    if batch:
        yield batch
