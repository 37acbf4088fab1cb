"""Deliveries between services ask the role or the queue that AWS would ask."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from ministack import app
from ministack.core import iam_actions, iam_evaluator
from ministack.services import eventbridge, iam, scheduler, sqs, stepfunctions

from local import permissions, shims

SCOPE = "us-east-1:000000000000"
QUEUE = f"arn:aws:sqs:{SCOPE}:wakeups"
DEAD = f"arn:aws:sqs:{SCOPE}:dead"
GROUP = f"arn:aws:scheduler:{SCOPE}:schedule-group/duebook"
RULE = {"Arn": f"arn:aws:events:{SCOPE}:rule/bus/r", "EventPattern": "{}"}
FUNCTION = f"arn:aws:lambda:{SCOPE}:function:notify:live"
DELIVERY = "arn:aws:iam::000000000000:role/delivery"
SCHEDULE = {
    "Arn": f"arn:aws:scheduler:{SCOPE}:schedule/duebook/j-b1",
    "GroupName": "duebook",
    "ScheduleExpression": "at(2026-11-14T12:00:00)",
    "Target": {},
}
TARGET = {"Arn": QUEUE, "RoleArn": DELIVERY, "Input": '{"booking_id": "b1"}', "DeadLetterConfig": {"Arn": DEAD}}
SEND = {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": QUEUE}


@pytest.fixture(autouse=True)
def _account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(app, "AUTH", True)
    for name in ("wakeups", "dead"):
        sqs._act_create_queue({"QueueName": name}, "")
    caller = iam_evaluator._request_caller_arn.set("")
    yield
    iam_evaluator._request_caller_arn.reset(caller)
    sqs.reset()
    iam._roles.clear()


def role(name: str, *statements: dict[str, Any], source: str = GROUP, service: str = permissions.SCHEDULER) -> None:
    trust = {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": "sts:AssumeRole",
        "Condition": {"StringEquals": {"aws:SourceArn": source, "aws:SourceAccount": "000000000000"}},
    }
    iam._roles[name] = {
        "RoleName": name,
        "AssumeRolePolicyDocument": json.dumps({"Statement": [trust]}),
        "InlinePolicies": {"own": json.dumps({"Statement": list(statements)})},
        "AttachedPolicies": [],
    }


def messages(arn: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sqs._queue_by_arn(arn)["messages"]
    return found


def deliver(target: dict[str, Any], source: dict[str, Any], *, by: str) -> None:
    event = {
        "Source": by,
        "DetailType": "d",
        "Detail": "{}",
        "Time": 0,
        "Account": "000000000000",
        "Region": "us-east-1",
    }
    eventbridge._invoke_target(target, event, source)


def test_a_schedule_delivers_under_a_role_that_trusts_its_group_and_may_send() -> None:
    role("delivery", SEND)
    shims.deliveries_need_permission()
    deliver(TARGET, SCHEDULE, by="aws.scheduler")
    assert [message["body"] for message in messages(QUEUE)] == ['{"booking_id": "b1"}']


@pytest.mark.parametrize(
    ("statements", "source", "reason"),
    [
        ([], GROUP, "may not sqs:SendMessage"),
        ([{**SEND, "Resource": DEAD}], GROUP, "may not sqs:SendMessage"),
        ([SEND], GROUP.replace("duebook", "default"), "trust policy"),
        ([SEND], SCHEDULE["Arn"], "trust policy"),
    ],
)
def test_a_refused_schedule_goes_to_its_dead_letters(
    statements: list[dict[str, Any]], source: str, reason: str
) -> None:
    role("delivery", *statements, source=source)
    shims.deliveries_need_permission()
    deliver(TARGET, SCHEDULE, by="aws.scheduler")
    assert messages(QUEUE) == []
    (dead,) = messages(DEAD)
    assert dead["body"] == TARGET["Input"]
    assert reason in dead["message_attributes"]["ERROR_MESSAGE"]["StringValue"]
    assert dead["message_attributes"]["SCHEDULE_ARN"]["StringValue"] == SCHEDULE["Arn"]


def test_a_schedule_whose_queue_or_role_is_gone_is_refused() -> None:
    assert "no role" in str(permissions.schedule_may_deliver(target=TARGET, schedule=SCHEDULE))
    role("delivery", SEND)
    gone = {**TARGET, "Arn": f"arn:aws:sqs:{SCOPE}:gone"}
    assert "no queue" in str(permissions.schedule_may_deliver(target=gone, schedule=SCHEDULE))


def test_a_rule_delivers_to_a_queue_whose_policy_lets_it() -> None:
    shims.deliveries_need_permission()
    target = {"Arn": QUEUE, "DeadLetterConfig": {"Arn": DEAD}}
    deliver(target, RULE, by="duebook")
    assert (len(messages(QUEUE)), len(messages(DEAD))) == (0, 1)

    allowed = {
        **SEND,
        "Principal": {"Service": permissions.EVENTS},
        "Condition": {"ArnEquals": {"aws:SourceArn": RULE["Arn"]}},
    }
    sqs._queue_by_arn(QUEUE)["attributes"]["Policy"] = json.dumps({"Statement": [allowed]})
    deliver(target, RULE, by="duebook")
    assert (len(messages(QUEUE)), len(messages(DEAD))) == (1, 1)


@pytest.mark.parametrize(("service", "status"), [(permissions.SCHEDULER, 200), ("lambda.amazonaws.com", 403)])
def test_who_makes_a_schedule_may_pass_its_role_to_scheduler(service: str, status: int) -> None:
    shims.handing_over_a_role_needs_permission()
    passing = {
        "Effect": "Allow",
        "Action": "iam:PassRole",
        "Resource": DELIVERY,
        "Condition": {"StringEquals": {"iam:PassedToService": service}},
    }
    role("projector", passing)
    iam_evaluator._request_caller_arn.set("arn:aws:sts::000000000000:assumed-role/projector/session")
    request = {"ScheduleExpression": "at(2026-11-14T12:00:00)", "FlexibleTimeWindow": {"Mode": "OFF"}, "Target": TARGET}
    assert scheduler._create_schedule("j-b1", request)[0] == status


@pytest.mark.parametrize(("resource", "called"), [(FUNCTION, True), (FUNCTION + "2", False)])
def test_a_workflow_calls_what_its_role_allows(resource: str, called: bool) -> None:
    calls: list[str] = []
    stepfunctions._call_lambda = lambda function, _event: calls.append(function)
    stepfunctions._run_execution = lambda _arn: stepfunctions._call_lambda(FUNCTION, {})
    stepfunctions._state_machines["m"] = {"roleArn": "arn:aws:iam::000000000000:role/workflow"}
    stepfunctions._executions["e"] = {"stateMachineArn": "m"}
    role("workflow", {"Effect": "Allow", "Action": "lambda:InvokeFunction", "Resource": resource})
    shims.workflows_call_under_their_role()
    if called:
        stepfunctions._run_execution("e")
    else:
        with pytest.raises(stepfunctions._ExecutionError, match="may not lambda:InvokeFunction"):
            stepfunctions._run_execution("e")
    assert calls == ([FUNCTION] if called else [])


def test_publishing_names_its_source_to_the_policy() -> None:
    shims.publishing_is_authorized_by_source()
    assert _keys("duebook", "duebook")["events:source"] == "duebook"
    assert _keys("duebook", "other")["events:source"] == ["duebook", "other"]


def _keys(*sources: str) -> dict[str, Any]:
    body = json.dumps({"Entries": [{"Source": source} for source in sources]}).encode()
    keys: dict[str, Any] = iam_actions.request_tag_context("events", "events:PutEvents", body, {})
    return keys
