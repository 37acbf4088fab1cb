"""Secrets that the deployer keeps in Secrets Manager: the stacks know their names, never what they hold."""

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct


def may_read_secret(scope: Construct, secret: str) -> iam.PolicyStatement:
    """Read one secret, given by its name or ARN; it has to be encrypted with the account's default key.

    An ARN ends in a hyphen and six characters that Secrets Manager chose; for a name they are left open, one by one,
    so that no longer name is taken in (Secrets Manager user guide, "IAM policy examples").
    """
    arn = (
        secret
        if secret.startswith("arn:")
        else Stack.of(scope).format_arn(
            service="secretsmanager",
            resource="secret",
            resource_name=f"{secret}-??????",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
    )
    return iam.PolicyStatement(actions=["secretsmanager:GetSecretValue"], resources=[arn])
