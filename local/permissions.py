"""What AWS checks when one service calls another, under MiniStack's own policy evaluation.

MiniStack evaluates the policies of whoever signs a request. A delivery is
signed by nobody here, so the role or resource policy that AWS would ask is
asked by these functions (for `local.shims`). Each returns the reason of a
refusal, or None.
"""

import json
from typing import Any

from ministack.core import iam_evaluator
from ministack.core.arn import parse_arn
from ministack.services import iam, sqs

SCHEDULER = "scheduler.amazonaws.com"
EVENTS = "events.amazonaws.com"


def schedule_may_deliver(*, target: dict[str, Any], schedule: dict[str, Any]) -> str | None:
    """Scheduler assumes the target's role for the schedule's GROUP, and the role sends the message.

    EventBridge Scheduler user guide, "Execution role" and "Confused deputy prevention".
    """
    spec = parse_arn(schedule["Arn"])
    group = f"arn:aws:scheduler:{spec.region}:{spec.account_id}:schedule-group/{schedule['GroupName']}"
    role = target["RoleArn"]
    refused = role_may_be_assumed(role, service=SCHEDULER, source=group, account=spec.account_id)
    if refused or ":sqs:" not in target["Arn"]:
        return refused
    if sqs._queue_by_arn(target["Arn"]) is None:
        return f"there is no queue {target['Arn']}"
    return role_allows(role, action="sqs:SendMessage", resource=target["Arn"])


def rule_may_deliver(*, target: dict[str, Any], rule: dict[str, Any]) -> str | None:
    """A rule sends to a queue whose policy lets it (EventBridge user guide, "Resource-based policies")."""
    if ":sqs:" not in target["Arn"]:
        return None
    account = parse_arn(rule["Arn"]).account_id
    if sqs.queue_policy_allows(target["Arn"], EVENTS, rule["Arn"], account):
        return None
    return f"the policy of {target['Arn']} does not let {rule['Arn']} send"


def role_may_be_assumed(role: str, *, service: str, source: str, account: str) -> str | None:
    """The role's trust policy lets `service` assume it on behalf of `source`."""
    found = _role(role)
    if found is None:
        return f"there is no role {role}"
    document = found["AssumeRolePolicyDocument"]
    trust = json.loads(document) if isinstance(document, str) else document
    keys = {"aws:sourcearn": source, "aws:sourceaccount": account}
    context = _context(role, action="sts:AssumeRole", resource=role, keys=keys)
    for statement in trust["Statement"]:
        named = iam_evaluator._service_principal_matches(statement.get("Principal"), service)
        if named and iam_evaluator._conditions_met(statement.get("Condition", {}), context):
            return None
    return f"the trust policy of {role} does not let {service} assume it for {source}"


def role_allows(role: str, *, action: str, resource: str, keys: dict[str, str] | None = None) -> str | None:
    """The role's own policies allow `action` on `resource`."""
    spec = parse_arn(role)
    policies = iam_evaluator._gather_role_policies(role.rsplit("/", 1)[-1], spec.account_id)
    context = _context(role, action=action, resource=resource, keys=keys or {})
    if iam_evaluator.evaluate(context, policies).decision == "Allow":
        return None
    return f"{role} may not {action} on {resource}"


def caller_may_pass(role: str, *, service: str) -> str | None:
    """Whoever signed the request in hand may pass `role` to `service` (IAM user guide, "Passing a role").

    Root may; a user's policies are not evaluated here.
    """
    caller = iam_evaluator.caller_arn()
    if ":assumed-role/" not in caller:
        return None
    name = iam_evaluator._role_name_from_assumed_arn(caller)
    own = f"arn:aws:iam::{parse_arn(caller).account_id}:role/{name}"
    return role_allows(own, action="iam:PassRole", resource=role, keys={"iam:passedtoservice": service})


def _role(arn: str) -> dict[str, Any] | None:
    account = parse_arn(arn).account_id
    found: dict[str, Any] | None = iam._roles.get_scoped(account, None, arn.rsplit("/", 1)[-1])
    return found


def _context(principal: str, *, action: str, resource: str, keys: dict[str, str]) -> Any:
    return iam_evaluator.EvalContext(
        principal_arn=principal,
        principal_type="AssumedRole",
        principal_account=parse_arn(principal).account_id,
        action=action,
        resource_arn=resource,
        region=parse_arn(resource).region,
        source_ip="127.0.0.1",
        secure_transport=True,
        service_context=keys,
    )
