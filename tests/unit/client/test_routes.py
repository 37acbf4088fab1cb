"""Each method: the request it makes."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import pytest

from duebook_client import Actor, CancellationTier, Duebook, Local, Policy
from tests.unit.client.fakes import (
    BOOKING,
    DEAD_LETTER,
    HISTORY,
    JOB,
    PAYMENT,
    REPORT,
    ScriptedTransport,
    answer,
    body_of,
    client,
    query_of,
)

AT = datetime(2026, 11, 12, 10, tzinfo=ZoneInfo("Europe/Berlin"))
AT_TEXT = "2026-11-12T10:00:00+01:00"
WEDDING = Local(datetime(2026, 11, 14, 18), "Europe/Berlin")  # noqa: DTZ001
WEDDING_JSON = {"local": "2026-11-14T18:00:00", "zone": "Europe/Berlin"}
CHEF = Actor("chef", "ch-1")
CHEF_JSON = {"role": "chef", "id": "ch-1"}
CHANGE = {**JOB, "applied": True}
PAGE = {"cursor": None}
JOB_PATH = "/bookings/b1/jobs/remind_guest"
EXPLANATION: dict[str, Any] = {
    **{"booking_id": "b1", "job": "remind_guest", "at": "2026-11-12T09:00:00.000Z", "state": None, "row": None},
    **{"verdict": "absent", "reason": "nobody asked for such a job", "steps": [], "next": None},
}


@pytest.mark.parametrize(
    ("call", "given", "method", "path", "query", "body"),
    [
        (lambda c: c.put_job("b1", "remind_guest", AT), CHANGE, "PUT", JOB_PATH, {}, {"run_at": AT_TEXT}),
        (
            lambda c: c.put_job("b1", "remind_guest", WEDDING, payload=None, keep_on_cancel=True, revision=0),
            CHANGE,
            "PUT",
            JOB_PATH,
            {},
            {"run_at": WEDDING_JSON, "payload": None, "keep_on_cancel": True, "revision": 0},
        ),
        (
            lambda c: c.put_job("b1", "remind_guest", anchor="event_start", offset=timedelta(days=-2)),
            CHANGE,
            "PUT",
            JOB_PATH,
            {},
            {"anchor": "event_start", "offset": -172_800},
        ),
        (lambda c: c.delete_job("b1", "remind_guest"), CHANGE, "DELETE", JOB_PATH, {}, None),
        (lambda c: c.delete_job("b1", "remind_guest", revision=7), CHANGE, "DELETE", JOB_PATH, {"revision": "7"}, None),
        (lambda c: c.jobs("b1"), {"jobs": [JOB]}, "GET", "/bookings/b1/jobs", {}, None),
        (
            lambda c: list(c.due(AT, AT + timedelta(days=31), job="own", page_size=7)),
            {"jobs": [JOB], **PAGE},
            "GET",
            "/jobs",
            {"from": "2026-11-12T09:00:00Z", "to": "2026-12-13T09:00:00Z", "job": "own", "limit": "7"},
            None,
        ),
        (
            lambda c: c.put_booking(
                "b1", customer_id="c-1", chef_id="ch-1", event_start=WEDDING, price_minor=50_000, currency="EUR"
            ),
            BOOKING,
            "PUT",
            "/bookings/b1",
            {},
            {
                "customer_id": "c-1",
                "chef_id": "ch-1",
                "event_start": WEDDING_JSON,
                "price_minor": 50_000,
                "currency": "EUR",
            },
        ),
        (
            lambda c: c.put_booking(
                "b1",
                customer_id="c-1",
                chef_id="ch-1",
                event_start=AT,
                event_end=Local("2026-11-12T23:30:00", "Europe/Berlin", "later"),
                price_minor=0,
                currency="JPY",
                policy=Policy(
                    accept_within=timedelta(hours=1),
                    fee_bps=0,
                    cancellation=(CancellationTier(timedelta(days=7), 5_000),),
                ),
                revision=1,
                state="paid",
                requested_at=AT,
                accepted_at=AT,
                paid_at=AT,
                captured_minor=0,
                charge_ref="ch_1",
            ),
            BOOKING,
            "PUT",
            "/bookings/b1",
            {},
            {
                "customer_id": "c-1",
                "chef_id": "ch-1",
                "event_start": AT_TEXT,
                "event_end": {"local": "2026-11-12T23:30:00", "zone": "Europe/Berlin", "choose": "later"},
                "price_minor": 0,
                "currency": "JPY",
                "policy": {
                    "accept_within": 3_600,
                    "fee_bps": 0,
                    "cancellation": [{"before": 604_800, "refund_bps": 5_000}],
                },
                "revision": 1,
                "state": "paid",
                "requested_at": AT_TEXT,
                "accepted_at": AT_TEXT,
                "paid_at": AT_TEXT,
                "captured_minor": 0,
                "charge_ref": "ch_1",
            },
        ),
        (lambda c: c.booking("b1"), BOOKING, "GET", "/bookings/b1", {}, None),
        (lambda c: c.accept("b1"), BOOKING, "POST", "/bookings/b1/accept", {}, {}),
        (lambda c: c.accept("b1", actor=CHEF), BOOKING, "POST", "/bookings/b1/accept", {}, {"actor": CHEF_JSON}),
        (
            lambda c: c.decline("b1", actor=Actor("system"), reason="away"),
            BOOKING,
            "POST",
            "/bookings/b1/decline",
            {},
            {"actor": {"role": "system"}, "reason": "away"},
        ),
        (
            lambda c: c.pay("b1", captured_minor=50_000, charge_ref="ch_1", paid_at=AT),
            BOOKING,
            "POST",
            "/bookings/b1/pay",
            {},
            {"captured_minor": 50_000, "charge_ref": "ch_1", "paid_at": AT_TEXT},
        ),
        (
            lambda c: c.move("b1", event_start=WEDDING, event_end=AT, actor=CHEF, reason="snow"),
            BOOKING,
            "POST",
            "/bookings/b1/move",
            {},
            {"event_start": WEDDING_JSON, "event_end": AT_TEXT, "actor": CHEF_JSON, "reason": "snow"},
        ),
        (
            lambda c: c.cancel("b1", actor=CHEF, refund_minor=0, reason="ill"),
            BOOKING,
            "POST",
            "/bookings/b1/cancel",
            {},
            {"actor": CHEF_JSON, "refund_minor": 0, "reason": "ill"},
        ),
        (
            lambda c: list(c.history("b1")),
            {"history": [HISTORY], **PAGE},
            "GET",
            "/bookings/b1/history",
            {"limit": "100"},
            None,
        ),
        (lambda c: c.payments("b1"), {"payments": [PAYMENT]}, "GET", "/bookings/b1/payments", {}, None),
        (lambda c: c.payment("b1.p1"), PAYMENT, "GET", "/payments/b1.p1", {}, None),
        (
            lambda c: c.payment_result("b1.p1", status="done", provider_ref="tr_1"),
            PAYMENT,
            "POST",
            "/payments/b1.p1/result",
            {},
            {"status": "done", "provider_ref": "tr_1"},
        ),
        (
            lambda c: c.payment_result("b1.p1", status="failed", reason="closed", key="b1.p1.e2"),
            PAYMENT,
            "POST",
            "/payments/b1.p1/result",
            {},
            {"status": "failed", "reason": "closed", "key": "b1.p1.e2"},
        ),
        (
            lambda c: list(c.dead_letters(kind="needs_attention")),
            {"dead_letters": [DEAD_LETTER], **PAGE},
            "GET",
            "/dead-letters",
            {"kind": "needs_attention", "limit": "100"},
            None,
        ),
        (
            lambda c: c.redrive("b1", "remind_guest", actor=CHEF, reason="fixed"),
            JOB,
            "POST",
            f"{JOB_PATH}/redrive",
            {},
            {"actor": CHEF_JSON, "reason": "fixed"},
        ),
        (
            lambda c: c.release_payout("b1", actor=CHEF, reason="checked"),
            BOOKING,
            "POST",
            "/bookings/b1/release-payout",
            {},
            {"actor": CHEF_JSON, "reason": "checked"},
        ),
        (
            lambda c: c.jobs_summary(AT, AT + timedelta(days=366), job="pay"),
            {"days": [{"day": "2026-11-12", "job": "pay", "count": 2, "amounts": {"EUR": 5}}], "next": None},
            "GET",
            "/jobs/summary",
            {"from": "2026-11-12T09:00:00Z", "to": "2027-11-13T09:00:00Z", "job": "pay"},
            None,
        ),
        (lambda c: c.explain("b1", "remind_guest"), EXPLANATION, "GET", f"{JOB_PATH}/explain", {}, None),
        (lambda c: c.start_reconcile(), {"started": True, "run": "r-1"}, "POST", "/reconcile", {}, None),
        (lambda c: c.reconcile_report(), REPORT, "GET", "/reconcile", {}, None),
        (
            lambda c: c.call("POST", "/bookings/b1/disputes", query={"a": "x y&z"}, body={"n": 1.5}),
            {},
            "POST",
            "/bookings/b1/disputes",
            {"a": "x y&z"},
            {"n": 1.5},
        ),
    ],
)
def test_a_method_makes_the_request_of_its_route(
    call: Callable[[Duebook], Any], given: Any, method: str, path: str, query: dict[str, str], body: Any
) -> None:
    transport = ScriptedTransport(answer(given))
    call(client(transport))
    (sent,) = transport.sent
    assert (sent.method, urlsplit(sent.url).path, query_of(sent), body_of(sent)) == (method, path, query, body)
    assert ("Content-Type" in sent.headers) is (body is not None)
    assert ("Idempotency-Key" in sent.headers) is (method == "POST")


def test_an_api_behind_a_path_is_called_below_it() -> None:
    transport = ScriptedTransport(answer(BOOKING))
    client(transport, base_url="https://api.example.com/duebook/").booking("b1")
    assert transport.sent[0].url == "https://api.example.com/duebook/bookings/b1"


def test_leaving_the_with_block_closes_the_connections() -> None:
    transport = ScriptedTransport(answer(BOOKING))
    with client(transport) as caller:
        caller.booking("b1")
    assert transport.closed


def test_a_time_is_sent_with_its_own_offset_to_the_microsecond() -> None:
    transport = ScriptedTransport(answer(CHANGE))
    client(transport).put_job("b1", "remind_guest", datetime(2026, 7, 1, 9, 0, 0, 1, tzinfo=UTC))
    assert body_of(transport.sent[0]) == {"run_at": "2026-07-01T09:00:00.000001+00:00"}


CHEF_ANSWER: dict[str, Any] = {"chef_id": "ch-1", "account": "acct_1", "enabled": True, "held": False, "reason": None}
SWITCH: dict[str, Any] = {"paused": True, "reason": "audit"}
ENTRY: dict[str, Any] = {
    "version": 4, "at": "2026-11-16T00:00:00.000Z", "type": "booking.paid", "what": "decision", "currency": "EUR",
    "lines": {"cash": 100, "held": -100}, "payment_id": None, "provider_ref": None,
}  # fmt: skip
PARKED: dict[str, Any] = {
    "payment_id": "b1.p1", "booking_id": "b1", "kind": "payout", "amount_minor": 100, "currency": "EUR",
    "reason": "the chef is held", "parked_since": "2026-11-16T00:00:00.000Z", "next_attempt_at": None,
}  # fmt: skip
DAY = AT.date()
A_DAY = {"day": "2026-11-12"}


@pytest.mark.parametrize(
    ("call", "given", "method", "path", "query", "body"),
    [
        (lambda c: c.retry_payment("b1.p1", reason="new card"), PAYMENT, "POST", "/payments/b1.p1/retry", {},
         {"reason": "new card"}),
        (lambda c: list(c.ledger("b1")), {"entries": [ENTRY], **PAGE}, "GET", "/bookings/b1/ledger", {"limit": "100"},
         None),
        (lambda c: c.put_chef("ch-1", account="acct_1"), CHEF_ANSWER, "PUT", "/chefs/ch-1", {},
         {"account": "acct_1", "enabled": True}),
        (lambda c: c.chef("ch-1"), CHEF_ANSWER, "GET", "/chefs/ch-1", {}, None),
        (lambda c: c.hold_chef("ch-1", reason="x"), CHEF_ANSWER, "POST", "/chefs/ch-1/hold", {}, {"reason": "x"}),
        (lambda c: c.unhold_chef("ch-1"), CHEF_ANSWER, "POST", "/chefs/ch-1/unhold", {}, None),
        (lambda c: list(c.parked("ch-1")), {"parked": [PARKED], **PAGE}, "GET", "/chefs/ch-1/parked", {"limit": "100"},
         None),
        (lambda c: c.payouts(), SWITCH, "GET", "/payouts", {}, None),
        (lambda c: c.pause_payouts(reason="audit"), SWITCH, "POST", "/payouts/pause", {}, {"reason": "audit"}),
        (lambda c: c.resume_payouts(), SWITCH, "POST", "/payouts/resume", {}, None),
        (lambda c: c.trial_balance(DAY), {}, "GET", "/ledger/trial-balance", A_DAY, None),
        (lambda c: c.reconciliation(DAY), {}, "GET", "/ledger/reconciliation", A_DAY, None),
    ],
)  # fmt: skip
def test_a_method_about_money_makes_its_request(
    call: Callable[[Duebook], Any], given: dict[str, Any], method: str, path: str, query: dict[str, str], body: Any
) -> None:
    transport = ScriptedTransport(answer(given))
    call(client(transport))
    (sent,) = transport.sent
    assert (sent.method, urlsplit(sent.url).path, query_of(sent), body_of(sent)) == (method, path, query, body)
