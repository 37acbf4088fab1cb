"""A failing scenario made as small as it stays failing: fewer bookings, kinds of fault, actions, faults, one by one.

Because every draw is keyed by booking, purpose and ordinal, what is left out shifts nothing that is left in.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from simulation import marketplace
from simulation.faults import FAULTS
from simulation.run import simulate
from simulation.settings import Result, Settings

T = TypeVar("T")
MOST_RUNS = 120


class Shrinking:
    """`best` is the smallest result so far that fails in the same way; `runs` counts what it took."""

    def __init__(self, found: Result, say: Callable[[str], None], *, most: int = MOST_RUNS) -> None:
        assert found.violation is not None
        self.best = found
        self.runs = 0
        self._invariant = found.violation.invariant
        self._booking = found.violation.booking_id
        self._say = say
        self._most = most

    def smallest(self) -> Result:
        """Bounded by `most` runs; the result has the history of the booking that fails."""
        settings = self.best.settings
        self._try(replace(settings, only_bookings=(self._booking,), tell=frozenset({self._booking})))
        if self.best.settings.only_bookings is None:
            self._fewer_bookings()
        self._tell()
        self._fewer_kinds()
        self._fewer_occurrences()
        self._fewer_actions()
        self._tell()
        return self.best

    def _tell(self) -> None:
        assert self.best.violation is not None
        self._try(replace(self.best.settings, tell=frozenset({self.best.violation.booking_id})))

    def _fewer_bookings(self) -> None:
        all_ = [booking_id for _, booking_id in marketplace.bookings(self.best.settings)]
        near = self._halved(all_, lambda kept: replace(self.best.settings, only_bookings=tuple(sorted(kept))))
        self._say(f"{len(near)} bookings are needed")

    def _fewer_kinds(self) -> None:
        met = [name for name in FAULTS if self.best.faults[name]]
        base = self.best.settings
        kept = self._halved(met, lambda names: replace(base, only_faults=tuple(names)))
        self._say(f"kinds of fault needed: {', '.join(kept) or 'none'}")

    def _fewer_occurrences(self) -> None:
        base = self.best.settings
        met = list(dict.fromkeys(self.best.occurrences))
        if not self._try(replace(base, only_occurrences=frozenset(met))):
            return
        kept = self._halved(met, lambda some: replace(base, only_occurrences=frozenset(some)))
        self._say(f"{len(kept)} faults are needed")

    def _fewer_actions(self) -> None:
        base = self.best.settings
        ids = base.only_bookings or ()
        actions = [f"{booking_id}/{number}" for booking_id in ids for number in range(1, 40)]
        known = [action for action in actions if action not in base.without_actions]

        def without(kept: Sequence[str]) -> Settings:
            return replace(base, without_actions=base.without_actions | (frozenset(known) - frozenset(kept)))

        self._halved(known, without)

    def _halved(self, items: Sequence[T], settings: Callable[[Sequence[T]], Settings]) -> list[T]:
        """The fewest items that still fail, by leaving out ever smaller parts (delta debugging, Zeller 1999)."""
        kept, parts = list(items), 2
        if kept and self._try(settings([])):
            return []
        while len(kept) > 1 and self.runs < self._most:
            size = max(1, len(kept) // parts)
            chunks = [kept[at : at + size] for at in range(0, len(kept), size)]
            for chunk in chunks:
                rest = [item for item in kept if item not in chunk]
                if rest and self._try(settings(rest)):
                    kept, parts = rest, max(2, parts - 1)
                    break
            else:
                if size == 1:
                    break
                parts = min(len(kept), parts * 2)
        return kept

    def _try(self, settings: Settings) -> bool:
        if self.runs >= self._most:
            return False
        self.runs += 1
        result = simulate(settings)
        violation = result.violation
        same = violation is not None and violation.invariant == self._invariant
        if same:
            self.best = result
        return same


def shrink(found: Result, say: Callable[[str], None] = lambda _: None, *, most: int = MOST_RUNS) -> Result:
    """The smallest scenario found that breaks the same invariant, with its history."""
    return Shrinking(found, say, most=most).smallest()
