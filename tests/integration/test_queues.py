"""What every `Queues` does: one suite, run over the in-memory twin and over SQS (moto)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duebook.adapters.memory import MemoryQueue, MemoryQueues
from duebook.adapters.queues import SqsQueues
from duebook.service.ports import Queues, WakeUp
from tests.integration.conftest import Client

NOW = datetime(2026, 8, 1, 10, tzinfo=UTC)
SECOND = timedelta(seconds=1)
LANES = ("lifecycle", "payments")
WAKE_UP = WakeUp(booking_id="b1", job="close_event", generation=7)
BODY = '{"booking_id":"b1","job":"close_event","generation":7}'


@dataclass(frozen=True)
class Sent:
    """A message as its receiver gets it, and the seconds it was held back."""

    body: str
    source: str | None
    delay: int


@dataclass(frozen=True)
class Setup:
    """`sent`: what was sent to a queue, in order; `projection` beside the lanes."""

    queues: Queues
    sent: Callable[[str], list[Sent]]


def in_memory() -> Setup:
    queues = MemoryQueues(lambda: NOW)

    def sent(name: str) -> list[Sent]:
        queue = queues.projection if name == "projection" else queues.lanes[name]
        return [_twin_sent(queue, at) for at in range(len(queue.messages))]

    return Setup(queues, sent)


def _twin_sent(queue: MemoryQueue, at: int) -> Sent:
    message = queue.messages[at]
    source = message.attributes.get("source")
    delay = (message.visible_at - message.sent_at).total_seconds()
    return Sent(message.body, source and source["StringValue"], int(delay))


def on_sqs(client: Client, fresh: Callable[[str], str]) -> Iterator[Setup]:
    """The delays are read off the requests: a message that waits cannot be received."""
    sqs = client("sqs")
    urls = {name: sqs.create_queue(QueueName=fresh(name))["QueueUrl"] for name in (*LANES, "projection")}
    delays: dict[str, list[int]] = {url: [] for url in urls.values()}

    def keep(params: dict[str, Any], **_: Any) -> None:
        delays[params["QueueUrl"]].append(params.pop("DelaySeconds", 0))

    def sent(name: str) -> list[Sent]:
        url, found = urls[name], []
        for delay in delays[url]:
            answer = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"], WaitTimeSeconds=0)
            (message,) = answer["Messages"]
            source = message.get("MessageAttributes", {}).get("source")
            found.append(Sent(message["Body"], source and source["StringValue"], delay))
        return found

    event = "provide-client-params.sqs.SendMessage"
    sqs.meta.events.register(event, keep)
    yield Setup(SqsQueues(sqs, {lane: urls[lane] for lane in LANES}, urls["projection"]), sent)
    sqs.meta.events.unregister(event, keep)


@pytest.fixture(params=["in memory", "SQS"])
def setup(request: pytest.FixtureRequest, fresh: Callable[[str], str]) -> Iterator[Setup]:
    if request.param == "in memory":
        yield in_memory()
    else:
        yield from on_sqs(request.getfixturevalue("client"), fresh)


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("source", ["queue", "sweep"])
def test_a_wake_up_arrives_in_its_lane_with_its_source_beside_an_exact_body(
    setup: Setup, lane: str, source: str
) -> None:
    setup.queues.wake(lane, WAKE_UP, source=source)
    assert setup.sent(lane) == [Sent(BODY, source, 0)]
    assert [setup.sent(other) for other in (*LANES, "projection") if other != lane] == [[], []]


def test_the_ask_to_project_a_job_names_the_job_alone(setup: Setup) -> None:
    setup.queues.project("b1", "close_event")
    assert setup.sent("projection") == [Sent('{"booking_id":"b1","job":"close_event"}', None, 0)]


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [
        (timedelta(), 0),
        (timedelta(microseconds=1), 1),
        (timedelta(milliseconds=59_001), 60),
        (timedelta(minutes=1), 60),
        (timedelta(seconds=899.5), 900),
        (timedelta(minutes=15), 900),
    ],
)
def test_a_delay_is_rounded_up_to_whole_seconds_so_that_nothing_comes_early(
    setup: Setup, delay: timedelta, seconds: int
) -> None:
    setup.queues.wake("lifecycle", WAKE_UP, source="queue", delay=delay)
    assert setup.sent("lifecycle") == [Sent(BODY, "queue", seconds)]


@pytest.mark.parametrize("delay", [-SECOND, timedelta(microseconds=-1), timedelta(minutes=15, microseconds=1)])
def test_a_delay_that_sqs_does_not_know_is_refused_and_nothing_is_sent(setup: Setup, delay: timedelta) -> None:
    with pytest.raises(ValueError, match="can wait"):
        setup.queues.wake("lifecycle", WAKE_UP, source="queue", delay=delay)
    assert setup.sent("lifecycle") == []


def test_an_unknown_lane_is_refused(setup: Setup) -> None:
    with pytest.raises(KeyError):
        setup.queues.wake("fast", WAKE_UP, source="queue")


def test_ids_of_any_script_arrive_as_they_are(setup: Setup) -> None:
    setup.queues.wake("lifecycle", WakeUp(booking_id="bücher-☕", job="own", generation=1), source="queue")
    (message,) = setup.sent("lifecycle")
    assert message.body == '{"booking_id":"b\\u00fccher-\\u2615","job":"own","generation":1}'
