"""The twins cannot drift from AWS unseen: every call that they take is in the contract tests that run against both."""

import ast
import inspect
from pathlib import Path

import pytest

from duebook.adapters.memory import MemoryBus, MemoryQueues, MemorySchedules, MemoryTable
from simulation.states import SimulatedWorkflow

CONTRACTS = Path(__file__).parents[1] / "integration"
TWINS = {
    MemoryTable: "test_table.py",
    MemorySchedules: "test_schedules.py",
    MemoryQueues: "test_queues.py",
    MemoryBus: "test_bus.py",
    SimulatedWorkflow: "test_dispute_workflow.py",
}
"""Twin → its contract tests, each run with the twin and with the adapter (or moto's interpreter)."""


def called(tree: ast.AST) -> set[str]:
    """The methods that are called in it."""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {call.attr for call in calls if isinstance(call, ast.Attribute)}


def requests(twin: type) -> set[str]:
    """The twin's methods that stand for a request to AWS: they go through its hook, where a simulation has faults."""
    methods = {name: method for name, method in vars(twin).items() if inspect.isfunction(method)}
    trees = {name: ast.parse(inspect.cleandoc("\n" + inspect.getsource(method))) for name, method in methods.items()}
    return {name for name, tree in trees.items() if "_before" in called(tree) and not name.startswith("_")}


@pytest.mark.parametrize(("twin", "file"), TWINS.items())
def test_every_request_is_under_contract(twin: type, file: str) -> None:
    tree = ast.parse((CONTRACTS / file).read_text(encoding="utf-8"))
    assert requests(twin)
    assert requests(twin) - called(tree) == set()


@pytest.mark.parametrize("file", TWINS.values())
def test_each_contract_runs_against_both(file: str) -> None:
    tree = ast.parse((CONTRACTS / file).read_text(encoding="utf-8"))
    fixtures = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.fixture"
    ]
    assert any(keyword.arg == "params" for node in fixtures for keyword in node.keywords)


def test_the_requests_of_a_twin_are_found() -> None:
    assert requests(MemoryTable) == {"get", "write", "query", "query_index", "scan"}
