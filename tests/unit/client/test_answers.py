"""What answers become."""

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duebook_client import (
    Actor,
    BadAnswer,
    CancellationTier,
    Cause,
    Conflict,
    Duebook,
    DuebookApiError,
    Forbidden,
    Invalid,
    Moment,
    NotManaged,
    Response,
    Unavailable,
)
from tests.unit.client.fakes import (
    BOOKING,
    DEAD_LETTER,
    HISTORY,
    JOB,
    PAYMENT,
    REPORT,
    ScriptedTransport,
    answer,
    client,
    refusal,
)


def _answered(given: Any) -> Duebook:
    return client(ScriptedTransport(answer(given)))


def test_a_booking_is_read_with_instants_money_and_durations() -> None:
    booking = _answered({**BOOKING, "payments": [PAYMENT], "accepted_at": "2026-08-02T10:00:00.000Z"}).booking("b1")
    assert booking.state == "requested"
    assert booking.event_start == Moment(datetime(2026, 11, 14, 17, tzinfo=UTC), "2026-11-14T18:00:00", "Europe/Berlin")
    assert booking.accepted_at == datetime(2026, 8, 2, 10, tzinfo=UTC)
    assert booking.paid_at is None
    assert booking.price_minor == 50_000
    assert booking.policy.pay_within == timedelta(hours=12)
    assert booking.policy.cancellation == (CancellationTier(timedelta(days=7), 5_000),)
    assert [payment.amount_minor for payment in booking.payments] == [45_000]
    assert booking.applied is True


def test_a_policy_that_was_read_can_be_given_again() -> None:
    assert _answered(BOOKING).booking("b1").policy.as_json() == BOOKING["policy"]


def test_a_history_entry_tells_its_cause_and_actor() -> None:
    (entry,) = _answered({"history": [HISTORY], "cursor": None}).history("b1")
    assert (entry.cause, entry.actor) == (Cause("api"), Actor("customer", "c-1"))
    assert entry.data == {"price": 50_000}


def test_an_entry_without_cause_or_actor_is_read() -> None:
    (entry,) = _answered({"history": [{**HISTORY, "cause": None, "actor": None}], "cursor": None}).history("b1")
    assert (entry.cause, entry.actor) == (None, None)


def test_a_change_tells_the_job_as_it_is_now() -> None:
    change = _answered({**JOB, "applied": False}).put_job("b1", "remind_guest", datetime(2026, 11, 12, tzinfo=UTC))
    assert change.applied is False
    assert change.current is not None
    assert change.current.run_at == datetime(2026, 11, 12, 9, tzinfo=UTC)


def test_a_stale_change_of_a_job_that_is_gone_has_no_current_job() -> None:
    gone = {**dict.fromkeys(JOB), "booking_id": "b1", "job": "remind_guest", "applied": False}
    assert _answered(gone).put_job("b1", "remind_guest", datetime(2026, 11, 12, tzinfo=UTC)).current is None


def test_a_dead_letter_that_nobody_could_read_has_no_booking() -> None:
    poison = {**dict.fromkeys(DEAD_LETTER), "kind": "needs_attention", "message_id": "m-1"}
    (letter,) = _answered({"dead_letters": [poison], "cursor": None}).dead_letters()
    assert (letter.booking_id, letter.raw["message_id"]) == (None, "m-1")


def test_a_report_says_when_it_is_done() -> None:
    assert not _answered(REPORT).reconcile_report().is_done
    assert _answered({**REPORT, "status": "done"}).reconcile_report().is_done


def test_an_id_that_only_holds_own_jobs_has_no_lifecycle() -> None:
    with pytest.raises(NotManaged) as raised:
        _answered({"booking_id": "b1", "version": 1, "state": None}).booking("b1")
    assert raised.value.code == "not_managed"


READS: list[tuple[Callable[[Duebook], Any], dict[str, Any]]] = [
    (lambda c: c.booking("b1"), BOOKING),
    (lambda c: c.payment("b1.p1"), PAYMENT),
    (lambda c: c.redrive("b1", "remind_guest"), JOB),
    (lambda c: c.delete_job("b1", "remind_guest"), {**JOB, "applied": True}),
    (lambda c: c.start_reconcile(), {"started": True, "run": None}),
    (lambda c: c.reconcile_report(), REPORT),
]


@pytest.mark.parametrize(("call", "given"), READS)
def test_a_field_of_a_newer_service_is_ignored_and_kept_in_raw(
    call: Callable[[Duebook], Any], given: dict[str, Any]
) -> None:
    newer = {**given, "mood": {"of": "the day"}}
    assert call(_answered(newer)) == call(_answered(given))
    assert call(_answered(newer)).raw == newer


@pytest.mark.parametrize(("call", "given"), READS)
def test_an_answer_is_frozen_and_becomes_a_dict(call: Callable[[Duebook], Any], given: dict[str, Any]) -> None:
    value = call(_answered(given))
    assert dataclasses.asdict(value)["raw"] == given
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.raw = {}


def test_a_state_of_a_newer_service_is_told_as_it_is() -> None:
    assert _answered({**BOOKING, "state": "postponed"}).booking("b1").state == "postponed"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"price_minor": 500.0}, "price_minor is not a whole number: 500.0"),
        ({"price_minor": True}, "price_minor is not a whole number"),
        ({"customer_id": None}, "lacks customer_id"),
        ({"customer_id": 7}, "customer_id is not text"),
        ({"requested_at": "soon"}, "requested_at is not an ISO 8601 time"),
        ({"requested_at": "2026-08-01T10:00:00"}, "requested_at is not a time with offset"),
        ({"event_start": None}, "lacks event_start"),
        ({"event_start": "2026"}, "event_start is no JSON object"),
        ({"payments": {}}, "payments is not a list"),
        ({"payments": [{**PAYMENT, "amount_minor": 1.5}]}, "payments[0].amount_minor is not a whole number"),
        ({"applied": "yes"}, "applied is not true or false"),
    ],
)
def test_an_answer_that_breaks_the_contract_is_told_by_field(change: dict[str, Any], told: str) -> None:
    with pytest.raises(BadAnswer) as raised:
        _answered({**BOOKING, **change}).booking("b1")
    assert told in str(raised.value)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"7", b"\xff\xfe"])
def test_an_answer_that_is_no_json_object_is_told(body: bytes) -> None:
    with pytest.raises(BadAnswer, match="GET /bookings/b1"):
        client(ScriptedTransport(Response(200, {}, body))).booking("b1")


def test_a_refusal_tells_code_field_and_state() -> None:
    with pytest.raises(Conflict) as raised:
        client(ScriptedTransport(refusal(409, "illegal_transition", field="event_start", state="paid"))).accept("b1")
    error = raised.value
    assert (error.status, error.code, error.field, error.state) == (409, "illegal_transition", "event_start", "paid")
    assert str(error) == "it is illegal_transition (409 illegal_transition, field event_start, state paid)"


@pytest.mark.parametrize(
    ("response", "kind", "code", "message"),
    [
        (answer({"message": "Forbidden"}, 403), Forbidden, "forbidden", "Forbidden"),
        (answer({"message": "Internal Server Error"}, 500), Unavailable, "unavailable", "Internal Server Error"),
        (Response(413, {}, b""), Invalid, "invalid", "GET /bookings/b1 was answered 413"),
        (Response(405, {}, b"<html>"), DuebookApiError, "unexpected_status", "GET /bookings/b1 was answered 405"),
        (answer({"error": "no"}, 400), Invalid, "invalid", "GET /bookings/b1 was answered 400"),
        (answer({"error": {"code": 7}}, 400), Invalid, "invalid", "GET /bookings/b1 was answered 400"),
    ],
)
def test_an_error_of_the_gateway_or_a_proxy_is_told_by_its_status(
    response: Response, kind: type[DuebookApiError], code: str, message: str
) -> None:
    with pytest.raises(kind) as raised:
        client(ScriptedTransport(response)).booking("b1")
    assert (raised.value.code, raised.value.message) == (code, message)
