"""The deployment under test: how it is called, what is heard of it, and what it is told about time."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from duebook_cli.connect import Connection
from duebook_client import Actor, Duebook, DuebookApiError, EventReader
from local.emulator import EmbeddedAws
from local.inbox import Inbox
from smoke.runner import Failed, Time

_POLL_SECONDS = 3.0
_CALM, _CALM_SECONDS = 100, 0.1
BUILT_IN = frozenset(
    {"reject_request", "cancel_unpaid", "close_event", "complete_order", "release_payment", "watch_dispute"}
)
"""Jobs that a caller can't delete: their booking has to end."""


class RealTime:
    """Time of an account: a check looks again after some seconds."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def rest(self, *, wake: datetime | None, by: datetime) -> None:
        until = by if wake is None else min(wake, by)
        time.sleep(max(0.0, min(_POLL_SECONDS, (until - self.now()).total_seconds())))


class TravellingTime:
    """Time of the embedded AWS: what is under way comes to rest, then on to the next instant at which anything
    happens."""

    def __init__(self, aws: EmbeddedAws) -> None:
        self._aws = aws
        self._is_at_rest = False
        self._calm = 0

    def now(self) -> datetime:
        return self._aws.clock.now()

    def rest(self, *, wake: datetime | None, by: datetime) -> None:
        if not self._is_at_rest:
            self._aws.settle()
            self._is_at_rest = True
            return
        stops = [at for at in (self._aws.next_instant(), wake) if at is not None and at < by]
        if not stops and self._calm < _CALM:  # what was invoked asynchronously shows nowhere until it begins
            self._calm += 1
            time.sleep(_CALM_SECONDS)
            return
        self._aws.clock.advance_to(min(stops, default=by))
        self._is_at_rest, self._calm = False, 0


class Deployment:
    """One environment, with ids and resources that begin with `name`: `smoke-<utc stamp>`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.client: Duebook = connection.client
        self.outputs: Mapping[str, str] = connection.outputs
        clock = connection.clock
        self.time: Time = RealTime()
        if clock is not None and clock.travels:
            self.time = TravellingTime(EmbeddedAws.attach(port=urlsplit(connection.url).port or 0))
        self.name = f"smoke-{self.time.now():%y%m%d%H%M%S}"
        self.prefix = f"duebook-{connection.env}-{self.name}"
        self.bookings: list[str] = []
        self.inbox: Inbox
        self._scheduler: Any = self.aws("scheduler")

    def aws(self, service: str) -> Any:
        """A client of an AWS service, as the caller."""
        return self.connection.session.client(service)  # type: ignore[call-overload]

    @property
    def account(self) -> str:
        return self.outputs["DisputeMachineArn"].split(":")[4]

    @property
    def partition(self) -> str:
        return self.outputs["DisputeMachineArn"].split(":")[1]

    @property
    def region(self) -> str:
        region = self.connection.session.region_name
        assert region is not None
        return region

    def now(self) -> datetime:
        return self.time.now()

    def id(self, what: str) -> str:
        """A booking id of this run, which is tidied up at its end."""
        booking_id = f"{self.name}-{what}"
        self.bookings.append(booking_id)
        return booking_id

    def in_minutes(self, minutes: int) -> datetime:
        """A whole minute, so many from now, rounded up as Scheduler's instants are."""
        return self.now().replace(second=0, microsecond=0) + timedelta(minutes=minutes + 1)

    def schedule_of(self, booking_id: str, job: str) -> datetime | None:
        """The instant of a job's schedule, None where there is none."""
        try:
            found = self._scheduler.get_schedule(GroupName=self.outputs["ScheduleGroup"], Name=f"{job}-{booking_id}")
        except self._scheduler.exceptions.ResourceNotFoundException:
            return None
        return datetime.fromisoformat(found["ScheduleExpression"][3:-1]).replace(tzinfo=UTC)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear this run's events in a queue of its own: whoever reads the default queue misses none of theirs."""
        with event_queue(self) as url:
            self.inbox = Inbox(EventReader(self.connection.session, url))
            yield


@contextmanager
def event_queue(deployment: Deployment) -> Iterator[str]:
    """A queue, its URL, with a rule on the service's bus that puts the events of this run into it."""
    events, bus, name = deployment.aws("events"), deployment.outputs["BusName"], f"{deployment.prefix}-events"
    rule = f"arn:{deployment.partition}:events:{deployment.region}:{deployment.account}:rule/{bus}/{name}"
    pattern = {"source": ["duebook"], "detail": {"booking_id": [{"prefix": deployment.name}]}}
    with queue(deployment, name, sender=("events.amazonaws.com", rule)) as (url, arn):
        events.put_rule(Name=name, EventBusName=bus, EventPattern=json.dumps(pattern))
        try:
            answer = events.put_targets(Rule=name, EventBusName=bus, Targets=[{"Id": "smoke", "Arn": arn}])
            if answer["FailedEntryCount"]:
                raise Failed(f"the events can't be heard: {answer['FailedEntries']}")
            yield url
        finally:
            gone(lambda: events.remove_targets(Rule=name, EventBusName=bus, Ids=["smoke"]))
            gone(lambda: events.delete_rule(Name=name, EventBusName=bus))


@contextmanager
def queue(deployment: Deployment, name: str, *, sender: tuple[str, str] | None = None) -> Iterator[tuple[str, str]]:
    """A queue of this run: its URL and ARN. `sender`: a service that may send to it on behalf of one ARN."""
    sqs = deployment.aws("sqs")
    arn = f"arn:{deployment.partition}:sqs:{deployment.region}:{deployment.account}:{name}"
    attributes = {"SqsManagedSseEnabled": "true", "MessageRetentionPeriod": "3600"}
    if sender is not None:
        service, source = sender
        statement = {
            "Effect": "Allow",
            "Principal": {"Service": service},
            "Action": "sqs:SendMessage",
            "Resource": arn,
            "Condition": {"ArnEquals": {"aws:SourceArn": source}},
        }
        attributes["Policy"] = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    url: str = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    try:
        yield url, arn
    finally:
        gone(lambda: sqs.delete_queue(QueueUrl=url))


def gone(delete: Any) -> None:
    """Delete something that may be gone already. What is left behind has the run's name."""
    with suppress(ClientError):
        delete()


def tidy(deployment: Deployment) -> list[str]:
    """End all that the run's bookings still have open; the ids that could not be ended.

    What a finished booking leaves are rows: its history, which nobody can delete.
    """
    left = []
    for booking_id in deployment.bookings:
        try:
            _end(deployment, booking_id)
        except DuebookApiError as error:
            if error.status != 404:
                left.append(f"{booking_id} ({error})")
    return left


def _end(deployment: Deployment, booking_id: str) -> None:
    client = deployment.client
    for job in client.jobs(booking_id):
        if job.lane == "lifecycle" and job.job not in BUILT_IN:
            client.delete_job(booking_id, job.job)
    if not client.jobs(booking_id):
        return
    booking = client.booking(booking_id)
    with suppress(DuebookApiError):  # there is none, or it is over
        client.withdraw(f"{booking_id}.d1", actor=Actor("customer", booking.customer_id))
    with suppress(DuebookApiError):  # it is over already
        client.cancel(booking_id, actor=Actor("operator", "smoke"), reason="the smoke test is over")
    for payment in client.payments(booking_id):
        if payment.status == "unknown":
            client.payment_result(payment.payment_id, status="done", provider_ref=f"{deployment.name}-tidied")
