"""Who may do what: functions, schedules, callers of the API, readers of the events."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest
from aws_cdk import Stack

from stacks.components.routes import ROUTES, STRIPE_WEBHOOK
from stacks.components.secrets import may_read_secret
from tests.infrastructure.conftest import STRIPE
from tests.infrastructure.template import Synthesized, many, plain

WEBHOOK = " ".join(STRIPE_WEBHOOK)

COMMIT = {f"dynamodb:{verb}Item" for verb in ("Get", "Put", "Update", "Delete")}
"""A transaction is authorized as the actions that it is made of (DynamoDB developer guide, "IAM and transactions")."""

OWN = {"logs:CreateLogStream", "logs:PutLogEvents", "xray:PutTelemetryRecords", "xray:PutTraceSegments"}
QUEUE_SOURCE = {
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:GetQueueAttributes",
}
STREAM_SOURCE = {
    "dynamodb:DescribeStream",
    "dynamodb:GetRecords",
    "dynamodb:GetShardIterator",
    "dynamodb:ListStreams",
}
WRITE_SCHEDULES = {f"scheduler:{verb}Schedule" for verb in ("Create", "Update", "Delete")}

ALLOWED = {
    "api": COMMIT | {"dynamodb:Query", "lambda:InvokeFunction", "states:GetExecutionHistory", "states:SendTaskSuccess"},
    "dispute": COMMIT | {"dynamodb:ConditionCheckItem", "states:SendTaskSuccess"},
    "lifecycle_worker": COMMIT
    | QUEUE_SOURCE
    | {"sqs:SendMessage", "states:DescribeExecution", "states:SendTaskSuccess"},
    "payments_worker": COMMIT | QUEUE_SOURCE | {"dynamodb:ConditionCheckItem", "sqs:SendMessage"},
    "projector": STREAM_SOURCE
    | QUEUE_SOURCE
    | WRITE_SCHEDULES
    | {"dynamodb:GetItem", "iam:PassRole", "sqs:SendMessage", "states:StartExecution"},
    "publisher": STREAM_SOURCE | {"dynamodb:UpdateItem", "events:PutEvents", "sqs:SendMessage"},
    "recorder": QUEUE_SOURCE | {"dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"},
    "sweeper": {
        "dynamodb:GetItem",
        "dynamodb:PutItem",
        "dynamodb:Query",
        "dynamodb:UpdateItem",
        "events:PutEvents",
        "sqs:SendMessage",
    },
    "reconciler": COMMIT
    | {
        "dynamodb:Query",
        "dynamodb:Scan",
        "lambda:InvokeFunction",
        "scheduler:GetSchedule",
        "scheduler:ListSchedules",
        "sqs:SendMessage",
    },
}

BY_PAYMENTS = {
    "ledger": {"payments_worker": {"dynamodb:Query"}},
    "external": {},
    "stripe": {
        "payments_worker": {"secretsmanager:GetSecretValue"},
        "reconciler": {"secretsmanager:GetSecretValue"},
        "stripe_webhook": COMMIT | {"secretsmanager:GetSecretValue"},
    },
}
"""What who moves money adds: looking transfers up in the ledger, or calling Stripe and hearing from it. The reconciler
compares a day of ours with a day of Stripe's."""


def allowed(assembly: Synthesized) -> dict[str, set[str]]:
    """Handler file to all that its role may do."""
    more: dict[str, set[str]] = BY_PAYMENTS[assembly.environment.payments]
    return {name: ALLOWED.get(name, set()) | more.get(name, set()) | OWN for name in {**ALLOWED, **more}}


SENDS_TO = {
    "lifecycle_worker": {"LifecycleQueue", "ProjectionQueue"},
    "payments_worker": {"PaymentsQueue", "ProjectionQueue"},
    "projector": {"LifecycleQueue", "PaymentsQueue", "ProjectionQueue", "StreamFailures"},
    "publisher": {"StreamFailures"},
    "sweeper": {"LifecycleQueue", "PaymentsQueue"},
    "reconciler": {"ProjectionQueue"},
}

KNOW_NO_RESOURCE = {
    "dynamodb:ListStreams",
    "scheduler:ListSchedules",
    "xray:PutTelemetryRecords",
    "xray:PutTraceSegments",
}
BY_THE_WORKFLOW = {
    *(f"logs:{verb}LogDelivery" for verb in ("Create", "Get", "Update", "Delete")),
    "logs:DescribeLogGroups",
    "logs:DescribeResourcePolicies",
    "logs:ListLogDeliveries",
    "logs:PutResourcePolicy",
    "xray:GetSamplingRules",
    "xray:GetSamplingTargets",
}
"""What Step Functions itself does for a state machine's log and traces (Step Functions guide, "Logging")."""
"""Actions that can only be granted on `*` (Service Authorization Reference)."""


def actions(statements: list[dict[str, Any]]) -> set[str]:
    return {action for statement in statements for action in many(statement["Action"])}


def granting(assembly: Synthesized, action: str) -> Iterator[dict[str, Any]]:
    """Every statement, of whomever, that allows an action beginning so."""
    for statement in assembly.identity_statements:
        if any(a.startswith(action) for a in many(statement["Action"])):
            yield statement


def test_the_functions_are_the_ones_whose_permissions_are_known(everywhere: Synthesized) -> None:
    assert set(everywhere.functions) == set(allowed(everywhere))


def test_a_function_may_do_exactly_what_its_handler_does(everywhere: Synthesized) -> None:
    assert {name: actions(everywhere.statements(name)) for name in everywhere.functions} == allowed(everywhere)


def test_a_function_sends_to_its_queues_only(everywhere: Synthesized) -> None:
    for handler in everywhere.functions:
        targets = {
            re.sub("[0-9A-F]{8}$", "", everywhere.target(resource))
            for statement in everywhere.statements(handler)
            if "sqs:SendMessage" in many(statement["Action"])
            for resource in many(statement["Resource"])
        }
        assert targets == SENDS_TO.get(handler, set()), handler


def test_who_calls_stripe_reads_its_key_who_hears_from_it_the_other_secret_and_nobody_more(stripe: Synthesized) -> None:
    """The function that anybody can call may not read the key that moves money."""
    read = {
        handler: [
            stripe.text(resource)
            for statement in stripe.statements(handler)
            if "secretsmanager:GetSecretValue" in many(statement["Action"])
            for resource in many(statement["Resource"])
        ]
        for handler in stripe.functions
    }
    place = "arn:<AWS::Partition>:secretsmanager:<AWS::Region>:<AWS::AccountId>:secret:"
    assert {handler: resources for handler, resources in read.items() if resources} == {
        "payments_worker": [f"{place}{STRIPE['stripe_secret']}-??????"],
        "reconciler": [f"{place}{STRIPE['stripe_secret']}-??????"],
        "stripe_webhook": [f"{place}{STRIPE['stripe_webhook_secret']}-??????"],
    }
    assert len(list(granting(stripe, "secretsmanager:"))) == 3


def test_a_secret_named_by_its_arn_is_granted_by_just_that() -> None:
    arn = "arn:aws:secretsmanager:eu-west-1:" + "1" * 12 + ":secret:stripe-AbC123"
    assert may_read_secret(Stack(), arn).resources == [arn]


def test_without_stripe_no_function_reads_a_secret_and_no_route_is_open(local: Synthesized, prod: Synthesized) -> None:
    for assembly in (local, prod):
        assert not list(granting(assembly, "secretsmanager:"))
        assert "stripe_webhook" not in assembly.functions
        assert {route["AuthorizationType"] for route in routes(assembly).values()} == {"AWS_IAM"}


def test_every_function_has_a_role_of_its_own_without_managed_policies(everywhere: Synthesized) -> None:
    roles = [everywhere.target(f["Properties"]["Role"]) for f in everywhere.functions.values()]
    assert len(set(roles)) == len(roles)
    for role in roles:
        properties = everywhere.app.of_type("AWS::IAM::Role")[role]["Properties"]
        assert "ManagedPolicyArns" not in properties
        [trusted] = properties["AssumeRolePolicyDocument"]["Statement"]
        assert trusted["Principal"] == {"Service": "lambda.amazonaws.com"}


def test_no_policy_allows_a_wildcard_action(everywhere: Synthesized) -> None:
    assert not [action for action in actions(everywhere.identity_statements) if "*" in action]


def test_only_actions_that_know_no_resource_are_allowed_on_everything(everywhere: Synthesized) -> None:
    unbounded = [s for s in everywhere.identity_statements if "*" in many(s["Resource"])]
    assert actions(unbounded) == KNOW_NO_RESOURCE | BY_THE_WORKFLOW
    assert not BY_THE_WORKFLOW & {
        a for handler in everywhere.functions for a in actions(everywhere.statements(handler))
    }


def test_no_policy_denies_or_inverts(everywhere: Synthesized) -> None:
    """A Deny would break whoever holds two of the managed policies; Not... would allow what nobody listed."""
    for statement in everywhere.identity_statements:
        assert statement["Effect"] == "Allow"
        assert not {"NotAction", "NotResource"} & statement.keys()


def test_only_the_projector_may_pass_a_role_and_only_schedulers_to_scheduler(everywhere: Synthesized) -> None:
    """On the embedded AWS a shim asks for it, which is our own reading of AWS: this holds the template to the guide."""
    [statement] = granting(everywhere, "iam:")
    assert statement in everywhere.statements("projector")
    assert many(statement["Action"]) == ["iam:PassRole"]
    assert statement["Condition"] == {"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}}
    told = everywhere.functions["projector"]["Properties"]["Environment"]["Variables"]["SCHEDULE_ROLE_ARN"]
    assert statement["Resource"] == told


def test_who_may_pass_the_role_is_who_creates_and_updates_schedules_and_nobody_else(everywhere: Synthesized) -> None:
    """Create and update each name the role, and so each needs it; get, list and delete name none."""

    def may(action: str) -> set[str]:
        return {name for name in everywhere.functions if action in actions(everywhere.statements(name))}

    assert may("scheduler:CreateSchedule") == may("scheduler:UpdateSchedule") == may("iam:PassRole") == {"projector"}
    for action in ("scheduler:CreateSchedule", "scheduler:UpdateSchedule", "iam:PassRole"):
        assert len(list(granting(everywhere, action))) == 1, f"{action}: another role or policy than the projector's"


def schedule_role(assembly: Synthesized) -> tuple[str, dict[str, Any]]:
    told = assembly.functions["projector"]["Properties"]["Environment"]["Variables"]["SCHEDULE_ROLE_ARN"]
    role = assembly.target(told)
    return role, assembly.app.of_type("AWS::IAM::Role")[role]["Properties"]


def test_scheduler_assumes_its_role_for_this_group_of_this_account_only(everywhere: Synthesized) -> None:
    """The condition names the GROUP's ARN, which a schedule's own does not match (EventBridge Scheduler user guide)."""
    [trusted] = schedule_role(everywhere)[1]["AssumeRolePolicyDocument"]["Statement"]
    [group] = everywhere.app.of_type("AWS::Scheduler::ScheduleGroup")
    assert (trusted["Effect"], trusted["Action"]) == ("Allow", "sts:AssumeRole")
    assert trusted["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert trusted["Condition"] == {
        "StringEquals": {
            "aws:SourceAccount": {"Ref": "AWS::AccountId"},
            "aws:SourceArn": {"Fn::GetAtt": [group, "Arn"]},
        }
    }


def test_schedules_reach_the_lanes_and_their_dead_letters_and_nothing_else(everywhere: Synthesized) -> None:
    role, properties = schedule_role(everywhere)
    assert not {"Policies", "ManagedPolicyArns"} & properties.keys()
    [statement] = everywhere.role_statements(role)
    assert many(statement["Action"]) == ["sqs:SendMessage"]
    assert {everywhere.target(resource) for resource in statement["Resource"]} == {
        everywhere.queue("Lifecycle", "Queue"),
        everywhere.queue("Payments", "Queue"),
        everywhere.queue("Undelivered"),
    }


def test_every_schedule_permission_is_limited_to_the_environments_group(everywhere: Synthesized) -> None:
    """Only ListSchedules can't be: it knows no resource."""
    name = everywhere.environment.name
    resources = {everywhere.text(statement["Resource"]) for statement in granting(everywhere, "scheduler:")}
    assert resources - {"*"} == {
        f"arn:<AWS::Partition>:scheduler:<AWS::Region>:<AWS::AccountId>:schedule/duebook-{name}/*"
    }


def test_the_group_is_the_only_fixed_name_and_carries_the_environment(everywhere: Synthesized) -> None:
    [group] = everywhere.app.of_type("AWS::Scheduler::ScheduleGroup").values()
    assert group["Properties"]["Name"] == f"duebook-{everywhere.environment.name}"
    fixed = {
        (resource["Type"], key)
        for template in everywhere.templates
        for resource in template.body["Resources"].values()
        for key, value in resource.get("Properties", {}).items()
        if key in {"TableName", "QueueName", "RoleName", "FunctionName", "LogGroupName", "ManagedPolicyName"}
        and isinstance(value, str)
    }
    assert fixed == set()


def test_events_may_be_put_on_the_services_bus_only(everywhere: Synthesized) -> None:
    [bus] = everywhere.of_type("AWS::Events::EventBus")
    for statement in granting(everywhere, "events:"):
        assert everywhere.target(statement["Resource"]) == bus


def test_functions_invoke_the_reconciler_only_and_the_workflow_its_steps_only(everywhere: Synthesized) -> None:
    def invoked(statements: list[dict[str, Any]]) -> set[str]:
        return {
            everywhere.aliases[everywhere.target(resource)]
            for statement in statements
            if "lambda:InvokeFunction" in many(statement["Action"])
            for resource in many(statement["Resource"])
        }

    [machine] = everywhere.of_type("AWS::StepFunctions::StateMachine").values()
    workflow = everywhere.role_statements(everywhere.target(machine["Properties"]["RoleArn"]))
    assert invoked(workflow) == {"dispute"}
    assert {handler: invoked(everywhere.statements(handler)) for handler in everywhere.functions} == {
        handler: {"reconciler"} if handler in {"api", "reconciler"} else set() for handler in everywhere.functions
    }


def test_the_workflow_is_retained_and_logs_no_data(everywhere: Synthesized) -> None:
    """Deleting a state machine ends its executions; a dispute that waits outlives any deployment."""
    [machine] = everywhere.of_type("AWS::StepFunctions::StateMachine").values()
    assert (machine["DeletionPolicy"], machine["UpdateReplacePolicy"]) == ("Retain", "Retain")
    assert "StateMachineName" not in machine["Properties"]
    assert machine["Properties"]["StateMachineType"] == "STANDARD"
    assert machine["Properties"]["LoggingConfiguration"]["IncludeExecutionData"] is False


def test_executions_are_started_answered_and_read_for_the_one_machine(everywhere: Synthesized) -> None:
    [machine] = everywhere.of_type("AWS::StepFunctions::StateMachine")
    for statement in granting(everywhere, "states:"):
        for resource in many(statement["Resource"]):
            assert everywhere.target(resource) == machine


def test_indexes_are_granted_by_name(everywhere: Synthesized) -> None:
    indexes = {
        everywhere.text(resource).rsplit("/index/", 1)[1]
        for statement in granting(everywhere, "dynamodb:")
        for resource in many(statement["Resource"])
        if "/index/" in everywhere.text(resource)
    }
    assert indexes == {"due", "attention", "day"}


def routes(assembly: Synthesized) -> dict[str, dict[str, Any]]:
    return {
        route["Properties"]["RouteKey"]: route["Properties"]
        for route in assembly.of_type("AWS::ApiGatewayV2::Route").values()
    }


def test_stripes_webhook_is_the_only_route_that_asks_for_no_aws_credentials(stripe: Synthesized) -> None:
    assert {key for key, route in routes(stripe).items() if route["AuthorizationType"] != "AWS_IAM"} == {WEBHOOK}
    assert routes(stripe)[WEBHOOK]["AuthorizationType"] == "NONE"


def test_the_webhook_goes_to_a_function_of_its_own_and_nothing_else_does(stripe: Synthesized) -> None:
    integrations = stripe.of_type("AWS::ApiGatewayV2::Integration")
    behind = {
        key: stripe.aliases[stripe.target(integrations[stripe.target(route["Target"])]["Properties"]["IntegrationUri"])]
        for key, route in routes(stripe).items()
    }
    assert {key for key, handler in behind.items() if handler == "stripe_webhook"} == {WEBHOOK}
    assert set(behind.values()) == {"api", "stripe_webhook"}


def test_a_flood_of_the_open_route_is_throttled_before_the_signed_callers_are(stripe: Synthesized) -> None:
    [stage] = stripe.of_type("AWS::ApiGatewayV2::Stage").values()
    everybody = stage["Properties"]["DefaultRouteSettings"]
    limits = stage["Properties"]["RouteSettings"]
    assert set(limits) == {WEBHOOK}
    assert 0 < limits[WEBHOOK]["ThrottlingRateLimit"] < everybody["ThrottlingRateLimit"]
    assert 0 < limits[WEBHOOK]["ThrottlingBurstLimit"] < everybody["ThrottlingBurstLimit"]
    [route] = [
        name for name, r in stripe.of_type("AWS::ApiGatewayV2::Route").items() if r["Properties"]["RouteKey"] == WEBHOOK
    ]
    assert route in stage["DependsOn"]


def test_the_api_has_the_listed_routes_and_no_catch_all(everywhere: Synthesized) -> None:
    listed = {f"{method} {path}" for group in ROUTES.values() for method, path in group}
    assert set(routes(everywhere)) == listed | ({WEBHOOK} if everywhere.environment.payments == "stripe" else set())


def test_the_api_is_throttled_and_logs_each_request_without_bodies(everywhere: Synthesized) -> None:
    [stage] = everywhere.of_type("AWS::ApiGatewayV2::Stage").values()
    assert stage["Properties"]["StageName"] == "$default"
    limits = stage["Properties"]["DefaultRouteSettings"]
    assert 0 < limits["ThrottlingRateLimit"] <= limits["ThrottlingBurstLimit"]
    logged = stage["Properties"]["AccessLogSettings"]
    assert everywhere.target(logged["DestinationArn"]) in everywhere.of_type("AWS::Logs::LogGroup")
    assert "$context.identity.userArn" in logged["Format"]
    assert "$context.requestId" in logged["Format"]


def test_only_the_api_may_invoke_its_function_and_only_through_the_alias(everywhere: Synthesized) -> None:
    callers = {
        (p["Principal"], everywhere.aliases[everywhere.target(p["FunctionName"])])
        for p in (r["Properties"] for r in everywhere.of_type("AWS::Lambda::Permission").values())
    }
    webhook = {("apigateway.amazonaws.com", "stripe_webhook")} & {
        ("apigateway.amazonaws.com", handler) for handler in everywhere.functions
    }
    assert callers == webhook | {
        ("apigateway.amazonaws.com", "api"),
        ("events.amazonaws.com", "sweeper"),
        ("events.amazonaws.com", "reconciler"),
    }
    assert all("SourceArn" in r["Properties"] for r in everywhere.of_type("AWS::Lambda::Permission").values())


TAKEN_IN = {
    "schedules": set(),
    "bookings": {
        "PUT /bookings/{booking_id}/jobs/{job}",
        "GET /bookings/{booking_id}/jobs",
        "GET /bookings/{booking_id}/jobs/{job}/explain",
        "GET /bookings/{booking_id}/ledger",
    },
    "disputes": set(),
    "payments": set(),
    "operations": set(),
}
"""Routes of other groups that a group's policy takes in because IAM's `*` also matches `/`."""


@pytest.mark.parametrize("group", ROUTES)
def test_a_groups_policy_grants_its_routes_and_no_other(everywhere: Synthesized, group: str) -> None:
    policy = everywhere.of_type("AWS::IAM::ManagedPolicy")[
        everywhere.target(everywhere.output(f"{group.capitalize()}PolicyArn"))
    ]
    [statement] = policy["Properties"]["PolicyDocument"]["Statement"]
    assert statement["Action"] == "execute-api:Invoke"
    patterns = [everywhere.text(resource).split("/", 1)[1] for resource in many(statement["Resource"])]
    granted = {key for key in routes(everywhere) if any(fnmatchcase(request(key), pattern) for pattern in patterns)}
    own = {f"{method} {path}" for method, path in ROUTES[group]}
    assert granted == own | TAKEN_IN[group]


def request(route: str) -> str:
    """A request for a route as IAM sees it: stage, method, path."""
    method, path = route.split(" ")
    return f"$default/{method}{re.sub('{[^}]+}', 'x1', path)}"


def test_the_events_reader_reads_and_deletes_from_the_default_queue_only(everywhere: Synthesized) -> None:
    policy = everywhere.of_type("AWS::IAM::ManagedPolicy")[
        everywhere.target(everywhere.output("EventsReaderPolicyArn"))
    ]
    [statement] = policy["Properties"]["PolicyDocument"]["Statement"]
    assert {everywhere.target(r) for r in many(statement["Resource"])} == {everywhere.queue("Events", "Queue")}
    assert "sqs:SendMessage" not in statement["Action"]


def test_no_template_names_an_account(everywhere: Synthesized) -> None:
    for template in everywhere.templates:
        assert not re.search(r"(?<![0-9a-fA-F])[0-9]{12}(?![0-9a-fA-F])", plain(template.body))
