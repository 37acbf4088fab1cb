"""What is scheduled, what happened, what needs a person: reads only."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from duebook.domain import names
from duebook.domain.errors import AwsFailure, InvalidRequest, NotFound
from duebook.domain.times import iso
from duebook.service import rows
from duebook.service.ports import Item, Table, Workflow

LONGEST_WINDOW = timedelta(days=31)
MOST_QUERIES = 400
"""Index queries one call may make; a sparse window beyond it is answered with a short page and a cursor."""
MOST_HISTORY_PAGES = 50
"""Of 200 entries: what a dispute's timeline reads at most."""
JUST_AFTER = " "
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
    check_window(start, end, LONGEST_WINDOW)
    kinds = kinds_of(job)
    partitions = [(kind, number) for kind in kinds for number in range(rows.DUE_SHARDS)]
    chunk = max(3, limit // (4 * len(partitions)))
    low = max(iso(start), cursor) if cursor else iso(start)
    high = iso(end - timedelta(milliseconds=1)) + "\uffff"
    reads = _Reads(table)
    found: list[Item] = []
    day, last = _day(low, start), (end - timedelta(milliseconds=1)).date()
    if low > high:
        return Listing([], None, 0)
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
                return Listing(found, row["due_sk"] + JUST_AFTER, reads.rows)
        day += timedelta(days=1)
    return Listing(found, None, reads.rows)


def check_window(start: datetime, end: datetime, longest: timedelta) -> None:
    """Raises `InvalidRequest`."""
    if end <= start:
        raise InvalidRequest("empty_window", "to", "`to` must be after `from`")
    if end - start > longest:
        raise InvalidRequest("window_too_long", "to", f"a window has at most {longest.days} days")


def kinds_of(job: str | None) -> tuple[str, ...]:
    """The kinds of job in whose partitions a listing looks; None: in all."""
    return names.KINDS if job is None else (job if job in names.KINDS else names.kind(job),)


def attention(table: Table, kind: str, *, cursor: str | None = None, limit: int = 100) -> Listing:
    """What needs a person, the longest waiting first. `kind`: dead, needs_attention, outbox or held."""
    reads = _Reads(table)
    streams = (
        reads.index("attention", f"{kind}#{number}", cursor or "", "\uffff", limit // rows.ATTENTION_SHARDS + 2)
        for number in range(rows.ATTENTION_SHARDS)
    )
    found: list[Item] = []
    for row in heapq.merge(*streams, key=lambda row: str(row["attention_sk"])):
        found.append(row)
        if len(found) >= limit:
            return Listing(found, row["attention_sk"] + JUST_AFTER, reads.rows)
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


def payment(table: Table, payment_id: str) -> Item | None:
    """A payment's row."""
    return table.get(names.parent(payment_id), f"{rows.PAYMENT_PREFIX}{payment_id}")


def dispute(table: Table, dispute_id: str) -> Item | None:
    """A dispute's row."""
    return table.get(names.parent(dispute_id), f"{rows.DISPUTE_PREFIX}{dispute_id}")


def disputes(table: Table, kind: str, *, cursor: str | None = None, limit: int = 50) -> Listing:
    """Disputes that wait, the longest first. `kind`: in_review, needs_attention or awaiting_chef.

    The index lags, and other rows need attention too: a page can be shorter than `limit`, or empty, before the end.
    """
    listing = attention(table, kind, cursor=cursor, limit=limit)
    found = (dispute(table, row["dispute_id"]) for row in listing.items if row.get("dispute_id"))
    still = [row for row in found if row is not None and row.get("attention_pk", "").startswith(f"{kind}#")]
    return Listing(still, listing.cursor, listing.read)


def timeline(table: Table, workflow: Workflow, dispute_id: str) -> list[dict[str, Any]]:
    """A dispute told in order: our history rows, which are the record, and what its executions did, while AWS has it.

    Entries are `{at, text, source, ...}`; a source that cannot be read now is told as an entry of its own at the end.
    """
    row = dispute(table, dispute_id)
    if row is None:
        raise NotFound(f"there is no dispute {dispute_id}")
    entries = [_told(entry) for entry in _of_dispute(table, row)]
    missing: list[dict[str, Any]] = []
    for run in range(1, row.get("run", 1) + 1):
        try:
            events = workflow.events(dispute_id, run)
        except AwsFailure as failure:
            missing.append(_unread(run, f"AWS did not give it now ({failure.code})"))
            continue
        if events is None:
            missing.append(_unread(run, "AWS has no such execution, or keeps it no more (90 days after its end)"))
        entries += [{"source": "workflow", "run": run, **event} for event in events or ()]
    return sorted(entries, key=lambda entry: str(entry["at"])) + missing


def _of_dispute(table: Table, row: Item) -> Iterator[Item]:
    """The booking's history from the dispute's opening on."""
    after: Item | None = None
    opened = False
    for _ in range(MOST_HISTORY_PAGES):
        page = table.query(row["pk"], rows.HISTORY_PREFIX, after=after, limit=200)
        for entry in page.items:
            opened = opened or entry["type"] == "dispute.opened"
            if opened:
                yield entry
        after = page.after
        if after is None:
            return


def _told(entry: Item) -> dict[str, Any]:
    shown: dict[str, Any] = {name: entry[name] for name in ("version", "type", "actor", "data", "due") if name in entry}
    return {"at": entry["at"], "text": entry["reason"], "source": "history", **shown}


def _unread(run: int, why: str) -> dict[str, Any]:
    return {"at": None, "text": f"the execution of run {run}: {why}", "source": "workflow", "run": run}


def _day(low: str, start: datetime) -> date:
    try:
        return max(date.fromisoformat(low[:10]), start.date())
    except ValueError:
        raise InvalidRequest("bad_cursor", "cursor", "the cursor is not one of ours") from None
