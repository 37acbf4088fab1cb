"""The sample trace, moved to the future, on the embedded AWS of all these tests."""

from dataclasses import replace
from datetime import timedelta

import pytest
from rich.progress import Progress

from local.replay import SAMPLE, check, play
from local.trace import Row, expected, plan, read_trace
from local.world import World


@pytest.fixture(scope="module")
def rows(world: World) -> list[Row]:
    found = read_trace(SAMPLE, limit=100)
    days = timedelta(days=(world.now().date() - min(row.booked_on for row in found)).days + 1)
    return [
        replace(row, booked_on=row.booked_on + days, event_on=row.event_on + days, outcome_on=row.outcome_on + days)
        for row in found
    ]


def test_every_booking_of_a_trace_ends_as_its_row_says(world: World, rows: list[Row]) -> None:
    actions = sorted((action for row in rows for action in plan(row)), key=lambda action: action.at)
    with Progress(disable=True) as progress:
        play(world, actions, max(expected(row).settled_at for row in rows), progress)
        findings = check(world, rows, progress)
    assert findings.problems == []
    assert (findings.payouts, findings.refunds) == (9, 2)


def test_a_booking_that_ended_otherwise_is_told_with_its_line(world: World, rows: list[Row]) -> None:
    wrong = [replace(rows[0], amount=rows[0].amount + 10), *rows[1:]]
    with Progress(disable=True) as progress:
        problems = check(world, wrong, progress).problems
    assert [problem.partition(":")[0] for problem in problems] == ["city-1 (line 2)"] * 2
