"""The projection: job rows become EventBridge schedules, and anything that is not so is made so.

It never trusts what woke it: it reads the row, makes the schedule match, and reads again until nothing changed.
"""

from datetime import datetime, timedelta

from duebook.domain.errors import Contention
from duebook.domain.names import schedule_name
from duebook.domain.times import iso, whole_minute
from duebook.service import rows
from duebook.service.bookings import Bookings
from duebook.service.ports import Item, Queues, ScheduleRequest, Schedules, WakeUp
from duebook.service.wake import wake_at

MOST_LOOKS = 4
SOON = timedelta(minutes=1)
"""An instant that is past or within this goes straight to the queue: what Scheduler does with it is undocumented."""


def request_for(row: Item) -> ScheduleRequest:
    """The one schedule of a job row: at its instant rounded up to a whole minute, carrying only where to look."""
    booking_id, job = row["booking_id"], row["job"]
    return ScheduleRequest(
        name=schedule_name(booking_id, job),
        at=whole_minute(rows.run_at(row)),
        lane=row["lane"],
        wake_up=WakeUp(booking_id=booking_id, job=job, generation=row["generation"]),
    )


def wants_schedule(row: Item | None, now: datetime) -> bool:
    """Whether a job row should have a schedule: it is pending, and not past or within a minute."""
    return row is not None and row["status"] == rows.PENDING and whole_minute(rows.run_at(row)) > now + SOON


def project(
    bookings: Bookings, schedules: Schedules, queues: Queues, booking_id: str, job: str, *, is_new: bool = False
) -> str:
    """Make one job's schedule match its row; twice, late or out of order ends in the same place.

    `is_new`: the row was just made, so create first. Returns what was done. Raises `AwsFailure` kinds, and
    `Contention` when the row kept changing; the caller then puts the key on the projection queue.
    """
    done = "nothing"
    row = bookings.job_row(booking_id, job)
    for _ in range(MOST_LOOKS):
        done = _match(schedules, queues, booking_id, job, row, bookings.clock(), is_new=is_new)
        again = bookings.job_row(booking_id, job)
        if _essence(again) == _essence(row):
            return done
        row, is_new = again, False
    raise Contention(f"the row of {job} of {booking_id} kept changing")


def _match(
    schedules: Schedules, queues: Queues, booking_id: str, job: str, row: Item | None, now: datetime, *, is_new: bool
) -> str:
    name = schedule_name(booking_id, job)
    if row is None or row["status"] != rows.PENDING:
        return "deleted" if schedules.delete(name) else "nothing to delete"
    if not wants_schedule(row, now):
        if not is_new:
            schedules.delete(name)
        due = rows.run_at(row)
        wake_at(queues, booking_id, job, row["generation"], due, now)
        return f"sent to the queue: due {iso(due)}"
    request = request_for(row)
    if is_new and schedules.create(request):
        return f"created for {iso(request.at)}"
    if schedules.replace(request):
        return f"replaced, now {iso(request.at)}"
    if schedules.create(request):
        return f"created for {iso(request.at)}"
    raise Contention(f"schedule {name} appeared and vanished while it was written")


def _essence(row: Item | None) -> tuple[object, ...] | None:
    return (row["generation"], row["status"]) if row else None
