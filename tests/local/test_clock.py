"""The clock of an embedded AWS."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from local import clock as module
from local.clock import Clock, TimeDoesNotTravelError

SECOND = timedelta(seconds=1)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "clock"


@pytest.fixture
def travelling(file: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(module, "can_travel", lambda *, directory: directory.exists())
    return Clock.begin(file=file, start_at=datetime(2026, 8, 1, tzinfo=UTC))


def test_it_begins_where_it_is_told_to(travelling: Clock) -> None:
    assert abs(travelling.now() - datetime(2026, 8, 1, tzinfo=UTC)) < timedelta(minutes=1)


def test_it_moves_forward_by_a_duration(travelling: Clock) -> None:
    before = travelling.offset
    travelling.advance(timedelta(days=75))
    assert abs(travelling.offset - before - timedelta(days=75)) < SECOND


def test_it_moves_to_an_instant_whatever_its_offset(travelling: Clock) -> None:
    november = datetime(2026, 11, 14, 12, tzinfo=UTC)
    assert timedelta(0) <= travelling.advance_to(november) - november < timedelta(minutes=1)


def test_an_instant_that_has_passed_moves_nothing(travelling: Clock) -> None:
    before = travelling.offset
    travelling.advance_to(datetime(2026, 7, 1, tzinfo=UTC))
    assert travelling.offset == before


def test_it_never_moves_back(travelling: Clock) -> None:
    with pytest.raises(ValueError, match="does not move back"):
        travelling.advance(-SECOND)


def test_a_naive_instant_is_refused(travelling: Clock) -> None:
    with pytest.raises(ValueError, match="time zone"):
        travelling.advance_to(datetime(2026, 11, 14))  # noqa: DTZ001


def test_another_process_reads_the_same_time(travelling: Clock, file: Path) -> None:
    travelling.advance(timedelta(days=75))
    assert Clock(file=file, travels=True).offset == travelling.offset


def test_without_travel_time_is_real_and_cannot_be_moved(file: Path) -> None:
    clock = Clock.begin(file=file, start_at=datetime(2026, 8, 1, tzinfo=UTC), travel=False)
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(minutes=1)
    assert clock.environment() == {}
    with pytest.raises(TimeDoesNotTravelError):
        clock.advance(SECOND)


def test_a_preload_without_effect_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "faketime_environment", lambda _file: {"LD_PRELOAD": "/nowhere.so"})
    assert not module.can_travel(directory=tmp_path)
