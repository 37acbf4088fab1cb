"""What a listing of pending work reads, by DynamoDB's own count: as many rows as it returns, and never the table."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duebook.domain import names
from duebook.domain.booking import Planned
from duebook.service import queries, rows
from duebook.service.ports import Item, Table
from tests.integration.conftest import Client
from tests.integration.tables import on_dynamodb

NOW = datetime(2026, 8, 1, 10, tzinfo=UTC)
START = datetime(2026, 11, 9, tzinfo=UTC)
WEEK = timedelta(days=7)
HOUR = timedelta(hours=1)
JOBS = ("close_event", "complete", "remind_guest")
BOOKINGS = 20


@dataclass
class Reads:
    """Sums over DynamoDB's answers."""

    scanned: int = 0
    count: int = 0
    indexes: set[str | None] = field(default_factory=set)


@pytest.fixture(scope="module")
def week(client: Client) -> Table:
    """60 pending jobs of one week, and as many outside of it."""
    table = on_dynamodb(client, "duebook-listings")
    for number in range(BOOKINGS):
        for offset, job in enumerate(JOBS):
            for shift in (timedelta(), 2 * WEEK):
                at = START + shift + number * 8 * HOUR + offset * HOUR
                booking = f"b{number}" if not shift else f"later{number}"
                planned = Planned(run_at=at, generation=1)
                table.write(rows.job_write(booking, job, planned, NOW, {"payload": "x" * 500}, ()))
    return table


@pytest.fixture
def reads(client: Client) -> Iterator[Reads]:
    found, hooks = Reads(), client("dynamodb").meta.events

    def asked(params: dict[str, Any], **_: Any) -> None:
        found.indexes.add(params.get("IndexName"))

    def answered(parsed: dict[str, Any], **_: Any) -> None:
        found.scanned += parsed["ScannedCount"]
        found.count += parsed["Count"]

    hooks.register("provide-client-params.dynamodb", asked)
    hooks.register("after-call.dynamodb", answered)
    yield found
    hooks.unregister("provide-client-params.dynamodb", asked)
    hooks.unregister("after-call.dynamodb", answered)


def listed(table: Table, limit: int, **more: Any) -> tuple[list[Item], int, int]:
    """All items over all pages, the rows read, and the pages."""
    items: list[Item] = []
    read, cursor = 0, None
    for pages in range(1, 200):
        listing = queries.due(table, START, START + WEEK, cursor=cursor, limit=limit, **more)
        items += listing.items
        read, cursor = read + listing.read, listing.cursor
        if cursor is None:
            return items, read, pages
    raise AssertionError("the pages never end")


def test_a_week_in_one_page_reads_exactly_what_it_returns_and_only_the_due_index(week: Table, reads: Reads) -> None:
    items, read, pages = listed(week, 1_000)
    assert pages == 1
    assert len(items) == BOOKINGS * len(JOBS)
    assert reads.scanned == reads.count == read == len(items)
    assert reads.indexes == {"due"}


@pytest.mark.parametrize("limit", [13, 100])
def test_pages_filter_nothing_away_and_give_every_job_once_in_order(week: Table, reads: Reads, limit: int) -> None:
    """DynamoDB filters no row (ScannedCount = Count); each page may read a little ahead in each of a day's shards."""
    items, read, pages = listed(week, limit)
    assert len({(item["booking_id"], item["job"]) for item in items}) == len(items) == BOOKINGS * len(JOBS)
    assert [item["wake_at"] for item in items] == sorted(item["wake_at"] for item in items)
    assert reads.scanned == reads.count == read
    shards = rows.DUE_SHARDS * len(names.KINDS)
    ahead = limit + 2 * shards
    assert read <= len(items) + pages * ahead


def test_one_kind_of_job_reads_its_own_partitions_alone(week: Table, reads: Reads) -> None:
    items, read, _ = listed(week, 1_000, job="close_event")
    assert len(items) == BOOKINGS
    assert reads.scanned == reads.count == read == BOOKINGS


def test_a_listing_shows_no_payload(week: Table) -> None:
    items, _, _ = listed(week, 1_000)
    assert all("payload" not in item for item in items)


def test_an_empty_window_reads_nothing(week: Table, reads: Reads) -> None:
    assert queries.due(week, START - WEEK, START).items == []
    assert reads.scanned == reads.count == 0
