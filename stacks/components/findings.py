"""Accepting findings of cdk-nag, one by one, at the resource and with the reason."""

from typing import Any

from aws_cdk import Acknowledgment, Stack, Validations
from constructs import Construct

ANY_RESOURCE = "AwsSolutions-IAM5[Resource::*]"


def accept(scope: Construct, finding: str, *, reason: str) -> None:
    """Accept one finding on this construct and what it contains."""
    Validations.of(scope).acknowledge(Acknowledgment(id=finding, reason=reason))


def wildcard_in(scope: Construct, resource: str) -> str:
    """The finding that a policy's resource has a wildcard. `resource` may hold tokens."""
    return f"AwsSolutions-IAM5[Resource::{_plain(Stack.of(scope).resolve(resource))}]"


def _plain(value: Any) -> str:
    """A resolved value as cdk-nag writes it: references as `<LogicalId>`."""
    if isinstance(value, str):
        return value
    if "Ref" in value:
        return f"<{value['Ref']}>"
    if "Fn::GetAtt" in value:
        return f"<{'.'.join(value['Fn::GetAtt'])}>"
    separator, parts = value["Fn::Join"]
    return str(separator).join(_plain(part) for part in parts)
