"""The order of a deployment: what works on rows goes live before what lets callers write them."""

import json
from collections.abc import Iterator
from typing import Any

from tests.infrastructure.template import Synthesized

DOORS = {"api", "stripe_webhook"}
"""Functions that a caller reaches."""
ALIAS, MAPPING = "AWS::Lambda::Alias", "AWS::Lambda::EventSourceMapping"
MACHINE = "AWS::StepFunctions::StateMachine"


def before(assembly: Synthesized, name: str) -> set[str]:
    """Every resource of the app that CloudFormation has done before this one: by DependsOn and by reference."""
    resources = assembly.app.body["Resources"]
    seen: set[str] = set()
    ahead = [name]
    while ahead:
        resource = resources[ahead.pop()]
        found = {*resource.get("DependsOn", []), *referred(resource.get("Properties", {}))} & resources.keys()
        ahead += found - seen
        seen |= found
    return seen


def referred(value: Any) -> Iterator[str]:
    match value:
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), *_]}:
            yield name
        case dict():
            for part in value.values():
                yield from referred(part)
        case list():
            for part in value:
                yield from referred(part)


def test_a_door_goes_live_after_every_worker_mapping_and_workflow(everywhere: Synthesized) -> None:
    """DependsOn orders updates as it orders creation (CloudFormation user guide, "DependsOn attribute")."""
    doors = {name for name, handler in everywhere.aliases.items() if handler in DOORS}
    behind = {name for kind in (ALIAS, MAPPING, MACHINE) for name in everywhere.app.of_type(kind)} - doors
    assert {everywhere.aliases[door] for door in doors} == DOORS & everywhere.functions.keys()
    for door in doors:
        assert behind - before(everywhere, door) == set(), everywhere.aliases[door]


def test_nothing_behind_the_doors_waits_for_one(everywhere: Synthesized) -> None:
    doors = {name for name, handler in everywhere.aliases.items() if handler in DOORS}
    for name, handler in everywhere.aliases.items():
        if name not in doors:
            assert not doors & before(everywhere, name), handler
    for mapping in everywhere.app.of_type(MAPPING):
        assert not doors & before(everywhere, mapping)


def test_the_workflow_is_changed_after_the_function_that_it_calls(everywhere: Synthesized) -> None:
    """A new definition may ask for an action that only the new function knows; a running execution keeps its own."""
    [machine] = everywhere.of_type(MACHINE)
    [steps] = [name for name, handler in everywhere.aliases.items() if handler == "dispute"]
    assert steps in before(everywhere, machine)


def test_the_api_s_routes_lead_to_its_alias_and_exist_after_it(everywhere: Synthesized) -> None:
    for name, integration in everywhere.of_type("AWS::ApiGatewayV2::Integration").items():
        alias = everywhere.target(integration["Properties"]["IntegrationUri"])
        assert everywhere.aliases[alias] in DOORS
        assert alias in before(everywhere, name)


def test_no_caller_names_a_function_without_its_alias(everywhere: Synthesized) -> None:
    """What is called by its bare name or ARN changes in the middle of a deployment, before its version is published."""
    functions = set(everywhere.of_type("AWS::Lambda::Function"))
    callers = {
        name: resource
        for template in everywhere.templates
        for name, resource in template.body["Resources"].items()
        if resource["Type"] not in {ALIAS, "AWS::Lambda::Version"}
    }
    naming = {name: functions & set(referred(resource.get("Properties", {}))) for name, resource in callers.items()}
    assert {name: found for name, found in naming.items() if found} == {}


def test_schedules_deliver_to_queues_so_that_none_ever_names_a_version(everywhere: Synthesized) -> None:
    told = everywhere.functions["projector"]["Properties"]["Environment"]["Variables"]
    targets = {everywhere.target(told[name]) for name in ("LIFECYCLE_QUEUE_ARN", "PAYMENTS_QUEUE_ARN")}
    assert targets == {everywhere.queue("Lifecycle", "Queue"), everywhere.queue("Payments", "Queue")}


def test_the_data_is_deployed_before_the_app(everywhere: Synthesized) -> None:
    manifest = json.loads((everywhere.folder / "manifest.json").read_text(encoding="utf-8"))
    prefix = everywhere.environment.stack_prefix
    assert f"{prefix}-Data" in manifest["artifacts"][f"{prefix}-App"]["dependencies"]
    assert f"{prefix}-App" not in manifest["artifacts"][f"{prefix}-Data"]["dependencies"]
