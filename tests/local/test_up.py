"""`python -m local up` and `clock`, as a newcomer uses them."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.emulator import ROOT, EmbeddedAws, EmulatorError, free_port

pytestmark = pytest.mark.e2e

_SECONDS = 300


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def printed(port: int, tmp_path: Path) -> Iterator[str]:
    """What it prints once it is up; it is ended by Ctrl-C, and must end well."""
    command = [sys.executable, "-m", "local", "up", "--port", str(port), "--start-at", "2026-08-01"]
    with (
        (tmp_path / "usage").open("w+", encoding="utf-8") as usage,
        subprocess.Popen(command, cwd=ROOT, stdout=usage, stderr=subprocess.PIPE, text=True) as up,
    ):
        assert up.stderr is not None
        progress = []
        for line in up.stderr:
            progress.append(line)
            if line.startswith("Up at"):
                break
        else:
            pytest.fail("it did not come up:\n" + "".join(progress))
        usage.seek(0)
        yield usage.read()
        up.send_signal(signal.SIGINT)
        assert up.wait(_SECONDS) == 0
    with pytest.raises(EmulatorError):
        EmbeddedAws.attach(port=port)


def test_it_prints_lines_that_work_and_its_time_can_be_moved(printed: str, port: int) -> None:
    if shutil.which("curl") is None:
        printed = printed.partition("# What is due")[0]
    used = subprocess.run(["sh", "-eu"], input=printed, cwd=ROOT, capture_output=True, text=True, timeout=_SECONDS)
    assert used.returncode == 0, used.stderr
    answers = used.stdout.splitlines()
    assert "applied=True" in answers[0]
    assert all('"job":"reminder"' in answer for answer in answers[1:])

    if EmbeddedAws.attach(port=port).clock.travels:
        assert "2026-08-11" in _clock(port, "--next")
        assert "2026-10-25" in _clock(port, "--by", "75d")


def _clock(port: int, *options: str) -> str:
    command = [sys.executable, "-m", "local", "clock", "--port", str(port), *options]
    moved = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_SECONDS, check=True)
    return moved.stdout
