"""What the pages read: each in a number of calls that does not grow with what is pending.

| page | calls at most |
|---|---|
| Due | 4 for the table, 4 for each of the two counts, 1 for the switch of all payouts |
| Booking | 3 |
| Job | 1 |
| Disputes, Dispute | 1, 2 |
| Attention | 5, or 2 for one kind |
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from duebook_client import BadArgument, DaySummary, Duebook, DuebookError, Job
from duebook_client.fields import Fields
from duebook_client.models import read_day_summary, read_job
from duebook_client.times import utc_in

T = TypeVar("T")

PAGE = 50
"""Rows of a table."""
MOST_CALLS = 4
"""For one table or one count; what is left then is said, or on the next page."""
PART = timedelta(days=23)
"""Of a window, in one call: the API takes 31 days, but reads some 25 of them when little is pending."""
OVERDUE = timedelta(hours=1)
"""A job not done yet stands at its next look, which the sweeper puts at most an hour ahead."""

_CALLS = ThreadPoolExecutor(max_workers=8, thread_name_prefix="read")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a listing, and where the next one begins (None at the end)."""

    items: tuple[T, ...]
    after: str | None


@dataclass(frozen=True, slots=True)
class Counts:
    """`until`: where counting stopped, None when all were counted."""

    days: tuple[DaySummary, ...]
    until: str | None

    def by_job(self) -> dict[str, int]:
        """The most first."""
        found: dict[str, int] = {}
        for each in self.days:
            found[each.job] = found.get(each.job, 0) + each.count
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def page_of(
    client: Duebook,
    path: str,
    name: str,
    read: Callable[[Fields], T],
    *,
    query: Mapping[str, str] | None = None,
    after: str | None = None,
    limit: int = PAGE,
) -> Page[T]:
    """One page of a listing, in one call."""
    asked = {**(query or {}), "limit": str(limit), **({"cursor": after} if after else {})}
    answer = Fields(client.call("GET", path, query=asked), f"GET {path}")
    return Page(tuple(read(each) for each in answer.parts(name)), answer.text_or_none("cursor"))


def due(client: Duebook, start: datetime, end: datetime, *, job: str | None, after: str | None) -> Page[Job]:
    """A page of pending jobs in [start, end), of any length.

    `after` carries the whole place: the window's own start, which part of it, and the API's cursor.
    """
    part, cursor = 0, None
    if after is not None:
        start, part, cursor = _place(after)
    found: list[Job] = []
    for _ in range(MOST_CALLS):
        low = start + part * PART
        if low >= end:
            return Page(tuple(found), None)
        query = {"from": utc_in(low, "start"), "to": utc_in(min(low + PART, end), "end")}
        if job:
            query["job"] = job
        page = page_of(client, "/jobs", "jobs", read_job, query=query, after=cursor, limit=PAGE - len(found))
        found += page.items
        part, cursor = (part, page.after) if page.after else (part + 1, None)
        if len(found) >= PAGE:
            break
    more = start + part * PART < end
    return Page(tuple(found), f"{utc_in(start, 'start')}~{part}~{cursor or ''}" if more else None)


def counts(client: Duebook, start: datetime, end: datetime, *, job: str | None = None) -> Counts:
    """Pending jobs by day and kind."""
    query = {"from": utc_in(start, "start"), "to": utc_in(end, "end"), **({"job": job} if job else {})}
    found: list[DaySummary] = []
    cursor: str | None = None
    for _ in range(MOST_CALLS):
        answer = Fields(
            client.call("GET", "/jobs/summary", query=query if cursor is None else {**query, "cursor": cursor}),
            "GET /jobs/summary",
        )
        found += [read_day_summary(each) for each in answer.parts("days")]
        cursor = answer.text_or_none("next")
        if cursor is None:
            return Counts(tuple(found), None)
    return Counts(tuple(found), found[-1].day.isoformat() if found else utc_in(start, "start")[:10])


def together(*reads: Callable[[], Any]) -> list[Any]:
    """All of them at once; what one raised is in its place, so that a page shows what it can."""
    futures: list[Future[Any]] = [_CALLS.submit(each) for each in reads]
    found: list[Any] = []
    for future in futures:
        try:
            found.append(future.result())
        except DuebookError as error:
            found.append(error)
    return found


def _place(after: str) -> tuple[datetime, int, str | None]:
    try:
        start, part, cursor = after.split("~", 2)
        return datetime.fromisoformat(start).astimezone(UTC), min(max(int(part), 0), 10), cursor or None
    except ValueError:
        raise BadArgument("after", "is not a place in this listing") from None
