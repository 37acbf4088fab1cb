"""The service's event bus and the queue on which the marketplace hears everything."""

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.components.lanes import EVENTS, WorkQueue

SOURCE = "duebook"
"""The `source` of every event of the service."""


class EventsOut(Construct):
    """A bus, and a default rule that puts every event of the service into a queue with dead letters.

    The dead letters hold both what EventBridge could not deliver in a day and what its reader gave up on.
    """

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        self.bus = events.EventBus(self, "Bus")
        self.default = WorkQueue(self, "Default", work=EVENTS)
        events.Rule(
            self,
            "DefaultRule",
            event_bus=self.bus,
            event_pattern=events.EventPattern(source=[SOURCE]),
            description="Every event of the service, to the queue that the marketplace reads.",
            targets=[
                targets.SqsQueue(
                    self.default.queue,
                    dead_letter_queue=self.default.dead_letters,
                    retry_attempts=185,
                    max_event_age=Duration.hours(24),
                )
            ],
        )
        self.reader_policy = iam.ManagedPolicy(
            self,
            "ReaderPolicy",
            description="Reads and deletes Duebook's events from the default queue.",
            statements=[
                iam.PolicyStatement(
                    actions=[
                        "sqs:ReceiveMessage",
                        "sqs:DeleteMessage",
                        "sqs:ChangeMessageVisibility",
                        "sqs:GetQueueAttributes",
                        "sqs:GetQueueUrl",
                    ],
                    resources=[self.default.queue.queue_arn],
                )
            ],
        )

    def may_publish(self) -> iam.PolicyStatement:
        """Put events on this bus. The condition key `events:source` is documented for rules; whether PutEvents
        evaluates it for a batch is not, so nothing leans on it."""
        return iam.PolicyStatement(actions=["events:PutEvents"], resources=[self.bus.event_bus_arn])
