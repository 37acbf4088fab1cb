"""What AWS's documentation leaves open, asked of the account itself.

Each probe says what the design assumes, and why the other answer would do no harm either: the answer is printed, and
never fails the run. They work in a schedule group, two queues and a role of their own, made for the run and deleted
after it.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from duebook.adapters.schedules import EventBridgeSchedules
from duebook.service.ports import ScheduleRequest, WakeUp
from smoke.deployment import Deployment, gone, queue
from smoke.runner import Check, Steps, Wait

MINUTE = timedelta(minutes=1)
PATIENCE = 3 * MINUTE
"""After an instant: nothing that has not come by then is waited for."""
BERLIN = "Europe/Berlin"
_AT = "at(%Y-%m-%dT%H:%M:%S)"


@dataclass(frozen=True, slots=True)
class Heard:
    """A message of a probe's schedule. `at`: when its queue took it."""

    at: datetime
    say: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """`fact`: what is open. `assumes`: what the design builds on. `harmless`: why the other answer does no harm."""

    fact: str
    assumes: str
    harmless: str
    ask: "Callable[[Bench], Steps | str]"
    """Its course, or the answer itself where nothing has to be waited for."""


class Bench:
    """The probes' own schedule group, queues and role."""

    def __init__(self, deployment: Deployment, group: str, role: str, target: tuple[str, str], dead: tuple[str, str]):
        self.deployment = deployment
        self.group = group
        self.role = role
        self.target_url, self.target = target
        self.dead_url, self.dead = dead
        self.forbidden = f"{self.target}-not-allowed"
        """A queue that the role may not send to; there is none."""
        self.scheduler: Any = deployment.aws("scheduler")
        self._sqs: Any = deployment.aws("sqs")
        self._heard: dict[str, list[Heard]] = {}
        self._buried: list[dict[str, Any]] = []

    def now(self) -> datetime:
        return self.deployment.now()

    def request(
        self,
        name: str,
        at: datetime,
        *,
        say: str = "once",
        zone: str = "UTC",
        target: str | None = None,
    ) -> dict[str, Any]:
        """A schedule's request as the service makes them, at any second and in any zone."""
        return {
            "Name": name,
            "GroupName": self.group,
            "ScheduleExpression": at.strftime(_AT),
            "ScheduleExpressionTimezone": zone,
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "ActionAfterCompletion": "DELETE",
            "Target": {
                "Arn": target or self.target,
                "RoleArn": self.role,
                "Input": json.dumps({"probe": name, "say": say}),
                "RetryPolicy": {"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60},
                "DeadLetterConfig": {"Arn": self.dead},
            },
        }

    def heard(self, name: str) -> list[Heard]:
        """What came of a probe's schedule until now."""
        for message in self._receive(self.target_url):
            body = json.loads(message["Body"])
            at = datetime.fromtimestamp(int(message["Attributes"]["SentTimestamp"]) / 1000, UTC)
            self._heard.setdefault(body.get("probe", ""), []).append(Heard(at, body.get("say", "")))
        return self._heard.get(name, [])

    def buried(self) -> list[dict[str, Any]]:
        """What is in the dead letters."""
        self._buried += self._receive(self.dead_url)
        return self._buried

    def delivered(self, name: str, what: str, *, by: datetime) -> Wait:
        """Wait for a delivery, or for the instant after which none is expected any more."""
        return Wait(what=what, until=lambda: bool(self.heard(name)) or self.now() >= by, by=by + PATIENCE, wake=by)

    def _receive(self, url: str) -> list[dict[str, Any]]:
        answer = self._sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"], MessageAttributeNames=["All"]
        )
        messages: list[dict[str, Any]] = answer.get("Messages", [])
        for message in messages:
            self._sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return messages


# --- the probes ----------------------------------------------------------------------------------------------------


def new_role(bench: Bench) -> Steps:
    name, began, refusals = "new-role", bench.now(), list[str]()

    def accepted() -> bool:
        try:
            bench.scheduler.create_schedule(**bench.request(name, began + timedelta(days=30)))
        except ClientError as error:
            if _code(error) == "ConflictException":
                return True
            refusals.append(_code(error))
            return bench.now() >= began + 2 * MINUTE
        return True

    yield Wait(what="Scheduler takes the new role", until=accepted, by=began + PATIENCE)
    gone(lambda: bench.scheduler.delete_schedule(Name=name, GroupName=bench.group))
    took = (bench.now() - began).total_seconds()
    if not refusals:
        return "a role made seconds ago was accepted at once"
    return f"refused {len(refusals)} times with {', '.join(sorted(set(refusals)))}, then accepted after {took:.0f} s"


def seconds(bench: Bench) -> Steps:
    at = bench.deployment.in_minutes(1) + timedelta(seconds=40)
    bench.scheduler.create_schedule(**bench.request("seconds", at))
    yield bench.delivered("seconds", "a schedule with seconds fires", by=at + PATIENCE)
    return f"for {at:%H:%M:%S} it came {_came(bench.heard('seconds'), at)}"


def past(bench: Bench) -> Steps:
    at = bench.now() - 10 * MINUTE
    try:
        bench.scheduler.create_schedule(**bench.request("past", at))
    except ClientError as error:
        return f"refused with {_code(error)}: {error.response['Error'].get('Message', '')}"
    until = bench.now() + PATIENCE
    yield bench.delivered("past", "a schedule in the past fires", by=until)
    return f"accepted; for 10 minutes ago it came {_came(bench.heard('past'), at)}"


def zone(bench: Bench) -> Steps:
    at = bench.deployment.in_minutes(1)
    local = at.astimezone(ZoneInfo(BERLIN))
    try:
        bench.scheduler.create_schedule(**bench.request("zone", local, zone=BERLIN))
    except ClientError as error:
        return f"refused with {_code(error)}"
    yield bench.delivered("zone", "a schedule in local time fires", by=at + PATIENCE)
    came = bench.heard("zone")
    return f"for {local:%H:%M} in {BERLIN} it came {_came(came, at)}" + ("" if came else ": its zone was not honoured")


def clock_changes(bench: Bench) -> str:
    """The hour that is left out, and the one that comes twice, in next year's Berlin."""
    year = bench.now().year + 1
    found = []
    for what, at in (("missing", _last_sunday(year, 3)), ("double", _last_sunday(year, 10))):
        name = f"clock-{what}"
        try:
            bench.scheduler.create_schedule(**bench.request(name, at.replace(hour=2, minute=30), zone=BERLIN))
            shown = bench.scheduler.get_schedule(Name=name, GroupName=bench.group)["ScheduleExpression"]
            found.append(f"the {what} hour is accepted, and shown as {shown}")
        except ClientError as error:
            found.append(f"the {what} hour is refused with {_code(error)}")
        gone(lambda name=name: bench.scheduler.delete_schedule(Name=name, GroupName=bench.group))
    return "; ".join(found)


def late_update(bench: Bench) -> Steps:
    old, new = bench.deployment.in_minutes(1), bench.deployment.in_minutes(3)
    bench.scheduler.create_schedule(**bench.request("late-update", old, say="old"))
    change = old - timedelta(seconds=5)
    yield Wait(what="the instant is 5 s away", until=lambda: bench.now() >= change, by=change + PATIENCE, wake=change)
    try:
        bench.scheduler.update_schedule(**bench.request("late-update", new, say="new"))
    except ClientError as error:
        return f"the update was refused with {_code(error)}; heard: {_said(bench, 'late-update')}"
    end = new + PATIENCE
    yield Wait(
        what="the updated schedule fires",
        until=lambda: any(heard.say == "new" for heard in bench.heard("late-update")) or bench.now() >= end,
        by=end + PATIENCE,
        wake=end,
    )
    return f"moved 5 s before its instant: {_said(bench, 'late-update')}"


def undelivered(bench: Bench) -> Steps:
    at = bench.deployment.in_minutes(1)
    bench.scheduler.create_schedule(**bench.request("undelivered", at, target=bench.forbidden))
    end = at + 2 * PATIENCE
    yield Wait(
        what="a dead letter arrives",
        until=lambda: bool(bench.buried()) or bench.now() >= end,
        by=end + PATIENCE,
        wake=end,
    )
    if not bench.buried():
        return "nothing came into the dead letters"
    letter = bench.buried()[0]
    attributes = {name: value.get("StringValue", "") for name, value in letter.get("MessageAttributes", {}).items()}
    body = "the schedule's input as it is" if _is_input(letter["Body"]) else f"not the input: {letter['Body'][:200]}"
    code = attributes.get("ERROR_CODE", "none")
    return f"the body is {body}; attributes {', '.join(sorted(attributes))}; ERROR_CODE {code}"


def echo(bench: Bench) -> str:
    """Through the service's own adapter: what it sends is what it will compare."""
    recorder = _Recorder(bench.scheduler)
    lane = "lifecycle"
    schedules = EventBridgeSchedules(recorder, bench.group, bench.role, bench.dead, {lane: bench.target})
    wake_up = WakeUp(booking_id="probe", job="echo", generation=7)
    at = bench.deployment.in_minutes(60 * 24)
    request = ScheduleRequest(name="echo-probe", at=at, lane=lane, wake_up=wake_up)
    schedules.create(request)
    same = schedules.get(request.name) == request
    shown = bench.scheduler.get_schedule(Name=request.name, GroupName=bench.group)
    sent = _flat(recorder.sent)
    answered = _flat({name: value for name, value in shown.items() if name != "ResponseMetadata"})
    differing = [f"{name} {sent[name]!r} → {answered.get(name)!r}" for name in sent if answered.get(name) != sent[name]]
    more = sorted(answered.keys() - sent.keys())
    schedules.delete(request.name)
    told = f"differing: {'; '.join(differing)}" if differing else "every field came back as it was sent"
    return f"{told}; besides: {', '.join(more)}; the comparison finds {'no' if same else 'a'} difference"


def update_at_once(bench: Bench) -> str:
    far = bench.now() + timedelta(days=30)
    answers = []
    for number in range(5):
        name = f"at-once-{number}"
        bench.scheduler.create_schedule(**bench.request(name, far))
        try:
            bench.scheduler.update_schedule(**bench.request(name, far + MINUTE))
            answers.append("accepted")
        except ClientError as error:
            answers.append(_code(error))
        gone(lambda name=name: bench.scheduler.delete_schedule(Name=name, GroupName=bench.group))
    return f"of {len(answers)}: " + ", ".join(f"{answers.count(each)} {each}" for each in sorted(set(answers)))


def quota(bench: Bench) -> str:
    config = Config(connect_timeout=3, read_timeout=3, retries={"total_max_attempts": 1})
    client = bench.deployment.connection.session.client("service-quotas", config=config)
    try:
        found = client.list_service_quotas(ServiceCode="scheduler")["Quotas"]
    except (BotoCoreError, ClientError, KeyError) as error:
        return f"Service Quotas does not tell here: {str(error).splitlines()[0][:120]}"
    told = [f"{each['QuotaName']} {each['Value']:,.0f}" for each in found if "schedule" in each["QuotaName"].lower()]
    return "; ".join(told) or "Service Quotas lists none for Scheduler"


PROBES: tuple[Probe, ...] = (
    Probe(
        fact="Whether `at` with seconds fires at its second, or anywhere in its minute, even before",
        assumes="early is possible: an instant is a whole minute, rounded up",
        harmless="a worker that is woken early sends the wake-up again with the delay that is left",
        ask=seconds,
    ),
    Probe(
        fact="Whether a schedule made for a past instant fires",
        assumes="neither: what is past, or due within a minute, goes straight to its queue",
        harmless="no schedule is made for the past; one that becomes past while it is made is swept after 2 minutes",
        ask=past,
    ),
    Probe(
        fact="Whether `at` honours a time zone",
        assumes="nothing: every instant is sent in UTC",
        harmless="the zone sent is always UTC, where both readings are the same instant",
        ask=zone,
    ),
    Probe(
        fact="What `at` makes of a local time that a clock change leaves out or repeats",
        assumes="nothing: the service itself asks the caller which of the two is meant, and sends UTC",
        harmless="UTC has no such hour",
        ask=clock_changes,
    ),
    Probe(
        fact="Whether a schedule that is moved shortly before its instant still fires as it was",
        assumes="it may",
        harmless="a wake-up carries no instruction: the old one is one read of a booking that is not due",
        ask=late_update,
    ),
    Probe(
        fact="What Scheduler puts into a dead letter's body for a queue as the target",
        assumes="nothing: ids are in the input, and nobody reads these letters by machine",
        harmless="they raise an alarm and are never a verdict; the sweeper wakes the job meanwhile",
        ask=undelivered,
    ),
    Probe(
        fact="Whether GetSchedule shows each field as it was sent",
        assumes="it does: reconcile compares them",
        harmless="a field shown otherwise makes reconcile write the same schedule again, once a day, and say so",
        ask=echo,
    ),
    Probe(
        fact="Whether an update right after the create is refused with a conflict",
        assumes="it may be",
        harmless="the projection goes to its queue and is tried again from the row as it is then",
        ask=update_at_once,
    ),
    Probe(
        fact="How many schedules a region holds: texts differ between 1 and 10 million",
        assumes="a million is enough: one for each pending job that is not due at once",
        harmless="beyond the quota create is refused, and the sweeper wakes what has no schedule",
        ask=quota,
    ),
)
NEW_ROLE = Probe(
    fact="Whether a role made seconds ago is refused at first",
    assumes="it may be: the first refusals are tried again",
    harmless="after that the projection goes to its queue, where it is tried ten times",
    ask=new_role,
)
"""Asked before the others, which need the role."""


def checks(bench: Bench, probes: Sequence[Probe]) -> list[Check]:
    def begin(probe: Probe) -> Callable[[], Steps]:
        return lambda: _asked(probe, bench)

    return [Check(name=probe.fact, begin=begin(probe)) for probe in probes]


def _asked(probe: Probe, bench: Bench) -> Steps:
    answer = probe.ask(bench)
    return answer if isinstance(answer, str) else (yield from answer)


@contextmanager
def bench_of(deployment: Deployment, boundary: str | None = None) -> Iterator[Bench]:
    """Everything that the probes work in; deleted with the block. `boundary`: an ARN for the role's permissions
    boundary."""
    name = deployment.prefix
    scheduler, iam = deployment.aws("scheduler"), deployment.aws("iam")
    with queue(deployment, name) as target, queue(deployment, f"{name}-dead") as dead:
        group = scheduler.create_schedule_group(Name=name)["ScheduleGroupArn"]
        try:
            trust = {
                "Effect": "Allow",
                "Principal": {"Service": "scheduler.amazonaws.com"},
                "Action": "sts:AssumeRole",
                "Condition": {"StringEquals": {"aws:SourceAccount": deployment.account, "aws:SourceArn": group}},
            }
            send = {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": [target[1], dead[1]]}
            bounded = {"PermissionsBoundary": boundary} if boundary else {}
            role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=_document(trust), **bounded)["Role"]["Arn"]
            iam.put_role_policy(RoleName=name, PolicyName="send", PolicyDocument=_document(send))
            yield Bench(deployment, name, role, target, dead)
        finally:
            gone(lambda: scheduler.delete_schedule_group(Name=name))
            gone(lambda: iam.delete_role_policy(RoleName=name, PolicyName="send"))
            gone(lambda: iam.delete_role(RoleName=name))


# --- reading answers -----------------------------------------------------------------------------------------------


class _Recorder:
    """Scheduler's client, which remembers what it was asked to create."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.sent: dict[str, Any] = {}

    def create_schedule(self, **request: Any) -> Any:
        self.sent = request
        return self._client.create_schedule(**request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def _flat(value: dict[str, Any], before: str = "") -> dict[str, Any]:
    """`{"Target": {"Arn": …}}` → `{"Target.Arn": …}`."""
    flat: dict[str, Any] = {}
    for name, part in value.items():
        flat |= _flat(part, f"{before}{name}.") if isinstance(part, dict) else {f"{before}{name}": part}
    return flat


def _came(heard: Sequence[Heard], at: datetime) -> str:
    if not heard:
        return "not at all while it was waited for"
    left = (heard[0].at - at).total_seconds()
    more = f", and {len(heard) - 1} times more" if len(heard) > 1 else ""
    return f"{abs(left):.1f} s {'after' if left >= 0 else 'BEFORE'} it{more}"


def _said(bench: Bench, name: str) -> str:
    return " and then ".join(f"the {heard.say} one" for heard in bench.heard(name)) or "nothing came"


def _is_input(body: str) -> bool:
    try:
        return bool(json.loads(body)["probe"] == "undelivered")
    except (ValueError, KeyError, TypeError):
        return False


def _last_sunday(year: int, month: int) -> datetime:
    """When the clocks change in Berlin; March and October have 31 days."""
    last = datetime(year, month, 31, tzinfo=UTC)
    return last - timedelta(days=(last.weekday() + 1) % 7)


def _code(error: ClientError) -> str:
    return str(error.response["Error"]["Code"])


def _document(statement: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})
