"""The EventBridge bus: PutEvents takes 10 entries and 256 KB at once, and answers entry by entry."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

SOURCE = "duebook"
MOST_ENTRIES = 10
LARGEST_BATCH = 250_000
"""Bytes of one PutEvents request, below its 256 KB."""


class EventBridgeBus:
    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self._name = name

    def publish(self, events: Sequence[Mapping[str, Any]]) -> Sequence[str | None]:
        answers: list[str | None] = []
        for batch in _batches([self._entry(event) for event in events]):
            answers += self._put(batch)
        return answers

    def _entry(self, event: Mapping[str, Any]) -> dict[str, str]:
        detail = json.dumps(event, separators=(",", ":"))
        return {"Source": SOURCE, "DetailType": event["type"], "Detail": detail, "EventBusName": self._name}

    def _put(self, batch: list[dict[str, str]]) -> list[str | None]:
        """A whole request that failed counts for each of its entries: they stay in the outbox."""
        try:
            answer = self._client.put_events(Entries=batch)
        except ClientError as error:
            return [str(error.response["Error"]["Code"])] * len(batch)
        except BotoCoreError as error:
            return [type(error).__name__] * len(batch)
        return [entry.get("ErrorCode") for entry in answer["Entries"]]


def _batches(entries: list[dict[str, str]]) -> Iterator[list[dict[str, str]]]:
    batch: list[dict[str, str]] = []
    size = 0
    for entry in entries:
        length = sum(len(value.encode()) for value in entry.values())
        if batch and (len(batch) == MOST_ENTRIES or size + length > LARGEST_BATCH):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += length
    if batch:
        yield batch
