"""Old code meets what newer code wrote, after a rollback or in the middle of a deployment: it waits, and kills nothing.

A booking's row says its schema. A field more is ignored; a higher schema says that ignoring it would decide wrongly.
"""

from datetime import timedelta
from typing import Any

import pytest

from duebook.domain.errors import NewerRow
from duebook.handlers import dispute, lifecycle_worker, payments_worker
from duebook.service import rows
from duebook.service.ports import Item, Put
from tests.unit.builders import COMPLETE, DAY, END, HOUR, RELEASE
from tests.unit.handlers.api_events import call
from tests.unit.world import Context, World

MINUTES = timedelta(minutes=10)


def written_by_newer_code(world: World, booking_id: str = "b1") -> Item:
    """The booking's row as a release would write it that holds its payout in a field of its own."""
    row = world.table.get(booking_id, rows.BOOKING_SK)
    assert row is not None
    newer = {**row, "schema": rows.READS + 1, "engagement": {**row["engagement"], "waits_for_the_tax_office": True}}
    world.table.write(Put(item=newer))
    return newer


def newer_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "READS", rows.READS + 1)


def test_a_booking_of_newer_code_is_neither_decided_nor_written_back_without_its_new_field(world: World) -> None:
    world.paid()
    newer = written_by_newer_code(world)
    world.travel_to(RELEASE + HOUR)
    assert world.table.get("b1", rows.BOOKING_SK) == newer
    assert world.payments() == []


def test_its_jobs_outlive_days_of_old_code_without_a_failure_and_are_done_by_newer_code(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job dies of failures that span more than a day; there is none here, however long the old code stays."""
    world.paid()
    written_by_newer_code(world)
    world.travel_to(END - HOUR)
    world.travel_sweeping(RELEASE + 4 * DAY, every=timedelta(minutes=30))
    assert {(row["status"], row["attempts"]) for row in world.jobs().values()} == {("pending", 0)}
    assert set(world.jobs()) == {"close_event", "complete_order", "release_payment"}
    assert world.attention() == []
    assert not any(queue.messages for queue in (*world.queues.lanes.values(), *world.queues.dead.values()))
    newer_code(monkeypatch)
    world.travel_sweeping(RELEASE + 4 * DAY + 2 * HOUR)
    assert world.state() == "paid_out"
    assert len(world.transfers("b1.p1")) == 1


def test_the_payments_lane_calls_no_provider_for_a_booking_it_cannot_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.paid()
    world.travel_to(COMPLETE + MINUTES)
    world.cancel(role="operator", refund_minor=10_000)
    written_by_newer_code(world)
    world.deliver()
    assert [payment["status"] for payment in world.payments()] == ["intent", "intent"]
    assert world.transfers("b1.p1") == world.transfers("b1.p2") == []
    newer_code(monkeypatch)
    world.travel_sweeping(COMPLETE + 2 * HOUR)
    assert [payment["status"] for payment in world.payments()] == ["done", "done"]
    assert [len(world.transfers(payment["payment_id"])) for payment in world.payments()] == [1, 1]


@pytest.mark.parametrize("handler", [lifecycle_worker.handler, payments_worker.handler])
def test_a_wake_up_is_consumed_and_not_sent_to_the_dead_letters(world: World, handler: Any) -> None:
    world.paid()
    written_by_newer_code(world)
    body = '{"booking_id": "b1", "job": "close_event", "generation": 3}'
    assert handler({"Records": [{"messageId": "m1", "body": body}]}, Context()) == {"batchItemFailures": []}


def test_its_schedules_are_projected_all_the_same(world: World) -> None:
    """Job rows have no schema of the booking's: old code gives newer code's jobs their wake-ups."""
    world.paid()
    written_by_newer_code(world)
    world.schedules.requests.clear()
    for job in world.jobs():
        world.queues.project("b1", job)
    world.deliver()
    assert len(world.planned()) == 3


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/bookings/b1", None),
        ("POST", "/bookings/b1/cancel", {"actor": {"role": "operator"}}),
        ("PUT", "/bookings/b1/jobs/menu", {"run_at": "2026-11-14T18:00:00Z"}),
    ],
)
def test_a_caller_is_asked_to_come_again(world: World, method: str, path: str, body: Any) -> None:
    world.paid()
    newer = written_by_newer_code(world)
    answer = call(method, path, body)
    assert (answer.status, answer.error) == (503, ("newer_row", None))
    assert world.table.get("b1", rows.BOOKING_SK) == newer


def test_reconcile_leaves_it_alone_says_so_and_goes_on_with_the_others(world: World) -> None:
    world.paid()
    world.paid("b2")
    newer = written_by_newer_code(world)
    assert world.reconcile()["differences"] == 0
    report = world.table.get("#reconcile", "report")
    assert report is not None
    assert report["bookings_checked"] == 2
    assert any(f"b1 has schema {rows.READS + 1}" in example for example in report["examples"])
    assert world.table.get("b1", rows.BOOKING_SK) == newer


def test_a_step_of_its_dispute_fails_so_that_the_workflow_tries_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The definition retries a failed task for minutes, and `watch_dispute` restarts an execution that gave up."""
    monkeypatch.setattr("duebook.wiring.dispute_steps", lambda: world.disputes)
    world.paid()
    written_by_newer_code(world)
    with pytest.raises(NewerRow, match="newer release"):
        dispute.handler({"action": "look", "dispute_id": "b1.d1", "run": 1}, Context())


def test_a_row_of_today_and_one_without_a_schema_are_read(world: World) -> None:
    world.paid()
    row = world.table.get("b1", rows.BOOKING_SK)
    assert row is not None
    without = {name: value for name, value in row.items() if name != "schema"}
    assert rows.read_booking(row) == rows.read_booking(without)
    assert rows.SCHEMA <= rows.READS
    world.travel_to(END)
    assert world.state() == "event_closed"
