"""What every `Bus` does: one suite, run over the in-memory twin and over EventBridge (moto) with a queue behind it."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from duebook.adapters.bus import EventBridgeBus, entry_of, size_of
from duebook.adapters.memory import MemoryBus
from duebook.service.ports import Bus
from tests.integration.conftest import REGION, Client

KB = 1024


@dataclass(frozen=True)
class Setup:
    """`accepted`: the bus's events as a rule's queue gets them."""

    bus: Bus
    accepted: Callable[[], list[dict[str, Any]]]


class Wire:
    """What PutEvents was asked, and a say in its answers: an error code for each event id that the bus refuses."""

    def __init__(self) -> None:
        self.batches: list[list[dict[str, Any]]] = []
        self.refused: dict[str, str] = {}

    def asked(self, params: dict[str, Any], **_: Any) -> None:
        """The refused ones go nowhere."""
        self.batches.append(list(params["Entries"]))
        params["Entries"] = [entry for entry in params["Entries"] if self._code(entry) is None]
        if not params["Entries"]:
            params["Entries"] = [{"Source": "nobody", "DetailType": "nothing", "Detail": "{}"}]

    def answered(self, parsed: dict[str, Any], **_: Any) -> None:
        entries = [{"ErrorCode": code} if (code := self._code(e)) else {"EventId": "e"} for e in self.batches[-1]]
        parsed |= {"Entries": entries, "FailedEntryCount": sum("ErrorCode" in entry for entry in entries)}

    def _code(self, entry: dict[str, Any]) -> str | None:
        return self.refused.get(json.loads(entry["Detail"])["id"])


@pytest.fixture
def wire(client: Client) -> Iterator[Wire]:
    found, hooks = Wire(), client("events").meta.events
    hooks.register("provide-client-params.events.PutEvents", found.asked)
    hooks.register("after-call.events.PutEvents", found.answered)
    yield found
    hooks.unregister("provide-client-params.events.PutEvents", found.asked)
    hooks.unregister("after-call.events.PutEvents", found.answered)


@pytest.fixture(params=["in memory", "EventBridge"])
def setup(request: pytest.FixtureRequest, fresh: Callable[[str], str]) -> Setup:
    if request.param == "in memory":
        bus = MemoryBus()
        return Setup(bus, lambda: bus.events)
    client: Client = request.getfixturevalue("client")
    request.getfixturevalue("wire")
    return on_eventbridge(client, fresh("duebook"))


def on_eventbridge(client: Client, name: str) -> Setup:
    events, sqs = client("events"), client("sqs")
    events.create_event_bus(Name=name)
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    events.put_rule(Name=name, EventBusName=name, EventPattern=json.dumps({"source": ["duebook"]}))
    arn = f"arn:aws:sqs:{REGION}:123456789012:{name}"
    events.put_targets(Rule=name, EventBusName=name, Targets=[{"Id": "1", "Arn": arn}])

    def accepted() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=0)
            if not answer.get("Messages"):
                return found
            found += [json.loads(message["Body"]) for message in answer["Messages"]]

    return Setup(EventBridgeBus(events, name), accepted)


def envelope(number: int, size: int = 0) -> dict[str, Any]:
    return {"id": f"b1:{number}", "type": "booking.paid", "data": {"text": "x" * size}}


def ids(events: list[dict[str, Any]]) -> list[str]:
    return sorted((event["detail"]["id"] for event in events), key=lambda found: int(found.rpartition(":")[2]))


def test_an_event_arrives_from_our_source_with_its_type_and_the_envelope_as_its_detail(setup: Setup) -> None:
    event = envelope(1) | {"state": "paid", "data": {"nested": [1, {"x": None}], "text": "☕"}}
    assert list(setup.bus.publish([event])) == [None]
    (arrived,) = setup.accepted()
    assert (arrived["source"], arrived["detail-type"], arrived["detail"]) == ("duebook", "booking.paid", event)


def test_nothing_to_publish_is_fine(setup: Setup) -> None:
    assert list(setup.bus.publish([])) == []
    assert setup.accepted() == []


@pytest.mark.parametrize("count", [1, 10, 11, 25])
def test_any_number_of_events_is_accepted_one_answer_each(setup: Setup, count: int) -> None:
    assert list(setup.bus.publish([envelope(number) for number in range(count)])) == [None] * count
    assert ids(setup.accepted()) == [f"b1:{number}" for number in range(count)]


def test_a_refused_event_answers_its_code_at_its_place_and_its_neighbours_go_through(setup: Setup, wire: Wire) -> None:
    codes = [None, "InternalFailure", *[None] * 10, "ThrottlingException"]
    if isinstance(setup.bus, MemoryBus):
        setup.bus.fail = list(codes)
    wire.refused = {f"b1:{number}": code for number, code in enumerate(codes) if code}
    assert list(setup.bus.publish([envelope(number) for number in range(13)])) == codes
    assert ids(setup.accepted()) == [f"b1:{number}" for number in range(13) if codes[number] is None]


def test_a_value_that_is_no_json_is_refused_before_anything_is_sent(setup: Setup) -> None:
    with pytest.raises((ValueError, TypeError)):
        setup.bus.publish([envelope(1), envelope(2) | {"data": {"x": float("nan")}}])
    assert setup.accepted() == []


# --- what only the real adapter does ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "batches"),
    [
        ([0] * 10, [10]),
        ([0] * 11, [10, 1]),
        ([0] * 25, [10, 10, 5]),
        ([100 * KB] * 5, [2, 2, 1]),
        ([120 * KB, 120 * KB, 0, 0, 120 * KB], [4, 1]),
        ([0, 255 * KB, 0], [3]),
        ([0, 256 * KB, 0], [1, 1, 1]),
        ([0, 300 * KB, 0, 0], [1, 1, 2]),
    ],
)
def test_events_are_sent_in_order_in_requests_of_at_most_ten_and_256_kb(
    client: Client, wire: Wire, sizes: list[int], batches: list[int]
) -> None:
    EventBridgeBus(client("events"), "default").publish([envelope(at, size) for at, size in enumerate(sizes)])
    assert [len(batch) for batch in wire.batches] == batches
    sent = [json.loads(entry["Detail"])["id"] for batch in wire.batches for entry in batch]
    assert sent == [f"b1:{at}" for at in range(len(sizes))]


@pytest.mark.parametrize(("missing", "batches"), [(0, [1, 1]), (1, [2])])
def test_a_request_has_less_than_256_kb_all_entries_together(
    client: Client, wire: Wire, missing: int, batches: list[int]
) -> None:
    empty = sum(size_of(entry_of(envelope(number), "default")) for number in (0, 1))
    sizes = (100 * KB, 156 * KB - empty - missing)
    EventBridgeBus(client("events"), "default").publish([envelope(at, size) for at, size in enumerate(sizes)])
    assert [len(batch) for batch in wire.batches] == batches


def test_every_entry_names_the_bus(client: Client, wire: Wire) -> None:
    EventBridgeBus(client("events"), "default").publish([envelope(1)])
    ((entry,),) = wire.batches
    assert entry == {
        "Source": "duebook",
        "DetailType": "booking.paid",
        "Detail": '{"id":"b1:1","type":"booking.paid","data":{"text":""}}',
        "EventBusName": "default",
    }
