"""The sweeper: the second, independent wake-up. Losing every schedule costs minutes, not jobs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from duebook.domain import names
from duebook.domain.errors import ConditionFailed, Contention
from duebook.domain.times import iso, parse
from duebook.service import rows
from duebook.service.bookings import Bookings
from duebook.service.ports import Bus, Item, Put, Queues, WakeUp
from duebook.service.publish import publish, put_off

GRACE = timedelta(minutes=2)
"""Scheduler's precision is a minute; a wake-up that is merely on its way is not overdue."""
OUTBOX_GRACE = timedelta(minutes=2)
FIRST_BACKOFF = timedelta(minutes=5)
LONGEST_BACKOFF = timedelta(hours=1)
FIRST_LOOK_BACK = timedelta(days=14)
MOST_ROWS = 2_000
PAGE = 100
STATE = ("#sweeper", "state")
FOR_PEOPLE = (rows.DEAD, rows.NEEDS_ATTENTION, rows.DISPUTES_IN_REVIEW, rows.HELD)
"""What stands in the attention index until a person acts."""
MOST_COUNTED = 250
"""Rows counted a kind and shard: one page each, so that looking costs the same however much has piled up."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What of one kind waits for people: how many rows (at most `MOST_COUNTED` a shard), and the oldest's age."""

    kind: str
    rows: int
    oldest: timedelta


@dataclass(slots=True)
class Swept:
    """What one pass did. `oldest`: how long the most overdue job was due, `complete`: nothing was left for later.
    `waiting`: a count for each kind of row that needs a person, none when the time was over before."""

    woken: int = 0
    oldest: timedelta = timedelta()
    published: int = 0
    unpublished: int = 0
    complete: bool = True
    waiting: tuple[Waiting, ...] = ()


def sweep(bookings: Bookings, queues: Queues, bus: Bus, time_left: Callable[[], bool] = lambda: True) -> Swept:
    """Wake every job that is overdue and publish every event that is stuck. Bounded: the next pass goes on."""
    now = bookings.clock()
    swept = Swept()
    _wake_overdue(bookings, queues, now, swept, time_left)
    _publish_stuck(bookings, bus, now, swept, time_left)
    if time_left():
        swept.waiting = tuple(_waiting(bookings, kind, now) for kind in FOR_PEOPLE)
    return swept


def _waiting(bookings: Bookings, kind: str, now: datetime) -> Waiting:
    pages = [
        bookings.table.query_index("attention", f"{kind}#{number}", limit=MOST_COUNTED).items
        for number in range(rows.ATTENTION_SHARDS)
    ]
    since = min((page[0]["attention_sk"].partition("#")[0] for page in pages if page), default=iso(now))
    return Waiting(kind, sum(len(page) for page in pages), max(now - parse(since), timedelta()))


def _wake_overdue(
    bookings: Bookings, queues: Queues, now: datetime, swept: Swept, time_left: Callable[[], bool]
) -> None:
    state = bookings.table.get(*STATE)
    last = (now - GRACE).date()
    day = min(date.fromisoformat(state["clean_before"]) if state else (now - FIRST_LOOK_BACK).date(), last)
    # The index is read eventually consistent, so a day counts as clean only when it is well over.
    clean_before, newest = day, (now - timedelta(days=1)).date()
    until, all_pushed = iso(now - GRACE), True
    while day <= last and swept.complete:
        for row in _overdue(bookings, day, until):
            if swept.woken >= MOST_ROWS or not time_left():
                swept.complete = False
                break
            swept.oldest = max(swept.oldest, now - rows.run_at(row))
            all_pushed = _wake(bookings, queues, row, now) and all_pushed
            swept.woken += 1
        swept.complete = swept.complete and time_left()
        day += timedelta(days=1)
        if swept.complete and all_pushed:
            clean_before = min(day, newest)
    if state is None or state["clean_before"] < clean_before.isoformat():
        bookings.table.write(Put(item={"pk": STATE[0], "sk": STATE[1], "clean_before": clean_before.isoformat()}))


def _overdue(bookings: Bookings, day: date, until: str) -> Iterator[Item]:
    for kind in names.KINDS:
        for number in range(rows.DUE_SHARDS):
            partition, after = rows.due_partition(day.isoformat(), kind, number), None
            for _ in range(MOST_ROWS // PAGE + 1):
                page = bookings.table.query_index("due", partition, high=until, after=after, limit=PAGE)
                yield from page.items
                after = page.after
                if after is None:
                    break


def _wake(bookings: Bookings, queues: Queues, row: Item, now: datetime) -> bool:
    """Push the row's `wake_at` out first: a crash in between costs one backoff, never a job.

    False when the row was held by another transaction: its day is not clean yet.
    """
    overdue = now - rows.run_at(row)
    backoff = min(LONGEST_BACKOFF, max(FIRST_BACKOFF, overdue))
    try:
        bookings.table.write(rows.job_wake_later(row, now + backoff))
    except ConditionFailed:
        return True
    except Contention:
        return False
    wake_up = WakeUp(booking_id=row["booking_id"], job=row["job"], generation=row["generation"])
    queues.wake(row["lane"], wake_up, source="sweep")
    return True


def _publish_stuck(bookings: Bookings, bus: Bus, now: datetime, swept: Swept, time_left: Callable[[], bool]) -> None:
    for number in range(rows.ATTENTION_SHARDS):
        partition, after = f"{rows.OUTBOX}#{number}", None
        for _ in range(MOST_ROWS // PAGE):
            if not time_left():
                swept.complete = False
                return
            page = bookings.table.query_index(
                "attention", partition, high=iso(now - OUTBOX_GRACE), after=after, limit=PAGE
            )
            found = [bookings.table.get(row["pk"], row["sk"]) for row in page.items]
            stuck = [row for row in found if row and row.get("attention_pk") == partition]
            for row, failure in zip(stuck, publish(bookings, bus, stuck), strict=True):
                if failure is None:
                    swept.published += 1
                else:
                    swept.unpublished += 1
                    put_off(bookings, row, failure, now)
            after = page.after
            if after is None:
                break
