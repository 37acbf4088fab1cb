"""What is pending, listed through the due index alone: in order, complete, no duplicate, and little is read in vain."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from duebook.domain import names
from duebook.domain.booking import Planned
from duebook.domain.errors import InvalidRequest
from duebook.domain.times import iso
from duebook.service import queries, rows
from duebook.service.queries import LONGEST_WINDOW, Listing
from tests.unit.builders import AUGUST, DAY, END, HOUR, MS, RELEASE, START
from tests.unit.world import World

KINDS = ("reject_request", "close_event", "complete_order", "release_payment", "pay_1", "menu", "survey")


def fill(world: World, count: int, first: datetime, span: timedelta) -> list[str]:
    """`count` pending jobs of all kinds spread over `span`; their index keys in order."""
    keys = []
    for number in range(count):
        run_at = first + number * (span / count)
        write = rows.job_write(f"b{number}", KINDS[number % len(KINDS)], Planned(run_at, 1), AUGUST, {}, ())
        world.table.write(write)
        keys.append(write.set["due_sk"])
    return sorted(keys)


def pages(world: World, start: datetime, end: datetime, **more: Any) -> list[Listing]:
    found, cursor = [], None
    for _ in range(1_000):
        page = queries.due(world.table, start, end, cursor=cursor, **more)
        found.append(page)
        cursor = page.cursor
        if cursor is None:
            return found
    raise AssertionError("paging never ends")


def keys(found: list[Listing]) -> list[str]:
    return [row["due_sk"] for page in found for row in page.items]


@pytest.mark.parametrize("limit", [1, 3, 10, 100, 500])
def test_paging_is_complete_in_order_and_without_a_duplicate(world: World, limit: int) -> None:
    wanted = fill(world, 120, START, 9 * DAY)
    found = pages(world, START, START + 9 * DAY, limit=limit)
    assert keys(found) == wanted
    assert all(len(page.items) <= limit for page in found)


def test_every_query_reads_only_what_it_gives_back(world: World) -> None:
    """ScannedCount = Count: there is no filter behind the key condition."""
    fill(world, 300, START, 5 * DAY)
    query = world.table.query_index
    given: list[tuple[int, int]] = []

    def counted(*arguments: Any, **more: Any) -> Any:
        page = query(*arguments, **more)
        given.append((page.scanned, len(page.items)))
        return page

    world.table.query_index = counted  # type: ignore[method-assign]
    found = pages(world, START, START + 5 * DAY)
    assert all(scanned == count for scanned, count in given)
    assert sum(page.read for page in found) == sum(scanned for scanned, _ in given)
    assert world.table.calls["scan"] == world.table.calls["query"] == 0


def test_ten_pending_jobs_cost_ten_rows(world: World) -> None:
    fill(world, 10, START, 6 * HOUR)
    (page,) = pages(world, START, START + DAY)
    assert (len(page.items), page.read) == (10, 10)


def test_what_a_page_reads_ahead_is_bounded_by_its_partitions_and_not_by_what_is_pending(world: World) -> None:
    fill(world, 3_000, START, 6 * HOUR)
    partitions = len(names.KINDS) * rows.DUE_SHARDS
    for limit in (10, 100):
        page = queries.due(world.table, START, START + DAY, limit=limit)
        assert len(page.items) == limit
        assert page.read <= limit + partitions * (limit // partitions + 2)


def test_the_window_is_half_open_to_the_millisecond(world: World) -> None:
    for number, run_at in enumerate([START - MS, START, END - MS, END]):
        world.table.write(rows.job_write(f"b{number}", "menu", Planned(run_at, 1), AUGUST, {}, ()))
    (page,) = pages(world, START, END)
    assert [row["booking_id"] for row in page.items] == ["b1", "b2"]


def test_a_job_is_listed_at_the_instant_it_is_woken(world: World) -> None:
    world.put_job("late", run_at=AUGUST - HOUR)
    (page,) = pages(world, AUGUST, AUGUST + HOUR)
    assert [(row["job"], row["run_at"], row["wake_at"]) for row in page.items] == [
        ("late", iso(AUGUST - HOUR), iso(AUGUST))
    ]


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ("close_event", {"close_event"}),
        ("pay", {"pay_1"}),
        ("pay_1", {"pay_1"}),
        ("pay_2", set()),
        ("own", {"menu", "survey"}),
        ("menu", {"menu"}),
        ("never_heard_of", set()),
    ],
)
def test_one_kind_of_job_or_one_own_name_can_be_listed_alone(world: World, job: str, expected: set[str]) -> None:
    fill(world, 70, START, 3 * DAY)
    found = pages(world, START, START + 3 * DAY, job=job, limit=7)
    assert {row["job"] for page in found for row in page.items} == expected
    assert len(keys(found)) == 10 * len(expected)


def test_a_sparse_window_ends_with_a_short_page_and_a_cursor_rather_than_after_too_many_queries(world: World) -> None:
    wanted = fill(world, 3, START, 30 * DAY)
    found = pages(world, START, START + LONGEST_WINDOW)
    assert len(found) > 1
    assert keys(found) == wanted


def test_the_payouts_of_next_week_are_a_query_from_the_day_of_booking(world: World) -> None:
    for number in range(5):
        world.paid(f"b{number}")
    (page,) = pages(world, RELEASE - DAY, RELEASE + DAY, job="release_payment")
    assert [row["booking_id"] for row in page.items] == [f"b{number}" for number in range(5)]


def test_what_is_done_dead_or_cancelled_is_not_pending(world: World) -> None:
    world.paid("b1")
    world.paid("b2")
    world.cancel("b2", role="operator")
    world.table.write(rows.job_dead(world.jobs("b1")["complete_order"], AUGUST, "gave up"))
    world.travel_to(END)
    (page,) = pages(world, START, START + 5 * DAY)
    assert [(row["booking_id"], row["job"]) for row in page.items] == [("b1", "release_payment")]


def test_the_payload_is_not_in_the_index(world: World) -> None:
    world.put_job("menu", run_at=START, payload={"secret": True})
    (page,) = pages(world, START, START + HOUR)
    assert "payload" not in page.items[0]


@pytest.mark.parametrize(
    ("start", "end", "code", "field"),
    [
        (START, START, "empty_window", "to"),
        (START, START - HOUR, "empty_window", "to"),
        (START, START + LONGEST_WINDOW + MS, "window_too_long", "to"),
    ],
)
def test_a_window_that_makes_no_sense_is_refused(
    world: World, start: datetime, end: datetime, code: str, field: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        queries.due(world.table, start, end)
    assert (refused.value.code, refused.value.details["field"]) == (code, field)


@pytest.mark.parametrize("cursor", ["x", "2026-99-99", "menu#b1"])
def test_a_cursor_that_is_not_ours_is_refused(world: World, cursor: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        queries.due(world.table, START, END, cursor=cursor)
    assert refused.value.code == "bad_cursor"


@pytest.mark.parametrize("cursor", ["2026-11-14T23:59:59.999Z#z", "2026-11-14\uffff", "2031-01-01T00:00:00.000Z"])
def test_a_cursor_past_the_window_ends_the_list(world: World, cursor: str) -> None:
    """Kind: DynamoDB refuses BETWEEN with bounds the wrong way round; the list has simply ended."""
    fill(world, 10, START, HOUR)
    query = world.table.query_index

    def strict(*arguments: Any, low: str = "", high: str = "\uffff", **more: Any) -> Any:
        assert low <= high
        return query(*arguments, low=low, high=high, **more)

    world.table.query_index = strict  # type: ignore[method-assign]
    assert queries.due(world.table, START, END, cursor=cursor) == Listing([], None, 0)


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_what_needs_a_person_is_listed_the_longest_waiting_first(world: World, limit: int) -> None:
    for number in range(9):
        world.put_job("menu", f"b{number}", run_at=START)
        world.table.write(rows.job_dead(world.jobs(f"b{number}")["menu"], AUGUST + number * HOUR, "gave up"))
    found, cursor = [], None
    while True:
        page = queries.attention(world.table, rows.DEAD, cursor=cursor, limit=limit)
        found += [row["booking_id"] for row in page.items]
        cursor = page.cursor
        if cursor is None:
            break
    assert found == [f"b{number}" for number in range(9)]


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_a_history_is_paged_oldest_first(world: World, limit: int) -> None:
    for number in range(12):
        world.put_job("menu", run_at=START + number * HOUR)
    found, cursor = [], None
    while True:
        page = queries.history(world.table, "b1", cursor=cursor, limit=limit)
        found += [row["version"] for row in page.items]
        cursor = page.cursor
        if cursor is None:
            break
    assert found == list(range(1, 13))
