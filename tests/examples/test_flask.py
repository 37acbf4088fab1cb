"""The Flask example: own bookings, an outbox, and a consumer that looks at its own state first."""

import contextlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import select
from sqlalchemy.event import listen
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.orm.exc import StaleDataError

from duebook_client import Duebook, Event, EventReader, NoAnswer
from examples.flask.marketplace import bookings
from examples.flask.marketplace.consumer import Consumed, consume_once, decide, handle
from examples.flask.marketplace.models import Booking, Mail, Outbox
from examples.flask.marketplace.outbox import Relayed, relay_once, send
from tests.examples.queue import Queue
from tests.unit.client.fakes import REGION, URL, FixedSession, ScriptedTransport, refusal
from tests.unit.client.in_process import InProcessService

DAY = timedelta(days=1)
WEDDING = datetime(2026, 11, 14, 17, tzinfo=UTC)
DECEMBER = datetime(2026, 12, 12, 17, tzinfo=UTC)
Sessions = sessionmaker[Session]


class Crash(BaseException):
    """The process is killed."""


def _book(web: FlaskClient, event_start: datetime = WEDDING) -> str:
    answer = web.post("/bookings", json={"guest": "ada@example.com", "event_start": event_start.isoformat()})
    assert answer.status_code == 201
    return str(answer.get_json()["id"])


def _move(web: FlaskClient, booking_id: str, event_start: datetime) -> None:
    answer = web.post(f"/bookings/{booking_id}/move", json={"event_start": event_start.isoformat()})
    assert answer.status_code == 200


def _cancel(web: FlaskClient, booking_id: str) -> None:
    assert web.post(f"/bookings/{booking_id}/cancel").status_code == 200


def _relay(sessions: Sessions, duebook: Duebook, service: InProcessService, limit: int = 100) -> Relayed:
    return relay_once(sessions, duebook, lambda: service.now, limit=limit)


def _consume(sessions: Sessions, service: InProcessService, events: Sequence[dict[str, Any]]) -> Consumed:
    queue = Queue(*events)
    return consume_once(sessions, EventReader(None, "queue", sqs=queue), lambda: service.now)


def _due(service: InProcessService) -> list[dict[str, Any]]:
    return [event for event in service.events() if event["detail-type"] == "job.due"]


def _planned(duebook: Duebook, booking_id: str) -> dict[str, datetime]:
    return {job.job: job.run_at for job in duebook.jobs(booking_id)}


def _mails(sessions: Sessions) -> list[str]:
    with sessions() as session:
        return list(session.scalars(select(Mail.kind).order_by(Mail.id)))


def _outcomes(sessions: Sessions) -> list[str | None]:
    with sessions() as session:
        return list(session.scalars(select(Outbox.outcome).order_by(Outbox.id)))


def _rows(sessions: Sessions) -> Sequence[Outbox]:
    with sessions() as session:
        return session.scalars(select(Outbox).order_by(Outbox.id)).all()


# --- from the booking to the job -----------------------------------------------------------------------------------


def test_a_booking_becomes_jobs_once_the_outbox_is_relayed(
    web: FlaskClient, sessions: Sessions, duebook: Duebook, service: InProcessService
) -> None:
    booking_id = _book(web)
    assert service.sent == []
    assert _relay(sessions, duebook, service) == Relayed(sent=2)
    assert _planned(duebook, booking_id) == {"remind_guest": WEDDING - 2 * DAY, "ask_review": WEDDING + DAY}
    assert _outcomes(sessions) == ["applied", "applied"]


def test_a_move_moves_the_jobs(
    web: FlaskClient, sessions: Sessions, duebook: Duebook, service: InProcessService
) -> None:
    booking_id = _book(web)
    _relay(sessions, duebook, service)
    _move(web, booking_id, DECEMBER)
    _relay(sessions, duebook, service)
    assert _planned(duebook, booking_id) == {"remind_guest": DECEMBER - 2 * DAY, "ask_review": DECEMBER + DAY}


def test_a_move_to_tomorrow_takes_the_reminder_away(
    web: FlaskClient, sessions: Sessions, duebook: Duebook, service: InProcessService
) -> None:
    booking_id = _book(web)
    _move(web, booking_id, service.now + DAY)
    _relay(sessions, duebook, service)
    assert _planned(duebook, booking_id) == {"ask_review": service.now + 2 * DAY}


def test_a_cancellation_removes_the_jobs(
    web: FlaskClient, sessions: Sessions, duebook: Duebook, service: InProcessService
) -> None:
    booking_id = _book(web)
    _relay(sessions, duebook, service)
    _cancel(web, booking_id)
    _cancel(web, booking_id)
    assert _relay(sessions, duebook, service).sent == 2
    assert _planned(duebook, booking_id) == {}
    service.move_to(WEDDING + 2 * DAY)
    assert _due(service) == []


def test_a_change_that_changes_nothing_asks_for_nothing(web: FlaskClient, sessions: Sessions) -> None:
    booking_id = _book(web)
    _move(web, booking_id, WEDDING)
    assert len(_rows(sessions)) == 2


# --- the relay -----------------------------------------------------------------------------------------------------


def test_a_crash_between_the_commit_and_the_relay_loses_nothing(
    web: FlaskClient, restart: Callable[[], Sessions], duebook: Duebook, service: InProcessService
) -> None:
    booking_id = _book(web)
    assert _relay(restart(), duebook, service).sent == 2
    assert len(_planned(duebook, booking_id)) == 2


def test_a_change_that_is_rolled_back_leaves_no_row(sessions: Sessions, service: InProcessService) -> None:
    with contextlib.suppress(Crash), sessions.begin() as session:
        bookings.book(session, "ada@example.com", WEDDING, service.now)
        raise Crash
    assert _rows(sessions) == []


def test_a_crash_between_the_call_and_the_mark_sends_the_row_again_without_effect(
    web: FlaskClient,
    sessions: Sessions,
    restart: Callable[[], Sessions],
    duebook: Duebook,
    service: InProcessService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    booking_id = _book(web)

    def killed(*_: Any) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr("examples.flask.marketplace.outbox._mark", killed)
        with pytest.raises(Crash):
            _relay(sessions, duebook, service)
    generations = {job.job: job.generation for job in duebook.jobs(booking_id)}
    assert generations.keys() == {"remind_guest"}
    later = restart()
    assert _relay(later, duebook, service).sent == 2
    assert _outcomes(later) == ["stale", "applied"]
    assert {job.job: job.generation for job in duebook.jobs(booking_id)}.items() > generations.items()


def test_a_relay_that_runs_again_has_nothing_to_do(
    web: FlaskClient, sessions: Sessions, duebook: Duebook, service: InProcessService
) -> None:
    _book(web)
    _relay(sessions, duebook, service)
    assert _relay(sessions, duebook, service) == Relayed()


def test_rows_that_arrive_twice_and_in_the_wrong_order_end_in_the_newest(
    web: FlaskClient, sessions: Sessions, duebook: Duebook
) -> None:
    booking_id = _book(web)
    _move(web, booking_id, DECEMBER)
    rows = _rows(sessions)
    outcomes = [send(duebook, row) for row in (*reversed(rows), *rows)]
    assert outcomes[:4] == ["applied", "applied", "stale", "stale"]
    assert outcomes[4:] == ["stale"] * 4
    assert _planned(duebook, booking_id) == {"remind_guest": DECEMBER - 2 * DAY, "ask_review": DECEMBER + DAY}


def test_a_booking_that_arrives_after_its_cancellation_leaves_no_job(
    web: FlaskClient, sessions: Sessions, duebook: Duebook
) -> None:
    booking_id = _book(web)
    _cancel(web, booking_id)
    for row in reversed(_rows(sessions)):
        send(duebook, row)
    assert _planned(duebook, booking_id) == {}


def test_an_answer_that_gets_lost_changes_nothing(
    web: FlaskClient, sessions: Sessions, duebook: Duebook, service: InProcessService
) -> None:
    booking_id = _book(web)
    service.lost = [NoAnswer("reset"), NoAnswer("reset")]
    assert _relay(sessions, duebook, service).sent == 2
    assert [entry.type for entry in duebook.history(booking_id)] == ["job.set", "job.set"]


def test_a_pass_is_bounded_and_goes_on_where_it_stopped(
    web: FlaskClient, sessions: Sessions, duebook: Duebook, service: InProcessService
) -> None:
    for _ in range(3):
        _book(web)
    sent = [_relay(sessions, duebook, service, limit=4).sent for _ in range(3)]
    assert sent == [4, 2, 0]


def test_when_duebook_is_away_the_pass_stops_and_every_row_stays(
    web: FlaskClient, sessions: Sessions, duebook: Duebook, service: InProcessService
) -> None:
    booking_id = _book(web)
    transport = ScriptedTransport(refusal(503, "aws_failure"))
    away = Duebook(URL, region=REGION, session=FixedSession(), transport=transport, sleep=lambda _: None)
    relayed = _relay(sessions, away, service)
    assert (relayed.sent, relayed.waiting) == (0, 2)
    assert relayed.trouble is not None
    assert {sent.url.rpartition("/")[2] for sent in transport.sent} == {"remind_guest"}
    assert _outcomes(sessions) == [None, None]
    assert _relay(sessions, duebook, service).sent == 2
    assert len(_planned(duebook, booking_id)) == 2


def test_a_row_that_is_refused_for_good_holds_up_nobody(
    web: FlaskClient, sessions: Sessions, duebook: Duebook, service: InProcessService
) -> None:
    _book(web)
    other = _book(web, WEDDING + 300 * DAY)
    service.move_to(WEDDING)
    assert _relay(sessions, duebook, service) == Relayed(sent=3, refused=1)
    refused = [outcome for outcome in _outcomes(sessions) if outcome and outcome.startswith("refused")]
    assert len(refused) == 1
    assert "past_run_at" in refused[0]
    assert len(_planned(duebook, other)) == 2


def test_a_booking_that_meets_a_conflict_keeps_its_order_while_others_go_on(
    web: FlaskClient, sessions: Sessions, service: InProcessService
) -> None:
    first, second = _book(web), _book(web)

    class Busy(ScriptedTransport):
        """The first booking is being changed by others, again and again."""

        def send(self, request: Any) -> Any:
            if first in request.url:
                self.sent.append(request)
                return refusal(409, "version_conflict")
            return service.send(request)

    busy = Busy()
    client = Duebook(URL, region=REGION, session=FixedSession(), transport=busy, sleep=lambda _: None)
    relayed = relay_once(sessions, client, lambda: service.now)
    assert (relayed.sent, relayed.waiting, relayed.trouble) == (2, 2, None)
    assert {sent.url.rpartition("/")[2] for sent in busy.sent} == {"remind_guest"}
    assert len(_planned(client, second)) == 2


# --- the consumer --------------------------------------------------------------------------------------------------


def test_at_the_instant_the_mail_is_decided_once(
    web: FlaskClient, sessions: Sessions, duebook: Duebook, service: InProcessService
) -> None:
    booking_id = _book(web)
    _relay(sessions, duebook, service)
    service.move_to(WEDDING - 2 * DAY)
    events = _due(service)
    assert [event["detail"]["job"] for event in events] == ["remind_guest"]
    assert _consume(sessions, service, events) == Consumed(acted=1)
    assert web.get(f"/bookings/{booking_id}").get_json()["mails"] == ["remind_guest"]


def test_a_duplicate_event_is_ignored(
    web: FlaskClient, sessions: Sessions, duebook: Duebook, service: InProcessService
) -> None:
    _book(web)
    _relay(sessions, duebook, service)
    service.move_to(WEDDING - 2 * DAY)
    events = _due(service)
    assert _consume(sessions, service, [*events, *events]) == Consumed(acted=1, ignored=1)
    assert _consume(sessions, service, events) == Consumed(ignored=1)
    assert _mails(sessions) == ["remind_guest"]


def test_an_event_for_a_booking_that_was_cancelled_is_ignored(
    web: FlaskClient, sessions: Sessions, duebook: Duebook, service: InProcessService
) -> None:
    booking_id = _book(web)
    _relay(sessions, duebook, service)
    service.move_to(WEDDING - 2 * DAY)
    _cancel(web, booking_id)
    assert _consume(sessions, service, _due(service)) == Consumed(ignored=1)
    assert _mails(sessions) == []


def test_an_event_for_a_booking_that_was_moved_is_ignored_and_its_new_job_comes(
    web: FlaskClient, sessions: Sessions, duebook: Duebook, service: InProcessService
) -> None:
    booking_id = _book(web)
    _relay(sessions, duebook, service)
    service.move_to(WEDDING - 2 * DAY)
    _move(web, booking_id, DECEMBER)
    assert _consume(sessions, service, _due(service)) == Consumed(ignored=1)
    _relay(sessions, duebook, service)
    service.move_to(DECEMBER - 2 * DAY)
    assert _consume(sessions, service, _due(service)) == Consumed(acted=1)
    assert _mails(sessions) == ["remind_guest"]


def test_a_reminder_that_comes_after_the_event_is_ignored_and_the_review_is_not(
    web: FlaskClient, sessions: Sessions, duebook: Duebook, service: InProcessService
) -> None:
    _book(web)
    _relay(sessions, duebook, service)
    service.move_to(WEDDING + 2 * DAY)
    assert _consume(sessions, service, list(reversed(_due(service)))) == Consumed(acted=1, ignored=1)
    assert _mails(sessions) == ["ask_review"]


def test_events_that_only_tell_are_ignored(
    web: FlaskClient, sessions: Sessions, duebook: Duebook, service: InProcessService
) -> None:
    _book(web)
    _relay(sessions, duebook, service)
    assert _consume(sessions, service, service.events()) == Consumed(ignored=2)


def test_an_event_of_a_booking_or_job_that_is_not_ours_is_ignored(
    web: FlaskClient, sessions: Sessions, duebook: Duebook, service: InProcessService
) -> None:
    booking_id = _book(web)
    duebook.put_job("elsewhere", "remind_guest", WEDDING)
    duebook.put_job(booking_id, "polish_silver", WEDDING, payload={"version": 1})
    service.move_to(WEDDING)
    assert _consume(sessions, service, _due(service)) == Consumed(ignored=2)


def test_an_event_whose_transaction_fails_stays_in_the_queue_and_is_dealt_with_next_time(
    web: FlaskClient, sessions: Sessions, duebook: Duebook, service: InProcessService
) -> None:
    _book(web)
    _relay(sessions, duebook, service)
    service.move_to(WEDDING - 2 * DAY)
    queue = Queue(*_due(service))
    reader = EventReader(None, "queue", sqs=queue)
    listen(sessions, "before_commit", _disk_is_full, once=True)
    assert consume_once(sessions, reader, lambda: service.now) == Consumed(failed=1)
    assert len(queue.messages) == 1
    assert _mails(sessions) == []
    assert consume_once(sessions, reader, lambda: service.now) == Consumed(acted=1)
    assert (len(queue.messages), _mails(sessions)) == (0, ["remind_guest"])


def test_two_consumers_with_the_same_event_in_hand_send_one_mail(
    web: FlaskClient, sessions: Sessions, duebook: Duebook, service: InProcessService
) -> None:
    _book(web)
    _relay(sessions, duebook, service)
    service.move_to(WEDDING - 2 * DAY)
    event = Event.from_eventbridge(_due(service)[0])
    with sessions() as slow:
        assert handle(slow, event, service.now).act
        with sessions.begin() as quick:
            assert handle(quick, event, service.now).act
        with pytest.raises(IntegrityError):
            slow.commit()
    assert _mails(sessions) == ["remind_guest"]


def _disk_is_full(*_: Any, **__: Any) -> None:
    raise OSError("disk is full")


# --- the web -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"guest": "ada@example.com", "event_start": "2026-11-14T18:00:00"}, 422),
        ({"guest": "ada@example.com", "event_start": "soon"}, 422),
        ({"guest": "ada@example.com"}, 422),
        ({"guest": 7, "event_start": "2026-11-14T18:00:00Z"}, 422),
        ([], 422),
        ({"guest": "ada@example.com", "event_start": "2026-07-01T18:00:00Z"}, 409),
    ],
)
def test_a_booking_that_cannot_be_is_refused(web: FlaskClient, sessions: Sessions, body: Any, status: int) -> None:
    answer = web.post("/bookings", json=body)
    assert (answer.status_code, list(answer.get_json())) == (status, ["error"])
    assert _rows(sessions) == []


def test_a_cancelled_booking_cannot_move_and_an_unknown_one_is_not_found(web: FlaskClient) -> None:
    booking_id = _book(web)
    _cancel(web, booking_id)
    assert web.post(f"/bookings/{booking_id}/move", json={"event_start": DECEMBER.isoformat()}).status_code == 409
    assert web.get("/bookings/none").status_code == 404


def test_two_changes_at_once_never_share_a_version(
    web: FlaskClient, sessions: Sessions, service: InProcessService
) -> None:
    booking_id = _book(web)
    with sessions() as slow:
        as_it_was = slow.get_one(Booking, booking_id)
        slow.commit()
        _cancel(web, booking_id)
        with pytest.raises(StaleDataError):
            bookings.move(slow, as_it_was, DECEMBER, service.now)
    assert [row.version for row in _rows(sessions)] == [1, 1, 2, 2]


def test_the_workers_are_commands_that_say_what_they_did(
    web: FlaskClient, duebook: Duebook, service: InProcessService, monkeypatch: pytest.MonkeyPatch
) -> None:
    _book(web)
    monkeypatch.setenv("DUEBOOK_EVENTS_QUEUE_URL", "queue")
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setattr("examples.flask.marketplace.app.duebook", lambda: duebook)
    commands = web.application.test_cli_runner()
    assert "sent=1, refused=0, waiting=0" in commands.invoke(args=["relay", "--limit", "1"]).output
    assert "sent=1, refused=0, waiting=0" in commands.invoke(args=["relay"]).output
    service.move_to(WEDDING - 2 * DAY)
    queue = Queue(*service.events())
    monkeypatch.setattr(
        "examples.flask.marketplace.app.EventReader", lambda *_, **__: EventReader(None, "queue", sqs=queue)
    )
    assert "acted=1, ignored=2, failed=0" in commands.invoke(args=["consume"]).output


@pytest.mark.parametrize(
    ("command", "missing"), [("relay", "DUEBOOK_API_URL"), ("consume", "DUEBOOK_EVENTS_QUEUE_URL")]
)
def test_a_worker_says_which_setting_it_misses(
    web: FlaskClient, monkeypatch: pytest.MonkeyPatch, command: str, missing: str
) -> None:
    monkeypatch.delenv(missing, raising=False)
    result = web.application.test_cli_runner().invoke(args=[command])
    assert result.exit_code == 1
    assert f"set {missing}" in result.output


def test_the_decision_is_made_from_values_alone() -> None:
    event = Event(
        id="b1:7",
        schema_version=1,
        type="job.due",
        booking_id="b1",
        version=7,
        at=WEDDING,
        due=WEDDING,
        job="ask_review",
        state=None,
        data={"payload": {"version": 3}},
    )
    booking = Booking(id="b1", guest="ada@example.com", event_start=WEDDING, state="booked", version=3)
    assert decide(event, booking, WEDDING + DAY).act
    assert not decide(event, None, WEDDING).act
