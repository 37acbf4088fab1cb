"""One booking on one line: what happened, now, what will happen."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from duebook_cli.words import length
from duebook_client import HistoryEntry, Job
from duebook_console import shown

_LATE = timedelta(minutes=1)
"""Scheduler's precision: less is on time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A point on the line. `kind`: past, now, overdue, dead or future; `job`: of what can be explained."""

    kind: str
    at: datetime
    title: str
    text: str
    details: tuple[str, ...] = ()
    job: str | None = None


def line(history: Iterable[HistoryEntry], jobs: Sequence[Job], now: datetime) -> list[Mark]:
    """The past in the order of its versions, then now, then every job by its instant; what is overdue stands at now."""
    past = [_past(entry) for entry in history]
    future = [_future(job, now) for job in sorted(jobs, key=lambda job: (job.run_at, job.job))]
    return [*past, Mark(kind="now", at=now, title="Now", text=""), *future]


def _past(entry: HistoryEntry) -> Mark:
    details = []
    if entry.actor is not None:
        details.append(f"by {entry.actor.role}" + (f" {entry.actor.id}" if entry.actor.id else ""))
    if entry.cause is not None and entry.cause.source != "api":
        details.append(f"woken by {entry.cause.source}" + (f" for {entry.cause.job}" if entry.cause.job else ""))
    if entry.due is not None:
        late = entry.at - entry.due
        details.append("on time" if late <= _LATE else f"{length(timedelta(seconds=int(late.total_seconds())))} late")
    title = shown.event(entry.type)
    if entry.job and entry.type.startswith("job."):
        title += f": {entry.job}"
    return Mark(kind="past", at=entry.at, title=title, text=entry.reason or "", details=tuple(details))


def _future(job: Job, now: datetime) -> Mark:
    kind = "dead" if job.status == "dead" else "overdue" if job.run_at <= now else "future"
    details = [] if job.attempts == 0 else [f"{job.attempts} failed rounds"]
    if kind == "dead":
        details.insert(0, "dead: a person has to redrive it")
    elif kind == "overdue":
        details.insert(0, "due, not done yet")
    text = job.reason if kind == "dead" and job.reason else shown.what(job.job)
    return Mark(kind=kind, at=job.run_at, title=job.job, text=text, details=tuple(details), job=job.job)
