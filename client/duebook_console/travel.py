"""The embedded AWS's time, moved in the background while the page tells how far it is. AWS has none of this."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from duebook_cli.connect import Clock
from duebook_cli.words import length
from duebook_client import BadArgument, DuebookError
from duebook_console import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    """`told`: how the last one ended, in a sentence; `failed`: whether it did not get there."""

    moving: bool = False
    goal: datetime | None = None
    stops: int = 0
    told: str = ""
    failed: bool = False


class Travel:
    """At most one journey at a time; forward only."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._journey = Journey()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def journey(self) -> Journey:
        return self._journey

    def tell(self) -> Journey:
        """The journey, for the page that shows it: how it ended is told once."""
        with self._lock:
            journey = self._journey
            if not journey.moving:
                self._journey = Journey()
        return journey

    def by(self, length_: timedelta) -> None:
        """Begin to let `length_` pass. Raises BadArgument for the past, or while another journey lasts."""
        if length_ <= timedelta():
            raise BadArgument("instant", "is not in the future: time does not move back")
        self._begin(self.clock.now() + length_, lambda: self.clock.advance(length_, self._stopped))

    def to_next(self) -> None:
        """Begin to go to the next instant at which something is due."""
        self._begin(self.clock.upcoming(), self.clock.next)

    def wait(self, seconds: float) -> None:
        """For the journey's end, no longer than that."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _begin(self, goal: datetime | None, go: Callable[[], datetime | None]) -> None:
        with self._lock:
            if self._journey.moving:
                raise BadArgument("time", "is moving already")
            self._journey = Journey(moving=True, goal=goal)
            self._thread = threading.Thread(target=self._run, args=(go,), name="travel", daemon=True)
            self._thread.start()

    def _run(self, go: Callable[[], datetime | None]) -> None:
        try:
            before = self.clock.now()
            reached = go()
        except (DuebookError, OSError, RuntimeError) as error:  # TimeoutError is an OSError
            self._journey = Journey(told=f"Time did not get there: {error}", failed=True)
            return
        if reached is None:
            self._journey = Journey(told="Nothing is due: time stands where it was.")
            return
        passed = _rounded(reached - before)
        self._journey = Journey(told=f"Moved to {shown.when(reached)}: {length(passed)} have passed.")

    def _stopped(self, _: datetime) -> None:
        self._journey = replace(self._journey, stops=self._journey.stops + 1)


def _rounded(passed: timedelta) -> timedelta:
    """To minutes from an hour on: the journey itself takes seconds."""
    unit = timedelta(minutes=1) if passed >= timedelta(hours=1) else timedelta(seconds=1)
    return round(passed / unit) * unit
