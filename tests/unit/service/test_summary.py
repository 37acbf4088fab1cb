"""How much is pending by day and job: every job once, wherever a request stops."""

from contextlib import suppress
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.domain.booking import State
from duebook.domain.errors import InvalidRequest, NotFound, Refused
from duebook.domain.policy import Policy
from duebook.service import outside, rows
from duebook.service import summary as module
from duebook.service.summary import summary
from tests.unit.builders import AUGUST, DAY, HOUR, RELEASE, START, booking, utc
from tests.unit.domain.test_properties import POLICIES, STATES, STORIES, Act
from tests.unit.service.test_explain import Tried
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


@pytest.mark.parametrize(("most_rows", "queries"), [(1, 400), (3, 400), (7, 1), (10_000, 5)])
def test_wherever_a_request_stops_the_next_one_goes_on_without_a_gap_or_a_double(
    world: World, monkeypatch: pytest.MonkeyPatch, most_rows: int, queries: int
) -> None:
    for number in range(20):
        world.put_job("menu", f"o{number}", run_at=START + number % 4 * DAY)
    whole = counted(world)
    assert sum(whole.values()) == 20
    monkeypatch.setattr(module, "PAGE", 2)
    monkeypatch.setattr(module, "MOST_ROWS", most_rows)
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


# --- what the payouts come to --------------------------------------------------------------------------------------


def amounts(world: World) -> dict[str, dict[str, int]]:
    found = summary(world.table, NOVEMBER, DECEMBER)
    return {each.job: each.amounts for each in found.sums if each.amounts}


def test_payouts_to_come_are_summed_by_currency_and_follow_what_is_refunded_by_hand(world: World) -> None:
    world.paid("b1")
    world.paid("b2", currency="CHF")
    world.paid("b3")
    assert amounts(world) == {"release_payment": {"EUR": 180_000, "CHF": 90_000}}
    outside.refunded_outside(world.bookings, "b1", "re_1", 50_000)
    assert amounts(world) == {"release_payment": {"EUR": 135_000, "CHF": 90_000}}
    outside.charged_back(world.bookings, "b3", "dp_1", 20_000, "fraudulent")
    assert amounts(world) == {"release_payment": {"EUR": 45_000, "CHF": 90_000}}
    outside.chargeback_closed(world.bookings, "b3", "dp_1", 20_000, False)
    assert amounts(world) == {"release_payment": {"EUR": 117_000, "CHF": 90_000}}


def test_a_decided_payout_is_summed_until_it_is_done_and_a_refund_is_none(world: World) -> None:
    world.use_external_payments()
    world.paid()
    world.travel_to(START - HOUR)
    world.paid("b2")
    world.cancel("b2", refund_minor=100_000)
    world.deliver()
    assert ("2026-11-15", "pay") in counted(world)
    assert amounts(world) == {"release_payment": {"EUR": 90_000}}
    world.travel_to(RELEASE)
    assert amounts(world) == {"pay": {"EUR": 90_000}}


@given(STATES, POLICIES, STORIES, st.lists(st.tuples(st.integers(1, 60_000), st.integers(0, 12)), max_size=3))
def test_a_row_always_says_what_its_booking_would_pay(
    state: State, policy: Policy, acts: list[Act], refunds: list[tuple[int, int]]
) -> None:
    tried = Tried(booking(state, policy=policy))
    for number, act in enumerate([*acts, *acts[:1]]):
        tried.play([act])
        for index, (amount, at) in enumerate(refunds):
            if at == number:
                with suppress(NotFound, Refused):
                    outside.refunded_outside(tried.bookings, "b1", f"re_{index}", amount)
        now = tried.bookings.load("b1")
        assert now is not None
        for row in tried.table.query("b1", rows.JOB_PREFIX).items:
            shown = {name: row[name] for name in ("amount", "currency") if name in row}
            assert shown == rows.payout_shown(now, row["job"])
