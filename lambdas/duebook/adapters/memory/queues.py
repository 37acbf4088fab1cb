"""SQS in memory: delay, visibility, receive counts, dead-letter queues, retention."""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Self

from duebook.adapters.memory.hook import FailingTwin, Hook, no_fault
from duebook.adapters.queues import delay_seconds, project_body, source_attribute
from duebook.domain.names import LANES
from duebook.service.ports import ScheduleRequest, WakeUp

Now = Callable[[], datetime]
Record = dict[str, Any]
REGION = "eu-west-1"


@dataclass(slots=True)
class Message:
    """One message of a queue, with what Lambda is told of it. `sent_at` is when it was first sent, to any queue."""

    message_id: str
    body: str
    sent_at: datetime
    visible_at: datetime
    attributes: Mapping[str, Any] = field(default_factory=dict)
    receives: int = 0
    came_from: str | None = None


class MemoryQueue:
    """One standard queue. `most_receives` receives without a delete move a message to `dead_letters`.

    A moved message keeps its ORIGINAL enqueue time, and retention counts from that (SQS developer guide, dead-letter
    queues). `expired` counts what retention deleted unread.
    """

    def __init__(
        self,
        name: str,
        now: Now,
        *,
        visibility: timedelta = timedelta(minutes=3),
        retention: timedelta = timedelta(days=14),
        most_receives: int = 5,
        dead_letters: Self | None = None,
    ) -> None:
        self.name = name
        self.arn = f"arn:aws:sqs:{REGION}:000000000000:{name}"
        self.expired = 0
        self._now = now
        self._visibility = visibility
        self._retention = retention
        self._most_receives = most_receives
        self._dead_letters = dead_letters
        self._sent = count(1)
        self._order = count()
        self._messages: dict[str, Message] = {}
        self._heap: list[tuple[datetime, int, str]] = []

    @property
    def messages(self) -> list[Message]:
        """What is in the queue, visible or not, in the order of arrival."""
        return list(self._messages.values())

    def __len__(self) -> int:
        return len(self._messages)

    def send(self, body: str, *, delay: timedelta = timedelta(), attributes: Mapping[str, Any] | None = None) -> str:
        """The message's id. Raises ValueError for a delay outside 0 to 15 min."""
        now = self._now()
        visible_at = now + timedelta(seconds=delay_seconds(delay))
        return self._put(Message(f"{self.name}-{next(self._sent)}", body, now, visible_at, attributes or {}))

    def receive(self, most: int = 10) -> list[Record]:
        """Visible messages as Lambda's records; each is hidden until it is deleted or its visibility ends."""
        now = self._now()
        records: list[Record] = []
        while len(records) < most and (at := self.next_at()) is not None and at <= now:
            message = self._messages[heapq.heappop(self._heap)[2]]
            if now - message.sent_at > self._retention:
                self.delete(message.message_id)
                self.expired += 1
            elif self._dead_letters is not None and message.receives >= self._most_receives:
                self.delete(message.message_id)
                self._dead_letters.take_over(message, self.arn)
            else:
                message.receives += 1
                self._hide(message, now + self._visibility)
                records.append(self._record(message))
        return records

    def delete(self, message_id: str) -> None:
        """Deleting what is gone is fine."""
        self._messages.pop(message_id, None)

    def finish(self, records: Sequence[Mapping[str, Any]], answer: Mapping[str, Any] | None) -> None:
        """What the event source mapping does with a partial batch response: an empty one or null deletes all."""
        failed = {failure["itemIdentifier"] for failure in (answer or {}).get("batchItemFailures") or ()}
        for record in records:
            if record["messageId"] not in failed:
                self.delete(record["messageId"])

    def next_at(self) -> datetime | None:
        """When the next message is visible; None when there is none."""
        while self._heap:
            at, _, message_id = self._heap[0]
            if message_id in self._messages:
                return at
            heapq.heappop(self._heap)
        return None

    def take_over(self, message: Message, came_from: str) -> None:
        """A dead-letter queue gets a message: same id, same enqueue time."""
        self._put(
            Message(
                message.message_id,
                message.body,
                message.sent_at,
                self._now(),
                message.attributes,
                message.receives,
                came_from,
            )
        )

    def _put(self, message: Message) -> str:
        self._messages[message.message_id] = message
        self._hide(message, message.visible_at)
        return message.message_id

    def _hide(self, message: Message, until: datetime) -> None:
        message.visible_at = until
        heapq.heappush(self._heap, (until, next(self._order), message.message_id))

    def _record(self, message: Message) -> Record:
        attributes = {
            name: {"stringValue": value["StringValue"], "dataType": value["DataType"]}
            for name, value in message.attributes.items()
        }
        dead = {"DeadLetterQueueSourceArn": message.came_from} if message.came_from else {}
        return {
            "messageId": message.message_id,
            "receiptHandle": f"{message.message_id}/{message.receives}",
            "body": message.body,
            "attributes": {
                "ApproximateReceiveCount": str(message.receives),
                "SentTimestamp": str(int(message.sent_at.timestamp() * 1000)),
                **dead,
            },
            "messageAttributes": attributes,
            "eventSource": "aws:sqs",
            "eventSourceARN": self.arn,
            "awsRegion": REGION,
        }


class MemoryQueues(FailingTwin):
    """The lanes' queues and the projection queue, each with its dead-letter queue."""

    name = "queues"

    def __init__(
        self,
        now: Now,
        lanes: Sequence[str] = LANES,
        *,
        visibility: timedelta = timedelta(minutes=3),
        most_receives: int = 5,
        hook: Hook = no_fault,
    ) -> None:
        super().__init__(hook)
        self.dead = {lane: MemoryQueue(f"{lane}-dead", now) for lane in lanes}
        self.lanes = {
            lane: MemoryQueue(
                lane, now, visibility=visibility, most_receives=most_receives, dead_letters=self.dead[lane]
            )
            for lane in lanes
        }
        self.projection_dead = MemoryQueue("projection-dead", now)
        self.projection = MemoryQueue(
            "projection", now, visibility=visibility, most_receives=most_receives, dead_letters=self.projection_dead
        )

    def wake(self, lane: str, wake_up: WakeUp, *, source: str, delay: timedelta = timedelta()) -> None:
        queue = self.lanes[lane]
        delay_seconds(delay)
        self._before("wake")
        queue.send(wake_up.body, delay=delay, attributes=source_attribute(source))
        self._after("wake")

    def project(self, booking_id: str, job: str) -> None:
        self._before("project")
        self.projection.send(project_body(booking_id, job))
        self._after("project")

    def fire(self, request: ScheduleRequest) -> None:
        """What Scheduler's templated SQS target sends: the input as the body, no attributes."""
        self.lanes[request.lane].send(request.wake_up.body)
