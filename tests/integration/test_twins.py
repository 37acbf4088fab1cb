"""Where the twins are stricter than moto, or do what moto cannot: AWS's documentation decides."""

import ast
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from duebook.adapters.memory import (
    PROJECTED,
    MemoryBus,
    MemoryQueue,
    MemoryQueues,
    MemorySchedules,
    MemoryTable,
    conflict,
)
from duebook.adapters.table import INDEXES
from duebook.domain.errors import AwsFailure, ConditionFailed, Contention, QuotaExceeded, ScheduleConflict, Throttled
from duebook.service.ports import Check, Delete, If, Item, Put, ScheduleRequest, Update, WakeUp
from tests.integration.tables import NOW

ROOT = Path(__file__).parents[2]
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
WAKE_UP = WakeUp(booking_id="b1", job="close_event", generation=7)
CLOSE = ScheduleRequest(
    name="close_event-b1", at=datetime(2026, 11, 14, 21, tzinfo=UTC), lane="lifecycle", wake_up=WAKE_UP
)


class Clock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def table(clock: Clock) -> MemoryTable:
    return MemoryTable(clock)


def due(booking_id: str, at: str, **more: Any) -> Item:
    return {"pk": booking_id, "sk": "job#x", "due_pk": "d", "due_sk": at, "booking_id": booking_id, **more}


def found(table: MemoryTable) -> list[str]:
    return [f"{row['pk']}@{row['due_sk']}" for row in table.query_index("due", "d").items]


# --- the table -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "value"), [(True, 1), (1, True), (0, False), ([1], [True]), ({"a": 1}, {"a": True})]
)
def test_a_number_is_no_flag_in_a_condition(table: MemoryTable, stored: Any, value: Any) -> None:
    table.write(Put(item={"pk": "b1", "sk": "x", "flag": stored}))
    with pytest.raises(ConditionFailed):
        table.write(Check(pk="b1", sk="x", condition=If(equals={"flag": value})))


def test_a_full_page_says_that_there_may_be_more_even_if_nothing_follows(table: MemoryTable) -> None:
    for number in range(3):
        table.write(Put(item=due(f"b{number}", "01")))
        table.write(Put(item={"pk": "one", "sk": f"{number}"}))
    for page, rest in (
        (query := table.query("one", "", limit=3), table.query("one", "", after=query.after)),
        (index := table.query_index("due", "d", limit=3), table.query_index("due", "d", after=index.after)),
        (scan := table.scan(limit=6), table.scan(after=scan.after)),
    ):
        assert page.after is not None
        assert (rest.items, rest.after, rest.scanned) == ([], None, 0)


def test_a_page_ends_at_1_mb_and_the_next_goes_on(table: MemoryTable) -> None:
    rows = [{"pk": "b1", "sk": f"{number}", "text": "x" * 300_000} for number in range(7)]
    for row in rows:
        table.write(Put(item=row))
    first = table.query("b1", "")
    assert len(first.items) == 3
    second = table.query("b1", "", after=first.after)
    third = table.query("b1", "", after=second.after)
    assert [*first.items, *second.items, *third.items] == rows
    assert third.after is None
    assert len(table.scan().items) == 3
    assert [row["sk"] for row in table.query("b1", "", newest_first=True).items] == ["6", "5", "4"]


def test_an_index_page_is_measured_by_what_the_index_holds(table: MemoryTable) -> None:
    for number in range(5):
        table.write(Put(item=due(f"b{number}", "01", payload="x" * 300_000)))
    page = table.query_index("due", "d")
    assert len(page.items) == 5
    assert page.after is None


@pytest.mark.parametrize(
    "after",
    [
        {"pk": "b1"},
        {"pk": "b1", "sk": "x", "due_pk": "d"},
        {"pk": "b1", "sk": "x", "due_pk": "other", "due_sk": "1"},
        {"pk": "b1", "sk": "x", "due_pk": "d", "due_sk": 1},
        {"pk": "b1", "sk": "x", "due_pk": "d", "due_sk": "1", "more": "x"},
    ],
)
def test_a_page_starts_only_at_a_key_of_its_own_query(table: MemoryTable, after: Item) -> None:
    with pytest.raises(AwsFailure) as raised:
        table.query_index("due", "d", after=after)
    assert raised.value.details["aws_code"] == "ValidationException"
    with pytest.raises(AwsFailure):
        table.query("b2", "", after={"pk": "b1", "sk": "x"})


def test_a_scan_does_not_come_in_the_order_of_the_keys(table: MemoryTable) -> None:
    names = [f"b{number:02d}" for number in range(20)]
    for name in names:
        table.write(Put(item={"pk": name, "sk": "x"}))
    scanned = [row["pk"] for row in table.scan().items]
    assert sorted(scanned) == names
    assert scanned != names


def test_an_index_may_lag_and_then_shows_the_row_as_it_was(table: MemoryTable, clock: Clock) -> None:
    lags = [2 * SECOND, timedelta(), 5 * SECOND]
    table = MemoryTable(clock, index_lag=lambda: lags.pop(0))
    table.write(Put(item=due("b1", "01")))
    table.write(Update(pk="b1", sk="job#x", set={"due_sk": "02"}))
    table.write(Put(item=due("b2", "03")))
    assert found(table) == []
    assert table.scan(index="due").items == []
    assert table.get("b1", "job#x") == due("b1", "02")
    clock.now += 2 * SECOND
    assert found(table) == ["b1@02"]
    clock.now += 3 * SECOND
    assert found(table) == ["b1@02", "b2@03"]


def test_an_index_never_shows_an_older_change_after_a_newer_one(clock: Clock) -> None:
    lags = [10 * SECOND, timedelta()]
    table = MemoryTable(clock, index_lag=lambda: lags.pop(0))
    table.write(Put(item=due("b1", "01")))
    table.write(Delete(pk="b1", sk="job#x"))
    for _ in range(12):
        assert found(table) in ([], ["b1@01"])
        clock.now += SECOND
    assert found(table) == []


def test_a_write_that_changes_nothing_gives_no_record(table: MemoryTable) -> None:
    row = {"pk": "b1", "sk": "x", "a": 1}
    table.write(Put(item=row))
    table.write(Put(item=row))
    table.write(Update(pk="b1", sk="x", set={"a": 1}, remove=("b",)))
    table.write(Check(pk="b1", sk="x", condition=If(exists=True)))
    assert len(table.stream) == 1


def test_time_to_live_deletes_and_says_so_in_the_stream(table: MemoryTable, clock: Clock) -> None:
    now = int(clock.now.timestamp())
    table.write(Put(item={"pk": "b1", "sk": "key#old", "expires_at": now - 1}))
    table.write(Put(item={"pk": "b1", "sk": "key#new", "expires_at": now + 1}))
    table.write(Put(item={"pk": "b1", "sk": "booking"}))
    table.expire()
    assert [row["sk"] for row in table.query("b1", "").items] == ["booking", "key#new"]
    (record,) = table.stream[3:]
    assert record["eventName"] == "REMOVE"
    assert record["userIdentity"] == {"type": "Service", "principalId": "dynamodb.amazonaws.com"}


def test_a_reader_of_the_stream_cannot_spoil_the_table_nor_another_reader(table: MemoryTable) -> None:
    table.write(Put(item={"pk": "b1", "sk": "x", "map": {"a": 1}}))
    table.stream[0]["dynamodb"]["NewImage"]["map"]["M"].clear()
    assert table.stream[0]["dynamodb"]["NewImage"]["map"] == {"M": {"a": {"N": "1"}}}
    assert table.get("b1", "x") == {"pk": "b1", "sk": "x", "map": {"a": 1}}


def test_the_stream_forgets_what_was_read_and_keeps_its_positions(table: MemoryTable) -> None:
    for number in range(5):
        table.write(Put(item={"pk": "b1", "sk": f"{number}"}))
    table.stream.forget(3)
    assert len(table.stream) == 5
    assert [change.sk for change in table.stream.changes(3)] == ["3", "4"]
    assert [change.name for change in table.stream.changes(4)] == ["INSERT"]
    assert [record["dynamodb"]["Keys"]["sk"]["S"] for record in table.stream[3:5]] == ["3", "4"]
    assert table.stream.changes(5) == []
    with pytest.raises(IndexError):
        table.stream[2]
    with pytest.raises(IndexError):
        table.stream.changes(2)


def test_a_forgotten_partition_is_gone_from_everywhere_without_a_record(table: MemoryTable) -> None:
    table.write(Put(item=due("b1", "01")), Put(item={"pk": "b1", "sk": "booking"}), Put(item=due("b2", "02")))
    table.forget("b1")
    assert list(table.rows()) == [due("b2", "02")]
    assert list(table.rows("b1")) == []
    assert found(table) == ["b2@02"]
    assert [row["pk"] for row in table.scan().items] == ["b2"]
    assert len(table) == 1
    assert len(table.stream) == 3


def test_looking_into_the_table_counts_as_no_request(table: MemoryTable) -> None:
    table.write(Put(item=due("b1", "01")))
    assert table.row("b1", "job#x") == due("b1", "01")
    assert table.row("b1", "none") is None
    assert list(table.rows("b1")) == [due("b1", "01")]
    assert table.calls == {"put": 1}


def test_requests_are_counted_by_what_they_are(table: MemoryTable) -> None:
    table.write(Put(item={"pk": "b1", "sk": "x"}))
    table.write(Update(pk="b1", sk="x", set={"a": 1}))
    table.write(Update(pk="b1", sk="x", set={"a": 2}, condition=If(exists=True)))
    table.write(Put(item={"pk": "b1", "sk": "y"}), Delete(pk="b1", sk="x"))
    table.write(Delete(pk="b1", sk="y"))
    table.get("b1", "x")
    table.query("b1", "")
    table.query_index("due", "d")
    table.query_index("due", "d", low="b", high="a")
    table.scan()
    assert table.calls == {
        "put": 1,
        "update": 1,
        "transact": 2,
        "delete": 1,
        "get": 1,
        "query": 1,
        "query_index": 1,
        "scan": 1,
    }


def test_the_indexes_hold_what_the_stack_makes_them_hold() -> None:
    source = ast.parse((ROOT / "stacks/components/storage.py").read_text(encoding="utf-8"))
    (deployed,) = (
        ast.literal_eval(statement.value)
        for statement in source.body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "PROJECTED"
    )
    keys = {"pk", "sk", *(key for pair in INDEXES.values() for key in pair)}
    assert set(deployed) | keys == PROJECTED


# --- faults --------------------------------------------------------------------------------------------------------


class Faults:
    """Raises once, at one call, before or after its effect."""

    def __init__(self, call: str, when: str, error: Exception) -> None:
        self.armed: tuple[str, str] | None = (call, when)
        self.error = error

    def __call__(self, call: str, when: Literal["before", "after"], /) -> None:
        if self.armed == (call, when):
            self.armed = None
            raise self.error


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_transaction_is_lost_as_a_whole_or_its_answer_is(clock: Clock, when: str) -> None:
    table = MemoryTable(clock, hook=Faults("table.transact", when, Contention()))
    with pytest.raises(Contention):
        table.write(Put(item={"pk": "b1", "sk": "x"}), Put(item={"pk": "b1", "sk": "y"}))
    assert [row["sk"] for row in table.rows("b1")] == (["x", "y"] if when == "after" else [])
    assert len(table.stream) == len(table)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", ["create", "replace", "delete"])
def test_a_schedule_is_changed_or_not_when_the_call_fails(clock: Clock, call: str, when: str) -> None:
    faults = Faults(f"schedules.{call}", when, conflict())
    schedules = MemorySchedules(clock, hook=faults)
    if call != "create":
        schedules.create(CLOSE)
    later = replace(CLOSE, at=CLOSE.at + DAY)
    act: dict[str, Callable[[], Any]] = {
        "create": lambda: schedules.create(later),
        "replace": lambda: schedules.replace(later),
        "delete": lambda: schedules.delete(CLOSE.name),
    }
    before = dict(schedules.requests)
    with pytest.raises(ScheduleConflict):
        act[call]()
    after = {"create": {CLOSE.name: later}, "replace": {CLOSE.name: later}, "delete": {}}[call]
    assert schedules.requests == (after if when == "after" else before)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_message_is_sent_or_not_when_the_call_fails(clock: Clock, when: str) -> None:
    queues = MemoryQueues(clock, hook=Faults("queues.wake", when, Throttled()))
    with pytest.raises(Throttled):
        queues.wake("lifecycle", WAKE_UP, source="queue")
    assert len(queues.lanes["lifecycle"]) == (when == "after")


@pytest.mark.parametrize("when", ["before", "after"])
def test_events_are_accepted_or_not_when_the_call_fails_and_the_answer_says_they_are_not(
    clock: Clock, when: str
) -> None:
    bus = MemoryBus(clock, hook=Faults("bus.publish", when, Throttled(aws_code="ThrottlingException")))
    answers = bus.publish([{"id": "b1:1", "type": "booking.paid"}, {"id": "b1:2", "type": "booking.paid"}])
    assert list(answers) == ["ThrottlingException"] * 2
    assert len(bus.events) == (2 if when == "after" else 0)


def test_a_crash_goes_through_the_bus_as_through_everything(clock: Clock) -> None:
    bus = MemoryBus(clock, hook=Faults("bus.publish", "after", KeyboardInterrupt()))  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        bus.publish([{"id": "b1:1", "type": "booking.paid"}])
    assert len(bus.events) == 1


# --- schedules -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [-DAY, timedelta(), MINUTE])
@pytest.mark.parametrize("kind", ["create", "replace"])
def test_an_instant_that_is_past_or_within_a_minute_is_refused(clock: Clock, kind: str, ahead: timedelta) -> None:
    schedules = MemorySchedules(clock)
    schedules.create(CLOSE)
    late = replace(CLOSE, at=NOW + ahead)
    with pytest.raises(ValueError, match="past or within a minute"):
        getattr(schedules, kind)(late)
    assert schedules.requests == {CLOSE.name: CLOSE}
    assert schedules.late == [late]
    assert getattr(schedules, kind)(replace(CLOSE, at=NOW + 2 * MINUTE)) is (kind == "replace")


def test_where_clocks_disagree_a_past_instant_is_taken_kept_in_mind_and_fires_at_once(clock: Clock) -> None:
    schedules = MemorySchedules(clock, strict=False)
    past = replace(CLOSE, at=NOW - MINUTE)
    assert schedules.create(past)
    assert schedules.late == [past]
    assert schedules.due() == [past]


def test_a_schedule_fires_once_at_its_minute_and_is_deleted(clock: Clock) -> None:
    schedules = MemorySchedules(clock)
    schedules.create(CLOSE)
    assert schedules.next_at() == CLOSE.at
    clock.now = CLOSE.at - SECOND
    assert schedules.due() == []
    clock.now = CLOSE.at
    assert schedules.due() == [CLOSE]
    assert schedules.due() == []
    assert schedules.get(CLOSE.name) is None
    assert schedules.names(None) == ([], None)
    assert schedules.next_at() is None


def test_schedules_fire_in_order_and_a_moved_one_only_at_its_new_instant(clock: Clock) -> None:
    schedules = MemorySchedules(clock)
    first, second, third = (replace(CLOSE, name=name, at=CLOSE.at + MINUTE * at) for at, name in enumerate("abc"))
    for request in (third, first, second):
        schedules.create(request)
    schedules.replace(moved := replace(first, at=third.at + MINUTE))
    schedules.delete("b")
    clock.now = third.at
    assert schedules.due() == [third]
    clock.now = moved.at
    assert schedules.due() == [moved]


def test_a_name_that_was_deleted_and_made_again_fires_once(clock: Clock) -> None:
    schedules = MemorySchedules(clock)
    for _ in range(3):
        schedules.create(CLOSE)
        schedules.delete(CLOSE.name)
    schedules.create(CLOSE)
    clock.now = CLOSE.at
    assert schedules.due() == [CLOSE]
    assert schedules.due() == []


def test_the_quota_is_an_error_of_its_own(clock: Clock) -> None:
    schedules = MemorySchedules(clock, quota=1)
    schedules.create(CLOSE)
    assert schedules.create(CLOSE) is False
    with pytest.raises(QuotaExceeded):
        schedules.create(replace(CLOSE, name="other"))
    assert list(schedules.requests) == [CLOSE.name]


def test_without_the_group_nothing_is_listed(clock: Clock) -> None:
    schedules = MemorySchedules(clock)
    schedules.delete_group()
    with pytest.raises(AwsFailure):
        schedules.names(None)


def test_a_twin_fails_as_often_as_it_is_told_to(clock: Clock) -> None:
    schedules = MemorySchedules(clock)
    schedules.fail = [conflict(), Throttled()]
    with pytest.raises(ScheduleConflict):
        schedules.create(CLOSE)
    with pytest.raises(Throttled):
        schedules.create(CLOSE)
    assert schedules.create(CLOSE)
    assert schedules.calls == {"create": 3}


# --- queues --------------------------------------------------------------------------------------------------------


@pytest.fixture
def queues(clock: Clock) -> MemoryQueues:
    return MemoryQueues(clock, visibility=3 * MINUTE, most_receives=3)


def bodies(records: list[dict[str, Any]]) -> list[int]:
    return [json.loads(record["body"])["generation"] for record in records]


def send(queues: MemoryQueues, *generations: int, delay: timedelta = timedelta()) -> None:
    for generation in generations:
        queues.wake("lifecycle", replace(WAKE_UP, generation=generation), source="queue", delay=delay)


def test_a_message_is_seen_after_its_delay_and_not_before(queues: MemoryQueues, clock: Clock) -> None:
    lane = queues.lanes["lifecycle"]
    send(queues, 1, delay=10 * MINUTE)
    send(queues, 2)
    assert bodies(lane.receive()) == [2]
    assert lane.next_at() == NOW + 3 * MINUTE
    clock.now += 10 * MINUTE - SECOND
    lane.finish(lane.receive(), {"batchItemFailures": []})
    assert lane.next_at() == NOW + 10 * MINUTE
    clock.now += SECOND
    assert bodies(lane.receive()) == [1]


def test_a_record_has_the_shape_that_lambda_gives_it(queues: MemoryQueues, clock: Clock) -> None:
    send(queues, 1)
    clock.now += MINUTE
    (record,) = queues.lanes["lifecycle"].receive()
    assert record == {
        "messageId": "lifecycle-1",
        "receiptHandle": "lifecycle-1/1",
        "body": '{"booking_id":"b1","job":"close_event","generation":1}',
        "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": str(int(NOW.timestamp()) * 1000)},
        "messageAttributes": {"source": {"stringValue": "queue", "dataType": "String"}},
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:eu-west-1:000000000000:lifecycle",
        "awsRegion": "eu-west-1",
    }


def test_what_a_schedule_sends_has_no_attributes(queues: MemoryQueues) -> None:
    queues.fire(replace(CLOSE, lane="payments"))
    (record,) = queues.lanes["payments"].receive()
    assert json.loads(record["body"]) == {"booking_id": "b1", "job": "close_event", "generation": 7}
    assert record["messageAttributes"] == {}


def test_a_batch_has_at_most_ten_messages(queues: MemoryQueues) -> None:
    send(queues, *range(12))
    assert bodies(queues.lanes["lifecycle"].receive()) == list(range(10))
    assert bodies(queues.lanes["lifecycle"].receive()) == [10, 11]
    assert queues.lanes["lifecycle"].receive() == []


def test_what_was_not_deleted_comes_again_when_its_visibility_ends(queues: MemoryQueues, clock: Clock) -> None:
    lane = queues.lanes["lifecycle"]
    send(queues, 1, 2, 3)
    records = lane.receive()
    lane.finish(records, {"batchItemFailures": [{"itemIdentifier": records[1]["messageId"]}]})
    clock.now += 3 * MINUTE - SECOND
    assert lane.receive() == []
    clock.now += SECOND
    (again,) = lane.receive()
    assert bodies([again]) == [2]
    assert again["attributes"]["ApproximateReceiveCount"] == "2"


@pytest.mark.parametrize("answer", [None, {}, {"batchItemFailures": []}, {"batchItemFailures": None}])
def test_an_answer_that_names_no_failure_deletes_the_batch(queues: MemoryQueues, answer: Any) -> None:
    send(queues, 1, 2)
    lane = queues.lanes["lifecycle"]
    lane.finish(lane.receive(), answer)
    assert len(lane) == 0


def test_after_its_receives_a_message_moves_to_the_dead_letters_with_its_first_enqueue_time(
    queues: MemoryQueues, clock: Clock
) -> None:
    lane, dead = queues.lanes["lifecycle"], queues.dead["lifecycle"]
    send(queues, 1)
    for receive in range(3):
        assert len(lane.receive()) == 1, receive
        clock.now += 3 * MINUTE
    assert lane.receive() == []
    assert len(lane) == 0
    (record,) = dead.receive()
    assert record["messageId"] == "lifecycle-1"
    assert record["attributes"]["SentTimestamp"] == str(int(NOW.timestamp()) * 1000)
    assert record["attributes"]["DeadLetterQueueSourceArn"] == lane.arn
    assert record["messageAttributes"]["source"]["stringValue"] == "queue"


def test_retention_counts_from_the_first_enqueue_also_among_the_dead_letters(clock: Clock) -> None:
    dead = MemoryQueue("dead", clock, retention=14 * DAY)
    lane = MemoryQueue("lane", clock, retention=14 * DAY, most_receives=1, dead_letters=dead)
    lane.send("{}")
    clock.now += 13 * DAY
    assert len(lane.receive()) == 1
    clock.now += 12 * timedelta(hours=1)
    assert lane.receive() == []
    assert len(dead) == 1
    clock.now += DAY
    assert dead.receive() == []
    assert (len(dead), dead.expired) == (0, 1)


def test_a_message_deleted_late_by_its_first_receiver_does_not_come_a_third_time(
    queues: MemoryQueues, clock: Clock
) -> None:
    lane = queues.lanes["lifecycle"]
    send(queues, 1)
    (first,) = lane.receive()
    clock.now += 3 * MINUTE
    assert len(lane.receive()) == 1
    lane.delete(first["messageId"])
    clock.now += 3 * MINUTE
    assert lane.receive() == []


def test_the_projection_queue_has_dead_letters_too(queues: MemoryQueues, clock: Clock) -> None:
    queues.project("b1", "close_event")
    for _ in range(4):
        queues.projection.receive()
        clock.now += 3 * MINUTE
    assert len(queues.projection) == 0
    assert len(queues.projection_dead) == 1


# --- the bus -------------------------------------------------------------------------------------------------------


def test_an_event_too_large_for_any_request_is_refused_alone(clock: Clock) -> None:
    bus = MemoryBus(clock)
    events = [{"id": str(number), "type": "t", "data": "x" * size} for number, size in enumerate((1, 300_000, 1))]
    assert list(bus.publish(events)) == [None, "ValidationException", None]
    assert [event["detail"]["id"] for event in bus.events] == ["0", "2"]


def test_an_accepted_event_has_the_time_of_the_bus(clock: Clock) -> None:
    bus = MemoryBus(clock)
    bus.publish([{"id": "b1:1", "type": "booking.paid"}])
    assert bus.events[0]["time"] == "2026-08-01T10:00:00Z"
    assert bus.calls == {"publish": 1}


def test_what_was_published_can_be_changed_without_changing_the_event() -> None:
    bus = MemoryBus()
    event = {"id": "b1:1", "type": "booking.paid", "data": {"a": 1}}
    bus.publish([event])
    event["data"] = {}
    assert bus.events[0]["detail"]["data"] == {"a": 1}
