"""A wrong call is refused before anything is sent."""

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta, timezone
from typing import Any

import pytest

from duebook_client import Actor, BadArgument, Duebook, DuebookError, Local, Policy
from tests.unit.client.fakes import REGION, FixedSession, ScriptedTransport, answer, client

NAIVE = datetime(2026, 11, 14, 18)  # noqa: DTZ001
AWARE = datetime(2026, 11, 14, 18, tzinfo=UTC)
LOCAL = Local(NAIVE, "Europe/Berlin")
ME = Actor("operator")
LOOP: list[Any] = []
LOOP.append(LOOP)


def _booking(**changes: Any) -> Callable[[Duebook], Any]:
    given: dict[str, Any] = {
        "customer_id": "c-1",
        "chef_id": "ch-1",
        "event_start": LOCAL,
        "price_minor": 50_000,
        "currency": "EUR",
    }
    return lambda caller: caller.put_booking("b1", **{**given, **changes})


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda c: c.put_job("b1", "remind_guest", NAIVE), "run_at"),
        (lambda c: c.put_job("b1", "remind_guest", "2026-11-14T18:00:00Z"), "run_at"),
        (lambda c: c.put_job("b1", "remind_guest", time(9, tzinfo=UTC)), "run_at"),
        (lambda c: c.due(NAIVE, AWARE), "start"),
        (lambda c: c.due(AWARE, NAIVE), "end"),
        (_booking(event_start=NAIVE), "event_start"),
        (_booking(event_end=NAIVE), "event_end"),
        (_booking(requested_at=NAIVE), "requested_at"),
        (_booking(accepted_at=NAIVE), "accepted_at"),
        (_booking(paid_at=NAIVE), "paid_at"),
        (_booking(paid_at=LOCAL), "paid_at"),
        (lambda c: c.move("b1", event_start=NAIVE), "event_start"),
        (lambda c: c.pay("b1", captured_minor=1, charge_ref="ch_1", paid_at=NAIVE), "paid_at"),
    ],
)
def test_a_time_without_a_zone_is_refused(call: Callable[[Duebook], Any], field: str) -> None:
    _refused(call, field)


@pytest.mark.parametrize("payload", [float("nan"), float("inf"), {"a": [float("-inf")]}, {1, 2}, AWARE, b"x", LOOP])
def test_a_payload_that_is_no_json_is_refused(payload: Any) -> None:
    _refused(lambda c: c.put_job("b1", "remind_guest", AWARE, payload=payload), "body")


@pytest.mark.parametrize("amount", [500.0, True, "500", None])
def test_money_is_a_whole_number_of_minor_units(amount: Any) -> None:
    _refused(_booking(price_minor=amount), "price_minor")
    _refused(lambda c: c.pay("b1", captured_minor=amount, charge_ref="ch_1"), "captured_minor")
    if amount is not None:
        _refused(lambda c: c.cancel("b1", actor=ME, refund_minor=amount), "refund_minor")


@pytest.mark.parametrize("booking_id", ["", ".", "..", "a/b", "a b", "b1?x=1", "ü", "x" * 40, None, 17])
def test_an_id_that_could_leave_its_route_is_refused(booking_id: Any) -> None:
    _refused(lambda c: c.booking(booking_id), "booking_id")
    _refused(lambda c: c.put_job(booking_id, "remind_guest", AWARE), "booking_id")


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda c: c.put_job("b1", "Remind", AWARE), "job"),
        (lambda c: c.put_job("b1", "../b2", AWARE), "job"),
        (lambda c: c.put_job("b1", "remind_guest"), "run_at"),
        (lambda c: c.put_job("b1", "remind_guest", AWARE, anchor="event_start"), "run_at"),
        (lambda c: c.put_job("b1", "remind_guest", AWARE, offset=timedelta(1)), "offset"),
        (lambda c: c.put_job("b1", "remind_guest", anchor="event_end", offset=timedelta(milliseconds=1)), "offset"),
        (lambda c: c.put_job("b1", "remind_guest", anchor="event_end", offset=3600), "offset"),
        (lambda c: c.put_job("b1", "remind_guest", AWARE, revision=1.0), "revision"),
        (lambda c: c.delete_job("b1", "remind_guest", revision=True), "revision"),
        (lambda c: c.due(AWARE, AWARE), "end"),
        (lambda c: c.due(AWARE, AWARE + timedelta(days=31, seconds=1)), "end"),
        (lambda c: c.due(AWARE, AWARE + timedelta(1), job="no such job"), "job"),
        (lambda c: c.due(AWARE, AWARE + timedelta(1), page_size=0), "page_size"),
        (lambda c: c.history("b1", page_size=1.5), "page_size"),
        (lambda c: c.payment("b1"), "payment_id"),
        (lambda c: c.payment("b1.p0"), "payment_id"),
        (lambda c: c.call("GET", "bookings/b1"), "path"),
        (_booking(policy=Policy(pay_within=timedelta(milliseconds=1))), "policy.pay_within"),
    ],
)
def test_what_the_contract_forbids_is_refused(call: Callable[[Duebook], Any], field: str) -> None:
    _refused(call, field)


def test_a_window_is_refused_when_it_is_asked_for_not_when_it_is_read() -> None:
    with pytest.raises(BadArgument, match="31 days: split it"):
        client(ScriptedTransport(answer({}))).due(AWARE, AWARE + timedelta(days=32))


def test_the_window_is_measured_in_elapsed_time() -> None:
    west = timezone(timedelta(hours=-11))
    client(ScriptedTransport(answer({}))).due(AWARE, (AWARE + timedelta(days=31)).astimezone(west))


def test_a_local_time_has_no_offset_of_its_own() -> None:
    with pytest.raises(BadArgument, match="with a zone give none"):
        Local(AWARE, "Europe/Berlin")


@pytest.mark.parametrize(
    "url", ["", "api.example.com", "ftp://api.example.com", "https://", "https://a.example.com/?stage=1", "//x/y"]
)
def test_a_base_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(BadArgument, match="base_url"):
        Duebook(url, region=REGION, session=FixedSession())


def test_plain_http_is_for_this_machine_only() -> None:
    with pytest.raises(BadArgument, match="in the clear"):
        Duebook("http://api.example.com", region=REGION, session=FixedSession())
    Duebook("http://127.0.0.1:4566", region=REGION, session=FixedSession())
    Duebook("http://[::1]:4566", region=REGION, session=FixedSession())


def test_a_wrong_argument_is_also_a_value_error() -> None:
    assert issubclass(BadArgument, ValueError)
    assert issubclass(BadArgument, DuebookError)


def _refused(call: Callable[[Duebook], Any], field: str) -> None:
    transport = ScriptedTransport(answer({}))
    with pytest.raises(BadArgument) as raised:
        call(client(transport))
    assert raised.value.field == field
    assert transport.sent == []
