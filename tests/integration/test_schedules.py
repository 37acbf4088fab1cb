"""What every `Schedules` does: one suite, run over the in-memory twin and over EventBridge Scheduler (moto)."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import boto3
import pytest
from botocore.validate import ParamValidator

from duebook.adapters.memory import MemorySchedules
from duebook.adapters.schedules import EventBridgeSchedules
from duebook.domain.errors import AwsFailure
from duebook.service.ports import ScheduleRequest, Schedules, WakeUp
from tests.integration.conftest import REGION, Client

NOW = datetime(2026, 8, 1, 10, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
ROLE = "arn:aws:iam::123456789012:role/deliver"
DLQ = f"arn:aws:sqs:{REGION}:123456789012:undelivered"
QUEUES = {lane: f"arn:aws:sqs:{REGION}:123456789012:{lane}" for lane in ("lifecycle", "payments")}
CLOSE = ScheduleRequest(
    name="close_event-b1",
    at=datetime(2026, 11, 14, 21, tzinfo=UTC),
    lane="lifecycle",
    wake_up=WakeUp(booking_id="b1", job="close_event", generation=1),
)


def adapter(client: Client, group: str) -> EventBridgeSchedules:
    client("scheduler").create_schedule_group(Name=group)
    return EventBridgeSchedules(client("scheduler"), group, ROLE, DLQ, QUEUES, sleep=lambda _: None)


@pytest.fixture(params=["in memory", "Scheduler"])
def schedules(request: pytest.FixtureRequest, fresh: Callable[[str], str]) -> Schedules:
    if request.param == "in memory":
        return MemorySchedules(lambda: NOW)
    return adapter(request.getfixturevalue("client"), fresh("duebook"))


def every_name(schedules: Schedules) -> list[list[str]]:
    pages: list[list[str]] = []
    after: str | None = None
    while True:
        names, after = schedules.names(after)
        pages.append(list(names))
        if after is None:
            return pages


def test_a_schedule_is_read_back_as_it_was_asked_for(schedules: Schedules) -> None:
    assert schedules.create(CLOSE) is True
    assert schedules.get(CLOSE.name) == CLOSE


def test_creating_a_name_again_says_so_and_changes_nothing(schedules: Schedules) -> None:
    schedules.create(CLOSE)
    assert schedules.create(replace(CLOSE, at=CLOSE.at + MINUTE)) is False
    assert schedules.get(CLOSE.name) == CLOSE


CHANGES: dict[str, dict[str, Any]] = {
    "instant": {"at": datetime(2026, 12, 12, 21, tzinfo=UTC)},
    "lane": {"lane": "payments"},
    "booking": {"wake_up": replace(CLOSE.wake_up, booking_id="b2")},
    "job": {"wake_up": replace(CLOSE.wake_up, job="complete")},
    "generation": {"wake_up": replace(CLOSE.wake_up, generation=2)},
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES.keys())
def test_replacing_replaces_every_field(schedules: Schedules, changes: dict[str, Any]) -> None:
    schedules.create(CLOSE)
    wanted = replace(CLOSE, **changes)
    assert schedules.replace(wanted) is True
    assert schedules.get(CLOSE.name) == wanted
    assert every_name(schedules) == [[CLOSE.name]]


def test_replacing_what_is_not_there_says_so_and_makes_nothing(schedules: Schedules) -> None:
    assert schedules.replace(CLOSE) is False
    assert schedules.get(CLOSE.name) is None
    assert every_name(schedules) == [[]]


def test_deleting_twice_says_so(schedules: Schedules) -> None:
    schedules.create(CLOSE)
    assert schedules.delete(CLOSE.name) is True
    assert schedules.delete(CLOSE.name) is False
    assert schedules.get(CLOSE.name) is None


def test_a_deleted_name_is_free_again(schedules: Schedules) -> None:
    schedules.create(CLOSE)
    schedules.delete(CLOSE.name)
    assert schedules.create(CLOSE) is True


def test_an_instant_of_another_offset_is_the_same_instant(schedules: Schedules) -> None:
    schedules.create(replace(CLOSE, at=CLOSE.at.astimezone(timezone(timedelta(hours=5, minutes=30)))))
    assert schedules.get(CLOSE.name) == CLOSE


@pytest.mark.parametrize("count", [0, 1, 100, 101, 205])
def test_all_names_are_listed_once_in_pages_of_at_most_a_hundred(schedules: Schedules, count: int) -> None:
    wanted = [f"close_event-b{number:03}" for number in range(count)]
    for name in wanted:
        schedules.create(replace(CLOSE, name=name))
    pages = every_name(schedules)
    assert max(len(page) for page in pages) <= 100
    assert sorted(name for page in pages for name in page) == wanted


@pytest.mark.parametrize("name", ["a", "x" * 64, "A-z_0.9"])
def test_every_name_of_the_pattern_is_taken(schedules: Schedules, name: str) -> None:
    assert schedules.create(replace(CLOSE, name=name)) is True
    assert every_name(schedules) == [[name]]


BAD_NAMES = ["", "x" * 65, "a#b", "a b", "é", "a/b", "a\n", "a:b"]


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("kind", ["create", "replace"])
def test_a_name_that_aws_refuses_is_refused_before(schedules: Schedules, kind: str, name: str) -> None:
    with pytest.raises(ValueError, match="schedule name"):
        getattr(schedules, kind)(replace(CLOSE, name=name))


BAD_INSTANTS = {
    "naive": CLOSE.at.replace(tzinfo=None),
    "with seconds": CLOSE.at + timedelta(seconds=1),
    "with a fraction": CLOSE.at + timedelta(microseconds=1),
}


@pytest.mark.parametrize("at", BAD_INSTANTS.values(), ids=BAD_INSTANTS.keys())
@pytest.mark.parametrize("kind", ["create", "replace"])
def test_only_an_aware_whole_minute_is_taken(schedules: Schedules, kind: str, at: datetime) -> None:
    schedules.create(CLOSE)
    with pytest.raises(ValueError, match="aware whole minute"):
        getattr(schedules, kind)(replace(CLOSE, at=at))
    assert schedules.get(CLOSE.name) == CLOSE


@pytest.mark.parametrize("kind", ["create", "replace"])
def test_an_unknown_lane_is_refused(schedules: Schedules, kind: str) -> None:
    with pytest.raises(KeyError):
        getattr(schedules, kind)(replace(CLOSE, lane="fast"))


def test_without_the_group_nothing_is_made_and_nothing_is_there() -> None:
    """The twin alone: moto knows no missing group. What the adapter makes of AWS's answer is in test_aws_errors.py."""
    schedules = MemorySchedules(lambda: NOW)
    schedules.create(CLOSE)
    schedules.delete_group()
    with pytest.raises(AwsFailure):
        schedules.create(CLOSE)
    with pytest.raises(AwsFailure):
        schedules.names(None)
    assert schedules.replace(CLOSE) is False
    assert schedules.delete(CLOSE.name) is False
    assert schedules.get(CLOSE.name) is None


# --- what only the real adapter does ---------------------------------------------------------------------------------


class Recorder:
    """A client whose calls are kept and answered with nothing."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, operation: str) -> Callable[..., dict[str, Any]]:
        def call(**parameters: Any) -> dict[str, Any]:
            self.calls.append((operation, parameters))
            return {}

        return call


def sent() -> tuple[dict[str, Any], dict[str, Any]]:
    recorder = Recorder()
    schedules = EventBridgeSchedules(recorder, "duebook", ROLE, DLQ, QUEUES)
    schedules.create(CLOSE)
    schedules.replace(CLOSE)
    (create, created), (update, updated) = recorder.calls
    assert (create, update) == ("create_schedule", "update_schedule")
    return created, updated


def test_create_and_update_send_the_same_for_what_an_update_leaves_out_becomes_its_default() -> None:
    created, updated = sent()
    assert created == updated


def test_every_request_names_all_that_has_another_default() -> None:
    created, _ = sent()
    assert created == {
        "Name": "close_event-b1",
        "GroupName": "duebook",
        "ScheduleExpression": "at(2026-11-14T21:00:00)",
        "ScheduleExpressionTimezone": "UTC",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "ActionAfterCompletion": "DELETE",
        "State": "ENABLED",
        "Target": {
            "Arn": QUEUES["lifecycle"],
            "RoleArn": ROLE,
            "Input": '{"booking_id":"b1","job":"close_event","generation":1}',
            "RetryPolicy": {"MaximumRetryAttempts": 185, "MaximumEventAgeInSeconds": 86400},
            "DeadLetterConfig": {"Arn": DLQ},
        },
    }


@pytest.mark.parametrize("operation", ["CreateSchedule", "UpdateSchedule"])
def test_the_request_is_valid_by_the_sdks_model_and_leaves_out_only_what_does_not_apply(operation: str) -> None:
    created, _ = sent()
    model = boto3.session.Session("key", "secret", region_name=REGION).client("scheduler").meta.service_model
    shape: Any = model.operation_model(operation).input_shape
    assert not ParamValidator().validate(created, shape).has_errors()
    assert set(shape.members) - set(created) == {"ClientToken", "Description", "EndDate", "KmsKeyArn", "StartDate"}
    target = shape.members["Target"]
    assert set(target.members) - set(created["Target"]) == {
        name for name in target.members if name.endswith("Parameters")
    }


DRIFTS: dict[str, Callable[[dict[str, Any]], None]] = {
    "kept after completion": lambda sent: sent.update(ActionAfterCompletion="NONE"),
    "disabled": lambda sent: sent.update(State="DISABLED"),
    "another time zone": lambda sent: sent.update(ScheduleExpressionTimezone="Europe/Berlin"),
    "a rate": lambda sent: sent.update(ScheduleExpression="rate(1 day)"),
    "an input that is no JSON": lambda sent: sent["Target"].update(Input="hello"),
    "an input that is no object": lambda sent: sent["Target"].update(Input="[1]"),
    "an input without its generation": lambda sent: sent["Target"].update(Input='{"booking_id":"b1","job":"x"}'),
    "no dead-letter queue": lambda sent: sent["Target"].pop("DeadLetterConfig"),
    "another queue": lambda sent: sent["Target"].update(Arn=f"arn:aws:sqs:{REGION}:123456789012:other"),
    "another role": lambda sent: sent["Target"].update(RoleArn="arn:aws:iam::123456789012:role/other"),
    "fewer retries": lambda sent: sent["Target"]["RetryPolicy"].update(MaximumRetryAttempts=0),
}


@pytest.mark.parametrize("change", DRIFTS.values(), ids=DRIFTS.keys())
def test_a_schedule_that_drifted_in_any_field_equals_no_request(
    client: Client, fresh: Callable[[str], str], change: Callable[[dict[str, Any]], None]
) -> None:
    group = fresh("duebook")
    schedules = adapter(client, group)
    changed, _ = sent()
    changed["GroupName"] = group
    change(changed)
    client("scheduler").create_schedule(**changed)
    found = schedules.get(CLOSE.name)
    assert found is not None
    assert found != CLOSE
    assert found.name == CLOSE.name
    assert found.wake_up.generation == -1
