"""Where MiniStack 1.5.33 differs from AWS in ways this project meets.

One function a gap. Each docstring says what AWS does, what MiniStack does and
when the shim can go: when its test in `tests/local/test_shims.py` fails because
the gap has closed. Private names of MiniStack are used here and in
`local/status.py` only.
"""

import contextvars
import functools
import json
import math
import threading
import time
from collections.abc import Callable
from datetime import datetime
from types import FunctionType
from typing import Any

from ministack import app
from ministack.core import iam_actions, lambda_runtime, sigv4
from ministack.core.concurrency import esm_wake
from ministack.services import cloudwatch, dynamodb, eventbridge, lambda_svc, scheduler, sqs, stepfunctions

from local import permissions, status, streams

_TICK_SECONDS = 0.2
_LONGEST_TASK = 99_999_999

Response = tuple[int, dict[str, str], bytes]


def apply() -> None:
    """Apply all, once, before MiniStack serves."""
    for shim in ALL:
        shim()


def schedules_fire_promptly() -> None:
    """Look for due schedules and rules several times a second.

    AWS fires within the minute (Scheduler user guide, "Schedule types").
    MiniStack looks every 10 s, for ever after a jump of time. Can go when the
    interval is a setting.
    """
    scheduler._SCHEDULE_TICK_INTERVAL = _TICK_SECONDS
    eventbridge._SCHEDULER_TICK_INTERVAL = _TICK_SECONDS


def waits_follow_the_clock() -> None:
    """Wait, Retry and callback time-outs end when the clock says so.

    On AWS there is one time. MiniStack computes a duration and sleeps through
    it, so a jump of time is not noticed. Can go when it polls the wall clock.
    """
    stepfunctions._sleep_until = _sleep_until
    stepfunctions._scaled_sleep = lambda seconds: _sleep_to_epoch(time.time() + seconds)
    stepfunctions.threading = _ThreadingOnTheClock()


def queues_are_read_after_a_jump() -> None:
    """Messages that became visible by a jump of time are delivered at once.

    MiniStack's poller looks at its queues when something is written, else once
    a second. Needed as long as time travels.
    """
    threading.Thread(target=_wake_on_jumps, name="duebook-jumps", daemon=True).start()


def timeouts_may_be_expressions() -> None:
    """Evaluate `TimeoutSeconds` and `HeartbeatSeconds` before the task runs.

    AWS accepts a JSONata expression (Step Functions guide, "Task state").
    MiniStack reads the field raw and dies on a string. Can go when it evaluates.
    """
    run = stepfunctions._execute_task

    @functools.wraps(run)
    def execute_task(state: dict[str, Any], given: Any, execution: Any, ctx: Any) -> Any:
        for field in ("TimeoutSeconds", "HeartbeatSeconds"):
            if not isinstance(state.get(field), str):
                continue
            seconds = stepfunctions._jsonata_state_field(state, field, "number", given, ctx)
            if not 0 < seconds <= _LONGEST_TASK:
                reason = f"{field} is out of range: {seconds}"
                raise stepfunctions._ExecutionError("States.Runtime", reason)
            state = {**state, field: int(seconds)}
        return run(state, given, execution, ctx)

    stepfunctions._execute_task = execute_task


def every_attempt_has_its_token() -> None:
    """A retried callback task gets a fresh token.

    AWS issues one for every attempt (Step Functions guide, "Wait for a
    callback with the task token"). MiniStack makes one a state. Can go when a
    retry's token differs.
    """
    evaluate = stepfunctions._apply_jsonata_arguments

    @functools.wraps(evaluate)
    def apply_arguments(state: dict[str, Any], given: Any, ctx: Any = None) -> Any:
        if ctx and _is_callback(state):
            ctx["Task"] = {"Token": stepfunctions.new_uuid()}
        return evaluate(state, given, ctx)

    stepfunctions._apply_jsonata_arguments = apply_arguments


def failing_notifier_fails_the_task() -> None:
    """A function that raises while handing out a token fails its state at once.

    So on AWS: the integration's error reaches Retry and Catch. MiniStack
    swallows it and waits for the callback. Can go when it propagates.
    """
    call = stepfunctions._call_lambda

    @functools.wraps(call)
    def call_lambda(function: str, event: Any) -> Any:
        try:
            return call(function, event)
        except stepfunctions._ExecutionError as error:
            task = stepfunctions._task_tokens.get(_token.get())
            if task is not None and not task["event"].is_set():
                task["error"] = {"Error": error.error, "Cause": error.cause}
                task["event"].set()
            raise

    stepfunctions._call_lambda = call_lambda


def callbacks_are_answered_as_on_aws() -> None:
    """SendTaskSuccess and SendTaskFailure refuse with AWS's errors.

    AWS: TaskTimedOut for a token that is closed or was used, InvalidToken for
    one it never issued, InvalidOutput for output that is not JSON (API
    reference, SendTaskSuccess). MiniStack: TaskDoesNotExist, accepts a token
    twice and any output. Can go when those three come from upstream.
    """
    invoke = stepfunctions._invoke_with_callback

    @functools.wraps(invoke)
    def invoke_with_callback(resource: str, given: Any, token: str, state: Any) -> Any:
        mark = _token.set(token)
        try:
            return invoke(resource, given, token, state)
        finally:
            _token.reset(mark)
            _closed_tokens.add(token)

    stepfunctions._invoke_with_callback = invoke_with_callback
    for name in ("_send_task_success", "_send_task_failure", "_send_task_heartbeat"):
        setattr(stepfunctions, name, _guarded(getattr(stepfunctions, name)))


def callbacks_are_authorized_on_their_machine() -> None:
    """SendTask* is evaluated on the ARN of the state machine that issued the token.

    So on AWS (Service Authorization Reference, Step Functions). MiniStack
    evaluates it on `*`, so a policy for one machine never allows it. Can go
    when it knows the machine.
    """
    evaluate = stepfunctions._apply_jsonata_arguments
    extract = iam_actions.extract_resource_arn

    @functools.wraps(evaluate)
    def apply_arguments(state: dict[str, Any], given: Any, ctx: Any = None) -> Any:
        arguments = evaluate(state, given, ctx)
        if ctx and _is_callback(state):
            _machines[ctx["Task"]["Token"]] = ctx["StateMachine"]["Id"]
        return arguments

    @functools.wraps(extract)
    def extract_resource_arn(service: str, method: str, path: str, headers: Any, body: Any, *rest: Any) -> str:
        target = str(headers.get("x-amz-target", ""))
        if service == "states" and ".SendTask" in target:
            machine = _machines.get(json.loads(body or b"{}").get("taskToken"))
            if machine:
                return machine
        arn: str = extract(service, method, path, headers, body, *rest)
        return arn

    stepfunctions._apply_jsonata_arguments = apply_arguments
    iam_actions.extract_resource_arn = extract_resource_arn


def starting_again_answers_the_same() -> None:
    """StartExecution with the name and input of a running execution returns its ARN.

    So on AWS (API reference, StartExecution: idempotent for Standard).
    MiniStack answers ExecutionAlreadyExists. Can go when it doesn't.
    """
    start = stepfunctions._start_execution

    @functools.wraps(start)
    def start_execution(request: dict[str, Any]) -> Response:
        machine = stepfunctions._resolve_state_machine_arn(request.get("stateMachineArn", ""))
        if machine and request.get("name"):
            arn = f"{machine.replace(':stateMachine:', ':execution:')}:{request['name']}"
            known = stepfunctions._executions.get(arn)
            same = known and known["input"] == request.get("input", "{}")
            if same and known["status"] == "RUNNING":
                answer = {"executionArn": arn, "startDate": known["startDate"]}
                response: Response = stepfunctions.json_response(answer)
                return response
        repeated: Response = start(request)
        return repeated

    stepfunctions._start_execution = start_execution


def schedules_are_authorized_in_their_group() -> None:
    """Schedule actions are evaluated on `schedule/<the request's group>/<name>`.

    So on AWS (Service Authorization Reference, EventBridge Scheduler).
    MiniStack always names group `default`. Can go when it reads the group.
    """
    extract = iam_actions.extract_resource_arn

    @functools.wraps(extract)
    def extract_resource_arn(
        service: str, method: str, path: str, headers: Any, body: Any, query: Any, *rest: Any
    ) -> str:
        arn: str = extract(service, method, path, headers, body, query, *rest)
        return arn.replace(":schedule/default/", f":schedule/{_group(body, query)}/")

    iam_actions.extract_resource_arn = extract_resource_arn


def deliveries_need_permission() -> None:
    """A schedule delivers under its target's role, a rule where the queue's policy lets it.

    AWS evaluates the role's trust and policies, and the queue's policy; a
    refused delivery goes to the target's dead-letter queue. MiniStack delivers
    whatever they say, and loses what it can't deliver. Can go when it asks them.
    """
    invoke = eventbridge._invoke_target

    @functools.wraps(invoke)
    def invoke_target(target: dict[str, Any], event: Any, rule: dict[str, Any], view: Any = None) -> None:
        scheduled = event.get("Source") == "aws.scheduler"
        if not app.AUTH:
            refused = None
        elif scheduled:
            refused = permissions.schedule_may_deliver(target=target, schedule=rule)
        else:
            refused = permissions.rule_may_deliver(target=target, rule=rule)
        if refused is None:
            invoke(target, event, rule, view)
            return
        eventbridge.logger.error("not delivered: %s: %s", rule.get("Arn"), refused)
        _bury(target, rule, reason=refused)

    eventbridge._invoke_target = invoke_target


def handing_over_a_role_needs_permission() -> None:
    """Who makes or replaces a schedule may pass its target's role.

    AWS asks for `iam:PassRole` at create and update (EventBridge Scheduler
    user guide, "Identity-based policies"). MiniStack doesn't. Can go when it does.
    """
    for name in ("_create_schedule", "_update_schedule"):
        setattr(scheduler, name, _passing(getattr(scheduler, name)))


def workflows_call_under_their_role() -> None:
    """A state machine's role must allow the functions it calls.

    So on AWS (Step Functions guide, "IAM policies for integrated services").
    MiniStack calls whatever is named. Can go when it asks the role.
    """
    run = stepfunctions._run_execution
    call = stepfunctions._call_lambda

    @functools.wraps(run)
    def run_execution(arn: str) -> None:
        machine = stepfunctions._state_machines.get(stepfunctions._executions[arn]["stateMachineArn"])
        _machine_role.set(machine and machine["roleArn"])
        run(arn)

    @functools.wraps(call)
    def call_lambda(function: str, event: Any) -> Any:
        role = _machine_role.get()
        if app.AUTH and role and function.startswith("arn:"):
            refused = permissions.role_allows(role, action="lambda:InvokeFunction", resource=function)
            if refused:
                raise stepfunctions._ExecutionError("Lambda.AWSLambdaException", refused)
        return call(function, event)

    stepfunctions._run_execution = run_execution
    stepfunctions._call_lambda = call_lambda


def publishing_is_authorized_by_source() -> None:
    """PutEvents is evaluated with the condition key `events:source`.

    So on AWS, entry by entry (EventBridge user guide, "Using IAM policy
    conditions"). MiniStack leaves the key out, so a policy that names a source
    never allows it. Can go when it fills it in.
    """
    describe = iam_actions.request_tag_context

    @functools.wraps(describe)
    def request_tag_context(service: str, action: str, body: bytes, *rest: Any) -> dict[str, Any]:
        known: dict[str, Any] = describe(service, action, body, *rest)
        if action != "events:PutEvents":
            return known
        sources = sorted({str(entry.get("Source")) for entry in json.loads(body)["Entries"]})
        return {**known, "events:source": sources[0] if len(sources) == 1 else sources}

    iam_actions.request_tag_context = request_tag_context


def targets_are_authorized_on_their_rule() -> None:
    """PutTargets and RemoveTargets are evaluated on the rule that they name.

    So on AWS (Service Authorization Reference, EventBridge). MiniStack reads the
    rule from `Name`, but these two call it `Rule`, and so evaluates them on the
    bus. Can go when it reads both.
    """
    extract = iam_actions.extract_resource_arn

    @functools.wraps(extract)
    def extract_resource_arn(service: str, method: str, path: str, headers: Any, body: Any, *rest: Any) -> str:
        if service == "events" and str(headers.get("x-amz-target", "")).endswith("Targets"):
            named = json.loads(body or b"{}")
            body = json.dumps({**named, "Name": named.get("Rule")}).encode()
        arn: str = extract(service, method, path, headers, body, *rest)
        return arn

    iam_actions.extract_resource_arn = extract_resource_arn


def schedules_are_listed_in_pages() -> None:
    """ListSchedules goes on after the first page.

    AWS returns `NextToken` while there is more (API reference, ListSchedules;
    100 a page). MiniStack drops the rest. Can go when it returns a token.
    """

    def list_schedules(query: dict[str, str]) -> Response:
        size = int(query.get("MaxResults", 100))
        start = int(query.get("NextToken", 0))
        _, _, everything = whole({**query, "MaxResults": "1000000000"})
        found = json.loads(everything)["Schedules"]
        page: dict[str, Any] = {"Schedules": found[start : start + size]}
        if start + size < len(found):
            page["NextToken"] = str(start + size)
        response: Response = scheduler._json_resp(200, page)
        return response

    whole = scheduler._list_schedules
    scheduler._list_schedules = functools.wraps(whole)(list_schedules)


def a_new_instant_fires_again() -> None:
    """A schedule that fired and is updated, or deleted and made again, fires again.

    So on AWS. MiniStack remembers by name that it fired and never fires it
    again. Can go when update and delete forget.
    """
    for name in ("_update_schedule", "_delete_schedule"):
        change = getattr(scheduler, name)
        setattr(scheduler, name, _forgetting(change))


def signatures_may_be_from_another_time() -> None:
    """Accept a request whatever the time it was signed at.

    AWS refuses one signed more than 5 or 15 minutes away, and so does
    MiniStack. Here a caller lives in real time while the emulator's travels.
    Needed as long as time travels.
    """
    sigv4.request_time_failure = lambda *_, **__: None


def requests_count_as_encrypted() -> None:
    """Treat every request as if it came over TLS.

    Queue policies that refuse plain HTTP (`aws:SecureTransport`) are wanted on
    AWS; this emulator is reached over HTTP on 127.0.0.1 only. Needed as long as
    it has no certificate.
    """
    pin = app.pin_request_origin
    app.pin_request_origin = lambda address, _secure: pin(address, True)


def python_errors_keep_their_class() -> None:
    """A raising Python function's error type is the name of its exception's class.

    So on AWS (Lambda guide, "Python function errors"), and a workflow's Retry
    and Catch match it. MiniStack says `Runtime.HandlerError`. Can go when it
    passes the class name on.
    """
    raised = '"status": "error", "error": str(e), "trace"'
    script = lambda_runtime._PYTHON_WORKER_SCRIPT
    named = raised.replace('"trace"', '"type": type(e).__name__, "trace"')
    lambda_runtime._PYTHON_WORKER_SCRIPT = script.replace(raised, named)
    invoke = lambda_runtime.Worker.invoke
    execute = lambda_svc._execute_function_warm

    @functools.wraps(invoke)
    def invoke_worker(self: Any, *args: Any, **named: Any) -> Any:
        result = invoke(self, *args, **named)
        _error_class.set(result.get("type"))
        return result

    @functools.wraps(execute)
    def execute_warm(function: Any, event: Any, request_id: str) -> Any:
        _error_class.set(None)
        result = execute(function, event, request_id)
        if result.get("error") and _error_class.get():
            result["body"]["errorType"] = _error_class.get()
        return result

    lambda_runtime.Worker.invoke = invoke_worker
    lambda_svc._execute_function_warm = execute_warm


def table_streams_give_up() -> None:
    """A failing batch of table changes is split, retried a bounded number of times, then sent on.

    AWS honours MaximumRetryAttempts, BisectBatchOnFunctionError and
    ReportBatchItemFailures, and reports a discarded batch to the on-failure
    destination (Lambda guide, "Using Lambda with DynamoDB"). MiniStack retries
    for ever and ignores the response. Can go when it stops.
    """
    lambda_svc._poll_dynamodb_streams = streams.poll


def table_streams_keep_their_records() -> None:
    """A change of a table is there to be read, however far the clock jumps.

    AWS keeps stream records for 24 hours of its one time (DynamoDB guide, "Change
    data capture"). MiniStack drops those that a jump made older, whether read or
    not, and does so from several threads at once without a lock, so that now and
    then one drops as many of the newest as well. Can go when dropping has a lock
    and spares what is unread.
    """
    dynamodb._STREAM_RETENTION_SECONDS = math.inf


def queues_lose_no_message() -> None:
    """A message that arrives while another one is deleted is not lost.

    SQS keeps what it took. MiniStack deletes by making a new list of what stays,
    on one thread, while rules and schedules append to the old one on others, so
    that now and then a message vanishes. Can go when both hold the queues' lock.
    """
    lock = threading.RLock()
    sqs._queues_lock = lock
    for action in ("SendMessage", "SendMessageBatch", "DeleteMessage", "DeleteMessageBatch", "PurgeQueue"):
        sqs._HANDLERS[action] = _holding(lock, sqs._HANDLERS[action])
    for name in ("_collect_msgs", "_expire_retained", "_dlq_sweep"):
        setattr(sqs, name, _holding(lock, getattr(sqs, name)))
    eventbridge._dispatch_to_sqs = _holding(lock, eventbridge._dispatch_to_sqs)


def embedded_metrics_become_metrics() -> None:
    """What a function prints in the embedded metric format becomes a metric.

    So on AWS, whatever log group it goes to (CloudWatch user guide, "Embedding
    metrics within logs"). MiniStack keeps the line as a log event alone. Can go
    when such a line is found among the metrics, and its alarms are evaluated.
    """
    emit = lambda_svc._emit_lambda_logs

    @functools.wraps(emit)
    def emit_lambda_logs(func: Any, request_id: str, log_text: str, *rest: Any, **options: Any) -> None:
        emit(func, request_id, log_text, *rest, **options)
        for line in (log_text or "").splitlines():
            if line.startswith("{") and '"_aws"' in line:
                _embedded(json.loads(line))

    lambda_svc._emit_lambda_logs = emit_lambda_logs


def alarms_see_their_own_dimensions() -> None:
    """An alarm is evaluated on the one metric that has exactly its dimensions.

    So on AWS (CloudWatch user guide, "Dimensions": each combination is a metric
    of its own). MiniStack takes every metric of that name together. Can go when
    a neighbour's value leaves an alarm alone.
    """
    evaluate = cloudwatch._evaluate_alarm

    @functools.wraps(evaluate)
    def evaluate_alarm(alarm: dict[str, Any]) -> None:
        dimensions = {each["Name"]: each["Value"] for each in alarm.get("Dimensions", [])}
        key = (alarm.get("Namespace"), alarm.get("MetricName"), cloudwatch._dims_key(dimensions))
        own = {key: cloudwatch._metrics.get(key) or []}
        FunctionType(evaluate.__code__, {**vars(cloudwatch), "_metrics": own})(alarm)

    cloudwatch._evaluate_alarm = evaluate_alarm


ALL: tuple[Callable[[], None], ...] = (
    schedules_fire_promptly,
    waits_follow_the_clock,
    queues_are_read_after_a_jump,
    timeouts_may_be_expressions,
    callbacks_are_authorized_on_their_machine,
    every_attempt_has_its_token,
    workflows_call_under_their_role,
    failing_notifier_fails_the_task,  # after the one above: a refused call fails the task too
    callbacks_are_answered_as_on_aws,
    starting_again_answers_the_same,
    schedules_are_authorized_in_their_group,
    deliveries_need_permission,
    handing_over_a_role_needs_permission,
    publishing_is_authorized_by_source,
    targets_are_authorized_on_their_rule,
    schedules_are_listed_in_pages,
    a_new_instant_fires_again,
    signatures_may_be_from_another_time,
    requests_count_as_encrypted,
    python_errors_keep_their_class,
    table_streams_give_up,
    table_streams_keep_their_records,
    queues_lose_no_message,
    embedded_metrics_become_metrics,
    alarms_see_their_own_dimensions,
)

_token: contextvars.ContextVar[str | None] = contextvars.ContextVar("callback token", default=None)
_error_class: contextvars.ContextVar[str | None] = contextvars.ContextVar("error", default=None)
_machine_role: contextvars.ContextVar[str | None] = contextvars.ContextVar("role", default=None)
_closed_tokens: set[str] = set()
_machines: dict[str, str] = {}


class _EventOnTheClock(threading.Event):
    """An event whose time-out is an instant of the clock, not a duration."""

    def wait(self, timeout: float | None = None) -> bool:
        end = math.inf if timeout is None else time.time() + timeout
        with _Waiting(until=end):
            while time.time() < end:
                if super().wait(_TICK_SECONDS):
                    return True
        return self.is_set()


class _ThreadingOnTheClock:
    """The `threading` module with the event above."""

    Event = _EventOnTheClock

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)


class _Waiting:
    """Marks a workflow as waiting, so that the status can tell it from a running one."""

    def __init__(self, *, until: float) -> None:
        self._until = until

    def __enter__(self) -> None:
        status.waits[threading.get_ident()] = self._until

    def __exit__(self, *_: object) -> None:
        status.waits.pop(threading.get_ident(), None)


def _holding(lock: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def held(*arguments: Any, **named: Any) -> Any:
        with lock:
            return function(*arguments, **named)

    return held


def _wake_on_jumps() -> None:
    offset = time.time() - time.monotonic()
    while True:
        time.sleep(_TICK_SECONDS / 4)
        now = time.time() - time.monotonic()
        if abs(now - offset) > _TICK_SECONDS:
            esm_wake.set()
        offset = now


def _sleep_until(timestamp: str) -> None:
    _sleep_to_epoch(datetime.fromisoformat(timestamp).timestamp())


def _sleep_to_epoch(end: float) -> None:
    with _Waiting(until=end):
        while time.time() < end:
            time.sleep(min(_TICK_SECONDS, max(0.0, end - time.time())))


def _is_callback(state: dict[str, Any]) -> bool:
    return ".waitForTaskToken" in str(state.get("Resource", ""))


def _guarded(send: Callable[[dict[str, Any]], Response]) -> Callable[[dict[str, Any]], Response]:
    @functools.wraps(send)
    def guarded(request: dict[str, Any]) -> Response:
        token = request.get("taskToken")
        task = stepfunctions._task_tokens.get(token)
        if token in _closed_tokens or (task and task["event"].is_set()):
            return _refusal("TaskTimedOut", "Task Timed Out: 'Provided task does not exist anymore'")
        if task is None:
            return _refusal("InvalidToken", "Invalid Token: 'Invalid token'")
        if not _is_json(request.get("output", "{}")):
            return _refusal("InvalidOutput", "Invalid Output: 'the output is not JSON'")
        return send(request)

    return guarded


def _refusal(code: str, message: str) -> Response:
    response: Response = stepfunctions.error_response_json(code, message, 400)
    return response


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _group(body: bytes | None, query: dict[str, Any] | None) -> str:
    """The schedule group that a request names: in its query (get, delete) or its body."""
    named: Any = (query or {}).get("groupName")
    if named is None and body:
        try:
            named = json.loads(body).get("GroupName")
        except (ValueError, AttributeError):
            named = None
    if isinstance(named, list):
        named = named[0]
    return str(named or "default")


def _forgetting(change: Callable[..., Response]) -> Callable[..., Response]:
    @functools.wraps(change)
    def forgetting(name: str, request: dict[str, str]) -> Response:
        group = request.get("GroupName") or request.get("groupName") or "default"
        key = scheduler._schedules._scoped(f"{group}/{name}")
        response = change(name, request)
        scheduler._schedule_last_fired.pop(key, None)
        return response

    return forgetting


def _passing(change: Callable[..., Response]) -> Callable[..., Response]:
    @functools.wraps(change)
    def passing(name: str, request: dict[str, Any]) -> Response:
        role = (request.get("Target") or {}).get("RoleArn")
        refused = permissions.caller_may_pass(role, service=permissions.SCHEDULER) if app.AUTH and role else None
        if refused:
            response: Response = scheduler._error(403, "AccessDeniedException", refused)
            return response
        return change(name, request)

    return passing


def _embedded(document: dict[str, Any]) -> None:
    """Store each metric of a document in the embedded metric format, and evaluate the alarms on it."""
    at = document["_aws"]["Timestamp"] / 1000
    for directive in document["_aws"]["CloudWatchMetrics"]:
        namespace, names = directive["Namespace"], [each["Name"] for each in directive["Metrics"]]
        for dimensions in directive["Dimensions"]:
            at_place = {name: document[name] for name in dimensions}
            for each in directive["Metrics"]:
                found = document[each["Name"]]
                values = found if isinstance(found, list) else [found]
                unit = each.get("Unit", "None")
                cloudwatch._store_datum(namespace, each["Name"], at_place, at, unit, None, values, None, None)
        for alarm in list(cloudwatch._alarms.values()):
            if alarm.get("Namespace") == namespace and alarm.get("MetricName") in names:
                cloudwatch._evaluate_alarm(alarm)


def _bury(target: dict[str, Any], rule: dict[str, Any], *, reason: str) -> None:
    """Send what was not delivered to the target's dead-letter queue, if it has one."""
    arn = (target.get("DeadLetterConfig") or {}).get("Arn")
    if not arn or sqs._queue_by_arn(arn) is None:
        return
    attributes = {"ERROR_CODE": "AccessDenied", "ERROR_MESSAGE": reason, "TARGET_ARN": target["Arn"]}
    source = "SCHEDULE_ARN" if "ScheduleExpression" in rule and "Target" in rule else "RULE_ARN"
    sqs._act_send_message(
        {
            "MessageBody": target.get("Input") or "{}",
            "MessageAttributes": {
                name: {"DataType": "String", "StringValue": value}
                for name, value in {**attributes, source: rule["Arn"]}.items()
            },
        },
        sqs._queue_url(arn.rsplit(":", 1)[-1]),
    )
