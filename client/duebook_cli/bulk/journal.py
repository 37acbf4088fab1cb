"""The journal beside a file of rows: what was done with each row, so that a run that was killed can go on."""

import fcntl
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from duebook_cli.exits import Failed, Usage

FORM = 1


class Journal:
    """Append-only JSON lines, each on disk before the next call is counted as done.

    The first line says what it is about: `kind` (import, move), the SHA-256 of the file (`input`), and `target`, the
    Duebook it went to. `entries`: the last line of each booking. A line that a kill cut short is dropped: its row was
    not counted as done, and is sent again. One process at a time: it is locked while it is open. One in which nothing
    was written is not kept.

    Raises Usage when there is one for another file or another Duebook, Failed when another process has it.
    """

    def __init__(self, path: Path, *, kind: str, input: str, target: str, must_exist: bool = False) -> None:
        self.path = path
        self.entries: dict[str, dict[str, Any]] = {}
        self._head = {"journal": FORM, "kind": kind, "input": input, "target": target}
        self._must_exist = must_exist
        self._lock = threading.Lock()
        self._is_empty = True
        self._file: IO[bytes]

    def __enter__(self) -> Self:
        if self._must_exist and not self.path.exists():
            raise Usage(f"there is no journal {self.path}: no {self._head['kind']} of that file was begun here")
        self._file = self.path.open("a+b")
        try:
            self._lock_file()
            self._read()
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_empty:
            self.path.unlink()
        self._file.close()

    def append(self, booking_id: str, entry: Mapping[str, Any]) -> None:
        """Write what was done with a booking's row; when this returns, it is on disk. May be called from threads."""
        with self._lock:
            if self._is_empty:
                self._write(self._head)
                self._is_empty = False
            self._write({"booking_id": booking_id, **entry})
            self.entries[booking_id] = dict(entry)

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _lock_file(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failed(f"another process is working with {self.path}") from None

    def _read(self) -> None:
        self._file.seek(0)
        whole, _, _ = self._file.read().rpartition(b"\n")
        lines = whole.split(b"\n") if whole else []
        self._file.truncate(len(whole) + 1 if lines else 0)
        self._is_empty = not lines
        if self._is_empty:
            return
        try:
            head, *entries = (json.loads(line) for line in lines)
            self._check(head)
            for entry in entries:
                self.entries[entry.pop("booking_id")] = entry
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise Usage(f"{self.path} is no journal of this command ({error!r}): move it away to begin anew") from None

    def _check(self, head: Mapping[str, Any]) -> None:
        away = f"move {self.path} away to begin anew"
        if head["journal"] != FORM or head["kind"] != self._head["kind"]:
            raise Usage(f"{self.path} is the journal of something else: {away}")
        if head["target"] != self._head["target"]:
            raise Usage(f"{self.path} is of what went to {head['target']}, not to {self._head['target']}: {away}")
        if head["input"] != self._head["input"]:
            raise Usage(
                f"the file was changed since {self.path} was begun (what was done stays done): put new and corrected "
                "rows into a file of their own"
            )
