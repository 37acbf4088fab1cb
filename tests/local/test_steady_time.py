"""Travelling time among many threads: libfaketime alone now and then answers with the real time."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from local.clock import Clock, hold_steady
from stacks import ROOT

_HAMMER = """
import sys, threading, time
sys.path.insert(0, {root!r})
from local.clock import hold_steady
hold_steady()
began, wrong = time.time(), []
def look():
    for _ in range(15_000):
        if abs(time.time() - began) > 3_600:
            wrong.append(1)
threads = [threading.Thread(target=look) for _ in range(6)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(wrong), int(began))
"""


def test_no_thread_ever_sees_the_real_time(tmp_path: Path) -> None:
    began = datetime(2015, 7, 1, tzinfo=UTC)
    clock = Clock.begin(file=tmp_path / "clock", start_at=began, travel=True)
    if not clock.travels:
        pytest.skip("time does not travel on this machine")
    command = [sys.executable, "-c", _HAMMER.format(root=str(ROOT))]
    run = subprocess.run(command, env=clock.environment(), capture_output=True, text=True, check=True)
    wrong, seen = (int(part) for part in run.stdout.split())
    assert wrong == 0
    assert abs(seen - began.timestamp()) < timedelta(hours=1).total_seconds()


def test_where_time_is_real_it_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.delenv("FAKETIME_TIMESTAMP_FILE", raising=False)
    before = time.time
    hold_steady()
    assert time.time is before
