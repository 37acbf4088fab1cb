"""What one simulation is told, and what it answers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

START = datetime(2026, 1, 1, tzinfo=UTC)
BOUND = timedelta(hours=26)
"""After the last fault everything is right again within this: one daily reconcile, and a sweep after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`faults`: a factor on every rate (0: none). `only_faults`, `without_faults`: kinds by name.

    `only_bookings`, `without_actions` (`<booking>/<number>`) and `only_occurrences` (of faults) are what shrinking
    leaves. `payments`: `provider` or `external`; None: the seed decides. `reconcile_days`: how often the reconciler
    runs. `tell`: keep these bookings' histories. `trace`: real bookings instead of the marketplace's.
    """

    seed: int = 1
    bookings: int = 1_000
    days: int = 365
    faults: float = 1.0
    only_faults: tuple[str, ...] | None = None
    without_faults: frozenset[str] = frozenset()
    only_bookings: tuple[str, ...] | None = None
    without_actions: frozenset[str] = frozenset()
    only_occurrences: frozenset[str] | None = None
    payments: str | None = None
    reconcile_days: int | None = None
    tell: frozenset[str] = frozenset()
    trace: Path | None = None
    whole: bool = False
    """The digest takes in every written row as a whole."""
    copies: bool = False
    """The table gives copies of its rows, not the rows: slower, and the same unless somebody changes one."""

    def as_dict(self) -> dict[str, Any]:
        """What differs from the defaults, as JSON values: it reproduces the run."""
        plain = {}
        for name in self.__slots__:
            value = getattr(self, name)
            if value != getattr(Settings(), name) or name in ("seed", "bookings", "days"):
                plain[name] = sorted(value) if isinstance(value, frozenset) else value
        return {name: str(value) if isinstance(value, Path) else value for name, value in plain.items()}

    @staticmethod
    def from_dict(plain: Mapping[str, Any]) -> "Settings":
        values = dict(plain)
        for name in ("without_faults", "without_actions", "only_occurrences", "tell"):
            if values.get(name) is not None:
                values[name] = frozenset(values[name])
        for name in ("only_faults", "only_bookings"):
            if values.get(name) is not None:
                values[name] = tuple(values[name])
        if values.get("trace"):
            values["trace"] = Path(values["trace"])
        return Settings(**values)


@dataclass(frozen=True, slots=True)
class Told:
    """One line of a booking's history."""

    at: datetime
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """What did not hold: the invariant's name, whose booking, when, and what was found there."""

    invariant: str
    booking_id: str
    at: datetime
    found: str
    history: Sequence[Told] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """The state of things at one instant, for the picture. `lateness`: the worst of the span before, in seconds."""

    at: datetime
    open: int
    pending: int
    schedules: int
    lateness: int


@dataclass(slots=True, kw_only=True)
class Result:
    """`violation` is None when everything held. `lateness` in seconds, one for each timed effect, sorted."""

    settings: Settings
    violation: Violation | None = None
    digest: str = ""
    bookings: int = 0
    seconds: float = 0.0
    """User CPU time."""
    peak_memory: int = 0
    """Bytes, of the whole process so far."""
    began: datetime = START
    ended: datetime = START
    checks: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    occurrences: list[str] = field(default_factory=list)
    """Each fault that befell a booking of `tell`."""
    actions: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    wake_ups: Counter[str] = field(default_factory=Counter)
    lateness: Sequence[int] = ()
    samples: list[Sample] = field(default_factory=list)
    peak_pending: int = 0
    peak_schedules: int = 0
    peak_open: int = 0

    @property
    def days(self) -> float:
        return (self.ended - self.began) / timedelta(days=1)
