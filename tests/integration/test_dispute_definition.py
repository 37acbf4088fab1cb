"""What holds for `statemachines/dispute.asl.json` as a text: two validators, and what neither of them looks at."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from duebook.service.dispute import Route
from local.deploy import node_environment, npm_package
from local.emulator import CACHE
from stacks import ROOT

ASL_VALIDATOR = "4.0.0"
BIN = Path(sys.executable).parent
DEFINITION = ROOT / "statemachines" / "dispute.asl.json"

MACHINE: dict[str, Any] = json.loads(DEFINITION.read_text(encoding="utf-8"))
STATES: dict[str, dict[str, Any]] = MACHINE["States"]
TASKS = {name: state for name, state in STATES.items() if state["Type"] == "Task"}
CALLBACKS = {name: state for name, state in TASKS.items() if state["Resource"].endswith(".waitForTaskToken")}

IS_NOT_KNOWN_TO_STATELINT = (
    r"State Machine\.States\.(AskChef|RemindChef|AskCustomer|HumanReview)\.TimeoutSeconds is "
    r'"\{% \$max\(\[1, .*\]\) %\}" but should be an Integer',
    r'State Machine\.States\.WaitForAppeal\.Timestamp is "\{% \$until %\}" but should be an RFC3339 timestamp',
)
"""It takes these fields for numbers and times only; in JSONata they may be expressions (Step Functions guide)."""


def test_asl_validator_finds_it_valid() -> None:
    package = npm_package("asl-validator", ASL_VALIDATOR, home=CACHE / "asl-validator")
    command = [str(BIN / "node"), str(package / "dist/bin/asl-validator.js"), "--json-path", str(DEFINITION)]
    run = subprocess.run(command, env=node_environment(), capture_output=True, text=True, check=False)
    assert (run.returncode, "is valid" in run.stdout) == (0, True), run.stdout + run.stderr


def test_statelint_finds_nothing_but_what_it_does_not_know() -> None:
    run = subprocess.run([BIN / "statelint", DEFINITION], capture_output=True, text=True, check=False)
    lines = [line.strip() for line in run.stdout.splitlines()]
    assert lines[0] == "5 errors:", run.stdout + run.stderr
    assert [line for line in lines[1:] if not any(re.fullmatch(k, line) for k in IS_NOT_KNOWN_TO_STATELINT)] == []


def test_the_whole_may_not_take_longer_than_the_year_that_a_standard_workflow_has() -> None:
    assert 0 < MACHINE["TimeoutSeconds"] <= 365 * 86_400
    assert MACHINE["QueryLanguage"] == "JSONata"


def test_placeholders_are_what_the_stack_substitutes() -> None:
    assert set(re.findall(r"\$\{(\w+)\}", DEFINITION.read_text(encoding="utf-8"))) == {"DisputeFunction"}


@pytest.mark.parametrize("name", STATES)
def test_a_states_name_and_comment_tell_an_operator_what_it_is_for(name: str) -> None:
    assert re.fullmatch(r"([A-Z][a-z]+){1,4}", name)
    assert STATES[name]["Comment"].endswith((".", ":"))


@pytest.mark.parametrize("name", TASKS)
def test_every_task_has_a_timeout_and_retries_what_may_pass(name: str) -> None:
    """Without a timeout a task waits up to a year, and nothing tells (Step Functions guide)."""
    task = TASKS[name]
    assert "TimeoutSeconds" in task
    assert "HeartbeatSeconds" not in task, "people send no heartbeats"
    [retry] = task["Retry"]
    assert "States.TaskFailed" in retry["ErrorEquals"]
    assert retry["MaxAttempts"] >= 3
    assert retry["BackoffRate"] >= 2
    waited = sum(retry["IntervalSeconds"] * retry["BackoffRate"] ** n for n in range(retry["MaxAttempts"]))
    assert waited < 15 * 60, "the second wake-up would take it for stuck"


@pytest.mark.parametrize("name", CALLBACKS)
def test_every_wait_for_a_person_ends_at_its_deadline(name: str) -> None:
    """Its timeout is computed from the deadline, at least a second, and caught apart from any failure."""
    callback = CALLBACKS[name]
    assert re.fullmatch(
        r"\{% \$max\(\[1, \$ceil\(\(\$toMillis\(\$(until|deadline)\) - \$millis\(\)\) / 1000\)\]\) %\}",
        callback["TimeoutSeconds"],
    )
    [catch] = callback["Catch"]
    assert catch["ErrorEquals"] == ["States.Timeout"]
    assert "States.Timeout" not in callback["Retry"][0]["ErrorEquals"]
    assert callback["Arguments"]["Payload"]["token"] == "{% $states.context.Task.Token %}"


def test_only_deadlines_are_caught_so_that_a_redrive_goes_on_from_what_failed() -> None:
    """An execution that ends in a Fail state, or goes on after an error, is not redriven from there."""
    assert [name for name, state in STATES.items() if state["Type"] == "Fail"] == []
    caught = {error for state in TASKS.values() for catch in state.get("Catch", ()) for error in catch["ErrorEquals"]}
    assert caught == {"States.Timeout"}
    assert "Catch" not in STATES["Settle"]


def test_every_choice_has_a_default() -> None:
    choices = {name: state for name, state in STATES.items() if state["Type"] == "Choice"}
    assert {name: state["Default"] for name, state in choices.items()} == {"WhatNow": "NotForThisRun"}


def test_the_choice_knows_every_route_that_the_function_gives_and_goes_where_its_name_says() -> None:
    source = (ROOT / "lambdas/duebook/service/dispute.py").read_text(encoding="utf-8")
    given = set(re.findall(r'Route\("(\w+)"', source))
    known = {re.findall(r"\$next = '(\w+)'", c["Condition"])[0]: c["Next"] for c in STATES["WhatNow"]["Choices"]}
    assert given == {*known, STATES["WhatNow"]["Default"]}
    assert all(name == goes_to for name, goes_to in known.items())


def test_nothing_but_ids_instants_and_the_token_is_passed_on() -> None:
    """So that last month's executions call today's function, and no text of a person is in a history."""
    assert {field for task in TASKS.values() for field in task["Arguments"]["Payload"]} == {
        *("action", "stage", "dispute_id", "run", "token")
    }
    assert {name for state in STATES.values() for name in state.get("Assign", ())} == {
        *("dispute_id", "run", *Route.__slots__)
    }
    for name, state in STATES.items():
        if state["Type"] == "Task":
            assert state["Output"] == "{% {} %}", f"{name} would pass on what the function answered"
            assert all(catch["Output"] == "{% {} %}" for catch in state.get("Catch", ()))


def test_no_state_ends_it_before_the_row_was_read_again() -> None:
    """Each wait leads to a look at the row, or to another wait for the same answer."""
    looks = {name for name, task in TASKS.items() if task["Arguments"]["Payload"]["action"] == "look"}
    for name, state in CALLBACKS.items():
        assert state["Next"] in looks
        assert state["Catch"][0]["Next"] in looks | {"RemindChef"}, name
    assert STATES["WaitForAppeal"]["Next"] in looks
    assert {STATES[name]["Next"] for name in looks} == {"WhatNow"}


def test_every_variable_is_assigned_on_every_path_before_it_is_used() -> None:
    """An undefined one ends the execution when it is met (States.QueryEvaluationError); no validator sees it."""
    assigned = variables_at_entry()
    assert set(assigned) == set(STATES), "not every state is reached"
    for name, state in STATES.items():
        missing = used_in(state) - assigned[name]
        assert not missing, f"{name} uses {missing} before it is assigned"


def test_the_check_for_variables_sees_one_that_only_some_paths_assign() -> None:
    states: dict[str, dict[str, Any]] = {
        "A": {"Type": "Choice", "Choices": [{"Condition": "{% true %}", "Next": "B"}], "Default": "C"},
        "B": {"Type": "Pass", "Assign": {"x": 1}, "Next": "C"},
        "C": {"Type": "Pass", "Output": "{% $x %}", "End": True},
    }
    assert used_in(states["C"]) == {"x"}
    assert variables_at_entry(states, "A")["C"] == set()


def variables_at_entry(
    states: Mapping[str, Mapping[str, Any]] = STATES, start: str = MACHINE["StartAt"]
) -> dict[str, set[str]]:
    """What every path to a state has assigned."""
    assigned: dict[str, set[str]] = {start: set()}
    open_ = [start]
    while open_:
        name = open_.pop()
        for following, gained in ways(states[name]):
            at = assigned[name] | gained
            known = assigned.get(following)
            if known is None or not known <= at:
                assigned[following] = at if known is None else known & at
                open_.append(following)
    return assigned


def ways(state: Mapping[str, Any]) -> Iterator[tuple[str, set[str]]]:
    """Where a state may lead, and what it has assigned on that way."""
    if "Next" in state:
        yield state["Next"], set(state.get("Assign", ()))
    for branch in (*state.get("Choices", ()), *state.get("Catch", ())):
        yield branch["Next"], set(branch.get("Assign", ()))
    if "Default" in state:
        yield state["Default"], set()


def used_in(state: Mapping[str, Any]) -> set[str]:
    """Variables in any expression of the state; `$name(` is a function, `$states` is always there."""
    expressions = re.findall(r"\{%(.*?)%\}", json.dumps(state))
    found = {name for text in expressions for name in re.findall(r"\$([A-Za-z_]\w*)\b(?!\s*\()", text)}
    return found - {"states"}
