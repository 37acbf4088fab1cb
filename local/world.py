"""Duebook deployed on the embedded AWS, as the marketplace and whoever holds the clock see it.

Everything acts and checks through the typed client and the events of the default queue. Beside them there are only
controls that a real account does not have (time) or that go behind the service's back (schedules, duplicate messages).
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3

from duebook_client import Duebook, EventReader, Job, NotFound, ReconcileReport
from local.deploy import Outputs, deploy
from local.emulator import REGION, EmbeddedAws, api_url
from local.inbox import Inbox
from local.stripe import LocalStripe

_POLICY = "PolicyArn"
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class WakeUp:
    """A message that says: look at this booking."""

    booking_id: str
    job: str
    generation: int


class World:
    """One deployment with its clock, a client that may call every route, and an inbox of its events."""

    def __init__(self, aws: EmbeddedAws, outputs: Outputs, stripe: LocalStripe | None = None) -> None:
        self.aws = aws
        self.stripe = stripe
        self.outputs = {name: value for stack in outputs.values() for name, value in stack.items()}
        self.url = api_url(aws, self.outputs["ApiUrl"])
        if stripe is not None:
            stripe.url = self.url
        self._root = aws.session()
        self._iam: Any = self._root.client("iam")
        self._sqs: Any = self._root.client("sqs")
        self._scheduler: Any = self._root.client("scheduler")
        self._clients: list[Duebook] = []
        self.watch: Callable[[datetime, datetime], None] = lambda now, goal: None
        marketplace = self.user("marketplace", *self.policies)
        self.client = self.client_of(marketplace)
        self.inbox = Inbox(EventReader(marketplace, self.outputs["EventsQueueUrl"]))

    # --- callers ---------------------------------------------------------------------------------------------------

    @property
    def policies(self) -> list[str]:
        """The managed policies that the stacks put out: one for each group of routes, and `EventsReader`."""
        return [name.removesuffix(_POLICY) for name in self.outputs if name.endswith(_POLICY)]

    def user(self, name: str, *policies: str) -> boto3.Session:
        """A new IAM user with these managed policies alone, as a session."""
        self._iam.create_user(UserName=name)
        for policy in policies:
            self._iam.attach_user_policy(UserName=name, PolicyArn=self.outputs[policy + _POLICY])
        key = self._iam.create_access_key(UserName=name)["AccessKey"]
        return self.aws.session(access_key=key["AccessKeyId"], secret_key=key["SecretAccessKey"])

    def client_of(self, session: boto3.Session) -> Duebook:
        """A client that calls as `session`. Closed with the world."""
        client = Duebook(self.url, region=REGION, session=session)
        self._clients.append(client)
        return client

    def close(self) -> None:
        """Close every client's connections."""
        for client in self._clients:
            client.close()

    # --- money -----------------------------------------------------------------------------------------------------

    def chef(self, chef_id: str) -> None:
        """A chef who can be paid: with Stripe that takes a connected account."""
        if self.stripe is not None:
            account = self.stripe.fake.state.account(f"acct_{chef_id.replace('-', '')}")
            self.client.call("PUT", f"/chefs/{chef_id}", body={"account": account, "enabled": True})

    def capture(self, booking_id: str, amount: int, currency: str, charge_ref: str) -> None:
        """The customer pays: with Stripe its signed event tells, else the marketplace."""
        if self.stripe is None:
            self.client.pay(booking_id, captured_minor=amount, charge_ref=charge_ref)
        elif (status := self.stripe.capture(booking_id, charge_ref, amount, currency)) != 200:
            raise AssertionError(f"the capture of {booking_id} was answered with {status}")

    # --- time ------------------------------------------------------------------------------------------------------

    @property
    def travels(self) -> bool:
        """Whether time can be moved; else it is real."""
        return self.aws.clock.travels

    def now(self) -> datetime:
        return self.aws.clock.now()

    def reach(self, instant: datetime) -> None:
        """Be at `instant`, with everything due until then done: by travelling, or by waiting where time is real.

        The inbox is read at every stop, because a queue keeps its messages for 14 days only.
        """
        while self.travels:
            self.settle()
            self.inbox.read()
            self.watch(self.now(), instant)
            upcoming = self.aws.next_instant()
            if upcoming is None or upcoming > instant:
                self.aws.clock.advance_to(instant)
                break
            self.aws.clock.advance_to(upcoming)
        while (left := instant - self.now()) > timedelta():
            self.watch(self.now(), instant)
            time.sleep(min(_POLL_SECONDS, left.total_seconds()))
        self.settle()
        self.inbox.read()

    def settle(self) -> None:
        """Wait until nothing moves any more without time passing."""
        self.aws.settle()

    def wait(self, condition: Callable[[], bool], *, within: timedelta = timedelta(seconds=60)) -> bool:
        """Wait for a condition, in real time and no longer than `within`; whether it came true."""
        end = time.monotonic() + within.total_seconds()
        while not condition():
            if time.monotonic() > end:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def reconcile(self) -> ReconcileReport:
        """Run a reconcile pass to its end. Raises TimeoutError."""
        begun = self.now()
        self.client.start_reconcile()

        def is_done() -> bool:
            try:
                report = self.client.reconcile_report()
            except NotFound:
                return False
            return report.is_done and report.started_at >= begun.replace(microsecond=0)

        if not self.wait(is_done, within=timedelta(minutes=5)):
            raise TimeoutError("the reconcile pass did not end within 5 minutes")
        return self.client.reconcile_report()

    # --- behind the service's back ---------------------------------------------------------------------------------

    def schedules(self) -> dict[str, datetime]:
        """Every schedule of the service's group by name, with its instant."""
        group = self.outputs["ScheduleGroup"]
        found = {}
        for page in self._scheduler.get_paginator("list_schedules").paginate(GroupName=group):
            for summary in page["Schedules"]:
                schedule = self._scheduler.get_schedule(GroupName=group, Name=summary["Name"])
                at = schedule["ScheduleExpression"].removeprefix("at(").removesuffix(")")
                found[summary["Name"]] = datetime.fromisoformat(at).replace(tzinfo=UTC)
        return found

    def schedules_of(self, booking_id: str) -> dict[str, datetime]:
        """The schedules of one booking by job."""
        suffix = f"-{booking_id}"
        return {
            name.removesuffix(suffix): at
            for name, at in self.schedules().items()
            if name.endswith(suffix) and "-" not in name.removesuffix(suffix)
        }

    def delete_all_schedules(self) -> int:
        """Delete every schedule of the group, as no operator should; how many there were."""
        names = list(self.schedules())
        for name in names:
            self._scheduler.delete_schedule(GroupName=self.outputs["ScheduleGroup"], Name=name)
        return len(names)

    def stop_daily_reconcile(self) -> None:
        """Switch off the daily pass, so that a difference can't be repaired before it is looked for."""
        events: Any = self._root.client("events")
        (daily,) = [rule["Name"] for rule in events.list_rules()["Rules"] if "ReconcileRule" in rule["Name"]]
        events.disable_rule(Name=daily)

    @contextmanager
    def paying(self, payments: str) -> Iterator[None]:
        """Let the functions that pay be told of another provider for a while, as a deployment of theirs would."""
        functions: Any = self._root.client("lambda")
        before = {
            alias: functions.get_function_configuration(FunctionName=alias)["Environment"]["Variables"]
            for alias in self._aliases(functions)
        }
        paying = {alias: settings for alias, settings in before.items() if "PAYMENTS" in settings}
        try:
            for alias, settings in paying.items():
                _publish(functions, alias, {**settings, "PAYMENTS": payments})
            yield
        finally:
            for alias, settings in paying.items():
                _publish(functions, alias, settings)

    def table(self) -> Any:
        """The table itself, for rows that nobody should touch."""
        return self._root.resource("dynamodb").Table(self.outputs["TableName"])

    @staticmethod
    def _aliases(functions: Any) -> list[str]:
        names = [function["FunctionName"] for function in functions.list_functions()["Functions"]]
        return [
            f"{name}:{alias['Name']}"
            for name in names
            for alias in functions.list_aliases(FunctionName=name)["Aliases"]
        ]

    def deliver(self, wake_ups: Iterable[WakeUp], *, after: timedelta = timedelta()) -> None:
        """Put wake-ups into their lanes' queues, just as a schedule would."""
        for wake_up in wake_ups:
            lane = "Payments" if wake_up.job.startswith("pay_") else "Lifecycle"
            body = {"booking_id": wake_up.booking_id, "job": wake_up.job, "generation": wake_up.generation}
            self.send(lane, json.dumps(body), after=after)

    def send(self, lane: str, body: str, *, after: timedelta = timedelta()) -> str:
        """Put any text into a lane's queue (`Lifecycle` or `Payments`); the message's id."""
        answer: Mapping[str, str] = self._sqs.send_message(
            QueueUrl=self.outputs[f"{lane}QueueUrl"], MessageBody=body, DelaySeconds=int(after.total_seconds())
        )
        return answer["MessageId"]


@contextmanager
def deployed(
    *,
    start_at: datetime | None = None,
    travel: bool = True,
    context: Mapping[str, str] | None = None,
    payments: str | None = None,
    quiet: bool = False,
) -> Iterator[World]:
    """A fresh embedded AWS with everything deployed, every function and caller under its own policies.

    `payments`: who moves money, by default the ledger; with `stripe` a stand-in for it runs beside the embedded AWS.
    It ends with the block, however the block ends.
    """
    with EmbeddedAws(start_at=start_at, travel=travel) as aws, ExitStack() as beside:
        stripe = beside.enter_context(LocalStripe(aws)) if payments == "stripe" else None
        paid = stripe.context if stripe is not None else {"payments": payments} if payments else {}
        world = World(aws, deploy(aws, context={**paid, **(context or {})}, quiet=quiet), stripe)
        try:
            yield world
        finally:
            world.close()


def _publish(functions: Any, alias: str, settings: Mapping[str, str]) -> None:
    """A new version with these settings, and the alias moved to it."""
    function, _, name = alias.partition(":")
    functions.update_function_configuration(FunctionName=function, Environment={"Variables": settings})
    version = functions.publish_version(FunctionName=function)["Version"]
    functions.update_alias(FunctionName=function, Name=name, FunctionVersion=version)


def schedule_instant(job: Job) -> datetime:
    """When a job's schedule stands: at its instant, rounded up to a whole minute (Scheduler's precision)."""
    minute = job.run_at.replace(second=0, microsecond=0)
    return minute if minute == job.run_at else minute + timedelta(minutes=1)
