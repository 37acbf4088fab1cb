"""What each thing costs: a command is one transaction, a wake-up that changes nothing is one consistent read."""

from collections.abc import Callable
from typing import Any

import pytest

from duebook.handlers import lifecycle_worker
from duebook.service.bookings import Key
from tests.unit.builders import AUGUST, END, HOUR, MINUTE, START
from tests.unit.world import PAID, WEDDING, World


def calls(world: World, act: Callable[[], Any]) -> dict[str, int]:
    """Requests to the table by kind, made by `act`."""
    world.table.calls.clear()
    act()
    return {kind: count for kind, count in world.table.calls.items() if count}


@pytest.mark.parametrize("job", ["close_event", "reject_request", "menu", "nonsense"])
@pytest.mark.parametrize("generation", [0, 1, 3, 99])
def test_a_wake_up_that_changes_nothing_is_exactly_one_consistent_read(world: World, job: str, generation: int) -> None:
    world.paid()
    world.travel_to(END)
    world.wake(job, generation=generation)
    sent = world.queues.lanes["lifecycle"].messages
    cost = calls(world, lambda: world.drain(world.queues.lanes["lifecycle"], lifecycle_worker.handler))
    assert cost == {"get": 1}
    assert sent != world.queues.lanes["lifecycle"].messages == []
    assert world.queues.projection.messages == []


def test_a_wake_up_for_an_unknown_booking_is_one_read(world: World) -> None:
    world.wake("close_event", "nobody")
    assert calls(world, lambda: world.drain(world.queues.lanes["lifecycle"], lifecycle_worker.handler)) == {"get": 1}


def test_a_transition_is_one_read_and_one_transaction(world: World) -> None:
    world.paid()
    world.schedules.requests.clear()
    world.now = END
    world.wake("close_event")
    cost = calls(world, lambda: world.drain(world.queues.lanes["lifecycle"], lifecycle_worker.handler))
    assert cost == {"get": 1, "transact": 1}


def test_an_own_job_reads_its_payload_too(world: World) -> None:
    world.put_job("menu", run_at=END, payload={"n": 1})
    world.deliver()
    world.schedules.requests.clear()
    world.now = END
    world.wake("menu")
    cost = calls(world, lambda: world.drain(world.queues.lanes["lifecycle"], lifecycle_worker.handler))
    assert cost == {"get": 2, "transact": 1}


COMMANDS: list[tuple[str, Callable[[World], Any], dict[str, int]]] = [
    ("put", lambda w: w.commands.put_booking("b2", WEDDING), {"get": 1, "transact": 1}),
    ("put again", lambda w: w.commands.put_booking("b1", WEDDING), {"get": 1}),
    ("accept", lambda w: w.commands.accept("b1", {}, None), {"get": 1, "transact": 1}),
    ("decline", lambda w: w.commands.decline("b1", {}, None), {"get": 1, "transact": 1}),
    ("move", lambda w: w.commands.move("b1", {"event_start": "2026-12-12T18:00:00Z"}, None), {"get": 1, "transact": 1}),
    ("cancel", lambda w: w.cancel(), {"get": 1, "transact": 1}),
    ("with a key", lambda w: w.cancel(key=Key(value="k", request_hash="h")), {"get": 2, "transact": 1}),
    ("put job", lambda w: w.put_job("menu", run_at=START), {"get": 2, "transact": 1}),
    ("delete job", lambda w: w.commands.delete_job("b1", "menu", 1), {"get": 1, "transact": 1}),
    ("delete no job", lambda w: w.commands.delete_job("b1", "menu", None), {"get": 1}),
    ("redrive", lambda w: w.commands.redrive("b1", "reject_request", {}, None), {"get": 3, "transact": 1}),
]


@pytest.mark.parametrize(("command", "cost"), [row[1:] for row in COMMANDS], ids=[row[0] for row in COMMANDS])
def test_a_command_is_one_transaction(world: World, command: Callable[[World], Any], cost: dict[str, int]) -> None:
    world.book()
    assert calls(world, lambda: command(world)) == cost


def test_paying_and_repeating_it(world: World) -> None:
    world.book()
    world.commands.accept("b1", {}, None)
    assert calls(world, lambda: world.commands.pay("b1", PAID, None)) == {"get": 1, "transact": 1}
    assert calls(world, lambda: world.commands.pay("b1", PAID, None)) == {"get": 1}


def test_a_command_after_a_missed_deadline_commits_the_deadline_in_a_transaction_of_its_own(world: World) -> None:
    world.paid()
    world.schedules.requests.clear()
    world.now = END + MINUTE
    assert calls(world, lambda: world.cancel(role="operator")) == {"get": 1, "transact": 2}
    assert [entry["type"] for entry in world.history()[-2:]] == ["booking.event_closed", "booking.cancelled"]


def test_a_projection_of_a_new_row_is_two_reads_and_one_request(world: World) -> None:
    from duebook.handlers import projector

    world.put_job("menu", run_at=END)
    assert calls(world, lambda: world.stream("projector", projector.handler)) == {"get": 2}
    assert dict(world.schedules.calls) == {"create": 1}


def test_a_sweep_with_nothing_overdue_reads_empty_partitions_only(world: World) -> None:
    world.paid()
    world.sweep()
    world.now = AUGUST + 2 * HOUR
    cost = calls(world, world.sweep)
    assert cost.keys() <= {"get", "query_index"}
    assert cost["get"] == 1
