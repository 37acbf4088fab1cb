"""`ServiceFunction`: the one way in which this service makes a Lambda function."""

from collections.abc import Mapping

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from stacks.components.findings import ANY_RESOURCE, accept
from stacks.environments import Environment

ALIAS = "live"
"""What everything calls. It moves to a new version only once that exists, so a deployment strands no caller."""

_RETENTION = {7: logs.RetentionDays.ONE_WEEK, 30: logs.RetentionDays.ONE_MONTH, 365: logs.RetentionDays.ONE_YEAR}


def log_group(scope: Construct, id: str, *, environment: Environment) -> logs.LogGroup:
    """A log group with the environment's retention."""
    return logs.LogGroup(
        scope,
        id,
        retention=_RETENTION[environment.log_days],
        removal_policy=RemovalPolicy.RETAIN if environment.keep else RemovalPolicy.DESTROY,
    )


class ServiceFunction(Construct):
    """One handler file of `lambdas/duebook/handlers` as a function, with its own role, logs, traces and alias.

    `timeout` in seconds, `memory` in MB. The role can write this function's logs and traces and nothing else until
    `allow` is called. Sources and callers name the `alias`, never the function.

    `calls_itself`: it goes on by invoking itself, and counts its rounds. Lambda stops any other function after about
    16 invocations in one chain over Lambda, SQS, SNS or S3, an asynchronous one without a trace but a metric (Lambda
    developer guide, "Use Lambda recursive loop detection to prevent infinite loops").
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        handler: str,
        code: lambda_.Code,
        environment: Environment,
        settings: Mapping[str, str],
        timeout: int,
        memory: int = 512,
        calls_itself: bool = False,
    ) -> None:
        super().__init__(scope, id)
        own_logs = log_group(self, "Logs", environment=environment)
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        self.allow(
            iam.PolicyStatement(
                actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[own_logs.log_group_arn]
            )
        )
        self.function = lambda_.Function(
            self,
            "Function",
            handler=f"duebook.handlers.{handler}.handler",
            code=code,
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64,
            role=self.role,
            log_group=own_logs,
            tracing=lambda_.Tracing.ACTIVE,
            timeout=Duration.seconds(timeout),
            memory_size=memory,
            recursive_loop=lambda_.RecursiveLoop.ALLOW if calls_itself else None,
            environment={
                "LOG_LEVEL": environment.log_level,
                "POWERTOOLS_SERVICE_NAME": environment.service,
                **settings,
            },
        )
        self.alias = lambda_.Alias(self, "Alias", alias_name=ALIAS, version=self.function.current_version)
        accept(self, ANY_RESOURCE, reason="X-Ray's write actions know no resource.")
        accept(self, "AwsSolutions-L1", reason="The dependencies are pinned and tested for this runtime.")

    def go_live_after(self, *others: IConstruct) -> None:
        """The alias moves to its new version only when all of these are updated."""
        self.alias.node.add_dependency(*others)

    def tell(self, setting: str, value: str) -> None:
        """Set one more environment variable."""
        self.function.add_environment(setting, value)

    def allow(self, *statements: iam.PolicyStatement) -> None:
        """Add to what the function's role may do."""
        for statement in statements:
            self.role.add_to_policy(statement)
