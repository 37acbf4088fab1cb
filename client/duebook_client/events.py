"""The service's events, and a reader of the queue in which they arrive.

They arrive at least once and in no order: act on `id` once, and look at your own state first.
"""

import logging
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Protocol, Self, cast

from duebook_client.errors import BadAnswer, BadArgument, BadEvent
from duebook_client.fields import Fields, read_object

SCHEMA_VERSION = 1
"""Of the envelope. Fields may be added to it; a higher number means that a known one changed."""
LONGEST_WAIT = timedelta(seconds=20)
LARGEST_BATCH = 10
"""Limits of one ReceiveMessage (SQS API reference)."""

_logger = logging.getLogger("duebook_client")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a booking. `id` is the same each time it is delivered; `version` orders a booking's.

    `at`: when it happened; `due`: when it was to happen, if it had an instant; `state`: the booking's afterwards.
    """

    id: str
    schema_version: int
    type: str
    booking_id: str
    version: int
    at: datetime
    due: datetime | None
    job: str | None
    state: str | None
    data: Mapping[str, Any]
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def payload(self) -> Any:
        """Of `job.due`: the JSON that was given with the job, None where there was none."""
        return self.data.get("payload")

    @classmethod
    def from_sqs(cls, body: str | bytes) -> Self:
        """From the body of a message of the events queue. Raises `BadEvent`."""
        try:
            return cls.from_eventbridge(read_object(body, "the message"))
        except BadAnswer as error:
            raise BadEvent(str(error)) from None

    @classmethod
    def from_eventbridge(cls, event: Mapping[str, Any]) -> Self:
        """From an EventBridge event, as a function that is a rule's target gets it. Raises `BadEvent`."""
        try:
            envelope = Fields(event, "the event").part("detail")
            schema_version = envelope.whole("schema_version")
            if schema_version != SCHEMA_VERSION:
                raise BadEvent(f"schema_version is {schema_version}; this client knows {SCHEMA_VERSION}")
            return cls(
                id=envelope.text("id"),
                schema_version=schema_version,
                type=envelope.text("type"),
                booking_id=envelope.text("booking_id"),
                version=envelope.whole("version"),
                at=envelope.instant("at"),
                due=envelope.instant_or_none("due"),
                job=envelope.text_or_none("job"),
                state=envelope.text_or_none("state"),
                data=envelope.mapping("data"),
                raw=envelope.raw,
            )
        except BadAnswer as error:
            raise BadEvent(str(error)) from None


class SqsClient(Protocol):
    """What is needed of boto3's or botocore's SQS client."""

    def receive_message(self, **given: Any) -> Any: ...

    def delete_message(self, **given: Any) -> Any: ...

    def change_message_visibility(self, **given: Any) -> Any: ...


class Delivery:
    """One event as received. Use it as `with delivery as event:`; the message is deleted once the block succeeded.

    If the block raises, the message comes back when the queue's visibility time is over, and ends in the queue's dead
    letters after too many times.
    """

    def __init__(self, sqs: SqsClient, queue_url: str, receipt: str, event: Event) -> None:
        self._sqs = sqs
        self._queue_url = queue_url
        self._receipt = receipt
        self.event = event

    def __enter__(self) -> Event:
        return self.event

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._sqs.delete_message(QueueUrl=self._queue_url, ReceiptHandle=self._receipt)


class EventReader:
    """Reads the events queue by long polling.

    `session`: a boto3 or botocore session, whose endpoint settings (`AWS_ENDPOINT_URL`) and retries apply; `region`:
    None takes the session's. `sqs`: a client to use instead.
    """

    def __init__(
        self, session: Any, queue_url: str, *, region: str | None = None, sqs: SqsClient | None = None
    ) -> None:
        self._queue_url = queue_url
        self._sqs = sqs if sqs is not None else _sqs_client(session, region)

    def read(self, *, most: int = 100, wait: timedelta = LONGEST_WAIT) -> Iterator[Delivery]:
        """Deliveries until `most` messages were received or the queue stayed empty for `wait` (whole seconds).

        A message that is no event of a known schema is logged and left for the queue's dead letters; it holds up no
        other. What was received but not looked at, because the caller stopped, is given back at once.
        """
        if most < 1:
            raise BadArgument("most", "is 1 or more")
        if not timedelta() <= wait <= LONGEST_WAIT:
            raise BadArgument("wait", f"is 0 to {LONGEST_WAIT.seconds} seconds")
        return self._read(most, int(wait.total_seconds()))

    def _read(self, most: int, wait_seconds: int) -> Iterator[Delivery]:
        while most > 0:
            answer = self._sqs.receive_message(
                QueueUrl=self._queue_url, MaxNumberOfMessages=min(LARGEST_BATCH, most), WaitTimeSeconds=wait_seconds
            )
            messages = deque(answer.get("Messages", ()))
            if not messages:
                return
            most -= len(messages)
            try:
                while messages:
                    message = messages.popleft()
                    try:
                        event = Event.from_sqs(message["Body"])
                    except BadEvent as error:
                        _logger.error("message %s is left for the dead letters: %s", message.get("MessageId"), error)
                        continue
                    yield Delivery(self._sqs, self._queue_url, message["ReceiptHandle"], event)
            finally:
                for message in messages:
                    self._sqs.change_message_visibility(
                        QueueUrl=self._queue_url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
                    )


def _sqs_client(session: Any, region: str | None) -> SqsClient:
    make = session.client if hasattr(session, "client") else session.create_client
    return cast(SqsClient, make("sqs", region_name=region))
