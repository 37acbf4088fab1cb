"""What an execution's history, in the events that AWS documents, is told as."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from duebook.adapters.workflow import MOST_EVENTS, StepFunctionsWorkflow
from duebook.domain.errors import Throttled

MACHINE = "arn:aws:states:eu-west-1:123456789012:stateMachine:disputes"
AT = datetime(2026, 11, 15, 10, 0, 0, 123_000, tzinfo=UTC)
WAIT, STEP = {"resource": "invoke.waitForTaskToken"}, {"resource": "invoke"}


class Histories:
    """`GetExecutionHistory`, page by page."""

    def __init__(self, *pages: list[dict[str, Any]] | str) -> None:
        self.pages = list(pages)
        self.asked: list[dict[str, Any]] = []

    def get_execution_history(self, **request: Any) -> dict[str, Any]:
        self.asked.append(request)
        page = self.pages.pop(0)
        if isinstance(page, str):
            raise ClientError({"Error": {"Code": page, "Message": "AQCtoken"}}, "GetExecutionHistory")
        more = {"nextToken": f"page {len(self.asked)}"} if self.pages else {}
        return {"events": [{"timestamp": AT, "id": 1, **event} for event in page], **more}


def told(*pages: list[dict[str, Any]] | str) -> list[str] | None:
    events = StepFunctionsWorkflow(Histories(*pages), MACHINE).events("b1.d1", 1)
    return None if events is None else [event["text"] for event in events]


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"type": "ExecutionStarted", "executionStartedEventDetails": {"input": "secret"}}, "the workflow started"),
        ({"type": "TaskStateEntered", "stateEnteredEventDetails": {"name": "AskChef"}}, "entered AskChef"),
        ({"type": "WaitStateEntered", "stateEnteredEventDetails": {"name": "WaitForAppeal"}}, "entered WaitForAppeal"),
        ({"type": "SucceedStateEntered", "stateEnteredEventDetails": {"name": "Withdrawn"}}, "entered Withdrawn"),
        ({"type": "ChoiceStateEntered", "stateEnteredEventDetails": {"name": "WhatNow"}}, None),
        ({"type": "TaskScheduled", "taskScheduledEventDetails": {"parameters": "secret"}}, None),
        ({"type": "TaskSubmitted"}, None),
        ({"type": "TaskSucceeded", "taskSucceededEventDetails": WAIT}, "the wait was answered"),
        ({"type": "TaskSucceeded", "taskSucceededEventDetails": STEP}, None),
        ({"type": "TaskTimedOut", "taskTimedOutEventDetails": WAIT}, "the deadline of the wait passed"),
        ({"type": "TaskTimedOut", "taskTimedOutEventDetails": STEP}, "the step took too long"),
        (
            {"type": "TaskFailed", "taskFailedEventDetails": {"error": "AwsFailure", "cause": "secret", **STEP}},
            "the step failed: AwsFailure",
        ),
        ({"type": "ExecutionFailed", "executionFailedEventDetails": {"cause": "secret"}}, "the workflow failed"),
        ({"type": "ExecutionTimedOut"}, "the workflow timed out"),
        ({"type": "ExecutionAborted"}, "the workflow was stopped by hand"),
        ({"type": "ExecutionRedriven"}, "the workflow was redriven"),
        ({"type": "ExecutionSucceeded", "executionSucceededEventDetails": {"output": "secret"}}, "the workflow ended"),
        ({"type": "SomethingOfTheFuture"}, None),
    ],
)
def test_an_event_is_told_in_plain_words_and_never_with_its_data(event: dict[str, Any], words: str | None) -> None:
    assert told([event]) == ([words] if words else [])


def test_a_history_is_read_to_its_end_without_data_and_bounded() -> None:
    entered = {"type": "TaskStateEntered", "stateEnteredEventDetails": {"name": "AskChef"}}
    histories = Histories([entered], [entered])
    found = StepFunctionsWorkflow(histories, MACHINE).events("b1.d1", 2)
    assert found == 2 * [{"at": "2026-11-15T10:00:00.123Z", "text": "entered AskChef"}]
    assert histories.asked[0]["includeExecutionData"] is False
    assert histories.asked[1]["nextToken"] == "page 1"
    assert len(told(*(20 * [100 * [entered]])) or []) == MOST_EVENTS


def test_an_instant_of_another_zone_is_told_in_utc() -> None:
    event = {"type": "ExecutionStarted", "timestamp": AT.astimezone() + timedelta()}
    [found] = StepFunctionsWorkflow(Histories([event]), MACHINE).events("b1.d1", 1) or []
    assert found["at"] == "2026-11-15T10:00:00.123Z"


def test_an_execution_that_aws_has_no_more_is_none_and_a_failure_names_its_code_alone() -> None:
    assert told("ExecutionDoesNotExist") is None
    with pytest.raises(Throttled) as failed:
        told("ThrottlingException")
    assert "AQCtoken" not in str(failed.value)
