"""The dispute's state machine at AWS Step Functions.

Sources: the Step Functions API reference (StartExecution: same name and input while running answers the same execution,
a name is taken for 90 days; SendTaskSuccess: TaskTimedOut when the task waits no more, InvalidToken for a bad token).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from duebook.adapters import aws
from duebook.domain.errors import AwsFailure, Throttled
from duebook.domain.names import execution_name
from duebook.domain.times import iso

MOST_EVENTS = 1_000
"""Of one execution, that a timeline shows."""
T = TypeVar("T")


class _Taken(AwsFailure):
    """An execution has, or had, that name."""


class _Gone(AwsFailure):
    """The task does not wait any more."""


class _Missing(AwsFailure):
    """There is no such execution, or no such state machine."""


_KINDS: Mapping[str, type[AwsFailure]] = {
    "ExecutionAlreadyExists": _Taken,
    "TaskTimedOut": _Gone,
    "TaskDoesNotExist": _Gone,
    "InvalidToken": _Gone,
    "ExecutionDoesNotExist": _Missing,
    "StateMachineDoesNotExist": _Missing,
    "ThrottlingException": Throttled,
    "TooManyRequestsException": Throttled,
}


class StepFunctionsWorkflow:
    """`machine_arn` is the state machine's ARN; executions are named as `execution_name` says."""

    def __init__(self, client: Any, machine_arn: str) -> None:
        self._client = client
        self._machine_arn = machine_arn

    def start(self, dispute_id: str, run: int) -> bool:
        body = json.dumps({"dispute_id": dispute_id, "run": run})
        name = execution_name(dispute_id, run)
        try:
            _call(lambda: self._client.start_execution(stateMachineArn=self._machine_arn, name=name, input=body))
        except _Taken:
            return False
        return True

    def is_running(self, dispute_id: str, run: int) -> bool:
        arn = self._execution(dispute_id, run)
        try:
            answer = _call(lambda: self._client.describe_execution(executionArn=arn))
        except _Missing:
            return False
        return bool(answer["status"] in ("RUNNING", "PENDING_REDRIVE"))

    def succeed(self, token: str) -> bool:
        """What goes wrong is told without AWS's own error, whose message may quote the token."""
        try:
            _call(lambda: self._client.send_task_success(taskToken=token, output="{}"))
        except _Gone:
            return False
        except AwsFailure as failure:
            raise failure from None
        return True

    def events(self, dispute_id: str, run: int) -> Sequence[Mapping[str, Any]] | None:
        found: list[dict[str, Any]] = []
        more: dict[str, str] = {}
        arn = self._execution(dispute_id, run)
        for _ in range(10):
            try:
                page = _call(partial(self._history, arn, more))
            except _Missing:
                return None
            found += told(page["events"])
            if "nextToken" not in page or len(found) >= MOST_EVENTS:
                break
            more = {"nextToken": page["nextToken"]}
        return found[:MOST_EVENTS]

    def console_url(self, dispute_id: str, run: int) -> str:
        region = self._machine_arn.split(":")[3]
        home = f"https://{region}.console.aws.amazon.com/states/home?region={region}"
        return f"{home}#/v2/executions/details/{self._execution(dispute_id, run)}"

    def _history(self, arn: str, more: Mapping[str, str]) -> Any:
        return self._client.get_execution_history(
            executionArn=arn, maxResults=MOST_EVENTS, includeExecutionData=False, **more
        )

    def _execution(self, dispute_id: str, run: int) -> str:
        executions = self._machine_arn.replace(":stateMachine:", ":execution:")
        return f"{executions}:{execution_name(dispute_id, run)}"


def told(events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A page of an execution's history in plain words, without what tells an operator nothing."""
    return [{"at": iso(event["timestamp"]), "text": text} for event in events if (text := _words(event))]


def _words(event: Mapping[str, Any]) -> str | None:
    """An event of the history in plain words; None for one that tells an operator nothing. Never any parameters."""
    kind = str(event["type"])
    match kind:
        case "TaskStateEntered" | "WaitStateEntered" | "SucceedStateEntered":
            return f"entered {event['stateEnteredEventDetails']['name']}"
        case "TaskSucceeded":
            return "the wait was answered" if _waits(event, "taskSucceededEventDetails") else None
        case "TaskTimedOut":
            return _TIME_IS_UP if _waits(event, "taskTimedOutEventDetails") else "the step took too long"
        case "TaskFailed":
            error = event.get("taskFailedEventDetails", {}).get("error", "")
            return _TIME_IS_UP if error == "States.Timeout" else f"the step failed: {error}"
        case _:
            return _EXECUTION.get(kind)


_TIME_IS_UP = "the deadline of the wait passed"
_EXECUTION = {
    "ExecutionStarted": "the workflow started",
    "ExecutionSucceeded": "the workflow ended",
    "ExecutionFailed": "the workflow failed",
    "ExecutionTimedOut": "the workflow timed out",
    "ExecutionAborted": "the workflow was stopped by hand",
    "ExecutionRedriven": "the workflow was redriven",
}


def _waits(event: Mapping[str, Any], details: str) -> bool:
    """Whether the event is of a state that waits for a task token."""
    return "waitForTaskToken" in event.get(details, {}).get("resource", "")


def _call(request: Callable[[], T]) -> T:
    return aws.call("Step Functions", _KINDS, request)
