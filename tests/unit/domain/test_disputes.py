"""The dispute as a state table: who may do what when, what it does to the jobs, and where the money goes."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.domain import dispute_steps as steps
from duebook.domain import transitions
from duebook.domain.booking import Actor, Booking, Outside, OutsideKind, Role, State, jobs_for
from duebook.domain.dispute import Dispute, DisputeStatus, OfferAnswer, Reply
from duebook.domain.errors import InvalidRequest, NotFound, Refused
from duebook.domain.payment import Kind, Payment
from duebook.domain.policy import Policy, Silence
from duebook.domain.transitions import Step
from tests.unit.builders import (
    AUGUST,
    CHEF,
    COMPLETE,
    CUSTOMER,
    DAY,
    END,
    HOUR,
    MINUTE,
    MS,
    OPERATOR,
    RELEASE,
    SECOND,
    START,
    at,
    booking,
    must,
)

MEDIATOR = Actor(Role.MEDIATOR, "m-1")
OTHER = Actor(Role.MEDIATOR, "m-2")
NOW = END + HOUR
CLAIM = 40_000
SOFT = Policy(appeals=1)
FIRM = Policy(escalations=0)

Act = Callable[[Booking, datetime], Step | None]


def open_dispute(before: Booking, now: datetime = NOW, claimed: int = CLAIM, actor: Actor = CUSTOMER) -> Step | None:
    return steps.open_dispute(before, claimed, {"text": "cold"}, f"opening {claimed}", actor, now)


def concede(before: Booking, now: datetime, actor: Actor = CHEF) -> Step | None:
    return steps.reply(before, Reply.CONCEDE, None, {}, "concede", actor, now)


def contest(before: Booking, now: datetime, actor: Actor = CHEF) -> Step | None:
    return steps.reply(before, Reply.CONTEST, None, {}, "contest", actor, now)


def offer(before: Booking, now: datetime, amount: int = 15_000, actor: Actor = CHEF) -> Step | None:
    return steps.reply(before, Reply.OFFER, amount, {}, f"offer {amount}", actor, now)


def accept(before: Booking, now: datetime, actor: Actor = CUSTOMER) -> Step | None:
    return steps.answer_offer(before, OfferAnswer.ACCEPT, actor, now)


def refuse(before: Booking, now: datetime, actor: Actor = CUSTOMER) -> Step | None:
    return steps.answer_offer(before, OfferAnswer.REFUSE, actor, now)


def decide(before: Booking, now: datetime, refund: int = 25_000, actor: Actor = MEDIATOR) -> Step | None:
    return steps.decide(before, refund, {}, f"decision {refund} {actor.id}", actor, now)


def appeal(before: Booking, now: datetime, actor: Actor = CUSTOMER) -> Step | None:
    return steps.appeal(before, {}, f"appeal {actor.id}", actor, now)


def withdraw(before: Booking, now: datetime, actor: Actor = CUSTOMER) -> Step | None:
    return steps.withdraw(before, actor, now)


def in_stage(stage: str, now: datetime = NOW, **changes: Any) -> Booking:
    """A disputed booking at that stage, reached by the shortest way."""
    changes.setdefault("policy", {"in window": SOFT, "in appeal": SOFT, "needs a person": FIRM}.get(stage, Policy()))
    opened = must(open_dispute(booking(State.EVENT_CLOSED, **changes), now))
    if stage == "opened":
        return opened
    asked = must(steps.look(opened, now))
    match stage:
        case "awaiting chef":
            return asked
        case "awaiting customer":
            return must(offer(asked, now))
        case "in review":
            return must(contest(asked, now))
        case "needs a person":
            return must(steps.look(must(contest(asked, now)), now + 3 * DAY))
        case "decided" | "in window":
            return must(decide(must(contest(asked, now)), now))
        case "in appeal":
            return must(appeal(in_stage("in window", now, **changes), now))
        case "settled":
            return must(steps.settle(in_stage("decided", now, **changes), now))
        case "withdrawn":
            return must(withdraw(asked, now))
        case _:
            raise AssertionError(stage)


def dispute_of(found: Booking) -> Dispute:
    assert found.engagement is not None
    assert found.engagement.dispute is not None
    return found.engagement.dispute


ACTS: dict[str, Act] = {
    "reply": concede,
    "answer the offer": accept,
    "decide": lambda before, now: decide(before, now, 30_000, OTHER),
    "appeal": lambda before, now: appeal(before, now, CHEF),
    "withdraw": withdraw,
}
ILLEGAL, REPLIED = "illegal_transition", "already_replied"
TABLE: dict[str, tuple[str | None, ...]] = {
    # stage:               reply, answer the offer, decide, appeal, withdraw; None = taken, "" = nothing to do
    "opened": (None, ILLEGAL, ILLEGAL, "no_appeal", None),
    "awaiting chef": (None, ILLEGAL, ILLEGAL, "no_appeal", None),
    "awaiting customer": (REPLIED, None, ILLEGAL, "no_appeal", None),
    "in review": (REPLIED, ILLEGAL, None, "no_appeal", None),
    "needs a person": (REPLIED, ILLEGAL, None, "no_appeal", None),
    "decided": (REPLIED, ILLEGAL, ILLEGAL, "no_appeal", ILLEGAL),
    "in window": (REPLIED, ILLEGAL, ILLEGAL, None, ILLEGAL),
    "in appeal": (REPLIED, ILLEGAL, None, "already_appealed", ILLEGAL),
    "settled": (REPLIED, ILLEGAL, ILLEGAL, "no_appeal", ILLEGAL),
    "withdrawn": (ILLEGAL, ILLEGAL, ILLEGAL, "no_appeal", ""),
}
OPEN_STAGES = [stage for stage in TABLE if stage not in ("settled", "withdrawn")]


@pytest.mark.parametrize("stage", TABLE)
def test_each_act_at_each_stage_is_taken_or_refused_with_its_code(stage: str) -> None:
    before, answers = in_stage(stage), []
    for act in ACTS.values():
        try:
            answers.append(None if act(before, NOW + MINUTE) else "")
        except Refused as refused:
            answers.append(refused.code)
    assert tuple(answers) == TABLE[stage]


@pytest.mark.parametrize("stage", OPEN_STAGES)
def test_every_stage_that_is_not_the_end_is_left_by_time_or_by_a_person(stage: str) -> None:
    before = in_stage(stage)
    dispute = dispute_of(before)
    by_person = any(answer is None for answer in TABLE[stage])
    if dispute.needs_attention:
        assert by_person
        return
    assert dispute.watch_at is not None, "the second wake-up has to know it"
    assert jobs_for(before)["watch_dispute"] == dispute.watch_at
    later = (dispute.deadline or NOW) + SECOND
    assert steps.look(before, later) or steps.settle(before, later)


@pytest.mark.parametrize("stage", ["settled", "withdrawn"])
def test_the_ends_are_ends(stage: str) -> None:
    before = in_stage(stage)
    assert dispute_of(before).watch_at is None
    assert "watch_dispute" not in jobs_for(before)
    assert steps.look(before, NOW + 900 * DAY) is None
    assert steps.watch(before, False, NOW + 900 * DAY) is None


@pytest.mark.parametrize("stage", OPEN_STAGES)
def test_while_it_is_open_nothing_is_completed_paid_moved_or_cancelled(stage: str) -> None:
    before = in_stage(stage)
    assert {"complete_order", "release_payment"}.isdisjoint(jobs_for(before))
    assert transitions.advance(before, NOW + 900 * DAY) is None
    with pytest.raises(Refused) as moved:
        transitions.move(before, at(START + DAY), at(END + DAY), None, None, NOW)
    with pytest.raises(Refused) as cancelled:
        transitions.cancel(before, OPERATOR, None, None, NOW)
    assert (moved.value.code, cancelled.value.code) == ("dispute_open", "dispute_open")


@pytest.mark.parametrize("stage", TABLE)
def test_a_booking_is_disputed_once(stage: str) -> None:
    before = in_stage(stage)
    assert open_dispute(before) is None, "the same again"
    with pytest.raises(Refused) as refused:
        open_dispute(before, claimed=1)
    assert refused.value.code == ("dispute_open" if stage in OPEN_STAGES else "dispute_over")


# --- opening -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [State.PAID, State.EVENT_CLOSED, State.COMPLETED])
def test_an_order_is_disputed_from_the_payment_on(state: State) -> None:
    step = open_dispute(booking(state), NOW)
    assert step is not None
    assert step.type == "dispute.opened"
    assert dispute_of(step.booking).dispute_id == "b1.d1"
    assert jobs_for(step.booking)["watch_dispute"] == NOW + 15 * MINUTE
    assert step.data == {"dispute_id": "b1.d1", "status": "opened", "claimed_minor": CLAIM}, "texts are no event's"


@pytest.mark.parametrize("state", [s for s in State if s not in (State.PAID, State.EVENT_CLOSED, State.COMPLETED)])
def test_no_other_order_is_disputed(state: State) -> None:
    with pytest.raises(Refused) as refused:
        open_dispute(booking(state), NOW)
    assert refused.value.code == "not_disputable"


def test_the_second_before_the_payout_is_decided_it_can_be_disputed_and_the_second_after_it_cannot() -> None:
    paid = booking(State.COMPLETED)
    disputed = must(open_dispute(paid, RELEASE - SECOND))
    assert transitions.advance(disputed, RELEASE) is None
    decided = must(transitions.advance(paid, RELEASE))
    with pytest.raises(Refused) as refused:
        open_dispute(decided, RELEASE + SECOND)
    assert refused.value.code == "not_disputable"


@pytest.mark.parametrize("claimed", [CLAIM, 100_000])
def test_at_most_what_was_captured_can_be_claimed(claimed: int) -> None:
    assert open_dispute(booking(State.PAID), claimed=claimed)
    with pytest.raises(InvalidRequest, match="100001 is more than the 100000 captured"):
        open_dispute(booking(State.PAID), claimed=100_001)


def test_what_has_no_dispute_has_no_acts() -> None:
    with pytest.raises(NotFound):
        concede(booking(State.PAID), NOW)
    with pytest.raises(NotFound):
        steps.look(booking(State.PAID), NOW)


# --- who may -------------------------------------------------------------------------------------------------------

FORGED: dict[str, tuple[str, Callable[[Booking, Actor], Step | None], set[Role]]] = {
    "open": ("", lambda b, who: open_dispute(booking(State.PAID), actor=who), {Role.CUSTOMER}),
    "reply": ("awaiting chef", lambda b, who: concede(b, NOW, who), {Role.CHEF}),
    "answer the offer": ("awaiting customer", lambda b, who: accept(b, NOW, who), {Role.CUSTOMER}),
    "appeal": ("in window", lambda b, who: appeal(b, NOW, who), {Role.CUSTOMER, Role.CHEF}),
    "withdraw": ("in review", lambda b, who: withdraw(b, NOW, who), {Role.CUSTOMER}),
}
PARTIES = {Role.CUSTOMER: "c-1", Role.CHEF: "ch-1"}


@pytest.mark.parametrize("act", FORGED)
@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("person", ["c-1", "ch-1", "stranger", None])
def test_only_the_bookings_own_people_act_and_in_their_own_role(act: str, role: Role, person: str | None) -> None:
    stage, do, roles = FORGED[act]
    before = in_stage(stage) if stage else booking(State.PAID)
    if role in roles and person == PARTIES[role]:
        assert do(before, Actor(role, person))
    else:
        with pytest.raises(Refused) as refused:
            do(before, Actor(role, person))
        assert refused.value.code == "wrong_actor"


@pytest.mark.parametrize("actor", [CUSTOMER, CHEF, OPERATOR, Actor(Role.SYSTEM, "s"), Actor(Role.MEDIATOR, None)])
def test_only_a_mediator_with_an_id_decides(actor: Actor) -> None:
    with pytest.raises(Refused) as refused:
        decide(in_stage("in review"), NOW, actor=actor)
    assert refused.value.code == "wrong_actor"


def test_an_appeal_is_decided_by_another_mediator() -> None:
    with pytest.raises(Refused) as refused:
        decide(in_stage("in appeal"), NOW, 30_000, MEDIATOR)
    assert refused.value.code == "same_mediator"
    assert decide(in_stage("in appeal"), NOW, 30_000, OTHER)


# --- deadlines -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stage", "act"), [("awaiting chef", concede), ("awaiting customer", accept), ("in window", appeal)]
)
def test_an_answer_counts_strictly_before_its_deadline(stage: str, act: Act) -> None:
    before = in_stage(stage)
    deadline = dispute_of(before).deadline
    assert deadline is not None
    assert act(before, deadline - MS)
    with pytest.raises(Refused) as refused:
        act(before, deadline)
    assert refused.value.code == "deadline_passed"


def test_the_reply_deadline_runs_from_when_the_chef_was_first_asked() -> None:
    opened = must(open_dispute(booking(State.PAID), NOW))
    asked = must(steps.look(opened, NOW + 5 * HOUR))
    assert dispute_of(asked).deadline == NOW + 5 * HOUR + DAY
    assert dispute_of(asked).remind_at == NOW + 17 * HOUR
    assert steps.look(asked, NOW + 6 * HOUR) is None, "asked once"


def test_every_duration_is_of_the_bookings_policy() -> None:
    policy = Policy(
        reply_within=100, remind_after=60, offer_within=200, review_within=300, appeals=1, appeal_within=400
    )

    def left(found: Booking) -> float:
        deadline = dispute_of(found).deadline
        assert deadline is not None
        return (deadline - NOW).total_seconds()

    assert left(in_stage("awaiting chef", policy=policy)) == 100
    assert dispute_of(in_stage("awaiting chef", policy=policy)).remind_at == NOW + timedelta(seconds=60)
    assert left(in_stage("awaiting customer", policy=policy)) == 200
    assert left(in_stage("in review", policy=policy)) == 300
    assert left(in_stage("in window", policy=policy)) == 400
    assert left(in_stage("in appeal", policy=policy)) == 700


def test_a_reminder_comes_once_and_never_after_the_deadline() -> None:
    asked = in_stage("awaiting chef", policy=Policy(reply_within=100, remind_after=1_000))
    assert dispute_of(asked).remind_at == dispute_of(asked).deadline
    reminded = must(steps.remind(asked, NOW))
    assert steps.remind(reminded, NOW) is None
    assert steps.remind(in_stage("in review"), NOW) is None


@pytest.mark.parametrize(("rule", "refund"), [(Silence.REFUND, CLAIM), (Silence.RELEASE, 0)])
def test_silence_is_resolved_by_the_rule_of_the_booking_final_at_once(rule: Silence, refund: int) -> None:
    asked = in_stage("awaiting chef", policy=Policy(silence=rule, appeals=1))
    assert steps.look(asked, NOW + DAY - MS) is None
    step = steps.look(asked, NOW + DAY)
    assert step is not None
    silent = dispute_of(step.booking)
    assert (silent.status, silent.refund, silent.decided_by) == (DisputeStatus.DECIDED, refund, "silence")
    assert step.due == NOW + DAY
    assert steps.settle(step.booking, NOW + DAY)


@pytest.mark.parametrize("escalations", [0, 1, 3])
def test_a_missed_review_escalates_as_often_as_allowed_and_then_waits_for_a_person(escalations: int) -> None:
    found, now = in_stage("in review", policy=Policy(escalations=escalations)), NOW
    for number in range(1, escalations + 1):
        now += 3 * DAY
        step = steps.look(found, now)
        assert step is not None
        assert (step.type, step.data["escalations"]) == ("dispute.escalated", number)
        found = step.booking
    step = steps.look(found, now + 3 * DAY)
    assert step is not None
    assert step.type == "dispute.needs_attention"
    assert steps.look(step.booking, now + 900 * DAY) is None
    assert "watch_dispute" not in jobs_for(step.booking)
    decided = must(decide(step.booking, now + 40 * DAY))
    assert dispute_of(decided).run == 2, "a decision made later starts the next run"
    assert "watch_dispute" in jobs_for(decided)


# --- the same again, another ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stage", "act", "another", "code"),
    [
        ("awaiting chef", concede, contest, REPLIED),
        ("awaiting chef", offer, lambda b, now: offer(b, now, 20_000), REPLIED),
        ("awaiting customer", accept, refuse, "already_answered"),
        ("in review", decide, lambda b, now: decide(b, now, 30_000), ILLEGAL),
        ("in window", appeal, lambda b, now: appeal(b, now, CHEF), "already_appealed"),
        ("in appeal", lambda b, now: decide(b, now, 1, OTHER), lambda b, now: decide(b, now, 2, OTHER), ILLEGAL),
    ],
)
def test_the_first_answer_stands_the_same_again_is_fine_and_another_is_refused(
    stage: str, act: Act, another: Act, code: str
) -> None:
    after = must(act(in_stage(stage), NOW))
    assert act(after, NOW + 9 * DAY) is None, "even when its deadline has passed since"
    with pytest.raises(Refused) as refused:
        another(after, NOW)
    assert refused.value.code == code


@pytest.mark.parametrize("amount", [0, CLAIM, CLAIM + 1])
def test_an_offer_is_a_part_of_the_claim(amount: int) -> None:
    with pytest.raises(InvalidRequest, match="less than the 40000 claimed"):
        offer(in_stage("awaiting chef"), NOW, amount)


def test_a_decision_gives_back_at_most_what_was_captured() -> None:
    with pytest.raises(InvalidRequest, match="100001 is more than the 100000 captured"):
        decide(in_stage("in review"), NOW, 100_001)


# --- settling ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", [stage for stage in OPEN_STAGES if stage != "decided"])
def test_only_what_is_decided_and_can_be_appealed_no_more_is_settled(stage: str) -> None:
    with pytest.raises(Refused) as refused:
        steps.settle(in_stage(stage), NOW + DAY)
    assert refused.value.code == "not_settleable"


def test_a_decision_is_settled_when_its_window_is_over() -> None:
    before = in_stage("in window")
    with pytest.raises(Refused):
        steps.settle(before, NOW + 2 * DAY - MS)
    assert steps.settle(before, NOW + 2 * DAY)


def test_settling_writes_the_refunds_intent_and_gives_the_jobs_back() -> None:
    step = steps.settle(in_stage("decided"), NOW)
    assert step is not None
    [refund] = step.payments
    assert (refund.kind, refund.amount, refund.payment_id) == (Kind.REFUND, 25_000, "b1.p1")
    assert jobs_for(step.booking) == {"complete_order": COMPLETE, "release_payment": RELEASE, "pay_1": NOW}
    assert steps.settle(step.booking, NOW) is None


def test_a_settlement_after_the_ordinary_instant_has_the_payout_due_at_once() -> None:
    later = RELEASE + 9 * DAY
    step = steps.settle(in_stage("decided"), later)
    assert step is not None
    paid = must(transitions.advance(must(transitions.advance(step.booking, later)), later))
    assert paid.state is State.PAYING


def test_a_full_refund_ends_the_booking_and_none_pays_all_of_the_rest() -> None:
    for refund, state, payouts in ((100_000, State.CANCELLED, []), (0, State.PAYING, [90_000])):
        decided = must(decide(in_stage("in review"), NOW, refund))
        found, paid = run(decided, RELEASE)
        assert found.state is state
        assert [payment.amount for payment in paid if payment.kind is Kind.PAYOUT] == payouts


def test_a_settlement_gives_back_no_more_than_a_lost_chargeback_leaves() -> None:
    conceded = must(concede(must(open_dispute(booking(State.PAID), NOW)), NOW))
    engagement = conceded.engagement
    assert engagement is not None
    lost = {"dp_1": Outside(kind=OutsideKind.CHARGEBACK, amount=engagement.captured - 10_000)}
    step = steps.settle(replace(conceded, engagement=replace(engagement, outside=lost)), NOW)
    assert step is not None
    assert [(payment.kind, payment.amount) for payment in step.payments] == [(Kind.REFUND, 10_000)]


def test_after_a_settlement_a_cancellation_refunds_out_of_what_is_left() -> None:
    """Past fault: it refunded out of all that was captured, so more went back than had come in."""
    now = START - 40 * DAY
    opened = must(open_dispute(booking(State.PAID), now))
    settled, _ = run(must(concede(opened, now)), now)
    cancelled = must(transitions.cancel(settled, CUSTOMER, None, None, now))
    assert cancelled.engagement is not None
    assert (cancelled.engagement.refunded, cancelled.engagement.paid_out) == (100_000, 0)
    with pytest.raises(InvalidRequest, match="60001 is more than the 60000 that is left"):
        transitions.cancel(settled, CUSTOMER, 60_001, None, now)
    part = must(transitions.cancel(settled, CUSTOMER, 10_000, None, now))
    assert part.engagement is not None
    assert (part.engagement.refunded, part.engagement.paid_out, part.engagement.fee) == (50_000, 45_000, 5_000)
    assert transitions.cancel(part, CUSTOMER, 10_000, None, now) is None, "the same again"


# --- taking it back ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["opened", "awaiting chef", "awaiting customer", "in review", "needs a person"])
def test_withdrawn_it_is_as_if_it_had_never_been(stage: str) -> None:
    before = in_stage(stage)
    after = must(withdraw(before, NOW + HOUR))
    assert jobs_for(after) == jobs_for(booking(State.EVENT_CLOSED))
    assert withdraw(after, NOW + DAY) is None
    found, paid = run(after, RELEASE)
    assert (found.state, [payment.amount for payment in paid]) == (State.PAYING, [90_000])


# --- the second wake-up --------------------------------------------------------------------------------------------


def test_an_execution_that_is_gone_is_followed_by_the_next_run_a_bounded_number_of_times() -> None:
    found, now = in_stage("awaiting chef"), NOW + DAY + 15 * MINUTE
    assert steps.watch(found, False, now - MS) is None
    for number in range(2, 7):
        found = must(steps.watch(found, False, now))
        assert dispute_of(found).run == number
        assert jobs_for(found)["watch_dispute"] == now + 15 * MINUTE
        now += 15 * MINUTE
    step = steps.watch(found, False, now)
    assert step is not None
    assert step.type == "dispute.needs_attention"
    assert dispute_of(step.booking).run == 6
    again = must(steps.resume(step.booking, OPERATOR, None, now))
    assert (dispute_of(again).run, dispute_of(again).needs_attention) == (7, False)


def test_a_late_execution_is_looked_at_again_a_bounded_number_of_times() -> None:
    found, now, types = in_stage("decided"), NOW, []
    for _ in range(5):
        now += 15 * MINUTE
        step = steps.watch(found, True, now)
        assert step is not None
        types.append(step.type)
        found = step.booking
    assert types == [*(4 * ["dispute.watched"]), "dispute.needs_attention"]
    assert dispute_of(found).run == 1


def test_when_the_workflow_gets_on_again_nobody_has_to_look_any_more() -> None:
    """Past fault: the mark stayed, and the next missed review was told as the last."""
    stuck = _marked(in_stage("awaiting customer"))
    reviewed = must(steps.look(stuck, NOW + DAY))
    assert dispute_of(reviewed).needs_attention is False
    assert "watch_dispute" in jobs_for(reviewed)
    step = steps.look(_marked(reviewed), NOW + 4 * DAY)
    assert step is not None
    assert step.type == "dispute.escalated"


def test_a_person_who_acts_on_a_stuck_dispute_starts_the_next_run() -> None:
    replied = must(contest(_marked(in_stage("awaiting chef")), NOW))
    assert (dispute_of(replied).run, dispute_of(replied).needs_attention) == (2, False)


def test_a_new_run_renews_the_row_that_starts_it_though_its_instant_stays() -> None:
    """Past fault: with the deadline still ahead the row kept its generation, and nothing started the run."""
    before = in_stage("awaiting chef")
    after = must(steps.resume(before, OPERATOR, None, NOW))
    assert jobs_for(after) == jobs_for(before)
    assert after.planned["watch_dispute"].generation == after.version


@pytest.mark.parametrize(("stage", "code"), [("needs a person", "needs_decision"), ("settled", "already_over")])
def test_what_only_a_mediator_can_end_or_has_ended_is_not_redriven(stage: str, code: str) -> None:
    with pytest.raises(Refused) as refused:
        steps.resume(in_stage(stage), OPERATOR, None, NOW)
    assert refused.value.code == code


def _marked(found: Booking) -> Booking:
    assert found.engagement is not None
    stuck = replace(dispute_of(found), needs_attention=True)
    return replace(found, engagement=replace(found.engagement, dispute=stuck))


# --- whatever happens ----------------------------------------------------------------------------------------------


def run(found: Booking, now: datetime) -> tuple[Booking, list[Payment]]:
    """What the workflow and the clock do at `now`, until nothing is due; the payments that were decided."""
    paid: list[Payment] = []
    for _ in range(100):
        step = _next(found, now)
        if step is None:
            return found, paid
        found = step.booking
        paid += step.payments
    raise AssertionError("it never comes to rest")


def _next(found: Booking, now: datetime) -> Step | None:
    assert found.engagement is not None
    if found.engagement.dispute is not None:
        step = steps.look(found, now)
        if step is None and dispute_of(found).status is DisputeStatus.DECIDED:
            try:
                step = steps.settle(found, now)
            except Refused:
                step = None
        if step is not None:
            return step
    return transitions.advance(found, now)


EVERY_ACT: dict[str, Callable[[Booking, datetime, int], Step | None]] = {
    "open": lambda b, now, n: open_dispute(b, now, 1 + n),
    "concede": lambda b, now, n: concede(b, now),
    "contest": lambda b, now, n: contest(b, now),
    "offer": lambda b, now, n: offer(b, now, n),
    "accept": lambda b, now, n: accept(b, now),
    "refuse": lambda b, now, n: refuse(b, now),
    "decide": lambda b, now, n: decide(b, now, n, MEDIATOR),
    "decide anew": lambda b, now, n: decide(b, now, n, OTHER),
    "appeal": lambda b, now, n: appeal(b, now),
    "appeal by the chef": lambda b, now, n: appeal(b, now, CHEF),
    "withdraw": lambda b, now, n: withdraw(b, now),
    "remind": lambda b, now, n: steps.remind(b, now),
    "redrive": lambda b, now, n: steps.resume(b, OPERATOR, None, now),
    "watch, gone": lambda b, now, n: steps.watch(b, False, now),
    "watch, late": lambda b, now, n: steps.watch(b, True, now),
    "cancel": lambda b, now, n: transitions.cancel(b, OPERATOR, None, None, now),
    "cancel in part": lambda b, now, n: transitions.cancel(b, OPERATOR, n, None, now),
    "move": lambda b, now, n: transitions.move(b, at(START + n * MINUTE), at(END + n * MINUTE), None, None, now),
    "work": lambda b, now, n: None,
}

policies = st.builds(
    Policy,
    silence=st.sampled_from(Silence),
    appeals=st.integers(0, 1),
    escalations=st.integers(0, 2),
    fee_bps=st.integers(0, 10_000),
    reply_within=st.integers(1, 200_000),
    remind_after=st.integers(0, 200_000),
    appeal_within=st.integers(1, 400_000),
)
doings = st.lists(
    st.tuples(st.sampled_from(sorted(EVERY_ACT)), st.integers(0, 3 * 86_400), st.integers(0, 110_000), st.booleans()),
    min_size=3,
    max_size=25,
)


@given(policies, doings, st.integers(0, 100 * 86_400))
def test_whatever_people_do_and_whenever_nobody_is_paid_meanwhile_and_in_the_end_all_of_it_is(
    policy: Policy, doings: list[tuple[str, int, int, bool]], begin: int
) -> None:
    now = AUGUST + timedelta(seconds=begin)
    found, decided = booking(State.PAID, policy=policy), list[Payment]()
    for act, passes, amount, works in (("work", 0, 0, True), ("open", 0, 40_000, False), *doings):
        now += timedelta(seconds=passes)
        if works:
            found, paid = run(found, now)
            decided += paid
        try:
            step = EVERY_ACT[act](found, now, amount)
        except (Refused, InvalidRequest, NotFound):
            step = None
        if step is not None:
            was_open = found.engagement is not None and found.engagement.is_disputed
            found = step.booking
            decided += step.payments
            if was_open:
                assert [p for p in step.payments if p.kind is Kind.PAYOUT] == []
        _holds(found, now)
    for _ in range(20):
        now += 400 * DAY
        found, paid = run(found, now)
        decided += paid
        if found.engagement is None or not found.engagement.is_disputed:
            break
        if dispute_of(found).deadline is None:
            assert dispute_of(found).needs_attention, "only a person can be missing"
            found = must(decide(found, now, 0, Actor(Role.MEDIATOR, "m-3")))
    assert found.engagement is not None
    assert not found.engagement.is_disputed
    moved = {kind: sum(payment.amount for payment in decided if payment.kind is kind) for kind in Kind}
    assert moved[Kind.REFUND] + moved[Kind.PAYOUT] + found.engagement.fee == found.engagement.captured
    assert len([payment for payment in decided if payment.kind is Kind.PAYOUT]) <= 1
    assert found.state in (State.PAYING, State.PAID_OUT, State.CANCELLED)


def _holds(found: Booking, now: datetime) -> None:
    engagement = found.engagement
    assert engagement is not None
    assert engagement.refunded + engagement.paid_out + engagement.fee <= engagement.captured
    if engagement.is_disputed:
        assert engagement.paid_out == 0
        assert "release_payment" not in jobs_for(found)
        assert dispute_of(found).watch_at is not None or dispute_of(found).needs_attention
    if engagement.paid_out and found.state is not State.CANCELLED:
        assert now >= engagement.release_at, "never before its ordinary instant"
