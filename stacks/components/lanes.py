"""Queues: each with its dead letters, and lanes that keep slow and fast work apart."""

from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.components.findings import accept

KEEP = Duration.days(14)
"""The longest that SQS keeps a message. A dead letter keeps its ORIGINAL enqueue time, so anything shorter loses it."""

VISIBILITY_FACTOR = 6
"""A queue hides a message for six times its function's timeout, as the Lambda guide asks for event sources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """How one kind of message is worked through: the function's timeout in seconds, batch and deliveries."""

    timeout: int
    batch: int = 10
    deliveries: int = 5

    @property
    def visibility(self) -> Duration:
        """How long a received message stays hidden."""
        return Duration.seconds(VISIBILITY_FACTOR * self.timeout)


LIFECYCLE = Work(timeout=30)
PAYMENTS = Work(timeout=60, batch=1)
PROJECTION = Work(timeout=30, deliveries=10)
RECORDING = Work(timeout=30, deliveries=100)
EVENTS = Work(timeout=30, deliveries=10)


def private_queue(
    scope: Construct, id: str, *, visibility: Duration, dead_letters: sqs.DeadLetterQueue | None = None
) -> sqs.Queue:
    """An encrypted queue that refuses plain HTTP and keeps messages as long as SQS can."""
    return sqs.Queue(
        scope,
        id,
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
        retention_period=KEEP,
        visibility_timeout=visibility,
        dead_letter_queue=dead_letters,
    )


def final_queue(scope: Construct, id: str, *, reason: str) -> sqs.Queue:
    """A queue where messages end: nothing consumes it, so it has no dead letters of its own."""
    queue = private_queue(scope, id, visibility=Duration.minutes(5))
    accept(queue, "AwsSolutions-SQS3", reason=reason)
    return queue


class WorkQueue(Construct):
    """A queue and its dead letters.

    `parked` takes dead letters that could not be recorded; without it the dead letters stay where they are.
    """

    def __init__(self, scope: Construct, id: str, *, work: Work, parked: sqs.Queue | None = None) -> None:
        super().__init__(scope, id)
        self.work = work
        self.dead_letters = private_queue(
            self,
            "DeadLetters",
            visibility=RECORDING.visibility,
            dead_letters=None
            if parked is None
            else sqs.DeadLetterQueue(queue=parked, max_receive_count=RECORDING.deliveries),
        )
        self.queue = private_queue(
            self,
            "Queue",
            visibility=work.visibility,
            dead_letters=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=work.deliveries),
        )


def may_send(*queues: sqs.IQueue) -> iam.PolicyStatement:
    """Put messages into these queues."""
    return iam.PolicyStatement(actions=["sqs:SendMessage"], resources=[queue.queue_arn for queue in queues])


def may_consume(*queues: sqs.IQueue) -> iam.PolicyStatement:
    """What Lambda's event source needs of its function's role.

    Source: Lambda developer guide, "Using Lambda with Amazon SQS", execution role permissions; the managed policy
    AWSLambdaSQSQueueExecutionRole has the same three.
    """
    return iam.PolicyStatement(
        actions=["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"],
        resources=[queue.queue_arn for queue in queues],
    )
