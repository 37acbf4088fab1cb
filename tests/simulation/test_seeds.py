"""Seeds that everybody runs, and one of today: what must hold, holds."""

from datetime import UTC, datetime
from functools import cache

import pytest

from simulation.faults import FAULTS
from simulation.report import told
from simulation.run import simulate
from simulation.settings import Result, Settings

SEEDS = (1, 2, 3)
"""The third pays by event, the others through a provider."""


@cache
def ran(seed: int) -> Result:
    return simulate(Settings(seed=seed, bookings=70, days=80, faults=3.0, reconcile_days=4))


RARE = ("provider_saved_error", "provider_list_fails", "wait_early", "send_unanswered", "steps_down", "wake_up_early")


@cache
def rarely() -> Result:
    """What a short run seldom meets, often."""
    rates = {"faults": 12.0, "only_faults": RARE, "payments": "provider"}
    return simulate(Settings(seed=5, bookings=170, days=60, reconcile_days=20, **rates))  # type: ignore[arg-type]


def _held(result: Result) -> None:
    violation = result.violation
    assert violation is None, f"seed {result.settings.seed}: {told(violation)}"


@pytest.mark.parametrize("seed", SEEDS)
def test_everything_holds_while_everything_goes_wrong(seed: int) -> None:
    result = ran(seed)
    _held(result)
    assert result.bookings == 70
    assert result.checks["right_in_the_end"] + result.states.total() >= 70
    for check in ("state_follows_history", "jobs_follow_booking", "nothing_is_paid_twice", "payout_is_allowed"):
        assert result.checks[check] > 0


def test_every_kind_of_fault_is_met() -> None:
    _held(rarely())
    met = sum((ran(seed).faults for seed in SEEDS), start=rarely().faults)
    assert FAULTS.keys() - met.keys() == set()


def test_the_seed_of_today_holds() -> None:
    """Another one each day, so that what is found grows with time; it is told in the message."""
    _held(simulate(Settings(seed=int(f"{datetime.now(UTC):%Y%m%d}"), bookings=40, days=60, reconcile_days=4)))


def test_nothing_is_late_or_asked_twice_where_nothing_goes_wrong() -> None:
    result = simulate(Settings(seed=4, bookings=30, days=60, faults=0, reconcile_days=10))
    _held(result)
    assert +result.faults == {}
    assert result.lateness[int(len(result.lateness) * 0.99)] <= 130
    assert not result.answers.keys() & {"503", "429 throttled", "503 aws_failure"}
