"""What people and the workflow do to a dispute, over the twins: costs, races, lost sendings, lists, secrets."""

import itertools
import logging
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from duebook.adapters.memory import MemoryWorkflow
from duebook.domain.errors import AwsFailure, NotFound, Refused, Throttled, VersionConflict
from duebook.domain.policy import Policy
from duebook.handlers import dispute as handler
from duebook.service import queries
from duebook.service.bookings import Key
from duebook.service.ports import Page
from tests.unit.builders import COMPLETE, DAY, END, HOUR, MINUTE, RELEASE, SECOND
from tests.unit.disputes import CHEF, CUSTOMER, MEDIATOR, OPENING, OTHER_MEDIATOR, SOFT, People
from tests.unit.handlers.api_events import call
from tests.unit.world import Context, World

OPENED = END + HOUR

_tokens = itertools.count(1)


@pytest.fixture
def people(world: World) -> People:
    """A dispute of a paid booking whose event is over; the chef was not asked yet."""
    world.paid()
    world.travel_to(OPENED)
    found = People(world)
    found.open()
    world.deliver()
    return found


def waiting(people: People, stage: str = "ask", token: str | None = None, run: int = 1) -> str:
    """The workflow looks, and then waits with a token in that stage."""
    world = people.world
    token = token or f"AQCoAAAAKgAAAAMAAAAAAAAAA+/=={next(_tokens)}"
    world.workflow.waiting.add(token)
    world.disputes.look(people.dispute_id, run)
    world.disputes.notify(people.dispute_id, run, stage, token)
    return token


def between(world: World, act: Callable[[], Any]) -> None:
    """`act` comes first when the next transaction is about to be written."""
    write = world.table.write
    pending = [act]

    def outrun(*writes: Any) -> None:
        if pending:
            pending.pop()()
        write(*writes)

    world.table.write = outrun  # type: ignore[method-assign]


# --- what it costs -------------------------------------------------------------------------------------------------


def test_a_reply_is_one_transaction_one_read_of_the_token_and_one_send(people: People) -> None:
    token = waiting(people)
    world = people.world
    world.table.calls.clear()
    people.concede()
    assert world.table.calls == Counter(get=2, transact=1), "the booking is loaded, then the token is read"
    assert world.workflow.sent == [token]


def test_a_look_at_a_dispute_where_nothing_is_due_writes_nothing(people: People) -> None:
    waiting(people)
    people.world.table.calls.clear()
    assert people.world.disputes.look("b1.d1", 1).next == "AskChef"
    assert set(people.world.table.calls) == {"get"}


def test_a_notification_is_one_read_and_one_transaction(people: People) -> None:
    people.world.disputes.look("b1.d1", 1)
    people.world.table.calls.clear()
    people.world.disputes.notify("b1.d1", 1, "ask", "token")
    assert people.world.table.calls == Counter(get=1, transact=1)


# --- races ---------------------------------------------------------------------------------------------------------


def test_of_two_replies_at_once_the_first_stands_and_the_second_is_refused(people: People) -> None:
    token = waiting(people)
    between(people.world, people.concede)
    with pytest.raises(Refused) as refused:
        people.contest()
    assert refused.value.code == "already_replied"
    assert people.dispute.decided_by == "concession"
    assert people.world.workflow.sent == [token]


def test_of_two_equal_replies_at_once_one_applies_and_both_are_fine(people: People) -> None:
    waiting(people)
    between(people.world, people.concede)
    assert people.concede() is False
    people.world.deliver()
    assert people.told().count("replied") == 1


def test_an_answer_that_comes_while_the_notifier_stores_its_token_completes_the_state(people: People) -> None:
    """The answerer read the token before, or none; the notifier's transaction fails, and it looks again."""
    world = people.world
    world.disputes.look("b1.d1", 1)
    world.workflow.waiting.add("new")
    between(world, people.concede)
    assert world.disputes.notify("b1.d1", 1, "ask", "new") == "nobody is waited for: completed at once"
    assert world.workflow.sent == ["new"]
    assert world.workflow.waiting == set()


def test_a_notifier_that_finds_an_answer_completes_its_state_and_stores_nothing(people: People) -> None:
    world = people.world
    world.disputes.look("b1.d1", 1)
    people.contest()
    world.workflow.waiting.add("late")
    world.disputes.notify("b1.d1", 1, "remind", "late")
    assert world.workflow.sent == ["late"]
    assert world.table.row("b1", "token#b1.d1") is None
    assert "chef_reminded" not in people.told()


@pytest.mark.parametrize(("run", "stage"), [(2, "ask"), (1, "offer"), (1, "review")])
def test_a_notifier_of_another_run_or_stage_completes_its_state(people: People, run: int, stage: str) -> None:
    world = people.world
    world.disputes.look("b1.d1", 1)
    world.workflow.waiting.add("other")
    world.disputes.notify("b1.d1", run, stage, "other")
    assert world.workflow.sent == ["other"]


def test_a_notifier_after_the_deadline_completes_its_state(people: People) -> None:
    world = people.world
    world.disputes.look("b1.d1", 1)
    world.now = OPENED + DAY
    world.disputes.notify("b1.d1", 1, "remind", "late")
    assert world.workflow.sent == ["late"]
    assert "chef_reminded" not in people.told()


def test_the_reminder_is_told_in_the_transaction_that_stores_its_token_and_a_retry_tells_it_once(
    people: People,
) -> None:
    world = people.world
    waiting(people)
    world.now = OPENED + 12 * HOUR
    for token in ("second", "second again"):
        world.disputes.notify("b1.d1", 1, "remind", token)
    world.deliver()
    assert people.told() == ["opened", "chef_asked", "chef_reminded"]
    row = world.table.row("b1", "token#b1.d1")
    assert row is not None
    assert row["token"] == "second again"


def test_a_booking_that_keeps_changing_is_given_up_by_the_notifier_and_retried_by_the_workflow(people: People) -> None:
    world = people.world
    world.disputes.look("b1.d1", 1)
    write, jobs = world.table.write, itertools.count()

    def always_outrun(*writes: Any) -> None:
        if any(getattr(w, "item", {}).get("sk", "").startswith("token#") for w in writes):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(world.table, "write", write)
                world.put_job(f"own_{next(jobs)}", run_at=RELEASE)
        write(*writes)

    world.table.write = always_outrun  # type: ignore[method-assign]
    with pytest.raises(VersionConflict):
        world.disputes.notify("b1.d1", 1, "ask", "token")


def test_when_dispute_and_payout_come_at_once_exactly_one_wins_the_dispute_first(world: World) -> None:
    world.paid()
    world.travel_to(RELEASE - SECOND)
    people = People(world)
    world.schedules.requests.clear()

    def dispute() -> None:
        world.now = RELEASE - SECOND
        people.open()
        world.now = RELEASE

    world.now = RELEASE
    between(world, dispute)
    world.wake("release_payment")
    world.deliver()
    assert world.state() == "completed"
    assert people.dispute.is_open
    assert world.payments() == []


def test_when_dispute_and_payout_come_at_once_exactly_one_wins_the_payout_first(world: World) -> None:
    world.paid()
    world.travel_to(RELEASE - SECOND)
    world.schedules.requests.clear()
    people = People(world)

    def pay_out() -> None:
        world.now = RELEASE
        world.commands.redrive("b1", "release_payment", {}, None)

    between(world, pay_out)
    with pytest.raises(Refused) as refused:
        people.open()
    assert refused.value.code == "not_disputable"
    assert [row["kind"] for row in world.payments()] == ["payout"]
    assert people.engagement.dispute is None


@pytest.mark.parametrize(("left", "disputed"), [(SECOND, True), (-SECOND, False)])
def test_the_second_before_the_payout_is_decided_it_is_disputed_and_the_second_after_it_is_paid(
    world: World, left: timedelta, disputed: bool
) -> None:
    world.paid()
    world.travel_to(RELEASE - MINUTE)
    world.schedules.requests.clear()
    world.now = RELEASE - left
    people = People(world)
    if disputed:
        people.open()
    else:
        with pytest.raises(Refused):
            people.open()
    world.travel_to(RELEASE + HOUR)
    assert (world.payments() == []) is disputed
    assert world.state() == ("completed" if disputed else "paid_out")


# --- tokens that get lost ------------------------------------------------------------------------------------------


def test_an_answer_whose_token_cannot_be_sent_counts_and_its_repeat_sends_again(people: People) -> None:
    token = waiting(people)
    world = people.world
    world.workflow.fail.append(Throttled("Step Functions answered ThrottlingException"))
    with pytest.raises(Throttled):
        people.concede()
    assert people.dispute.status == "decided"
    assert people.concede() is False
    assert world.workflow.sent == [token]


def test_an_answer_before_any_token_is_stored_is_committed_alone(people: People) -> None:
    assert people.concede() is True
    assert people.world.workflow.sent == []


def test_a_token_that_is_used_up_is_no_error(people: People) -> None:
    token = waiting(people)
    people.world.workflow.waiting.clear()
    assert people.concede() is True
    assert people.world.workflow.sent == [token]


def test_the_second_wake_up_sends_the_token_of_an_execution_that_still_waits(people: People) -> None:
    token = waiting(people)
    world = people.world
    world.workflow.fail.append(AwsFailure("lost"))
    with pytest.raises(AwsFailure):
        people.concede()
    world.travel_to(OPENED + 15 * MINUTE)
    assert world.workflow.sent == [token]
    assert people.told()[-1] == "watched"


def test_the_second_wake_up_starts_the_next_run_when_the_execution_is_gone(people: People) -> None:
    world = people.world
    assert world.workflow.executions == {"b1_d1-1": "RUNNING"}
    world.workflow.executions["b1_d1-1"] = "FAILED"
    world.travel_to(OPENED + 15 * MINUTE)
    assert world.workflow.executions == {"b1_d1-1": "FAILED", "b1_d1-2": "RUNNING"}
    assert world.disputes.look("b1.d1", 1).next == "NotForThisRun"
    assert world.disputes.look("b1.d1", 2).next == "AskChef"


def test_executions_that_cannot_be_asked_about_are_asked_about_again(people: People) -> None:
    world = people.world
    world.workflow.fail += [AwsFailure("Step Functions answered InternalFailure")]
    world.travel_to(OPENED + HOUR)
    assert "watched" in people.told()


def test_an_execution_that_cannot_be_started_is_started_by_the_projection_queue(world: World) -> None:
    world.paid()
    world.travel_to(OPENED)
    world.workflow.fail.append(Throttled("Step Functions answered ThrottlingException"))
    People(world).open()
    world.travel_to(OPENED + 5 * MINUTE)
    assert world.workflow.executions == {"b1_d1-1": "RUNNING"}


# --- opening, again and at most once ---------------------------------------------------------------------------------


def test_opening_is_one_transaction_that_takes_the_payout_away_and_sets_the_watch(world: World) -> None:
    world.paid()
    world.travel_to(OPENED)
    world.table.calls.clear()
    People(world).open()
    assert world.table.calls["transact"] == 1
    assert set(world.jobs()) == {"watch_dispute"}
    world.deliver()
    assert set(world.planned()) == {"watch_dispute-b1"}
    row = queries.dispute(world.table, "b1.d1")
    assert row is not None
    assert (row["text"], row["claimed"], row["status"]) == (OPENING["text"], 40_000, "opened")


def test_opening_again_is_fine_and_a_key_makes_it_so_too(people: People) -> None:
    assert people.open() is False
    assert people.open(key=Key(value="k1", request_hash="h")) is False


def test_no_second_dispute_is_opened_while_or_after_the_first(people: People) -> None:
    with pytest.raises(Refused, match="disputed once") as refused:
        people.open(claimed_minor=1)
    assert refused.value.code == "dispute_open"
    people.withdraw()
    with pytest.raises(Refused) as refused:
        people.open(claimed_minor=1)
    assert refused.value.code == "dispute_over"


def test_a_dispute_that_is_not_there_answers_not_found(world: World) -> None:
    world.paid()
    for number in ("b1.d1", "b1.d2", "unknown.d1"):
        with pytest.raises(NotFound):
            world.disputes.look(number, 1)
        assert call("GET", f"/disputes/{number}").status == 404
        assert call("GET", f"/disputes/{number}/history").status == 404


def test_withdrawn_the_job_rows_are_as_if_it_had_never_been_disputed(world: World) -> None:
    world.paid()
    world.paid("b2")
    world.travel_to(OPENED)
    people = People(world)
    people.open()
    world.deliver()
    people.withdraw()
    world.deliver()
    facts = [
        {name: (row["run_at"], row["status"], row["lane"]) for name, row in world.jobs(booking_id).items()}
        for booking_id in ("b1", "b2")
    ]
    assert facts[0] == facts[1]
    assert world.planned()["release_payment-b1"] == RELEASE
    assert world.planned()["complete_order-b1"] == COMPLETE


def test_a_dispute_keeps_the_rules_its_booking_was_made_with(people: People) -> None:
    people.world.commands.default_policy = Policy(reply_within=60, review_within=60, silence=Policy().silence)
    people.world.disputes.look("b1.d1", 1)
    assert people.dispute.deadline == OPENED + DAY


# --- lists ---------------------------------------------------------------------------------------------------------


def test_mediators_are_shown_what_waits_by_kind_the_longest_first_page_by_page(world: World) -> None:
    for number in range(5):
        world.paid(f"b{number}")
    world.travel_to(OPENED)
    for number in range(5):
        world.now += MINUTE
        people = People(world, f"b{number}")
        people.open()
        if number > 1:
            people.contest()
    assert ids(world, "awaiting_chef") == ["b0.d1", "b1.d1"]
    assert ids(world, "in_review", limit=2) == ["b2.d1", "b3.d1", "b4.d1"]
    People(world, "b3").decide()
    assert ids(world, "in_review") == ["b2.d1", "b4.d1"]
    assert ids(world, "needs_attention") == []


def test_what_was_decided_while_the_index_lagged_is_not_shown_as_waiting(people: People) -> None:
    world = people.world
    people.contest()
    lagging = Page(items=queries.attention(world.table, "in_review").items, after=None, scanned=1)
    people.decide()
    world.table.query_index = lambda *_, **__: lagging  # type: ignore[method-assign]
    assert queries.disputes(world.table, "in_review").items == []


def ids(world: World, kind: str, limit: int = 50) -> list[str]:
    found, cursor = [], None
    for _ in range(10):
        query = {"kind": kind, "limit": str(limit)} | ({"cursor": cursor} if cursor else {})
        page = call("GET", "/disputes", query=query).body
        found += [dispute["dispute_id"] for dispute in page["disputes"]]
        cursor = page["cursor"]
        if cursor is None:
            return found
    raise AssertionError("the pages never end")


# --- the API ---------------------------------------------------------------------------------------------------------


def test_the_api_from_the_opening_to_the_settlement(world: World) -> None:
    world.paid(policy=SOFT)
    world.travel_to(OPENED)
    opened = call("POST", "/bookings/b1/disputes", OPENING | {"evidence": ["photo-1"]})
    assert (opened.status, opened.body["applied"], opened.body["status"]) == (200, True, "opened")
    assert opened.body["claimed_minor"] == 40_000
    assert opened.body["evidence"] == ["photo-1"]
    world.disputes.look("b1.d1", 1)
    offered = call("POST", "/disputes/b1.d1/reply", {"answer": "offer", "offer_minor": 9_000, "actor": CHEF})
    assert (offered.body["status"], offered.body["offer_minor"]) == ("awaiting_customer", 9_000)
    refused = call("POST", "/disputes/b1.d1/offer-answer", {"answer": "refuse", "actor": CUSTOMER})
    assert refused.body["status"] == "in_review"
    decision = {"refund_minor": 20_000, "reason": "half of it", "actor": MEDIATOR}
    assert call("POST", "/disputes/b1.d1/decision", decision).body["decision_reason"] == "half of it"
    appealed = call("POST", "/disputes/b1.d1/appeal", {"text": "too little", "actor": CUSTOMER})
    assert (appealed.body["status"], appealed.body["appealed_by"]) == ("in_appeal", "customer")
    final = decision | {"refund_minor": 30_000, "actor": OTHER_MEDIATOR}
    assert call("POST", "/disputes/b1.d1/decision", final).body["refund_minor"] == 30_000
    world.now += 2 * DAY
    assert world.disputes.look("b1.d1", 1).next == "Settle"
    world.disputes.settle("b1.d1")
    shown = call("GET", "/disputes/b1.d1").body
    assert (shown["status"], shown["refund_minor"], shown["console_url"]) == ("settled", 30_000, "memory:b1_d1-1")
    booking = call("GET", "/bookings/b1").body
    assert booking["dispute"] == {"dispute_id": "b1.d1", "status": "settled", "deadline": None}
    texts = [entry["text"] for entry in call("GET", "/disputes/b1.d1/history").body["history"]]
    assert "the customer appeals the decision" in texts


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("reply", {"answer": "concede", "actor": CUSTOMER}),
        ("reply", {"answer": "concede", "actor": {"role": "chef", "id": "c-1"}}),
        ("withdraw", {"actor": {"role": "customer", "id": "c-2"}}),
        ("decision", {"refund_minor": 1, "reason": "r", "actor": CHEF}),
    ],
)
def test_a_forged_actor_is_refused_and_changes_nothing(people: People, path: str, body: Any) -> None:
    if path == "decision":
        people.contest()
    before = people.world.snapshot()
    answer = call("POST", f"/disputes/b1.d1/{path}", body)
    assert (answer.status, answer.body["error"]["code"]) == (409, "wrong_actor")
    assert people.world.snapshot() == before


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/bookings/b1/disputes", OPENING | {"claimed_minor": 0}, "claimed_minor"),
        ("/bookings/b1/disputes", OPENING | {"claimed_minor": 100_001}, "claimed_minor"),
        ("/bookings/b1/disputes", OPENING | {"evidence": ["x"] * 21}, "evidence"),
        ("/bookings/b1/disputes", {k: v for k, v in OPENING.items() if k != "actor"}, "actor"),
        ("/bookings/b1/disputes", OPENING | {"actor": {"role": "customer"}}, "actor.id"),
        ("/disputes/b1.d1/reply", {"answer": "offer", "actor": CHEF}, "body"),
        ("/disputes/b1.d1/reply", {"answer": "contest", "actor": CHEF}, "body"),
        ("/disputes/b1.d1/reply", {"answer": "concede", "offer_minor": 5, "actor": CHEF}, "body"),
        ("/disputes/b1.d1/reply", {"answer": "perhaps", "actor": CHEF}, "answer"),
        ("/disputes/b1.d1/decision", {"refund_minor": -1, "reason": "r", "actor": MEDIATOR}, "refund_minor"),
    ],
)
def test_what_is_no_request_is_refused_by_its_field(world: World, path: str, body: Any, field: str) -> None:
    world.paid()
    if path.startswith("/disputes"):
        People(world).open()
    answer = call("POST", path, body)
    assert (answer.status, answer.body["error"]["field"]) == (422, field)


def test_move_and_cancel_answer_that_a_dispute_is_open(people: People) -> None:
    moved = {"event_start": "2027-01-01T18:00:00+01:00", "event_end": "2027-01-01T20:00:00+01:00"}
    for path, body in (("move", moved), ("cancel", {"actor": {"role": "operator", "id": "op-1"}})):
        answer = call("POST", f"/bookings/b1/{path}", body)
        assert (answer.status, answer.body["error"]["code"]) == (409, "dispute_open")


def test_a_timeline_that_aws_dropped_still_tells_our_history(people: People) -> None:
    world = people.world
    world.disputes.look("b1.d1", 1)
    world.workflow.executions.clear()
    told = call("GET", "/disputes/b1.d1/history").body
    assert [entry["text"] for entry in told["history"]] == [
        "the customer disputes the order",
        "the chef is asked to answer",
        "the execution of run 1: AWS has no such execution, or keeps it no more (90 days after its end)",
    ]
    assert told["console_url"] == "memory:b1_d1-1"
    world.workflow.fail.append(Throttled("Step Functions answered ThrottlingException"))
    assert (
        call("GET", "/disputes/b1.d1/history").body["history"][-1]["text"].startswith("the execution of run 1: AWS did")
    )


# --- the function that the workflow calls --------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:No application metrics")
def test_the_function_takes_inputs_of_older_and_newer_definitions(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duebook.wiring.dispute_steps", lambda: people.world.disputes)
    older = {"action": "look", "dispute_id": "b1.d1", "claim": 40_000}
    newer = {"action": "look", "dispute_id": "b1.d1", "run": 1, "attempt": 3, "reason": {"nested": True}}
    for event in (older, newer):
        answer = handler.handler(event, Context())
        assert set(answer) == {"next", "until", "deadline"}
        assert answer["next"] == "AskChef"
        assert all(isinstance(value, str) for value in answer.values()), "an undefined field ends an execution"
    with pytest.raises(ValueError, match="unknown action 'mediate'"):
        handler.handler({"action": "mediate", "dispute_id": "b1.d1", "run": 1}, Context())


# --- the secret ----------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:No application metrics")
def test_the_token_is_in_its_own_row_and_nowhere_else(
    people: People,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    world, secret = people.world, "AQCoSECRETAAAAKgAAAAM+/=="
    monkeypatch.setattr("duebook.wiring.dispute_steps", lambda: world.disputes)
    answers: list[Any] = [handler.handler({"action": "look", "dispute_id": "b1.d1", "run": 1}, Context())]
    for stage in ("ask", "remind"):
        event = {"action": "notify", "stage": stage, "dispute_id": "b1.d1", "run": 1, "token": secret}
        answers.append(handler.handler(event, Context()))
    world.workflow.fail.append(AwsFailure("Step Functions answered InternalFailure"))
    reply = {"answer": "offer", "offer_minor": 9_000, "actor": CHEF}
    failed = call("POST", "/disputes/b1.d1/reply", reply)
    assert failed.status == 503
    answers.append(failed.body)
    for method, path, body in (
        ("POST", "/disputes/b1.d1/reply", reply),
        ("GET", "/disputes/b1.d1", None),
        ("GET", "/disputes/b1.d1/history", None),
        ("GET", "/bookings/b1", None),
        ("GET", "/bookings/b1/history", None),
        ("GET", "/disputes", None),
    ):
        query = {"kind": "awaiting_chef"} if path == "/disputes" else None
        answers.append(call(method, path, body, **({"query": query} if query else {})).body)
    world.travel_to(OPENED + 3 * DAY)
    logs = [str(vars(record)) for record in caplog.records]
    captured = capfd.readouterr()
    for place in (*map(str, answers), *logs, captured.out, captured.err, str(world.bus.events)):
        assert secret not in place
    assert [row["sk"] for row in world.table.rows() if secret in str(row)] == ["token#b1.d1"]
    assert isinstance(world.workflow, MemoryWorkflow)
    assert secret in world.workflow.sent, "it was in use"
