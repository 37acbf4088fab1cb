"""`make mutants`: plants each fault, two at a time, and prints what caught it. 1 if any survives.

Each mutant runs in a process of its own. The product as it is must pass the very same runs.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from simulation.mutants import BY_NAME, MUTANTS, ROOT, Mutant
from simulation.planting import PLANTED, plant
from simulation.settings import Settings

AT_ONCE = 2
PATIENCE = 600
"""Seconds after which a run is given up: a mutant that never ends is no mutant that was caught."""
PYTEST = ("-m", "pytest", "-q", "-x", "--no-header")
TESTS_FAILED = 1
"""pytest's exit status when tests ran and some failed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`caught`: by which invariant or test; None: it survived. `seed`: 0 for a test."""

    name: str
    caught: str | None
    seed: int
    seconds: float


def judge(mutant: Mutant) -> Verdict:
    """Run what should catch it, until something does."""
    began = time.monotonic()
    if mutant.tests:
        ended = _child([*PYTEST, "-p", "simulation.planted", *mutant.tests], {PLANTED: mutant.name})
        if ended.returncode not in (0, TESTS_FAILED):
            raise RuntimeError(f"{mutant.name}: the tests did not run:\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
        caught = mutant.tests[0].rpartition("::")[2] if ended.returncode == TESTS_FAILED else None
        return Verdict(mutant.name, caught, 0, time.monotonic() - began)
    told = _ran([*mutant.settings], mutant.name)
    return Verdict(mutant.name, told["caught"], told["seed"], time.monotonic() - began)


def unplanted(settings: Sequence[Settings]) -> str | None:
    """What goes wrong in these runs of the product as it is; None: nothing."""
    told = _ran(settings, None)
    return f"seed {told['seed']}: {told['caught']}" if told["caught"] else None


def untested(mutants: Sequence[Mutant]) -> str | None:
    """What fails of the tests that pin the other guards, of the product as it is; None: nothing."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    ended = _child([*PYTEST, *tests], {}) if tests else None
    return ended.stdout[-2000:] if ended is not None and ended.returncode else None


def _ran(settings: Sequence[Settings], mutant: str | None) -> dict[str, Any]:
    plain = json.dumps([each.as_dict() for each in settings])
    ended = _child(["-m", "simulation.mutation", "--run", plain], {PLANTED: mutant or ""})
    if ended.returncode != 0:
        raise RuntimeError(f"{mutant or 'the product'}: its run failed:\n{ended.stderr[-2000:]}")
    told: dict[str, Any] = json.loads(ended.stdout.strip().rpartition("\n")[2])
    return told


def _child(command: Sequence[str], more: dict[str, str]) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "lambdas"), "PYTHONDONTWRITEBYTECODE": "1"} | more
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def _run(plain: str) -> int:
    """In the child: the first of these runs that breaks an invariant, as JSON on the last line."""
    from simulation.run import simulate

    for settings in map(Settings.from_dict, json.loads(plain)):
        violation = simulate(settings).violation
        if violation is not None:
            print("\n" + json.dumps({"caught": violation.invariant, "seed": settings.seed, "found": violation.found}))
            return 0
    print("\n" + json.dumps({"caught": None, "seed": 0}))
    return 0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description="Plant faults; each must be caught.")
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run:
        if os.environ.get(PLANTED):
            plant(BY_NAME[os.environ[PLANTED]])
        return _run(options.run)
    names = [name for name in options.only.split(",") if name]
    if unknown := [name for name in names if name not in BY_NAME]:
        parser.error(f"there is no mutant {', '.join(unknown)}; there are {', '.join(BY_NAME)}")
    chosen = [BY_NAME[name] for name in names] or list(MUTANTS)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 150
    scenarios = list(dict.fromkeys(each for mutant in chosen for each in mutant.settings))
    with Progress(console=console) as progress, ThreadPoolExecutor(AT_ONCE) as pool:
        task = progress.add_task("mutants", total=len(chosen) + len(scenarios))

        def passes(settings: Settings) -> str | None:
            found = unplanted([settings])
            progress.advance(task)
            return found

        def judged(mutant: Mutant) -> Verdict:
            verdict = judge(mutant)
            progress.advance(task)
            return verdict

        wrong = [*pool.map(passes, scenarios), untested(chosen)]
        verdicts = list(pool.map(judged, chosen))
    console.print(table(chosen, verdicts))
    for found in filter(None, wrong):
        console.print(f"[red]The product as it is fails: {found}[/red]")
    survived = [verdict.name for verdict in verdicts if verdict.caught is None]
    if survived:
        console.print(f"[red]{len(survived)} of {len(chosen)} survived: {', '.join(survived)}[/red]")
    else:
        console.print(f"[green]{len(chosen)} of {len(chosen)} caught.[/green]")
    return 1 if survived or any(wrong) else 0


def table(mutants: Sequence[Mutant], verdicts: Sequence[Verdict]) -> Table:
    found = Table(title="Planted faults", title_justify="left")
    for name in ("mutant", "the guard it takes away", "mission", "caught by", "seed", "s"):
        found.add_column(name, justify="right" if name in ("seed", "s") else "left")
    for mutant, verdict in zip(mutants, verdicts, strict=True):
        caught = verdict.caught or "[red]survived[/red]"
        seed = str(verdict.seed) if verdict.seed else ""
        found.add_row(mutant.name, mutant.guard, mutant.failure, caught, seed, f"{verdict.seconds:.0f}")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
