"""Every way through a dispute on the embedded AWS, with its real state machine, functions, permissions and clock.

All of them are played at once, for time only travels forward: each name is a booking whose event ended an hour before.
The chef has a day to answer and is reminded after half of it; every other deadline is a day too.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from json import dumps
from typing import Any

import pytest

from duebook_client import Actor, Conflict, Dispute, Duebook, DuebookApiError, Policy, RetryPolicy
from local.emulator import REGION
from local.world import World
from tests.end_to_end.conftest import PRICE, whole_minute

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
WATCHED = timedelta(minutes=16)
"""After a deadline the second wake-up has looked: its grace, rounded up to Scheduler's minute."""

CUSTOMER, CHEF = Actor("customer", "customer-1"), Actor("chef", "chef-1")
MEDIATOR, OTHER = Actor("mediator", "mediator-1"), Actor("mediator", "mediator-2")
CLAIM, OFFER, DECISION = 40_000, 15_000, 25_000
EARLY = (
    *("concede", "accepted", "refused", "ignored", "contested", "silent", "last-second", "raced", "replaced"),
    *("escalated", "used-up", "upheld", "rejected", "unappealed", "killed", "far", "lost-start"),
    *("withdrawn-asked", "withdrawn-offered", "withdrawn-review", "two-replies", "unsent", "unsettled"),
)
"""Disputed at the beginning. `before-payout` and `after-payout` come later."""
APPEALS = ("upheld", "rejected", "unappealed")


def rules(name: str) -> Policy:
    appeals = 1 if name in APPEALS else 0
    remind_after = HOUR / 2 if name == "replaced" else DAY / 2
    return Policy(
        reply_within=DAY,
        remind_after=remind_after,
        offer_within=DAY,
        review_within=DAY,
        escalations=1,
        appeals=appeals,
        appeal_within=DAY,
    )


class Played:
    """What was played, and how each of it stands."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.refused: dict[str, str] = {}
        session = world.user("dispute-desk", "Bookings", "Disputes")
        self.once = Duebook(world.url, region=REGION, session=session, retries=RetryPolicy(attempts=1))
        self.workflows: Any = world.aws.session().client("stepfunctions")
        self.machine = world.outputs["DisputeMachineArn"]

    # --- the people ------------------------------------------------------------------------------------------------

    def paid(self, name: str, ends: datetime) -> None:
        self.world.client.put_booking(
            self.id(name),
            customer_id="customer-1",
            chef_id="chef-1",
            event_start=ends - 4 * HOUR,
            event_end=ends,
            price_minor=PRICE,
            currency="EUR",
            policy=rules(name),
            state="paid",
            paid_at=self.world.now(),
            captured_minor=PRICE,
            charge_ref=f"charge-{name}",
        )

    def open(self, name: str) -> Dispute:
        return self.world.client.open_dispute(
            self.id(name),
            actor=CUSTOMER,
            claimed_minor=CLAIM,
            reason="two courses were missing",
            text="no dessert, no cheese",
        )

    def concede(self, name: str, by: Duebook | None = None) -> Dispute:
        return (by or self.world.client).reply(self.dispute_id(name), "concede", actor=CHEF)

    def offer(self, name: str) -> None:
        self.world.client.reply(self.dispute_id(name), "offer", actor=CHEF, offer_minor=OFFER)

    def contest(self, name: str, by: Duebook | None = None) -> None:
        (by or self.world.client).reply(self.dispute_id(name), "contest", actor=CHEF, text="all was served")

    def answer(self, name: str, answer: Any) -> None:
        self.world.client.answer_offer(self.dispute_id(name), answer, actor=CUSTOMER)

    def decide(self, name: str, refund: int = DECISION, by: Actor = MEDIATOR) -> None:
        self.world.client.decide(self.dispute_id(name), actor=by, refund_minor=refund, reason="so it is")

    def appeal(self, name: str, by: Actor = CUSTOMER) -> None:
        self.world.client.appeal(self.dispute_id(name), actor=by, text="that is wrong")

    def withdraw(self, name: str) -> None:
        self.world.client.withdraw(self.dispute_id(name), actor=CUSTOMER)

    def expect_conflict(self, what: str, act: Callable[[], Any]) -> None:
        """The act is refused; its code is kept for the test."""
        with pytest.raises(Conflict) as refused:
            act()
        self.refused[what] = refused.value.code

    # --- what goes wrong -------------------------------------------------------------------------------------------

    @contextmanager
    def denying(self, role: str, *actions: str) -> Iterator[None]:
        """A function may not do that for a while. `role`: how its role's name goes on after the stack's."""
        iam: Any = self.world.aws.session().client("iam")
        [name] = [r["RoleName"] for r in iam.list_roles()["Roles"] if f"Functions{role}Role" in r["RoleName"]]
        deny = {"Effect": "Deny", "Action": list(actions), "Resource": "*"}
        policy = dumps({"Version": "2012-10-17", "Statement": [deny]})
        iam.put_role_policy(RoleName=name, PolicyName="broken", PolicyDocument=policy)
        try:
            yield
        finally:
            iam.delete_role_policy(RoleName=name, PolicyName="broken")

    def kill(self, name: str) -> None:
        self.workflows.stop_execution(executionArn=self.execution(name))

    def take_token(self, name: str, of: str) -> None:
        """Replace a dispute's token by another's, which is used up."""
        table = self.world.table()
        used = table.get_item(Key=self._token_key(of), ConsistentRead=True)["Item"]["token"]
        table.update_item(
            Key=self._token_key(name),
            UpdateExpression="SET #token = :used",
            ExpressionAttributeNames={"#token": "token"},
            ExpressionAttributeValues={":used": used},
        )

    def _token_key(self, name: str) -> dict[str, str]:
        return {"pk": self.id(name), "sk": f"token#{self.dispute_id(name)}"}

    # --- what can be seen ------------------------------------------------------------------------------------------

    @staticmethod
    def id(name: str) -> str:
        return f"disputed-{name}"

    def dispute_id(self, name: str) -> str:
        return f"{self.id(name)}.d1"

    def dispute(self, name: str) -> Dispute:
        return self.world.client.dispute(self.dispute_id(name))

    def execution(self, name: str, run: int = 1) -> str:
        executions = self.machine.replace(":stateMachine:", ":execution:")
        return f"{executions}:{self.id(name)}_d1-{run}"

    def failures(self, name: str) -> list[str]:
        """The errors of failed tasks, as the execution's history has them."""
        history = self.workflows.get_execution_history(executionArn=self.execution(name), maxResults=1000)
        return [e["taskFailedEventDetails"]["error"] for e in history["events"] if e["type"] == "TaskFailed"]

    def entered(self, name: str, run: int = 1) -> list[str]:
        """The states that an execution entered."""
        history = self.workflows.get_execution_history(executionArn=self.execution(name, run), maxResults=1000)
        return [
            event["stateEnteredEventDetails"]["name"]
            for event in history["events"]
            if event["type"].endswith("StateEntered")
        ]

    def told(self, name: str) -> list[str]:
        types = [entry.type for entry in self.world.client.history(self.id(name))]
        return [type_.removeprefix("dispute.") for type_ in types if type_.startswith("dispute.")]

    def money(self, name: str) -> dict[str, int]:
        """What has moved, by kind."""
        payments = self.world.client.payments(self.id(name))
        assert {payment.status for payment in payments} <= {"done"}
        return {payment.kind: payment.amount_minor for payment in payments}

    def at(self, name: str, type_: str) -> datetime:
        """When the first event of that type happened."""
        entries = self.world.client.history(self.id(name))
        return next(entry.at for entry in entries if entry.type == f"dispute.{type_}")


@pytest.fixture(scope="module")
def played(world: World) -> Iterator[Played]:
    """All of it, in one pass through time."""
    found = Played(world)
    try:
        _play(found)
        yield found
    finally:
        found.once.close()


def _play(play: Played) -> None:
    world = play.world
    begin = whole_minute(world.now())
    world.reach(begin)
    ended = begin - HOUR
    for name in (*EARLY, "before-payout", "after-payout"):
        play.paid(name, begin + 425 * DAY if name == "far" else ended)
    for name in EARLY:
        if name != "lost-start":
            play.open(name)
    world.settle()
    _lose_the_start(play)
    _act_early(play)
    _fail_to_send(play)
    _fail_to_settle(play)
    world.reach(begin + 45 * timedelta(minutes=1))
    _race_with_the_reminder(play)
    _answer_in_the_last_second(play)
    world.reach(begin + DAY + 25 * timedelta(minutes=1))
    play.expect_conflict("late reply", lambda: play.concede("silent"))
    for name in ("ignored", "escalated"):
        play.decide(name)
    play.decide("rejected", by=OTHER)
    _open_around_the_payout(play, release=ended + 27 * HOUR)
    world.reach(begin + 2 * DAY + HOUR / 2)
    play.decide("used-up")
    world.reach(begin + 2 * DAY + 4 * HOUR)


def _lose_the_start(play: Played) -> None:
    """The stream's record comes, but the execution cannot be started, and the retry is lost as well."""
    with play.denying("Projector", "states:StartExecution"):
        play.open("lost-start")
        play.world.settle()
        sqs: Any = play.world.aws.session().client("sqs")
        sqs.purge_queue(QueueUrl=play.world.outputs["ProjectionQueueUrl"])


def _act_early(play: Played) -> None:
    world = play.world
    play.expect_conflict("forged", lambda: world.client.reply(play.dispute_id("silent"), "concede", actor=CUSTOMER))
    stranger = Actor("chef", "chef-2")
    play.expect_conflict("stranger", lambda: world.client.reply(play.dispute_id("silent"), "concede", actor=stranger))
    play.expect_conflict("move", lambda: world.client.cancel(play.id("silent"), actor=Actor("operator", "op-1")))
    play.kill("killed")
    play.kill("far")
    play.concede("concede")
    world.settle()
    for name in ("accepted", "refused", "ignored", "withdrawn-offered"):
        play.offer(name)
    for name in ("contested", "escalated", "used-up", *APPEALS, "withdrawn-review"):
        play.contest(name)
    play.take_token("replaced", of="concede")
    play.concede("replaced")
    _reply_twice_at_once(play)
    world.settle()
    play.answer("accepted", "accept")
    play.answer("refused", "refuse")
    for name in ("withdrawn-asked", "withdrawn-offered", "withdrawn-review"):
        play.withdraw(name)
    for name in ("contested", *APPEALS):
        play.decide(name)
    world.settle()
    play.appeal("upheld")
    play.appeal("rejected", by=CHEF)
    play.expect_conflict("same mediator", lambda: play.decide("upheld", CLAIM))
    play.decide("upheld", CLAIM, by=OTHER)
    play.decide("refused")
    world.settle()


def _reply_twice_at_once(play: Played) -> None:
    codes: list[str] = []
    together = threading.Barrier(2)

    def reply(act: Callable[[str], Any]) -> None:
        together.wait()
        try:
            act("two-replies")
            codes.append("taken")
        except DuebookApiError as error:
            codes.append(error.code)

    threads = [threading.Thread(target=reply, args=(act,)) for act in (play.concede, play.contest)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    play.refused["two replies"] = " and ".join(sorted(codes))
    if play.world.client.dispute(play.dispute_id("two-replies")).status == "in_review":
        play.decide("two-replies")


def _fail_to_send(play: Played) -> None:
    """The answer is committed, its token cannot be sent, and the chef does not try again."""
    with play.denying("Api", "states:SendTaskSuccess"), pytest.raises(DuebookApiError) as failed:
        play.concede("unsent", by=play.once)
    play.refused["unsent"] = str(failed.value.status)
    assert play.dispute("unsent").status == "decided"


def _fail_to_settle(play: Played) -> None:
    with play.denying("DisputeSteps", "dynamodb:PutItem", "dynamodb:UpdateItem"):
        play.concede("unsettled")
        assert play.world.wait(lambda: len(play.failures("unsettled")) >= 2)
    play.world.settle()


def _race_with_the_reminder(play: Played) -> None:
    """The chef answers within the second in which the reminder replaces the token."""
    remind_at = datetime.fromisoformat(play.dispute("raced").raw["remind_at"])
    play.world.reach(remind_at - timedelta(minutes=5))
    play.world.aws.clock.advance_to(remind_at - timedelta(seconds=0.2))
    play.concede("raced")
    play.world.settle()


def _answer_in_the_last_second(play: Played) -> None:
    deadline = play.dispute("last-second").deadline
    assert deadline is not None
    play.world.reach(deadline - timedelta(minutes=5))
    with play.denying("Api", "states:SendTaskSuccess"):
        play.world.aws.clock.advance_to(deadline - timedelta(seconds=1))
        with pytest.raises(DuebookApiError):
            play.concede("last-second", by=play.once)


def _open_around_the_payout(play: Played, release: datetime) -> None:
    play.world.reach(release - timedelta(minutes=5))
    play.world.aws.clock.advance_to(release - timedelta(seconds=1))
    play.open("before-payout")
    play.world.reach(release + timedelta(minutes=2))
    play.expect_conflict("after the payout", lambda: play.open("after-payout"))


# --- the paths -----------------------------------------------------------------------------------------------------


def settled(play: Played, name: str, decided_by: str, **money: int) -> None:
    """It is over, by what, and what has moved; together with the fee it is all that was captured."""
    dispute, booking = play.dispute(name), play.world.client.booking(play.id(name))
    assert (dispute.status, dispute.decided_by) == ("settled", decided_by)
    assert play.money(name) == money
    assert sum(money.values()) + booking.raw["fee_minor"] == booking.captured_minor
    assert booking.state == "paid_out"
    assert play.world.client.jobs(play.id(name)) == []
    assert play.world.schedules_of(play.id(name)) == {}


def test_concede(played: Played) -> None:
    settled(played, "concede", "concession", refund=CLAIM, payout=54_000)
    assert played.told("concede") == ["opened", "chef_asked", "replied", "settled"]
    assert played.at("concede", "settled") - played.at("concede", "replied") < timedelta(seconds=60)


def test_an_offer_accepted(played: Played) -> None:
    settled(played, "accepted", "offer", refund=OFFER, payout=76_500)


def test_an_offer_refused(played: Played) -> None:
    settled(played, "refused", "mediator", refund=DECISION, payout=67_500)
    assert "offer_answered" in played.told("refused")


def test_an_offer_ignored(played: Played) -> None:
    settled(played, "ignored", "mediator", refund=DECISION, payout=67_500)
    assert "offer_lapsed" in played.told("ignored")


def test_contested_and_decided(played: Played) -> None:
    settled(played, "contested", "mediator", refund=DECISION, payout=67_500)


def test_silence(played: Played) -> None:
    settled(played, "silent", "silence", refund=CLAIM, payout=54_000)
    assert played.told("silent") == ["opened", "chef_asked", "chef_reminded", "decided", "settled"]
    states = ["ReadDispute", "WhatNow", "AskChef", "RemindChef", "CheckReply", "WhatNow", "Settle"]
    assert played.entered("silent") == states
    late = played.at("silent", "decided") - (played.at("silent", "chef_asked") + DAY)
    assert timedelta() <= late < timedelta(minutes=2)


def test_silence_with_a_reply_in_the_last_second(played: Played) -> None:
    settled(played, "last-second", "concession", refund=CLAIM, payout=54_000)
    deadline = played.at("last-second", "chef_asked") + DAY
    assert timedelta() < deadline - played.at("last-second", "replied") <= timedelta(seconds=1)


def test_a_token_replaced_between_reading_and_sending(played: Played) -> None:
    """`replaced`: the answerer sent the token of a state that was over. `raced`: answer and reminder came at once."""
    settled(played, "replaced", "concession", refund=CLAIM, payout=54_000)
    settled(played, "raced", "concession", refund=CLAIM, payout=54_000)
    assert played.at("replaced", "settled") < played.at("replaced", "chef_asked") + 45 * timedelta(minutes=1)
    assert played.at("raced", "settled") - played.at("raced", "replied") < timedelta(minutes=5)


def test_a_token_that_could_not_be_sent(played: Played) -> None:
    settled(played, "unsent", "concession", refund=CLAIM, payout=54_000)
    assert played.refused["unsent"] == "503"
    assert played.told("unsent")[-2:] == ["watched", "settled"] or played.told("unsent")[-2:] == ["replied", "settled"]
    assert played.at("unsent", "settled") - played.at("unsent", "replied") <= WATCHED + timedelta(minutes=2)


def test_a_missed_review_is_escalated_and_then_decided(played: Played) -> None:
    settled(played, "escalated", "mediator", refund=DECISION, payout=67_500)
    assert "escalated" in played.told("escalated")


def test_escalations_used_up_then_attention_then_a_decision_and_the_next_run(played: Played) -> None:
    settled(played, "used-up", "mediator", refund=DECISION, payout=67_500)
    assert played.told("used-up")[-4:] == ["escalated", "needs_attention", "decided", "settled"]
    assert played.dispute("used-up").run == 2
    assert played.entered("used-up")[-1] == "NeedsPerson"
    assert played.entered("used-up", run=2) == ["ReadDispute", "WhatNow", "Settle"]


def test_an_appeal_upheld(played: Played) -> None:
    settled(played, "upheld", "mediator", refund=CLAIM, payout=54_000)
    assert played.refused["same mediator"] == "same_mediator"
    assert played.dispute("upheld").mediator_id == OTHER.id


def test_an_appeal_rejected(played: Played) -> None:
    settled(played, "rejected", "mediator", refund=DECISION, payout=67_500)
    assert played.dispute("rejected").appealed_by == "chef"


def test_no_appeal(played: Played) -> None:
    settled(played, "unappealed", "mediator", refund=DECISION, payout=67_500)
    window = played.at("unappealed", "settled") - played.at("unappealed", "decided")
    assert DAY <= window < DAY + timedelta(minutes=2)


@pytest.mark.parametrize("stage", ["asked", "offered", "review"])
def test_withdrawn(played: Played, stage: str) -> None:
    name = f"withdrawn-{stage}"
    booking = played.world.client.booking(played.id(name))
    assert (played.dispute(name).status, booking.state) == ("withdrawn", "paid_out")
    assert played.money(name) == {"payout": 90_000}
    assert played.entered(name)[-1] == "Withdrawn"


def test_opened_the_second_before_the_payout_and_the_second_after(played: Played) -> None:
    settled(played, "before-payout", "silence", refund=CLAIM, payout=54_000)
    assert played.refused["after the payout"] == "not_disputable"
    assert played.money("after-payout") == {"payout": 90_000}
    assert played.told("after-payout") == []


def test_two_replies_at_once(played: Played) -> None:
    assert played.refused["two replies"] == "already_replied and taken"
    assert played.told("two-replies").count("replied") == 1


def test_a_late_reply(played: Played) -> None:
    assert played.refused["late reply"] in ("illegal_transition", "deadline_passed")


def test_a_forged_actor(played: Played) -> None:
    assert (played.refused["forged"], played.refused["stranger"]) == ("wrong_actor", "wrong_actor")
    assert played.refused["move"] == "dispute_open"


def test_settling_fails_twice_and_then_succeeds(played: Played) -> None:
    settled(played, "unsettled", "concession", refund=CLAIM, payout=54_000)
    assert len(played.failures("unsettled")) >= 2
    assert played.dispute("unsettled").run == 1


def test_the_start_record_is_lost(played: Played) -> None:
    settled(played, "lost-start", "silence", refund=CLAIM, payout=54_000)
    assert played.told("lost-start")[:3] == ["opened", "restarted", "chef_asked"]
    asked_after = played.at("lost-start", "chef_asked") - played.at("lost-start", "opened")
    assert asked_after < WATCHED + timedelta(minutes=2)


def test_the_execution_is_killed_by_hand(played: Played) -> None:
    settled(played, "killed", "silence", refund=CLAIM, payout=54_000)
    assert played.told("killed") == ["opened", "chef_asked", "restarted", "decided", "settled"]
    assert played.entered("killed", run=2) == ["ReadDispute", "WhatNow", "Settle"]


def test_a_dispute_on_an_event_14_months_away(played: Played) -> None:
    """Killed too, and healed; the refund has gone back, and the chef is paid when the event is over."""
    assert played.dispute("far").status == "settled"
    assert played.money("far") == {"refund": CLAIM}
    (release,) = [job for job in played.world.client.jobs(played.id("far")) if job.job == "release_payment"]
    assert release.run_at > played.world.now() + 420 * DAY
    assert played.world.schedules_of(played.id("far"))["release_payment"] == release.run_at


def test_the_timeline_tells_history_and_executions_in_order_and_no_token(played: Played) -> None:
    told = played.world.client.dispute_history(played.dispute_id("used-up"))
    instants = [entry.at for entry in told.entries if entry.at]
    assert instants == sorted(instants)
    assert {entry.source for entry in told.entries} == {"history", "workflow"}
    texts = [entry.text for entry in told.entries]
    assert texts[0] == "the customer disputes the order"
    for text in ("entered AskChef", "entered HumanReview", "the mediator did not decide in time"):
        assert text in texts
    assert told.console_url.endswith(f"{played.id('used-up')}_d1-2")
    assert "oken" not in str(told.raw)


def test_every_step_was_told_as_an_event(played: Played) -> None:
    told = {
        name: [entry.type for entry in played.world.client.history(played.id(name))]
        for name in ("silent", "used-up", "upheld")
    }

    def all_heard() -> bool:
        played.world.inbox.read()
        return told == {name: [event.type for event in played.world.inbox.of(played.id(name))] for name in told}

    assert played.world.wait(all_heard)
    asked = played.world.inbox.of(played.id("silent"), "dispute.chef_asked")[0]
    assert asked.raw["data"]["deadline"] > asked.raw["at"]


def test_nothing_is_left_waiting(played: Played) -> None:
    for kind in ("in_review", "needs_attention", "awaiting_chef"):
        waiting = [each.dispute_id for each in played.world.client.disputes(kind)]
        assert [each for each in waiting if each.startswith("disputed-")] == []
