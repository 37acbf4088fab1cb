"""Every transition and every refusal of a managed booking."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from duebook.domain import transitions
from duebook.domain.booking import Actor, Booking, Planned, Role, State, jobs_for
from duebook.domain.errors import InvalidRequest, Refused
from duebook.domain.payment import Act, Done, Failed, Kind, Status, claim, record
from duebook.domain.policy import Policy
from duebook.domain.times import HORIZON
from duebook.domain.transitions import Step, advance
from tests.unit.builders import (
    AUGUST,
    CHEF,
    COMPLETE,
    CUSTOMER,
    DAY,
    END,
    HOUR,
    MS,
    OPERATOR,
    RELEASE,
    START,
    at,
    booking,
    engagement,
    in_state,
    must,
    run_out,
    with_job,
)

ILLEGAL = "illegal_transition"


def _captured(before: Booking) -> int:
    """What the first capture was, so that paying again is a repeat."""
    paid = before.engagement if before.engagement and before.engagement.charge_ref else None
    return paid.captured if paid else 100_000


COMMANDS: dict[str, Callable[[Booking, datetime], Step | None]] = {
    "accept": lambda b, now: transitions.accept(b, CHEF, now),
    "decline": lambda b, now: transitions.decline(b, CHEF, None, now),
    "pay": lambda b, now: transitions.pay(b, _captured(b), "ch_1", now, now),
    "move": lambda b, now: transitions.move(b, at(START + DAY), at(END + DAY), CUSTOMER, None, now),
    "cancel": lambda b, now: transitions.cancel(b, OPERATOR, None, None, now),
}

TABLE: dict[State, tuple[str | None, str | None, str | None, str | None, str | None]] = {
    # state:         accept              decline             pay                         move             cancel
    State.REQUESTED: ("booking.accepted", "booking.declined", ILLEGAL, "booking.moved", "booking.cancelled"),
    State.ACCEPTED: (None, ILLEGAL, "booking.paid", "booking.moved", "booking.cancelled"),
    State.PAID: (None, ILLEGAL, None, "booking.moved", "booking.cancelled"),
    State.EVENT_CLOSED: (None, ILLEGAL, None, ILLEGAL, "booking.cancelled"),
    State.COMPLETED: (None, ILLEGAL, None, ILLEGAL, "booking.cancelled"),
    State.PAYING: (None, ILLEGAL, None, ILLEGAL, ILLEGAL),
    State.PAID_OUT: (None, ILLEGAL, None, ILLEGAL, ILLEGAL),
    State.REJECTED: (ILLEGAL, None, "booking.capture_refunded", ILLEGAL, ILLEGAL),
    State.EXPIRED: (None, ILLEGAL, "booking.capture_refunded", ILLEGAL, ILLEGAL),
    State.CANCELLED: (None, ILLEGAL, None, ILLEGAL, None),
}

EFFECT = {
    "booking.accepted": State.ACCEPTED,
    "booking.declined": State.REJECTED,
    "booking.paid": State.PAID,
    "booking.cancelled": State.CANCELLED,
}


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_in_a_state_has_its_one_result(state: State, command: str) -> None:
    before = booking(state)
    expected = TABLE[state][list(COMMANDS).index(command)]
    if expected is not None and "." not in expected:
        with pytest.raises(Refused) as refused:
            COMMANDS[command](before, AUGUST)
        assert refused.value.code == expected
        assert refused.value.details["state"] == state
        return
    step = COMMANDS[command](before, AUGUST)
    assert (step and step.type) == expected
    if step and expected:
        assert step.booking.state == EFFECT.get(expected, state)
        assert step.booking.version == before.version + 1
        assert step.reason


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("state", State)
def test_a_command_that_took_effect_changes_nothing_when_repeated(state: State, command: str) -> None:
    try:
        step = COMMANDS[command](booking(state), AUGUST)
    except Refused:
        return
    if step is not None:
        assert COMMANDS[command](step.booking, AUGUST + HOUR) is None


@pytest.mark.parametrize("command", COMMANDS)
def test_an_id_that_holds_only_own_jobs_has_no_lifecycle(command: str) -> None:
    own = with_job(None, "remind", run_at=START)
    with pytest.raises(Refused) as refused:
        COMMANDS[command](own, AUGUST)
    assert refused.value.code == "not_managed"


# --- what only the clock drives -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "job", "due", "type_", "after"),
    [
        (State.REQUESTED, "reject_request", AUGUST + 24 * HOUR, "booking.rejected", State.REJECTED),
        (State.ACCEPTED, "cancel_unpaid", AUGUST + 12 * HOUR, "booking.expired", State.EXPIRED),
        (State.PAID, "close_event", END, "booking.event_closed", State.EVENT_CLOSED),
        (State.EVENT_CLOSED, "complete_order", COMPLETE, "booking.completed", State.COMPLETED),
        (State.COMPLETED, "release_payment", RELEASE, "booking.payout_decided", State.PAYING),
    ],
)
def test_a_deadline_is_half_open(state: State, job: str, due: datetime, type_: str, after: State) -> None:
    before = booking(state)
    assert jobs_for(before)[job] == due
    assert advance(before, due - MS) is None
    step = advance(before, due)
    assert step is not None
    assert (step.type, step.job, step.due, step.at, step.booking.state) == (type_, job, due, due, after)


@pytest.mark.parametrize("state", [State.PAYING, State.PAID_OUT, State.REJECTED, State.EXPIRED, State.CANCELLED])
def test_nothing_is_ever_due_by_the_clock_alone_in_a_state_that_has_ended_or_waits_for_money(state: State) -> None:
    assert advance(booking(state), RELEASE + 365 * DAY) is None


def test_the_whole_forecast_is_known_on_the_day_of_payment() -> None:
    assert jobs_for(booking(State.PAID)) == {
        "close_event": END,
        "complete_order": COMPLETE,
        "release_payment": RELEASE,
    }


@pytest.mark.parametrize(("state", "job"), [(State.REQUESTED, "reject_request"), (State.ACCEPTED, "cancel_unpaid")])
def test_a_deadline_is_never_later_than_the_start_of_the_event(state: State, job: str) -> None:
    soon = AUGUST + 2 * HOUR
    before = booking(state, event_start=at(soon), event_end=at(soon + HOUR))
    assert jobs_for(before) == {job: soon}
    assert advance(before, soon - MS) is None
    assert advance(before, soon) is not None


def test_a_move_takes_the_deadline_of_the_silent_chef_along_only_if_the_event_comes_first() -> None:
    soon = AUGUST + 2 * HOUR
    before = booking(event_start=at(soon), event_end=at(soon + HOUR))
    later = must(transitions.move(before, at(START), at(END), CUSTOMER, None, AUGUST))
    assert jobs_for(later) == {"reject_request": AUGUST + 24 * HOUR}


def test_planned_instants_come_from_the_event_and_never_from_when_something_was_processed() -> None:
    before = booking(State.PAID)
    closed = must(advance(before, END + 100 * HOUR))
    assert jobs_for(closed)["complete_order"] == COMPLETE
    done, steps = run_out(closed, END + 100 * HOUR)
    assert [step.due for step in steps] == [COMPLETE, RELEASE]
    assert done.state == State.PAYING


def test_everything_that_is_due_happens_in_its_order_however_late() -> None:
    after, steps = run_out(booking(State.PAID), RELEASE + 30 * DAY)
    assert [step.type for step in steps] == [
        "booking.event_closed",
        "booking.completed",
        "booking.payout_decided",
    ]
    assert [step.booking.version for step in steps] == [2, 3, 4]
    assert after.state == State.PAYING


def test_at_one_instant_own_jobs_come_first_and_then_the_lifecycle_in_its_order() -> None:
    policy = Policy(complete_after=0, dispute_within=0)
    before = with_job(booking(State.PAID, policy=policy), "thank", anchor="event_end")
    _, steps = run_out(before, END)
    assert [step.job for step in steps] == ["thank", "close_event", "complete_order", "release_payment"]


def test_a_payout_is_what_was_captured_less_the_fee_and_its_job_is_due_at_once() -> None:
    step = advance(booking(State.COMPLETED), RELEASE)
    assert step is not None
    (payment,) = step.payments
    assert (payment.kind, payment.amount, payment.status) == (Kind.PAYOUT, 90_000, Status.INTENT)
    assert (payment.payment_id, payment.chef_id, payment.charge_ref) == ("b1.p1", "ch-1", "ch_1")
    assert step.booking.planned == {"pay_1": Planned(RELEASE, step.booking.version)}
    assert step.booking.engagement is not None
    assert (step.booking.engagement.paid_out, step.booking.engagement.fee) == (90_000, 10_000)


@pytest.mark.parametrize(
    ("captured", "policy"), [(0, Policy()), (100_000, Policy(fee_bps=10_000)), (0, Policy(fee_bps=0))]
)
def test_when_nothing_is_left_to_pay_out_no_payment_is_made(captured: int, policy: Policy) -> None:
    step = advance(booking(State.COMPLETED, captured=captured, policy=policy), RELEASE)
    assert step is not None
    assert (step.type, step.booking.state, step.payments) == ("booking.paid_out", State.PAID_OUT, ())
    assert step.booking.planned == {}


# --- requests and take-overs --------------------------------------------------------------------------------------


def test_a_new_booking_is_requested_with_its_first_deadline() -> None:
    step = transitions.request(None, "b1", engagement(), AUGUST)
    assert (step.type, step.booking.state, step.booking.version) == ("booking.requested", State.REQUESTED, 1)
    assert step.booking.planned == {"reject_request": Planned(AUGUST + 24 * HOUR, 1)}


@pytest.mark.parametrize(
    ("state", "jobs"),
    [
        (State.REQUESTED, ["reject_request"]),
        (State.ACCEPTED, ["cancel_unpaid"]),
        (State.PAID, ["close_event", "complete_order", "release_payment"]),
        (State.EVENT_CLOSED, ["complete_order", "release_payment"]),
        (State.COMPLETED, ["release_payment"]),
    ],
)
def test_a_booking_that_exists_elsewhere_is_taken_over_with_the_jobs_of_its_state(
    state: State, jobs: list[str]
) -> None:
    assert sorted(booking(state).planned) == jobs


@pytest.mark.parametrize("state", [State.PAID, State.EVENT_CLOSED, State.COMPLETED])
def test_a_past_event_is_taken_over_once_paid_and_catches_up_at_once(state: State) -> None:
    after, _ = run_out(booking(state, now=RELEASE + DAY), RELEASE + DAY)
    assert after.state == State.PAYING


@pytest.mark.parametrize(
    ("state", "changes", "now", "code", "field"),
    [
        (State.REQUESTED, {}, START, "past_event", "event_start"),
        (State.ACCEPTED, {}, START, "past_event", "event_start"),
        (State.REQUESTED, {"event_end": at(START)}, AUGUST, "end_before_start", "event_end"),
        (State.REQUESTED, {"event_end": at(START - HOUR)}, AUGUST, "end_before_start", "event_end"),
        (State.REQUESTED, {"event_end": at(AUGUST + HORIZON + HOUR)}, AUGUST, "beyond_horizon", "event_end"),
        (State.PAID, {}, START + HORIZON + HOUR, "past_event", "event_start"),
    ],
)
def test_a_booking_whose_times_make_no_sense_is_refused(
    state: State, changes: dict[str, Any], now: datetime, code: str, field: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        transitions.request(None, "b1", in_state(state, **changes), now)
    assert (refused.value.code, refused.value.details["field"]) == (code, field)


def test_an_event_that_ends_exactly_at_the_horizon_is_taken_and_one_that_has_not_begun_too() -> None:
    transitions.request(None, "b1", engagement(event_end=at(AUGUST + HORIZON)), AUGUST)
    transitions.request(None, "b1", engagement(), START - MS)


def test_a_booking_can_be_managed_after_its_id_has_held_own_jobs_and_keeps_them() -> None:
    before = with_job(None, "remind", run_at=START)
    after = transitions.request(before, "b1", engagement(), AUGUST).booking
    assert after.version == 2
    assert after.planned["remind"] == before.planned["remind"]
    assert after.planned["reject_request"].generation == 2


# --- accept, pay, move --------------------------------------------------------------------------------------------


def test_the_deadline_for_paying_runs_from_the_acceptance() -> None:
    accepted = must(transitions.accept(booking(), CHEF, AUGUST + 5 * HOUR))
    assert jobs_for(accepted) == {"cancel_unpaid": AUGUST + 17 * HOUR}


def test_a_capture_that_comes_after_the_booking_is_off_goes_back_whole() -> None:
    for state in (State.REJECTED, State.EXPIRED):
        step = transitions.pay(booking(state), 100_000, "ch_9", AUGUST, AUGUST + DAY)
        assert step is not None
        (payment,) = step.payments
        assert (payment.kind, payment.amount, payment.charge_ref) == (Kind.REFUND, 100_000, "ch_9")
        assert step.booking.state == state
        assert step.booking.engagement is not None
        assert step.booking.engagement.refunded == 100_000
        assert step.booking.planned == {"pay_1": Planned(AUGUST + DAY, step.booking.version)}


def test_a_capture_that_comes_after_a_cancellation_goes_back_whole() -> None:
    off = must(transitions.cancel(booking(State.ACCEPTED), CUSTOMER, None, None, AUGUST))
    step = transitions.pay(off, 100_000, "ch_9", AUGUST, AUGUST + HOUR)
    assert step is not None
    assert (step.type, step.booking.state) == ("booking.capture_refunded", State.CANCELLED)
    assert [payment.amount for payment in step.payments] == [100_000]


@pytest.mark.parametrize(("captured", "charge"), [(99_999, "ch_1"), (100_000, "ch_2")])
def test_a_second_capture_is_refused_rather_than_lost(captured: int, charge: str) -> None:
    with pytest.raises(Refused) as refused:
        transitions.pay(booking(State.PAID), captured, charge, AUGUST, AUGUST)
    assert refused.value.code == "already_paid"


def test_a_payment_is_not_from_the_future_beyond_what_clocks_differ() -> None:
    skew = transitions.CLOCK_SKEW
    assert transitions.pay(booking(State.ACCEPTED), 1, "ch_1", AUGUST + skew, AUGUST) is not None
    with pytest.raises(InvalidRequest) as refused:
        transitions.pay(booking(State.ACCEPTED), 1, "ch_1", AUGUST + skew + MS, AUGUST)
    assert (refused.value.code, refused.value.details["field"]) == ("in_the_future", "paid_at")


def test_a_move_moves_everything_that_is_tied_to_the_date_and_nothing_else() -> None:
    before = with_job(booking(State.PAID), "menu", anchor="event_start", offset=-7 * DAY)
    before = with_job(before, "survey", anchor="event_end", offset=2 * DAY)
    before = with_job(before, "invoice", run_at=AUGUST + DAY)
    month = timedelta(days=28)
    after = must(transitions.move(before, at(START + month), at(END + month), CUSTOMER, None, AUGUST))
    assert jobs_for(after) == {
        "close_event": END + month,
        "complete_order": COMPLETE + month,
        "release_payment": RELEASE + month,
        "menu": START + month - 7 * DAY,
        "survey": END + month + 2 * DAY,
        "invoice": AUGUST + DAY,
    }
    assert {name for name, planned in after.planned.items() if planned.generation == after.version} == {
        "close_event", "complete_order", "release_payment", "menu", "survey",
    }  # fmt: skip
    assert after.planned["invoice"] == before.planned["invoice"]


@pytest.mark.parametrize(
    ("start", "end", "code", "field"),
    [
        (START, START, "end_before_start", "event_end"),
        (AUGUST, END, "past_event", "event_start"),
        (AUGUST - DAY, END, "past_event", "event_start"),
        (START, AUGUST + HORIZON + HOUR, "beyond_horizon", "event_end"),
    ],
)
def test_a_move_to_times_that_make_no_sense_is_refused(start: datetime, end: datetime, code: str, field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        transitions.move(booking(State.PAID), at(start), at(end), None, None, AUGUST)
    assert (refused.value.code, refused.value.details["field"]) == (code, field)


def test_a_move_that_would_put_an_own_job_beyond_the_horizon_is_refused() -> None:
    before = with_job(booking(State.PAID), "anniversary", anchor="event_end", offset=4 * 365 * DAY)
    with pytest.raises(InvalidRequest, match="five years"):
        transitions.move(before, at(START + 400 * DAY), at(END + 400 * DAY), None, None, AUGUST)


# --- cancel ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actor", "left", "refund", "expected"),
    [
        (CUSTOMER, 60 * DAY, None, 100_001),
        (CUSTOMER, 30 * DAY, None, 100_001),
        (CUSTOMER, 30 * DAY - MS, None, 50_000),
        (CUSTOMER, 10 * DAY, None, 50_000),
        (CUSTOMER, 7 * DAY, None, 50_000),
        (CUSTOMER, 7 * DAY - MS, None, 0),
        (CUSTOMER, MS, None, 0),
        (CHEF, MS, None, 100_001),
        (OPERATOR, MS, None, 100_001),
        (OPERATOR, -DAY, None, 100_001),
        (Actor(Role.MEDIATOR), 10 * DAY, None, 50_000),
        (Actor(Role.SYSTEM), 10 * DAY, None, 50_000),
        (CUSTOMER, 60 * DAY, 0, 0),
        (CUSTOMER, MS, 100_001, 100_001),
        (CHEF, 10 * DAY, 1, 1),
    ],
)
def test_a_cancellation_decides_refund_payout_and_fee_in_one_step(
    actor: Actor, left: timedelta, refund: int | None, expected: int
) -> None:
    before = booking(State.PAID, captured=100_001)
    step = transitions.cancel(before, actor, refund, None, START - left)
    assert step is not None
    decided = step.booking.engagement
    assert decided is not None
    assert decided.refunded == expected
    assert decided.refunded + decided.paid_out + decided.fee == 100_001
    amounts = {payment.kind: payment.amount for payment in step.payments}
    assert amounts == {kind: amount for kind, amount in
                       ((Kind.REFUND, decided.refunded), (Kind.PAYOUT, decided.paid_out)) if amount}  # fmt: skip
    assert sorted(step.booking.planned) == [f"pay_{n}" for n in range(1, len(amounts) + 1)]


@pytest.mark.parametrize("state", [State.REQUESTED, State.ACCEPTED])
def test_before_payment_a_cancellation_moves_no_money_and_leaves_no_job(state: State) -> None:
    step = transitions.cancel(booking(state), CUSTOMER, None, "changed plans", AUGUST)
    assert step is not None
    assert (step.payments, step.booking.planned, step.reason) == ((), {}, "changed plans")


@pytest.mark.parametrize("actor", [CUSTOMER, CHEF, Actor(Role.MEDIATOR), Actor(Role.SYSTEM)])
def test_once_the_event_has_begun_only_the_operator_can_cancel(actor: Actor) -> None:
    with pytest.raises(Refused) as refused:
        transitions.cancel(booking(State.PAID), actor, None, None, START)
    assert refused.value.code == "event_started"
    assert transitions.cancel(booking(State.PAID), actor, None, None, START - MS) is not None


def test_a_refund_is_never_more_than_was_captured() -> None:
    with pytest.raises(InvalidRequest) as refused:
        transitions.cancel(booking(State.PAID), OPERATOR, 100_001, None, AUGUST)
    assert (refused.value.code, refused.value.details["field"]) == ("refund_exceeds_capture", "refund_minor")


def test_a_cancellation_with_another_refund_is_refused_once_cancelled() -> None:
    off = must(transitions.cancel(booking(State.PAID), OPERATOR, 40_000, None, AUGUST))
    assert transitions.cancel(off, OPERATOR, 40_000, None, AUGUST) is None
    with pytest.raises(Refused) as refused:
        transitions.cancel(off, OPERATOR, 40_001, None, AUGUST)
    assert refused.value.code == "already_cancelled"


def test_the_jobs_of_a_cancelled_booking_go_and_only_those_asked_to_stay_are_kept() -> None:
    before = with_job(booking(State.PAID, captured=0), "menu", anchor="event_start", offset=-DAY)
    before = with_job(before, "claim", anchor="event_end", offset=DAY, keep_on_cancel=True)
    before = with_job(before, "tax", run_at=END + 90 * DAY, keep_on_cancel=True)
    after = must(transitions.cancel(before, OPERATOR, None, None, AUGUST))
    assert after.planned == {name: before.planned[name] for name in ("claim", "tax")}


# --- payments and the booking -------------------------------------------------------------------------------------


def test_the_booking_is_paid_out_when_its_payout_is_done() -> None:
    decided = advance(booking(State.COMPLETED), RELEASE)
    assert decided is not None
    (payment,) = decided.payments
    done = record(payment, Done("tr_1"), RELEASE)
    step = transitions.payment_step(decided.booking, done, "payment.done", RELEASE, "the money moved")
    assert (step.type, step.booking.state, step.booking.planned) == ("booking.paid_out", State.PAID_OUT, {})


def test_a_done_refund_leaves_the_state_of_a_cancelled_booking() -> None:
    step = transitions.cancel(booking(State.PAID), CHEF, None, None, AUGUST)
    assert step is not None
    done = record(step.payments[0], Done("re_1"), AUGUST)
    after = transitions.payment_step(step.booking, done, "payment.done", AUGUST, "the money moved")
    assert (after.type, after.booking.state, after.booking.planned) == ("payment.done", State.CANCELLED, {})


def test_a_failed_payout_waits_for_a_person_and_the_booking_stays_paying() -> None:
    decided = advance(booking(State.COMPLETED), RELEASE)
    assert decided is not None
    failed = record(claim(decided.payments[0], Act.SEND, RELEASE), Failed("account closed"), RELEASE)
    step = transitions.payment_step(decided.booking, failed, "payment.failed", RELEASE, "account closed")
    assert (step.booking.state, step.booking.planned) == (State.PAYING, {})


def test_an_attempt_gives_the_payments_job_a_new_generation_at_its_next_instant() -> None:
    decided = advance(booking(State.COMPLETED), RELEASE)
    assert decided is not None
    claimed = claim(decided.payments[0], Act.SEND, RELEASE)
    step = transitions.payment_step(decided.booking, claimed, "payment.attempted", RELEASE, "first attempt")
    assert claimed.next_attempt_at is not None
    assert step.booking.planned == {"pay_1": Planned(claimed.next_attempt_at, step.booking.version)}


# --- redrive and refresh ------------------------------------------------------------------------------------------


def test_a_redriven_job_gets_a_new_generation_and_its_neighbours_keep_theirs() -> None:
    before = booking(State.PAID)
    after = transitions.redrive(before, "close_event", OPERATOR, None, AUGUST).booking
    assert after.planned["close_event"] == Planned(END, after.version)
    assert after.planned["complete_order"] == before.planned["complete_order"]


def test_rows_that_older_code_derived_are_replanned_once() -> None:
    before = booking(State.PAID)
    older = {"close_event": before.planned["close_event"], "pay_chef": Planned(RELEASE, 1)}
    step = transitions.refresh(replace(before, planned=older), AUGUST)
    assert step is not None
    assert step.type == "booking.replanned"
    assert step.data == {"jobs": ["complete_order", "pay_chef", "release_payment"]}
    assert step.booking.planned["close_event"] == older["close_event"]
    assert "pay_chef" not in step.booking.planned
    assert transitions.refresh(step.booking, AUGUST) is None
