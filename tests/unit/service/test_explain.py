"""Explain tells what a wake-up would do, by doing it on the value: the same steps, and nothing written."""

from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duebook.adapters.memory import MemoryQueues, MemoryTable
from duebook.adapters.payments import STRIPE, ExternalPayments, LedgerPayments
from duebook.adapters.stripe_payments import StripePayments
from duebook.domain import dispute_steps
from duebook.domain.booking import Booking, State, in_order
from duebook.domain.dispute import MOST_RESTARTS
from duebook.domain.errors import InvalidRequest, NotFound, Refused
from duebook.domain.explain import Verdict
from duebook.domain.payment import Act as PaymentAct
from duebook.domain.payment import Done, Failed, Outcome, Payment, Uncertain, claim
from duebook.domain.policy import Policy
from duebook.domain.transitions import Step, everything_due, payment_step, request
from duebook.service import chefs, outside, pay, rows
from duebook.service.bookings import Bookings
from duebook.service.explain import explain
from duebook.service.ports import PaymentProvider, WakeUp
from duebook.service.rows import Cause
from tests.unit.builders import AUGUST, COMPLETE, DAY, END, HOUR, MINUTE, RELEASE, START, booking
from tests.unit.disputes import People
from tests.unit.domain.test_properties import POLICIES, STATES, STORIES, Act
from tests.unit.world import World

READS = {"get", "query", "query_index"}
JOBS = (
    *("reject_request", "cancel_unpaid", "close_event", "complete_order", "release_payment"),
    *("pay_1", "pay_2", "watch_dispute", "a", "b", "c"),
)
API = Cause(source="api")


def told(world: World, job: str, booking_id: str = "b1") -> tuple[str, str]:
    """(verdict, reason), and that nothing was written for it."""
    before, written = list(world.table.rows()), len(world.table.stream)
    world.table.calls.clear()
    found = explain(world.bookings, world.provider, booking_id, job)
    assert set(world.table.calls) <= READS
    assert (list(world.table.rows()), len(world.table.stream)) == (before, written)
    return found.told.verdict.value, found.told.reason


# --- it tells what a wake-up does ----------------------------------------------------------------------------------


class Tried:
    """A booking in a table of its own, at instants of the test's choice."""

    def __init__(self, first: Booking) -> None:
        self.now = AUGUST
        self.table = MemoryTable(lambda: self.now)
        self.bookings = Bookings(self.table, lambda: self.now)
        self.queues = MemoryQueues(lambda: self.now)
        assert first.engagement is not None
        taken_on = request(None, "b1", first.engagement, AUGUST)
        self.bookings.change("b1", API, lambda _, __: taken_on)

    def play(self, acts: list[Act]) -> None:
        for act in acts:
            self.now += act.after
            try:
                self.bookings.change("b1", API, partial(_apply, act))
            except (Refused, InvalidRequest, NotFound):
                continue

    def stop(self, what: str) -> None:
        """What a person or the provider does about the payout."""
        match what:
            case "hold":
                chefs.hold(self.bookings, "ch-1", "audit")
            case "unhold":
                chefs.unhold(self.bookings, "ch-1")
            case "pause" | "resume":
                chefs.pause(self.bookings, what == "pause", None)
            case "chargeback":
                outside.charged_back(self.bookings, "b1", "dp_1", 10_000, "fraudulent")
            case "retry":
                with suppress(NotFound):
                    pay.press(self.bookings, "b1.p1", None, None)

    def history(self) -> list[dict[str, Any]]:
        return list(self.table.query("b1", rows.HISTORY_PREFIX, limit=1_000).items)


def _apply(act: Act, before: Booking | None, now: datetime) -> Step | None:
    assert before is not None
    return act.apply(before, now)


LATER = st.sampled_from([MINUTE, HOUR, DAY, 30 * DAY, 150 * DAY]) | st.integers(0, 150 * 24).map(lambda h: h * HOUR)


@settings(max_examples=150)
@given(STATES, POLICIES, STORIES, LATER, st.sampled_from(JOBS), st.booleans())
def test_the_steps_it_tells_are_those_that_a_wake_up_then_takes_and_it_writes_nothing(
    state: State, policy: Policy, acts: list[Act], later: timedelta, job: str, by_event: bool
) -> None:
    tried = Tried(booking(state, policy=policy))
    tried.play(acts)
    tried.now += later
    provider: PaymentProvider = ExternalPayments() if by_event else LedgerPayments(tried.table)
    before, written = list(tried.table.rows()), len(tried.table.stream)
    tried.table.calls.clear()
    found = explain(tried.bookings, provider, "b1", job)
    assert set(tried.table.calls) <= READS
    assert (list(tried.table.rows()), len(tried.table.stream)) == (before, written)

    known = len(tried.history())
    pay.wake_payment(tried.bookings, tried.queues, provider, WakeUp(booking_id="b1", job=job, generation=1), "schedule")
    new = tried.history()[known:]
    steps = found.foreseen.steps
    assert [(row["type"], row["reason"]) for row in new[: len(steps)]] == [(step.type, step.reason) for step in steps]
    own = new[len(steps) :]
    assert all(row["job"] == job for row in own)
    fired = any(row.get("job") == job and "due" in row for row in new)
    sent = any(row["type"] in ("payment.requested", "payment.attempted") for row in own)
    assert (found.told.verdict is Verdict.ACTS) == (fired or sent)
    if not own:
        left = tried.bookings.load("b1")
        assert left is not None
        order = in_order({name: planned.run_at for name, planned in left.planned.items()})
        assert found.next == next(((name, run_at) for run_at, name in order), None)


class Moody(LedgerPayments):
    """Answers at random: it moved, it never will, nobody knows."""

    def __init__(self, tried: Tried, answers: list[Outcome | None]) -> None:
        super().__init__(tried.table)
        self._answers = answers

    def send(self, payment: Payment, now: datetime) -> Outcome:
        answer = self._answers.pop(0) if self._answers else None
        return answer or super().send(payment, now)


ANSWERS: st.SearchStrategy[Outcome | None] = st.sampled_from(
    [None, Failed("closed"), Uncertain("no answer"), Uncertain("HTTP 500", saved_error=True)]
)
STOPS = st.sampled_from(["hold", "unhold", "pause", "resume", "chargeback", "retry", "nothing"])
GAPS = st.sampled_from([timedelta(), MINUTE, 4 * MINUTE, HOUR, 3 * HOUR, DAY, 30 * DAY])


@settings(max_examples=150)
@given(st.booleans(), st.lists(ANSWERS, max_size=4), st.lists(st.tuples(STOPS, GAPS, st.booleans()), max_size=8))
def test_of_a_payment_it_tells_whether_a_wake_up_then_moves_it(
    by_event: bool, answers: list[Outcome | None], story: list[tuple[str, timedelta, bool]]
) -> None:
    tried = Tried(booking(State.COMPLETED))
    provider: PaymentProvider = ExternalPayments() if by_event else Moody(tried, answers)
    wake_up = WakeUp(booking_id="b1", job="pay_1", generation=1)
    tried.now = RELEASE
    for stop, gap, woken in [("nothing", timedelta(), False), *story]:
        tried.now += gap
        tried.stop(stop)
        written = len(tried.table.stream)
        found = explain(tried.bookings, provider, "b1", "pay_1")
        assert len(tried.table.stream) == written
        if not woken:
            continue
        known = len(tried.history())
        pay.wake_payment(tried.bookings, tried.queues, provider, wake_up, "schedule")
        own = [row["type"] for row in tried.history()[known + len(found.foreseen.steps) :]]
        moved = bool(own) and own[0] in ("payment.requested", "payment.attempted")
        assert moved == (found.told.verdict is Verdict.ACTS), (own, found.told)
        given_up = own[:1] == ["payment.needs_attention"]
        assert given_up == found.told.reason.endswith("it waits for a person from now on")
        assert moved or given_up or own in ([], ["payment.postponed"], ["payment.parked"])


@pytest.mark.parametrize("instant", [AUGUST, START, END, COMPLETE, RELEASE, RELEASE + DAY])
def test_after_a_long_outage_all_that_is_due_is_told_in_order(world: World, instant: datetime) -> None:
    world.paid()
    world.put_job("menu", run_at=START - 9 * DAY, payload={"n": 1})
    world.now = instant
    found = explain(world.bookings, world.provider, "b1", "release_payment")
    before = world.bookings.load("b1")
    assert before is not None
    assert found.foreseen.steps == tuple(everything_due(before, instant))
    expected = ["job.due", "booking.event_closed", "booking.completed", "booking.payout_decided"]
    dues = [START - 9 * DAY, END, COMPLETE, RELEASE]
    assert [step.type for step in found.foreseen.steps] == [
        t for t, at in zip(expected, dues, strict=True) if at <= instant
    ]


# --- each verdict, in words ----------------------------------------------------------------------------------------


def test_a_job_that_is_due_acts_and_says_why(world: World) -> None:
    world.paid()
    world.now = END
    assert told(world, "close_event") == ("acts", "it is due since 2026-11-14T21:00:00.000Z: the event has ended")


def test_a_job_to_come_waits_and_says_until_when_and_what_for(world: World) -> None:
    world.paid()
    assert told(world, "release_payment") == (
        "waits",
        "it waits until 2026-11-16T00:00:00.000Z; if nothing changes, then: the time for disputes is over",
    )
    world.put_job("menu", run_at=START)
    assert told(world, "menu")[0] == "waits"


def test_an_open_dispute_is_named_as_what_blocks_completion_and_payout(world: World) -> None:
    world.paid()
    People(world).open()
    world.now = RELEASE + HOUR
    for job in ("complete_order", "release_payment"):
        assert told(world, job) == ("blocked", "it is not planned: a dispute is open")
    assert told(world, "close_event")[0] == "acts"


def test_an_open_chargeback_is_named_as_what_blocks_the_payout_but_not_the_completion(world: World) -> None:
    world.paid()
    outside.charged_back(world.bookings, "b1", "dp_1", 10_000, "fraudulent")
    assert told(world, "release_payment") == ("blocked", "it is not planned: a chargeback is open")
    assert told(world, "complete_order")[0] == "waits"


def test_what_is_over_is_told_from_the_history_and_what_never_was_from_the_state(world: World) -> None:
    world.paid()
    world.put_job("menu", run_at=START - DAY)
    world.travel_to(END)
    verdict, reason = told(world, "close_event")
    assert (verdict, reason) == (
        "absent",
        "it is done: booking.event_closed at 2026-11-14T21:00:00.000Z, the event has ended",
    )
    assert told(world, "menu")[1].startswith("it is over: job.due at ")
    assert told(world, "reject_request")[1] == (
        "no more: it is planned while a booking is requested, and this one is event_closed"
    )
    assert told(world, "survey") == ("absent", "nobody asked for such a job")
    assert told(world, "pay_1") == ("absent", "payment 1 was not decided")
    assert told(world, "watch_dispute") == ("absent", "nobody opened a dispute")


def test_what_is_not_yet_planned_says_in_which_state_it_will_be(world: World) -> None:
    world.book()
    assert told(world, "close_event") == (
        "absent",
        "not yet: it is planned while a booking is paid, and this one is requested",
    )


def test_a_cancelled_booking_has_no_job_but_what_is_kept(world: World) -> None:
    world.paid()
    world.put_job("menu", run_at=START)
    world.put_job("thanks", run_at=START, keep_on_cancel=True)
    world.cancel()
    assert told(world, "close_event")[1] == "no more: it is planned while a booking is paid, and this one is cancelled"
    assert told(world, "menu") == ("absent", "the booking is cancelled, and the job is not kept on cancel")
    assert told(world, "thanks")[0] == "waits"


def test_what_is_due_first_may_take_a_job_away(world: World) -> None:
    world.book()
    world.put_job("menu", run_at=START - DAY)
    world.now = AUGUST + 2 * DAY
    assert told(world, "menu") == (
        "absent",
        "booking.rejected comes first and takes it away: the chef did not answer in time",
    )


def test_an_id_with_own_jobs_alone_is_explained_too(world: World) -> None:
    world.put_job("menu", "order-7", run_at=START)
    assert told(world, "menu", "order-7")[0] == "waits"
    assert told(world, "close_event", "order-7") == ("absent", "order-7 holds only own jobs")
    world.commands.delete_job("order-7", "menu", None)
    assert told(world, "menu", "order-7")[1].startswith("it is over: job.removed at ")
    world.now = START
    world.put_job("menu", "order-7", run_at=START)
    assert told(world, "menu", "order-7") == ("acts", "it is due since 2026-11-14T17:00:00.000Z: its instant has come")


def test_an_unknown_booking_is_not_found(world: World) -> None:
    with pytest.raises(NotFound, match="there is no booking nobody"):
        explain(world.bookings, world.provider, "nobody", "menu")


def test_a_dead_job_tells_its_last_error_and_what_a_redrive_does(world: World) -> None:
    world.paid()
    world.now = END
    row = world.jobs()["close_event"]
    world.table.write(rows.job_dead(row, world.now, "Permanent: broken"))
    found = explain(world.bookings, world.provider, "b1", "close_event")
    assert found.told.verdict is Verdict.BLOCKED
    assert found.told.reason == (
        "it died (Permanent: broken) and is woken only when a person redrives it, under a new generation; then: acts, "
        "it is due since 2026-11-14T21:00:00.000Z: the event has ended"
    )
    assert found.row == world.jobs()["close_event"]
    assert world.commands.redrive("b1", "close_event", {}, None)["status"] == "done"


def test_the_next_job_is_the_earliest_that_somebody_wakes(world: World) -> None:
    world.paid()
    assert _next(world, "close_event") == ("close_event", END)
    world.table.write(rows.job_dead(world.jobs()["close_event"], world.now, "broken"))
    assert _next(world, "close_event") == ("complete_order", COMPLETE)
    world.now = END
    assert _next(world, "close_event") == ("complete_order", COMPLETE)


def _next(world: World, job: str) -> tuple[str, datetime] | None:
    return explain(world.bookings, world.provider, "b1", job).next


# --- payments ------------------------------------------------------------------------------------------------------


def payout_due(world: World) -> None:
    """Everything up to the payout's intent; its payment is due now and nobody was woken for it."""
    world.paid()
    world.travel_to(RELEASE - MINUTE)
    world.now = RELEASE
    world.bookings.change("b1", API, lambda _, __: None)
    assert world.state() == "paying"


def test_a_payment_that_the_same_wake_up_decides_is_told_with_its_key(world: World) -> None:
    world.paid()
    world.now = RELEASE
    assert told(world, "release_payment")[0] == "acts"
    assert told(world, "pay_1") == ("acts", "it is sent to the provider with the key b1.p1.e1: first attempt")


def test_an_external_payment_asks_the_marketplace_and_asks_again(world: World) -> None:
    world.use_external_payments()
    payout_due(world)
    assert told(world, "pay_1") == ("acts", "the marketplace is asked to pay under the reference b1.p1: first attempt")
    world.deliver()
    assert told(world, "pay_1")[0] == "waits"
    world.now += 12 * HOUR
    assert told(world, "pay_1") == (
        "acts",
        "the marketplace is asked to pay under the reference b1.p1: ask again under the same reference",
    )


def test_a_held_chef_and_paused_payouts_are_named_before_and_after_it_is_parked(world: World) -> None:
    payout_due(world)
    chefs.hold(world.bookings, "ch-1", "audit")
    assert told(world, "pay_1") == (
        "blocked",
        "nothing is sent: the chef is held: audit; it is looked at again 2026-11-17T00:00:00.000Z",
    )
    world.deliver()
    world.wake("pay_1")
    world.deliver()
    verdict, reason = told(world, "pay_1")
    assert verdict == "blocked"
    assert reason.startswith("it is parked since 2026-11-16T00:00:00.000Z: the chef is held: audit; until ")
    chefs.pause(world.bookings, True, None)
    world.now += 2 * DAY
    assert told(world, "pay_1") == (
        "blocked",
        "nothing is sent: all payouts are paused; it is looked at again 2026-11-18T01:00:00.000Z",
    )


class Silent(LedgerPayments):
    """Takes the request and says nothing."""

    def send(self, payment: Payment, now: datetime) -> Outcome:
        return Uncertain("no answer")


def test_a_payment_without_an_answer_is_sent_again_with_its_key_and_later_looked_up_first(world: World) -> None:
    world.provider = Silent(world.table)
    payout_due(world)
    world.deliver()
    verdict, reason = told(world, "pay_1")
    assert (verdict, reason.split(";")[1]) == ("waits", " the last answer: no answer")
    world.now += HOUR
    assert told(world, "pay_1") == (
        "acts",
        "it is sent to the provider with the key b1.p1.e1: the provider still knows the key",
    )
    world.now += 2 * DAY
    verdict, reason = told(world, "pay_1")
    assert verdict == "acts"
    assert reason.startswith("it is looked up as b1.p1 first (the key may be forgotten")
    assert reason.endswith("not found, it is sent under the new key b1.p1.e2")


def test_a_payment_under_a_lease_may_be_running(world: World) -> None:
    payout_due(world)
    paying = world.bookings.load("b1")
    assert paying is not None
    payment = claim(world.bookings.payment("b1.p1"), PaymentAct.SEND, world.now)
    world.bookings.commit(paying, payment_step(paying, payment, "payment.attempted", world.now, "first attempt"), API)
    assert told(world, "pay_1") == (
        "blocked",
        "it is not known whether the money moved: an attempt may still be running, until 2026-11-16T00:03:00.000Z",
    )


def test_a_failed_payment_waits_for_a_person_and_names_the_key_of_a_retry(world: World) -> None:
    world.use_external_payments()
    payout_due(world)
    world.deliver()
    pay.result(world.bookings, world.provider, "b1.p1", Failed("account closed"))
    assert told(world, "pay_1") == (
        "blocked",
        "the payment is failed and waits for a person: account closed; a redrive tries again with the key b1.p1.e2",
    )
    pay.press(world.bookings, "b1.p1", None, None)
    world.deliver()
    assert world.bookings.payment("b1.p1").key == "b1.p1.e2"
    pay.result(world.bookings, world.provider, "b1.p1", Done("tr_9"))
    assert told(world, "pay_1") == ("absent", "the payment is done as tr_9")


def test_the_api_knows_stripe_s_manner_without_its_key() -> None:
    """Kind: the API asked for the provider itself, whose secret it is not told."""
    assert (STRIPE.by_event, STRIPE.needs_account) == (StripePayments.by_event, StripePayments.needs_account)


# --- disputes ------------------------------------------------------------------------------------------------------


def test_a_dispute_s_watch_tells_both_of_what_it_may_find(world: World) -> None:
    world.paid()
    People(world).open()
    assert told(world, "watch_dispute")[0] == "waits"
    world.now += 300 * DAY
    assert told(world, "watch_dispute") == (
        "acts",
        "if the workflow still runs: its workflow is late: it is nudged, and looked at again later; if not: its "
        "workflow is gone: the next run starts",
    )


def _gone(before: Booking | None, now: datetime) -> Step | None:
    assert before is not None
    return dispute_steps.watch(before, False, now)


def test_a_dispute_that_is_over_or_waits_for_a_person_says_so(world: World) -> None:
    world.paid()
    people = People(world)
    people.open()
    for _ in range(MOST_RESTARTS + 1):
        world.now += DAY
        world.bookings.change("b1", API, _gone)
    assert told(world, "watch_dispute") == (
        "blocked",
        "the dispute waits for a person: a redrive starts the next run of its workflow",
    )
    people.withdraw()
    assert told(world, "watch_dispute") == ("absent", "the dispute is withdrawn")
