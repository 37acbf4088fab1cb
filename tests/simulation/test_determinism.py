"""The same seed is the same run, in any process; and what is left out shifts nothing else."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from simulation.chance import Draws
from simulation.run import simulate
from simulation.settings import Settings

ROOT = Path(__file__).parents[2]
SETTINGS = Settings(seed=7, bookings=25, days=60, faults=2.0, whole=True)
CODE = """
from simulation.run import simulate
from tests.simulation.test_determinism import SETTINGS
print(simulate(SETTINGS).digest)
"""


def _digest(hash_seed: str) -> str:
    paths = os.pathsep.join(str(ROOT / name) for name in (".", "lambdas", "client"))
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.strip()


def test_two_processes_write_the_same_trace_byte_for_byte() -> None:
    assert _digest("1") == _digest("2") == simulate(SETTINGS).digest


def test_another_seed_writes_another() -> None:
    small = replace(SETTINGS, bookings=5, days=30)
    assert simulate(small).digest != simulate(replace(small, seed=8)).digest


def test_nobody_changes_a_row_that_the_table_lends() -> None:
    assert simulate(SETTINGS).digest == simulate(replace(SETTINGS, copies=True)).digest


def test_a_booking_alone_goes_the_same_way_without_the_others() -> None:
    """Every draw is keyed by booking, purpose and ordinal; that is what shrinking lives on."""
    whole = simulate(replace(SETTINGS, faults=0, tell=frozenset({"b000011"}), bookings=25))
    alone = simulate(replace(SETTINGS, faults=0, tell=frozenset({"b000011"}), only_bookings=("b000011",)))
    assert whole.violation is alone.violation is None
    assert alone.bookings == 1
    assert alone.states.keys() <= whole.states.keys()


def test_a_draw_depends_on_whose_it_is_and_how_often_it_was_drawn_alone() -> None:
    one, same, other = Draws(1, "b1"), Draws(1, "b1"), Draws(1, "b2")
    first = [one.next("a") for _ in range(3)]
    same.next("b")
    assert [same.next("a") for _ in range(3)] == first
    assert [other.next("a") for _ in range(3)] != first
    assert all(0 <= drawn < 1 for drawn in first)


def test_a_fault_strikes_at_its_rate_and_whatever_happens_to_others() -> None:
    draws, alone = Draws(1, "b1"), Draws(1, "b1")
    struck = [draws.strikes("a", 0.05) for _ in range(20_000)]
    for _ in range(100):
        alone.strikes("b", 0.5)
    assert 800 < sum(struck) < 1_200
    assert [alone.strikes("a", 0.05) for _ in range(1_000)] == struck[:1_000]


def test_settings_survive_their_json() -> None:
    settings = replace(SETTINGS, only_bookings=("b1",), without_actions=frozenset({"b1/2"}), trace=Path("t.csv"))
    assert Settings.from_dict(settings.as_dict()) == settings
