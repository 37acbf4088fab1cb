"""What an invocation of each handler costs: memory, time and AWS calls.

Each handler runs in an interpreter of its own against the embedded AWS, whose answers are part of the times.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

from benchmarks.cold_import import HANDLERS, environment
from benchmarks.listing import TABLE, make_table
from duebook.adapters.table import DynamoTable
from duebook.domain.policy import Policy
from duebook.service.bookings import Bookings
from duebook.service.commands import Commands
from duebook.service.rows import Cause
from local.emulator import REGION, ROOT, EmbeddedAws

WARM = 5
"""Invocations after the first; their median counts."""
READ = "GetItem*"
"""A consistent one."""
TRANSACTION = "TransactWriteItems"
CASES = 11
_API = ("dynamodb", "lambda")
_MARK = "bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kind of invocation. `events`: the first is cold. `wanted`: the calls it must make, None: any."""

    handler: str
    what: str
    events: list[dict[str, Any]]
    wanted: Counter[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """`first_ms` has the connections to make; `calls` are those of the last one."""

    case: Case
    ready_ms: float
    memory_mb: float
    first_ms: float
    warm_ms: float
    calls: Counter[str] = field(default_factory=Counter)

    @property
    def passes(self) -> bool:
        return self.case.wanted is None or self.calls == self.case.wanted


class Bench:
    """The embedded AWS with the resources that the functions need, and bookings in every state."""

    def __init__(self, aws: EmbeddedAws) -> None:
        session = aws.session()
        self.dynamodb: Any = session.client("dynamodb")
        sqs, events, scheduler = session.client("sqs"), session.client("events"), session.client("scheduler")
        make_table(self.dynamodb)
        urls = {lane: sqs.create_queue(QueueName=f"{_MARK}-{lane}")["QueueUrl"] for lane in _QUEUES}
        arns = {
            lane: sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
            for lane, url in urls.items()
        }
        events.create_event_bus(Name=_MARK)
        scheduler.create_schedule_group(Name=_MARK)
        self.settings = {
            **{name: value for name, value in aws.env.items() if name.startswith("AWS_ENDPOINT")},
            **{f"{lane.upper()}_QUEUE_URL": url for lane, url in urls.items()},
            **{f"{lane.upper()}_QUEUE_ARN": arn for lane, arn in arns.items()},
            "TABLE_NAME": TABLE,
            "BUS_NAME": _MARK,
            "PAYMENTS": "ledger",
            "SCHEDULE_GROUP": _MARK,
            "SCHEDULE_ROLE_ARN": "arn:aws:iam::000000000000:role/bench",
            "SCHEDULE_DLQ_ARN": arns["payments"],
            "RECONCILER_FUNCTION": "bench",
            "AWS_REGION": REGION,
            "LOG_LEVEL": "INFO",
        }
        self.now = datetime.now(UTC)
        self.table = DynamoTable(self.dynamodb, TABLE)
        self._number = 0

    def paid(self, *, ended: timedelta) -> str:
        """A booking whose event ended so long ago (negative: will end), and that nothing has advanced since."""
        self._number += 1
        booking_id = f"{_MARK}-{self._number}"
        end = self.now - ended
        made = Commands(Bookings(self.table, lambda: end - timedelta(days=30)), Policy())
        made.put_booking(
            booking_id,
            {
                "customer_id": "customer",
                "chef_id": "chef",
                "event_start": (end - timedelta(hours=4)).isoformat(),
                "event_end": end.isoformat(),
                "price_minor": 100_000,
                "currency": "EUR",
            },
        )
        made.accept(booking_id, {}, None)
        made.pay(booking_id, {"captured_minor": 100_000, "charge_ref": f"charge-{booking_id}"}, None)
        return booking_id

    def paying(self) -> str:
        """A booking whose payout was just decided."""
        booking_id = self.paid(ended=timedelta(days=3))
        bookings = Bookings(self.table, lambda: self.now)
        bookings.change(booking_id, Cause(source="api"), lambda _booking, _now: None)
        return booking_id

    def image(self, booking_id: str, sk: str) -> dict[str, Any]:
        """A row as the stream shows it."""
        key = {"pk": {"S": booking_id}, "sk": {"S": sk}}
        found: dict[str, Any] = self.dynamodb.get_item(TableName=TABLE, Key=key)["Item"]
        return found


_QUEUES = ("lifecycle", "payments", "projection")


def cases(bench: Bench) -> list[Case]:
    """Every handler, in the order of the path that a wake-up takes."""
    count = 1 + WARM
    ahead = [bench.paid(ended=timedelta(days=-40)) for _ in range(count)]
    ended = [bench.paid(ended=timedelta(hours=1)) for _ in range(count)]
    paying = [bench.paying() for _ in range(count)]
    failing = [bench.paid(ended=timedelta(days=-40)) for _ in range(count)]
    start = bench.now + timedelta(days=90)
    put = [_put(f"{_MARK}-new-{number}", start) for number in range(count)]
    window = [_get(bench.now + timedelta(days=39), bench.now + timedelta(days=42))] * count
    tick = [{"detail-type": "Scheduled Event"}] * count
    return [
        Case(handler="api", what="PUT /bookings/{id}", events=put),
        Case(handler="api", what="GET /jobs, a window of 3 days", events=window),
        Case(
            handler="projector",
            what="a new job's schedule is made",
            events=[_change(bench, booking_id, "job#close_event") for booking_id in ahead],
        ),
        Case(
            handler="projector",
            what="bookkeeping on a job's row",
            events=[_change(bench, booking_id, "job#close_event", bookkeeping=True) for booking_id in ahead],
            wanted=Counter(),
        ),
        Case(
            handler="lifecycle_worker",
            what="a wake-up that changes nothing",
            events=[_wake(booking_id, "accept_request") for booking_id in ahead],
            wanted=Counter([READ]),
        ),
        Case(
            handler="lifecycle_worker",
            what="a transition: the event is closed",
            events=[_wake(booking_id, "close_event") for booking_id in ended],
            wanted=Counter([READ, TRANSACTION]),
        ),
        Case(
            handler="payments_worker",
            what="a payout: claimed, sent, recorded",
            events=[_wake(booking_id, "pay_1") for booking_id in paying],
        ),
        Case(
            handler="publisher",
            what="an event goes out",
            events=[_change(bench, booking_id, "history#0000000001") for booking_id in ahead],
        ),
        Case(
            handler="recorder",
            what="a dead letter is noted",
            events=[_wake(booking_id, "close_event", generation=3) for booking_id in failing],
        ),
        Case(handler="sweeper", what="a pass that finds what is overdue, then five that don't", events=tick),
        Case(handler="reconciler", what="a whole pass, a handful of bookings", events=[{}] * count),
    ]


def measure(step: Callable[[str], None]) -> list[Invocation]:
    """All cases. `step` is told what is being done, once a case."""
    with EmbeddedAws(auth=False, travel=False) as aws:
        bench = Bench(aws)
        found = []
        for case in cases(bench):
            step(f"{case.handler}: {case.what}")
            found.append(_run(case, bench.settings))
    return found


def _run(case: Case, settings: dict[str, str]) -> Invocation:
    services: Sequence[str] = HANDLERS.get(case.handler, _API)
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.child"],
        input=json.dumps({"handler": case.handler, "services": services, "events": case.events}),
        env=environment(**settings),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if child.returncode != 0:
        raise RuntimeError(f"{case.handler}: {case.what} failed:\n{child.stderr}\n{child.stdout[-2000:]}")
    told = json.loads(child.stdout.rstrip().rpartition("\n")[2])
    for event in told["events"]:
        _must_have_worked(case, event["answer"])
    first, *warm = told["events"]
    return Invocation(
        case=case,
        ready_ms=told["ready_ms"],
        memory_mb=told["memory_mb"],
        first_ms=first["ms"],
        warm_ms=median(event["ms"] for event in warm),
        calls=Counter(warm[-1]["calls"]),
    )


def _must_have_worked(case: Case, answer: dict[str, Any]) -> None:
    if answer.get("batchItemFailures") or answer.get("statusCode", 200) != 200:
        raise RuntimeError(f"{case.handler}: {case.what} was answered {answer}")


def _wake(booking_id: str, job: str, *, generation: int = 1) -> dict[str, Any]:
    body = {"booking_id": booking_id, "job": job, "generation": generation}
    arn = "arn:aws:sqs:eu-west-1:000000000000:bench-dead"
    record = {"messageId": "m-1", "eventSource": "aws:sqs", "eventSourceARN": arn, "messageAttributes": {}}
    return {"Records": [{**record, "body": json.dumps(body)}]}


def _change(bench: Bench, booking_id: str, sk: str, *, bookkeeping: bool = False) -> dict[str, Any]:
    image = bench.image(booking_id, sk)
    change: dict[str, Any] = {
        "Keys": {"pk": {"S": booking_id}, "sk": {"S": sk}},
        "NewImage": image,
        "SequenceNumber": "1",
    }
    if bookkeeping:
        change["OldImage"] = {**image, "attempts": {"N": "7"}}
    name = "MODIFY" if bookkeeping else "INSERT"
    return {"Records": [{"eventSource": "aws:dynamodb", "eventName": name, "dynamodb": change}]}


def _put(booking_id: str, start: datetime) -> dict[str, Any]:
    body = {
        "customer_id": "customer",
        "chef_id": "chef",
        "event_start": start.isoformat(),
        "price_minor": 100_000,
        "currency": "EUR",
    }
    return _request("PUT", f"/bookings/{booking_id}", body=body)


def _get(start: datetime, end: datetime) -> dict[str, Any]:
    times = {"from": f"{start:%Y-%m-%dT%H:%M:%SZ}", "to": f"{end:%Y-%m-%dT%H:%M:%SZ}"}
    return _request("GET", "/jobs", query=times)


def _request(
    method: str, path: str, *, body: dict[str, Any] | None = None, query: dict[str, str] | None = None
) -> dict[str, Any]:
    return {
        "version": "2.0",
        "routeKey": f"{method} {path}",
        "rawPath": path,
        "rawQueryString": "&".join(f"{name}={value}" for name, value in (query or {}).items()),
        "queryStringParameters": query or {},
        "headers": {"content-type": "application/json"},
        "requestContext": {
            "http": {"method": method, "path": path, "sourceIp": "127.0.0.1"},
            "requestId": "bench",
            "stage": "$default",
            "accountId": "000000000000",
        },
        "isBase64Encoded": False,
        **({} if body is None else {"body": json.dumps(body)}),
    }
