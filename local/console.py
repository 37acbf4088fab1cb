"""The console beside an embedded AWS: a process of its own that ends with the block."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from local.emulator import ROOT, EmulatorError
from local.processes import end_group


@contextmanager
def console(aws_port: int, *, console_port: int = 0) -> Iterator[str]:
    """Its whole address, with the key. `console_port` 0: a free one. Raises EmulatorError if it does not start."""
    paths = [str(ROOT), str(ROOT / "client"), os.environ.get("PYTHONPATH", "")]
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "duebook_console", "--env", "local"),
            *("--port", str(aws_port), "--console-port", str(console_port)),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    with process.stdout:
        try:
            line = process.stdout.readline().decode()
            if "http://" not in line:
                raise EmulatorError("the console did not start; it said why above")
            yield line[line.index("http://") :].strip()
        finally:
            end_group(process)
