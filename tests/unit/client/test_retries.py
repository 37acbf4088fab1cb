"""What is sent again, how often, and after how long."""

import pytest

from duebook_client import (
    BadArgument,
    Conflict,
    Duebook,
    DuebookApiError,
    Forbidden,
    Invalid,
    NoAnswer,
    NotFound,
    RetryPolicy,
    Throttled,
    Unavailable,
)
from duebook_client.retries import Again
from tests.unit.client.fakes import BOOKING, JOB, FixedSession, ScriptedTransport, Sleeps, answer, client, refusal

LOST = NoAnswer("connection reset")


@pytest.mark.parametrize(
    ("status", "code", "again"),
    [
        (None, "no_answer", True),
        (429, "throttled", True),
        (502, None, True),
        (503, "aws_failure", True),
        (504, None, True),
        (409, "version_conflict", True),
        (409, "illegal_transition", False),
        (409, "revision_conflict", False),
        (400, "malformed_json", False),
        (403, "forbidden", False),
        (404, "not_found", False),
        (413, "body_too_large", False),
        (422, "naive_time", False),
        (422, "version_conflict", False),
        (500, "internal_error", False),
        (301, None, False),
    ],
)
def test_what_may_pass_on_another_try_is_sent_again_and_nothing_else(
    status: int | None, code: str | None, again: bool
) -> None:
    decided = RetryPolicy().decide(attempt=1, repeatable=True, jitter=1.0, status=status, code=code)
    assert (decided is not None) is again


@pytest.mark.parametrize("status", [None, 429, 502, 503, 504])
def test_what_must_not_take_effect_twice_is_never_sent_again(status: int | None) -> None:
    assert RetryPolicy().decide(attempt=1, repeatable=False, jitter=1.0, status=status) is None


@pytest.mark.parametrize(
    ("attempt", "jitter", "retry_after", "wait"),
    [
        (1, 1.0, None, 0.2),
        (2, 1.0, None, 0.4),
        (3, 1.0, None, 0.8),
        (3, 0.25, None, 0.2),
        (1, 0.0, None, 0.0),
        (9, 1.0, None, 5.0),
        (9_999, 1.0, None, 5.0),
        (1, 1.0, 3.0, 3.0),
        (1, 1.0, 3_600.0, 5.0),
    ],
)
def test_waits_double_up_to_a_bound_and_honour_what_the_service_asks(
    attempt: int, jitter: float, retry_after: float | None, wait: float
) -> None:
    decided = RetryPolicy(attempts=10_000).decide(
        attempt=attempt, repeatable=True, jitter=jitter, status=503, retry_after=retry_after
    )
    assert decided == Again(wait, "status 503")


@pytest.mark.parametrize("failure", [LOST, refusal(429, "throttled"), refusal(503, "aws_failure")])
def test_a_read_is_sent_again_until_it_is_answered(failure: NoAnswer) -> None:
    transport, sleeps = ScriptedTransport(failure, failure, answer(BOOKING)), Sleeps()
    assert client(transport, sleep=sleeps).booking("b1").booking_id == "b1"
    assert len(transport.sent) == 3
    assert sleeps.seconds == [0.2, 0.4]


@pytest.mark.parametrize(
    ("failure", "kind", "status"),
    [
        (LOST, Unavailable, None),
        (refusal(429, "throttled"), Throttled, 429),
        (refusal(504, "timeout"), Unavailable, 504),
        (refusal(409, "version_conflict"), Conflict, 409),
    ],
)
def test_it_gives_up_after_four_sends_and_says_so(
    failure: NoAnswer, kind: type[DuebookApiError], status: int | None
) -> None:
    transport, sleeps = ScriptedTransport(failure), Sleeps()
    with pytest.raises(kind) as raised:
        client(transport, sleep=sleeps).booking("b1")
    assert (raised.value.status, raised.value.attempts) == (status, 4)
    assert (len(transport.sent), len(sleeps.seconds)) == (4, 3)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Invalid),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (413, Invalid),
        (422, Invalid),
        (500, Unavailable),
        (302, DuebookApiError),
    ],
)
def test_a_refusal_is_raised_at_once(status: int, kind: type[DuebookApiError]) -> None:
    transport, sleeps = ScriptedTransport(refusal(status, "no")), Sleeps()
    with pytest.raises(kind) as raised:
        client(transport, sleep=sleeps).accept("b1")
    assert (raised.value.attempts, len(transport.sent), sleeps.seconds) == (1, 1, [])


def test_a_command_that_is_sent_again_keeps_its_idempotency_key_and_body() -> None:
    transport = ScriptedTransport(LOST, refusal(502, "bad"), answer(BOOKING))
    client(transport).accept("b1")
    assert {sent.headers["Idempotency-Key"] for sent in transport.sent} == {"key-1"}
    assert {sent.body for sent in transport.sent} == {b"{}"}


def test_each_command_has_a_key_of_its_own() -> None:
    transport = ScriptedTransport(answer(BOOKING))
    caller = client(transport)
    caller.accept("b1")
    caller.accept("b1")
    assert [sent.headers["Idempotency-Key"] for sent in transport.sent] == ["key-1", "key-2"]


def test_the_callers_key_is_used() -> None:
    transport = ScriptedTransport(answer(BOOKING))
    client(transport).accept("b1", idempotency_key="order-17:accept")
    assert transport.sent[0].headers["Idempotency-Key"] == "order-17:accept"


@pytest.mark.parametrize("key", ["", "with space", "line\nbreak", "x" * 129, "ümlaut"])
def test_a_key_that_the_service_would_refuse_is_not_sent(key: str) -> None:
    transport = ScriptedTransport(answer(BOOKING))
    with pytest.raises(BadArgument, match="idempotency_key"):
        client(transport).accept("b1", idempotency_key=key)
    assert transport.sent == []


def test_puts_and_deletes_are_sent_again_without_a_key() -> None:
    transport = ScriptedTransport(LOST, answer({**JOB, "applied": True}))
    client(transport).delete_job("b1", "remind_guest")
    assert len(transport.sent) == 2
    assert "Idempotency-Key" not in transport.sent[0].headers


def test_keys_made_by_the_client_itself_are_fresh_and_well_formed() -> None:
    transport = ScriptedTransport(answer(BOOKING))
    caller = Duebook("https://api.example.com", region="eu-central-1", session=FixedSession(), transport=transport)
    caller.accept("b1")
    caller.accept("b1")
    first, second = (sent.headers["Idempotency-Key"] for sent in transport.sent)
    assert first != second
    assert len(first) == 32


def test_a_wait_asked_for_by_the_service_is_kept_and_a_date_ignored() -> None:
    transport, sleeps = (
        ScriptedTransport(
            answer({}, 429, **{"retry-after": "2"}),
            answer({}, 503, **{"retry-after": "Tue, 01 Dec 2026 00:00:00 GMT"}),
            answer(BOOKING),
        ),
        Sleeps(),
    )
    client(transport, sleep=sleeps).booking("b1")
    assert sleeps.seconds == [2.0, 0.4]
