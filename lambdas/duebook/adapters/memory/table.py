"""DynamoDB in memory: conditions, atomic transactions and their limits, sparse indexes that may lag, and a stream."""

import marshal
import zlib
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from duebook.adapters.memory.hook import FailingTwin, Hook, no_fault
from duebook.adapters.memory.stream import Stream
from duebook.adapters.table import (
    INDEXES,
    LARGEST_ITEM,
    LARGEST_TRANSACTION,
    Key,
    check_limit,
    check_row_key,
    check_sizes,
    checked,
    from_image,
    is_plain,
    size,
    size_at_most,
    to_image,
    written,
)
from duebook.domain.errors import AwsFailure, ConditionFailed
from duebook.service.ports import Check, Delete, If, Item, Page, Put, Update, Write

Now = Callable[[], datetime]
Entry = tuple[str, str, str]
"""Sort key of the table or index, then the row's own key."""

LARGEST_PAGE = 1024 * 1024
"""Bytes that a query or a scan reads at once (developer guide, "Paginating table query results")."""
PROJECTED = frozenset(
    {
        *("pk", "sk", "due_pk", "due_sk", "attention_pk", "attention_sk", "day_pk", "day_sk"),
        *("booking_id", "job", "run_at", "wake_at", "status", "attempts", "generation", "lane", "reason", "since"),
        *("kind", "payment_id", "dispute_id", "failing_since", "amount", "currency"),
    }
)
"""What `due` and `attention` hold (INCLUDE), as in stacks/components/storage.py; `day` holds all (ALL)."""


class MemoryTable(FailingTwin):
    """`stream` grows with every change, as records in the JSON that Lambda gets.

    `index_lag` gives how long after its write each change reaches the indexes (none by default); they reach them in
    order. `lends`: rows are given as they are kept, without a copy, to readers that are known to change none. `calls`
    counts requests by kind: get, put, update, delete, transact, query, query_index, scan. `rows`, `row`, `look`,
    `seen`, `count` and `forget` are for tests: they count as no request. `about` is the partition of the last
    request, for a hook or a lag that asks whose it is.
    """

    name = "table"

    def __init__(
        self,
        now: Now,
        *,
        index_lag: Callable[[], timedelta] | None = None,
        hook: Hook = no_fault,
        lends: bool = False,
    ) -> None:
        super().__init__(hook)
        self._now = now
        self._lag = index_lag
        self._given: Callable[[Item], Item] = _lent if lends else _copied
        self._table = _View("pk", "sk", self._given)
        self._indexes = {name: _View(*keys, self._given) for name, keys in INDEXES.items()}
        self._replicating: deque[tuple[datetime, Key, Item | None, int]] = deque()
        self.stream = Stream()
        self.about = ""

    def get(self, pk: str, sk: str) -> Item | None:
        check_row_key(pk, sk)
        self.about = pk
        self._before("get")
        found = self.row(pk, sk)
        self._after("get")
        return found

    def write(self, *writes: Write) -> None:
        if not writes:
            return
        keys = checked(writes)
        kept = [_stored(write) for write in writes]
        sizes = [most for _, most in kept]
        if max(sizes) > LARGEST_ITEM or sum(sizes) > LARGEST_TRANSACTION:
            check_sizes([stored for write in writes if (stored := written(write)) is not None])
        kind = type(writes[0]).__name__.lower() if is_plain(writes) else "transact"
        self.about = keys[0][0]
        self._before(kind)
        before = [self._table.rows.get(key) for key in keys]
        failed = [at for at, write in enumerate(writes) if not _holds(write.condition, before[at])]
        if failed:
            raise ConditionFailed(failed=failed)
        after = [_applied(write, item, row) for write, (item, _), row in zip(writes, kept, before, strict=True)]
        for at, write in enumerate(writes):
            if isinstance(write, Update | Check):
                sizes[at] += self._table.sizes.get(keys[at], 0)
        _check_whole(after, sizes)
        for write, key, row, most in zip(writes, keys, after, sizes, strict=True):
            if not isinstance(write, Check):
                self._store(key, row, most)
        self._after(kind)

    def query(
        self, pk: str, prefix: str, *, after: Item | None = None, limit: int = 100, newest_first: bool = False
    ) -> Page:
        check_limit(limit)
        self.about = pk
        self._before("query")
        entries = self._table.partitions.get(pk, [])
        start = bisect_left(entries, (prefix,))
        end = bisect_right(entries, prefix, key=lambda entry: entry[0][: len(prefix)])
        if after is not None:
            last = self._table.entry(after, pk)
            start, end = (
                (start, min(end, bisect_left(entries, last)))
                if newest_first
                else (max(start, bisect_right(entries, last)), end)
            )
        found = (
            entries[max(start, end - limit) : end][::-1] if newest_first else entries[start : min(end, start + limit)]
        )
        page = self._table.page(found, limit)
        self._after("query")
        return page

    def query_index(
        self, index: str, pk: str, *, low: str = "", high: str = "\uffff", after: Item | None = None, limit: int = 100
    ) -> Page:
        view = self._indexes[index]
        check_limit(limit)
        if low > high:
            return Page(items=[], after=None, scanned=0)
        self._before("query_index")
        self._replicate()
        entries = view.partitions.get(pk, [])
        start = bisect_left(entries, (low,))
        if after is not None:
            start = max(start, bisect_right(entries, view.entry(after, pk)))
        end = bisect_right(entries, high, key=lambda entry: entry[0])
        page = view.page(entries[start : min(end, start + limit)], limit)
        self._after("query_index")
        return page

    def scan(
        self, *, index: str | None = None, sk: str | None = None, after: Item | None = None, limit: int = 500
    ) -> Page:
        view = self._indexes[index] if index else self._table
        check_limit(limit)
        self._before("scan")
        self._replicate()
        page = view.page(view.scanned(after, limit), limit, sk)
        self._after("scan")
        return page

    def expire(self) -> None:
        """What time to live does "within a few days" after `expires_at` (seconds of the epoch)."""
        now = self._now().timestamp()
        for key in [key for key, row in self._table.rows.items() if row.get("expires_at", now) < now]:
            self._store(key, None, by_ttl=True)

    def row(self, pk: str, sk: str) -> Item | None:
        """One row, as a reader gets it."""
        found = self._table.rows.get((pk, sk))
        return self._given(found) if found is not None else None

    def rows(self, pk: str | None = None) -> Iterator[Item]:
        """All rows, or one partition's in order, as a reader gets them."""
        keys = list(self._table.rows) if pk is None else [(pk, sk) for sk, *_ in self._table.partitions.get(pk, [])]
        return (self._given(self._table.rows[key]) for key in keys)

    def look(self, pk: str, sk: str) -> Item | None:
        """One row as it is kept: only to be looked at."""
        return self._table.rows.get((pk, sk))

    def seen(self, pk: str, prefix: str = "") -> list[Item]:
        """A partition's rows whose sort keys start with `prefix`, in order, as they are kept: only to be looked at."""
        entries, rows = self._table.partitions.get(pk, []), self._table.rows
        found = []
        for at in range(bisect_left(entries, (prefix,)), len(entries)):
            sk = entries[at][0]
            if not sk.startswith(prefix):
                break
            found.append(rows[(pk, sk)])
        return found

    def count(self, index: str) -> int:
        """How many rows an index holds, as a reader sees it now."""
        self._replicate()
        return len(self._indexes[index].rows)

    def forget(self, pk: str) -> None:
        """Drop a partition without a trace: a long simulation keeps what is still open."""
        for sk, *_ in list(self._table.partitions.get(pk, [])):
            for view in (self._table, *self._indexes.values()):
                view.put((pk, sk), None)

    def __len__(self) -> int:
        return len(self._table.rows)

    def _store(self, key: Key, row: Item | None, most: int = 0, *, by_ttl: bool = False) -> None:
        old = self._table.rows.get(key)
        if old == row:
            return
        self._table.put(key, row, most)
        self.stream.append(self._now(), key, old, row, by_ttl=by_ttl)
        ready = self._now() + self._lag() if self._lag else self._now()
        self._replicating.append((ready, key, row, most))
        if self._lag is None:
            self._replicate()

    def _replicate(self) -> None:
        now = self._now()
        while self._replicating and self._replicating[0][0] <= now:
            _, key, row, most = self._replicating.popleft()
            for view in self._indexes.values():
                view.put(key, row, most)


class _View:
    """The table, or an index: its rows, their order in each partition, and the partitions in the order of a scan."""

    def __init__(self, partition: str, sort: str, given: Callable[[Item], Item]) -> None:
        self._partition = partition
        self._sort = sort
        self._given = given
        self._names = tuple(dict.fromkeys(("pk", "sk", partition, sort)))
        self._is_partial = partition in ("due_pk", "attention_pk")
        self._order: list[tuple[int, str]] = []
        self.rows: dict[Key, Item] = {}
        self.sizes: dict[Key, int] = {}
        self.partitions: dict[str, list[Entry]] = {}

    def put(self, key: Key, row: Item | None, most: int = 0) -> None:
        """Replace or remove a row; one without the index's keys is not in the index. `most`: bytes it may have."""
        old = self.rows.get(key)
        is_at = self._place(key, row)
        if old is None and is_at is None:
            return
        was = self._place(key, old)
        if row is not None and is_at is not None:
            self.rows[key] = {name: row[name] for name in row if name in PROJECTED} if self._is_partial else row
            self.sizes[key] = most
        else:
            del self.rows[key], self.sizes[key]
        if was == is_at:
            return
        if was is not None:
            self._remove(*was)
        if is_at is not None:
            self._insert(*is_at)

    def entry(self, after: Item, pk: str | None = None) -> Entry:
        """Where a page ended. Raises `AwsFailure` for a key that DynamoDB refuses: of another form or partition."""
        whole = after.keys() == set(self._names) and all(isinstance(value, str) for value in after.values())
        if not whole or (pk is not None and after[self._partition] != pk):
            raise AwsFailure("the exclusive start key is not of this query", aws_code="ValidationException")
        return after[self._sort], after["pk"], after["sk"]

    def page(self, entries: Sequence[Entry], limit: int, sk: str | None = None) -> Page:
        """Rows up to `limit` and 1 MB. As with DynamoDB, a full page has an `after` even if nothing follows.

        With `sk` only rows of that sort key are given back, of all that were read.
        """
        found = [self.rows[(pk, sk)] for _, pk, sk in entries]
        stopped = len(found) >= limit
        if sum(self.sizes[(pk, key)] for _, pk, key in entries) > LARGEST_PAGE:
            fitting = _fitting(found)
            stopped = stopped or fitting < len(found)
            found = found[:fitting]
        last = {name: found[-1][name] for name in self._names} if stopped else None
        kept = [self._given(row) for row in found if sk is None or row["sk"] == sk]
        return Page(items=kept, after=last, scanned=len(found))

    def scanned(self, after: Item | None, limit: int) -> list[Entry]:
        """The next entries of a scan: partitions by their hash, as if at random."""
        found: list[Entry] = []
        at = 0
        if after is not None:
            last, partition = self.entry(after), after[self._partition]
            at = bisect_left(self._order, _hashed(partition))
            if at < len(self._order) and self._order[at][1] == partition:
                entries = self.partitions[partition]
                found += entries[bisect_right(entries, last) :][:limit]
                at += 1
        while len(found) < limit and at < len(self._order):
            found += self.partitions[self._order[at][1]][: limit - len(found)]
            at += 1
        return found

    def _place(self, key: Key, row: Item | None) -> tuple[str, Entry] | None:
        if row is None or self._partition not in row or self._sort not in row:
            return None
        return row[self._partition], (row[self._sort], *key)

    def _insert(self, partition: str, entry: Entry) -> None:
        entries = self.partitions.get(partition)
        if entries is None:
            entries = self.partitions[partition] = []
            insort(self._order, _hashed(partition))
        insort(entries, entry)

    def _remove(self, partition: str, entry: Entry) -> None:
        entries = self.partitions[partition]
        del entries[bisect_left(entries, entry)]
        if not entries:
            del self.partitions[partition]
            del self._order[bisect_left(self._order, _hashed(partition))]


def _hashed(partition: str) -> tuple[int, str]:
    return zlib.crc32(partition.encode()), partition


def _fitting(rows: Sequence[Item]) -> int:
    total = 0
    for count, row in enumerate(rows):
        total += size(row)
        if total > LARGEST_PAGE:
            return max(1, count)
    return len(rows)


def _holds(condition: If, row: Item | None) -> bool:
    if (condition.absent and row is not None) or (condition.exists and row is None):
        return False
    return all(_same((row or {}).get(name), value) for name, value in condition.equals.items())


def _same(stored: Any, value: Any) -> bool:
    """As DynamoDB compares: 1 is not true, and None is a missing attribute."""
    if type(value) in (str, int, bool):
        return bool(stored == value) and isinstance(stored, bool) == isinstance(value, bool)
    return to_image({"value": stored}) == to_image({"value": value})


def _stored(write: Write) -> tuple[Item, int]:
    """What a write says of its row, kept; nothing of one that stores nothing."""
    match write:
        case Put():
            return _kept(write.item)
        case Update():
            return _kept({"pk": write.pk, "sk": write.sk, **write.set})
        case _:
            return {}, 0


def _applied(write: Write, kept: Item, row: Item | None) -> Item | None:
    match write:
        case Put():
            return kept
        case Update():
            merged = {**(row or {}), **kept}
            for name in (*write.remove, *(name for name, value in write.set.items() if value is None)):
                merged.pop(name, None)
            return merged
        case Delete():
            return None
        case Check():
            return row


def _check_whole(rows: Sequence[Item | None], most: Sequence[int]) -> None:
    """Whole rows are weighed by DynamoDB alone, whose refusal is one of many."""
    if max(most) <= LARGEST_ITEM and sum(most) <= LARGEST_TRANSACTION:
        return
    sizes = [size(row) for row in rows if row is not None]
    if max(sizes) > LARGEST_ITEM or sum(sizes) > LARGEST_TRANSACTION:
        raise AwsFailure("DynamoDB answered ValidationException", aws_code="ValidationException")


def _copied(row: Item) -> Item:
    """A row that is kept, so that whoever reads it may change it. It holds plain values alone, which marshal copies
    several times as fast as Python does."""
    copy: Item = marshal.loads(marshal.dumps(row))
    return copy


def _lent(row: Item) -> Item:
    return row


def _kept(item: Mapping[str, Any]) -> tuple[Item, int]:
    """A copy, as DynamoDB would give it back, and how many bytes it has at most (no character has more than 4).

    Raises TypeError for what a row cannot hold.
    """
    copy: Item = {}
    most = 24
    for name, value in item.items():
        kind = type(value)
        if type(name) is not str:
            raise TypeError(f"{name!r} is no attribute's name")
        most += 4 * len(name) + 24
        if kind is str:
            copy[name] = value
            most += 4 * len(value)
        elif kind is int or kind is bool:
            copy[name] = value
        elif kind is dict:
            copy[name], inner = _kept(value)
            most += inner
        elif value is not None:
            plain = copy[name] = from_image(to_image({"value": value}))["value"]
            most += size_at_most({"": plain})
    return copy, most
