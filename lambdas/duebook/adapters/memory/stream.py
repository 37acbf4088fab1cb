"""The table's stream: every change, in the JSON that Lambda hands to a handler."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, overload

from duebook.adapters.table import to_image
from duebook.service.ports import Item

ARN = "arn:aws:dynamodb:eu-west-1:000000000000:table/duebook/stream/2026-08-01T00:00:00.000"
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """One row's change. `number` grows by one with each; `by_ttl`: time to live deleted the row."""

    number: int
    at: datetime
    pk: str
    sk: str
    old: Item | None
    new: Item | None
    by_ttl: bool = False

    @property
    def name(self) -> str:
        return "INSERT" if self.old is None else "REMOVE" if self.new is None else "MODIFY"

    def record(self) -> Record:
        """Made afresh at each call, so that no reader can spoil another's (DynamoDB Streams API, Record)."""
        change: dict[str, Any] = {
            "ApproximateCreationDateTime": int(self.at.timestamp()),
            "Keys": to_image({"pk": self.pk, "sk": self.sk}),
            "SequenceNumber": f"{self.number:021d}",
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        }
        if self.old is not None:
            change["OldImage"] = to_image(self.old)
        if self.new is not None:
            change["NewImage"] = to_image(self.new)
        ttl = {"userIdentity": {"type": "Service", "principalId": "dynamodb.amazonaws.com"}} if self.by_ttl else {}
        return {
            "eventID": f"{self.number:032x}",
            "eventName": self.name,
            "eventVersion": "1.1",
            "eventSource": "aws:dynamodb",
            "awsRegion": "eu-west-1",
            "eventSourceARN": ARN,
            "dynamodb": change,
            **ttl,
        }


class Stream(Sequence[Record]):
    """Reads as a list of records, which are made only when they are looked at.

    `changes` are the same as values, for whoever filters first as an event source does. `forget` drops what all
    readers have read; positions stay what they were, and reading a dropped one raises IndexError (a stream keeps a
    day).
    """

    def __init__(self) -> None:
        self._kept: list[Change] = []
        self._dropped = 0

    def append(
        self, at: datetime, key: tuple[str, str], old: Mapping[str, Any] | None, new: Mapping[str, Any] | None, ttl: bool
    ) -> None:
        as_item = [dict(row) if row is not None else None for row in (old, new)]
        self._kept.append(Change(len(self) + 1, at, *key, *as_item, by_ttl=ttl))

    def changes(self, start: int = 0, end: int | None = None) -> Sequence[Change]:
        """Positions `start` to `end`, as a list would be sliced."""
        first, last, _ = slice(start, end).indices(len(self))
        if first < self._dropped and first < last:
            raise IndexError(f"position {first} was dropped from the stream")
        return self._kept[first - self._dropped : max(0, last - self._dropped)] if first < last else []

    def forget(self, before: int) -> None:
        """Drop every position below `before`."""
        count = max(0, min(before, len(self)) - self._dropped)
        del self._kept[:count]
        self._dropped += count

    def __len__(self) -> int:
        return self._dropped + len(self._kept)

    def __iter__(self) -> Iterator[Record]:
        return (change.record() for change in self._kept)

    @overload
    def __getitem__(self, at: int) -> Record: ...
    @overload
    def __getitem__(self, at: slice) -> list[Record]: ...
    def __getitem__(self, at: int | slice) -> Record | list[Record]:
        if isinstance(at, slice):
            assert at.step in (None, 1), "a stream is read in order"
            return [change.record() for change in self.changes(at.start or 0, at.stop)]
        position = at + len(self) if at < 0 else at
        if not self._dropped <= position < len(self):
            raise IndexError(f"no position {at} in the stream")
        return self._kept[position - self._dropped].record()
