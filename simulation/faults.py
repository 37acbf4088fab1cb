"""Everything that goes wrong: each kind with its rate, where it strikes, and a count of how often it did."""

from bisect import bisect
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Literal

from duebook.domain.errors import AwsFailure, Contention, ScheduleConflict, Throttled
from simulation.chance import Draws
from simulation.settings import Settings

MOST = 0.9
"""No fault strikes more often than this."""
MOST_SKEW = timedelta(seconds=1)
"""How far a function's clock may be from the true one, either way."""


class Crash(BaseException):
    """A function's process ends here: nothing catches it, as nothing would."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`rate`: the share of its chances in which it strikes. `calls`: `<call>` or `<prefix>.*`, `before` or `after`."""

    name: str
    rate: float
    text: str
    calls: tuple[tuple[str, Literal["before", "after"]], ...] = ()


_WRITES = ("table.transact", "table.put", "table.update", "table.delete")
_READS = ("table.get", "table.query", "table.query_index", "table.scan")
_SCHEDULES = ("schedules.create", "schedules.replace", "schedules.delete")
_QUEUES = ("queues.wake", "queues.project")
_WORKFLOW = ("workflow.start", "workflow.succeed", "workflow.describe")
_EFFECTS = (*_WRITES, *_SCHEDULES, *_QUEUES, "bus.publish", "workflow.start", "workflow.succeed", "provider.send")


def _each(
    calls: tuple[str, ...], when: Literal["before", "after"]
) -> tuple[tuple[str, Literal["before", "after"]], ...]:
    return tuple((call, when) for call in calls)


FAULTS: Mapping[str, Fault] = {
    fault.name: fault
    for fault in (
        # Around every call of a twin.
        Fault("crash", 0.001, "the function dies after a write or a call", _each(_EFFECTS, "after")),
        Fault("crash_before", 0.0005, "the function dies before a write or a call", _each(_EFFECTS, "before")),
        Fault(
            "pause",
            0.002,
            "a call hangs while others go on: two workers on one booking",
            _each((*_EFFECTS, "table.get"), "before"),
        ),
        Fault("transaction_conflict", 0.004, "another transaction held the row", _each(("table.transact",), "before")),
        Fault("table_throttled", 0.0005, "DynamoDB asks to slow down", _each((*_WRITES, *_READS), "before")),
        Fault("write_unanswered", 0.0005, "a write took effect, its answer was lost", _each(_WRITES, "after")),
        Fault(
            "scheduler_throttled",
            0.002,
            "Scheduler asks to slow down",
            _each((*_SCHEDULES, "schedules.get", "schedules.names"), "before"),
        ),
        Fault("conflict_on_create", 0.005, "ConflictException on create", _each(("schedules.create",), "before")),
        Fault("conflict_on_update", 0.02, "ConflictException on update", _each(("schedules.replace",), "before")),
        Fault("scheduler_unanswered", 0.003, "Scheduler did it, its answer was lost", _each(_SCHEDULES, "after")),
        Fault("send_refused", 0.003, "SQS does not take a message", _each(_QUEUES, "before")),
        Fault("send_unanswered", 0.003, "SQS took it, its answer was lost", _each(_QUEUES, "after")),
        Fault("bus_refused", 0.004, "PutEvents fails as a whole", _each(("bus.publish",), "before")),
        Fault("bus_unanswered", 0.002, "PutEvents worked, its answer was lost", _each(("bus.publish",), "after")),
        Fault(
            "workflow_throttled",
            0.03,
            "Step Functions asks to slow down",
            _each(("workflow.start", "workflow.describe"), "before"),
        ),
        Fault(
            "token_lost", 0.1, "SendTaskSuccess fails: the token is not sent", _each(("workflow.succeed",), "before")
        ),
        Fault(
            "token_unanswered",
            0.05,
            "the token was taken, the answer was lost",
            _each(("workflow.start", "workflow.succeed"), "after"),
        ),
        # The wake-up.
        Fault("wake_up_duplicated", 0.03, "Scheduler delivers twice"),
        Fault("wake_up_lost", 0.02, "Scheduler's message never arrives"),
        Fault("wake_up_delayed", 0.02, "by minutes to three days"),
        Fault("wake_up_reordered", 0.05, "by seconds, so that a later one overtakes"),
        Fault("wake_up_early", 0.05, "within the minute before its instant"),
        Fault("wake_up_old", 0.02, "one with an old generation comes again"),
        Fault("schedule_lost", 0.01, "a schedule vanishes"),
        Fault("schedule_given_up", 0.005, "retries ended after 24 h: into Scheduler's dead letters"),
        Fault("old_configuration", 0.3, "near its time an updated or deleted schedule fires as it was"),
        # Stream and queues.
        Fault("record_repeated", 0.01, "a stream's batch comes again"),
        Fault("batch_from_the_middle", 0.01, "a batch is retried from one of its records on"),
        Fault("record_delayed", 0.005, "the stream is read minutes to hours late"),
        Fault("record_lost", 0.003, "a record is given up on, and skipped"),
        Fault("redelivered", 0.01, "a message comes again after its visibility"),
        Fault("receive_failed", 0.003, "a message is received, and nobody handles it"),
        Fault("event_repeated", 0.01, "EventBridge delivers an event twice"),
        Fault("event_delayed", 0.01, "EventBridge delivers an event hours later"),
        Fault("index_lag", 0.05, "an index shows a write seconds later"),
        # The functions.
        Fault("projector_down", 0.006, "for hours, a day"),
        Fault("publisher_down", 0.004, "for hours"),
        Fault("sweeper_down", 0.01, "for days"),
        Fault("worker_down", 0.004, "a bad deploy of the lifecycle worker, for up to 30 h"),
        Fault("payments_down", 0.004, "a bad deploy of the payments worker"),
        Fault("recorder_down", 0.003, "for days; dead letters may expire after 14"),
        Fault("provider_down", 0.006, "the payment provider cannot be reached, for hours"),
        Fault("steps_down", 0.006, "the workflow's function fails, for up to three days"),
        Fault("clock_skew", 0.05, "a function's clock changes, and is off up to a second until it changes again"),
        # The provider.
        Fault("provider_timeout", 0.03, "no answer, and nothing moved"),
        Fault("provider_done_unanswered", 0.03, "no answer, but the money moved"),
        Fault("provider_saved_error", 0.02, "an error that is replayed under its key; half of them moved the money"),
        Fault("provider_refuses", 0.02, "definitely: the account is closed"),
        Fault("provider_insufficient", 0.02, "definitely: insufficient funds, for now"),
        Fault("provider_list_fails", 0.05, "a look-up has no answer"),
        Fault("answer_lost", 0.05, "the marketplace paid, and its answer never comes"),
        # The workflow.
        Fault("step_fails", 0.03, "the workflow's function raises"),
        Fault("step_unanswered", 0.02, "the workflow's function ran, its answer never comes"),
        Fault("execution_killed", 0.05, "somebody stops an execution"),
        Fault("wait_early", 0.3, "a wait ends up to a second early"),
        # The callers.
        Fault("request_repeated", 0.02, "a caller sends a request again"),
        Fault("request_unanswered", 0.01, "a caller never sees the answer, and repeats the request later"),
    )
}


class Faults:
    """Which faults strike. `count` has every kind that struck; `occurrences` those of bookings that are told."""

    def __init__(self, settings: Settings) -> None:
        self.count: Counter[str] = Counter()
        self.occurrences: list[str] = []
        self.on = settings.faults > 0
        self._settings = settings
        self._draws: dict[str, Draws] = {}
        self._factor = settings.faults
        self._only = settings.only_occurrences
        self.rates = {name: self._rate(fault) for name, fault in FAULTS.items()}
        self._points = _points(settings.faults, self.rates)

    def _rate(self, fault: Fault) -> float:
        chosen = self._settings.only_faults
        out = (chosen is not None and fault.name not in chosen) or fault.name in self._settings.without_faults
        return 0.0 if out else min(MOST, fault.rate * self._factor)

    def draws(self, key: str) -> Draws:
        found = self._draws.get(key)
        if found is None:
            found = self._draws[key] = Draws(self._settings.seed, key)
        return found

    def forget(self, key: str) -> None:
        self._draws.pop(key, None)

    def stop(self) -> None:
        """From now on nothing goes wrong any more."""
        self.on = False

    def strikes(self, name: str, key: str) -> bool:
        """Whether this fault befalls this booking (or chef, or function) now."""
        rate = self.rates[name]
        if not self.on or not rate:
            return False
        draws = self.draws(key)
        purpose = f"?{name}"
        return draws.strikes(purpose, rate) and self._allowed(name, key, purpose, draws)

    def around(self, call: str, when: str, key: str) -> str | None:
        """The fault that strikes around a call, if any: one that is left out strikes nobody, and shifts no other."""
        if not self.on:
            return None
        point = self._points.get((call, when))
        if point is None:
            return None
        draws = self._draws.get(key) or self.draws(key)
        if not draws.strikes(point.purpose, point.rate):
            return None
        name = point.kinds[bisect(point.shares, draws.next(f"{point.purpose} kind"))]
        return name if self.rates[name] and self._allowed(name, key, point.purpose, draws) else None

    def how(self, name: str, key: str) -> float:
        """How bad it is, in [0, 1)."""
        return self.draws(key).next(f"!{name}")

    def _allowed(self, name: str, key: str, purpose: str, draws: Draws) -> bool:
        occurrence = f"{key}:{name}:{purpose}:{draws.counts[purpose]}"
        if self._only is not None and occurrence not in self._only:
            return False
        self.count[name] += 1
        if self._settings.tell:
            self.occurrences.append(occurrence)
        return True


@dataclass(frozen=True, slots=True)
class _Point:
    """Before or after a call: which kinds strike there, at which rate together, and each one's share, added up."""

    purpose: str
    kinds: tuple[str, ...]
    rate: float
    shares: tuple[float, ...]


def _points(factor: float, rates: Mapping[str, float]) -> dict[tuple[str, str], _Point]:
    """(call, when) → what may strike there. Kinds that are left out keep their share, so that the others strike as they
    did, as long as there is room for all."""
    found: dict[tuple[str, str], list[Fault]] = {}
    for fault in FAULTS.values():
        for point in fault.calls:
            found.setdefault(point, []).append(fault)
    points: dict[tuple[str, str], _Point] = {}
    for around, faults in found.items():
        if sum(fault.rate for fault in faults) * factor > MOST:
            faults = [fault for fault in faults if rates[fault.name]]
        if not faults:
            continue
        sums = tuple(accumulate(fault.rate for fault in faults))
        kinds, shares = tuple(fault.name for fault in faults), tuple(share / sums[-1] for share in sums[:-1])
        points[around] = _Point(" ".join(around), kinds, min(MOST, sums[-1] * factor), shares)
    return points


def error_of(name: str) -> BaseException:
    """What a fault around a call raises."""
    match name:
        case "crash" | "crash_before":
            return Crash(name)
        case "transaction_conflict":
            return Contention()
        case "table_throttled" | "scheduler_throttled" | "workflow_throttled" | "token_lost" | "send_refused":
            return Throttled(aws_code="ThrottlingException")
        case "bus_refused":
            return Throttled(aws_code="InternalFailure")
        case "conflict_on_create" | "conflict_on_update":
            return ScheduleConflict(aws_code="ConflictException")
        case _:
            return AwsFailure(aws_code="ReadTimeout")


@dataclass(frozen=True, slots=True)
class Outage:
    """A function (or the provider) is down from `start` to `end`."""

    name: str
    start: datetime
    end: datetime


LONGEST: Mapping[str, timedelta] = {
    "projector_down": timedelta(hours=20),
    "publisher_down": timedelta(hours=12),
    "sweeper_down": timedelta(days=3),
    "worker_down": timedelta(hours=30),
    "payments_down": timedelta(hours=30),
    "recorder_down": timedelta(days=18),
    "provider_down": timedelta(hours=12),
    "steps_down": timedelta(days=3),
}
