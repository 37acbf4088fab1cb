"""Reconcile: compare every level with the one it derives from, and repair the lower one.

Schedules against job rows, job rows against schedules, bookings against `jobs_for`. It walks in chunks that fit a
function's time-out, and its state is one small row, so that it can be told where it stands and go on.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from duebook.domain.booking import Planned, replanned
from duebook.domain.errors import AwsFailure, ConditionFailed, Contention, NewerRow
from duebook.domain.names import schedule_name, schedule_parts
from duebook.domain.times import parse
from duebook.domain.transitions import Step, refresh
from duebook.service import rows
from duebook.service.bookings import Bookings
from duebook.service.codec import decode, encode
from duebook.service.ports import Delete, If, Item, Put, Queues, Schedules
from duebook.service.project import request_for, wants_schedule
from duebook.service.rows import Cause

REPORT = ("#reconcile", "report")
EXAMPLES = 20
OVERDUE = timedelta(hours=2)
"""Longer than the sweeper's backoff: a pending job that nobody woke for so long has slipped through it."""
MOST_ROUNDS = 5_000
"""Invocations one run may take: a run that needs more has a bug."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Where a run stands. `difference` counts are repaired unless named otherwise; `phase` is done at the end."""

    run: str
    started_at: datetime
    finished_at: datetime | None = None
    phase: str = "schedules"
    after: str | None = None
    rounds: int = 0
    schedules_checked: int = 0
    jobs_checked: int = 0
    bookings_checked: int = 0
    orphan_schedules: int = 0
    wrong_schedules: int = 0
    wrong_rows: int = 0
    overdue_jobs: int = 0
    foreign_schedules: int = 0
    examples: tuple[str, ...] = field(default_factory=tuple)

    @property
    def differences(self) -> int:
        return self.orphan_schedules + self.wrong_schedules + self.wrong_rows + self.overdue_jobs


def report(bookings: Bookings) -> Report | None:
    """The last run's report, or None."""
    row = bookings.table.get(*REPORT)
    return decode(Report, row) if row else None


def reconcile(
    bookings: Bookings, schedules: Schedules, queues: Queues, state: Report, time_left: Callable[[], bool]
) -> Report:
    """Go on with a run until it is done or the time is over; the report is saved at every chunk's end.

    A refusal of AWS's ends the round and not the run, which goes on from that chunk: among the thousands of calls of a
    pass one may be throttled. Raises it when this round came nowhere.
    """
    steps = {"schedules": _schedules, "jobs": _jobs, "bookings": _bookings}
    following = {"schedules": "jobs", "jobs": "bookings", "bookings": "done"}
    state = begun = replace(state, rounds=state.rounds + 1)
    while state.phase != "done" and time_left() and state.rounds <= MOST_ROUNDS:
        try:
            state, after = steps[state.phase](bookings, schedules, queues, state)
            state = replace(state, after=after) if after else replace(state, after=None, phase=following[state.phase])
            if state.phase == "done":
                state = replace(state, finished_at=bookings.clock())
            bookings.table.write(Put(item={"pk": REPORT[0], "sk": REPORT[1], **encode(state)}))
        except AwsFailure:
            if state is begun:
                raise
            break
    return state


Chunk = tuple[Report, str | None]


def _schedules(bookings: Bookings, schedules: Schedules, queues: Queues, state: Report) -> Chunk:
    """Schedules that no pending job stands behind."""
    names, after = schedules.names(state.after)
    for name in names:
        parts = schedule_parts(name)
        if parts is None:
            state = _note(state, f"schedule {name} is not one of ours: left alone", foreign_schedules=1)
            continue
        row = bookings.job_row(*parts)
        if row is None or row["status"] != rows.PENDING:
            queues.project(*parts)
            state = _note(state, f"schedule {name} has no pending job", orphan_schedules=1)
    return replace(state, schedules_checked=state.schedules_checked + len(names)), after


def _jobs(bookings: Bookings, schedules: Schedules, queues: Queues, state: Report) -> Chunk:
    """Pending jobs whose schedule is missing, or stands for another instant or generation; and what nobody woke."""
    page = bookings.table.scan(index="due", after=_key(state.after), limit=100)
    now = bookings.clock()
    for row in page.items:
        if parse(row["wake_at"]) < now - OVERDUE:
            queues.project(row["booking_id"], row["job"])
            state = _note(state, f"{row['job']} of {row['booking_id']} was woken by nobody", overdue_jobs=1)
        elif wants_schedule(row, now):
            name = schedule_name(row["booking_id"], row["job"])
            found = schedules.get(name)
            if found != request_for(row):
                queues.project(row["booking_id"], row["job"])
                what = "is missing" if found is None else "differs from its job"
                state = _note(state, f"schedule {name} {what}", wrong_schedules=1)
    return replace(state, jobs_checked=state.jobs_checked + len(page.items)), _token(page.after)


def _bookings(bookings: Bookings, schedules: Schedules, queues: Queues, state: Report) -> Chunk:
    """Bookings whose job rows are not what the booking derives."""
    page = bookings.table.scan(sk=rows.BOOKING_SK, after=_key(state.after))
    for row in page.items:
        try:
            wrong = repair(bookings, row["pk"])
        except NewerRow as newer:
            state = _note(state, f"left alone: {newer}")
            continue
        if wrong:
            state = _note(
                state, f"jobs of booking {row['pk']} put right: {', '.join(sorted(wrong))}", wrong_rows=len(wrong)
            )
    return replace(state, bookings_checked=state.bookings_checked + len(page.items)), _token(page.after)


def repair(bookings: Bookings, booking_id: str) -> set[str]:
    """Make the job rows of one booking what `jobs_for` says; the names of those that were not."""
    booking = bookings.load(booking_id)
    if booking is None:
        return set()
    found = {row["job"]: row for row in bookings.table.query(booking_id, rows.JOB_PREFIX).items}
    written = {job: Planned(rows.run_at(row), row["generation"]) for job, row in found.items()}
    lost = frozenset(job for job, planned in booking.planned.items() if written.get(job) != planned)
    extra = written.keys() - booking.planned.keys()
    now = bookings.clock()
    try:
        step = refresh(booking, now)
        if lost or (step is None and extra):
            step = Step(
                type="booking.replanned",
                booking=replanned(booking, booking, renew=lost),
                at=now,
                reason="job rows differed from the booking",
                data={"jobs": sorted(lost | extra)},
            )
        if step is None:
            return set()
        bookings.commit(booking, step, Cause(source="sweep"))
        for job in sorted(extra - step.booking.planned.keys()):
            generation = found[job]["generation"]
            bookings.table.write(
                Delete(pk=booking_id, sk=f"{rows.JOB_PREFIX}{job}", condition=If(equals={"generation": generation}))
            )
    except (ConditionFailed, Contention):
        return set()
    return set(lost | extra) or set(step.data["jobs"])


def _note(state: Report, example: str, **counts: int) -> Report:
    more = {name: getattr(state, name) + count for name, count in counts.items()}
    return replace(state, examples=(*state.examples, example)[:EXAMPLES], **more)


def _token(after: Item | None) -> str | None:
    return "\n".join(f"{name}\t{value}" for name, value in after.items()) if after else None


def _key(token: str | None) -> Item | None:
    return dict(line.split("\t", 1) for line in token.split("\n")) if token else None
