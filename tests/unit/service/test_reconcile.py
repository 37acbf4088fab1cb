"""Reconcile finds each planted difference, repairs it, and a second run finds none."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from duebook.domain.times import iso
from duebook.service import rows
from duebook.service.ports import Delete, Put, ScheduleRequest, Update, WakeUp
from duebook.service.reconcile import report
from tests.unit.builders import DAY, END, HOUR, RELEASE
from tests.unit.world import Context, World


def _request(world: World, name: str = "close_event-b1") -> ScheduleRequest:
    return world.schedules.requests[name]


def missing_schedule(world: World) -> None:
    del world.schedules.requests["close_event-b1"]


def schedule_at_another_instant(world: World) -> None:
    world.schedules.requests["close_event-b1"] = replace(_request(world), at=END + DAY)


def schedule_of_an_old_generation(world: World) -> None:
    old = replace(_request(world).wake_up, generation=1)
    world.schedules.requests["close_event-b1"] = replace(_request(world), wake_up=old)


def schedule_to_the_wrong_lane(world: World) -> None:
    world.schedules.requests["close_event-b1"] = replace(_request(world), lane="payments")


def schedule_of_a_job_that_is_gone(world: World) -> None:
    wake_up = WakeUp(booking_id="b1", job="old_job", generation=1)
    world.schedules.create(ScheduleRequest(name="old_job-b1", at=END, lane="lifecycle", wake_up=wake_up))


def schedule_of_a_booking_that_is_gone(world: World) -> None:
    wake_up = WakeUp(booking_id="b9", job="menu", generation=1)
    world.schedules.create(ScheduleRequest(name="menu-b9", at=END, lane="lifecycle", wake_up=wake_up))


def schedule_of_a_dead_job(world: World) -> None:
    world.table.write(rows.job_dead(world.jobs()["menu"], world.now, "gave up"))
    world.skip_stream("projector")


def lost_job_row(world: World) -> None:
    world.table.write(Delete(pk="b1", sk="job#close_event"))


def job_row_at_another_instant(world: World) -> None:
    world.table.write(Update(pk="b1", sk="job#close_event", set={"run_at": iso(END + HOUR)}))


def job_row_of_another_generation(world: World) -> None:
    world.table.write(Update(pk="b1", sk="job#close_event", set={"generation": 99}))


def job_row_that_no_booking_derives(world: World) -> None:
    row = world.table.get("b1", "job#close_event")
    assert row is not None
    row |= {"sk": "job#settle", "job": "settle", **rows.due_keys("b1", "settle", END)}
    world.table.write(Put(item=row))


def rows_of_older_code(world: World) -> None:
    """The booking's own map says what was written; today's code derives another instant."""
    row = world.table.get("b1", "booking")
    assert row is not None
    row["planned"]["close_event"]["run_at"] = iso(END + HOUR)
    world.table.write(Put(item=row))


PLANTED: list[tuple[Callable[[World], None], dict[str, int]]] = [
    (missing_schedule, {"wrong_schedules": 1}),
    (schedule_at_another_instant, {"wrong_schedules": 1}),
    (schedule_of_an_old_generation, {"wrong_schedules": 1}),
    (schedule_to_the_wrong_lane, {"wrong_schedules": 1}),
    (schedule_of_a_job_that_is_gone, {"orphan_schedules": 1}),
    (schedule_of_a_booking_that_is_gone, {"orphan_schedules": 1}),
    (schedule_of_a_dead_job, {"orphan_schedules": 1}),
    (lost_job_row, {"orphan_schedules": 1, "wrong_rows": 1}),
    (job_row_at_another_instant, {"wrong_schedules": 1, "wrong_rows": 1}),
    (job_row_of_another_generation, {"wrong_schedules": 1, "wrong_rows": 1}),
    (job_row_that_no_booking_derives, {"wrong_schedules": 1, "wrong_rows": 1}),
    (rows_of_older_code, {"wrong_rows": 1}),
]


def booked(world: World) -> None:
    world.paid("b1")
    world.paid("b2")
    world.put_job("menu", run_at=END - 7 * DAY)
    world.deliver()


def found(world: World) -> dict[str, int]:
    saved = report(world.bookings)
    assert saved is not None
    assert saved.phase == "done"
    kinds = ("orphan_schedules", "wrong_schedules", "wrong_rows", "overdue_jobs")
    counts = {name: getattr(saved, name) for name in kinds}
    assert saved.differences == sum(counts.values())
    return {name: count for name, count in counts.items() if count}


@pytest.mark.parametrize(("plant", "counts"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
def test_a_planted_difference_is_found_and_repaired_and_a_second_run_finds_none(
    world: World, plant: Callable[[World], None], counts: dict[str, int]
) -> None:
    booked(world)
    wanted, jobs = world.planned(), set(world.jobs())
    plant(world)
    world.skip_stream("projector")
    world.reconcile()
    assert found(world) == counts
    world.reconcile()
    assert found(world) == {}
    assert set(world.jobs()) == jobs
    if plant is schedule_of_a_dead_job:
        del wanted["menu-b1"]
    assert world.planned() == wanted
    world.travel_to(RELEASE + HOUR)
    assert world.state("b1") == world.state("b2") == "paid_out"


def test_a_healthy_system_has_no_difference_and_nothing_is_written_but_the_report(world: World) -> None:
    booked(world)
    changes = len(world.table.stream)
    assert world.reconcile() == {"run": "run-1", "phase": "done", "differences": 0}
    assert {record["dynamodb"]["Keys"]["pk"]["S"] for record in list(world.table.stream)[changes:]} == {"#reconcile"}
    saved = report(world.bookings)
    assert saved is not None
    assert (saved.schedules_checked, saved.jobs_checked, saved.bookings_checked) == (7, 7, 2)


def test_a_schedule_that_is_not_ours_is_told_and_left_alone(world: World) -> None:
    booked(world)
    wake_up = WakeUp(booking_id="x", job="x", generation=1)
    foreign = ScheduleRequest(name="Someone.Else", at=END, lane="lifecycle", wake_up=wake_up)
    world.schedules.create(foreign)
    world.reconcile()
    saved = report(world.bookings)
    assert saved is not None
    assert (saved.foreign_schedules, saved.differences) == (1, 0)
    assert world.schedules.requests["Someone.Else"] == foreign


def test_a_job_that_is_due_needs_no_schedule_and_one_that_nobody_woke_for_hours_is_woken(world: World) -> None:
    booked(world)
    overdue = len(world.schedules.requests)
    world.schedules.requests.clear()
    world.now = RELEASE + DAY
    world.reconcile()
    assert found(world) == {"overdue_jobs": overdue}


def test_after_the_loss_of_every_schedule_one_run_restores_them_all(world: World) -> None:
    for number in range(40):
        world.paid(f"b{number}")
    wanted = world.planned()
    world.schedules.requests.clear()
    world.reconcile()
    assert found(world) == {"wrong_schedules": 120}
    assert world.planned() == wanted


def test_a_run_that_needs_more_than_one_invocation_goes_on_where_it_was(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        world.paid(f"b{number}")
    invocations: list[int] = []

    class Short(Context):
        """Time for one chunk in each invocation."""

        def get_remaining_time_in_millis(self) -> int:
            invocations.append(1)
            return 300_000 if len(invocations) % 2 else 1_000

    monkeypatch.setattr("tests.unit.world.Context", Short)
    world.reconcile()
    saved = report(world.bookings)
    assert saved is not None
    assert (saved.schedules_checked, saved.jobs_checked, saved.bookings_checked) == (120, 120, 40)
    assert saved.rounds > 4
    assert saved.finished_at is not None


def test_the_state_of_a_run_passes_through_its_invocation_of_itself(world: World) -> None:
    from duebook.handlers import reconciler

    booked(world)
    answer: dict[str, Any] = reconciler.handler({}, Context(left_ms=1_000))
    assert answer["phase"] == "schedules"
    (invoked,) = world.functions.invoked
    assert invoked["InvocationType"] == "Event"
    assert invoked["FunctionName"] == Context.invoked_function_arn
    assert world.reconcile()["phase"] == "done"


def test_a_booking_that_changes_while_it_is_repaired_is_left_for_the_next_run(world: World) -> None:
    booked(world)
    lost_job_row(world)
    query = world.table.query

    def outrun(*arguments: Any, **more: Any) -> Any:
        page = query(*arguments, **more)
        world.table.query = query  # type: ignore[method-assign]
        world.put_job("other", run_at=END)
        return page

    world.table.query = outrun  # type: ignore[method-assign]
    world.reconcile()
    world.reconcile()
    assert "close_event" in world.jobs()
    assert found(world) in ({"wrong_rows": 1}, {"wrong_rows": 1, "orphan_schedules": 1})
    world.reconcile()
    assert found(world) == {}


def test_a_lost_row_of_an_own_job_comes_back_at_its_instant(world: World) -> None:
    booked(world)
    world.table.write(Delete(pk="b1", sk="job#menu"))
    world.reconcile()
    row = world.jobs()["menu"]
    assert row["run_at"] == iso(END - 7 * DAY)
    assert world.planned()["menu-b1"] == END - 7 * DAY
