"""The dispute's state machine in two interpreters, on the clock of the tests, with every Lambda function behind it.

One is the simulation's. The other is moto's, which parses and runs the real definition and writes the history as AWS
does. Its JSONata is switched on here, with jsonata-python; its waits, time-outs and retries follow the clock that
`travel_to` moves, so nothing sleeps. The functions are the real handlers on the in-memory twins. Unlike AWS, moto gives
a retry the token of the attempt before.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from time import monotonic
from typing import Any

import boto3
import jsonata
import pytest
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
from moto.stepfunctions.parser.asl.component.state.exec import execute_state
from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
from moto.stepfunctions.parser.asl.component.state.wait.wait_function.timestamp import Timestamp
from moto.stepfunctions.parser.asl.component.state.wait.wait_function.wait_function import WaitFunction
from moto.stepfunctions.parser.asl.eval.callback import callback
from moto.stepfunctions.parser.asl.eval.event.event_manager import EventManager
from moto.stepfunctions.parser.asl.jsonata import jsonata as moto_jsonata

from duebook import wiring
from duebook.adapters.workflow import StepFunctionsWorkflow
from duebook.domain.names import execution_name
from duebook.handlers import dispute as dispute_handler
from duebook.service.dispute import Disputes
from duebook.service.ports import Workflow
from simulation.states import DEFINITION, Execution, Machine, SimulatedWorkflow, load
from tests.unit.builders import AUGUST
from tests.unit.world import Context, World

FUNCTION = "arn:aws:lambda:eu-west-1:123456789012:function:dispute:live"
PATIENCE = 20.0
"""Seconds of real time after which an execution that neither waits nor ends fails the test."""

Clock = Callable[[], datetime]


def definition() -> str:
    """As it is deployed, with the function's ARN in it."""
    return DEFINITION.read_text(encoding="utf-8").replace("${DisputeFunction}", FUNCTION)


class Waits:
    """What executions wait for, on the clock of the test."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._parked: dict[object, tuple[datetime, Callable[[], bool]]] = {}
        self._abandoned = 0

    def wait(self, event: threading.Event, seconds: float, *, parks: bool) -> bool:
        """Until the event, or until the clock has moved so far. `parks`: it is the execution itself that waits."""
        until, key, abandoned = self._clock() + timedelta(seconds=seconds), object(), self._abandoned
        if parks:
            self._parked[key] = (until, event.is_set)
        try:
            while not event.is_set():
                if self._clock() >= until or abandoned != self._abandoned:
                    return False
                threading.Event.wait(event, 0.001)
            return True
        finally:
            self._parked.pop(key, None)

    def abandon(self) -> None:
        """End every wait: moto lets a state that is stopped wait on to its time-out."""
        self._abandoned += 1

    def upcoming(self) -> list[datetime]:
        """Until when executions wait that nothing has woken."""
        now = self._clock()
        return [until for until, is_set in list(self._parked.values()) if until > now and not is_set()]


class WorkflowWorld(World):
    """All of Duebook, its disputes run by the real state machine, in one of two interpreters.

    `interrupt` is called with each input of the dispute's function before the function; it may raise. `backoffs` are
    the seconds of each retry's delay, which takes no time here.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, now: datetime = AUGUST) -> None:
        super().__init__(monkeypatch, now)
        self.interrupt: Callable[[dict[str, Any]], None] = lambda _: None
        self.inputs: list[dict[str, Any]] = []
        self.backoffs: list[float] = []

    def _use(self, monkeypatch: pytest.MonkeyPatch, workflow: Workflow) -> None:
        self.workflow = workflow  # type: ignore[assignment]
        self.disputes = Disputes(self.bookings, workflow, sleep=self._sleep)
        monkeypatch.setattr(wiring, "dispute_steps", lambda: self.disputes)

    def deliver(self) -> None:
        """Until nothing moves, neither in the functions nor in the executions."""
        seen = -1
        while seen != len(self.table.stream):
            super().deliver()
            seen = len(self.table.stream)
            self.settle()

    def settle(self) -> None:
        """Let the executions run until each waits or has ended."""
        raise NotImplementedError

    def waits(self) -> list[datetime]:
        """The instants to come that executions wait for."""
        raise NotImplementedError

    def travel_to(self, instant: datetime) -> None:
        """As `World.travel_to`, stopping at the executions' waits too."""
        while True:
            self.deliver()
            upcoming = [request.at for request in self.schedules.requests.values()] + self.waits()
            for queue in (*self.queues.lanes.values(), *self.queues.dead.values(), self.queues.projection):
                upcoming += [message.visible_at for message in queue.messages]
            following = min((at for at in upcoming if at > self.now), default=instant)
            if following >= instant:
                break
            self.now = following
        self.now = max(self.now, instant)
        self.deliver()

    def _run(self, payload: dict[str, Any]) -> Any:
        self.inputs.append(payload)
        self.interrupt(payload)
        return dispute_handler.handler(payload, Context())

    def _sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    # --- what can be seen ------------------------------------------------------------------------------------------

    def status(self, run: int = 1, dispute_id: str = "b1.d1") -> str:
        raise NotImplementedError

    def raw_history(self, run: int = 1, dispute_id: str = "b1.d1") -> list[dict[str, Any]]:
        """The events as GetExecutionHistory answers them."""
        raise NotImplementedError

    def path(self, run: int = 1, dispute_id: str = "b1.d1") -> list[str]:
        """The states that an execution entered, in order: each is a billed transition, and so is each retry."""
        return [
            event["stateEnteredEventDetails"]["name"]
            for event in self.raw_history(run, dispute_id)
            if event["type"].endswith("StateEntered")
        ]

    # --- what an operator does -------------------------------------------------------------------------------------

    def start(self, name: str, body: dict[str, Any]) -> None:
        raise NotImplementedError

    def kill(self, run: int = 1, dispute_id: str = "b1.d1") -> None:
        """By hand, as in the console; the only execution that runs."""
        raise NotImplementedError


class OurWorld(WorkflowWorld):
    """The simulation's interpreter."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, now: datetime = AUGUST) -> None:
        super().__init__(monkeypatch, now)
        self._planned: list[tuple[datetime, int, Callable[[], None]]] = []
        self._order = count()
        self.machine = Machine(
            load(DEFINITION.read_text(encoding="utf-8")),
            now=self.clock,
            at=lambda instant, callback: heappush(self._planned, (instant, next(self._order), callback)),
            invoke=self._run,
            jitter=self._no_time,
        )
        self._use(monkeypatch, SimulatedWorkflow(self.machine))

    def settle(self) -> None:
        while self._planned and self._planned[0][0] <= self.now:
            heappop(self._planned)[2]()

    def waits(self) -> list[datetime]:
        return [instant for instant, _, _ in self._planned if instant > self.now]

    def status(self, run: int = 1, dispute_id: str = "b1.d1") -> str:
        return self._execution(run, dispute_id).status

    def raw_history(self, run: int = 1, dispute_id: str = "b1.d1") -> list[dict[str, Any]]:
        return self._execution(run, dispute_id).events

    def start(self, name: str, body: dict[str, Any]) -> None:
        self.machine.start(name, body)

    def kill(self, run: int = 1, dispute_id: str = "b1.d1") -> None:
        assert self.machine.kill(execution_name(dispute_id, run))

    def _execution(self, run: int, dispute_id: str) -> Execution:
        found = self.machine.find(execution_name(dispute_id, run))
        assert found is not None
        return found

    def _no_time(self, most: float) -> float:
        self.backoffs.append(most)
        return 0.0


class MotoWorld(WorkflowWorld):
    """moto's interpreter. Functions run one at a time, never beside the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, client: Any, name: str, now: datetime = AUGUST) -> None:
        super().__init__(monkeypatch, now)
        self.client = client
        self._waits = Waits(self.clock)
        self._turn = threading.RLock()
        self._turn.acquire()
        self.machine = client.create_state_machine(
            name=name, definition=definition(), roleArn="arn:aws:iam::123456789012:role/workflow"
        )["stateMachineArn"]
        self._use(monkeypatch, StepFunctionsWorkflow(client, self.machine))
        self._patch(monkeypatch)

    def settle(self) -> None:
        self._turn.release()
        try:
            given_up = monotonic() + PATIENCE
            calm = 0
            while calm < 3:
                running = self.client.list_executions(stateMachineArn=self.machine, statusFilter="RUNNING")
                calm = calm + 1 if len(running["executions"]) == len(self.waits()) else 0
                assert monotonic() < given_up, "an execution neither waits nor ends"
                if calm < 3:
                    threading.Event().wait(0.001)
        finally:
            self._turn.acquire()

    def waits(self) -> list[datetime]:
        return self._waits.upcoming()

    def status(self, run: int = 1, dispute_id: str = "b1.d1") -> str:
        found: str = self.client.describe_execution(executionArn=self._execution(run, dispute_id))["status"]
        return found

    def raw_history(self, run: int = 1, dispute_id: str = "b1.d1") -> list[dict[str, Any]]:
        answer = self.client.get_execution_history(executionArn=self._execution(run, dispute_id), maxResults=1000)
        return list(answer["events"])

    def start(self, name: str, body: dict[str, Any]) -> None:
        self.client.start_execution(stateMachineArn=self.machine, name=name, input=json.dumps(body))

    def kill(self, run: int = 1, dispute_id: str = "b1.d1") -> None:
        """moto may call it failed rather than aborted."""
        self.client.stop_execution(executionArn=self._execution(run, dispute_id))
        self._waits.abandon()
        given_up = monotonic() + PATIENCE
        while self.status(run, dispute_id) == "RUNNING":
            assert monotonic() < given_up, "it cannot be stopped"
            threading.Event().wait(0.001)

    def _execution(self, run: int, dispute_id: str) -> str:
        arn: str = self.machine.replace(":stateMachine:", ":execution:")
        return f"{arn}:{execution_name(dispute_id, run)}"

    # --- what AWS does ---------------------------------------------------------------------------------------------

    def _invoke(self, parameters: dict[str, Any], region: str, state_credentials: Any) -> dict[str, Any]:
        """Lambda: an exception is told by its class's name, as AWS does."""
        assert parameters["FunctionName"] == FUNCTION
        with self._turn:
            try:
                answer = json.loads(json.dumps(self._run(json.loads(parameters["Payload"]))))
                return {"StatusCode": 200, "Payload": answer}
            except Exception as error:
                told = {"errorMessage": str(error), "errorType": type(error).__name__, "stackTrace": []}
                return {"StatusCode": 200, "FunctionError": "Unhandled", "Payload": told}

    def _evaluate(self, expression: str) -> Any:
        millis = str(int(self.now.timestamp() * 1000))
        try:
            found = jsonata.Jsonata(expression.replace("$millis()", millis)).evaluate(None)
        except Exception as error:
            raise moto_jsonata.JSONataException("UNKNOWN", str(error)) from error
        return json.loads(json.dumps(found))

    def _patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        waits, clock, backoffs = self._waits, self.clock, self.backoffs

        class OfAnyTask(threading.Event):
            def wait(self, timeout: float | None = None) -> bool:
                return threading.Event.wait(self) if timeout is None else waits.wait(self, timeout, parks=False)

        class OfACallback(threading.Event):
            def wait(self, timeout: float | None = None) -> bool:
                return threading.Event.wait(self) if timeout is None else waits.wait(self, timeout, parks=True)

        class Threading:
            Event = OfAnyTask

        class Sleepless:
            sleep = staticmethod(backoffs.append)

        def seconds_until(self: Timestamp, env: Any) -> float:
            self.string.eval(env=env)
            at = self._from_timestamp_string(timestamp=env.stack.pop())
            assert at is not None
            return (at.replace(tzinfo=UTC) - clock()).total_seconds()

        def wait_interval(self: WaitFunction, env: Any, wait_seconds: float) -> None:
            if wait_seconds > 0:
                waits.wait(env.program_state_event, wait_seconds, parks=True)

        monkeypatch.setattr(execute_state, "threading", Threading)
        monkeypatch.setattr(callback, "Event", OfACallback)
        monkeypatch.setattr(retrier_decl, "time", Sleepless)
        monkeypatch.setattr(Timestamp, "_get_wait_seconds", seconds_until)
        monkeypatch.setattr(WaitFunction, "_wait_interval", wait_interval)
        monkeypatch.setattr(EventManager, "_get_current_timestamp", staticmethod(clock))
        monkeypatch.setattr(lambda_eval_utils, "_invoke_lambda_function", self._invoke)
        monkeypatch.setattr(moto_jsonata, "_eval_jsonata", self._evaluate)


@contextmanager
def running_machines() -> Iterator[Any]:
    """moto's Step Functions, whose machines run; a client of it."""
    from moto import mock_aws

    with mock_aws(config={"stepfunctions": {"execute_state_machine": True}, "core": {"reset_boto3_session": False}}):
        yield boto3.client("stepfunctions", "eu-west-1", aws_access_key_id="key", aws_secret_access_key="secret")
