"""What goes wrong between the functions, and that it loses nothing."""

from datetime import timedelta
from typing import Any

import pytest

from duebook.adapters.memory import conflict
from duebook.domain.errors import AwsFailure, NotFound, Throttled
from duebook.handlers import lifecycle_worker, payments_worker, projector, publisher, recorder
from duebook.service import rows
from duebook.service.ports import Delete, Put, Update, Write
from duebook.service.record import DEAD_AFTER
from tests.unit.builders import AUGUST, COMPLETE, DAY, END, HOUR, MINUTE, RELEASE
from tests.unit.world import Context, World


def broken(*_: Any) -> Any:
    raise RuntimeError("a bad deploy")


# --- the projector -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [conflict(), Throttled("slow down"), AwsFailure("HTTP 503")])
def test_a_projection_that_fails_goes_to_its_queue_and_is_made_right_there(world: World, failure: Exception) -> None:
    world.book()
    world.schedules.fail = [failure]
    assert world.stream("projector", projector.handler) == len(world.table.stream)
    assert len(world.queues.projection.messages) == 1
    assert world.planned() == {}
    world.deliver()
    assert world.planned() == {"reject_request-b1": AUGUST + 24 * HOUR}


def test_a_projection_that_fails_again_comes_again_after_its_visibility(world: World) -> None:
    world.book()
    world.schedules.fail = [conflict() for _ in range(3)]
    world.deliver()
    assert world.planned() == {}
    world.travel_to(AUGUST + 10 * MINUTE)
    assert world.planned() == {"reject_request-b1": AUGUST + 24 * HOUR}


def test_bookkeeping_on_a_job_row_never_touches_its_schedule(world: World) -> None:
    world.paid()
    calls = sum(world.schedules.calls.values())
    row = world.jobs()["close_event"]
    world.table.write(rows.job_wake_later(row, END + HOUR, reason="tried in vain", attempts=3))
    world.deliver()
    assert sum(world.schedules.calls.values()) == calls


def test_stream_records_twice_late_and_backwards_end_in_the_same_place(world: World) -> None:
    world.paid()
    world.put_job("menu", run_at=END - 30 * DAY)
    world.commands.move("b1", {"event_start": "2026-12-12T18:00:00+01:00"}, None)
    world.commands.delete_job("b1", "menu", None)
    world.deliver()
    wanted = world.planned()
    records = list(world.table.stream)
    for story in (records[::-1], records, records[::-1] + records[::2]):
        world.schedules.requests.pop("close_event-b1", None)
        assert projector.handler({"Records": story}, Context()) == {"batchItemFailures": []}
        assert world.planned() == wanted


def test_a_row_that_changes_while_its_schedule_is_written_is_looked_at_again(world: World) -> None:
    world.put_job("menu", run_at=END)
    create = world.schedules.create

    def outrun(request: Any) -> bool:
        made = create(request)
        world.schedules.create = create  # type: ignore[method-assign]
        world.put_job("menu", run_at=END + DAY)
        return made

    world.schedules.create = outrun  # type: ignore[method-assign]
    assert world.stream("projector", projector.handler) > 0
    assert world.planned() == {"menu-b1": END + DAY}


def test_a_row_that_never_comes_to_rest_is_put_off_instead_of_looked_at_for_ever(world: World) -> None:
    world.put_job("menu", run_at=END)
    replace, moves = world.schedules.replace, []

    def outrun(request: Any) -> bool:
        moves.append(request)
        world.put_job("menu", run_at=END + len(moves) * DAY)
        return replace(request)

    world.schedules.replace = outrun  # type: ignore[method-assign]
    world.queues.project("b1", "menu")
    world.drain(world.queues.projection, projector.handler)
    assert len(moves) == 4
    assert len(world.queues.projection.messages) == 1
    world.schedules.replace = replace  # type: ignore[method-assign]
    world.travel_to(AUGUST + 10 * MINUTE)
    assert world.planned() == {"menu-b1": END + 4 * DAY}


# --- the worker and the recorder -----------------------------------------------------------------------------------


def test_a_bad_deploy_of_an_hour_kills_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.paid()
    world.travel_to(END - MINUTE)
    with monkeypatch.context() as deploy:
        deploy.setattr(lifecycle_worker, "wake", broken)
        world.travel_sweeping(END + HOUR)
        row = world.jobs()["close_event"]
        assert (row["status"], row["generation"]) == ("pending", 3)
        assert row["attempts"] >= 2
        assert "every attempt of a round failed (lifecycle-dead)" in row["reason"]
        assert world.state() == "paid"
    world.travel_sweeping(COMPLETE)
    assert world.state() == "completed"
    assert world.attention() == []


def test_a_job_dies_only_after_rounds_that_span_more_than_a_day_and_a_person_brings_it_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put_job("menu", run_at=END, payload={"n": 1})
    world.travel_to(END)
    with monkeypatch.context() as deploy:
        deploy.setattr(lifecycle_worker, "wake", broken)
        world.put_job("menu", run_at=END + MINUTE, payload={"n": 2})
        world.travel_sweeping(END + DEAD_AFTER, every=15 * MINUTE)
        row = world.jobs()["menu"]
        assert row["status"] == "pending"
        assert row["attempts"] > 5
        world.travel_sweeping(END + DEAD_AFTER + 4 * HOUR, every=15 * MINUTE)
    (dead,) = world.attention()
    assert (dead["booking_id"], dead["job"], dead["status"]) == ("b1", "menu", "dead")
    assert "due_pk" not in world.jobs()["menu"]
    assert world.sweep()["woken"] == 0
    done = world.commands.redrive("b1", "menu", {"reason": "fixed"}, None)
    assert (done["job"], done["status"], done["run_at"]) == ("menu", "done", row["run_at"])
    world.deliver()
    assert world.attention() == []
    assert world.events()[-1]["data"]["payload"] == {"n": 2}


def test_a_dead_job_that_is_not_due_again_is_redriven_under_a_new_generation(world: World) -> None:
    world.put_job("menu", run_at=END)
    world.table.write(rows.job_dead(world.jobs()["menu"], AUGUST, "gave up", attempts=9))
    again = world.commands.redrive("b1", "menu", {}, None)
    assert (again["status"], again["attempts"], again["generation"]) == ("pending", 0, 2)
    assert world.attention() == []
    world.travel_to(END)
    assert world.types()[-2:] == ["job.redriven", "job.due"]


@pytest.mark.parametrize("job", ["menu", "close_event", "pay_1", "pay_99"])
def test_a_job_that_does_not_exist_cannot_be_redriven(world: World, job: str) -> None:
    world.book()
    with pytest.raises(NotFound, match="no pending or dead job"):
        world.commands.redrive("b1", job, {}, None)


def test_a_job_whose_turn_came_otherwise_is_no_longer_dead(world: World) -> None:
    """The row is dead, but the booking moved on with the next wake-up or command, which applies all that is due."""
    world.paid()
    world.table.write(rows.job_dead(world.jobs()["close_event"], AUGUST, "gave up"))
    assert len(world.attention()) == 1
    world.travel_to(COMPLETE)
    assert world.state() == "completed"
    assert world.attention() == []


@pytest.mark.parametrize("change", ["moved", "done", "dead"])
def test_the_recorder_ignores_the_failure_of_a_generation_that_is_over(world: World, change: str) -> None:
    world.put_job("menu", run_at=END)
    generation = world.jobs()["menu"]["generation"]
    if change == "moved":
        world.put_job("menu", run_at=END + DAY)
    elif change == "done":
        world.commands.delete_job("b1", "menu", None)
    else:
        world.table.write(rows.job_dead(world.jobs()["menu"], AUGUST, "gave up"))
    before = world.snapshot()
    dead = world.queues.dead["lifecycle"]
    dead.send(f'{{"booking_id":"b1","job":"menu","generation":{generation}}}')
    world.drain(dead, recorder.handler)
    assert world.snapshot() == before
    assert dead.messages == []


def test_a_permanent_error_kills_its_job_at_once_with_its_reason(world: World) -> None:
    world.paid()
    world.travel_to(RELEASE - MINUTE)
    world.schedules.requests.clear()
    world.now = RELEASE
    world.wake("release_payment")
    world.drain(world.queues.lanes["lifecycle"], lifecycle_worker.handler)
    world.table.write(Delete(pk="b1", sk="payment#b1.p1"))
    world.deliver()
    (dead,) = world.attention()
    assert (dead["job"], dead["reason"]) == ("pay_1", "pay_1 is pending but its payment is missing")
    assert world.queues.lanes["payments"].messages == []


POISON = [
    "",
    "not json",
    "[]",
    "null",
    "{}",
    '{"booking_id":"b1","job":"close_event"}',
    '{"booking_id":"b1","job":"close_event","generation":"3"}',
    '{"booking_id":"b1","job":"close_event","generation":true}',
    '{"booking_id":"b1","job":"close_event","generation":3.0}',
    '{"booking_id":7,"job":"close_event","generation":3}',
    '{"booking_id":"","job":"close_event","generation":3}',
    '{"booking_id":"#sweeper","job":"close_event","generation":3}',
    '{"booking_id":"b1","job":"","generation":3}',
    '{"booking_id":"b1","job":"Close Event","generation":3}',
    '{"booking_id":"b1","job":"close_event","generation":' + "9" * 50 + "}",
    "[" * 100_000,
]


@pytest.mark.parametrize("body", POISON, ids=lambda body: body[:60] or "empty")
def test_a_poison_message_never_holds_up_its_neighbours_and_is_kept_for_a_person(world: World, body: str) -> None:
    world.paid("b1")
    world.paid("b2")
    world.schedules.requests.clear()
    world.travel_to(END)
    world.wake("close_event", "b1")
    world.queues.lanes["lifecycle"].send(body)
    world.wake("close_event", "b2")
    world.drain(world.queues.lanes["lifecycle"], lifecycle_worker.handler)
    assert (world.state("b1"), world.state("b2")) == ("event_closed", "event_closed")
    world.travel_to(END + HOUR)
    (kept,) = world.attention()
    assert kept["reason"].startswith("not a wake-up")
    whole = world.table.get(kept["pk"], kept["sk"])
    assert whole is not None
    assert whole["body"] == body[:4096]
    assert whole["queue"] == "lifecycle-dead"
    assert [message.body for queue in world.queues.dead.values() for message in queue.messages] == []


@pytest.mark.parametrize("job", ["close_event", "menu", "pay_1", "no_such_thing", "watch_dispute"])
@pytest.mark.parametrize("booking_id", ["b1", "nobody"])
def test_a_wake_up_for_what_does_not_exist_is_ignored(world: World, job: str, booking_id: str) -> None:
    world.put_job("other", run_at=END)
    world.deliver()
    before = world.snapshot()
    world.wake(job, booking_id)
    world.deliver()
    assert world.snapshot() == before
    assert world.queues.lanes["lifecycle"].messages == world.queues.lanes["payments"].messages == []


def test_a_worker_that_dies_after_its_commit_has_lost_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message comes again after its visibility: it finds the step taken."""
    world.paid()
    world.travel_to(END - MINUTE)
    with monkeypatch.context() as killed:
        killed.setattr(lifecycle_worker, "work", lambda *arguments: _killed(killed, *arguments))
        world.travel_to(END)
        assert world.state() == "event_closed"
        before = world.snapshot()
    world.travel_to(END + HOUR)
    assert world.snapshot() == before
    assert world.queues.lanes["lifecycle"].messages == []


def _killed(patch: pytest.MonkeyPatch, event: Any, *more: Any) -> Any:
    from duebook.handlers.worker import work

    work(event, *more)
    return {"batchItemFailures": [{"itemIdentifier": record["messageId"]} for record in event["Records"]]}


# --- payments ------------------------------------------------------------------------------------------------------


def test_a_worker_killed_in_the_middle_of_a_transfer_moves_the_money_once(world: World) -> None:
    world.paid()
    world.travel_to(RELEASE - MINUTE)
    send = world.provider.send

    def killed(*arguments: Any) -> Any:
        send(*arguments)
        world.provider.send = send  # type: ignore[method-assign]
        raise KeyboardInterrupt

    world.provider.send = killed  # type: ignore[assignment,method-assign]
    with pytest.raises(KeyboardInterrupt):
        world.travel_to(RELEASE)
    assert world.payments()[0]["status"] == "unknown"
    world.travel_to(RELEASE + HOUR)
    assert world.state() == "paid_out"
    assert len(world.transfers("b1.p1")) == 1
    assert world.payments()[0]["attempt"] == 2


def test_silent_hours_between_the_claim_and_the_answer_end_in_a_look_up_and_no_second_transfer(world: World) -> None:
    """Killed after the transfer, and nothing runs for two days: the key may be forgotten, the reference is not."""
    world.paid()
    world.travel_to(RELEASE - MINUTE)
    send = world.provider.send

    def killed(*arguments: Any) -> Any:
        send(*arguments)
        world.provider.send = send  # type: ignore[method-assign]
        raise KeyboardInterrupt

    world.provider.send = killed  # type: ignore[assignment,method-assign]
    with pytest.raises(KeyboardInterrupt):
        world.travel_to(RELEASE)
    world.schedules.requests.clear()
    for queue in (*world.queues.lanes.values(), *world.queues.dead.values()):
        queue.messages.clear()
    world.skip_stream("projector")
    world.now = RELEASE + 2 * DAY
    world.sweep()
    assert world.state() == "paid_out"
    assert len(world.transfers("b1.p1")) == 1
    assert world.payments()[0]["epoch"] == 1


def test_the_marketplace_is_asked_by_event_and_asked_again_until_it_answers(world: World) -> None:
    world.use_external_payments()
    world.paid()
    world.travel_to(RELEASE + 30 * HOUR)
    asked = [event for event in world.events() if event["type"] == "payment.requested"]
    assert [event["at"] for event in asked] == [f"2026-11-{day}T{hour}:00:00.000Z" for day, hour in
                                               ((16, "00"), (16, "12"), (17, "00"))]  # fmt: skip
    assert {event["data"]["payment_id"] for event in asked} == {"b1.p1"}
    assert asked[0]["data"] == {
        "payment_id": "b1.p1",
        "kind": "payout",
        "amount_minor": 90_000,
        "currency": "EUR",
        "attempt": 1,
        "key": "b1.p1.e1",
        "chef_id": "ch-1",
        "charge_ref": "ch_1",
    }
    assert world.state() == "paying"


def test_a_payout_that_nobody_answers_waits_for_a_person_after_its_attempts(world: World) -> None:
    world.use_external_payments()
    world.paid()
    world.travel_to(RELEASE + 20 * DAY)
    assert world.types().count("payment.requested") == 20
    (waiting,) = world.attention(rows.NEEDS_ATTENTION)
    assert waiting["payment_id"] == "b1.p1"
    world.commands.redrive("b1", "pay_1", {}, None)
    world.deliver()
    assert world.types()[-2:] == ["payment.retried", "payment.requested"]
    assert world.attention(rows.NEEDS_ATTENTION) == []


def test_slow_payments_do_not_hold_up_deadlines(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes have their own queue: the payments lane stands still, the lifecycle goes on."""
    world.paid()
    monkeypatch.setattr(payments_worker, "wake_payment", broken)
    world.travel_to(RELEASE)
    world.paid("b2", event_start="2026-12-12T18:00:00+01:00", event_end="2026-12-12T22:00:00+01:00")
    world.travel_sweeping(RELEASE + 2 * HOUR)
    assert world.state() == "paying"
    world.commands.cancel("b2", {"actor": {"role": "chef"}}, None)
    assert world.state("b2") == "cancelled"


# --- events out ----------------------------------------------------------------------------------------------------


def test_an_event_that_the_bus_refuses_comes_again_from_the_stream(world: World) -> None:
    world.book()
    world.bus.fail = ["ThrottlingException"]
    assert world.stream("publisher", publisher.handler) == 0 or world.types() == []
    world.deliver()
    assert world.types() == ["booking.requested"]


def test_an_event_that_the_stream_lost_is_published_by_the_sweeper_from_the_outbox(world: World) -> None:
    world.book()
    world.skip_stream("publisher")
    world.now += 3 * MINUTE
    assert len(world.attention(rows.OUTBOX)) == 1
    assert world.sweep()["published"] == 1
    assert world.types() == ["booking.requested"]
    assert world.attention(rows.OUTBOX) == []
    assert world.sweep()["published"] == 0


def test_an_event_that_the_bus_keeps_refusing_stays_in_the_outbox_ever_more_seldom_and_is_never_lost(
    world: World,
) -> None:
    world.book()
    world.skip_stream("publisher")
    world.bus.fail = ["InternalFailure"] * 8
    tries = 0
    for _ in range(24 * 6):
        world.now += 10 * MINUTE
        found = world.sweep()
        tries += found["published"] + found["unpublished"]
    assert tries == 9
    assert world.types()[0] == "booking.requested"
    assert world.attention(rows.OUTBOX) == []


def test_an_event_that_was_published_but_not_marked_is_the_same_event_again(world: World) -> None:
    world.book()
    world.stream("publisher", publisher.handler)
    (row,) = world.history()
    world.table.write(
        Update(
            pk="b1",
            sk=row["sk"],
            set=rows.attention_keys(rows.OUTBOX, "b1#0000000001", AUGUST),
            remove=("published_at",),
        )
    )
    world.now += 3 * MINUTE
    world.sweep()
    first, second = world.bus.events[:2]
    assert first["detail"] == second["detail"]


def test_one_refused_event_does_not_hold_up_the_outbox(world: World) -> None:
    for number in range(5):
        world.book(f"b{number}")
    world.skip_stream("publisher")
    world.now += 3 * MINUTE
    world.bus.fail = ["InternalFailure"]
    found = world.sweep()
    assert (found["published"], found["unpublished"]) == (4, 1)


# --- the sweeper ---------------------------------------------------------------------------------------------------


def test_what_was_overdue_is_left_in_peace_for_a_backoff_and_then_woken_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.paid()
    world.schedules.requests.clear()
    world.travel_to(END + 3 * MINUTE)
    monkeypatch.setattr(lifecycle_worker, "handler", lambda event, context: {"batchItemFailures": []})
    woken = []
    for _ in range(60):
        woken.append(world.sweep()["woken"])
        world.now += MINUTE
    assert sum(woken) == 4
    assert woken[0] == 1
    assert world.jobs()["close_event"]["generation"] == 3


def test_a_sweep_that_runs_out_of_time_says_so_and_the_next_one_goes_on(world: World) -> None:
    world.paid()
    world.schedules.requests.clear()
    world.travel_to(RELEASE + DAY)
    assert world.sweep(left_ms=100) == {
        "woken": 0,
        "oldest_seconds": 0,
        "published": 0,
        "unpublished": 0,
        "complete": False,
    }
    found = world.sweep()
    assert found["complete"]
    assert found["woken"] == 3
    assert found["oldest_seconds"] == (RELEASE + DAY - END).total_seconds()
    assert world.state() == "paid_out"


def test_a_sweeper_that_stood_still_for_a_month_goes_on_where_it_was(world: World) -> None:
    world.paid()
    world.sweep()
    world.schedules.requests.clear()
    world.travel_to(RELEASE + 40 * DAY)
    assert world.sweep()["woken"] == 3
    assert world.state() == "paid_out"


def test_a_first_sweep_looks_back_two_weeks(world: World) -> None:
    world.paid()
    world.schedules.requests.clear()
    world.travel_to(END + 13 * DAY)
    assert world.sweep()["woken"] == 3


def test_a_swept_row_that_moves_meanwhile_is_left_to_its_new_generation(world: World) -> None:
    world.put_job("menu", run_at=END)
    world.deliver()
    world.schedules.requests.clear()
    world.travel_to(END + 5 * MINUTE)
    query = world.table.query_index

    def outrun(*arguments: Any, **more: Any) -> Any:
        page = query(*arguments, **more)
        if page.items and arguments[0] == "due":
            world.table.query_index = query  # type: ignore[method-assign]
            world.put_job("other", run_at=END + DAY)
        return page

    world.table.query_index = outrun  # type: ignore[method-assign]
    world.sweep()
    assert world.types().count("job.due") == 1
    assert set(world.jobs()) == {"other"}


def test_nothing_is_ever_so_late_that_it_is_forgotten(world: World) -> None:
    """Every schedule, every message and every stream record is lost, and the booking still comes to its end."""
    world.book()
    world.commands.accept("b1", {}, None)
    world.commands.pay("b1", {"captured_minor": 100_000, "charge_ref": "ch_1"}, None)
    world.skip_stream("projector")
    world.skip_stream("publisher")
    world.sweep()
    world.now = RELEASE + 300 * DAY
    world.sweep()
    world.now += timedelta(minutes=10)
    world.sweep()
    assert world.state() == "paid_out"
    assert len(world.types()) == 8


def test_a_claim_that_another_change_of_the_booking_outran_is_made_anew_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kind: a refund and a payout decided together are claimed at the same time; the one that lost the booking's row
    was left to the sweeper, minutes later."""
    world.paid()
    write = world.table.write
    outrun: list[bool] = []

    def outran(*writes: Write) -> None:
        if any(isinstance(one, Put) and one.item.get("type") == "payment.attempted" for one in writes) and not outrun:
            outrun.append(True)
            world.put_job("meanwhile", run_at=RELEASE, keep_on_cancel=True)
        write(*writes)

    monkeypatch.setattr(world.table, "write", outran)
    world.cancel(refund_minor=40_000)
    world.deliver()
    assert outrun
    assert [(row["amount"], row["status"], row["attempt"]) for row in world.payments()] == [
        (40_000, "done", 1),
        (54_000, "done", 1),
    ]
