"""Whole bookings, August to December, through every function: on time, moved, cancelled, doubled, lost."""

from datetime import datetime, timedelta

import pytest

from duebook.handlers import lifecycle_worker, payments_worker
from tests.unit.builders import AUGUST, COMPLETE, DAY, END, HOUR, MINUTE, RELEASE, START
from tests.unit.world import World, lateness

WHOLE = [
    "booking.requested",
    "booking.accepted",
    "booking.paid",
    "booking.event_closed",
    "booking.completed",
    "booking.payout_decided",
    "payment.attempted",
    "booking.paid_out",
]


def test_a_wedding_booked_in_august_is_closed_completed_and_paid_out_in_november(world: World) -> None:
    world.book()
    world.deliver()
    assert world.planned() == {"reject_request-b1": AUGUST + 24 * HOUR}
    world.commands.accept("b1", {"actor": {"role": "chef", "id": "ch-1"}}, None)
    world.deliver()
    assert world.planned() == {"cancel_unpaid-b1": AUGUST + 12 * HOUR}
    world.commands.pay("b1", {"captured_minor": 100_000, "charge_ref": "ch_1"}, None)
    world.deliver()
    assert world.planned() == {
        "close_event-b1": END,
        "complete_order-b1": COMPLETE,
        "release_payment-b1": RELEASE,
    }
    world.travel_to(RELEASE + HOUR)
    assert world.types() == WHOLE
    assert lateness(world) == timedelta()
    assert world.state() == "paid_out"
    assert [(row["amount"], row["currency"]) for row in world.transfers("b1.p1")] == [(90_000, "EUR")]
    assert (world.jobs(), world.planned()) == ({}, {})
    assert [event["version"] for event in world.events()] == list(range(1, 9))


def test_a_schedule_is_rounded_up_to_a_minute_and_the_step_is_due_at_its_exact_instant(world: World) -> None:
    world.now = AUGUST + timedelta(seconds=17)
    world.book()
    world.deliver()
    assert world.planned() == {"reject_request-b1": AUGUST + 24 * HOUR + MINUTE}
    world.travel_to(AUGUST + 24 * HOUR + 5 * MINUTE)
    assert world.state() == "rejected"
    assert lateness(world) == timedelta(seconds=43)


def test_a_chef_who_is_silent_and_a_customer_who_does_not_pay_are_dealt_with_on_time(world: World) -> None:
    world.book("silent")
    world.book("unpaid")
    world.commands.accept("unpaid", {}, None)
    world.travel_to(AUGUST + 2 * DAY)
    assert (world.state("silent"), world.state("unpaid")) == ("rejected", "expired")
    assert (lateness(world, "silent"), lateness(world, "unpaid")) == (timedelta(), timedelta())
    assert world.planned() == {}


def test_moving_the_event_moves_every_schedule_and_leaves_no_second_one(world: World) -> None:
    world.paid()
    world.put_job("menu", anchor="event_start", offset=-7 * 86_400, payload={"template": "menu"})
    world.deliver()
    assert world.planned()["menu-b1"] == START - 7 * DAY
    world.commands.move(
        "b1", {"event_start": "2026-12-12T18:00:00+01:00", "event_end": "2026-12-12T22:00:00+01:00"}, None
    )
    world.deliver()
    month = 28 * DAY
    assert world.planned() == {
        "close_event-b1": END + month,
        "complete_order-b1": COMPLETE + month,
        "menu-b1": START + month - 7 * DAY,
        "release_payment-b1": RELEASE + month,
    }
    world.travel_to(RELEASE + DAY)
    assert world.state() == "paid"
    world.travel_to(RELEASE + month + HOUR)
    assert world.state() == "paid_out"
    due = [event for event in world.events() if event["type"] == "job.due"]
    assert [event["data"]["payload"] for event in due] == [{"template": "menu"}]
    assert lateness(world) == timedelta()


def test_a_customer_who_cancels_ten_days_before_gets_half_and_the_chef_the_rest_less_the_fee(world: World) -> None:
    world.paid()
    world.put_job("menu", anchor="event_start", offset=-7 * 86_400)
    world.travel_to(START - 10 * DAY)
    world.cancel()
    world.deliver()
    assert (world.planned(), world.jobs()) == ({}, {})
    moved = {row["kind"]: row["amount"] for n in (1, 2) for row in world.transfers(f"b1.p{n}")}
    assert moved == {"refund": 50_000, "payout": 45_000}
    assert world.state() == "cancelled"
    before = world.snapshot()
    world.travel_to(RELEASE + DAY)
    assert world.snapshot() == before


def test_a_capture_after_the_booking_expired_is_refunded(world: World) -> None:
    world.book()
    world.commands.accept("b1", {}, None)
    world.travel_to(AUGUST + DAY)
    world.commands.pay("b1", {"captured_minor": 70_000, "charge_ref": "ch_late"}, None)
    world.deliver()
    assert world.state() == "expired"
    assert [row["amount"] for row in world.transfers("b1.p1")] == [70_000]
    assert world.types()[-3:] == ["booking.capture_refunded", "payment.attempted", "payment.done"]


def test_a_wake_up_thrice_and_one_with_an_old_generation_moves_nothing_twice(world: World) -> None:
    world.paid()
    sent = world.queues.fire

    def thrice(request: object) -> None:
        for _ in range(3):
            sent(request)  # type: ignore[arg-type]
        wake_up = request.wake_up  # type: ignore[attr-defined]
        world.wake(wake_up.job, wake_up.booking_id, max(1, wake_up.generation - 1))

    world.queues.fire = thrice  # type: ignore[method-assign]
    world.travel_to(RELEASE + HOUR)
    for generation in range(9):
        for job in ("close_event", "complete_order", "release_payment", "pay_1"):
            world.wake(job, generation=generation)
    world.travel_to(RELEASE + DAY)
    assert world.types() == WHOLE
    assert len(world.transfers("b1.p1")) == 1


def test_when_every_schedule_is_lost_the_sweeper_does_the_work_within_minutes(world: World) -> None:
    world.paid()
    world.put_job("menu", run_at=START - 7 * DAY)
    world.deliver()
    world.schedules.requests.clear()
    for instant in (START - 7 * DAY, END, COMPLETE, RELEASE):
        world.travel_to(instant)
        assert world.sweep()["woken"] == 0
        world.travel_to(instant + 5 * MINUTE)
        assert world.sweep()["woken"] == 1
    assert world.state() == "paid_out"
    assert lateness(world) == 5 * MINUTE
    assert {row["cause"]["source"] for row in world.history() if "due" in row} == {"sweep"}


def test_wake_ups_that_come_in_the_wrong_order_do_what_is_due_in_the_right_one(world: World) -> None:
    world.paid()
    world.schedules.requests.clear()
    world.travel_to(RELEASE)
    for job in ("release_payment", "complete_order", "close_event"):
        world.wake(job)
    world.deliver()
    assert world.types() == WHOLE


def test_jobs_of_an_id_that_was_never_booked_here_fire_with_their_payload(world: World) -> None:
    world.put_job("remind", "order-77", run_at=START, payload={"to": "chef", "n": [1, 2]})
    world.put_job("gone", "order-77", run_at=START)
    world.commands.delete_job("order-77", "gone", None)
    world.put_job("remind", "order-77", run_at=START + DAY, payload={"to": "customer"})
    world.deliver()
    assert world.planned() == {"remind-order-77": START + DAY}
    world.travel_to(START + 2 * DAY)
    (due,) = [event for event in world.events("order-77") if event["type"] == "job.due"]
    assert due["data"] == {"run_at": "2026-11-15T17:00:00.000Z", "payload": {"to": "customer"}}
    assert (due["job"], due["due"]) == ("remind", "2026-11-15T17:00:00.000Z")
    assert "state" not in due


def test_a_job_that_is_already_due_goes_straight_to_the_queue(world: World) -> None:
    world.put_job("late", run_at=AUGUST - HOUR)
    world.put_job("now", run_at=AUGUST)
    world.put_job("soon", run_at=AUGUST + timedelta(seconds=40))
    world.deliver()
    assert world.schedules.calls["create"] == 0
    assert [event["job"] for event in world.events() if event["type"] == "job.due"] == ["late", "now"]
    world.travel_to(AUGUST + timedelta(seconds=39))
    assert "soon" in world.jobs()
    world.travel_to(AUGUST + timedelta(seconds=40))
    assert "soon" not in world.jobs()


@pytest.mark.parametrize(("left", "delay"), [(timedelta(seconds=1), 1), (14 * MINUTE, 840), (15 * MINUTE, 900)])
def test_a_wake_up_up_to_fifteen_minutes_early_is_sent_again_with_that_delay(
    world: World, left: timedelta, delay: int
) -> None:
    world.paid()
    world.schedules.requests.clear()
    world.now = END - left
    world.wake("close_event")
    world.drain(world.queues.lanes["lifecycle"], lifecycle_worker.handler)
    (message,) = world.queues.lanes["lifecycle"].messages
    assert (message.visible_at - world.now).total_seconds() == delay
    world.travel_to(END)
    assert world.state() == "event_closed"


def test_a_wake_up_that_is_far_too_early_has_its_schedule_asserted_again(world: World) -> None:
    world.paid()
    world.schedules.requests.clear()
    world.now = END - 15 * MINUTE - timedelta(seconds=1)
    world.wake("close_event")
    world.deliver()
    assert world.planned()["close_event-b1"] == END
    assert world.state() == "paid"


def test_work_of_november_meets_the_code_of_november_without_the_arguments_of_august(world: World) -> None:
    """The message in the queue names a job that the new code no longer has: the booking still gets all it is due."""
    world.paid()
    world.schedules.requests.clear()
    world.travel_to(RELEASE)
    world.queues.lanes["lifecycle"].send('{"booking_id":"b1","job":"settle_order","generation":1,"amount":5}')
    world.deliver()
    assert world.state() == "paid_out"


def test_two_workers_on_one_payment_make_one_call_that_moves_money(world: World) -> None:
    """The second worker read the booking before the first had claimed."""
    world.paid()
    world.travel_to(RELEASE - MINUTE)
    world.schedules.requests.clear()
    world.now = RELEASE
    world.wake("release_payment")
    world.drain(world.queues.lanes["lifecycle"], lifecycle_worker.handler)
    write = world.table.write
    raced: list[bool] = []

    def outrun(*writes: object) -> None:
        if not raced:
            raced.append(True)
            world.wake("pay_1")
            world.drain(world.queues.lanes["payments"], payments_worker.handler)
        write(*writes)  # type: ignore[arg-type]

    world.table.write = outrun  # type: ignore[method-assign]
    world.wake("pay_1")
    world.deliver()
    world.travel_to(RELEASE + DAY)
    assert world.state() == "paid_out"
    assert len(world.transfers("b1.p1")) == 1
    assert raced == [True]
    assert world.types().count("payment.attempted") == 1


def test_everything_is_told_once_for_each_version_and_in_order(world: World) -> None:
    world.paid()
    world.travel_to(RELEASE + HOUR)
    ids = [event["detail"]["id"] for event in world.bus.events]
    assert ids == [f"b1:{version}" for version in range(1, len(ids) + 1)]
    assert world.attention("outbox") == []


def test_the_history_tells_what_caused_each_step(world: World) -> None:
    world.paid()
    world.travel_to(END)
    closed = world.history()[-1]
    assert closed["cause"] == {"source": "schedule", "job": "close_event", "generation": 3}
    assert datetime.fromisoformat(closed["due"]) == END
    assert world.history()[0]["cause"] == {"source": "api"}
