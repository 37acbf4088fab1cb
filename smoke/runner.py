"""Running many checks at once, each of which mostly waits: a check is a generator of what it waits for."""

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from botocore.exceptions import BotoCoreError, ClientError

from duebook_client import DuebookError

LONGEST = timedelta(minutes=20)
"""Of one run, whatever is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Wait until something is so, and fail when it is not `by` an instant. `wake`: be there then, to act."""

    what: str
    until: Callable[[], bool]
    by: datetime
    wake: datetime | None = None


Steps = Generator[Wait, None, str]
"""A check's course; it returns what was found, in one sentence."""


class Failed(Exception):
    """A check does not hold. The message says what was found instead."""


class Partly(Exception):
    """A check holds as far as this deployment can show it. The message says what it can't."""


class Verdict(StrEnum):
    OK = "ok"
    PARTLY = "partly"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """`name`: what is checked, in words."""

    name: str
    begin: Callable[[], Steps]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    name: str
    verdict: Verdict
    found: str
    took: timedelta


class Time(Protocol):
    """The time that the deployment lives in."""

    def now(self) -> datetime: ...

    def rest(self, *, wake: datetime | None, by: datetime) -> None:
        """Let a little time pass; where time travels, all until anything happens. Never past `wake`, when somebody has
        to act, nor past `by`, when the first wait is in vain."""


class _Running:
    def __init__(self, check: Check, now: datetime) -> None:
        self.check = check
        self.steps = check.begin()
        self.began = now
        self.wait: Wait | None = None

    def go_on(self, now: datetime) -> tuple[bool, tuple[Verdict, str] | None]:
        """Whether it moved, and its end if it came to one."""
        moved = False
        try:
            while self.wait is None or self.wait.until():
                self.wait, moved = next(self.steps), True
        except StopIteration as end:
            return True, (Verdict.OK, str(end.value))
        except Partly as short:
            return True, (Verdict.PARTLY, str(short))
        except (Failed, DuebookError, BotoCoreError, ClientError) as failure:
            return True, (Verdict.FAILED, f"{self._waiting()}{failure}")
        if now >= self.wait.by or now - self.began >= LONGEST:
            return True, (Verdict.FAILED, f"waited in vain until {now:%H:%M:%S} UTC: {self.wait.what}")
        return moved, None

    def _waiting(self) -> str:
        return f"while waiting ({self.wait.what}): " if self.wait else ""


def run(checks: Sequence[Check], time_: Time, watch: Callable[[str], None] = lambda _: None) -> list[Result]:
    """All checks at once, in turns; their results in the order given. One that fails stops no other.

    `watch` is told what is waited for.
    """
    running = [_Running(check, time_.now()) for check in checks]
    results: dict[str, Result] = {}
    started = time.monotonic()
    while running:
        now, moved = time_.now(), False
        for each in list(running):
            went_on, ended = each.go_on(now)
            moved = moved or went_on
            if ended is not None:
                running.remove(each)
                verdict, found = ended
                took = time_.now() - each.began
                results[each.check.name] = Result(name=each.check.name, verdict=verdict, found=found, took=took)
        if running and not moved:
            waits = [each.wait for each in running if each.wait is not None]
            watch(f"{len(results)} of {len(checks)} done, {time.monotonic() - started:.0f} s; waiting: {waits[0].what}")
            wakes = [wait.wake for wait in waits if wait.wake is not None and wait.wake > now]
            time_.rest(wake=min(wakes, default=None), by=min(wait.by for wait in waits))
    return [results[check.name] for check in checks]
