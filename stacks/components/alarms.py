"""Alarms: each named after its runbook, each telling one topic when it begins and when it is over."""

from hashlib import sha256

from aws_cdk import ArnFormat, Aws, Duration, Stack, Tags
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from constructs import Construct

from stacks.environments import Environment

RUNBOOKS = "docs/runbooks"
SUM, MAXIMUM, SAMPLES = "Sum", "Maximum", "SampleCount"
MINUTE, HOUR = 60, 3600

MISSING = cloudwatch.TreatMissingData


class Alarms(Construct):
    """Every alarm of a deployment, and the topic.

    An alarm is called `duebook-<environment>-<runbook>`, with `.<subject>` where several share a runbook: the one name
    that a person woken by it reads. Its description says why it is as it is, where the runbook is, and first whether
    it may wake somebody: `[page]`, or `[ticket]` for what can wait until morning; a subscription may filter on that
    (SNS developer guide, "Message filtering": `MessageBody`, `prefix`).

    The topic's policy has to let CloudWatch in: with a policy of its own, which refuses plain HTTP, a topic no longer
    has the default one. It has no key: CloudWatch can't use the AWS managed one, a message tells no more than an
    alarm's name and state, and a customer's key costs more than all it hides.
    """

    def __init__(self, scope: Construct, id: str, *, environment: Environment) -> None:
        super().__init__(scope, id)
        self._environment = environment
        self.all: list[cloudwatch.Alarm] = []
        self.topic = sns.Topic(self, "Topic", enforce_ssl=True, display_name=environment.stack_prefix)
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="AlarmsOfThisDeployment",
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[self.topic.topic_arn],
                conditions={
                    "StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID},
                    "ArnLike": {
                        "aws:SourceArn": Stack.of(self).format_arn(
                            service="cloudwatch",
                            resource="alarm",
                            resource_name=f"{environment.service}-*",
                            arn_format=ArnFormat.COLON_RESOURCE_NAME,
                        )
                    },
                },
            )
        )
        for address in environment.alarm_emails:
            sns.Subscription(
                self,
                f"Mail{sha256(address.encode()).hexdigest()[:8]}",
                topic=self.topic,
                protocol=sns.SubscriptionProtocol.EMAIL,
                endpoint=address,
            )

    def own(self, name: str, *, statistic: str, period: int, kind: str | None = None) -> cloudwatch.Metric:
        """One of the service's own metrics, with the dimensions that `handlers/support.py` emits it with."""
        dimensions = {"service": self._environment.service} | ({"kind": kind} if kind else {})
        return metric("Duebook", name, dimensions, statistic=statistic, period=period)

    def watch(
        self,
        runbook: str,
        watched: cloudwatch.Metric,
        *,
        why: str,
        subject: str | None = None,
        at_least: float | None = None,
        below: float | None = None,
        periods: int = 1,
        of: int | None = None,
        missing: cloudwatch.TreatMissingData = MISSING.NOT_BREACHING,
        page: bool = False,
    ) -> None:
        """Alarm while `periods` (of the last `of`) are `at_least` or `below` the threshold."""
        severity = "page" if page else "ticket"
        threshold = at_least if at_least is not None else below
        assert threshold is not None
        name = runbook if subject is None else f"{runbook}.{subject}"
        alarm = cloudwatch.Alarm(
            self,
            "".join(part.capitalize() for part in name.replace(".", "-").replace("_", "-").split("-")),
            alarm_name=f"{self._environment.service}-{name}",
            alarm_description=f"[{severity}] {why} Runbook: {RUNBOOKS}/{runbook}.md",
            metric=watched,
            threshold=threshold,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
            if at_least is not None
            else cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            evaluation_periods=of or periods,
            datapoints_to_alarm=periods,
            treat_missing_data=missing,
        )
        Tags.of(alarm).add("severity", severity)
        tell = actions.SnsAction(self.topic)
        alarm.add_alarm_action(tell)
        alarm.add_ok_action(tell)
        self.all.append(alarm)


def metric(namespace: str, name: str, dimensions: dict[str, str], *, statistic: str, period: int) -> cloudwatch.Metric:
    """A metric; `period` in seconds."""
    return cloudwatch.Metric(
        namespace=namespace,
        metric_name=name,
        dimensions_map=dimensions,
        statistic=statistic,
        period=Duration.seconds(period),
    )
