"""How much is pending, by day and job: for charts and for those who have too much to list."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta

from duebook.domain import names
from duebook.domain.errors import InvalidRequest
from duebook.domain.times import iso
from duebook.service import rows
from duebook.service.ports import Item, Table
from duebook.service.queries import JUST_AFTER, MOST_QUERIES, check_window, kinds_of

LONGEST_WINDOW = timedelta(days=366)
PAGE = 1_000
"""Rows a query asks for; some 2,500 fill the 1 MB that DynamoDB reads at once."""
MOST_ROWS = 10_000
"""Rows one call reads, give or take a page; it goes on from its cursor."""
_PLACE = "/"


@dataclass(frozen=True, slots=True)
class Sum:
    """One UTC day's pending jobs of one kind, and what the payouts among them come to: currency → minor units.

    `job`: as `names.kind` has it, or the one own job that was asked for.
    """

    day: str
    job: str
    count: int
    amounts: dict[str, int]


@dataclass(frozen=True, slots=True)
class Summary:
    """`cursor`: where to go on, None when it is complete; the sum of a day may then be split. `read`: rows read."""

    sums: list[Sum]
    cursor: str | None
    read: int


def summary(
    table: Table, start: datetime, end: datetime, *, job: str | None = None, cursor: str | None = None
) -> Summary:
    """Count the pending jobs that are woken in [start, end), through the due index alone; `job` as for `queries.due`.

    Partitions are read one after the other: what is counted needs no order, so none of it is read twice.
    """
    check_window(start, end, LONGEST_WINDOW)
    last = end - timedelta(milliseconds=1)
    days = [
        (start.date() + timedelta(days=number)).isoformat() for number in range((last.date() - start.date()).days + 1)
    ]
    kinds = kinds_of(job)
    partitions = [
        rows.due_partition(day, kind, number) for day in days for kind in kinds for number in range(rows.DUE_SHARDS)
    ]
    at, low = _begin(partitions, cursor) if cursor else (0, "")
    counts: Counter[tuple[str, str]] = Counter()
    amounts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    read = asked = 0
    following: str | None = None
    while at < len(partitions) and following is None:
        page = table.query_index("due", partitions[at], low=max(low, iso(start)), high=iso(last) + "\uffff", limit=PAGE)
        asked, read = asked + 1, read + page.scanned
        for row in page.items:
            if job is None or job in names.KINDS or row["job"] == job:
                key = str(row["due_pk"])[:10], job if job is not None else names.kind(row["job"])
                counts[key] += 1
                amounts[key].update(_worth(row))
        at, low = (at, page.items[-1]["due_sk"] + JUST_AFTER) if page.after else (at + 1, "")
        if (asked >= MOST_QUERIES or read >= MOST_ROWS) and at < len(partitions):
            following = f"{partitions[at]}{_PLACE}{low}"
    return Summary([Sum(*key, counts[key], dict(amounts[key])) for key in sorted(counts)], following, read)


def _begin(partitions: list[str], cursor: str) -> tuple[int, str]:
    partition, _, low = cursor.partition(_PLACE)
    if partition not in partitions:
        raise InvalidRequest("bad_cursor", "cursor", "the cursor is not one of this summary's")
    return partitions.index(partition), low


def _worth(row: Item) -> dict[str, int]:
    """Of a payout, what its row says that it comes to."""
    return {row["currency"]: row["amount"]} if "amount" in row else {}
