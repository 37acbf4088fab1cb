"""What holds state: the table, the queues and the bus."""

from aws_cdk import CfnOutput, IStackSynthesizer, RemovalPolicies, Stack
from constructs import Construct

from stacks.components.events_out import EventsOut
from stacks.components.lanes import LIFECYCLE, PAYMENTS, PROJECTION, WorkQueue, final_queue
from stacks.components.storage import BookingTable
from stacks.environments import Environment

_HOLD_MESSAGES = ["AWS::Events::EventBus", "AWS::SQS::Queue"]
"""A wake-up that is lost is made up from its row; an event that waits for the marketplace, or a dead letter that waits
for a person, is nowhere else."""


class DataStack(Stack):
    """Kept when the app is replaced. Where the environment is kept, so is all that holds data or messages, whatever
    becomes of the stack; but what a first deployment that fails has made goes again."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        environment: Environment,
        synthesizer: IStackSynthesizer,
        termination_protection: bool,
    ) -> None:
        super().__init__(
            scope,
            id,
            description=f"Duebook ({environment.name}): table, queues, bus",
            synthesizer=synthesizer,
            termination_protection=termination_protection,
        )
        self.storage = BookingTable(self, "Bookings", keep=environment.keep)
        self.parked = final_queue(self, "Parked", reason="Dead letters that nobody could record end here.")
        self.lifecycle = WorkQueue(self, "Lifecycle", work=LIFECYCLE, parked=self.parked)
        self.payments = WorkQueue(self, "Payments", work=PAYMENTS, parked=self.parked)
        self.projection = WorkQueue(self, "Projection", work=PROJECTION)
        self.undelivered = final_queue(self, "Undelivered", reason="What Scheduler could not deliver ends here.")
        self.stream_failures = final_queue(self, "StreamFailures", reason="Positions in the stream that failed.")
        self.events = EventsOut(self, "Events")
        if environment.keep:
            RemovalPolicies.of(self).retain_on_update_or_delete(apply_to_resource_types=_HOLD_MESSAGES)
        outputs = {
            "BusName": self.events.bus.event_bus_name,
            "EventsQueueArn": self.events.default.queue.queue_arn,
            "EventsQueueUrl": self.events.default.queue.queue_url,
            "EventsReaderPolicyArn": self.events.reader_policy.managed_policy_arn,
            "LifecycleQueueUrl": self.lifecycle.queue.queue_url,
            "PaymentsQueueUrl": self.payments.queue.queue_url,
            "ProjectionQueueUrl": self.projection.queue.queue_url,
            "TableName": self.storage.table.table_name,
        }
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)
