"""The planted faults still fit the source, and the quickest of them are caught; `make mutants` runs them all."""

import ast
from importlib import import_module

import pytest

from simulation.mutants import BY_NAME, MUTANTS, ROOT, Mutant
from simulation.mutation import judge
from simulation.planting import plant, sources

FAILURES = {
    "A10/A11": "work held in a process is lost with it",
    "A13-A16": "a time-out that cannot tell dead from waiting",
    "A17": "a double payout prevented by luck",
    "A18": "a cache as the system of record",
    "A19": "chasing ids to move or cancel",
    "B1-B8": "duplicates one time-out apart, silent hours after a kill",
    "C1-C5": "slow and fast work starve each other",
}
"""The failures that the mission's texts tell of and code can bring back; each has a mutant."""
QUICK = ("two-writes", "payout-before-its-time", "freeze-completion")


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_planted_fault_still_fits_the_source_and_compiles(mutant: Mutant) -> None:
    for path, changed in sources(mutant).values():
        ast.parse(changed, path)


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_planted_fault_names_what_must_catch_it(mutant: Mutant) -> None:
    assert bool(mutant.settings) != bool(mutant.tests)
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_every_failure_that_must_not_happen_has_a_planted_fault_and_names_are_unique() -> None:
    assert {mutant.failure for mutant in MUTANTS} >= FAILURES.keys()
    assert len(BY_NAME) == len(MUTANTS)


def test_the_simulation_itself_proves_over_thirty_guards() -> None:
    assert sum(bool(mutant.settings) for mutant in MUTANTS) > 30


@pytest.mark.parametrize("name", QUICK)
def test_the_quickest_are_caught(name: str) -> None:
    verdict = judge(BY_NAME[name])
    assert verdict.caught is not None
    assert verdict.seed in {settings.seed for settings in BY_NAME[name].settings}


def test_a_fault_cannot_be_planted_into_a_product_that_runs_already() -> None:
    import_module("duebook.service.bookings")
    with pytest.raises(RuntimeError, match=r"duebook\.service\.bookings was imported before"):
        plant(BY_NAME["two-writes"])


def test_the_document_lists_each_guard_that_tests_prove_instead_with_its_test() -> None:
    text = (ROOT / "docs/simulation-mutants.md").read_text(encoding="utf-8")
    listed = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    assert listed.keys() == {mutant.name for mutant in MUTANTS if mutant.tests}
    for name, line in listed.items():
        assert BY_NAME[name].guard in line
        assert all(test.rpartition("::")[2] in line for test in BY_NAME[name].tests)
