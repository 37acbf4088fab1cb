"""`python -m local up` and `clock`, as a newcomer uses them."""

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import HTTPCookieProcessor, ProxyHandler, build_opener

import pytest

from duebook_cli.connect import connect
from local import sample
from local.emulator import ROOT, EmbeddedAws, EmulatorError, free_port

pytestmark = pytest.mark.e2e

_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Printed:
    """`usage`: to standard output, for a shell; `progress`: to standard error, for people."""

    usage: str
    progress: str


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def printed(port: int, tmp_path: Path) -> Iterator[Printed]:
    """What it prints once it is up; it is ended by Ctrl-C, and must end well."""
    command = [sys.executable, "-m", "local", "up", "--port", str(port), "--start-at", "2026-08-01", "--console"]
    with (
        (tmp_path / "usage").open("w+", encoding="utf-8") as usage,
        subprocess.Popen(command, cwd=ROOT, stdout=usage, stderr=subprocess.PIPE, text=True) as up,
    ):
        assert up.stderr is not None
        progress = []
        for line in up.stderr:
            progress.append(line)
            if line.startswith("Console: "):
                break
        else:
            pytest.fail("it did not come up:\n" + "".join(progress))
        usage.seek(0)
        yield Printed(usage.read(), "".join(progress))
        up.send_signal(signal.SIGINT)
        assert up.wait(_SECONDS) == 0
        assert up.stderr.read().count("Stopped.") == 1
    with pytest.raises(EmulatorError):
        EmbeddedAws.attach(port=port)


def test_it_prints_lines_that_work_its_time_can_be_moved_and_a_sample_can_be_looked_at(
    printed: Printed, port: int
) -> None:
    usage = printed.usage
    if shutil.which("curl") is None:
        usage = usage.partition("# What is due")[0]
    used = subprocess.run(["sh", "-eu"], input=usage, cwd=ROOT, capture_output=True, text=True, timeout=_SECONDS)
    assert used.returncode == 0, used.stderr
    answers = used.stdout.splitlines()
    assert "applied=True" in answers[0]
    assert all('"job":"reminder"' in answer for answer in answers[1:])

    if EmbeddedAws.attach(port=port).clock.travels:
        assert "2026-08-11" in _clock(port, "--next")
        assert "2026-10-25" in _clock(port, "--by", "75d")
    _looks_at_the_sample(printed, port)


def _looks_at_the_sample(printed: Printed, port: int) -> None:
    command = [sys.executable, "-m", "local", "sample", "--port", str(port)]
    subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_SECONDS, check=True)
    address = re.search(r"Console: (http://127\.0\.0\.1:\d+/\?key=\S+)", printed.progress)
    assert address is not None
    with connect("local", port=port) as connection:
        client = connection.client
        assert [(letter.booking_id, letter.job) for letter in client.dead_letters()] == [sample.DEAD]
        assert [letter.booking_id for letter in client.dead_letters(kind="held")] == ["import-1"]
        assert [dispute.dispute_id for dispute in client.disputes("in_review")] == ["gala-2.d1"]
        assert [dispute.dispute_id for dispute in client.disputes("awaiting_chef")] == ["gala-1.d1"]
        states = {
            name: client.booking(name).state for name in ("dinner-1", "party-1", "wedding-1", "brunch-1", "picnic-1")
        }
        assert list(states.values()) == ["requested", "accepted", "paid", "paid_out", "cancelled"]
        with build_opener(ProxyHandler({}), HTTPCookieProcessor()).open(address[1], timeout=60) as page:
            shown = page.read().decode()
        assert "/bookings/dinner-1" in shown
        assert client.redrive(*sample.DEAD, reason="it is whole again").status == "done"
        assert list(client.dead_letters()) == []


def _clock(port: int, *options: str) -> str:
    command = [sys.executable, "-m", "local", "clock", "--port", str(port), *options]
    moved = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_SECONDS, check=True)
    return moved.stdout
