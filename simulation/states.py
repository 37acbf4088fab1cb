"""Step Functions on a virtual clock: runs the dispute's real definition, event by event, without threads or sleep.

It knows exactly the states, fields and JSONata that `statemachines/dispute.asl.json` uses and refuses a definition
with anything else when it is loaded. tests/integration/test_dispute_workflow.py plays every way through a dispute on
this and on moto's interpreter, so that neither drifts.

Sources: the Amazon States Language (states-language.net) for retries, catches and waits; the Step Functions guide for
error names, quotas (a year, 25,000 events, 256 KiB, names kept for 90 days) and callback tokens (a new one for every
attempt). Where moto differs, AWS is followed: moto gives a retry the token of the attempt before.
"""

import json
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from weakref import ref

from duebook.adapters.memory.hook import Hook, Twin, no_fault
from duebook.adapters.workflow import told
from duebook.domain.names import execution_name
from simulation.expressions import Evaluate, NotSupported, QueryError, Variables, template

DEFINITION = Path(__file__).parents[1] / "statemachines/dispute.asl.json"
MOST_EVENTS = 25_000
LARGEST_PAYLOAD = 256 * 1024
NAME_IS_KEPT = timedelta(days=90)
TIMEOUT = "States.Timeout"
TASK_FAILED = "States.TaskFailed"
INVOKE = "arn:aws:states:::lambda:invoke"

At = Callable[[datetime, Callable[[], None]], None]
"""`at(instant, callback)`: call back at that instant, never at once; callbacks of one instant in the order given."""


class _HistoryFull(Exception):
    """The execution has as many events as one may have."""


class NoAnswer(Exception):
    """Raised by `invoke`: the function may have run, but its answer never comes. The state's time-out ends it."""


class LambdaError(Exception):
    """Raised by `invoke`: the service or the function's time-out, by the error name that Step Functions gives it.

    Such as `Lambda.Unknown` (time-out, out of memory), `Lambda.TooManyRequestsException`, `Lambda.ServiceException`
    (Step Functions guide, "Handle Lambda service exceptions"). Any other exception is the function's own: its name is
    its class's.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


# --- the definition ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Retrier:
    errors: Sequence[str]
    interval: float
    most: int
    rate: float
    longest: float

    def delay(self, before: int) -> float:
        """Seconds, at most, after so many retries; the jitter FULL draws from nothing to that."""
        return min(self.interval * self.rate**before, self.longest)


@dataclass(frozen=True, slots=True)
class Catcher:
    errors: Sequence[str]
    output: Evaluate
    next: str


@dataclass(frozen=True, slots=True)
class Task:
    resource: str
    payload: Evaluate
    timeout: Evaluate
    assign: Evaluate
    output: Evaluate
    retriers: Sequence[Retrier]
    catchers: Sequence[Catcher]
    next: str | None
    """None: the execution ends with it."""

    @property
    def callback(self) -> bool:
        """Whether it waits for its token, after its function has answered."""
        return self.resource.endswith(".waitForTaskToken")


@dataclass(frozen=True, slots=True)
class Choice:
    choices: Sequence[tuple[Evaluate, str]]
    default: str


@dataclass(frozen=True, slots=True)
class Wait:
    timestamp: Evaluate
    next: str


@dataclass(frozen=True, slots=True)
class Succeed:
    """The execution ends well."""


@dataclass(frozen=True, slots=True)
class Fail:
    error: str


State = Task | Choice | Wait | Succeed | Fail


@dataclass(frozen=True, slots=True)
class Definition:
    start_at: str
    timeout: timedelta
    states: Mapping[str, State]


def load(text: str) -> Definition:
    """Raises `NotSupported` with where and what."""
    machine = json.loads(text)
    _fields(machine, "the state machine", {"QueryLanguage", "StartAt", "TimeoutSeconds", "States"})
    if machine["QueryLanguage"] != "JSONata":
        raise NotSupported("QueryLanguage", machine["QueryLanguage"])
    raw = machine["States"]
    variables = {name for state in raw.values() for name in state.get("Assign", {})}
    states = {name: _state(state, name, variables) for name, state in raw.items()}
    for name, state in [("StartAt", {"Next": machine["StartAt"]}), *raw.items()]:
        for target in _targets(state):
            if target not in states:
                raise NotSupported(name, f"the next state {target!r}, which does not exist")
    return Definition(machine["StartAt"], timedelta(seconds=machine["TimeoutSeconds"]), states)


def _state(raw: Mapping[str, Any], name: str, variables: set[str]) -> State:
    match raw["Type"]:
        case "Task":
            return _task(raw, name, variables)
        case "Choice":
            _fields(raw, name, {"Type", "Choices", "Default"})
            for number, choice in enumerate(raw["Choices"]):
                _fields(choice, f"{name}.Choices[{number}]", {"Condition", "Next"})
            return Choice(
                [(template(c["Condition"], f"{name}.Choices", variables), c["Next"]) for c in raw["Choices"]],
                raw["Default"],
            )
        case "Wait":
            _fields(raw, name, {"Type", "Timestamp", "Next"})
            return Wait(template(raw["Timestamp"], f"{name}.Timestamp", variables), raw["Next"])
        case "Succeed":
            _fields(raw, name, {"Type"})
            return Succeed()
        case "Fail":
            _fields(raw, name, {"Type", "Error"})
            return Fail(raw["Error"])
        case other:
            raise NotSupported(name, f"the state type {other}")


def _task(raw: Mapping[str, Any], name: str, variables: set[str]) -> Task:
    where_to = "End" if raw.get("End") is True else "Next"
    needed = {"Type", "Resource", "Arguments", "TimeoutSeconds", where_to}
    _fields(raw, name, needed, {"Assign", "Output", "Retry", "Catch"})
    if raw["Resource"] not in (INVOKE, f"{INVOKE}.waitForTaskToken"):
        raise NotSupported(f"{name}.Resource", raw["Resource"])
    _fields(raw["Arguments"], f"{name}.Arguments", {"FunctionName", "Payload"})
    retriers = [_retrier(r, f"{name}.Retry[{number}]") for number, r in enumerate(raw.get("Retry", ()))]
    catchers = []
    for number, catcher in enumerate(raw.get("Catch", ())):
        where = f"{name}.Catch[{number}]"
        _fields(catcher, where, {"ErrorEquals", "Output", "Next"})
        catchers.append(Catcher(catcher["ErrorEquals"], template(catcher["Output"], where, variables), catcher["Next"]))
    return Task(
        resource=raw["Resource"].rpartition(":")[2],
        payload=template(raw["Arguments"]["Payload"], f"{name}.Arguments.Payload", variables),
        timeout=template(raw["TimeoutSeconds"], f"{name}.TimeoutSeconds", variables),
        assign=template(raw.get("Assign", {}), f"{name}.Assign", variables),
        output=template(raw.get("Output", "{% $states.result %}"), f"{name}.Output", variables),
        retriers=retriers,
        catchers=catchers,
        next=raw.get("Next"),
    )


def _retrier(raw: Mapping[str, Any], where: str) -> Retrier:
    needed = {"ErrorEquals", "IntervalSeconds", "MaxAttempts", "BackoffRate", "MaxDelaySeconds", "JitterStrategy"}
    _fields(raw, where, needed)
    if raw["JitterStrategy"] != "FULL":
        raise NotSupported(f"{where}.JitterStrategy", raw["JitterStrategy"])
    return Retrier(
        raw["ErrorEquals"], raw["IntervalSeconds"], raw["MaxAttempts"], raw["BackoffRate"], raw["MaxDelaySeconds"]
    )


def _fields(raw: Mapping[str, Any], where: str, needed: set[str], optional: Collection[str] = ()) -> None:
    if missing := needed - raw.keys():
        raise NotSupported(where, f"no {', '.join(sorted(missing))}")
    if unknown := raw.keys() - needed - {*optional, "Comment"}:
        raise NotSupported(where, f"the field {', '.join(sorted(unknown))}")


def _targets(raw: Mapping[str, Any]) -> list[str]:
    nested = [*raw.get("Choices", ()), *raw.get("Catch", ())]
    return [part[key] for part in (raw, *nested) for key in ("Next", "Default") if key in part]


def _matches(errors: Sequence[str], error: str) -> bool:
    """States.TaskFailed matches every error but a time-out; States.ALL matches that too."""
    return error in errors or (TASK_FAILED in errors and error != TIMEOUT) or "States.ALL" in errors


# --- executions ---------------------------------------------------------------------------------------------------


@dataclass(slots=True, weakref_slot=True, eq=False)
class Execution:
    """One run. `events` are as GetExecutionHistory answers them. `step` grows with all that happens to it, so that
    what was planned before does nothing when it comes."""

    name: str
    input: Any
    state: str
    status: str = "RUNNING"
    variables: dict[str, Any] = field(default_factory=dict)
    step: int = 0
    retries: dict[int, int] = field(default_factory=dict)
    token: str | None = None
    ended_at: datetime | None = None
    events: list[dict[str, Any]] = field(default_factory=list)


class Machine:
    """All executions of one definition.

    `invoke(payload) -> result` runs the Lambda function; it may raise (see `LambdaError`, `NoAnswer`). `at` is the
    virtual clock's: nothing runs inside `start` or `succeed`, all in what is given to `at`. `jitter(most)` draws the
    seconds of a retry's delay. `early()` is how much sooner the next Wait ends (Step Functions' clock is not ours).
    """

    def __init__(
        self,
        definition: Definition,
        *,
        now: Callable[[], datetime],
        at: At,
        invoke: Callable[[dict[str, Any]], Any],
        jitter: Callable[[float], float],
        early: Callable[[], timedelta] = timedelta,
    ) -> None:
        self.executions: dict[str, Execution] = {}
        self._definition = definition
        self._now = now
        self._at = at
        self._invoke = invoke
        self._jitter = jitter
        self._early = early
        self._waiting: dict[str, Execution] = {}
        self._ended: deque[Execution] = deque()

    # --- what is asked from outside --------------------------------------------------------------------------------

    def start(self, name: str, body: Mapping[str, Any]) -> bool:
        """StartExecution. True also when it runs already with the same input; False when the name is taken."""
        known = self.find(name)
        if known is not None:
            return known.status == "RUNNING" and known.events[0]["executionStartedEventDetails"]["input"] == body
        execution = Execution(name, body, self._definition.start_at)
        self.executions[name] = execution
        self._note(execution, "ExecutionStarted", executionStartedEventDetails={"input": body})
        self._plan(execution, self._now(), self._enter, execution.state)
        self._at(self._now() + self._definition.timeout, partial(self._out_of_time, ref(execution)))
        return True

    def find(self, name: str) -> Execution | None:
        """None when there was none, or its 90 days are over."""
        while self._ended and (first := self._ended[0]).ended_at and self._now() - first.ended_at >= NAME_IS_KEPT:
            del self.executions[self._ended.popleft().name]
        return self.executions.get(name)

    def succeed(self, token: str, output: Mapping[str, Any]) -> bool:
        """SendTaskSuccess; False when no state waits with that token."""
        execution = self._waiting.get(token)
        if execution is None:
            return False
        self._moves(execution)
        self._plan(execution, self._now(), self._succeeded, output)
        return True

    def kill(self, name: str) -> bool:
        """StopExecution; False when it does not run."""
        execution = self.find(name)
        if execution is None or execution.status != "RUNNING":
            return False
        self._end(execution, "ABORTED", "ExecutionAborted")
        return True

    def running(self) -> list[Execution]:
        """In the order they were started."""
        return [execution for execution in self.executions.values() if execution.status == "RUNNING"]

    # --- states ----------------------------------------------------------------------------------------------------

    def _enter(self, execution: Execution, name: str) -> None:
        execution.state = name
        execution.retries = {}
        state = self._definition.states[name]
        self._note(execution, f"{_kind(state)}StateEntered", stateEnteredEventDetails={"name": name})
        match state:
            case Task():
                self._attempt(execution)
            case Choice():
                found = self._read(execution)
                chosen = (to for condition, to in state.choices if condition(found, self._now()) is True)
                self._go_on(execution, next(chosen, state.default))
            case Wait():
                until = datetime.fromisoformat(state.timestamp(self._read(execution), self._now()))
                until = until.replace(microsecond=0) - self._early()
                self._plan(execution, max(until, self._now()), self._go_on, state.next)
            case Succeed():
                self._end(execution, "SUCCEEDED", "ExecutionSucceeded")
            case Fail(error):
                self._end(execution, "FAILED", "ExecutionFailed", error=error)

    def _attempt(self, execution: Execution) -> None:
        self._moves(execution)
        task, step = self._task(execution), execution.step
        context: dict[str, Any] = {}
        if task.callback:
            execution.token = f"AQC+{execution.name}/{step}="
            self._waiting[execution.token] = execution
            context["Task"] = {"Token": execution.token}
        found = self._read(execution, context=context)
        payload, seconds = task.payload(found, self._now()), task.timeout(found, self._now())
        self._note(execution, "TaskScheduled", taskScheduledEventDetails={"resource": task.resource})
        self._note(execution, "TaskStarted", taskStartedEventDetails={"resource": task.resource})
        self._plan(execution, self._now() + timedelta(seconds=seconds), self._timed_out)
        try:
            answer = json.dumps({"StatusCode": 200, "Payload": self._invoke(payload)})
        except NoAnswer:
            return
        except Exception as error:
            if execution.step == step:
                self._function_failed(execution, error)
            return
        if execution.step != step:
            return
        if len(answer) > LARGEST_PAYLOAD:
            self._end(execution, "FAILED", "ExecutionFailed", error="States.DataLimitExceeded")
        elif task.callback:
            self._note(execution, "TaskSubmitted", taskSubmittedEventDetails={"resource": task.resource})
        else:
            self._succeeded(execution, json.loads(answer))

    def _succeeded(self, execution: Execution, result: Any) -> None:
        task = self._task(execution)
        self._note(execution, "TaskSucceeded", taskSucceededEventDetails={"resource": task.resource})
        found = self._read(execution, result=result)
        assigned, execution.input = task.assign(found, self._now()), task.output(found, self._now())
        execution.variables |= assigned
        self._go_on(execution, task.next)

    def _function_failed(self, execution: Execution, error: Exception) -> None:
        """Told as Lambda tells an exception (Lambda guide, "Python function errors")."""
        name = error.name if isinstance(error, LambdaError) else type(error).__name__
        cause = json.dumps({"errorMessage": str(error), "errorType": name, "requestId": "", "stackTrace": []})
        details = {"error": name, "cause": cause, "resource": self._task(execution).resource}
        self._note(execution, "TaskFailed", taskFailedEventDetails=details)
        self._failed(execution, name, cause)

    def _timed_out(self, execution: Execution) -> None:
        details = {"error": TIMEOUT, "resource": self._task(execution).resource}
        self._note(execution, "TaskTimedOut", taskTimedOutEventDetails=details)
        self._failed(execution, TIMEOUT, "")

    def _failed(self, execution: Execution, error: str, cause: str) -> None:
        """Retry, else catch, else the execution fails."""
        self._moves(execution)
        state = self._definition.states[execution.state]
        if isinstance(state, Task):
            for number, retrier in enumerate(state.retriers):
                before = execution.retries.get(number, 0)
                if _matches(retrier.errors, error) and before < retrier.most:
                    execution.retries[number] = before + 1
                    delay = timedelta(seconds=self._jitter(retrier.delay(before)))
                    self._plan(execution, self._now() + delay, self._attempt)
                    return
                if _matches(retrier.errors, error):
                    break
            for catcher in state.catchers:
                if _matches(catcher.errors, error):
                    execution.input = catcher.output(self._read(execution), self._now())
                    self._go_on(execution, catcher.next)
                    return
        self._end(execution, "FAILED", "ExecutionFailed", error=error, cause=cause)

    def _go_on(self, execution: Execution, following: str | None) -> None:
        self._moves(execution)
        kind = _kind(self._definition.states[execution.state])
        self._note(execution, f"{kind}StateExited", stateExitedEventDetails={"name": execution.state})
        if following is None:
            self._end(execution, "SUCCEEDED", "ExecutionSucceeded")
        else:
            self._plan(execution, self._now(), self._enter, following)

    # --- the rest --------------------------------------------------------------------------------------------------

    def _plan(self, execution: Execution, instant: datetime, action: Callable[..., None], *given: Any) -> None:
        """Act at that instant, unless the execution has moved by then."""
        step = execution.step

        def act() -> None:
            if execution.step != step:
                return
            try:
                action(execution, *given)
            except QueryError as error:
                self._failed(execution, "States.QueryEvaluationError", str(error))
            except _HistoryFull:
                self._end(execution, "FAILED", "ExecutionFailed", error="States.Runtime")

        self._at(instant, act)

    def _moves(self, execution: Execution) -> None:
        execution.step += 1
        if execution.token is not None:
            del self._waiting[execution.token]
            execution.token = None

    def _task(self, execution: Execution) -> Task:
        task = self._definition.states[execution.state]
        assert isinstance(task, Task)
        return task

    def _read(self, execution: Execution, **states: Any) -> Variables:
        return {**execution.variables, "states": {"input": execution.input, **states}}

    def _note(self, execution: Execution, type_: str, **details: Any) -> None:
        if len(execution.events) == MOST_EVENTS - 1 and execution.status == "RUNNING":
            raise _HistoryFull
        event = {"id": len(execution.events) + 1, "timestamp": self._now(), "type": type_}
        execution.events.append(event | details)

    def _out_of_time(self, of: ref[Execution]) -> None:
        execution = of()
        if execution is not None and execution.status == "RUNNING":
            self._end(execution, "TIMED_OUT", "ExecutionTimedOut")

    def _end(self, execution: Execution, status: str, type_: str, **details: Any) -> None:
        self._moves(execution)
        execution.status = status
        execution.ended_at = self._now()
        self._note(execution, type_, **{f"{type_[0].lower()}{type_[1:]}EventDetails": details})
        self._ended.append(execution)


def _kind(state: State) -> str:
    return type(state).__name__


class SimulatedWorkflow(Twin):
    """The services' `Workflow` port over a `Machine`. The hook is called around `workflow.start`, `workflow.describe`,
    `workflow.succeed` and `workflow.history`."""

    name = "workflow"

    def __init__(self, machine: Machine, *, hook: Hook = no_fault) -> None:
        super().__init__(hook)
        self.machine = machine

    def start(self, dispute_id: str, run: int) -> bool:
        self._before("start")
        started = self.machine.start(execution_name(dispute_id, run), {"dispute_id": dispute_id, "run": run})
        self._after("start")
        return started

    def is_running(self, dispute_id: str, run: int) -> bool:
        self._before("describe")
        execution = self.machine.find(execution_name(dispute_id, run))
        self._after("describe")
        return execution is not None and execution.status == "RUNNING"

    def succeed(self, token: str) -> bool:
        self._before("succeed")
        waited = self.machine.succeed(token, {})
        self._after("succeed")
        return waited

    def events(self, dispute_id: str, run: int) -> Sequence[Mapping[str, Any]] | None:
        self._before("history")
        execution = self.machine.find(execution_name(dispute_id, run))
        self._after("history")
        return None if execution is None else told(execution.events)

    def console_url(self, dispute_id: str, run: int) -> str:
        return f"memory:{execution_name(dispute_id, run)}"
