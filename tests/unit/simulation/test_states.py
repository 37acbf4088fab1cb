"""What the interpreter does where no path through the dispute leads, and where moto differs from AWS."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from typing import Any

import pytest

from duebook.adapters.memory import Hook, no_fault
from simulation.expressions import NotSupported
from simulation.states import (
    DEFINITION,
    MOST_EVENTS,
    Execution,
    LambdaError,
    Machine,
    NoAnswer,
    SimulatedWorkflow,
    load,
)

NOW = datetime(2026, 11, 14, 20, 0, tzinfo=UTC)
SECOND, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)
ASK = {"next": "AskChef", "until": "2026-11-15T08:00:00.000Z", "deadline": "2026-11-15T20:00:00.000Z"}
TEXT = DEFINITION.read_text(encoding="utf-8")


class TableIsDown(Exception):
    """Something that passes."""


class Clock:
    """The real definition on a clock; `answer` is the function, `payloads` what it was called with."""

    def __init__(self, answer: Callable[[dict[str, Any]], Any], text: str = TEXT, hook: Hook = no_fault) -> None:
        self.now = NOW
        self.payloads: list[dict[str, Any]] = []
        self.jitters: list[float] = []
        self.early = timedelta()
        self._answer = answer
        self._planned: list[tuple[datetime, int, Callable[[], None]]] = []
        self._order = count()
        self.machine = Machine(
            load(text),
            now=lambda: self.now,
            at=lambda instant, callback: heappush(self._planned, (instant, next(self._order), callback)),
            invoke=self._invoke,
            jitter=self._jitter,
            early=lambda: self.early,
        )
        self.workflow = SimulatedWorkflow(self.machine, hook=hook)

    def start(self, run: int = 1) -> Execution:
        assert self.workflow.start("b1.d1", run)
        self.go(timedelta())
        found = self.machine.find(f"b1_d1-{run}")
        assert found is not None
        return found

    def go(self, by: timedelta) -> None:
        until = self.now + by
        while self._planned and self._planned[0][0] <= until:
            self.now, _, callback = heappop(self._planned)
            callback()
        self.now = until

    def _invoke(self, payload: dict[str, Any]) -> Any:
        self.payloads.append(payload)
        return self._answer(payload)

    def _jitter(self, most: float) -> float:
        self.jitters.append(most)
        return most


def asking(payload: dict[str, Any]) -> Any:
    return ASK if payload["action"] == "look" else {}


def failing_to(action: str, error: Exception, times: int) -> Callable[[dict[str, Any]], Any]:
    left = iter(range(times))

    def answer(payload: dict[str, Any]) -> Any:
        if payload["action"] == action and next(left, None) is not None:
            raise error
        return asking(payload)

    return answer


def path(execution: Execution) -> list[str]:
    return [e["stateEnteredEventDetails"]["name"] for e in execution.events if "stateEnteredEventDetails" in e]


def tokens(clock: Clock) -> list[str]:
    return [payload["token"] for payload in clock.payloads if "token" in payload]


# --- what it refuses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("AskChef", "HeartbeatSeconds"), 60, "AskChef: the field HeartbeatSeconds"),
        (("AskChef", "Resource"), "arn:aws:states:::sqs:sendMessage", "AskChef.Resource: .*sqs:sendMessage"),
        (("AskChef", "Catch", 0, "Assign"), {}, r"AskChef.Catch\[0\]: the field Assign"),
        (("AskChef", "Retry", 0, "JitterStrategy"), "NONE", r"AskChef.Retry\[0\].JitterStrategy: NONE"),
        (("AskChef", "Next"), "Nowhere", "AskChef: the next state 'Nowhere', which does not exist"),
        (("AskChef", "TimeoutSeconds"), "{% $sum([1]) %}", "AskChef.TimeoutSeconds: JSONata's function '.sum'"),
        (("AskChef", "TimeoutSeconds"), "{% 1 + 1 %}", "AskChef.TimeoutSeconds: JSONata's binary '.'"),
        (("AskChef", "TimeoutSeconds"), "{% $later %}", r"AskChef.TimeoutSeconds: \$later, which no state assigns"),
        (("AskChef", "TimeoutSeconds"), "{% 1 + %}", "AskChef.TimeoutSeconds: '1 .' is no JSONata"),
        (
            ("AskChef", "Output"),
            "{% $states.errorOutput %}",
            r"AskChef.Output: \$states but for its context, input, re",
        ),
        (("AskChef", "Output"), "{% $states.result[0] %}", "AskChef.Output: a JSONata filter or grouping at 'result'"),
        (("AskChef", "Output"), "{% {'a': 1} %}", "AskChef.Output: JSONata's unary '{'"),
        (("AskChef", "Output"), ["{% $next %}"], "AskChef.Output: a list"),
        (("WhatNow", "Choices", 0, "Assign"), {}, r"WhatNow.Choices\[0\]: the field Assign"),
        (("WaitForAppeal", "Seconds"), 5, "WaitForAppeal: the field Seconds"),
        (("Settled", "Type"), "Parallel", "Settled: the state type Parallel"),
    ],
)
def test_a_definition_with_anything_else_is_refused_when_it_is_loaded_with_where_and_what(
    place: tuple[str | int, ...], value: Any, said: str
) -> None:
    machine = json.loads(TEXT)
    inside: Any = machine["States"]
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    with pytest.raises(NotSupported, match=said):
        load(json.dumps(machine))


def test_a_choice_without_a_default_and_a_machine_without_a_time_out_are_refused() -> None:
    machine = json.loads(TEXT)
    del machine["States"]["WhatNow"]["Default"]
    with pytest.raises(NotSupported, match="WhatNow: no Default"):
        load(json.dumps(machine))
    with pytest.raises(NotSupported, match="the state machine: no TimeoutSeconds"):
        load(json.dumps({key: value for key, value in json.loads(TEXT).items() if key != "TimeoutSeconds"}))


# --- tasks, tokens, retries ----------------------------------------------------------------------------------------


def test_every_attempt_has_a_token_of_its_own_and_only_the_last_one_is_good() -> None:
    clock = Clock(failing_to("notify", TableIsDown("try again"), 1))
    execution = clock.start()
    clock.go(2 * SECOND)
    old, new = tokens(clock)
    assert (old != new, clock.workflow.succeed(old)) == (True, False)
    assert clock.workflow.succeed(new) is True
    assert clock.workflow.succeed(new) is False, "it is used"
    clock.go(timedelta())
    assert path(execution)[-3:] == ["CheckReply", "WhatNow", "AskChef"]
    assert [payload["action"] for payload in clock.payloads] == ["look", "notify", "notify", "look", "notify"]


def test_a_notifier_may_complete_its_own_task_before_it_answers_and_even_if_it_then_fails() -> None:
    def answer(payload: dict[str, Any]) -> Any:
        if "token" in payload and len(tokens(clock)) == 1:
            assert clock.workflow.succeed(payload["token"])
            raise TableIsDown("too late to matter")
        return asking(payload)

    clock = Clock(answer)
    execution = clock.start()
    assert path(execution) == ["ReadDispute", "WhatNow", "AskChef", "CheckReply", "WhatNow", "AskChef"]
    assert clock.jitters == []


def test_a_callback_times_out_at_the_instant_that_was_computed_and_its_token_with_it() -> None:
    clock = Clock(asking)
    execution = clock.start()
    clock.go(12 * HOUR - SECOND)
    assert path(execution)[-1] == "AskChef"
    [token] = tokens(clock)
    clock.go(SECOND)
    assert path(execution)[-1] == "RemindChef"
    assert clock.workflow.succeed(token) is False
    assert [e["type"] for e in execution.events if "TimedOut" in e["type"]] == ["TaskTimedOut"]


def test_a_deadline_that_has_passed_leaves_one_second() -> None:
    clock = Clock(asking)
    clock.now = NOW + 13 * HOUR
    execution = clock.start()
    clock.go(SECOND)
    assert path(execution)[-1] == "RemindChef"


def test_retries_wait_longer_each_time_within_the_limit_and_then_the_execution_fails_with_the_functions_error() -> None:
    clock = Clock(failing_to("look", TableIsDown("try again"), 7))
    execution = clock.start()
    clock.go(HOUR)
    assert clock.jitters == [2, 4, 8, 16, 32, 64]
    assert execution.status == "FAILED"
    failed = execution.events[-1]["executionFailedEventDetails"]
    assert failed["error"] == "TableIsDown"
    assert json.loads(failed["cause"])["errorMessage"] == "try again"
    assert json.loads(failed["cause"])["errorType"] == "TableIsDown"


def test_an_error_of_lambda_itself_has_the_name_that_step_functions_gives_it() -> None:
    clock = Clock(failing_to("look", LambdaError("Lambda.TooManyRequestsException"), 1))
    execution = clock.start()
    [failed] = [e["taskFailedEventDetails"] for e in execution.events if e["type"] == "TaskFailed"]
    assert failed["error"] == "Lambda.TooManyRequestsException"
    clock.go(2 * SECOND)
    assert path(execution)[-1] == "AskChef"


def test_a_function_whose_answer_never_comes_is_tried_again_after_the_states_time_out() -> None:
    clock = Clock(failing_to("look", NoAnswer(), 1))
    execution = clock.start()
    clock.go(60 * SECOND)
    assert (path(execution), clock.jitters) == (["ReadDispute"], [2])
    clock.go(2 * SECOND)
    assert path(execution)[-1] == "AskChef"


def test_an_answer_that_lacks_a_field_fails_the_state_as_an_undefined_expression_does() -> None:
    clock = Clock(lambda payload: {"next": "AskChef"})
    execution = clock.start()
    clock.go(HOUR)
    assert (execution.status, len(clock.payloads)) == ("FAILED", 7)
    assert execution.events[-1]["executionFailedEventDetails"]["error"] == "States.QueryEvaluationError"


def test_an_answer_of_over_256_kib_ends_the_execution_at_once() -> None:
    clock = Clock(lambda payload: ASK | {"more": "x" * 256 * 1024})
    execution = clock.start()
    assert (execution.status, len(clock.payloads)) == ("FAILED", 1)
    assert execution.events[-1]["executionFailedEventDetails"]["error"] == "States.DataLimitExceeded"


# --- waits, ends, names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("until", "early", "leaves"), [("000", 0, 0), ("999", 0, 0), ("000", 1, 1)])
def test_a_wait_is_cut_to_its_second_and_may_end_early(until: str, early: int, leaves: int) -> None:
    appeal = {"next": "WaitForAppeal", "until": f"2026-11-15T08:00:00.{until}Z", "deadline": ""}
    clock = Clock(lambda payload: appeal if len(clock.payloads) == 1 else ASK)
    clock.early = early * SECOND
    execution = clock.start()
    clock.go(12 * HOUR - (leaves + 0.001) * SECOND)
    assert path(execution)[-1] == "WaitForAppeal"
    clock.go(0.001 * SECOND)
    assert "CheckAppeal" in path(execution)


def test_a_wait_for_the_past_is_left_at_once() -> None:
    past = {"next": "WaitForAppeal", "until": "2026-11-13T08:00:00.000Z", "deadline": ""}
    clock = Clock(lambda payload: past if len(clock.payloads) == 1 else ASK)
    assert path(clock.start())[-1] == "AskChef"


def test_a_route_that_the_definition_does_not_know_goes_to_the_default() -> None:
    execution = Clock(lambda payload: ASK | {"next": "AskBoth"}).start()
    assert (path(execution), execution.status) == (["ReadDispute", "WhatNow", "NotForThisRun"], "SUCCEEDED")


def test_a_killed_execution_does_nothing_more_and_its_token_is_dead() -> None:
    clock = Clock(asking)
    execution = clock.start()
    assert clock.machine.kill("b1_d1-1") is True
    assert (execution.status, clock.machine.kill("b1_d1-1"), clock.machine.running()) == ("ABORTED", False, [])
    assert clock.workflow.succeed(tokens(clock)[0]) is False
    clock.go(2 * DAY)
    assert path(execution)[-1] == "AskChef"


def test_an_execution_lasts_a_year_at_most() -> None:
    late = ASK | {"until": "2028-01-01T00:00:00.000Z"}
    clock = Clock(lambda payload: late if payload["action"] == "look" else {})
    execution = clock.start()
    clock.go(365 * DAY - SECOND)
    assert execution.status == "RUNNING"
    clock.go(SECOND)
    assert execution.status == "TIMED_OUT"


def test_an_execution_has_25_000_events_at_most() -> None:
    """As one that is answered again and again, and whose row never moves."""

    def answer(payload: dict[str, Any]) -> Any:
        if "token" in payload:
            clock.workflow.succeed(payload["token"])
        return asking(payload)

    clock = Clock(answer)
    execution = clock.start()
    assert (execution.status, len(execution.events)) == ("FAILED", MOST_EVENTS)


def test_a_name_is_free_again_90_days_after_its_execution_ended() -> None:
    clock = Clock(asking)
    clock.start()
    clock.go(HOUR)
    clock.machine.kill("b1_d1-1")
    clock.go(90 * DAY - SECOND)
    assert clock.workflow.start("b1.d1", 1) is False
    assert clock.workflow.events("b1.d1", 1) is not None
    clock.go(SECOND)
    assert clock.workflow.events("b1.d1", 1) is None
    assert clock.start().status == "RUNNING"


def test_the_hook_is_called_around_each_call_and_an_error_after_it_loses_only_the_answer() -> None:
    heard: list[str] = []

    def hook(call: str, when: str) -> None:
        heard.append(f"{when} {call}")
        if heard[-1] == "after workflow.start":
            raise TableIsDown("the answer was lost")

    clock = Clock(asking, hook=hook)
    with pytest.raises(TableIsDown):
        clock.workflow.start("b1.d1", 1)
    clock.go(timedelta())
    assert clock.workflow.is_running("b1.d1", 1)
    assert clock.workflow.succeed(tokens(clock)[0])
    assert clock.workflow.events("b1.d1", 1)
    assert heard[::2] == [f"before workflow.{call}" for call in ("start", "describe", "succeed", "history")]
    assert clock.workflow.calls == {"start": 1, "describe": 1, "succeed": 1, "history": 1}
