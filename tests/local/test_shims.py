"""Each shim works, and is still needed.

`test_the_gap_is_still_there` looks at MiniStack as it ships. When it fails for
a shim, upstream has closed that gap: delete the shim, its entry here and its
tests.
"""

import inspect
import io
import itertools
import json
import threading
import time
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from ministack import app
from ministack.core import iam_actions, iam_evaluator, lambda_runtime, sigv4
from ministack.services import cloudwatch, dynamodb, eventbridge, lambda_svc, scheduler, sqs, stepfunctions

from local import shims

# MiniStack leaves the pipes of the worker processes it ends to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

REGION = "us-east-1"
ACCOUNT = "000000000000"
MACHINE = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:dispute"
FUNCTION = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:f"
ASK = {
    "Type": "Task",
    "QueryLanguage": "JSONata",
    "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken",
    "TimeoutSeconds": 1,
    "Arguments": {"FunctionName": FUNCTION, "Payload": {"token": "{% $states.context.Task.Token %}"}},
    "End": True,
}
RETRIED = {**ASK, "Retry": [{"ErrorEquals": ["NotNow"], "IntervalSeconds": 0, "MaxAttempts": 1}]}

Notifier = Callable[[str, dict[str, Any]], Any]


# --- the gaps, in MiniStack as it ships: True while there


def _looks_rarely() -> bool:
    return bool(scheduler._SCHEDULE_TICK_INTERVAL >= 10 and eventbridge._SCHEDULER_TICK_INTERVAL >= 10)


def _sleeps_through() -> bool:
    slept: list[float] = []
    stepfunctions.time = SimpleNamespace(sleep=slept.append, time=time.time)
    stepfunctions._sleep_until((datetime.now(UTC) + timedelta(days=2)).isoformat())
    return len(slept) == 1 and stepfunctions.threading is threading


def _polls_once_a_second() -> bool:
    return "_esm_wake.wait(1 " in inspect.getsource(lambda_svc._poll_loop)


def _reads_an_expression_raw() -> bool:
    error = _run({**ASK, "TimeoutSeconds": "{% 1 %}"}, notifier=_silent)
    return isinstance(error, TypeError)


def _repeats_the_token() -> bool:
    tokens: list[str] = []
    _run(RETRIED, notifier=_failing_into(tokens))
    return len(tokens) == 2 and tokens[0] == tokens[1]


def _authorizes_answers_on_anything() -> bool:
    return _resource_of_an_answer("token") == "*"


def _swallows_the_notifiers_error() -> bool:
    return _error_of(_run(ASK, notifier=_broken)) == "States.Timeout"


def _answers_task_does_not_exist() -> bool:
    return _code(stepfunctions._send_task_success({"taskToken": "none"})) == "TaskDoesNotExist"


def _refuses_the_same_start() -> bool:
    first, second = _start_twice()
    return "executionArn" in first and second["__type"] == "ExecutionAlreadyExists"


def _authorizes_in_group_default() -> bool:
    return ":schedule/default/" in _resource_of_a_schedule(body=b'{"GroupName": "duebook"}')


def _authorizes_targets_on_their_bus() -> bool:
    return _resource_of_targets().endswith(":event-bus/duebook")


def _delivers_without_asking() -> bool:
    source = inspect.getsource(eventbridge._invoke_target) + inspect.getsource(eventbridge._dispatch_to_sqs)
    return "RoleArn" not in source and "policy" not in source


def _hands_over_any_role() -> bool:
    return "PassRole" not in inspect.getsource(scheduler)


def _calls_under_no_role() -> bool:
    return "roleArn" not in inspect.getsource(stepfunctions._call_lambda)


def _leaves_out_the_source() -> bool:
    body = b'{"Entries": [{"Source": "duebook"}]}'
    return "events:source" not in iam_actions.request_tag_context("events", "events:PutEvents", body, {})


def _drops_the_second_page() -> bool:
    _schedules(3)
    page = json.loads(scheduler._list_schedules({"MaxResults": "2"})[2])
    return len(page["Schedules"]) == 2 and "NextToken" not in page


def _remembers_that_it_fired() -> bool:
    return _fired_after_an_update()


def _refuses_an_old_signature() -> bool:
    return sigv4.request_time_failure(_signature_of(days_ago=75)) is not None


def _knows_plain_http() -> bool:
    app.pin_request_origin("127.0.0.1", False)
    return bool(iam_evaluator._request_origin.get() == ("127.0.0.1", False))


def _loses_the_error_class() -> bool:
    return _error_type_of_a_raising_function() == "Runtime.HandlerError"


def _retries_table_changes_for_ever() -> bool:
    poller = inspect.getsource(lambda_svc._poll_dynamodb_streams)
    return "MaximumRetryAttempts" not in poller and "ReportBatchItemFailures" not in poller


def _drops_changes_without_a_lock() -> bool:
    return "lock" not in inspect.getsource(dynamodb._trim_stream_records)


def _deletes_without_a_lock() -> bool:
    deletes = inspect.getsource(sqs._act_delete_message)
    return "_queues_lock" not in deletes + inspect.getsource(eventbridge._dispatch_to_sqs)


def _leaves_embedded_metrics_in_the_log() -> bool:
    return _sweeps_counted() == {}


def _mixes_dimensions() -> bool:
    return _state_after_a_neighbours_value() == "ALARM"


GAPS: dict[Callable[[], None], Callable[[], bool]] = {
    shims.schedules_fire_promptly: _looks_rarely,
    shims.waits_follow_the_clock: _sleeps_through,
    shims.queues_are_read_after_a_jump: _polls_once_a_second,
    shims.timeouts_may_be_expressions: _reads_an_expression_raw,
    shims.callbacks_are_authorized_on_their_machine: _authorizes_answers_on_anything,
    shims.every_attempt_has_its_token: _repeats_the_token,
    shims.failing_notifier_fails_the_task: _swallows_the_notifiers_error,
    shims.callbacks_are_answered_as_on_aws: _answers_task_does_not_exist,
    shims.starting_again_answers_the_same: _refuses_the_same_start,
    shims.schedules_are_authorized_in_their_group: _authorizes_in_group_default,
    shims.deliveries_need_permission: _delivers_without_asking,
    shims.handing_over_a_role_needs_permission: _hands_over_any_role,
    shims.workflows_call_under_their_role: _calls_under_no_role,
    shims.publishing_is_authorized_by_source: _leaves_out_the_source,
    shims.targets_are_authorized_on_their_rule: _authorizes_targets_on_their_bus,
    shims.schedules_are_listed_in_pages: _drops_the_second_page,
    shims.a_new_instant_fires_again: _remembers_that_it_fired,
    shims.signatures_may_be_from_another_time: _refuses_an_old_signature,
    shims.requests_count_as_encrypted: _knows_plain_http,
    shims.python_errors_keep_their_class: _loses_the_error_class,
    shims.table_streams_give_up: _retries_table_changes_for_ever,
    shims.table_streams_keep_their_records: _drops_changes_without_a_lock,
    shims.queues_lose_no_message: _deletes_without_a_lock,
    shims.embedded_metrics_become_metrics: _leaves_embedded_metrics_in_the_log,
    shims.alarms_see_their_own_dimensions: _mixes_dimensions,
}


def test_every_shim_has_its_gap() -> None:
    assert set(GAPS) == set(shims.ALL)


@pytest.mark.parametrize(("shim", "gap"), GAPS.items(), ids=[shim.__name__ for shim in GAPS])
def test_the_gap_is_still_there(shim: Callable[[], None], gap: Callable[[], bool]) -> None:
    assert gap(), f"upstream has closed this gap: local.shims.{shim.__name__} can go"


# --- the shims


def test_no_message_is_sent_while_another_thread_deletes(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    for name in ("_collect_msgs", "_expire_retained", "_dlq_sweep", "_queues_lock"):
        monkeypatch.setattr(sqs, name, getattr(sqs, name))
    monkeypatch.setattr(sqs, "_HANDLERS", dict(sqs._HANDLERS))
    monkeypatch.setattr(eventbridge, "_dispatch_to_sqs", lambda: order.append("sent"))
    shims.queues_lose_no_message()
    sender = threading.Thread(target=eventbridge._dispatch_to_sqs)
    with sqs._queues_lock:
        sender.start()
        order.append("deleted")
    sender.join()
    assert order == ["deleted", "sent"]


def test_a_change_of_last_month_is_still_there_to_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamodb, "_STREAM_RETENTION_SECONDS", dynamodb._STREAM_RETENTION_SECONDS)
    shims.table_streams_keep_their_records()
    old = {"dynamodb": {"ApproximateCreationDateTime": time.time() - timedelta(days=30).total_seconds()}}
    dynamodb._stream_records["kept"] = [old]
    try:
        assert dynamodb.stream_records_since("kept", 0, 10) == [old]
    finally:
        dynamodb._stream_records.pop("kept")


def test_due_schedules_and_rules_are_looked_for_several_times_a_second() -> None:
    shims.schedules_fire_promptly()
    assert scheduler._SCHEDULE_TICK_INTERVAL < 1
    assert eventbridge._SCHEDULER_TICK_INTERVAL < 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that jumps two days at every look after the first."""
    readings = itertools.count(time.time(), timedelta(days=2).total_seconds())
    clock = SimpleNamespace(time=lambda: next(readings), sleep=lambda _seconds: None)
    monkeypatch.setattr(shims, "time", clock)
    return clock


@pytest.mark.usefixtures("clock")
def test_a_wait_ends_when_the_clock_jumps_past_it() -> None:
    shims.waits_follow_the_clock()
    stepfunctions._sleep_until((datetime.now(UTC) + timedelta(days=1)).isoformat())
    stepfunctions._scaled_sleep(timedelta(days=1).total_seconds())


@pytest.mark.usefixtures("clock")
def test_a_callback_times_out_when_the_clock_jumps_past_it() -> None:
    shims.waits_follow_the_clock()
    event = stepfunctions.threading.Event()
    assert not event.wait(timedelta(days=1).total_seconds())


def test_a_callback_that_is_answered_stops_waiting() -> None:
    shims.waits_follow_the_clock()
    event = stepfunctions.threading.Event()
    event.set()
    assert event.wait(timedelta(days=1).total_seconds())


@pytest.mark.parametrize("field", ["TimeoutSeconds", "HeartbeatSeconds"])
def test_a_timeout_may_be_an_expression(field: str) -> None:
    shims.timeouts_may_be_expressions()
    error = _run({**ASK, field: "{% $states.input.seconds %}"}, notifier=_silent)
    assert _error_of(error) == "States.Timeout"


def test_a_timeout_that_is_not_positive_fails_the_execution() -> None:
    shims.timeouts_may_be_expressions()
    error = _run({**ASK, "TimeoutSeconds": "{% $states.input.seconds - 1 %}"}, notifier=_silent)
    assert _error_of(error) == "States.Runtime"


def test_a_retry_gets_a_fresh_token() -> None:
    shims.every_attempt_has_its_token()
    tokens: list[str] = []
    _run(RETRIED, notifier=_failing_into(tokens))
    assert len(set(tokens)) == 2


def test_a_failing_notifier_fails_its_task_with_its_own_error() -> None:
    error = _run(ASK, notifier=_broken, shimmed=_CALLBACKS)
    assert _error_of(error) == "NotNow"


def test_a_used_or_expired_token_has_timed_out() -> None:
    tokens: list[str] = []
    _run(ASK, notifier=_collecting_into(tokens), shimmed=_CALLBACKS)
    assert _code(stepfunctions._send_task_success({"taskToken": tokens[0], "output": "{}"})) == "TaskTimedOut"


def test_an_unknown_token_is_invalid() -> None:
    shims.callbacks_are_answered_as_on_aws()
    assert _code(stepfunctions._send_task_failure({"taskToken": "none"})) == "InvalidToken"


def test_output_that_is_not_json_is_refused_and_does_not_close_the_task() -> None:
    codes: list[str] = []

    def answering(_function: str, event: dict[str, Any]) -> None:
        for output in ("not json", '{"answer": 1}', '{"answer": 2}'):
            request = {"taskToken": event["token"], "output": output}
            codes.append(_code(stepfunctions._send_task_success(request)))

    assert _run(ASK, notifier=answering, shimmed=_CALLBACKS) is None
    assert codes == ["InvalidOutput", "", "TaskTimedOut"]


def test_an_answer_is_authorized_on_the_machine_that_asked() -> None:
    tokens: list[str] = []
    _run(ASK, notifier=_collecting_into(tokens), shimmed=_CALLBACKS)
    assert _resource_of_an_answer(tokens[0]) == MACHINE


def test_starting_the_same_execution_again_answers_the_same() -> None:
    shims.starting_again_answers_the_same()
    first, second = _start_twice()
    assert first == second


def test_starting_with_another_input_is_refused() -> None:
    shims.starting_again_answers_the_same()
    _, second = _start_twice(second_input='{"other": 1}')
    assert second["__type"] == "ExecutionAlreadyExists"


@pytest.mark.parametrize(
    ("body", "query", "group"),
    [
        (b'{"GroupName": "duebook"}', {}, "duebook"),
        (b"", {"groupName": ["duebook"]}, "duebook"),
        (b"", {"groupName": "duebook"}, "duebook"),
        (b"", {}, "default"),
        (b"not json", {}, "default"),
        (b"[]", {}, "default"),
    ],
)
def test_a_schedule_action_is_authorized_in_its_own_group(body: bytes, query: dict[str, Any], group: str) -> None:
    shims.schedules_are_authorized_in_their_group()
    arn = _resource_of_a_schedule(body=body, query=query)
    assert arn == f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/{group}/close_event-b1"


def test_targets_are_put_under_the_permission_for_their_rule() -> None:
    shims.targets_are_authorized_on_their_rule()
    assert _resource_of_targets() == f"arn:aws:events:{REGION}:{ACCOUNT}:rule/duebook/heard"


def test_schedules_are_listed_page_by_page() -> None:
    shims.schedules_are_listed_in_pages()
    _schedules(5)
    names: list[str] = []
    query = {"MaxResults": "2"}
    while True:
        page = json.loads(scheduler._list_schedules(query)[2])
        names += [schedule["Name"] for schedule in page["Schedules"]]
        if "NextToken" not in page:
            break
        query = {"MaxResults": "2", "NextToken": page["NextToken"]}
    assert names == [f"s{number}" for number in range(5)]


def test_a_schedule_that_fired_and_is_moved_fires_again() -> None:
    shims.a_new_instant_fires_again()
    assert not _fired_after_an_update()


def test_a_request_signed_months_ago_is_accepted() -> None:
    shims.signatures_may_be_from_another_time()
    assert sigv4.request_time_failure(_signature_of(days_ago=75)) is None


def test_a_plain_request_counts_as_encrypted() -> None:
    shims.requests_count_as_encrypted()
    app.pin_request_origin("127.0.0.1", False)
    assert iam_evaluator._request_origin.get() == ("127.0.0.1", True)


def test_what_a_function_prints_in_the_embedded_metric_format_is_a_metric_with_its_dimensions() -> None:
    shims.embedded_metrics_become_metrics()
    assert _sweeps_counted() == {"service=duebook-test": [2.0, 3.0]}


def test_a_neighbours_value_leaves_an_alarm_alone_and_its_own_does_not() -> None:
    shims.alarms_see_their_own_dimensions()
    assert _state_after_a_neighbours_value() == "INSUFFICIENT_DATA"
    assert _state_after_a_neighbours_value(kind="dead") == "ALARM"


def test_a_raising_functions_error_type_is_its_class() -> None:
    shims.python_errors_keep_their_class()
    assert _error_type_of_a_raising_function() == "NotNow"


# --- helpers


def _sweeps_counted() -> dict[str, list[float]]:
    """The values of a metric by dimensions, after a function printed a document that holds it."""
    cloudwatch._metrics.clear()
    directive = {"Namespace": "Duebook", "Dimensions": [["service"]], "Metrics": [{"Name": "JobsSwept"}]}
    stamp = {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [directive]}
    document = {"_aws": stamp, "service": "duebook-test", "JobsSwept": [2.0, 3.0]}
    printed = "\n".join(("plain text", '{"message": "swept"}', json.dumps(document)))
    lambda_svc._emit_lambda_logs({"FunctionName": "sweeper"}, "request", printed, False, 1)
    return {
        ",".join(f"{name}={value}" for name, value in points[0]["Dimensions"].items()): [p["Value"] for p in points]
        for points in cloudwatch._metrics.values()
    }


def _state_after_a_neighbours_value(kind: str = "outbox") -> str:
    """Of an alarm on the dead rows, after a value of `kind`."""
    cloudwatch._metrics.clear()
    cloudwatch.record_metric("Duebook", "AttentionRows", 5, dimensions={"kind": kind})
    alarm = {
        "AlarmName": "attention.dead",
        "Namespace": "Duebook",
        "MetricName": "AttentionRows",
        "Dimensions": [{"Name": "kind", "Value": "dead"}],
        "Statistic": "Maximum",
        "Threshold": 1,
        "ComparisonOperator": "GreaterThanOrEqualToThreshold",
        "StateValue": "INSUFFICIENT_DATA",
    }
    cloudwatch._evaluate_alarm(alarm)
    return str(alarm["StateValue"])


_CALLBACKS = (
    shims.every_attempt_has_its_token,
    shims.callbacks_are_authorized_on_their_machine,
    shims.failing_notifier_fails_the_task,
    shims.callbacks_are_answered_as_on_aws,
)


def _run(
    state: dict[str, Any], *, notifier: Notifier, shimmed: tuple[Callable[[], None], ...] = ()
) -> Exception | None:
    """Run one state whose function is `notifier`; the error it ended in."""
    stepfunctions._call_lambda = notifier
    for shim in shimmed:
        shim()
    context = {"State": {"Name": "Ask"}, "StateMachine": {"Id": MACHINE, "Name": "dispute"}}
    try:
        stepfunctions._execute_task(state, {"seconds": 1}, {"events": []}, context)
    except (stepfunctions._ExecutionError, TypeError) as error:
        return error
    return None


def _silent(_function: str, _event: dict[str, Any]) -> None:
    return None


def _broken(_function: str, _event: dict[str, Any]) -> None:
    raise stepfunctions._ExecutionError("NotNow", "{}")


def _collecting_into(tokens: list[str]) -> Notifier:
    return lambda _function, event: tokens.append(event["token"])


def _failing_into(tokens: list[str]) -> Notifier:
    def notify(_function: str, event: dict[str, Any]) -> None:
        tokens.append(event["token"])
        stepfunctions._send_task_failure({"taskToken": event["token"], "error": "NotNow"})

    return notify


def _error_of(error: Exception | None) -> str:
    return str(getattr(error, "error", error))


def _code(response: tuple[int, dict[str, str], bytes]) -> str:
    return str(json.loads(response[2]).get("__type", ""))


def _start_twice(second_input: str = "{}") -> tuple[dict[str, Any], dict[str, Any]]:
    definition = json.dumps({"StartAt": "Done", "States": {"Done": {"Type": "Succeed"}}})
    created = stepfunctions._create_state_machine(
        {"name": "dispute", "definition": definition, "roleArn": f"arn:aws:iam::{ACCOUNT}:role/r"}
    )
    machine = json.loads(created[2])["stateMachineArn"]
    answers = [
        json.loads(stepfunctions._start_execution({"stateMachineArn": machine, "name": "d1-1", "input": given})[2])
        for given in ("{}", second_input)
    ]
    return answers[0], answers[1]


def _resource_of_an_answer(token: str) -> str:
    headers = {"x-amz-target": "AWSStepFunctions.SendTaskSuccess"}
    body = json.dumps({"taskToken": token}).encode()
    resource = iam_actions.extract_resource_arn("states", "POST", "/", headers, body, {}, REGION, ACCOUNT)
    return str(resource)


def _resource_of_a_schedule(*, body: bytes, query: dict[str, Any] | None = None) -> str:
    path = "/schedules/close_event-b1"
    resource = iam_actions.extract_resource_arn("scheduler", "POST", path, {}, body, query or {}, REGION, ACCOUNT)
    return str(resource)


def _resource_of_targets() -> str:
    headers = {"x-amz-target": "AWSEvents.PutTargets"}
    body = json.dumps({"Rule": "heard", "EventBusName": "duebook", "Targets": []}).encode()
    return str(iam_actions.extract_resource_arn("events", "POST", "/", headers, body, {}, REGION, ACCOUNT))


def _schedules(count: int) -> None:
    for number in range(count):
        scheduler._create_schedule(f"s{number}", _schedule())


def _schedule() -> dict[str, Any]:
    return {
        "ScheduleExpression": "at(2026-11-14T12:00:00)",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "Target": {"Arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:q", "RoleArn": f"arn:aws:iam::{ACCOUNT}:role/r"},
    }


def _fired_after_an_update() -> bool:
    """Whether a schedule that fired still counts as fired once it is given a new instant."""
    _schedules(1)
    key = next(iter(scheduler._schedules._data))
    scheduler._schedule_last_fired[key] = time.time()
    scheduler._update_schedule("s0", _schedule())
    return key in scheduler._schedule_last_fired


def _signature_of(*, days_ago: int) -> Any:
    signed_at = datetime.now(UTC) - timedelta(days=days_ago)
    return sigv4.HeaderSignature(
        access_key_id="AKIA",
        date_stamp=f"{signed_at:%Y%m%d}",
        region=REGION,
        service="sqs",
        signed_headers="host",
        signature="",
        amz_date=f"{signed_at:%Y%m%dT%H%M%SZ}",
    )


def _error_type_of_a_raising_function() -> str:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as code:
        code.writestr("m.py", "class NotNow(Exception): ...\ndef handle(event, context): raise NotNow('later')\n")
    config = {
        "FunctionName": "f",
        "FunctionArn": FUNCTION,
        "Handler": "m.handle",
        "Role": f"arn:aws:iam::{ACCOUNT}:role/r",
        "Runtime": "python3.13",
        "Timeout": 30,
    }
    function = {"config": config, "code_zip": archive.getvalue()}
    result = lambda_svc._execute_function_warm(function, {}, "request")
    lambda_runtime.reset()
    return str(result["body"]["errorType"])
