"""What is scheduled, what happened, what needs a person: reads only."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from duebook.domain import names
from duebook.domain.errors import InvalidRequest
from duebook.domain.times import iso
from duebook.service import rows
from duebook.service.ports import Item, Table

LONGEST_WINDOW = timedelta(days=31)
MOST_QUERIES = 400
"""Index queries one call may make; a sparse window beyond it is answered with a short page and a cursor."""
_JUST_AFTER = " "
"""Sorts before every character that a name, an id or `#` can go on with."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A page, and where the next one starts (None at the end). `read`: rows read for it."""

    items: list[Item]
    cursor: str | None
    read: int


class _Reads:
    """Counts what a listing costs."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.rows = 0
        self.queries = 0

    def index(self, index: str, partition: str, low: str, high: str, chunk: int) -> Iterator[Item]:
        after: Item | None = None
        while True:
            page = self.table.query_index(index, partition, low=low, high=high, after=after, limit=chunk)
            self.rows += page.scanned
            self.queries += 1
            yield from page.items
            after = page.after
            if after is None:
                return


def due(
    table: Table, start: datetime, end: datetime, *, job: str | None = None, cursor: str | None = None, limit: int = 100
) -> Listing:
    """Pending jobs that are woken in [start, end), in order, through the due index alone.

    `job`: a built-in job's name, `pay`, `own`, or one own job's name (then all own jobs of the window are read).
    The partitions of a day are merged lazily, in small chunks, so little more is read than is returned.
    """
    if end <= start:
        raise InvalidRequest("empty_window", "to", "`to` must be after `from`")
    if end - start > LONGEST_WINDOW:
        raise InvalidRequest("window_too_long", "to", f"a window has at most {LONGEST_WINDOW.days} days")
    kinds = names.KINDS if job is None else (job if job in names.KINDS else names.kind(job),)
    partitions = [(kind, number) for kind in kinds for number in range(rows.DUE_SHARDS)]
    chunk = limit // len(partitions) + 2
    low = max(iso(start), cursor) if cursor else iso(start)
    high = iso(end - timedelta(milliseconds=1)) + "\uffff"
    reads = _Reads(table)
    found: list[Item] = []
    day, last = _day(low, start), (end - timedelta(milliseconds=1)).date()
    while day <= last:
        if reads.queries >= MOST_QUERIES:
            return Listing(found, day.isoformat(), reads.rows)
        streams = (
            reads.index("due", rows.due_partition(day.isoformat(), kind, number), low, high, chunk)
            for kind, number in partitions
        )
        for row in heapq.merge(*streams, key=lambda row: str(row["due_sk"])):
            if job is None or job in names.KINDS or row["job"] == job:
                found.append(row)
            if len(found) >= limit or (reads.queries >= MOST_QUERIES and len(kinds) == 1):
                return Listing(found, row["due_sk"] + _JUST_AFTER, reads.rows)
        day += timedelta(days=1)
    return Listing(found, None, reads.rows)


def attention(table: Table, kind: str, *, cursor: str | None = None, limit: int = 100) -> Listing:
    """What needs a person, the longest waiting first. `kind`: dead, needs_attention or outbox."""
    reads = _Reads(table)
    streams = (
        reads.index("attention", f"{kind}#{number}", cursor or "", "\uffff", limit // rows.ATTENTION_SHARDS + 2)
        for number in range(rows.ATTENTION_SHARDS)
    )
    found: list[Item] = []
    for row in heapq.merge(*streams, key=lambda row: str(row["attention_sk"])):
        found.append(row)
        if len(found) >= limit:
            return Listing(found, row["attention_sk"] + _JUST_AFTER, reads.rows)
    return Listing(found, None, reads.rows)


def history(table: Table, booking_id: str, *, cursor: str | None = None, limit: int = 100) -> Listing:
    """A booking's history, oldest first. The cursor is the last version shown."""
    after = {"pk": booking_id, "sk": rows.history_sk(int(cursor))} if cursor else None
    page = table.query(booking_id, rows.HISTORY_PREFIX, after=after, limit=limit)
    following = str(page.items[-1]["version"]) if page.after and page.items else None
    return Listing(list(page.items), following, page.scanned)


def jobs(table: Table, booking_id: str) -> list[Item]:
    """A booking's jobs by instant: at most 25 own ones and the built-in ones."""
    found = table.query(booking_id, rows.JOB_PREFIX).items
    return sorted(found, key=lambda row: (row["run_at"], row["job"]))


def payments(table: Table, booking_id: str) -> list[Item]:
    """A booking's payments in the order they were decided."""
    return list(table.query(booking_id, rows.PAYMENT_PREFIX).items)


def _day(low: str, start: datetime) -> date:
    try:
        return max(date.fromisoformat(low[:10]), start.date())
    except ValueError:
        raise InvalidRequest("bad_cursor", "cursor", "the cursor is not one of ours") from None
