"""How much is pending by day and job: every job once, wherever a request stops."""

from datetime import datetime
from typing import Any

import pytest

from duebook.domain.errors import InvalidRequest
from duebook.service import summary as module
from duebook.service.summary import summary
from tests.unit.builders import AUGUST, DAY, HOUR, START, utc
from tests.unit.world import World

NOVEMBER, DECEMBER = utc(2026, 11, 1), utc(2026, 12, 1)


def counted(world: World, start: datetime = NOVEMBER, end: datetime = DECEMBER, **more: Any) -> dict[Any, int]:
    """(day, job) → count, over as many calls as it takes."""
    found: dict[Any, int] = {}
    cursor: str | None = None
    for _ in range(1_000):
        page = summary(world.table, start, end, cursor=cursor, **more)
        for each in page.sums:
            found[each.day, each.job] = found.get((each.day, each.job), 0) + each.count
        cursor = page.cursor
        if cursor is None:
            return found
    raise AssertionError("it never ends")


def test_pending_jobs_are_counted_by_utc_day_and_job(world: World) -> None:
    for number in range(3):
        world.paid(f"b{number}")
    world.put_job("menu", run_at=START - DAY)
    world.put_job("survey", run_at=START - DAY + HOUR)
    assert counted(world) == {
        ("2026-11-13", "own"): 2,
        ("2026-11-14", "close_event"): 3,
        ("2026-11-15", "complete_order"): 3,
        ("2026-11-16", "release_payment"): 3,
    }


def test_it_can_be_asked_for_one_job_an_own_one_by_its_name(world: World) -> None:
    world.paid()
    for number in range(3):
        world.put_job("menu", f"o{number}", run_at=START)
        world.put_job("survey", f"o{number}", run_at=START)
    assert counted(world, job="menu") == {("2026-11-14", "menu"): 3}
    assert counted(world, job="own") == {("2026-11-14", "own"): 6}
    assert counted(world, job="close_event") == {("2026-11-14", "close_event"): 1}
    assert counted(world, job="pay_7") == {}


def test_the_window_is_half_open_to_the_millisecond(world: World) -> None:
    world.put_job("menu", run_at=START)
    assert counted(world, START, START + HOUR) == {("2026-11-14", "own"): 1}
    assert counted(world, START - HOUR, START) == {}


@pytest.mark.parametrize(("rows", "queries"), [(1, 400), (3, 400), (7, 1), (10_000, 5)])
def test_wherever_a_request_stops_the_next_one_goes_on_without_a_gap_or_a_double(
    world: World, monkeypatch: pytest.MonkeyPatch, rows: int, queries: int
) -> None:
    for number in range(20):
        world.put_job("menu", f"o{number}", run_at=START + number % 4 * DAY)
    whole = counted(world)
    assert sum(whole.values()) == 20
    monkeypatch.setattr(module, "PAGE", 2)
    monkeypatch.setattr(module, "MOST_ROWS", rows)
    monkeypatch.setattr(module, "MOST_QUERIES", queries)
    first = summary(world.table, NOVEMBER, DECEMBER)
    assert first.cursor is not None
    assert len(first.cursor) < 256
    assert counted(world) == whole


def test_done_removed_and_dead_jobs_are_not_pending(world: World) -> None:
    world.paid()
    world.put_job("menu", run_at=START)
    world.commands.delete_job("b1", "menu", None)
    world.travel_to(utc(2026, 11, 14, 21))
    assert ("2026-11-14", "close_event") not in counted(world)
    assert ("2026-11-14", "own") not in counted(world)


@pytest.mark.parametrize(
    ("start", "end", "cursor", "code"),
    [
        (START, START, None, "empty_window"),
        (AUGUST, AUGUST + 367 * DAY, None, "window_too_long"),
        (NOVEMBER, DECEMBER, "2026-12-02#own#0/", "bad_cursor"),
        (NOVEMBER, DECEMBER, "nonsense", "bad_cursor"),
    ],
)
def test_a_window_or_a_cursor_that_is_none_is_refused(
    world: World, start: datetime, end: datetime, cursor: str | None, code: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        summary(world.table, start, end, cursor=cursor)
    assert refused.value.code == code
