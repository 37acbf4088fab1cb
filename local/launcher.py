"""The emulator's process: MiniStack with the shims applied.

Run as `python -m local.launcher` by `EmbeddedAws`, never by hand. It ends its
whole process group when the process that started it is gone, so that neither
the emulator nor its Lambda workers outlive a parent that was killed.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

from local.clock import hold_steady
from local.processes import remove_shared_memory

PARENT = "DUEBOOK_LOCAL_PARENT"
LOG = "DUEBOOK_LOCAL_LOG"
_LOG_LIMIT = 20 * 1024 * 1024
_WATCH_SECONDS = 1.0


def main() -> None:
    """Watch the parent, apply the shims, serve until told to stop."""
    hold_steady()
    threading.Thread(target=_watch, name="duebook-watch", daemon=True).start()
    sys.argv = ["ministack"]
    from ministack import app

    from local import shims, status

    shims.apply()
    app.app = status.served(app.app)
    app.main()


def _watch() -> None:
    parent = int(os.environ[PARENT])
    log = Path(os.environ[LOG])
    while os.getppid() == parent:
        if log.stat().st_size > _LOG_LIMIT:
            _start_over(log)
        time.sleep(_WATCH_SECONDS)
    remove_shared_memory(os.getpid())
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _start_over(log: Path) -> None:
    """Keep the log bounded: one older file beside it; the open descriptor appends on."""
    log.with_suffix(".old.log").write_bytes(log.read_bytes())
    os.truncate(log, 0)


if __name__ == "__main__":
    main()
