"""Moving from Celery: real messages with an `eta` in a broker that speaks Redis, and nothing that fires from both."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from celery import Celery
from fakeredis import TcpFakeServer
from sqlalchemy import create_engine, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, sessionmaker

from duebook_client import Duebook, EventReader
from examples.celery.marketplace.consumer import NotYetOurs, consume_once, fire
from examples.celery.marketplace.effects import CLOSE_EVENT, PAY_CHEF
from examples.celery.marketplace.hand_over import Drained, drain, hand_over
from examples.celery.marketplace.models import CELERY, DUEBOOK, PAID, PAID_OUT, PAY_AFTER, Base, Booking, Payout
from examples.celery.marketplace.tasks import Tasks
from tests.examples.queue import Queue
from tests.unit.client.in_process import InProcessService

END = datetime(2026, 11, 14, 21, tzinfo=UTC)
DAY = timedelta(days=1)
Sessions = sessionmaker[Session]


@pytest.fixture
def broker(socket_enabled: None) -> Iterator[str]:
    """A server that speaks Redis, on this machine."""
    server = TcpFakeServer(("127.0.0.1", 0))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"redis://127.0.0.1:{server.server_address[1]}/0"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def celery(broker: str) -> Iterator[Celery]:
    with Celery("marketplace", broker=broker, set_as_current=False) as app:
        yield app


@pytest.fixture
def sessions() -> Iterator[Sessions]:
    engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    yield sessionmaker(engine, expire_on_commit=False)
    engine.dispose()


@pytest.fixture
def tasks(celery: Celery, sessions: Sessions, service: InProcessService) -> Tasks:
    return Tasks(celery, sessions, lambda: service.now)


def _book(sessions: Sessions, tasks: Tasks | None, *ids: str) -> None:
    """Paid bookings; with `tasks`, scheduled as ever: two messages each."""
    for id_ in ids:
        with sessions.begin() as session:
            session.add(Booking(id=id_, event_end=END, price_minor=90_000))
        if tasks is not None:
            with sessions() as session:
                tasks.schedule(session.get_one(Booking, id_))


def _in_broker(celery: Celery) -> int:
    with celery.connection_for_read() as connection, connection.channel() as channel:
        declared = celery.amqp.queues["celery"].bind(channel).queue_declare()
        return int(declared.message_count)


def _messages(celery: Celery) -> list[tuple[str, str]]:
    """What a worker would fire: job and booking of each message, all acknowledged."""
    with celery.connection_for_read() as connection, connection.channel() as channel:
        queue = celery.amqp.queues["celery"].bind(channel)
        found = []
        for _ in range(queue.queue_declare().message_count):
            message = queue.get()
            message.ack()
            found.append((message.headers["task"].removeprefix("marketplace."), message.payload[0][0]))
    return found


def _state(sessions: Sessions, booking_id: str = "b-1") -> tuple[str, str]:
    with sessions() as session:
        booking = session.get_one(Booking, booking_id)
        return booking.state, booking.clock


def _payouts(sessions: Sessions) -> list[str]:
    with sessions() as session:
        return list(session.scalars(select(Payout.booking_id).order_by(Payout.booking_id)))


def _due(service: InProcessService) -> Queue:
    return Queue(*(event for event in service.events() if event["detail-type"] == "job.due"))


def _consume(sessions: Sessions, service: InProcessService, queue: Queue) -> list[str]:
    return consume_once(sessions, EventReader(None, "queue", sqs=queue), lambda: service.now)


# --- why -----------------------------------------------------------------------------------------------------------


def test_before_two_workers_hold_the_same_payout_once_the_visibility_timeout_is_over(
    celery: Celery, sessions: Sessions, tasks: Tasks
) -> None:
    """The contrast: Redis cannot tell a worker that waits for November from one that is gone."""
    _book(sessions, tasks, "b-1")
    held: list[str] = []
    options = {"visibility_timeout": -1}  # every message that is held counts as held for too long
    with (
        celery.connection_for_read() as one,
        celery.connection_for_read(transport_options=options) as other,
    ):
        for connection in (one, other):
            channel = connection.default_channel
            if connection is other:
                channel.qos.restore_visible()
            queue = celery.amqp.queues["celery"].bind(channel)
            while (message := queue.get()) is not None and len(held) < 4:
                held.append(message.headers["id"])
    assert len(held) == 4
    assert len(set(held)) == 2
    assert _state(sessions) == (PAID, CELERY)


# --- the move ------------------------------------------------------------------------------------------------------


def test_every_booking_is_handed_over_and_its_jobs_stand_at_the_instants_of_its_row(
    sessions: Sessions, tasks: Tasks, duebook: Duebook
) -> None:
    _book(sessions, tasks, "b-1", "b-2", "b-3")
    assert [hand_over(sessions, duebook, most=2) for _ in range(3)] == [2, 1, 0]
    for id_ in ("b-1", "b-2", "b-3"):
        assert {job.job: job.run_at for job in duebook.jobs(id_)} == {CLOSE_EVENT: END, PAY_CHEF: END + PAY_AFTER}
        assert _state(sessions, id_) == (PAID, DUEBOOK)


def test_a_job_whose_message_redis_lost_is_found_again(
    celery: Celery, sessions: Sessions, tasks: Tasks, duebook: Duebook, service: InProcessService
) -> None:
    _book(sessions, tasks, "b-1")
    assert len(_messages(celery)) == 2  # gone with the node that held them
    hand_over(sessions, duebook)
    service.move_to(END + PAY_AFTER)
    assert _consume(sessions, service, _due(service)) == ["the event is closed", "the chef is paid"]


def test_old_messages_that_fire_after_the_hand_over_do_nothing(
    celery: Celery, sessions: Sessions, tasks: Tasks, duebook: Duebook, service: InProcessService
) -> None:
    _book(sessions, tasks, "b-1")
    hand_over(sessions, duebook)
    service.move_to(END + PAY_AFTER)
    assert {tasks.fire(job, booking_id) for job, booking_id in _messages(celery)} == {
        "ignored: duebook is this booking's clock"
    }
    assert _payouts(sessions) == []
    _consume(sessions, service, _due(service))
    assert _payouts(sessions) == ["b-1"]
    assert _state(sessions) == (PAID_OUT, DUEBOOK)


def test_whoever_fires_and_how_often_the_chef_is_paid_once(
    celery: Celery, sessions: Sessions, tasks: Tasks, duebook: Duebook, service: InProcessService
) -> None:
    _book(sessions, tasks, "b-1", "b-2")
    hand_over(sessions, duebook, most=1)  # halfway: one booking a clock
    service.move_to(END + PAY_AFTER)
    messages, queue = _messages(celery), _due(service)
    for _ in range(3):
        for job, booking_id in messages:
            tasks.fire(job, booking_id)
        _consume(sessions, service, queue)
    assert _payouts(sessions) == ["b-1", "b-2"]


def test_killed_between_the_jobs_and_the_row_celery_acts_and_the_event_waits_for_the_next_run(
    sessions: Sessions, tasks: Tasks, duebook: Duebook, service: InProcessService
) -> None:
    _book(sessions, tasks, "b-1")
    with sessions() as session:
        booking = session.get_one(Booking, "b-1")
        duebook.put_job("b-1", CLOSE_EVENT, END, revision=booking.version)
    service.move_to(END)
    queue = _due(service)
    assert _consume(sessions, service, queue) == []
    assert len(queue.messages) == 1
    with pytest.raises(NotYetOurs, match="celery"):
        fire(sessions, CLOSE_EVENT, "b-1", service.now)
    assert hand_over(sessions, duebook) == 1
    assert _consume(sessions, service, queue) == ["the event is closed"]
    assert len(queue.messages) == 0


def test_a_booking_that_celery_closed_is_handed_over_with_what_is_left(
    sessions: Sessions, tasks: Tasks, duebook: Duebook, service: InProcessService
) -> None:
    _book(sessions, None, "b-1")
    service.now = END
    assert tasks.fire(CLOSE_EVENT, "b-1") == "the event is closed"
    assert hand_over(sessions, duebook) == 1
    assert [job.job for job in duebook.jobs("b-1")] == [PAY_CHEF]


# --- the broker ----------------------------------------------------------------------------------------------------


def test_the_broker_is_emptied_of_what_was_handed_over_and_of_nothing_else(
    celery: Celery, sessions: Sessions, tasks: Tasks, duebook: Duebook
) -> None:
    _book(sessions, tasks, "b-1", "b-2")
    celery.send_task("reports.monthly", ("b-1",))
    hand_over(sessions, duebook, most=1)
    assert drain(celery, sessions) == Drained(
        dropped=[(f"marketplace.{CLOSE_EVENT}", "b-1"), (f"marketplace.{PAY_CHEF}", "b-1")], kept=3
    )
    assert _in_broker(celery) == 3
    assert drain(celery, sessions) == Drained(kept=3)
    hand_over(sessions, duebook)
    assert len(drain(celery, sessions).dropped) == 2
    assert _messages(celery) == [("reports.monthly", "b-1")]


def test_an_empty_broker_is_drained_at_once(celery: Celery, sessions: Sessions) -> None:
    _in_broker(celery)
    assert drain(celery, sessions) == Drained()


def test_a_second_payout_is_refused_by_its_key(sessions: Sessions) -> None:
    _book(sessions, None, "b-1")
    with sessions.begin() as session:
        session.add(Payout(booking_id="b-1", amount_minor=1, decided_at=END))
    with pytest.raises(IntegrityError), sessions.begin() as session:
        session.add(Payout(booking_id="b-1", amount_minor=1, decided_at=END))
