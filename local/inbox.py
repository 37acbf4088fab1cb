"""The marketplace's ear: what it heard from the default queue, each event once, whatever was delivered twice."""

import time
from collections.abc import Iterator
from datetime import timedelta

from duebook_client import Event, EventReader

_EMPTY_LOOKS = 2
_LONGEST_READ_SECONDS = 120.0


class Inbox:
    """Every event read so far. One that comes again has the same id, and is only counted (`repeats`)."""

    def __init__(self, reader: EventReader) -> None:
        self.repeats = 0
        self._reader = reader
        self._events: dict[str, Event] = {}

    def read(self) -> list[Event]:
        """Read and delete what is in the queue until it is empty; the new events by booking and version.

        Raises TimeoutError if the queue does not become empty.
        """
        new: list[Event] = []
        empty, end = 0, time.monotonic() + _LONGEST_READ_SECONDS
        while empty < _EMPTY_LOOKS:
            found = 0
            for delivery in self._reader.read(most=100, wait=timedelta()):
                with delivery as event:
                    found += 1
                    if event.id in self._events:
                        self.repeats += 1
                    else:
                        self._events[event.id] = event
                        new.append(event)
            empty = 0 if found else empty + 1
            if time.monotonic() > end:
                raise TimeoutError(f"the default queue was not empty after {_LONGEST_READ_SECONDS:.0f} s")
        return sorted(new, key=lambda event: (event.booking_id, event.version))

    def of(self, booking_id: str, *types: str) -> list[Event]:
        """What was heard of a booking, oldest first; only these types if any are given."""
        events = [event for event in self._events.values() if event.booking_id == booking_id]
        wanted = [event for event in events if not types or event.type in types]
        return sorted(wanted, key=lambda event: event.version)

    def __iter__(self) -> Iterator[Event]:
        return iter(list(self._events.values()))

    def __len__(self) -> int:
        return len(self._events)
