"""Partial batch responses: what failed comes again, its neighbours do not."""

from typing import Any

import pytest

from duebook import wiring
from duebook.handlers import lifecycle_worker, projector, publisher, recorder
from duebook.handlers.support import source_of
from duebook.service.bookings import Key
from duebook.service.ports import Put
from tests.unit.builders import AUGUST, END, HOUR
from tests.unit.world import Context, World


def sqs(message_id: str, body: str, source: str | None = None, queue: str = "lifecycle") -> dict[str, Any]:
    """A record as Lambda hands it over."""
    attributes = {"source": {"stringValue": source, "dataType": "String"}} if source else {}
    return {
        "messageId": message_id,
        "receiptHandle": "r",
        "body": body,
        "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1785578400000"},
        "messageAttributes": attributes,
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:eu-west-1:000000000000:{queue}",
        "awsRegion": "eu-west-1",
    }


def wake_up(booking_id: str, job: str = "close_event") -> str:
    return f'{{"booking_id":"{booking_id}","job":"{job}","generation":3}}'


def failed(answer: dict[str, Any]) -> list[str]:
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def closing(world: World, *booking_ids: str) -> None:
    for booking_id in booking_ids:
        world.paid(booking_id)
    world.schedules.requests.clear()
    world.now = END


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_poison_message_fails_alone_wherever_it_stands(world: World, position: int) -> None:
    closing(world, "b0", "b1")
    records = [sqs("m0", wake_up("b0")), sqs("m1", wake_up("b1"))]
    records.insert(position, sqs("poison", "not a wake-up"))
    assert failed(lifecycle_worker.handler({"Records": records}, Context())) == ["poison"]
    assert (world.state("b0"), world.state("b1")) == ("event_closed", "event_closed")


def test_a_whole_batch_that_works_names_nobody(world: World) -> None:
    closing(world, "b0", "b1")
    records = [sqs("m0", wake_up("b0")), sqs("m1", wake_up("b1")), sqs("m2", wake_up("b0"))]
    assert lifecycle_worker.handler({"Records": records}, Context()) == {"batchItemFailures": []}


def test_a_booking_that_fails_does_not_hold_up_the_others(world: World) -> None:
    """Its row cannot be read: only its own message comes again."""
    closing(world, "b0", "b1")
    row = world.table.get("b0", "booking")
    assert row is not None
    row["engagement"]["state"] = "melted"
    world.table.write(Put(item=row))
    records = [sqs("m0", wake_up("b0")), sqs("m1", wake_up("b1"))]
    assert failed(lifecycle_worker.handler({"Records": records}, Context())) == ["m0"]
    assert world.state("b1") == "event_closed"


@pytest.mark.parametrize(("given", "source"), [(None, "schedule"), ("queue", "queue"), ("sweep", "sweep")])
def test_the_source_of_a_wake_up_is_what_its_sender_says_and_else_the_schedule(
    world: World, given: str | None, source: str
) -> None:
    closing(world, "b0")
    record = sqs("m0", wake_up("b0"), given)
    assert source_of(record) == source
    lifecycle_worker.handler({"Records": [record]}, Context())
    assert world.history("b0")[-1]["cause"] == {"source": source, "job": "close_event", "generation": 3}


def test_the_recorder_keeps_going_after_a_row_it_could_not_write(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    closing(world, "b0", "b1")
    write = world.table.write

    def sometimes(*writes: Any) -> None:
        if writes[0].pk == "b0":
            raise RuntimeError("DynamoDB is away")
        write(*writes)

    monkeypatch.setattr(world.table, "write", sometimes)
    records = [sqs("m0", wake_up("b0"), queue="lifecycle-dead"), sqs("m1", wake_up("b1"), queue="lifecycle-dead")]
    assert failed(recorder.handler({"Records": records}, Context())) == ["m0"]
    assert (world.jobs("b0")["close_event"]["attempts"], world.jobs("b1")["close_event"]["attempts"]) == (0, 1)


def test_a_projection_request_that_cannot_be_read_fails_alone(world: World) -> None:
    world.put_job("menu", run_at=END)
    records = [sqs("m0", "?", queue="projection"), sqs("m1", '{"booking_id":"b1","job":"menu"}', queue="projection")]
    assert failed(projector.handler({"Records": records}, Context())) == ["m0"]
    assert world.planned() == {"menu-b1": END}


def test_a_stream_batch_names_the_sequence_numbers_of_the_events_the_bus_refused(world: World) -> None:
    for number in range(3):
        world.book(f"b{number}")
    world.bus.fail = [None, "InternalFailure", None]
    records = list(world.table.stream)
    answer = publisher.handler({"Records": records}, Context())
    refused = [record for record in records if record["dynamodb"]["SequenceNumber"] in failed(answer)]
    assert [record["dynamodb"]["Keys"]["pk"]["S"] for record in refused] == ["b1"]
    assert refused[0]["dynamodb"]["Keys"]["sk"]["S"] == "history#0000000001"


@pytest.mark.parametrize("refusal", ["MalformedDetail", "NotAuthorizedForSourceException"])
def test_an_event_that_the_bus_will_never_take_is_left_to_the_outbox_and_holds_up_no_stream(
    world: World, refusal: str
) -> None:
    for number in range(3):
        world.book(f"b{number}")
    world.bus.fail = [None, refusal, "ThrottlingException"]
    records = list(world.table.stream)
    answer = publisher.handler({"Records": records}, Context())
    again = [record for record in records if record["dynamodb"]["SequenceNumber"] in failed(answer)]
    assert [record["dynamodb"]["Keys"]["pk"]["S"] for record in again] == ["b2"]
    world.now += HOUR
    assert world.sweep()["published"] == 2
    assert {event["detail"]["booking_id"] for event in world.bus.events} == {"b0", "b1", "b2"}


def test_the_publisher_and_the_projector_each_see_to_their_own_rows(world: World) -> None:
    world.paid()
    others = [
        record for record in world.table.stream if not record["dynamodb"]["Keys"]["sk"]["S"].startswith("history#")
    ]
    before = len(world.bus.events)
    assert publisher.handler({"Records": others}, Context()) == {"batchItemFailures": []}
    assert len(world.bus.events) == before
    calls = sum(world.schedules.calls.values())
    history = [record for record in world.table.stream if record["dynamodb"]["Keys"]["sk"]["S"].startswith("history#")]
    assert projector.handler({"Records": history}, Context()) == {"batchItemFailures": []}
    assert sum(world.schedules.calls.values()) == calls


def test_a_row_that_time_to_live_removed_wakes_nobody(world: World) -> None:
    world.paid()
    world.commands.accept("b1", {}, None)
    world.cancel(role="operator", key=Key(value="k", request_hash="h"))
    world.deliver()
    position = len(world.table.stream)
    world.now = AUGUST.replace(year=2027)
    world.table.expire()
    expired = list(world.table.stream)[position:]
    assert len(expired) >= 1
    calls = sum(world.schedules.calls.values())
    for handler in (projector.handler, publisher.handler):
        assert handler({"Records": expired}, Context()) == {"batchItemFailures": []}
    assert sum(world.schedules.calls.values()) == calls


def test_a_sweep_tells_what_it_did(world: World) -> None:
    closing(world, "b0")
    world.now = END + HOUR
    world.bus.fail = ["InternalFailure"]
    found = world.sweep()
    assert (found["woken"], found["oldest_seconds"], found["complete"]) == (1, 3600, True)


def test_an_event_that_the_stream_publishes_while_the_sweeper_is_refused_ends_no_sweep(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.book("b0")
    world.now += HOUR
    publish = world.bus.publish

    def refused(events: Any) -> Any:
        if not events:
            return []
        monkeypatch.setattr(world.bus, "publish", publish)
        world.stream("publisher", publisher.handler)
        return ["ThrottlingException"] * len(events)

    monkeypatch.setattr(world.bus, "publish", refused)
    assert world.sweep()["unpublished"] == 1
    assert len(world.bus.events) == 1
    world.now += HOUR
    assert world.sweep()["published"] == 0


def test_an_unknown_kind_of_payments_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYMENTS", "cash")
    wiring.provider.cache_clear()
    with pytest.raises(ValueError, match="cash"):
        wiring.provider()
