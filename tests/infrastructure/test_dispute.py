"""The dispute's state machine: it outlives every deployment, tells no secret, and is reached by those who need it."""

import json
from typing import Any

from tests.infrastructure.template import Synthesized, many, plain

MACHINE = "FunctionsDisputeMachine091A4CBF"
"""Its logical id. Another one is another state machine: the executions of the old one would wait without a successor
that knows them. Whoever must change it adopts the old one first."""


def machine(assembly: Synthesized) -> dict[str, Any]:
    [found] = assembly.of_type("AWS::StepFunctions::StateMachine").values()
    return found


def test_it_is_never_renamed(everywhere: Synthesized) -> None:
    assert list(everywhere.of_type("AWS::StepFunctions::StateMachine")) == [MACHINE]
    assert "StateMachineName" not in machine(everywhere)["Properties"]


def test_it_is_retained_whatever_becomes_of_the_stack(everywhere: Synthesized) -> None:
    """CDK's default deletes it, which ends each execution at its next transition (DeleteStateMachine)."""
    assert machine(everywhere)["DeletionPolicy"] == "Retain"
    assert machine(everywhere)["UpdateReplacePolicy"] == "Retain"


def test_its_log_tells_failed_executions_without_their_data(everywhere: Synthesized) -> None:
    """Task tokens are parameters. At level ERROR every silent chef would be told: a time-out is an error."""
    logging = machine(everywhere)["Properties"]["LoggingConfiguration"]
    assert (logging["Level"], logging["IncludeExecutionData"]) == ("FATAL", False)
    [destination] = logging["Destinations"]
    log = everywhere.target(destination["CloudWatchLogsLogGroup"]["LogGroupArn"])
    assert everywhere.of_type("AWS::Logs::LogGroup")[log]["Properties"]["RetentionInDays"] >= 7


def test_it_is_a_standard_workflow_that_calls_the_functions_alias(everywhere: Synthesized) -> None:
    properties = machine(everywhere)["Properties"]
    assert properties["StateMachineType"] == "STANDARD"
    substitutions = properties["DefinitionSubstitutions"]
    assert {name: everywhere.aliases[everywhere.target(value)] for name, value in substitutions.items()} == {
        "DisputeFunction": "dispute"
    }


def test_the_definition_in_the_template_is_the_file(everywhere: Synthesized) -> None:
    """As text in the template, not as an asset: so cfn-lint sees it."""
    definition = json.loads(machine(everywhere)["Properties"]["DefinitionString"])
    assert definition["QueryLanguage"] == "JSONata"
    assert definition["StartAt"] in definition["States"]


def test_only_the_projector_starts_executions(everywhere: Synthesized) -> None:
    assert allowed_to(everywhere, "states:StartExecution") == {"projector"}


def test_a_waiting_state_is_completed_by_those_who_commit_answers_or_look_after_them(everywhere: Synthesized) -> None:
    """The API after an answer, the notifier when the answer is there already, the second wake-up when it got lost."""
    assert allowed_to(everywhere, "states:SendTaskSuccess") == {"api", "dispute", "lifecycle_worker"}
    for statement in everywhere.identity_statements:
        if "states:SendTaskSuccess" in many(statement["Action"]):
            assert everywhere.text(statement["Resource"]) == f"<{MACHINE}>"


def test_no_function_but_the_api_reads_histories_which_hold_the_tokens(everywhere: Synthesized) -> None:
    assert allowed_to(everywhere, "states:GetExecutionHistory") == {"api"}
    assert allowed_to(everywhere, "states:DescribeExecution") == {"lifecycle_worker"}


def test_operators_are_told_what_reading_a_history_reveals(everywhere: Synthesized) -> None:
    arn = everywhere.target(everywhere.output("DisputeExecutionsPolicyArn"))
    policy = everywhere.of_type("AWS::IAM::ManagedPolicy")[arn]["Properties"]
    assert "GetExecutionHistory reveals" in policy["Description"]
    assert "task tokens" in policy["Description"]
    actions = {action for s in policy["PolicyDocument"]["Statement"] for action in many(s["Action"])}
    assert "states:GetExecutionHistory" in actions
    assert not [action for action in actions if "Send" in action or "Start" in action]
    assert MACHINE in plain(policy["PolicyDocument"])


def test_reading_is_limited_to_executions_of_this_machine(everywhere: Synthesized) -> None:
    for statement in everywhere.identity_statements:
        if {"states:GetExecutionHistory", "states:DescribeExecution"} & set(many(statement["Action"])):
            resource = everywhere.text(statement["Resource"])
            assert resource == f"arn:<AWS::Partition>:states:<AWS::Region>:<AWS::AccountId>:execution:<{MACHINE}>:*"


def test_the_alarm_of_the_linter_is_silenced_for_this_resource_alone(everywhere: Synthesized) -> None:
    """cfn-lint does not know that a time-out may be a JSONata expression."""
    silenced = {
        name: resource["Metadata"]["cfn-lint"]["config"]["ignore_checks"]
        for template in everywhere.templates
        for name, resource in template.body["Resources"].items()
        if "cfn-lint" in resource.get("Metadata", {})
    }
    assert silenced == {MACHINE: ["E3601"]}


def allowed_to(assembly: Synthesized, action: str) -> set[str]:
    return {
        handler
        for handler in assembly.functions
        if any(action in many(statement["Action"]) for statement in assembly.statements(handler))
    }
