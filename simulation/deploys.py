"""Deploys midway: another default policy for new bookings, and changed code that meets old rows.

Code is changed as a programmer would: a job gets another name, or another instant. What was written by older code is
put right when its booking is looked at next.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from duebook.domain import booking, names, transitions
from duebook.domain.booking import Engagement
from duebook.domain.policy import Policy
from simulation.chance import generator
from simulation.settings import START, Settings

OLD, NEW = "complete_order", "finish_order"
LATER = timedelta(minutes=10)
KINDS = ("policy", "renamed", "later", "as_before")


def deploys(settings: Settings) -> list[tuple[datetime, str]]:
    """When what is deployed: every kind at least once in a run of some length."""
    chance = generator(settings.seed, "deploys")
    found = [(START + timedelta(days=settings.days * chance.uniform(0.1, 0.9)), kind) for kind in KINDS]
    return sorted(found)


def policy_of(seed: int) -> Policy:
    chance = generator(seed, "policy")
    return Policy(
        accept_within=chance.choice((12, 36)) * 3_600,
        pay_within=chance.choice((6, 24)) * 3_600,
        dispute_within=chance.choice((0, 12, 48)) * 3_600,
        fee_bps=chance.choice((800, 1_250)),
        appeals=chance.choice((0, 1)),
        escalations=chance.choice((0, 1)),
    )


class Code:
    """Which code runs now: `renamed` calls the job of completion otherwise, `later` completes ten minutes later."""

    def __init__(self) -> None:
        self._kept: list[tuple[Any, str, Any]] = []

    def deploy(self, kind: str) -> None:
        self.as_before()
        if kind == "renamed":
            self._rename()
        elif kind == "later":
            self._later()

    def as_before(self) -> None:
        while self._kept:
            owner, name, value = self._kept.pop()
            setattr(owner, name, value)

    def _set(self, owner: Any, name: str, value: Any) -> None:
        self._kept.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def _rename(self) -> None:
        derived, timed = booking.lifecycle_jobs, transitions._timed

        def lifecycle_jobs(engagement: Engagement) -> dict[str, datetime]:
            return {NEW if name == OLD else name: at for name, at in derived(engagement).items()}

        def _timed(before: Any, engagement: Engagement, job: str, due: datetime, now: datetime) -> Any:
            return timed(before, engagement, OLD if job == NEW else job, due, now)

        known = tuple(NEW if name == OLD else name for name in names.LIFECYCLE_JOBS)
        kinds = (*names.KINDS, NEW)
        for owner in (names, booking, transitions):
            self._set(owner, "LIFECYCLE_JOBS", known)
        self._set(names, "KINDS", kinds)
        self._set(names, "is_built_in", _also(names.is_built_in))
        self._set(booking, "lifecycle_jobs", lifecycle_jobs)
        self._set(transitions, "_timed", _timed)

    def _later(self) -> None:
        complete_at: Any = Engagement.complete_at.fget  # type: ignore[attr-defined]

        def later(engagement: Engagement) -> datetime:
            at: datetime = complete_at(engagement)
            return at + LATER

        self._set(Engagement, "complete_at", property(later))


def _also(is_built_in: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda job: job == OLD or is_built_in(job)


@contextmanager
def wired(owner: Any, parts: Mapping[str, Any]) -> Iterator[None]:
    """The module's functions replaced, for as long as a run lasts."""
    kept = {name: getattr(owner, name) for name in parts}
    for name, value in parts.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(owner, name, value)
