"""What goes wrong is told in plain words, with what to do, and with a status that says the same."""

from dataclasses import replace
from typing import Any

import pytest
from botocore.credentials import Credentials

from duebook_cli.connect import Connection
from duebook_client import Duebook, NoAnswer, Response
from duebook_client.transport import Transport
from tests.unit.client.fakes import REGION, URL, FixedSession, ScriptedTransport
from tests.unit.console.conftest import Browser, SessionStub

PLAIN = ScriptedTransport
WHOLE = "/bookings/b1/jobs/close_event"


def answers(status: int, code: str, message: str = "the service's own words") -> ScriptedTransport:
    body = f'{{"error":{{"code":"{code}","message":"{message}"}}}}'
    return ScriptedTransport(Response(status, {}, body.encode()))


def browser_of(connection: Connection, transport: Transport, credentials: Any = None) -> Browser:
    client = Duebook(
        URL,
        region=REGION,
        session=FixedSession() if credentials is None else FixedSession(*credentials),
        transport=transport,
        sleep=lambda _: None,
    )
    return Browser(replace(connection, client=client))


@pytest.mark.parametrize(
    ("transport", "status", "words"),
    [
        (answers(404, "not_found"), 404, "There is no such thing here"),
        (answers(409, "illegal_transition"), 409, "It was refused, and nothing was changed"),
        (answers(422, "bad"), 400, "This was not understood"),
        (answers(429, "throttled"), 503, "Too many calls at once"),
        (answers(500, "internal_error"), 502, "Duebook did not answer, or failed"),
        (PLAIN(NoAnswer("connection refused")), 502, "Duebook did not answer, or failed"),
        (PLAIN(Response(200, {}, b"<html>")), 502, "Console and service are of different versions"),
    ],
    ids=["missing", "conflict", "invalid", "throttled", "failed", "silent", "another shape"],
)
def test_each_kind_of_failure_has_its_words(
    connection: Connection, transport: ScriptedTransport, status: int, words: str
) -> None:
    page = browser_of(connection, transport).get(WHOLE)
    assert page.status_code == status
    assert words in page.text


def test_expired_credentials_are_told_from_missing_rights_by_asking_aws(
    connection: Connection, session: SessionStub
) -> None:
    refusing = ScriptedTransport(Response(403, {}, b'{"message":"Forbidden"}'))
    page = browser_of(connection, refusing).get(WHOLE)
    assert page.status_code == 403
    assert "These credentials may not do this" in page.text
    assert "You are arn:aws:sts::123456789012:assumed-role/operators/ada" in page.text
    assert "OperationsPolicyArn" in page.text
    session.refusal = "ExpiredToken"
    page = browser_of(connection, refusing).get(WHOLE)
    assert page.status_code == 401
    assert "have expired" in page.text
    assert "aws sso login" in page.text


def test_without_credentials_it_says_how_to_sign_in(connection: Connection) -> None:
    page = browser_of(connection, answers(200, "never_sent"), credentials=(None,)).get(WHOLE)
    assert page.status_code == 401
    assert "Sign in again" in page.text


def test_one_part_that_fails_leaves_the_others(connection: Connection) -> None:
    page = browser_of(connection, answers(500, "internal_error")).get("/due")
    assert page.status_code == 200
    assert page.text.count("Duebook did not answer, or failed") == 3
    assert "<h1>Due</h1>" in page.text


def test_an_action_that_fails_is_told_where_it_was_asked_for(connection: Connection) -> None:
    page = browser_of(connection, answers(409, "already_done")).post(f"{WHOLE}/redrive", reason="again")
    assert "It was refused, and nothing was changed" in page.text


def test_a_clock_that_is_gone_is_told_and_the_page_still_opens(connection: Connection) -> None:
    class Gone:
        travels = True

        def now(self) -> Any:
            raise ConnectionRefusedError("nobody there")

        upcoming = now

    page = Browser(replace(connection, clock=Gone())).get("/bookings")  # type: ignore[arg-type]
    assert page.status_code == 200
    assert "The embedded AWS does not answer" in page.text


def test_a_failure_of_the_console_itself_shows_nothing_of_its_inside(connection: Connection) -> None:
    class Broken:
        def send(self, request: Any) -> Response:
            raise ZeroDivisionError("secret inside")

        def close(self) -> None: ...

    page = browser_of(connection, Broken(), (Credentials("a", "b"),)).get(WHOLE)
    assert page.status_code == 500
    assert "secret inside" not in page.text
