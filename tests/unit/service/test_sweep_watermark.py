"""The sweeper forgets a day only when every overdue row of it was pushed out; reconcile finds what slipped through."""

from datetime import UTC, datetime, timedelta

import pytest

from duebook.adapters.memory import MemoryBus, MemoryQueues, MemorySchedules, MemoryTable
from duebook.domain.booking import Planned
from duebook.domain.errors import Contention
from duebook.service import rows
from duebook.service.bookings import Bookings
from duebook.service.ports import Put, Update, Write
from duebook.service.reconcile import Report, reconcile
from duebook.service.sweep import STATE, sweep

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
DUE = NOW - timedelta(days=3)


class HeldTable(MemoryTable):
    """Another transaction holds one job's row."""

    held = True

    def write(self, *writes: Write) -> None:
        if self.held and any(isinstance(write, Update) and write.pk == "held" for write in writes):
            raise Contention(aws_code="TransactionConflict")
        super().write(*writes)


@pytest.fixture
def table() -> HeldTable:
    table = HeldTable(lambda: NOW)
    table.held = False
    for booking_id in ("held", "free"):
        table.write(rows.job_write(booking_id, "close_event", Planned(DUE, 1), DUE, {}, ()))
    table.held = True
    return table


def test_a_day_with_a_row_that_was_held_is_swept_again_and_the_days_after_it_are_not_put_off(table: HeldTable) -> None:
    bookings, queues, bus = Bookings(table, lambda: NOW), MemoryQueues(lambda: NOW), MemoryBus(lambda: NOW)
    table.held = False
    table.write(rows.job_write("later", "close_event", Planned(NOW - timedelta(hours=1), 1), DUE, {}, ()))
    table.held = True

    sweep(bookings, queues, bus)

    woken = {message.body for message in queues.lanes["lifecycle"].messages}
    assert len(woken) == 2
    state = table.get(*STATE)
    assert state is not None
    assert state["clean_before"] <= DUE.date().isoformat()

    table.held = False
    assert sweep(bookings, queues, bus).woken == 1


def test_reconcile_wakes_a_pending_job_that_the_sweepers_mark_has_passed(table: HeldTable) -> None:
    bookings, queues, schedules = Bookings(table, lambda: NOW), MemoryQueues(lambda: NOW), MemorySchedules(lambda: NOW)
    table.write(Put(item={"pk": STATE[0], "sk": STATE[1], "clean_before": NOW.date().isoformat()}))

    done = reconcile(bookings, schedules, queues, Report(run="r", started_at=NOW), lambda: True)

    assert done.overdue_jobs == 2
    assert len(queues.projection.messages) == 2
