"""A payout that is held: nothing is decided about it until a person releases it, whatever else happens."""

from typing import Any

import pytest
from hypothesis import given

from duebook.domain import transitions
from duebook.domain.booking import PAYABLE, Booking, State, jobs_for
from duebook.domain.errors import NewerRow, Refused
from duebook.domain.policy import Policy
from duebook.service import outside, rows
from tests.unit.builders import AUGUST, CHEF, COMPLETE, DAY, HOUR, OPERATOR, RELEASE, START, booking
from tests.unit.disputes import People
from tests.unit.domain.test_properties import POLICIES, STATES, STORIES, Act, play
from tests.unit.service.test_explain import told
from tests.unit.world import PAID, World

ELSEWHERE: dict[str, Any] = {"paid_at": "2026-08-01T09:00:00Z", **PAID, "hold_payout": True}
HELD = ("blocked", "it is not planned: the payout is held until a person releases it")


def held(booking_: Booking | None) -> bool:
    assert booking_ is not None
    assert booking_.engagement is not None
    return booking_.engagement.is_held


def release(world: World) -> bool:
    _, applied = world.commands.release_payout("b1", {"actor": {"role": "operator", "id": "op-1"}}, None)
    world.deliver()
    return applied


def listed(world: World) -> list[str]:
    return [row["booking_id"] for row in world.attention(rows.HELD)]


@pytest.mark.parametrize("state", ["paid", "event_closed", "completed"])
def test_a_booking_that_existed_elsewhere_completes_but_is_not_paid_out(world: World, state: str) -> None:
    world.book(state=state, **ELSEWHERE)
    assert "release_payment" not in world.jobs()
    world.travel_to(RELEASE + 30 * DAY)
    assert world.state() == "completed"
    assert (world.jobs(), world.payments()) == ({}, [])
    assert told(world, "release_payment") == HELD


def test_a_booking_held_from_its_request_stays_held_through_the_payment(world: World) -> None:
    world.paid(hold_payout=True)
    assert set(world.jobs()) == {"close_event", "complete_order"}
    assert listed(world) == ["b1"]


def test_released_before_its_instant_the_payout_keeps_it(world: World) -> None:
    world.paid(hold_payout=True)
    assert release(world)
    assert world.jobs()["release_payment"]["run_at"] == "2026-11-16T00:00:00.000Z"
    world.travel_to(RELEASE - HOUR)
    assert world.state() == "completed"
    world.travel_to(RELEASE + HOUR)
    assert (world.state(), [row["amount"] for row in world.transfers("b1.p1")]) == ("paid_out", [90_000])


def test_released_after_its_instant_the_payout_goes_at_once_and_a_second_release_changes_nothing(world: World) -> None:
    world.book(state="completed", **ELSEWHERE)
    world.travel_to(RELEASE + 10 * DAY)
    assert release(world)
    assert world.state() == "paid_out"
    assert not release(world)
    assert [row["amount"] for row in world.transfers("b1.p1")] == [90_000]
    assert world.types().count("booking.payout_released") == 1


def test_what_was_never_held_is_released_without_effect(world: World) -> None:
    world.paid()
    assert not release(world)
    world.put_job("menu", "order-7", run_at=START)
    with pytest.raises(Refused, match="holds only own jobs"):
        world.commands.release_payout("order-7", {}, None)


def test_held_is_listed_by_its_kind_alone_and_leaves_the_list_when_it_is_over(world: World) -> None:
    world.book("b1", state="paid", **ELSEWHERE)
    world.now += HOUR
    world.book("b2", state="paid", **ELSEWHERE)
    assert listed(world) == ["b1", "b2"]
    assert [world.attention(kind) for kind in (rows.DEAD, rows.NEEDS_ATTENTION)] == [[], []]
    since = [row["since"] for row in world.attention(rows.HELD)]
    world.put_job("menu", "b1", run_at=START)
    assert [row["since"] for row in world.attention(rows.HELD)] == since
    release(world)
    world.cancel("b2")
    assert listed(world) == []


def test_a_cancellation_is_a_person_s_decision_and_moves_the_money_though_the_payout_is_held(world: World) -> None:
    world.paid(hold_payout=True)
    world.cancel(refund_minor=40_000)
    world.deliver()
    assert [(row["kind"], row["amount"], row["status"]) for row in world.payments()] == [
        ("refund", 40_000, "done"),
        ("payout", 54_000, "done"),
    ]
    assert not held(world.bookings.load("b1"))
    assert not release(world)


def test_a_move_of_a_held_booking_moves_the_instant_it_is_released_for(world: World) -> None:
    world.paid(hold_payout=True)
    later = {"event_start": "2026-11-21T17:00:00Z", "event_end": "2026-11-21T21:00:00Z"}
    world.commands.move("b1", later, None)
    assert "release_payment" not in world.jobs()
    release(world)
    assert world.jobs()["release_payment"]["run_at"] == "2026-11-23T00:00:00.000Z"


def test_a_settled_dispute_refunds_and_leaves_the_rest_held(world: World) -> None:
    world.paid(hold_payout=True)
    people = People(world)
    people.open()
    world.disputes.look("b1.d1", 1)
    people.concede()
    world.disputes.settle("b1.d1")
    world.travel_to(RELEASE + DAY)
    assert (world.state(), people.money()) == ("completed", {"refund": 40_000, "fee": 0})
    release(world)
    assert people.money() == {"refund": 40_000, "payout": 54_000, "fee": 6_000}


def test_a_dispute_and_a_hold_each_stop_the_payout_by_themselves(world: World) -> None:
    world.paid(hold_payout=True)
    people = People(world)
    people.open()
    assert told(world, "release_payment")[1].endswith(
        "a dispute is open and the payout is held until a person releases it"
    )
    assert release(world)
    assert told(world, "release_payment") == ("blocked", "it is not planned: a dispute is open")


def test_a_dispute_that_ends_while_the_payout_is_held_does_not_release_it(world: World) -> None:
    world.paid(hold_payout=True)
    people = People(world)
    people.open()
    people.withdraw()
    assert told(world, "release_payment") == HELD
    world.travel_to(RELEASE + DAY)
    assert world.state() == "completed"


def test_a_chargeback_that_ends_while_the_payout_is_held_does_not_release_it(world: World) -> None:
    world.paid(hold_payout=True)
    outside.charged_back(world.bookings, "b1", "dp_1", 10_000, "fraudulent")
    outside.chargeback_closed(world.bookings, "b1", "dp_1", 10_000, True)
    world.travel_to(RELEASE + DAY)
    assert (world.state(), world.payments()) == ("completed", [])


@given(STATES, POLICIES, STORIES)
def test_while_it_is_held_no_story_decides_the_payout_but_a_cancellation(
    state: State, policy: Policy, acts: list[Act]
) -> None:
    for step in play(booking(state, policy=policy, payout_held_since=AUGUST), acts):
        assert "release_payment" not in jobs_for(step.booking)
        assert step.type not in ("booking.payout_decided", "booking.paid_out") or step.booking.state is State.CANCELLED
        assert held(step.booking) == (step.booking.state not in (State.REJECTED, State.EXPIRED, State.CANCELLED))


@given(STATES, POLICIES, STORIES)
def test_released_everything_is_planned_as_if_it_had_never_been_held(
    state: State, policy: Policy, acts: list[Act]
) -> None:
    steps = play(booking(state, policy=policy, payout_held_since=AUGUST), acts)
    for step in steps:
        released = transitions.release_payout(step.booking, OPERATOR, None, step.at)
        if released is None:
            continue
        assert step.booking.engagement is not None
        planned = jobs_for(released.booking)
        assert planned.keys() - jobs_for(step.booking).keys() == (
            {"release_payment"} if step.booking.state in PAYABLE else set()
        )
        assert planned.get("release_payment", step.booking.engagement.release_at) == step.booking.engagement.release_at


# --- rows ----------------------------------------------------------------------------------------------------------


def test_a_row_from_before_there_were_held_payouts_is_not_held() -> None:
    row = rows.booking_row(booking(State.PAID))
    assert "payout_held_since" not in row["engagement"]
    assert (row["schema"], "attention_pk" in row) == (1, False)
    assert not held(rows.read_booking(row))


def test_code_that_knows_no_held_payouts_leaves_such_a_booking_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kind: a field that older code ignores would be paid out by it."""
    row = rows.booking_row(booking(State.PAID, payout_held_since=AUGUST))
    assert held(rows.read_booking(row))
    monkeypatch.setattr(rows, "READS", 1)
    with pytest.raises(NewerRow):
        rows.read_booking(row)
    released = transitions.release_payout(booking(State.PAID, payout_held_since=AUGUST), CHEF, None, COMPLETE)
    assert released is not None
    assert rows.booking_row(released.booking)["schema"] == 1
