"""Events as the queue delivers them, and the reader of that queue."""

import contextlib
import copy
import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import botocore.session
import pytest

from duebook_client import BadArgument, BadEvent, Event, EventReader
from tests.unit.client.fakes import EVENT, REGION

QUEUE = "https://sqs.eu-central-1.amazonaws.com/123456789012/events"


def _event(**changes: Any) -> str:
    event = copy.deepcopy(EVENT)
    event["detail"] |= changes
    return json.dumps(event)


class FakeSqs:
    """A queue that hands each message out once: what is not deleted or given back stays hidden."""

    def __init__(self, *bodies: str) -> None:
        self.visible = [
            {"MessageId": f"m-{number}", "ReceiptHandle": f"r-{number}", "Body": body}
            for number, body in enumerate(bodies)
        ]
        self.asked: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self.given_back: list[str] = []

    def receive_message(self, **given: Any) -> Any:
        assert given["QueueUrl"] == QUEUE
        self.asked.append(given)
        taken, self.visible = self.visible[: given["MaxNumberOfMessages"]], self.visible[given["MaxNumberOfMessages"] :]
        return {"Messages": taken} if taken else {}

    def delete_message(self, **given: Any) -> Any:
        self.deleted.append(given["ReceiptHandle"])

    def change_message_visibility(self, **given: Any) -> Any:
        assert given["VisibilityTimeout"] == 0
        self.given_back.append(given["ReceiptHandle"])


def _reader(sqs: FakeSqs) -> EventReader:
    return EventReader(None, QUEUE, sqs=sqs)


def test_an_event_is_read_from_the_body_of_its_message() -> None:
    event = Event.from_sqs(json.dumps(EVENT))
    assert event == Event(
        id="b1:7",
        schema_version=1,
        type="job.due",
        booking_id="b1",
        version=7,
        at=datetime(2026, 11, 12, 9, 0, 1, tzinfo=UTC),
        due=datetime(2026, 11, 12, 9, tzinfo=UTC),
        job="remind_guest",
        state=None,
        data={"run_at": "2026-11-12T09:00:00.000Z", "payload": {"mail": 4}},
    )
    assert event.payload == {"mail": 4}
    assert event.raw == EVENT["detail"]


def test_a_function_that_is_a_rules_target_reads_the_same_event() -> None:
    assert Event.from_eventbridge(EVENT) == Event.from_sqs(json.dumps(EVENT).encode())


def test_a_new_field_or_type_of_event_is_no_error() -> None:
    event = Event.from_sqs(_event(type="dispute.opened", mood="good", data=None))
    assert (event.type, event.payload) == ("dispute.opened", None)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "no json",
        "[]",
        "{}",
        '{"detail": 7}',
        _event(id=None),
        _event(version="7"),
        _event(at="yesterday"),
        _event(data=[]),
        _event(schema_version=2),
        _event(schema_version=None),
    ],
)
def test_what_is_no_event_of_a_known_schema_is_refused(body: str) -> None:
    with pytest.raises(BadEvent):
        Event.from_sqs(body)


def test_a_message_is_deleted_once_its_block_succeeded() -> None:
    sqs = FakeSqs(_event(id="b1:1"), _event(id="b1:2"))
    seen: list[str] = []
    for delivery in _reader(sqs).read():
        with delivery as event:
            assert len(sqs.deleted) == len(seen)
            seen.append(event.id)
    assert seen == ["b1:1", "b1:2"]
    assert sqs.deleted == ["r-0", "r-1"]
    assert sqs.given_back == []


def test_a_message_whose_block_raised_stays_for_its_next_delivery() -> None:
    sqs = FakeSqs(_event(id="b1:1"), _event(id="b1:2"))
    for delivery in _reader(sqs).read():
        with contextlib.suppress(RuntimeError), delivery as event:
            if event.id == "b1:1":
                raise RuntimeError("mail server is away")
    assert (sqs.deleted, sqs.given_back) == (["r-1"], [])


def test_an_error_leaves_the_loop_to_the_caller() -> None:
    sqs = FakeSqs(_event())
    (delivery,) = _reader(sqs).read()
    with pytest.raises(RuntimeError, match="away"), delivery:
        raise RuntimeError("mail server is away")
    assert sqs.deleted == []


def test_what_was_received_but_not_looked_at_is_given_back() -> None:
    sqs = FakeSqs(*[_event(id=f"b1:{number}") for number in range(4)])
    deliveries = _reader(sqs).read()
    with next(deliveries):
        pass
    deliveries.close()  # type: ignore[attr-defined]
    assert (sqs.deleted, sqs.given_back) == (["r-0"], ["r-1", "r-2", "r-3"])


def test_a_poison_message_holds_up_no_other_and_is_left_for_the_dead_letters(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sqs = FakeSqs("poison", _event())
    with caplog.at_level(logging.ERROR, "duebook_client"):
        for delivery in _reader(sqs).read():
            with delivery:
                pass
    assert sqs.deleted == ["r-1"]
    assert "m-0" in caplog.text


def test_a_read_is_bounded_and_takes_no_more_than_it_will_look_at() -> None:
    sqs = FakeSqs(*[_event() for _ in range(30)])
    for delivery in _reader(sqs).read(most=12):
        with delivery:
            pass
    assert [asked["MaxNumberOfMessages"] for asked in sqs.asked] == [10, 2]
    assert (len(sqs.deleted), len(sqs.visible)) == (12, 18)


def test_a_read_ends_when_a_long_poll_brings_nothing() -> None:
    sqs = FakeSqs()
    assert list(_reader(sqs).read(wait=timedelta(seconds=7))) == []
    assert [asked["WaitTimeSeconds"] for asked in sqs.asked] == [7]


@pytest.mark.parametrize(("most", "wait"), [(0, timedelta()), (1, timedelta(seconds=21)), (1, timedelta(seconds=-1))])
def test_bounds_that_sqs_does_not_know_are_refused_at_once(most: int, wait: timedelta) -> None:
    with pytest.raises(BadArgument):
        _reader(FakeSqs()).read(most=most, wait=wait)


def test_the_reader_makes_its_client_from_a_session_of_either_library() -> None:
    EventReader(boto3.Session("K", "S"), QUEUE, region=REGION)
    session = botocore.session.Session()
    session.set_credentials("K", "S")
    EventReader(session, QUEUE, region=REGION)
