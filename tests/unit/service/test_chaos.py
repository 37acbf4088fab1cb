"""Whatever is lost, doubled or refused on the way, every booking ends as it would have, and the money moves once."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duebook.adapters.memory import conflict
from duebook.domain.errors import Throttled
from tests.unit import event_schemas
from tests.unit.builders import AUGUST, HOUR, MINUTE, RELEASE, START
from tests.unit.world import World

Fault = Callable[[World], None]


def lost_schedules(world: World) -> None:
    world.schedules.requests.clear()


def lost_messages(world: World) -> None:
    for queue in (*world.queues.lanes.values(), *world.queues.dead.values(), world.queues.projection):
        queue.messages.clear()


def lost_stream(world: World) -> None:
    world.skip_stream("projector")
    world.skip_stream("publisher")


def doubled_wake_ups(world: World) -> None:
    for job in ("close_event", "complete_order", "release_payment", "pay_1", "reject_request", "menu"):
        for generation in (1, 3, 9):
            world.wake(job, generation=generation)


def refused_schedules(world: World) -> None:
    world.schedules.fail += [conflict(), Throttled("slow down"), conflict()]


def refused_events(world: World) -> None:
    world.bus.fail += ["ThrottlingException", None, "InternalFailure"]


def swept(world: World) -> None:
    world.sweep()


def reconciled(world: World) -> None:
    """What only writing may answer is not waiting for it: it reads."""
    world.schedules.fail.clear()
    world.reconcile()


FAULTS: list[Fault] = [
    lost_schedules,
    lost_messages,
    lost_stream,
    doubled_wake_ups,
    refused_schedules,
    refused_events,
    swept,
    reconciled,
]
SPAN = int((RELEASE - AUGUST) / HOUR) + 24


@settings(max_examples=10)
@given(st.lists(st.tuples(st.integers(0, SPAN) | st.integers(SPAN - 72, SPAN), st.sampled_from(FAULTS)), max_size=12))
def test_no_fault_changes_how_a_booking_ends(story: list[tuple[int, Fault]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        world = World(patch)
        world.book()
        world.commands.accept("b1", {}, None)
        world.commands.pay("b1", {"captured_minor": 100_000, "charge_ref": "ch_1"}, None)
        world.put_job("menu", run_at=START - 9 * 24 * HOUR, payload={"n": 1})
        for hours, fault in sorted(story, key=lambda step: step[0]):
            world.travel_to(AUGUST + timedelta(hours=hours))
            world.put_job("note", run_at=world.now + 30 * MINUTE, payload=hours)
            fault(world)
        world.travel_to(RELEASE + 48 * HOUR)
        world.schedules.fail.clear()
        world.bus.fail.clear()
        for _ in range(18):
            world.now += 20 * MINUTE
            world.sweep()

        assert world.state() == "paid_out"
        assert [row["amount"] for row in world.transfers("b1.p1")] == [90_000]
        assert (world.jobs(), world.planned(), world.attention()) == ({}, {}, [])
        events = world.events()
        assert [event["version"] for event in events] == list(range(1, len(events) + 1))
        lifecycle = [event["type"] for event in events if event["type"].startswith("booking.")]
        assert [type_ for type_ in lifecycle if type_ != "booking.replanned"] == [
            "booking.requested",
            "booking.accepted",
            "booking.paid",
            "booking.event_closed",
            "booking.completed",
            "booking.payout_decided",
            "booking.paid_out",
        ]
        assert [event["job"] for event in events if event["type"] == "job.due"].count("menu") == 1
        for event in world.bus.events:
            event_schemas.check(event["detail"])
