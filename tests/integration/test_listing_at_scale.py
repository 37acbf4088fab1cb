"""GET /jobs at 10 and at 100,000 pending jobs: its cost follows what it returns, not what is pending.

Measured for one unfiltered page of at most 100 out of ten days of pending work:

| pending jobs | returned | rows read | index queries |
|---|---|---|---|
| 10 | 10 | 10 | 160 (each day's 16 partitions) |
| 1,000 | 100 | 100 to 136 | 44 to 60 |
| 100,000 | 100 | 132 | 44 |

Rows read is DynamoDB's ScannedCount, equal to Count in every query; what is read beyond the page are the heads of the
day's other partitions, which the merge has to see.

GET /jobs/summary has to read every pending row of its window once, in the fewest requests that its bounds allow. The
same ten days:

| pending jobs | requests | rows read | index queries |
|---|---|---|---|
| 10 | 1 | 10 | 160 |
| 100,000 | 10 | 100,000 | 180 |
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duebook.adapters.memory import MemoryTable
from duebook.domain import names
from duebook.domain.booking import Planned
from duebook.service import queries, rows
from duebook.service.summary import MOST_ROWS, PAGE, summary

START = datetime(2026, 11, 14, tzinfo=UTC)
KINDS = (*names.LIFECYCLE_JOBS, "pay_1", "watch_dispute", "menu", "survey")
PARTITIONS = len(names.KINDS) * rows.DUE_SHARDS
"""Of one day."""
DAYS = 10
LIMIT = 100


class Counted(MemoryTable):
    """Counts what its queries read and give back."""

    def __init__(self) -> None:
        super().__init__(lambda: START)
        self.read = self.given = 0

    def query_index(self, *arguments: Any, **more: Any) -> Any:
        page = super().query_index(*arguments, **more)
        self.read += page.scanned
        self.given += len(page.items)
        return page


def filled(count: int) -> tuple[Counted, list[str]]:
    """Jobs of all kinds spread evenly over ten days; their index keys in order."""
    table, keys = Counted(), []
    step = timedelta(days=DAYS) / count
    for number in range(count):
        write = rows.job_write(
            f"b{number}", KINDS[number % len(KINDS)], Planned(START + number * step, 1), START, {}, ()
        )
        table.write(write)
        table.stream.forget(len(table.stream))
        keys.append(write.set["due_sk"])
    return table, sorted(keys)


@pytest.fixture(scope="module")
def hundred_thousand() -> tuple[Counted, list[str]]:
    return filled(100_000)


def page(table: Counted, start: datetime, **more: Any) -> tuple[queries.Listing, int]:
    """A page and how many index queries it took."""
    table.calls.clear()
    table.read = table.given = 0
    found = queries.due(table, start, START + timedelta(days=DAYS), limit=LIMIT, **more)
    assert table.read == table.given == found.read
    return found, table.calls["query_index"]


def test_ten_pending_jobs_are_read_for_a_page_of_ten() -> None:
    table, keys = filled(10)
    found, asked = page(table, START)
    assert [row["due_sk"] for row in found.items] == keys
    assert (found.read, asked) == (10, DAYS * PARTITIONS)


@pytest.mark.parametrize("day", [0, 4.5, 9.9])
def test_a_page_out_of_a_hundred_thousand_reads_little_more_than_it_returns(
    hundred_thousand: tuple[Counted, list[str]], day: float
) -> None:
    found, asked = page(hundred_thousand[0], START + timedelta(days=day))
    assert len(found.items) == LIMIT
    assert found.read <= LIMIT + PARTITIONS * (LIMIT // PARTITIONS + 2)
    assert asked <= 4 * PARTITIONS


@pytest.mark.parametrize("job", ["close_event", "pay"])
def test_a_page_of_one_kind_reads_the_page_and_the_heads_of_its_shards(
    hundred_thousand: tuple[Counted, list[str]], job: str
) -> None:
    found, _ = page(hundred_thousand[0], START, job=job)
    assert len(found.items) == LIMIT
    assert found.read <= LIMIT + rows.DUE_SHARDS * (LIMIT // rows.DUE_SHARDS + 2)


def test_a_hundred_thousand_are_paged_in_order_without_a_gap_or_a_duplicate(
    hundred_thousand: tuple[Counted, list[str]],
) -> None:
    table, keys = hundred_thousand
    found: list[str] = []
    cursor = None
    while True:
        listing = queries.due(table, START, START + timedelta(days=DAYS), cursor=cursor, limit=500)
        found += [row["due_sk"] for row in listing.items]
        cursor = listing.cursor
        if cursor is None:
            break
    assert found == keys


def test_nothing_but_the_index_is_read(hundred_thousand: tuple[Counted, list[str]]) -> None:
    table, _ = hundred_thousand
    page(table, START)
    assert set(table.calls) == {"query_index"}


def summed(table: Counted) -> tuple[int, int, int, int]:
    """Jobs counted, requests, rows read and index queries of one whole summary."""
    table.calls.clear()
    table.read = 0
    count, requests, cursor = 0, 0, None
    while True:
        asked = table.calls["query_index"]
        found = summary(table, START, START + timedelta(days=DAYS), cursor=cursor)
        count, requests = count + sum(each.count for each in found.sums), requests + 1
        assert found.read < MOST_ROWS + PAGE
        assert table.calls["query_index"] - asked <= queries.MOST_QUERIES
        cursor = found.cursor
        if cursor is None:
            return count, requests, table.read, table.calls["query_index"]


def test_a_summary_reads_each_pending_row_once_and_nothing_else(
    hundred_thousand: tuple[Counted, list[str]],
) -> None:
    few = filled(10)[0]
    assert summed(few) == (10, 1, 10, DAYS * PARTITIONS)
    many, _ = hundred_thousand
    count, requests, read, asked = summed(many)
    assert (count, read) == (100_000, 100_000)
    assert requests <= 100_000 // MOST_ROWS + 1
    assert asked <= DAYS * PARTITIONS + 100_000 // PAGE + requests
    assert set(many.calls) == {"query_index"}
