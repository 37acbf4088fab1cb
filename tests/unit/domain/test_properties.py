"""What holds for every booking, whatever happens to it and to the wake-ups that drive it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from duebook.domain import transitions
from duebook.domain.booking import Booking, OwnJob, State, jobs_for
from duebook.domain.errors import InvalidRequest, Refused
from duebook.domain.names import payment_number
from duebook.domain.payment import Done, Kind, Payment, Status, record
from duebook.domain.policy import Policy, Tier
from duebook.domain.transitions import Step
from tests.unit.builders import (
    AUGUST,
    CHEF,
    CUSTOMER,
    DAY,
    END,
    HOUR,
    OPERATOR,
    RELEASE,
    START,
    at,
    booking,
    in_state,
    run_out,
    with_job,
)

POLICIES = st.builds(
    Policy,
    accept_within=st.integers(0, 3 * 86_400),
    pay_within=st.integers(0, 3 * 86_400),
    complete_after=st.sampled_from([0, 1, 3 * 3_600]),
    dispute_within=st.sampled_from([0, 1, 86_400]),
    fee_bps=st.integers(0, 10_000),
    cancellation=st.lists(
        st.builds(Tier, before=st.integers(0, 90 * 86_400), refund_bps=st.integers(0, 10_000)), max_size=3
    ).map(tuple),
)

Command = Callable[[Booking, datetime], Step | None]


@dataclass(frozen=True)
class Act:
    """A command and how long after the one before it comes."""

    name: str
    after: timedelta
    apply: Command

    def __repr__(self) -> str:
        return f"{self.name} after {self.after}"


def _acts() -> st.SearchStrategy[Act]:
    gaps = st.integers(0, 40 * 24).map(lambda hours: timedelta(hours=hours))

    def act(name: str, arguments: st.SearchStrategy[Any], make: Callable[[Any], Command]) -> st.SearchStrategy[Act]:
        return st.builds(lambda value, gap: Act(f"{name} {value}", gap, make(value)), arguments, gaps)

    names = st.sampled_from(["a", "b", "c"])
    none = st.none()
    return st.one_of(
        act("accept", none, lambda _: lambda b, now: transitions.accept(b, CHEF, now)),
        act("decline", none, lambda _: lambda b, now: transitions.decline(b, CHEF, None, now)),
        act("pay", st.integers(0, 200_000), lambda paid: lambda b, now: transitions.pay(b, paid, "ch_1", now, now)),
        act(
            "move by days",
            st.integers(-60, 60),
            lambda days: (
                lambda b, now: transitions.move(b, at(START + days * DAY), at(END + days * DAY), None, None, now)
            ),
        ),
        act(
            "cancel",
            st.tuples(st.sampled_from([CUSTOMER, CHEF, OPERATOR]), st.none() | st.integers(0, 100_000)),
            lambda who: lambda b, now: transitions.cancel(b, who[0], who[1], None, now),
        ),
        act("put", st.tuples(names, st.integers(-30, 60), st.booleans()), _put),
        act(
            "delete",
            st.tuples(names, st.none() | st.integers(1, 4)),
            lambda what: lambda b, now: transitions.remove_job(b, "b1", what[0], what[1], now),
        ),
        act("money moved", none, lambda _: _money_moved),
        act(
            "redrive",
            names,
            lambda name: lambda b, now: transitions.redrive(b, name, None, None, now) if name in b.planned else None,
        ),
    )


def _put(what: tuple[str, int, bool]) -> Command:
    name, days, keep = what
    if days < 0:
        job = OwnJob(anchor="event_start", offset=days * DAY, keep_on_cancel=keep, request_hash=f"{what}")
        return lambda b, now: transitions.set_job(b, "b1", name, job, None, now)
    return lambda b, now: transitions.set_job(
        b, "b1", name, OwnJob(at=at(now + days * DAY), keep_on_cancel=keep, request_hash=f"{what}{now}"), None, now
    )


def _money_moved(before: Booking, now: datetime) -> Step | None:
    """The provider does the oldest open payment."""
    assert before.engagement is not None
    for number, brief in before.engagement.payments.items():
        payment = record(_payment(before, number, brief.kind, brief.amount), Done("tr"), now)
        return transitions.payment_step(before, payment, "payment.done", now, "the money moved")
    return None


def _payment(before: Booking, number: int, kind: Kind, amount: int) -> Payment:
    return Payment(
        payment_id=f"b1.p{number}", booking_id="b1", number=number, kind=kind, amount=amount, currency="EUR",
        chef_id="ch-1", charge_ref="ch_1", created_at=AUGUST, next_attempt_at=AUGUST, status=Status.UNKNOWN, attempt=1,
    )  # fmt: skip


def play(before: Booking, acts: list[Act]) -> list[Step]:
    """Every step of a story: what is due first, then the command, as the service does it."""
    now, steps = AUGUST, []
    for act in acts:
        now += act.after
        before, due = run_out(before, now)
        steps += due
        try:
            step = act.apply(before, now)
        except (Refused, InvalidRequest):
            continue
        if step is not None:
            steps.append(step)
            before = step.booking
    return steps


STORIES = st.lists(_acts(), max_size=12)
STATES = st.sampled_from([State.REQUESTED, State.ACCEPTED, State.PAID, State.EVENT_CLOSED, State.COMPLETED])


@given(STATES, POLICIES, STORIES)
def test_after_every_step_what_is_planned_is_what_the_booking_derives(
    state: State, policy: Policy, acts: list[Act]
) -> None:
    for step in play(booking(state, policy=policy), acts):
        planned = step.booking.planned
        assert {name: job.run_at for name, job in planned.items()} == jobs_for(step.booking)
        assert transitions.refresh(step.booking, AUGUST) is None


@given(STATES, POLICIES, STORIES)
def test_versions_go_up_by_one_and_no_generation_ever_starts_again(
    state: State, policy: Policy, acts: list[Act]
) -> None:
    before = booking(state, policy=policy)
    newest = {name: planned.generation for name, planned in before.planned.items()}
    for step in play(before, acts):
        after = step.booking
        assert after.version == before.version + 1
        for name, planned in after.planned.items():
            if planned != before.planned.get(name):
                assert planned.generation == after.version > newest.get(name, 0)
                newest[name] = planned.generation
        before = after


@given(STATES, POLICIES, STORIES)
def test_refund_payout_and_fee_are_what_was_captured_and_there_is_at_most_one_payout(
    state: State, policy: Policy, acts: list[Act]
) -> None:
    before = booking(state, policy=policy)
    steps = play(before, acts)
    payments = [payment for step in steps for payment in step.payments if payment.status is Status.INTENT]
    payouts = [payment for payment in payments if payment.kind is Kind.PAYOUT]
    assert len(payouts) <= 1
    assert len({payment.number for payment in payments}) == len(payments)
    engagement = (steps[-1].booking if steps else before).engagement
    assert engagement is not None
    assert sum(payment.amount for payment in payouts) == engagement.paid_out
    assert sum(p.amount for p in payments if p.kind is Kind.REFUND) == engagement.refunded
    assert engagement.refunded + engagement.paid_out + engagement.fee <= engagement.captured
    if engagement.state in (State.PAYING, State.PAID_OUT, State.CANCELLED, State.REJECTED, State.EXPIRED):
        assert engagement.refunded + engagement.paid_out + engagement.fee == engagement.captured


@given(STATES, POLICIES, STORIES)
def test_every_deadline_of_an_event_to_come_is_at_its_start_at_the_latest(
    state: State, policy: Policy, acts: list[Act]
) -> None:
    for step in play(booking(state, policy=policy), acts):
        engagement = step.booking.engagement
        assert engagement is not None
        for name in ("reject_request", "cancel_unpaid"):
            if name in step.booking.planned:
                assert step.booking.planned[name].run_at <= engagement.event_start.instant


# --- wake-ups ----------------------------------------------------------------------------------------------------


def _wedding(state: State, policy: Policy, offsets: list[int]) -> Booking:
    before = transitions.request(None, "b1", in_state(state, policy=policy), AUGUST).booking
    for number, days in enumerate(offsets):
        anchor = "event_end" if number % 2 else "event_start"
        before = with_job(before, f"j{number}", anchor=anchor, offset=days * DAY)
    return before


def _wake(before: Booking, now: datetime) -> Booking:
    """What a wake-up does: it names no job that matters, only the booking."""
    return run_out(before, now)[0]


def _meaning(after: Booking) -> Any:
    """The end state but for the bookkeeping of when each step was taken."""
    engagement = after.engagement
    assert engagement is not None
    money = (engagement.refunded, engagement.paid_out, engagement.fee, engagement.payments_made)
    jobs = {name for name in after.planned if payment_number(name) is None}
    return engagement.state, money, dict(after.own), dict(after.past), jobs, after.version


LATE = st.integers(0, 100 * 24).map(lambda hours: timedelta(hours=hours))


@given(STATES, POLICIES, st.lists(st.integers(-80, 30), max_size=4), st.data())
def test_order_repetition_delay_and_loss_of_wake_ups_never_change_the_end(
    state: State, policy: Policy, offsets: list[int], data: st.DataObject
) -> None:
    before = _wedding(state, policy, offsets)
    sweep = RELEASE + 200 * DAY
    due = sorted(instant for instant in jobs_for(before).values())
    on_time = before
    for instant in due:
        on_time = _wake(on_time, instant)
    on_time = _wake(on_time, sweep)

    kept = data.draw(st.lists(st.sampled_from(due), max_size=2 * len(due)), label="delivered") if due else []
    delays = data.draw(st.lists(LATE, min_size=len(kept), max_size=len(kept)), label="late by")
    disturbed = before
    for instant in sorted(instant + late for instant, late in zip(kept, delays, strict=True)):
        disturbed = _wake(disturbed, instant)
    disturbed = _wake(disturbed, sweep)

    assert _meaning(disturbed) == _meaning(on_time)
    assert _meaning(_wake(before, sweep)) == _meaning(on_time)
    assert _wake(disturbed, sweep + DAY) == disturbed


@given(STATES, POLICIES, st.lists(st.integers(-80, 30), max_size=4), st.lists(LATE, max_size=6))
def test_steps_come_in_the_order_of_their_planned_instants(
    state: State, policy: Policy, offsets: list[int], wakes: list[timedelta]
) -> None:
    before, dues = _wedding(state, policy, offsets), []
    for now in [*sorted(AUGUST + wake for wake in wakes), RELEASE + 200 * DAY]:
        before, steps = run_out(before, now)
        dues += [step.due for step in steps]
        assert all(step.due is not None and step.due <= now == step.at for step in steps)
    assert dues == sorted(dues, key=lambda due: due or AUGUST)


@given(STATES, POLICIES, st.integers(0, 200 * 24))
def test_a_wake_up_before_anything_is_due_changes_nothing(state: State, policy: Policy, hours: int) -> None:
    before = booking(state, policy=policy)
    first = min(jobs_for(before).values())
    now = min(AUGUST + hours * HOUR, first - timedelta(milliseconds=1))
    assert transitions.advance(before, now) is None
