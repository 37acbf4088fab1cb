"""Each permission of each role is needed: taken away, something that its function does fails; given back, it works.

What is granted is read from the running deployment, so a grant without a scenario fails here. Nothing runs by itself
meanwhile: the functions are called directly, with what would have woken them.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from duebook.service.ledger import CLOSE_PK, SETTLES
from duebook.service.reconcile import MOST_ROUNDS
from duebook.service.sweep import STATE
from local.world import World
from tests.end_to_end.conftest import PRICE

DAY = timedelta(days=1)
Grant = tuple[str, str, str]
"""Handler (or `workflow`), action, the resource in short."""
Act = Callable[[], None]
Scenario = Callable[["Bench", str], Act]
"""Prepares things about one booking id, with every permission; what it returns raises Denied, or does it."""

BY_LAMBDA = {
    **dict.fromkeys(
        ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"),
        "Lambda polls the queue with the function's role (Lambda developer guide, SQS event sources, execution role)",
    ),
    **dict.fromkeys(
        (
            "dynamodb:DescribeStream",
            "dynamodb:GetRecords",
            "dynamodb:GetShardIterator",
            "dynamodb:ListStreams",
        ),
        "Lambda polls the stream with the function's role (managed policy AWSLambdaDynamoDBExecutionRole)",
    ),
    **dict.fromkeys(
        ("logs:CreateLogStream", "logs:PutLogEvents"),
        "Lambda writes what the function prints with its role (managed policy AWSLambdaBasicExecutionRole)",
    ),
    **dict.fromkeys(
        ("xray:PutTraceSegments", "xray:PutTelemetryRecords"),
        "Lambda sends its traces with the function's role (managed policy AWSXRayDaemonWriteAccess)",
    ),
}
BY_STEP_FUNCTIONS = {
    **{
        f"logs:{action}": "Step Functions delivers the machine's log with its role (Step Functions guide, Logging)"
        for action in (
            *("CreateLogDelivery", "GetLogDelivery", "UpdateLogDelivery", "DeleteLogDelivery", "ListLogDeliveries"),
            *("PutResourcePolicy", "DescribeResourcePolicies", "DescribeLogGroups"),
        )
    },
    **{
        f"xray:{action}": "Step Functions sends traces with the machine's role (Step Functions guide, X-Ray)"
        for action in ("PutTraceSegments", "PutTelemetryRecords", "GetSamplingRules", "GetSamplingTargets")
    },
}
ELSEWHERE: Mapping[Grant, str] = {
    ("projector", "sqs:SendMessage", "StreamFailures"): "Lambda sends what it gave up (on-failure destination)",
    ("publisher", "sqs:SendMessage", "StreamFailures"): "Lambda sends what it gave up (on-failure destination)",
}
"""The emulator's own services act under no role, so these can't be taken away here; each with what needs it."""


class Denied(Exception):
    """The function did not do it."""


class Bench:
    """The functions of a deployment, each called by hand, and their roles."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.client = world.client
        session = world.aws.session()
        self.iam: Any = session.client("iam")
        self.functions: Any = session.client("lambda")
        self.states: Any = session.client("stepfunctions")
        self.images: Any = session.client("dynamodb")
        self.table = world.table()
        self.name = world.outputs["TableName"]
        found = self.functions.list_functions()["Functions"]
        self.qualifiers: dict[str, str] = {}
        self.by_handler = {f["Handler"].split(".")[2]: f for f in found if f["Handler"].startswith("duebook.handlers.")}
        self.roles = {handler: f["Role"].rsplit("/", 1)[-1] for handler, f in self.by_handler.items()}
        machine = self.states.describe_state_machine(stateMachineArn=world.outputs["DisputeMachineArn"])
        self.roles["workflow"] = machine["roleArn"].rsplit("/", 1)[-1]

    # --- permissions -----------------------------------------------------------------------------------------------

    def grants(self, handler: str) -> dict[Grant, tuple[str, str]]:
        """All that the role may do: in short, and (action, resource) as its policies have it."""
        role = self.roles[handler]
        assert self.iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"] == []
        found = {}
        for name in self.iam.list_role_policies(RoleName=role)["PolicyNames"]:
            document = self.iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
            for statement in document["Statement"]:
                assert statement["Effect"] == "Allow"
                for action in _many(statement["Action"]):
                    for resource in _many(statement["Resource"]):
                        found[handler, action, in_short(resource)] = (action, resource)
        return found

    @contextmanager
    def without(self, handler: str, action: str, resource: str) -> Iterator[None]:
        """The role lacks this one permission for as long as the block lasts."""
        role, name = self.roles[handler], f"without-{next(_NUMBERS)}"
        taken = {"Effect": "Deny", "Action": action, "Resource": resource}
        document = json.dumps({"Version": "2012-10-17", "Statement": [taken]})
        self.iam.put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=document)
        try:
            yield
        finally:
            self.iam.delete_role_policy(RoleName=role, PolicyName=name)

    @contextmanager
    def told(self, handler: str, setting: str, value: str) -> Iterator[None]:
        """The function is told another resource for as long as the block lasts; its role stays as it is."""
        name = self.by_handler[handler]["FunctionName"]
        before = self.functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        assert setting in before
        self.functions.update_function_configuration(
            FunctionName=name, Environment={"Variables": {**before, setting: value}}
        )
        self.qualifiers[handler] = "$LATEST"
        try:
            yield
        finally:
            del self.qualifiers[handler]
            self.functions.update_function_configuration(FunctionName=name, Environment={"Variables": before})

    # --- calls -----------------------------------------------------------------------------------------------------

    def invoke(self, handler: str, event: Mapping[str, Any]) -> Any:
        """What the function returns. Raises Denied for what it failed at."""
        answer = self.functions.invoke(
            FunctionName=self.by_handler[handler]["FunctionName"],
            Qualifier=self.qualifiers.get(handler, "live"),
            Payload=json.dumps(event).encode(),
        )
        told = json.loads(answer["Payload"].read() or b"null")
        if answer.get("FunctionError") or (told or {}).get("batchItemFailures"):
            raise Denied(str(told))
        return told

    def http(self, method: str, path: str, body: Any = None, query: Mapping[str, str] | None = None) -> Any:
        """What the API's function answers. Raises Denied for a 5xx; any other error is a mistake of the scenario."""
        event = {
            "version": "2.0",
            "rawPath": path,
            "rawQueryString": "",
            "queryStringParameters": dict(query or {}),
            "headers": {"content-type": "application/json"},
            "requestContext": {"http": {"method": method, "path": path}, "stage": "$default"},
            "body": None if body is None else json.dumps(body),
            "isBase64Encoded": False,
        }
        answer = self.invoke("api", event)
        if answer["statusCode"] >= 500:
            raise Denied(answer["body"])
        assert answer["statusCode"] < 300, answer
        return json.loads(answer["body"])

    def wake(self, handler: str, booking_id: str, job: str, generation: int = 1) -> Any:
        """A message of a lane's queue, or of its dead letters."""
        return self.invoke(handler, queued({"booking_id": booking_id, "job": job, "generation": generation}))

    def project(self, booking_id: str, job: str) -> Any:
        return self.invoke("projector", queued({"booking_id": booking_id, "job": job}))

    # --- things ----------------------------------------------------------------------------------------------------

    def ends_ago(self, booking_id: str, ago: timedelta, **more: Any) -> None:
        """A paid booking whose event ended so long ago, as one that is taken over from elsewhere."""
        now = self.world.now().replace(microsecond=0)
        self.http(
            "PUT",
            f"/bookings/{booking_id}",
            {
                "customer_id": "customer-1",
                "chef_id": f"chef-{booking_id}",
                "event_start": (now - ago - timedelta(hours=2)).isoformat(),
                "event_end": (now - ago).isoformat(),
                "price_minor": PRICE,
                "currency": "EUR",
                "state": "paid",
                "paid_at": (now - ago - 9 * DAY).isoformat(),
                "requested_at": (now - ago - 9 * DAY).isoformat(),
                "captured_minor": PRICE,
                "charge_ref": f"ch-{booking_id}",
                **more,
            },
        )

    def job(self, booking_id: str, job: str, at: timedelta) -> None:
        """An own job, so far from now."""
        run_at = (self.world.now() + at).isoformat()
        self.http("PUT", f"/bookings/{booking_id}/jobs/{job}", {"run_at": run_at})

    def row(self, booking_id: str, sk: str) -> Any:
        return self.table.get_item(Key={"pk": booking_id, "sk": sk}, ConsistentRead=True).get("Item")

    def clear(self) -> None:
        """Empty the table, so that a pass over all of it is a short one."""
        with self.table.batch_writer() as batch:
            for page in self.images.get_paginator("scan").paginate(TableName=self.name, ProjectionExpression="pk, sk"):
                for key in page["Items"]:
                    batch.delete_item(Key={name: value["S"] for name, value in key.items()})

    def payout(self, booking_id: str) -> None:
        """A payout that is decided and due, nothing sent yet."""
        self.ends_ago(booking_id, 9 * DAY)
        self.wake("lifecycle_worker", booking_id, "close_event")
        assert self.row(booking_id, "job#pay_1")

    def dispute(self, booking_id: str) -> str:
        """An opened dispute's id; its workflow is not started."""
        self.ends_ago(booking_id, timedelta(hours=1))
        claim = {"reason": "cold", "text": "all of it", "claimed_minor": 1_000}
        actor = {"role": "customer", "id": "customer-1"}
        opened = self.http("POST", f"/bookings/{booking_id}/disputes", {**claim, "actor": actor})
        return str(opened["dispute_id"])

    def asked(self, booking_id: str) -> str:
        """A dispute whose workflow waits for the chef."""
        dispute_id = self.dispute(booking_id)
        self.project(booking_id, "watch_dispute")
        assert self.world.wait(lambda: self.row(booking_id, f"token#{dispute_id}") is not None)
        return dispute_id

    def reply(self, booking_id: str, dispute_id: str) -> Any:
        chef = {"role": "chef", "id": f"chef-{booking_id}"}
        return self.http("POST", f"/disputes/{dispute_id}/reply", {"answer": "concede", "actor": chef})

    def later(self, by: timedelta) -> None:
        self.world.aws.clock.advance_to(self.world.now() + by)


_NUMBERS = count(1)


def _many(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def in_short(arn: str) -> str:
    """`table`, `index/due`, a queue or function by its name in the stacks, else the service's kind of thing."""
    service = arn.split(":")[2] if arn.count(":") > 4 else arn
    last = re.split(r"[:/]", arn)[-1]
    match service:
        case "dynamodb" if "/index/" in arn:
            return f"index/{last}"
        case "dynamodb":
            return "stream" if "/stream/" in arn else "table"
        case "sqs" | "lambda":
            name = arn.split(":")[5 if service == "sqs" else 6]
            return re.sub(r"^Duebook-[a-z]+-(Data|App)-|[0-9A-F]{8}.*$", "", name)
        case _:
            return service


def queued(body: Any) -> dict[str, Any]:
    """One message as Lambda's event source hands it over."""
    text = body if isinstance(body, str) else json.dumps(body)
    record = {
        "messageId": f"m-{next(_NUMBERS)}",
        "body": text,
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:eu-west-1:000000000000:dead",
        "messageAttributes": {},
    }
    return {"Records": [record]}


@pytest.fixture(scope="module")
def bench(rough_world: World) -> Iterator[Bench]:
    """Nothing wakes a function by itself."""
    session = rough_world.aws.session()
    functions: Any = session.client("lambda")
    events: Any = session.client("events")
    mappings = functions.list_event_source_mappings()["EventSourceMappings"]
    rules = [rule["Name"] for rule in events.list_rules()["Rules"] if "ScheduleExpression" in rule]
    rough_world.settle()
    for mapping in mappings:
        functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    for rule in rules:
        events.disable_rule(Name=rule)
    yield Bench(rough_world)
    for mapping in mappings:
        functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=True)


# --- a scenario for each grant -------------------------------------------------------------------------------------


def api(method: str, path: str, body: Any = None, **query: str) -> Scenario:
    """One request; `{id}` in its path is the scenario's booking, which was just taken over as paid."""

    def prepare(bench: Bench, id: str) -> Act:
        bench.ends_ago(id, timedelta(hours=1))
        return lambda: bench.http(method, path.format(id=id), body, query)

    return prepare


def look_at_nothing(handler: str) -> Scenario:
    """A wake-up for a booking that is not there: one read, and it is ignored."""

    def prepare(bench: Bench, id: str) -> Act:
        return lambda: bench.wake(handler, id, "close_event")

    return prepare


def api_makes_a_booking(bench: Bench, id: str) -> Act:
    return lambda: bench.ends_ago(id, timedelta(hours=1))


def api_removes_a_job(bench: Bench, id: str) -> Act:
    bench.job(id, "remind", DAY)
    return lambda: bench.http("DELETE", f"/bookings/{id}/jobs/remind")


def api_answers_a_waiting_workflow(bench: Bench, id: str) -> Act:
    dispute_id = bench.asked(id)
    return lambda: bench.reply(id, dispute_id)


def api_tells_a_workflow(bench: Bench, id: str) -> Act:
    dispute_id = bench.asked(id)

    def act() -> None:
        told = bench.http("GET", f"/disputes/{dispute_id}/history")
        if any("AWS did not give it" in entry["text"] for entry in told["history"]):
            raise Denied(str(told))

    return act


def steps_look(bench: Bench, id: str) -> Act:
    """The first look asks the chef, which is a change of the booking and of its job."""
    dispute_id = bench.dispute(id)
    return lambda: bench.invoke("dispute", {"action": "look", "dispute_id": dispute_id, "run": 1})


def steps_notify(bench: Bench, id: str) -> Act:
    steps_look(bench, id)()
    said = {"action": "notify", "dispute_id": f"{id}.d1", "run": 1, "stage": "ask", "token": "t" * 20}
    return lambda: bench.invoke("dispute", said)


def steps_notify_of_what_is_answered(bench: Bench, id: str) -> Act:
    """The token is a real one: whose machine it is decides what may be done with it."""
    dispute_id = bench.asked(id)
    token = bench.row(id, f"token#{dispute_id}")["token"]
    # Another run than the row's: nobody is waited for.
    said = {"action": "notify", "dispute_id": dispute_id, "run": 7, "stage": "ask", "token": token}
    return lambda: bench.invoke("dispute", said)


def steps_settle(bench: Bench, id: str) -> Act:
    steps_look(bench, id)()
    bench.reply(id, f"{id}.d1")
    return lambda: bench.invoke("dispute", {"action": "settle", "dispute_id": f"{id}.d1", "run": 1})


def worker_catches_up(bench: Bench, id: str) -> Act:
    """Closed, completed, and the payout decided: rows are put, jobs removed, and one appears."""
    bench.ends_ago(id, 9 * DAY)
    return lambda: bench.wake("lifecycle_worker", id, "close_event")


def wakes_early(at: timedelta) -> Scenario:
    def prepare(bench: Bench, id: str) -> Act:
        bench.job(id, "remind", at)
        return lambda: bench.wake("lifecycle_worker", id, "remind")

    return prepare


def worker_looks_after_a_workflow_that_is_gone(bench: Bench, id: str) -> Act:
    bench.dispute(id)
    bench.later(timedelta(minutes=20))
    return lambda: bench.wake("lifecycle_worker", id, "watch_dispute")


def worker_wakes_a_workflow_that_was_not_told(bench: Bench, id: str) -> Act:
    """The chef's answer was committed, and its sending failed."""
    dispute_id = bench.asked(id)
    (taken,) = [real for short, real in bench.grants("api").items() if short[1] == "states:SendTaskSuccess"]
    with bench.without("api", *taken), suppress(Denied):
        bench.reply(id, dispute_id)
    bench.later(timedelta(minutes=20))
    return lambda: bench.wake("lifecycle_worker", id, "watch_dispute")


def payer_pays(bench: Bench, id: str) -> Act:
    bench.payout(id)
    return lambda: bench.wake("payments_worker", id, "pay_1")


def payer_looks_up(bench: Bench, id: str) -> Act:
    """A payment whose end could not be recorded, so long ago that its key may be forgotten."""
    payer_is_cut_off(bench, id)
    bench.later(2 * DAY)
    return lambda: bench.wake("payments_worker", id, "pay_1")


def payer_is_cut_off(bench: Bench, id: str) -> None:
    """It was claimed, and the answer was not recorded."""
    bench.payout(id)
    (taken,) = [real for short, real in bench.grants("payments_worker").items() if short[1] == "dynamodb:DeleteItem"]
    with bench.without("payments_worker", *taken), suppress(Denied):
        bench.wake("payments_worker", id, "pay_1")
    assert bench.row(id, f"payment#{id}.p1")["status"] == "unknown"


def payer_waits_out_a_lease(bench: Bench, id: str) -> Act:
    payer_is_cut_off(bench, id)
    return lambda: bench.wake("payments_worker", id, "pay_1")


def payer_looks_at_what_is_parked(bench: Bench, id: str) -> Act:
    bench.payout(id)
    bench.http("POST", f"/chefs/chef-{id}/hold", {})
    bench.wake("payments_worker", id, "pay_1")
    return lambda: bench.wake("payments_worker", id, "pay_1")


def projects(at: timedelta) -> Scenario:
    """A job, so far from now: further than a minute it is a schedule, else a message."""

    def prepare(bench: Bench, id: str) -> Act:
        bench.job(id, "remind", at)
        return lambda: bench.project(id, "remind")

    return prepare


def projector_removes(bench: Bench, id: str) -> Act:
    return lambda: bench.project(id, "remind")


def projector_sends_a_payment(bench: Bench, id: str) -> Act:
    bench.payout(id)
    return lambda: bench.project(id, "pay_1")


def projector_puts_off(bench: Bench, id: str) -> Act:
    """What fails in the stream goes to the projection queue: here it may not even read the row."""
    change = {"Keys": {"pk": {"S": id}, "sk": {"S": "job#remind"}}, "SequenceNumber": "1"}
    new = {"generation": {"N": "1"}, "status": {"S": "pending"}}
    record = {"eventSource": "aws:dynamodb", "eventName": "INSERT", "dynamodb": {**change, "NewImage": new}}
    (taken,) = [real for short, real in bench.grants("projector").items() if short[1] == "dynamodb:GetItem"]

    def act() -> None:
        with bench.without("projector", *taken):
            bench.invoke("projector", {"Records": [record]})

    return act


def projector_starts_a_workflow(bench: Bench, id: str) -> Act:
    bench.dispute(id)
    return lambda: bench.project(id, "watch_dispute")


def publisher_publishes(bench: Bench, id: str) -> Act:
    bench.ends_ago(id, timedelta(hours=1))
    key = {"pk": {"S": id}, "sk": {"S": "history#0000000001"}}
    image = bench.images.get_item(TableName=bench.name, Key=key)["Item"]
    change = {"Keys": key, "NewImage": image, "SequenceNumber": "1"}

    def act() -> None:
        bench.invoke("publisher", {"Records": [{"eventName": "INSERT", "dynamodb": change}]})
        if "published_at" not in bench.row(id, "history#0000000001"):
            raise Denied("not published")

    return act


def recorder_notes_a_failure(bench: Bench, id: str) -> Act:
    bench.job(id, "remind", DAY)
    return lambda: bench.wake("recorder", id, "remind")


def recorder_keeps_poison(bench: Bench, id: str) -> Act:
    return lambda: bench.invoke("recorder", queued("poison"))


def sweeps(bench: Bench, id: str) -> Act:
    """Something overdue, something unpublished, and more than a day since the last look."""
    bench.clear()
    bench.job(id, "remind", timedelta())
    return _sweeps(bench)


def sweeps_a_payment(bench: Bench, id: str) -> Act:
    bench.clear()
    bench.payout(id)
    return _sweeps(bench)


def _sweeps(bench: Bench) -> Act:
    bench.later(timedelta(minutes=3))
    clean = (bench.world.now() - 3 * DAY).date().isoformat()
    bench.table.put_item(Item={"pk": STATE[0], "sk": STATE[1], "clean_before": clean})

    def act() -> None:
        swept = bench.invoke("sweeper", {})
        if swept["unpublished"]:
            raise Denied(str(swept))

    return act


def reconciles(phase: str) -> Scenario:
    """From this phase on, in which a refusal is one of the first chunk: later it would only end the round.

    A job row is lost, another one is nobody's, a schedule is missing, a day is not closed.
    """

    def prepare(bench: Bench, id: str) -> Act:
        bench.clear()
        now = bench.world.now()
        day = (now - SETTLES).date() - DAY
        before = (day - DAY).isoformat()
        bench.table.put_item(Item={"pk": CLOSE_PK, "sk": f"close#{before}", "day": before, "closing": {}})
        bench.job(id, "remind", DAY)
        bench.job(id, "menu", DAY)
        wrong = bench.row(id, "job#remind")
        bench.table.delete_item(Key={"pk": id, "sk": "job#remind"})
        bench.table.put_item(Item={**wrong, "sk": "job#stray", "job": "stray"})

        def act() -> None:
            told = bench.invoke("reconciler", {"state": {"run": id, "started_at": now.isoformat(), "phase": phase}})
            if told["phase"] != "done" or bench.row(CLOSE_PK, f"close#{day}") is None:
                raise Denied(str(told))

        return act

    return prepare


def reconciler_goes_on(bench: Bench, id: str) -> Act:
    """With less time than a chunk takes it invokes itself at once; here in its last round but one."""
    function = bench.by_handler["reconciler"]["FunctionName"]
    report = {"run": id, "started_at": bench.world.now().isoformat(), "rounds": MOST_ROUNDS - 2}

    def act() -> None:
        before = bench.functions.get_function_configuration(FunctionName=function)["Timeout"]
        _limit(bench, function, 40)
        try:
            bench.invoke("reconciler", {"state": report})
        finally:
            _limit(bench, function, before)

    return act


def _limit(bench: Bench, function: str, seconds: int) -> None:
    """A new version with another time-out, and the alias moved to it."""
    bench.functions.update_function_configuration(FunctionName=function, Timeout=seconds)
    version = bench.functions.publish_version(FunctionName=function)["Version"]
    bench.functions.update_alias(FunctionName=function, Name="live", FunctionVersion=version)


def workflow_runs(bench: Bench, id: str) -> Act:
    dispute_id = bench.dispute(id)

    def act() -> None:
        started = bench.states.start_execution(
            stateMachineArn=bench.world.outputs["DisputeMachineArn"],
            name=f"{id}-{next(_NUMBERS)}",
            input=json.dumps({"dispute_id": dispute_id, "run": 1}),
        )
        arn = started["executionArn"]

        def events() -> set[str]:
            return {event["type"] for event in bench.states.get_execution_history(executionArn=arn)["events"]}

        done = {"TaskSucceeded", "LambdaFunctionSucceeded"}
        failed = {"TaskFailed", "LambdaFunctionFailed", "ExecutionFailed"}
        assert bench.world.wait(lambda: bool(events() & (done | failed)))
        found = events()
        bench.states.stop_execution(executionArn=arn)
        if not found & done:
            raise Denied(str(found))

    return act


WINDOW = {"from": "2026-08-01T00:00:00Z", "to": "2026-08-20T00:00:00Z"}
SCENARIOS: Mapping[Grant, Scenario] = {
    ("api", "dynamodb:GetItem", "table"): api("GET", "/bookings/{id}"),
    ("api", "dynamodb:Query", "table"): api("GET", "/bookings/{id}/payments"),
    ("api", "dynamodb:Query", "index/due"): api("GET", "/jobs", **WINDOW),
    ("api", "dynamodb:Query", "index/attention"): api("GET", "/dead-letters"),
    ("api", "dynamodb:Query", "index/day"): api("GET", "/ledger/trial-balance", day="2026-08-01"),
    ("api", "dynamodb:PutItem", "table"): api_makes_a_booking,
    ("api", "dynamodb:UpdateItem", "table"): api_makes_a_booking,
    ("api", "dynamodb:DeleteItem", "table"): api_removes_a_job,
    ("api", "states:SendTaskSuccess", "states"): api_answers_a_waiting_workflow,
    ("api", "states:GetExecutionHistory", "states"): api_tells_a_workflow,
    ("dispute", "dynamodb:GetItem", "table"): steps_look,
    ("dispute", "dynamodb:PutItem", "table"): steps_look,
    ("dispute", "dynamodb:UpdateItem", "table"): steps_look,
    ("dispute", "dynamodb:ConditionCheckItem", "table"): steps_notify,
    ("dispute", "dynamodb:DeleteItem", "table"): steps_settle,
    ("dispute", "states:SendTaskSuccess", "states"): steps_notify_of_what_is_answered,
    ("lifecycle_worker", "dynamodb:GetItem", "table"): look_at_nothing("lifecycle_worker"),
    ("lifecycle_worker", "dynamodb:PutItem", "table"): worker_catches_up,
    ("lifecycle_worker", "dynamodb:UpdateItem", "table"): worker_catches_up,
    ("lifecycle_worker", "dynamodb:DeleteItem", "table"): worker_catches_up,
    ("lifecycle_worker", "sqs:SendMessage", "LifecycleQueue"): wakes_early(timedelta(minutes=10)),
    ("lifecycle_worker", "sqs:SendMessage", "ProjectionQueue"): wakes_early(9 * DAY),
    ("lifecycle_worker", "states:DescribeExecution", "states"): worker_looks_after_a_workflow_that_is_gone,
    ("lifecycle_worker", "states:SendTaskSuccess", "states"): worker_wakes_a_workflow_that_was_not_told,
    ("payments_worker", "dynamodb:GetItem", "table"): look_at_nothing("payments_worker"),
    ("payments_worker", "dynamodb:PutItem", "table"): payer_pays,
    ("payments_worker", "dynamodb:UpdateItem", "table"): payer_pays,
    ("payments_worker", "dynamodb:DeleteItem", "table"): payer_pays,
    ("payments_worker", "dynamodb:ConditionCheckItem", "table"): payer_pays,
    ("payments_worker", "dynamodb:Query", "table"): payer_looks_up,
    ("payments_worker", "sqs:SendMessage", "PaymentsQueue"): payer_waits_out_a_lease,
    ("payments_worker", "sqs:SendMessage", "ProjectionQueue"): payer_looks_at_what_is_parked,
    ("projector", "dynamodb:GetItem", "table"): projector_removes,
    ("projector", "scheduler:DeleteSchedule", "scheduler"): projector_removes,
    ("projector", "scheduler:CreateSchedule", "scheduler"): projects(9 * DAY),
    ("projector", "scheduler:UpdateSchedule", "scheduler"): projects(9 * DAY),
    ("projector", "iam:PassRole", "iam"): projects(9 * DAY),
    ("projector", "sqs:SendMessage", "LifecycleQueue"): projects(timedelta()),
    ("projector", "sqs:SendMessage", "PaymentsQueue"): projector_sends_a_payment,
    ("projector", "sqs:SendMessage", "ProjectionQueue"): projector_puts_off,
    ("projector", "states:StartExecution", "states"): projector_starts_a_workflow,
    ("publisher", "dynamodb:UpdateItem", "table"): publisher_publishes,
    ("publisher", "events:PutEvents", "events"): publisher_publishes,
    ("recorder", "dynamodb:GetItem", "table"): look_at_nothing("recorder"),
    ("recorder", "dynamodb:UpdateItem", "table"): recorder_notes_a_failure,
    ("recorder", "dynamodb:PutItem", "table"): recorder_keeps_poison,
    ("sweeper", "dynamodb:GetItem", "table"): sweeps,
    ("sweeper", "dynamodb:PutItem", "table"): sweeps,
    ("sweeper", "dynamodb:UpdateItem", "table"): sweeps,
    ("sweeper", "dynamodb:Query", "index/due"): sweeps,
    ("sweeper", "dynamodb:Query", "index/attention"): sweeps,
    ("sweeper", "sqs:SendMessage", "LifecycleQueue"): sweeps,
    ("sweeper", "sqs:SendMessage", "PaymentsQueue"): sweeps_a_payment,
    ("sweeper", "events:PutEvents", "events"): sweeps,
    ("reconciler", "scheduler:ListSchedules", "*"): reconciles("schedules"),
    ("reconciler", "scheduler:GetSchedule", "scheduler"): reconciles("jobs"),
    ("reconciler", "dynamodb:Scan", "index/due"): reconciles("jobs"),
    ("reconciler", "sqs:SendMessage", "ProjectionQueue"): reconciles("jobs"),
    ("reconciler", "dynamodb:Scan", "table"): reconciles("bookings"),
    ("reconciler", "dynamodb:Query", "table"): reconciles("bookings"),
    ("reconciler", "dynamodb:GetItem", "table"): reconciles("bookings"),
    ("reconciler", "dynamodb:PutItem", "table"): reconciles("bookings"),
    ("reconciler", "dynamodb:UpdateItem", "table"): reconciles("bookings"),
    ("reconciler", "dynamodb:DeleteItem", "table"): reconciles("bookings"),
    ("reconciler", "dynamodb:Query", "index/day"): reconciles("bookings"),
    ("workflow", "lambda:InvokeFunction", "FunctionsDisputeStepsFunction"): workflow_runs,
    # At the end, for these leave a run behind that goes on by itself.
    ("reconciler", "lambda:InvokeFunction", "FunctionsReconcilerFunction"): reconciler_goes_on,
    ("api", "lambda:InvokeFunction", "FunctionsReconcilerFunction"): api("POST", "/reconcile"),
}

ELSEWHERE_NAMED: Mapping[str, tuple[str, Scenario]] = {
    "api": ("TABLE_NAME", api("GET", "/payouts")),
    "dispute": ("TABLE_NAME", steps_look),
    "lifecycle_worker": ("LIFECYCLE_QUEUE_URL", wakes_early(timedelta(minutes=10))),
    "payments_worker": ("TABLE_NAME", look_at_nothing("payments_worker")),
    "projector": ("SCHEDULE_GROUP", projector_removes),
    "publisher": ("BUS_NAME", publisher_publishes),
    "recorder": ("TABLE_NAME", look_at_nothing("recorder")),
    "sweeper": ("TABLE_NAME", sweeps),
    "reconciler": ("TABLE_NAME", reconciles("bookings")),
}
"""For each function a setting that names a resource, and what it does with that."""


def elsewhere(grant: Grant) -> str | None:
    """Why a grant has no scenario."""
    handler, action, _ = grant
    return ELSEWHERE.get(grant) or (BY_STEP_FUNCTIONS if handler == "workflow" else BY_LAMBDA).get(action)


def test_every_grant_has_a_scenario_or_a_service_of_aws_that_needs_it(bench: Bench) -> None:
    granted = {grant for handler in bench.roles for grant in bench.grants(handler)}
    assert {grant for grant in granted if not elsewhere(grant)} == set(SCENARIOS)
    assert {grant for grant in ELSEWHERE if grant not in granted} == set()


def test_no_other_role_was_made_than_the_one_with_which_scheduler_delivers(bench: Bench) -> None:
    """What that one may do is asserted on the template, and asked for each delivery (local/permissions.py)."""
    made = {role["RoleName"] for role in bench.iam.list_roles()["Roles"] if role["RoleName"].startswith("Duebook-")}
    (other,) = made - set(bench.roles.values())
    assert "SchedulingRole" in other


@pytest.mark.parametrize("grant", SCENARIOS, ids=lambda grant: " ".join(grant))
def test_without_it_the_function_fails_and_with_it_again_it_works(bench: Bench, grant: Grant) -> None:
    taken = bench.grants(grant[0])[grant]
    act = SCENARIOS[grant](bench, f"lp-{next(_NUMBERS)}")
    with bench.without(grant[0], *taken), pytest.raises(Denied):
        act()
    act()


@pytest.fixture(scope="module")
def others(bench: Bench) -> Mapping[str, str]:
    """Resources of the same kinds that are not the function's, by the setting that would name them."""
    session = bench.world.aws.session()
    sqs: Any = session.client("sqs")
    events: Any = session.client("events")
    scheduler: Any = session.client("scheduler")
    bench.images.create_table(
        TableName="other",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
        BillingMode="PAY_PER_REQUEST",
    )
    events.create_event_bus(Name="other")
    scheduler.create_schedule_group(Name="other")
    queue = sqs.create_queue(QueueName="other")["QueueUrl"]
    return {"TABLE_NAME": "other", "BUS_NAME": "other", "SCHEDULE_GROUP": "other", "LIFECYCLE_QUEUE_URL": queue}


@pytest.mark.parametrize("handler", ELSEWHERE_NAMED)
def test_what_it_may_do_it_may_do_to_its_own_resources_alone(
    bench: Bench, others: Mapping[str, str], handler: str
) -> None:
    setting, scenario = ELSEWHERE_NAMED[handler]
    act = scenario(bench, f"lp-{next(_NUMBERS)}")
    with bench.told(handler, setting, others[setting]), pytest.raises(Denied) as refused:
        act()
    if handler in ("dispute", "reconciler"):  # the other table lacks more than the permission
        assert "AccessDenied" in str(refused.value)
    act()


def test_every_function_is_asked_to_leave_its_resources(bench: Bench) -> None:
    assert {*ELSEWHERE_NAMED, "workflow"} == set(bench.roles)
