"""The table's stream: every change, in the JSON that Lambda hands to a handler."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple, overload

from duebook.adapters.table import to_image
from duebook.service.ports import Item

ARN = "arn:aws:dynamodb:eu-west-1:000000000000:table/duebook/stream/2026-08-01T00:00:00.000"
Record = dict[str, Any]


class Change(NamedTuple):
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

    def append(self, at: datetime, key: tuple[str, str], old: Item | None, new: Item | None, *, by_ttl: bool) -> None:
        """`old` and `new` are kept as they are: whoever changes a row makes a new one."""
        self._kept.append(Change(len(self) + 1, at, *key, old, new, by_ttl))

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

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Stream | list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Record]:
        return (change.record() for change in self._kept)

    @overload
    def __getitem__(self, at: int) -> Record: ...
    @overload
    def __getitem__(self, at: slice) -> list[Record]: ...
    def __getitem__(self, at: int | slice) -> Record | list[Record]:
        if isinstance(at, slice):
            return [self[position] for position in range(*at.indices(len(self)))]
        position = at + len(self) if at < 0 else at
        if not self._dropped <= position < len(self):
            raise IndexError(f"no position {at} in the stream")
        return self._kept[position - self._dropped].record()
