"""What the adapters make of AWS's errors. The answers are given by hand: moto fails in few of these ways."""

import json
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from types import SimpleNamespace
from typing import Any

import boto3
import botocore.endpoint
import pytest
from botocore import exceptions
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.stub import Stubber

from duebook.adapters.bus import EventBridgeBus
from duebook.adapters.queues import SqsQueues
from duebook.adapters.schedules import EventBridgeSchedules
from duebook.adapters.table import FIRST_PAUSE, MOST_TRIES, DynamoTable
from duebook.adapters.workflow import StepFunctionsWorkflow
from duebook.domain.errors import (
    AwsFailure,
    ConditionFailed,
    Contention,
    DuebookError,
    QuotaExceeded,
    ScheduleConflict,
    Throttled,
)
from duebook.service.ports import Check, Delete, If, Put, ScheduleRequest, Update, WakeUp, Write
from tests.integration.conftest import REGION

URL = f"https://sqs.{REGION}.amazonaws.com/123456789012/lifecycle"
ARN = f"arn:aws:sqs:{REGION}:123456789012:lifecycle"
MACHINE = f"arn:aws:states:{REGION}:123456789012:stateMachine:disputes"
TOKEN = "AQDEAAAAKgAAAAMAAA+secret/token=="
WAKE_UP = WakeUp(booking_id="b1", job="close_event", generation=1)
REQUEST = ScheduleRequest(
    name="close_event-b1", at=datetime(2026, 11, 14, 21, tzinfo=UTC), lane="lifecycle", wake_up=WAKE_UP
)
ROW = {"pk": "b1", "sk": "booking"}
PLAIN = Put(item={**ROW})
CONDITIONAL = Put(item={**ROW}, condition=If(absent=True))


@cache
def session() -> boto3.session.Session:
    """It keeps the service models that its clients read."""
    return boto3.session.Session("key", "secret", region_name=REGION)


def client(service: str) -> Any:
    config = Config(retries={"mode": "standard", "total_max_attempts": 3})
    return session().client(service, config=config)  # type: ignore[call-overload]


shared = cache(client)
_active: list[Stubber] = []


@pytest.fixture(autouse=True)
def _unstubbed() -> Iterator[None]:
    """A client of a service is made once, for that takes longer than its tests."""
    yield
    while _active:
        _active.pop().deactivate()


class Aws:
    """An adapter on a client that gets scripted answers, and the seconds it waited between its tries."""

    def __init__(self, service: str, build: Callable[[Any, Callable[[float], None]], Any]) -> None:
        self.waited: list[float] = []
        self.client = shared(service)
        self.stub = Stubber(self.client)
        self.stub.activate()
        _active.append(self.stub)
        self.adapter = build(self.client, self.waited.append)

    def fails(self, operation: str, code: str, status: int = 400, **modeled: Any) -> None:
        message = f"a message that may hold {TOKEN}"
        self.stub.add_client_error(operation, code, message, status, modeled_fields=modeled or None)

    def answers(self, operation: str, **answer: Any) -> None:
        self.stub.add_response(operation, answer)


def dynamodb() -> Aws:
    return Aws("dynamodb", lambda client, sleep: DynamoTable(client, "duebook", sleep))


def scheduler() -> Aws:
    return Aws(
        "scheduler",
        lambda client, sleep: EventBridgeSchedules(
            client, "duebook", "arn:aws:iam::123456789012:role/r", ARN, {"lifecycle": ARN}, sleep
        ),
    )


def sqs() -> Aws:
    return Aws("sqs", lambda client, _: SqsQueues(client, {"lifecycle": URL}, URL))


def events() -> Aws:
    return Aws("events", lambda client, _: EventBridgeBus(client, "duebook"))


def stepfunctions() -> Aws:
    return Aws("stepfunctions", lambda client, _: StepFunctionsWorkflow(client, MACHINE))


def cancelled(aws: Aws, *codes: str) -> None:
    aws.fails("transact_write_items", "TransactionCanceledException", CancellationReasons=[{"Code": c} for c in codes])


# --- DynamoDB --------------------------------------------------------------------------------------------------------

TABLE_CODES = {
    "ProvisionedThroughputExceededException": Throttled,
    "RequestLimitExceeded": Throttled,
    "ThrottlingException": Throttled,
    "ValidationException": AwsFailure,
    "ResourceNotFoundException": AwsFailure,
    "AccessDeniedException": AwsFailure,
    "InternalServerError": AwsFailure,
    "SomethingNew": AwsFailure,
}
TABLE_CALLS: Mapping[str, Callable[[DynamoTable], Any]] = {
    "get_item": lambda table: table.get("b1", "booking"),
    "put_item": lambda table: table.write(PLAIN),
    "update_item": lambda table: table.write(Update(pk="b1", sk="booking", set={"n": 1})),
    "delete_item": lambda table: table.write(Delete(pk="b1", sk="booking")),
    "transact_write_items": lambda table: table.write(CONDITIONAL),
    "query": lambda table: table.query("b1", ""),
    "scan": lambda table: table.scan(),
}


@pytest.mark.parametrize(("code", "kind"), TABLE_CODES.items())
@pytest.mark.parametrize("operation", TABLE_CALLS)
def test_an_error_of_dynamodb_is_named_by_its_code_alone_and_not_repeated_once_more(
    operation: str, code: str, kind: type[AwsFailure]
) -> None:
    aws = dynamodb()
    aws.fails(operation, code)
    with pytest.raises(kind) as caught:
        TABLE_CALLS[operation](aws.adapter)
    assert type(caught.value) is kind
    assert caught.value.details["aws_code"] == code
    assert TOKEN not in str(caught.value)
    assert aws.waited == []


def test_the_reasons_of_a_cancelled_transaction_come_in_the_order_of_its_writes() -> None:
    aws = dynamodb()
    cancelled(aws, "None", "ConditionalCheckFailed", "None", "ConditionalCheckFailed")
    with pytest.raises(ConditionFailed) as caught:
        aws.adapter.write(*(Put(item={"pk": "b1", "sk": str(at)}, condition=If(absent=True)) for at in range(4)))
    assert caught.value.details["failed"] == [1, 3]
    assert aws.waited == []


def test_a_failed_condition_counts_before_a_conflict_for_the_caller_looks_again_anyway() -> None:
    aws = dynamodb()
    cancelled(aws, "TransactionConflict", "ConditionalCheckFailed")
    with pytest.raises(ConditionFailed) as caught:
        aws.adapter.write(CONDITIONAL, Check(pk="b1", sk="x", condition=If(exists=True)))
    assert caught.value.details["failed"] == [1]


CONFLICTS: Mapping[str, tuple[Write, Callable[[Aws], None], str]] = {
    "a cancelled transaction": (CONDITIONAL, lambda aws: cancelled(aws, "TransactionConflict"), "transact_write_items"),
    "a transaction that is still running": (
        CONDITIONAL,
        lambda aws: aws.fails("transact_write_items", "TransactionInProgressException"),
        "transact_write_items",
    ),
    "a plain write that met a transaction": (
        PLAIN,
        lambda aws: aws.fails("put_item", "TransactionConflictException"),
        "put_item",
    ),
}


@pytest.mark.parametrize(("write", "conflict", "operation"), CONFLICTS.values(), ids=CONFLICTS.keys())
@pytest.mark.parametrize("times", range(1, MOST_TRIES))
def test_a_conflict_is_waited_out_a_few_times(
    write: Write, conflict: Callable[[Aws], None], operation: str, times: int
) -> None:
    aws = dynamodb()
    for _ in range(times):
        conflict(aws)
    aws.answers(operation)
    aws.adapter.write(write)
    aws.stub.assert_no_pending_responses()
    assert len(aws.waited) == times
    assert all(0 <= pause <= FIRST_PAUSE * 2**attempt for attempt, pause in enumerate(aws.waited))


@pytest.mark.parametrize(("write", "conflict", "operation"), CONFLICTS.values(), ids=CONFLICTS.keys())
def test_a_conflict_without_end_is_contention(write: Write, conflict: Callable[[Aws], None], operation: str) -> None:
    aws = dynamodb()
    for _ in range(MOST_TRIES):
        conflict(aws)
    with pytest.raises(Contention):
        aws.adapter.write(write)
    aws.stub.assert_no_pending_responses()
    assert len(aws.waited) == MOST_TRIES - 1


@pytest.mark.parametrize("code", ["ThrottlingError", "ProvisionedThroughputExceeded"])
def test_a_throttled_transaction_is_repeated_by_us_for_the_sdk_does_not(code: str) -> None:
    aws = dynamodb()
    for _ in range(MOST_TRIES):
        cancelled(aws, "None", code)
    with pytest.raises(Throttled):
        aws.adapter.write(CONDITIONAL, Delete(pk="b1", sk="x"))
    assert len(aws.waited) == MOST_TRIES - 1


@pytest.mark.parametrize("code", ["ItemCollectionSizeLimitExceeded", "ValidationError", "SomethingNew"])
def test_a_transaction_that_was_cancelled_for_another_reason_names_it(code: str) -> None:
    aws = dynamodb()
    cancelled(aws, "TransactionConflict", code)
    with pytest.raises(AwsFailure) as caught:
        aws.adapter.write(CONDITIONAL, Delete(pk="b1", sk="x"))
    assert type(caught.value) is AwsFailure
    assert caught.value.details["reasons"] == ["TransactionConflict", code]
    assert code in str(caught.value)
    assert aws.waited == []


# --- what the SDK itself repeats -------------------------------------------------------------------------------------


class Wire:
    """Answers below the SDK's repeats: an exception is a connection that broke, after whatever the request did."""

    def __init__(self, client: Any, *answers: Exception | tuple[int, Mapping[str, Any]]) -> None:
        self.sent: list[dict[str, Any]] = []
        self._answers = list(answers)
        client.meta.events.register("before-send", self._answer)

    def _answer(self, request: Any, **_: Any) -> AWSResponse:
        self.sent.append(json.loads(request.body))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, body = answer
        content = json.dumps(body).encode()
        raw: Any = SimpleNamespace(stream=lambda: iter([content]))
        headers = HTTPHeaders()
        headers["content-type"] = "application/x-amz-json-1.0"
        return AWSResponse(request.url, status, headers, raw)


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK waits between its tries."""
    monkeypatch.setattr(botocore.endpoint, "time", SimpleNamespace(sleep=lambda seconds: None))


TIMED_OUT = exceptions.ReadTimeoutError(endpoint_url="https://dynamodb")
OK: tuple[int, Mapping[str, Any]] = (200, {})
BROKEN: tuple[int, Mapping[str, Any]] = (500, {"__type": "InternalServerError"})
CONFLICT: tuple[int, Mapping[str, Any]] = (
    400,
    {"__type": "TransactionCanceledException", "CancellationReasons": [{"Code": "TransactionConflict"}]},
)


@pytest.mark.parametrize(
    "answers",
    [(TIMED_OUT, OK), (BROKEN, BROKEN, OK), (CONFLICT, OK), (TIMED_OUT, CONFLICT, BROKEN, OK)],
    ids=["a time-out", "two errors of the server", "a conflict", "all of them"],
)
@pytest.mark.usefixtures("no_waiting")
def test_every_repeat_of_a_conditional_write_has_the_same_token_so_that_it_cannot_meet_its_own_effect(
    answers: Sequence[Any],
) -> None:
    """A single conditional write is a transaction for this alone: DynamoDB answers a token it knows with success."""
    dynamo = client("dynamodb")
    wire = Wire(dynamo, *answers)
    DynamoTable(dynamo, "duebook", sleep=lambda _: None).write(CONDITIONAL)
    assert len(wire.sent) == len(answers)
    assert len({json.dumps(sent, sort_keys=True) for sent in wire.sent}) == 1
    assert wire.sent[0]["ClientRequestToken"]


def test_two_writes_have_two_tokens() -> None:
    dynamo = client("dynamodb")
    wire = Wire(dynamo, OK, OK)
    table = DynamoTable(dynamo, "duebook")
    table.write(CONDITIONAL)
    table.write(CONDITIONAL)
    first, second = (sent["ClientRequestToken"] for sent in wire.sent)
    assert first != second


BROKEN_CONNECTIONS = [
    TIMED_OUT,
    exceptions.ConnectTimeoutError(endpoint_url="https://aws"),
    exceptions.EndpointConnectionError(endpoint_url="https://aws"),
    exceptions.ConnectionClosedError(endpoint_url="https://aws"),
    exceptions.SSLError(endpoint_url="https://aws", error=ValueError("closed")),
]


@contextmanager
def breaking(aws: Aws, broken: Exception) -> Iterator[None]:
    """Every request ends so."""

    def breaks(**_: Any) -> None:
        raise broken

    aws.stub.deactivate()
    aws.client.meta.events.register("before-send", breaks)
    yield
    aws.client.meta.events.unregister("before-send", breaks)


@pytest.mark.parametrize("broken", BROKEN_CONNECTIONS, ids=lambda broken: type(broken).__name__)
@pytest.mark.parametrize("service", ["dynamodb", "scheduler", "sqs", "stepfunctions"])
@pytest.mark.usefixtures("no_waiting")
def test_a_connection_that_stays_broken_is_a_failure_of_aws_and_no_crash(service: str, broken: Exception) -> None:
    builds: Mapping[str, tuple[Callable[[], Aws], Callable[[Any], Any]]] = {
        "dynamodb": (dynamodb, lambda adapter: adapter.get("b1", "booking")),
        "scheduler": (scheduler, lambda adapter: adapter.delete("close_event-b1")),
        "sqs": (sqs, lambda adapter: adapter.project("b1", "close_event")),
        "stepfunctions": (stepfunctions, lambda adapter: adapter.succeed(TOKEN)),
    }
    build, call = builds[service]
    aws = build()
    with breaking(aws, broken), pytest.raises(AwsFailure) as caught:
        call(aws.adapter)
    assert caught.value.details["aws_code"] == type(broken).__name__


# --- Scheduler -------------------------------------------------------------------------------------------------------

SCHEDULE_CALLS: Mapping[str, Callable[[EventBridgeSchedules], Any]] = {
    "create_schedule": lambda schedules: schedules.create(REQUEST),
    "update_schedule": lambda schedules: schedules.replace(REQUEST),
    "delete_schedule": lambda schedules: schedules.delete(REQUEST.name),
    "get_schedule": lambda schedules: schedules.get(REQUEST.name),
    "list_schedules": lambda schedules: schedules.names(None),
}
SCHEDULE_CODES = {
    "ConflictException": (409, ScheduleConflict),
    "ThrottlingException": (429, Throttled),
    "TooManyRequestsException": (429, Throttled),
    "ServiceQuotaExceededException": (402, QuotaExceeded),
    "InternalServerException": (500, AwsFailure),
    "AccessDeniedException": (403, AwsFailure),
}


@pytest.mark.parametrize(("code", "expected"), SCHEDULE_CODES.items(), ids=SCHEDULE_CODES.keys())
@pytest.mark.parametrize("operation", SCHEDULE_CALLS)
def test_an_error_of_scheduler_is_named_by_its_code(
    operation: str, code: str, expected: tuple[int, type[AwsFailure]]
) -> None:
    status, kind = expected
    aws = scheduler()
    aws.fails(operation, code, status)
    if (operation, code) == ("create_schedule", "ConflictException"):
        assert SCHEDULE_CALLS[operation](aws.adapter) is False
        return
    with pytest.raises(kind) as caught:
        SCHEDULE_CALLS[operation](aws.adapter)
    assert type(caught.value) is kind
    assert caught.value.details["aws_code"] == code


@pytest.mark.parametrize(
    ("operation", "found"), [("update_schedule", False), ("delete_schedule", False), ("get_schedule", None)]
)
def test_a_schedule_or_group_that_is_missing_is_an_answer(operation: str, found: Any) -> None:
    aws = scheduler()
    aws.fails(operation, "ResourceNotFoundException", 404)
    assert SCHEDULE_CALLS[operation](aws.adapter) is found


@pytest.mark.parametrize("operation", ["create_schedule", "list_schedules"])
def test_a_missing_group_is_a_failure_where_it_must_be_there(operation: str) -> None:
    aws = scheduler()
    aws.fails(operation, "ResourceNotFoundException", 404)
    with pytest.raises(AwsFailure) as caught:
        SCHEDULE_CALLS[operation](aws.adapter)
    assert caught.value.details["aws_code"] == "ResourceNotFoundException"


@pytest.mark.parametrize("operation", ["create_schedule", "update_schedule"])
def test_a_role_too_new_to_be_known_is_tried_again(operation: str) -> None:
    aws = scheduler()
    aws.fails(operation, "ValidationException")
    aws.answers(operation, ScheduleArn="arn:aws:scheduler:eu-west-1:123456789012:schedule/duebook/close_event-b1")
    assert SCHEDULE_CALLS[operation](aws.adapter) is True
    assert len(aws.waited) == 1


def test_a_request_that_is_really_wrong_holds_up_a_process_only_once() -> None:
    aws = scheduler()
    for _ in range(4):
        aws.fails("create_schedule", "ValidationException")
    for _ in range(2):
        with pytest.raises(AwsFailure) as caught:
            aws.adapter.create(REQUEST)
        assert caught.value.details["aws_code"] == "ValidationException"
    assert len(aws.waited) == 2


# --- SQS and EventBridge ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("RequestThrottled", Throttled),
        ("ThrottlingException", Throttled),
        ("KmsThrottled", Throttled),
        ("AWS.SimpleQueueService.NonExistentQueue", AwsFailure),
        ("AccessDenied", AwsFailure),
        ("InternalError", AwsFailure),
    ],
)
def test_an_error_of_sqs_is_named_by_its_code(code: str, kind: type[AwsFailure]) -> None:
    aws = sqs()
    aws.fails("send_message", code)
    with pytest.raises(kind) as caught:
        aws.adapter.wake("lifecycle", WAKE_UP, source="sweep")
    assert type(caught.value) is kind
    assert caught.value.details["aws_code"] == code


def test_a_request_of_put_events_that_fails_as_a_whole_counts_for_each_of_its_events_and_for_no_other() -> None:
    aws = events()
    aws.answers("put_events", FailedEntryCount=1, Entries=[{"EventId": "1"}] * 9 + [{"ErrorCode": "InternalFailure"}])
    aws.fails("put_events", "ThrottlingException")
    aws.answers("put_events", FailedEntryCount=0, Entries=[{"EventId": "1"}] * 2)
    found = aws.adapter.publish([{"id": str(number), "type": "job.due"} for number in range(22)])
    assert list(found) == [None] * 9 + ["InternalFailure"] + ["ThrottlingException"] * 10 + [None] * 2


@pytest.mark.parametrize("broken", BROKEN_CONNECTIONS, ids=lambda broken: type(broken).__name__)
@pytest.mark.usefixtures("no_waiting")
def test_events_that_meet_a_broken_connection_stay_with_their_sender(broken: Exception) -> None:
    aws = events()
    with breaking(aws, broken):
        found = aws.adapter.publish([{"id": "1", "type": "job.due"}, {"id": "2", "type": "job.due"}])
    assert list(found) == [type(broken).__name__] * 2


# --- Step Functions --------------------------------------------------------------------------------------------------

WORKFLOW_CALLS: Mapping[str, Callable[[StepFunctionsWorkflow], Any]] = {
    "start_execution": lambda workflow: workflow.start("b1.1.d1", 1),
    "describe_execution": lambda workflow: workflow.is_running("b1.1.d1", 1),
    "send_task_success": lambda workflow: workflow.succeed(TOKEN),
    "get_execution_history": lambda workflow: workflow.events("b1.1.d1", 1),
}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("ThrottlingException", Throttled),
        ("TooManyRequestsException", Throttled),
        ("AccessDeniedException", AwsFailure),
        ("InvalidOutput", AwsFailure),
        ("SomethingNew", AwsFailure),
    ],
)
@pytest.mark.parametrize("operation", WORKFLOW_CALLS)
def test_an_error_of_step_functions_is_named_by_its_code_and_never_tells_a_token(
    operation: str, code: str, kind: type[AwsFailure]
) -> None:
    aws = stepfunctions()
    aws.fails(operation, code)
    with pytest.raises(kind) as caught:
        WORKFLOW_CALLS[operation](aws.adapter)
    assert type(caught.value) is kind
    assert caught.value.details == {"aws_code": code}
    told = "".join(traceback.format_exception(caught.value)) if operation == "send_task_success" else str(caught.value)
    assert TOKEN not in told


@pytest.mark.parametrize("code", ["TaskTimedOut", "TaskDoesNotExist", "InvalidToken"])
def test_a_task_that_waits_no_more_is_an_answer(code: str) -> None:
    aws = stepfunctions()
    aws.fails("send_task_success", code)
    assert aws.adapter.succeed(TOKEN) is False


@pytest.mark.parametrize("broken", BROKEN_CONNECTIONS, ids=lambda broken: type(broken).__name__)
@pytest.mark.usefixtures("no_waiting")
def test_a_broken_connection_tells_no_token_neither(broken: Exception) -> None:
    aws = stepfunctions()
    with breaking(aws, broken), pytest.raises(DuebookError) as caught:
        aws.adapter.succeed(TOKEN)
    assert TOKEN not in "".join(traceback.format_exception(caught.value))


def test_a_name_that_is_taken_and_an_execution_that_is_unknown_are_answers() -> None:
    aws = stepfunctions()
    aws.fails("start_execution", "ExecutionAlreadyExists")
    assert aws.adapter.start("b1.1.d1", 1) is False
    aws.fails("describe_execution", "ExecutionDoesNotExist")
    assert aws.adapter.is_running("b1.1.d1", 1) is False
    aws.fails("get_execution_history", "ExecutionDoesNotExist")
    assert aws.adapter.events("b1.1.d1", 1) is None
