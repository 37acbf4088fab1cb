"""The embedded AWS's time: real time plus an offset that can be moved.

The offset lives in a file that libfaketime reads on every call, so writing it
moves the emulator and its Lambda workers together, with no hook in the product.
A preload that can't load is ignored silently, so time travel is proved by its
effect before anything relies on it.
"""

import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

_PROOF = timedelta(days=1)
_PROOF_TOLERANCE = timedelta(hours=1)
_FILE_VARIABLE = "FAKETIME_TIMESTAMP_FILE"
_LIBRARY = "vendor/libfaketime/src/libfaketime.so.1"


class TimeDoesNotTravelError(RuntimeError):
    """Time can't be moved on this machine: libfaketime has no effect here."""


class Clock:
    """Time of one embedded AWS.

    `file` holds the offset in seconds, as libfaketime reads it. Where `travels`
    is False, `now()` is real time and nothing can move it.
    """

    def __init__(self, *, file: Path, travels: bool) -> None:
        self.file = file
        self.travels = travels

    @classmethod
    def begin(cls, *, file: Path, start_at: datetime | None = None, travel: bool = True) -> "Clock":
        """A new clock at `start_at` (may be in the past), else at the present.

        With `travel=False`, or where libfaketime has no effect, time is real.
        """
        clock = cls(file=file, travels=travel and can_travel(directory=file.parent))
        if clock.travels:
            now = datetime.now(UTC)
            _write_offset(file, (now if start_at is None else _aware(start_at)) - now)
        return clock

    @property
    def offset(self) -> timedelta:
        """How far the embedded AWS is ahead of real time (negative: behind)."""
        if not self.travels:
            return timedelta(0)
        return timedelta(seconds=float(self.file.read_text(encoding="ascii")))

    def now(self) -> datetime:
        """The embedded AWS's present instant, aware, in UTC."""
        return datetime.now(UTC) + self.offset

    def advance(self, by: timedelta) -> datetime:
        """Move time forward by `by`; the new instant. Time never moves back.

        Raises TimeDoesNotTravelError where time is real.
        """
        if by < timedelta(0):
            raise ValueError(f"time does not move back: {by}")
        if not self.travels:
            raise TimeDoesNotTravelError("time is real here; wait instead")
        _write_offset(self.file, self.offset + by)
        return self.now()

    def advance_to(self, instant: datetime) -> datetime:
        """Move time forward to `instant`; a past instant moves nothing."""
        return self.advance(max(timedelta(0), _aware(instant) - self.now()))

    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to live at this time."""
        return faketime_environment(self.file) if self.travels else {}


def faketime_environment(file: Path) -> dict[str, str]:
    """The environment under which a process reads its time offset from `file`.

    The monotonic clock stays real, so sleeps and time-outs keep their length.
    The fix that is switched off is for old C libraries: with it every wait of a
    thread for another (in Python: for the interpreter's lock) spins, and reads
    the file each time.
    """
    library = _library()
    if library is None:
        return {}
    return {
        "LD_PRELOAD": str(library),
        _FILE_VARIABLE: str(file),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        "DONT_FAKE_MONOTONIC": "1",
    }


def can_travel(*, directory: Path) -> bool:
    """Whether a child process really lives a day ahead when told to, by a file in `directory`."""
    if _library() is None:
        return False
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory) as temporary:
        file = Path(temporary) / "clock"
        _write_offset(file, _PROOF)
        child = subprocess.run(
            [sys.executable, "-c", "import time; print(time.time())"],
            env={**os.environ, **faketime_environment(file)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    try:
        seen = timedelta(seconds=float(child.stdout) - time.time())
    except ValueError:
        return False
    return abs(seen - _PROOF) < _PROOF_TOLERANCE


def hold_steady() -> None:
    """Let this process read its travelling time by itself, from the clock's file and the monotonic clock.

    libfaketime parses the file anew at each call into variables that all threads share, without a lock: among many
    threads one call in some hundred thousand gives the real time, and a message stamped with it is lost in a queue for
    years. Call it before other threads start. Does nothing where time is real.
    """
    name = os.environ.get(_FILE_VARIABLE)
    if name is None:
        return
    file = Path(name)
    began, at, offset = time.time(), time.monotonic(), float(file.read_text(encoding="ascii"))

    def now() -> float:
        return began + (time.monotonic() - at) + float(file.read_text(encoding="ascii")) - offset

    time.time = now
    time.time_ns = lambda: int(now() * 1e9)


def _library() -> Path | None:
    spec = find_spec("libfaketime")
    for location in (spec.submodule_search_locations or []) if spec else []:
        library = Path(location) / _LIBRARY
        if library.exists():
            return library
    return None


def _write_offset(file: Path, offset: timedelta) -> None:
    """Replace the file in one step: a reader must never see half an offset."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f"{file.name}.new")
    fresh.write_text(f"{offset.total_seconds():+.6f}\n", encoding="ascii")
    fresh.replace(file)


def _aware(instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise ValueError(f"a time zone is missing: {instant}")
    return instant
