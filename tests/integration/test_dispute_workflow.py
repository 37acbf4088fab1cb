"""Every way through a dispute, in moto's interpreter and in the simulation's: the states it enters, what it costs, and
what it comes to. Where the two differ, one of them is wrong.

Each state entered is a billed transition. The paths are pinned whole, so that none grows unnoticed.
"""

import itertools
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from duebook.domain.errors import AwsFailure, Refused
from duebook.handlers import dispute as dispute_handler
from duebook.service import dispute as dispute_service
from duebook.service import queries
from duebook.service.dispute import Route
from tests.integration.workflow import MotoWorld, OurWorld, WorkflowWorld, running_machines
from tests.unit.builders import DAY, END, HOUR, MINUTE, RELEASE, SECOND, START
from tests.unit.disputes import CHEF, OTHER_MEDIATOR, SOFT, People
from tests.unit.world import Context

pytestmark = pytest.mark.filterwarnings("ignore:No application metrics")

OPENED = END + HOUR
REMIND = OPENED + 12 * HOUR
REPLY = OPENED + DAY
"""Until when the chef may answer. The chef is asked at once, and nothing here takes time."""
REVIEW = 3 * DAY

BEGIN = ["ReadDispute", "WhatNow"]
ANSWERED = [*BEGIN, "AskChef", "CheckReply", "WhatNow"]
SILENT = [*BEGIN, "AskChef", "RemindChef", "CheckReply", "WhatNow"]
REVIEWED = ["HumanReview", "CheckReview", "WhatNow"]
OFFERED = ["AskCustomer", "CheckOffer", "WhatNow"]
APPEALED = ["WaitForAppeal", "CheckAppeal", "WhatNow"]

_names = itertools.count(1)


@pytest.fixture(scope="module")
def machines() -> Iterator[Any]:
    with running_machines() as client:
        yield client


@pytest.fixture(params=["moto", "simulation"])
def world(monkeypatch: pytest.MonkeyPatch, machines: Any, request: pytest.FixtureRequest) -> WorkflowWorld:
    if request.param == "simulation":
        return OurWorld(monkeypatch)
    return MotoWorld(monkeypatch, machines, f"dispute-{next(_names)}")


@pytest.fixture
def people(world: WorkflowWorld) -> People:
    return People(world)


def disputed(world: WorkflowWorld, people: People, at: datetime = OPENED, **policy: Any) -> None:
    """A paid booking, disputed; its workflow asks the chef."""
    world.paid(policy=policy or None)
    world.travel_to(at)
    people.open()
    world.deliver()


def ends(world: WorkflowWorld, people: People, path: list[str], run: int = 1, **money: int) -> None:
    """The path, and that all that was captured went where it should, and not before its time."""
    assert (world.path(run), world.status(run)) == (path, "SUCCEEDED")
    assert people.dispute.status == "settled"
    assert people.dispute.watch_at is None
    world.travel_to(max(world.now, RELEASE + HOUR))
    assert people.money() == money
    assert sum(money.values()) == people.engagement.captured
    assert not [name for name in world.planned() if name != "keep"]
    assert world.attention("in_review") + world.attention("awaiting_chef") + world.attention("needs_attention") == []


# --- the paths -----------------------------------------------------------------------------------------------------


def test_a_silent_chef_is_asked_and_reminded_and_then_loses(world: WorkflowWorld, people: People) -> None:
    disputed(world, people)
    assert people.dispute.deadline == REPLY
    world.travel_to(REMIND - SECOND)
    assert people.told() == ["opened", "chef_asked"]
    world.travel_to(REMIND)
    assert people.told() == ["opened", "chef_asked", "chef_reminded"]
    world.travel_to(REPLY - SECOND)
    assert people.dispute.status == "awaiting_chef"
    world.travel_to(REPLY)
    assert people.told() == ["opened", "chef_asked", "chef_reminded", "decided", "settled"]
    path = [*SILENT, "Settle"]
    assert len(path) + 2 <= 10, "even if the start and the end are counted too"
    ends(world, people, path, refund=40_000, payout=54_000, fee=6_000)


def test_a_silent_chef_wins_where_the_policy_says_so(world: WorkflowWorld, people: People) -> None:
    disputed(world, people, silence="release")
    world.travel_to(REPLY)
    ends(world, people, [*SILENT, "Settle"], payout=90_000, fee=10_000)


def test_a_chef_who_concedes_early_is_not_kept_waiting(world: WorkflowWorld, people: People) -> None:
    disputed(world, people)
    world.travel_to(OPENED + HOUR)
    assert people.concede() is True
    world.deliver()
    assert world.now == OPENED + HOUR, "no time had to pass"
    ends(world, people, [*ANSWERED, "Settle"], refund=40_000, payout=54_000, fee=6_000)


def test_a_chef_who_concedes_after_the_reminder(world: WorkflowWorld, people: People) -> None:
    disputed(world, people)
    world.travel_to(REMIND + HOUR)
    people.concede()
    world.deliver()
    ends(world, people, [*SILENT, "Settle"], refund=40_000, payout=54_000, fee=6_000)


def test_an_offer_that_is_accepted(world: WorkflowWorld, people: People) -> None:
    disputed(world, people)
    people.offer(15_000)
    world.deliver()
    assert (people.dispute.status, people.dispute.deadline) == ("awaiting_customer", OPENED + DAY)
    world.travel_to(OPENED + HOUR)
    people.accept()
    world.deliver()
    ends(world, people, [*ANSWERED, *OFFERED, "Settle"], refund=15_000, payout=76_500, fee=8_500)


def test_an_offer_that_is_refused_goes_to_a_mediator(world: WorkflowWorld, people: People) -> None:
    disputed(world, people)
    people.offer()
    world.deliver()
    people.refuse()
    world.deliver()
    assert people.dispute.status == "in_review"
    people.decide(25_000)
    world.deliver()
    path = [*ANSWERED, *OFFERED, *REVIEWED, "Settle"]
    ends(world, people, path, refund=25_000, payout=67_500, fee=7_500)


def test_an_offer_that_is_ignored_goes_to_a_mediator_at_its_deadline(world: WorkflowWorld, people: People) -> None:
    disputed(world, people)
    people.offer()
    world.travel_to(OPENED + DAY - SECOND)
    assert people.dispute.status == "awaiting_customer"
    world.travel_to(OPENED + DAY)
    assert people.told()[-1] == "offer_lapsed"
    assert people.dispute.deadline == OPENED + DAY + REVIEW
    with pytest.raises(Refused, match="it must be awaiting_customer"):
        people.accept()
    people.decide(0)
    world.deliver()
    ends(world, people, [*ANSWERED, *OFFERED, *REVIEWED, "Settle"], payout=90_000, fee=10_000)


def test_a_contested_claim_is_decided_by_a_mediator(world: WorkflowWorld, people: People) -> None:
    disputed(world, people)
    people.contest()
    world.travel_to(OPENED + DAY)
    people.decide(25_000)
    world.deliver()
    assert world.now == OPENED + DAY
    ends(world, people, [*ANSWERED, *REVIEWED, "Settle"], refund=25_000, payout=67_500, fee=7_500)


def test_a_full_refund_ends_the_booking(world: WorkflowWorld, people: People) -> None:
    disputed(world, people)
    people.contest()
    world.deliver()
    people.decide(100_000)
    world.deliver()
    assert world.state() == "cancelled"
    assert world.jobs() == {}
    ends(world, people, [*ANSWERED, *REVIEWED, "Settle"], refund=100_000, fee=0)


def test_a_mediator_who_is_late_is_escalated_and_may_still_decide(world: WorkflowWorld, people: People) -> None:
    disputed(world, people)
    people.contest()
    world.travel_to(OPENED + REVIEW)
    assert people.told()[-1] == "escalated"
    assert people.dispute.deadline == OPENED + 2 * REVIEW
    world.travel_to(OPENED + 2 * REVIEW - HOUR)
    people.decide(25_000)
    world.deliver()
    ends(world, people, [*ANSWERED, *REVIEWED, *REVIEWED, "Settle"], refund=25_000, payout=67_500, fee=7_500)


def test_when_escalations_are_used_up_it_waits_for_a_person_and_a_later_decision_starts_the_next_run(
    world: WorkflowWorld, people: People
) -> None:
    disputed(world, people)
    people.contest()
    world.travel_to(OPENED + 3 * REVIEW)
    assert people.told()[-4:] == ["replied", "escalated", "escalated", "needs_attention"]
    assert (world.path(), world.status()) == ([*ANSWERED, *(3 * REVIEWED), "NeedsPerson"], "SUCCEEDED")
    assert [row["dispute_id"] for row in world.attention("needs_attention")] == ["b1.d1"]
    world.travel_to(OPENED + 60 * DAY)
    assert people.dispute.status == "in_review", "it never pays out by itself"
    assert people.money() == {"fee": 0}
    people.decide(25_000)
    world.deliver()
    assert people.dispute.run == 2
    ends(world, people, [*BEGIN, "Settle"], run=2, refund=25_000, payout=67_500, fee=7_500)


def test_without_an_appeal_the_decision_waits_out_its_window(world: WorkflowWorld, people: People) -> None:
    disputed(world, people, **SOFT)
    people.contest()
    world.deliver()
    people.decide(25_000)
    world.travel_to(OPENED + 2 * DAY - SECOND)
    assert people.dispute.status == "decided"
    world.travel_to(OPENED + 2 * DAY)
    ends(world, people, [*ANSWERED, *REVIEWED, *APPEALED, "Settle"], refund=25_000, payout=67_500, fee=7_500)


def test_an_appeal_that_is_upheld_within_the_window_settles_at_its_end(world: WorkflowWorld, people: People) -> None:
    disputed(world, people, **SOFT)
    people.contest()
    world.deliver()
    people.decide(25_000)
    world.travel_to(OPENED + DAY)
    people.appeal()
    with pytest.raises(Refused, match="another mediator"):
        people.decide(40_000, reason="after all")
    people.decide(40_000, actor=OTHER_MEDIATOR)
    world.travel_to(OPENED + 2 * DAY)
    ends(world, people, [*ANSWERED, *REVIEWED, *APPEALED, "Settle"], refund=40_000, payout=54_000, fee=6_000)


def test_an_appeal_that_is_rejected_after_the_window_settles_at_once(world: WorkflowWorld, people: People) -> None:
    disputed(world, people, **SOFT)
    people.contest()
    world.deliver()
    people.decide(25_000)
    world.deliver()
    people.appeal(actor=CHEF)
    world.travel_to(OPENED + 3 * DAY)
    assert people.dispute.status == "in_appeal"
    people.decide(25_000, actor=OTHER_MEDIATOR)
    world.deliver()
    path = [*ANSWERED, *REVIEWED, *APPEALED, *REVIEWED, "Settle"]
    ends(world, people, path, refund=25_000, payout=67_500, fee=7_500)


@pytest.mark.parametrize(
    ("stage", "path"),
    [
        ("asked", [*ANSWERED, "Withdrawn"]),
        ("reminded", [*SILENT, "Withdrawn"]),
        ("offered", [*ANSWERED, *OFFERED, "Withdrawn"]),
        ("in review", [*ANSWERED, *REVIEWED, "Withdrawn"]),
        ("escalated", [*ANSWERED, *REVIEWED, *REVIEWED, "Withdrawn"]),
    ],
)
def test_withdrawn_at_any_stage_the_jobs_come_back_and_what_has_passed_is_done_at_once(
    world: WorkflowWorld, people: People, stage: str, path: list[str]
) -> None:
    disputed(world, people)
    if stage == "reminded":
        world.travel_to(REMIND)
    if stage == "offered":
        people.offer()
    if stage in ("in review", "escalated"):
        people.contest()
    if stage == "escalated":
        world.travel_to(OPENED + REVIEW)
    world.deliver()
    people.withdraw()
    assert {"complete_order", "release_payment"} <= people.booking.planned.keys()
    assert "watch_dispute" not in people.booking.planned
    world.deliver()
    assert (world.path(), world.status()) == (path, "SUCCEEDED")
    assert world.state() == ("paid_out" if stage == "escalated" else world.state())
    world.travel_to(max(world.now, RELEASE))
    assert people.money() == {"payout": 90_000, "fee": 10_000}


def test_settled_before_the_event_the_chef_is_still_paid_at_the_ordinary_instant(
    world: WorkflowWorld, people: People
) -> None:
    disputed(world, people, at=START - 30 * DAY)
    people.concede()
    world.deliver()
    assert world.state() == "paid"
    assert world.planned() == {
        "close_event-b1": END,
        "complete_order-b1": END + 3 * HOUR,
        "release_payment-b1": RELEASE,
    }
    world.travel_to(RELEASE - MINUTE)
    assert people.money() == {"refund": 40_000, "fee": 0}
    ends(world, people, [*ANSWERED, "Settle"], refund=40_000, payout=54_000, fee=6_000)


# --- what goes wrong -----------------------------------------------------------------------------------------------


def test_a_reply_in_the_last_second_counts_though_its_token_could_not_be_sent(
    world: WorkflowWorld, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    disputed(world, people)
    world.travel_to(REMIND)
    world.now = REPLY - SECOND
    lose_sending(world, monkeypatch)
    with pytest.raises(AwsFailure):
        people.concede()
    world.travel_to(REPLY)
    ends(world, people, [*SILENT, "Settle"], refund=40_000, payout=54_000, fee=6_000)
    assert people.dispute.decided_by == "concession"


def test_a_token_that_could_not_be_sent_is_sent_again_by_a_repeat(
    world: WorkflowWorld, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    disputed(world, people)
    with monkeypatch.context() as lost:
        lose_sending(world, lost)
        with pytest.raises(AwsFailure):
            people.concede()
    world.deliver()
    assert people.dispute.status == "decided"
    assert people.concede() is False
    world.deliver()
    assert world.now == OPENED
    ends(world, people, [*ANSWERED, "Settle"], refund=40_000, payout=54_000, fee=6_000)


def test_a_token_that_nobody_sends_again_is_sent_by_the_second_wake_up(
    world: WorkflowWorld, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    disputed(world, people)
    with monkeypatch.context() as lost:
        lose_sending(world, lost)
        with pytest.raises(AwsFailure):
            people.concede()
    world.travel_to(OPENED + 15 * MINUTE)
    assert people.told()[-1] == "settled"
    assert "needs_attention" not in people.told()
    ends(world, people, [*ANSWERED, "Settle"], refund=40_000, payout=54_000, fee=6_000)


def test_a_token_that_is_replaced_between_reading_and_sending_loses_nothing(
    world: WorkflowWorld, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reminder's new token is stored after the answer was committed: its notifier completes the task itself."""
    disputed(world, people)
    world.now = REMIND - SECOND
    succeed = world.disputes.workflow.succeed
    sent: list[bool] = []

    def outrun(token: str) -> bool:
        if not sent:
            sent.append(False)
            world.now = REMIND
            world.settle()
        sent.append(succeed(token))
        return sent[-1]

    monkeypatch.setattr(world.disputes.workflow, "succeed", outrun)
    people.concede()
    world.deliver()
    assert sent == [False, True, False], "the notifier's own, then the answerer's, which came too late"
    assert people.told() == ["opened", "chef_asked", "replied", "settled"], "nobody is reminded who has answered"
    ends(world, people, [*SILENT, "Settle"], refund=40_000, payout=54_000, fee=6_000)


def test_settling_fails_twice_and_then_succeeds_after_a_backoff(world: WorkflowWorld, people: People) -> None:
    disputed(world, people)
    failures = fail(world, "settle", 2)
    people.concede()
    world.deliver()
    assert [e["taskFailedEventDetails"]["error"] for e in world.raw_history() if e["type"] == "TaskFailed"] == [
        "TableIsDown",
        "TableIsDown",
    ]
    assert (len(world.backoffs), len(failures)) == (2, 0)
    ends(world, people, [*ANSWERED, "Settle"], refund=40_000, payout=54_000, fee=6_000)


def test_settling_that_keeps_failing_fails_the_execution_and_a_later_run_settles(
    world: WorkflowWorld, people: People
) -> None:
    disputed(world, people)
    fail(world, "settle", 7)
    people.concede()
    world.deliver()
    assert (world.path()[-1], world.status()) == ("Settle", "FAILED"), "uncaught: a redrive would go on from there"
    assert people.dispute.status == "decided"
    world.travel_to(OPENED + 15 * MINUTE)
    ends(world, people, [*BEGIN, "Settle"], run=2, refund=40_000, payout=54_000, fee=6_000)


def test_settling_that_fails_for_hours_calls_for_a_person_whose_redrive_settles(
    world: WorkflowWorld, people: People
) -> None:
    disputed(world, people)
    fail(world, "settle", 1_000)
    people.concede()
    world.travel_to(OPENED + DAY)
    assert people.told()[-1] == "needs_attention"
    assert people.dispute.run == 6
    [row] = queries.disputes(world.table, "needs_attention").items
    assert row["dispute_id"] == "b1.d1"
    world.interrupt = lambda _: None
    world.commands.redrive("b1", "watch_dispute", {"reason": "the table is back"}, None)
    world.deliver()
    ends(world, people, [*BEGIN, "Settle"], run=7, refund=40_000, payout=54_000, fee=6_000)


def test_a_notifier_that_fails_is_tried_again_and_its_error_has_its_class_as_name(
    world: WorkflowWorld, people: People
) -> None:
    fail(world, "notify", 2)
    disputed(world, people)
    assert [e["taskFailedEventDetails"]["error"] for e in world.raw_history() if e["type"] == "TaskFailed"] == [
        "TableIsDown",
        "TableIsDown",
    ]
    people.concede()
    world.deliver()
    ends(world, people, [*ANSWERED, "Settle"], refund=40_000, payout=54_000, fee=6_000)


def test_when_the_record_that_starts_it_is_lost_the_second_wake_up_starts_it(
    world: WorkflowWorld, people: People
) -> None:
    world.paid()
    world.travel_to(OPENED)
    people.open()
    world.skip_stream("projector")
    world.travel_sweeping(OPENED + 25 * MINUTE)
    assert people.told() == ["opened", "restarted", "chef_asked"]
    assert people.dispute.run == 2
    asked = people.dispute.deadline
    assert asked is not None
    assert asked - DAY <= OPENED + 20 * MINUTE, "the chef has the whole day from when the question came"
    world.travel_to(asked)
    ends(world, people, [*SILENT, "Settle"], run=2, refund=40_000, payout=54_000, fee=6_000)


def test_an_execution_that_is_killed_by_hand_is_followed_by_one_that_goes_on_where_the_row_stands(
    world: WorkflowWorld, people: People
) -> None:
    disputed(world, people)
    world.travel_to(REMIND)
    world.kill()
    world.travel_to(REPLY + 15 * MINUTE)
    assert people.told() == ["opened", "chef_asked", "chef_reminded", "restarted", "decided", "settled"]
    ends(world, people, [*BEGIN, "Settle"], run=2, refund=40_000, payout=54_000, fee=6_000)


def test_after_a_kill_an_answer_counts_and_the_next_run_carries_it_out(world: WorkflowWorld, people: People) -> None:
    disputed(world, people)
    world.kill()
    world.travel_to(OPENED + HOUR)
    people.offer()
    people.accept()
    world.travel_to(OPENED + HOUR + 15 * MINUTE)
    ends(world, people, [*BEGIN, "Settle"], run=2, refund=15_000, payout=76_500, fee=8_500)


def test_a_dispute_that_outlives_the_year_of_its_execution_goes_on_in_the_next_run(
    world: WorkflowWorld, people: People
) -> None:
    """An event 14 months away, and a mediator who has 366 days: Step Functions ends an execution after 365."""
    world.paid(
        event_start="2027-10-02T18:00:00+02:00",
        event_end="2027-10-02T22:00:00+02:00",
        policy={"review_within": 366 * 86_400, "escalations": 0},
    )
    opened = world.now
    people.open()
    world.deliver()
    people.contest()
    world.travel_to(opened + 365 * DAY)
    if isinstance(world, MotoWorld):  # which ends no execution by itself
        world.kill()
    world.travel_to(opened + 366 * DAY + 15 * MINUTE)
    assert people.told()[-2:] == ["restarted", "needs_attention"]
    assert (world.path(2), world.status(2)) == ([*BEGIN, "NeedsPerson"], "SUCCEEDED")
    people.decide(25_000)
    world.deliver()
    assert world.path(3) == [*BEGIN, "Settle"]
    release = datetime.fromisoformat("2027-10-02T20:00:00+00:00") + 27 * HOUR
    assert world.planned()["release_payment-b1"] == release
    assert people.money() == {"refund": 25_000, "fee": 0}, "never before the event"
    world.travel_to(release)
    assert people.money() == {"refund": 25_000, "payout": 67_500, "fee": 7_500}


# --- change --------------------------------------------------------------------------------------------------------


def test_an_execution_whose_input_is_older_than_runs_is_the_first_run(world: WorkflowWorld, people: People) -> None:
    world.paid()
    world.travel_to(OPENED)
    people.open()
    world.skip_stream("projector")
    world.start("b1_d1-1", {"dispute_id": "b1.d1", "opened_by": "c-1"})
    world.deliver()
    people.concede()
    world.deliver()
    ends(world, people, [*ANSWERED, "Settle"], refund=40_000, payout=54_000, fee=6_000)


def test_the_function_takes_what_last_months_definition_passes(world: WorkflowWorld, people: People) -> None:
    """No `run`, and a field that is gone since."""
    disputed(world, people)
    world.kill()
    answer = dispute_handler.handler({"action": "look", "dispute_id": "b1.d1", "claim": 40_000}, Context())
    assert answer["next"] == "AskChef"
    assert (
        dispute_handler.handler(
            {"action": "notify", "stage": "ask", "dispute_id": "b1.d1", "token": "t", "chef": "ch-1"}, Context()
        )
        == {}
    )


def test_a_definition_that_does_not_know_a_newer_route_ends_and_the_next_run_has_the_new_definition(
    world: WorkflowWorld, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(dispute_service, "route", lambda dispute, now: Route("AskBoth"))
        disputed(world, people)
    assert (world.path(), world.status()) == ([*BEGIN, "NotForThisRun"], "SUCCEEDED")
    world.travel_to(REPLY + 15 * MINUTE)
    ends(world, people, [*BEGIN, "Settle"], run=2, refund=40_000, payout=54_000, fee=6_000)


def test_a_run_that_a_newer_one_has_replaced_does_nothing_any_more(world: WorkflowWorld, people: People) -> None:
    disputed(world, people)
    world.commands.redrive("b1", "watch_dispute", {}, None)
    world.deliver()
    assert (world.status(1), world.status(2)) == ("RUNNING", "RUNNING")
    people.concede()
    world.deliver()
    world.travel_to(REPLY)
    assert (world.path(1)[-1], world.status(1)) == ("NotForThisRun", "SUCCEEDED")
    ends(world, people, [*ANSWERED, "Settle"], run=2, refund=40_000, payout=54_000, fee=6_000)
    assert people.told().count("settled") == 1


def test_a_wait_that_ends_a_second_early_is_sat_out(world: WorkflowWorld, people: People) -> None:
    """Step Functions cuts a timestamp to its second; clocks of two machines differ by as much."""
    disputed(world, people, **SOFT)
    people.contest()
    world.deliver()
    people.decide(25_000)
    world.deliver()
    over = OPENED + 2 * DAY
    world.now = over - timedelta(seconds=1.5)
    assert world.disputes.look("b1.d1", 1).next == "Settle"
    assert world.now == over


# --- the port ------------------------------------------------------------------------------------------------------


def test_an_execution_is_started_once_and_its_name_is_taken_after_it(world: WorkflowWorld, people: People) -> None:
    disputed(world, people)
    workflow = world.disputes.workflow
    assert workflow.start("b1.d1", 1) is True, "it runs with the same input: StartExecution answers the same execution"
    world.deliver()
    assert world.path() == [*BEGIN, "AskChef"]
    assert (workflow.is_running("b1.d1", 1), workflow.is_running("b1.d1", 2)) == (True, False)
    assert workflow.events("b1.d1", 2) is None
    people.concede()
    world.deliver()
    assert workflow.is_running("b1.d1", 1) is False
    assert workflow.start("b1.d1", 1) is False
    [token] = {payload["token"] for payload in world.inputs if "token" in payload}
    assert (workflow.succeed(token), workflow.succeed("no such token")) == (False, False)


# --- the timeline --------------------------------------------------------------------------------------------------


def test_the_timeline_tells_our_history_and_the_executions_in_order(world: WorkflowWorld, people: People) -> None:
    disputed(world, people)
    people.offer()
    world.deliver()
    people.accept()
    world.deliver()
    entries = queries.timeline(world.table, world.disputes.workflow, "b1.d1")
    instants = [entry["at"] for entry in entries]
    assert instants == sorted(instants)
    texts = [entry["text"] for entry in entries]
    assert texts[0] == "the customer disputes the order"
    for text in ("the workflow started", "entered AskChef", "the chef is asked to answer", "the chef offers a part"):
        assert text in texts
    assert {entry["source"] for entry in entries} == {"history", "workflow"}
    assert not [entry for entry in entries if world.inputs[1]["token"] in str(entry)]


# --- helpers -------------------------------------------------------------------------------------------------------


class TableIsDown(Exception):
    """Something that passes."""


def fail(world: WorkflowWorld, action: str, times: int) -> list[int]:
    """The next calls with this action fail."""
    left = list(range(times))

    def interrupt(payload: dict[str, Any]) -> None:
        if payload["action"] == action and left:
            left.pop()
            raise TableIsDown("try again")

    world.interrupt = interrupt
    return left


def lose_sending(world: WorkflowWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(token: str) -> bool:
        raise AwsFailure("Step Functions answered ServiceUnavailable")

    monkeypatch.setattr(world.disputes.workflow, "succeed", lost)
