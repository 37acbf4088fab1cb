"""Processes that end with everything they started."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path


def end_group(process: subprocess.Popen[bytes], *, grace: float = 5.0) -> None:
    """End a process that leads its own session, and all of its group.

    It is asked first and killed after `grace` seconds. What libfaketime leaves
    in shared memory when its process is killed goes too.
    """
    try:
        _signal(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace)
    finally:
        _signal(process.pid, signal.SIGKILL)
        process.wait()
        remove_shared_memory(process.pid)


def remove_shared_memory(pid: int) -> None:
    """Remove the semaphore and memory that libfaketime made for process `pid`."""
    for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
        Path("/dev/shm", name).unlink(missing_ok=True)


def _signal(leader: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
