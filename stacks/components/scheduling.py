"""EventBridge Scheduler: the group that holds the schedules, and the role with which they deliver."""

from collections.abc import Sequence

from aws_cdk import ArnFormat, Aws, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.components.findings import ANY_RESOURCE, accept, wildcard_in
from stacks.components.function import ServiceFunction
from stacks.components.lanes import may_send

_SERVICE = "scheduler.amazonaws.com"
_NAMES = "A schedule for each job: their names are not known beforehand, their group is."


class Scheduling(Construct):
    """The schedule group and its delivery role.

    The group's name is the only fixed physical name of the service beside those that people read (its alarms and its
    dashboard), and carries the environment: functions and the role's trust both have to know it. Scheduler assumes the
    role for a schedule of this group of this account only
    (EventBridge Scheduler user guide, "Confused deputy prevention": `aws:SourceArn` is the GROUP's ARN).
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        targets: Sequence[sqs.IQueue],
        dead_letters: sqs.IQueue,
    ) -> None:
        super().__init__(scope, id)
        self.dead_letters = dead_letters
        self.group = scheduler.ScheduleGroup(
            self, "Group", schedule_group_name=name, removal_policy=RemovalPolicy.DESTROY
        )
        self.role = iam.Role(
            self,
            "Role",
            description="EventBridge Scheduler wakes the lanes with it.",
            assumed_by=iam.ServicePrincipal(
                _SERVICE,
                conditions={
                    "StringEquals": {
                        "aws:SourceAccount": Aws.ACCOUNT_ID,
                        "aws:SourceArn": self.group.schedule_group_arn,
                    }
                },
            ),
        )
        self.role.add_to_policy(may_send(*targets, dead_letters))
        self._schedules = Stack.of(self).format_arn(
            service="scheduler",
            resource="schedule",
            resource_name=f"{name}/*",
            arn_format=ArnFormat.SLASH_RESOURCE_NAME,
        )

    def let_write(self, function: ServiceFunction) -> None:
        """The function may make, replace and delete schedules of the group, and hand them the role.

        Create and update each need `iam:PassRole` on the role (EventBridge Scheduler user guide, "Security").
        """
        function.allow(
            iam.PolicyStatement(
                actions=[
                    "scheduler:CreateSchedule",
                    "scheduler:UpdateSchedule",
                    "scheduler:DeleteSchedule",
                ],
                resources=[self._schedules],
            ),
            iam.PolicyStatement(
                actions=["iam:PassRole"],
                resources=[self.role.role_arn],
                conditions={"StringEquals": {"iam:PassedToService": _SERVICE}},
            ),
        )
        accept(function, wildcard_in(self, self._schedules), reason=_NAMES)

    def let_compare(self, function: ServiceFunction) -> None:
        """The function may list and read schedules. Listing knows no resource (Service Authorization Reference)."""
        function.allow(
            iam.PolicyStatement(actions=["scheduler:GetSchedule"], resources=[self._schedules]),
            iam.PolicyStatement(actions=["scheduler:ListSchedules"], resources=["*"]),
        )
        accept(function, wildcard_in(self, self._schedules), reason=_NAMES)
        accept(function, ANY_RESOURCE, reason="ListSchedules knows no resource.")
