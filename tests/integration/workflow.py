"""The dispute's state machine in moto's interpreter, on the clock of the tests, with every Lambda function behind it.

moto parses and runs the real definition and writes the history as AWS does. Its JSONata is switched on here, with
jsonata-python; its waits, time-outs and retries follow the clock that `travel_to` moves, so nothing sleeps. The
functions are the real handlers on the in-memory twins. Unlike AWS, moto gives a retry the token of the attempt before.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
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
from tests.unit.builders import AUGUST
from tests.unit.world import Context, World

DEFINITION = Path(__file__).parents[2] / "statemachines/dispute.asl.json"
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
    """All of Duebook, its disputes run by the real state machine. Functions run one at a time, never beside the test.

    `interrupt` is called with each input of the dispute's function before the function; it may raise.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, client: Any, name: str, now: datetime = AUGUST) -> None:
        super().__init__(monkeypatch, now)
        self.client = client
        self.waits = Waits(self.clock)
        self.interrupt: Callable[[dict[str, Any]], None] = lambda _: None
        self.inputs: list[dict[str, Any]] = []
        self.backoffs: list[float] = []
        self._turn = threading.RLock()
        self._turn.acquire()
        self.machine = client.create_state_machine(
            name=name, definition=definition(), roleArn="arn:aws:iam::123456789012:role/workflow"
        )["stateMachineArn"]
        workflow = StepFunctionsWorkflow(client, self.machine)
        self.workflow = workflow  # type: ignore[assignment]
        self.disputes = Disputes(self.bookings, workflow, sleep=self._sleep)
        monkeypatch.setattr(wiring, "dispute_steps", lambda: self.disputes)
        self._patch(monkeypatch)

    def deliver(self) -> None:
        """Until nothing moves, neither in the functions nor in the executions."""
        seen = -1
        while seen != len(self.table.stream):
            super().deliver()
            seen = len(self.table.stream)
            self.settle()

    def settle(self) -> None:
        """Let the executions run until each waits or has ended."""
        self._turn.release()
        try:
            given_up = monotonic() + PATIENCE
            calm = 0
            while calm < 3:
                running = self.client.list_executions(stateMachineArn=self.machine, statusFilter="RUNNING")
                calm = calm + 1 if len(running["executions"]) == len(self.waits.upcoming()) else 0
                assert monotonic() < given_up, "an execution neither waits nor ends"
                if calm < 3:
                    threading.Event().wait(0.001)
        finally:
            self._turn.acquire()

    def travel_to(self, instant: datetime) -> None:
        """As `World.travel_to`, stopping at the executions' waits too."""
        while True:
            self.deliver()
            upcoming = [request.at for request in self.schedules.requests.values()] + self.waits.upcoming()
            for queue in (*self.queues.lanes.values(), *self.queues.dead.values(), self.queues.projection):
                upcoming += [message.visible_at for message in queue.messages]
            following = min((at for at in upcoming if at > self.now), default=instant)
            if following >= instant:
                break
            self.now = following
        self.now = max(self.now, instant)
        self.deliver()

    # --- what can be seen ------------------------------------------------------------------------------------------

    def execution(self, run: int = 1, dispute_id: str = "b1.d1") -> str:
        arn: str = self.machine.replace(":stateMachine:", ":execution:")
        return f"{arn}:{execution_name(dispute_id, run)}"

    def status(self, run: int = 1, dispute_id: str = "b1.d1") -> str:
        found: str = self.client.describe_execution(executionArn=self.execution(run, dispute_id))["status"]
        return found

    def raw_history(self, run: int = 1, dispute_id: str = "b1.d1") -> list[dict[str, Any]]:
        answer = self.client.get_execution_history(executionArn=self.execution(run, dispute_id), maxResults=1000)
        return list(answer["events"])

    def path(self, run: int = 1, dispute_id: str = "b1.d1") -> list[str]:
        """The states that an execution entered, in order: each is a billed transition, and so is each retry."""
        return [
            event["stateEnteredEventDetails"]["name"]
            for event in self.raw_history(run, dispute_id)
            if event["type"].endswith("StateEntered")
        ]

    def kill(self, run: int = 1, dispute_id: str = "b1.d1") -> None:
        """By hand, as in the console; the only execution that runs. (moto may call it failed rather than aborted.)"""
        self.client.stop_execution(executionArn=self.execution(run, dispute_id))
        self.waits.abandon()
        given_up = monotonic() + PATIENCE
        while self.status(run, dispute_id) == "RUNNING":
            assert monotonic() < given_up, "it cannot be stopped"
            threading.Event().wait(0.001)

    # --- what AWS does ---------------------------------------------------------------------------------------------

    def _invoke(self, parameters: dict[str, Any], region: str, state_credentials: Any) -> dict[str, Any]:
        """Lambda: an exception is told by its class's name, as AWS does."""
        assert parameters["FunctionName"] == FUNCTION
        payload = json.loads(parameters["Payload"])
        with self._turn:
            self.inputs.append(payload)
            try:
                self.interrupt(payload)
                answer = json.loads(json.dumps(dispute_handler.handler(payload, Context())))
                return {"StatusCode": 200, "Payload": answer}
            except Exception as error:
                told = {"errorMessage": str(error), "errorType": type(error).__name__, "stackTrace": []}
                return {"StatusCode": 200, "FunctionError": "Unhandled", "Payload": told}

    def _sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def _evaluate(self, expression: str) -> Any:
        millis = str(int(self.now.timestamp() * 1000))
        try:
            found = jsonata.Jsonata(expression.replace("$millis()", millis)).evaluate(None)
        except Exception as error:
            raise moto_jsonata.JSONataException("UNKNOWN", str(error)) from error
        return json.loads(json.dumps(found))

    def _patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        waits, clock, backoffs = self.waits, self.clock, self.backoffs

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
