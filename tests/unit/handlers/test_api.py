"""The HTTP API over real API Gateway events: what it answers, and every error with its status, code and field."""

import base64
import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from duebook import wiring
from duebook.domain.errors import AwsFailure, Contention, Throttled
from duebook.handlers.api import models
from duebook.handlers.api.body import DEEPEST
from tests.unit.builders import AUGUST, DAY, END, HOUR, RELEASE, START
from tests.unit.handlers.api_events import call
from tests.unit.world import PAID, WEDDING, World

AT = {"run_at": "2026-11-14T18:00:00Z"}
BERLIN = {"zone": "Europe/Berlin"}
WINDOW = {"from": "2026-11-01T00:00:00Z", "to": "2026-11-30T00:00:00Z"}


def nested(levels: int) -> str:
    """A job's body whose payload is so many lists in each other."""
    return '{"run_at":"2026-11-14T18:00:00Z","payload":' + "[" * levels + "]" * levels + "}"


# --- what it answers -----------------------------------------------------------------------------------------------


def test_a_booking_from_its_request_to_its_payout(world: World) -> None:
    made = call("PUT", "/bookings/b1", WEDDING)
    assert made.status == 200
    assert made.body["applied"] is True
    assert made.body["event_start"] == {
        "instant": "2026-11-14T17:00:00.000Z",
        "local": "2026-11-14T18:00:00",
        "zone": "+01:00",
    }
    assert call("PUT", "/bookings/b1", WEDDING).body["applied"] is False
    assert call("POST", "/bookings/b1/accept", {"actor": {"role": "chef", "id": "ch-1"}}).body["state"] == "accepted"
    assert call("POST", "/bookings/b1/pay", PAID).body["state"] == "paid"
    jobs = call("GET", "/bookings/b1/jobs").body["jobs"]
    assert [(job["job"], job["status"], job["lane"], job["attempts"]) for job in jobs] == [
        ("close_event", "pending", "lifecycle", 0),
        ("complete_order", "pending", "lifecycle", 0),
        ("release_payment", "pending", "lifecycle", 0),
    ]
    world.travel_to(RELEASE + HOUR)
    shown = call("GET", "/bookings/b1").body
    assert (shown["state"], shown["paid_out_minor"], shown["fee_minor"]) == ("paid_out", 90_000, 10_000)
    (payment,) = shown["payments"]
    assert payment == call("GET", "/payments/b1.p1").body
    assert payment == call("GET", "/bookings/b1/payments").body["payments"][0]
    assert (payment["status"], payment["idempotency_key"], payment["amount_minor"]) == ("done", "b1.p1.e1", 90_000)
    history = call("GET", "/bookings/b1/history").body["history"]
    assert [entry["type"] for entry in history][:3] == ["booking.requested", "booking.accepted", "booking.paid"]
    assert history[1]["actor"] == {"role": "chef", "id": "ch-1"}
    assert all(entry["published_at"] for entry in history)


def test_local_time_and_zone_come_back_as_they_were_given(world: World) -> None:
    given = {"event_start": {"local": "2026-10-25T02:30:00", **BERLIN, "choose": "later"}, "event_end": None}
    shown = call("PUT", "/bookings/b1", WEDDING | given).body
    assert shown["event_start"] == {
        "instant": "2026-10-25T01:30:00.000Z",
        "local": "2026-10-25T02:30:00",
        "zone": "Europe/Berlin",
    }
    assert shown["event_end"]["local"] == "2026-10-25T06:30:00"


def test_a_job_of_any_id_is_made_moved_and_removed(world: World) -> None:
    assert call("PUT", "/bookings/order-7/jobs/remind", AT | {"payload": {"n": 1}}).body == {
        "booking_id": "order-7",
        "job": "remind",
        "run_at": "2026-11-14T18:00:00.000Z",
        "wake_at": "2026-11-14T18:00:00.000Z",
        "status": "pending",
        "attempts": 0,
        "generation": 1,
        "lane": "lifecycle",
        "reason": None,
        "applied": True,
    }
    moved = call("PUT", "/bookings/order-7/jobs/remind", {"run_at": {"local": "2026-12-01T09:00:00", **BERLIN}})
    assert (moved.body["run_at"], moved.body["generation"]) == ("2026-12-01T08:00:00.000Z", 2)
    assert call("DELETE", "/bookings/order-7/jobs/remind").body == {
        "booking_id": "order-7",
        "job": "remind",
        "applied": True,
    }
    assert call("DELETE", "/bookings/order-7/jobs/remind").body["applied"] is False
    assert call("GET", "/bookings/order-7/jobs").body == {"jobs": []}


def test_an_older_revision_is_ignored_and_answers_200(world: World) -> None:
    call("PUT", "/bookings/b1/jobs/remind", AT | {"revision": 5})
    later = {"run_at": "2026-11-15T18:00:00Z", "revision": 4}
    answer = call("PUT", "/bookings/b1/jobs/remind", later)
    assert (answer.status, answer.body["applied"], answer.body["run_at"]) == (200, False, "2026-11-14T18:00:00.000Z")
    assert call("DELETE", "/bookings/b1/jobs/remind", query={"revision": "4"}).body["applied"] is False
    assert call("DELETE", "/bookings/b1/jobs/remind", query={"revision": "6"}).body["applied"] is True


def test_pending_work_of_a_window_is_listed_and_paged(world: World) -> None:
    for number in range(4):
        world.paid(f"b{number}")
    first = call("GET", "/jobs", query=WINDOW | {"job": "close_event", "limit": "3"}).body
    rest = call("GET", "/jobs", query=WINDOW | {"job": "close_event", "limit": "3", "cursor": first["cursor"]}).body
    assert [job["booking_id"] for job in first["jobs"] + rest["jobs"]] == ["b0", "b1", "b2", "b3"]
    assert rest["cursor"] is None


def test_a_summary_counts_pending_work_by_day_and_job(world: World) -> None:
    for number in range(4):
        world.paid(f"b{number}")
    assert call("GET", "/jobs/summary", query=WINDOW | {"job": "close_event"}).body == {
        "from": "2026-11-01T00:00:00.000Z",
        "to": "2026-11-30T00:00:00.000Z",
        "days": [{"day": "2026-11-14", "job": "close_event", "count": 4, "amounts": {}}],
        "complete": True,
        "next": None,
    }
    payouts = call("GET", "/jobs/summary", query=WINDOW | {"job": "release_payment"}).body["days"]
    assert payouts == [{"day": "2026-11-16", "job": "release_payment", "count": 4, "amounts": {"EUR": 4 * 90_000}}]
    assert call("GET", "/jobs/summary", query=WINDOW | {"cursor": "x"}).error == ("bad_cursor", "cursor")


def test_an_explanation_shows_the_row_the_steps_and_the_next_job(world: World) -> None:
    world.paid()
    world.now = END
    assert call("GET", "/bookings/b1/jobs/close_event/explain").body == {
        "booking_id": "b1",
        "job": "close_event",
        "at": "2026-11-14T21:00:00.000Z",
        "state": "paid",
        "row": call("GET", "/bookings/b1/jobs").body["jobs"][0],
        "verdict": "acts",
        "reason": "it is due since 2026-11-14T21:00:00.000Z: the event has ended",
        "steps": [{"type": "booking.event_closed", "reason": "the event has ended", "at": "2026-11-14T21:00:00.000Z"}],
        "next": {"job": "complete_order", "run_at": "2026-11-15T00:00:00.000Z"},
    }
    absent = call("GET", "/bookings/b1/jobs/survey/explain").body
    assert (absent["verdict"], absent["row"], len(absent["steps"])) == ("absent", None, 1)
    assert call("GET", "/bookings/b2/jobs/survey/explain").error == ("not_found", None)


def test_stripe_s_payments_are_answered_by_stripe_and_not_by_this_route(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kind: the API asked for the provider itself, whose key it is not told, and answered 500."""
    world.paid()
    world.travel_to(RELEASE + HOUR)
    monkeypatch.undo()
    monkeypatch.setenv("PAYMENTS", "stripe")
    monkeypatch.setattr(wiring, "bookings", lambda: world.bookings)
    answer = call("POST", "/payments/b1.p1/result", {"status": "done", "provider_ref": "tr_1"})
    assert (answer.status, answer.error[0]) == (409, "answered_by_provider")


def test_the_idempotency_key_is_taken_from_its_header_in_any_case(world: World) -> None:
    call("PUT", "/bookings/b1", WEDDING)
    for name in ("Idempotency-Key", "idempotency-key"):
        assert call("POST", "/bookings/b1/accept", {}, headers={name: "k-1"}).status == 200
    assert call("GET", "/bookings/b1/history").body["history"][-1]["idempotency_key"] == "k-1"
    assert call("POST", "/bookings/b1/decline", {}, headers={"Idempotency-Key": "k-1"}).error == (
        "idempotency_key_reused",
        "Idempotency-Key",
    )


def test_a_body_is_worded_without_what_it_holds() -> None:
    """The router words each route's arguments for its debug log, on or off."""
    body = models.ReplyIn.model_validate(
        {"answer": "contest", "text": "I was there", "actor": {"role": "chef", "id": "ch-1"}}
    )
    assert repr({"body": body}) == "{'body': ReplyIn(...)}"


def test_a_body_in_base64_is_the_same_body(world: World) -> None:
    text = base64.b64encode(json.dumps(WEDDING).encode()).decode()
    assert call("PUT", "/bookings/b1", text, base64=True).status == 200


def test_a_dead_job_is_listed_with_its_reason_and_redriven(world: World) -> None:
    world.put_job("menu", run_at=END)
    world.queues.lanes["lifecycle"].send("poison")
    world.travel_to(AUGUST + HOUR)
    (poison,) = call("GET", "/dead-letters").body["dead_letters"]
    assert poison["kind"] == "dead"
    assert poison["message_id"] == "lifecycle-1"
    assert poison["reason"].startswith("not a wake-up")
    redriven = call("POST", "/bookings/b1/jobs/menu/redrive", {"reason": "looked at it"})
    assert (redriven.status, redriven.body["generation"]) == (200, 2)


def test_the_marketplace_answers_a_payment_it_was_asked_for(world: World) -> None:
    world.use_external_payments()
    world.paid()
    world.travel_to(RELEASE)
    answer = call("POST", "/payments/b1.p1/result", {"status": "done", "provider_ref": "tr_1"})
    assert (answer.body["status"], answer.body["applied"]) == ("done", True)
    assert call("POST", "/payments/b1.p1/result", {"status": "failed", "reason": "no"}).error[0] == "already_answered"


def test_a_reconcile_run_is_started_by_an_invocation_and_told_of(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call("GET", "/reconcile").status == 404
    monkeypatch.setenv("RECONCILER_FUNCTION", "reconciler")
    assert call("POST", "/reconcile").body == {"started": True, "run": "req-1"}
    (invoked,) = world.functions.invoked
    assert (invoked["FunctionName"], invoked["InvocationType"]) == ("reconciler", "Event")
    world.functions.invoked.clear()
    world.reconcile()
    report = call("GET", "/reconcile").body
    assert (report["status"], report["differences"], report["examples"]) == ("done", 0, [])
    assert "after" not in report


# --- errors of shape -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ('{"a":', 400, "malformed_json"),
        ("{'a': 1}", 400, "malformed_json"),
        ("\ufeff{}", 400, "malformed_json"),
        ('{"price_minor": NaN}', 400, "malformed_json"),
        ('{"price_minor": -Infinity}', 400, "malformed_json"),
        ('{"price_minor": 1e999}', 400, "malformed_json"),
        ('{"price_minor": ' + "9" * 5_000 + "}", 400, "malformed_json"),
        ("null", 422, "missing"),
        ("[]", 422, "model_attributes_type"),
        ('"text"', 422, "model_attributes_type"),
        ("[" * 30_000, 422, "nested_too_deeply"),
        ("[" * 500 + "]" * 500, 422, "nested_too_deeply"),
        ('{"customer_id": "' + "x" * 66_000 + '"}', 413, "body_too_large"),
        ('{"customer_id": "' + "ä" * 33_000 + '"}', 413, "body_too_large"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_body_that_is_no_request_is_refused_as_a_whole(world: World, body: str, status: int, code: str) -> None:
    answer = call("PUT", "/bookings/b1", body)
    assert (answer.status, answer.error) == (status, (code, "body"))
    assert len(world.table.stream) == 0


@pytest.mark.parametrize("body", ["", None])
def test_a_request_without_a_body_is_one_with_an_empty_object(world: World, body: str | None) -> None:
    answer = call("PUT", "/bookings/b1", body)
    assert (answer.status, answer.error) == (422, ("missing", "customer_id"))
    world.paid("b1")
    assert call("POST", "/bookings/b1/accept", body).status == 200


@pytest.mark.parametrize("body", ["!!!", "/w==", "e30"])
def test_a_body_that_is_no_base64_or_no_text_is_refused(world: World, body: str) -> None:
    answer = call("PUT", "/bookings/b1", body, base64=True)
    assert (answer.status, answer.error) == (400, ("malformed_json", "body"))


BAD_BOOKINGS: list[tuple[dict[str, Any], str, str]] = [
    ({"shiny": 1}, "extra_forbidden", "shiny"),
    ({"policy": {"shiny": 1}}, "extra_forbidden", "policy.shiny"),
    ({"price_minor": 1.0}, "int_type", "price_minor"),
    ({"price_minor": -1}, "greater_than_equal", "price_minor"),
    ({"price_minor": True}, "int_type", "price_minor"),
    ({"price_minor": "100"}, "int_type", "price_minor"),
    ({"price_minor": None}, "int_type", "price_minor"),
    ({"price_minor": 10**15 + 1}, "less_than_equal", "price_minor"),
    ({"currency": "ABC"}, "value_error", "currency"),
    ({"currency": "XXX"}, "value_error", "currency"),
    ({"currency": "eur"}, "string_pattern_mismatch", "currency"),
    ({"currency": 978}, "string_type", "currency"),
    ({"customer_id": "a b"}, "string_pattern_mismatch", "customer_id"),
    ({"customer_id": "a\n"}, "string_pattern_mismatch", "customer_id"),
    ({"customer_id": ""}, "string_pattern_mismatch", "customer_id"),
    ({"customer_id": "x" * 65}, "string_pattern_mismatch", "customer_id"),
    ({"customer_id": "\ud800"}, "string_unicode", "customer_id"),
    ({"chef_id": 7}, "string_type", "chef_id"),
    ({"event_start": "2026-11-14T18:00:00"}, "naive_time", "event_start"),
    ({"event_start": "soon"}, "not_a_time", "event_start"),
    ({"event_start": 1_794_000_000}, "string_type", "event_start"),
    ({"event_start": {"local": "2026-11-14T18:00:00"}}, "missing", "event_start.zone"),
    ({"event_start": {"local": "2026-11-14T18:00:00", "zone": "Mars/Base"}}, "unknown_zone", "event_start.zone"),
    ({"event_start": {"local": "2026-11-14T18:00:00Z", **BERLIN}}, "offset_and_zone", "event_start.local"),
    ({"event_start": {"local": "2027-03-28T02:30:00", **BERLIN}}, "inside_dst_gap", "event_start"),
    ({"event_start": {"local": "2026-10-25T02:30:00", **BERLIN}}, "inside_dst_overlap", "event_start"),
    (
        {"event_start": {"local": "2026-10-25T02:30:00", **BERLIN, "choose": "both"}},
        "literal_error",
        "event_start.choose",
    ),
    ({"event_start": "2026-08-01T10:00:00Z"}, "past_event", "event_start"),
    ({"event_start": "9999-12-31T23:59:59Z", "event_end": None}, "out_of_range", "event_start"),
    ({"event_end": "2026-11-14T18:00:00+01:00"}, "end_before_start", "event_end"),
    ({"event_end": "2031-08-06T00:00:00Z"}, "beyond_horizon", "event_end"),
    ({"policy": {"fee_bps": 10_001}}, "less_than_equal", "policy.fee_bps"),
    ({"policy": {"fee_bps": 0.5}}, "int_type", "policy.fee_bps"),
    ({"policy": {"accept_within": -1}}, "greater_than_equal", "policy.accept_within"),
    ({"policy": {"accept_within": 31_622_401}}, "bad_policy", "policy.accept_within"),
    ({"policy": {"accept_within": 10**40}}, "less_than_equal", "policy.accept_within"),
    ({"policy": {"cancellation": [{"before": 1}]}}, "missing", "policy.cancellation.0.refund_bps"),
    (
        {"policy": {"cancellation": [{"before": 10**20, "refund_bps": 1}]}},
        "less_than_equal",
        "policy.cancellation.0.before",
    ),
    ({"policy": {"cancellation": [{"before": 1, "refund_bps": 1}] * 21}}, "too_long", "policy.cancellation"),
    ({"state": "cancelled"}, "literal_error", "state"),
    ({"state": "paid"}, "missing", "captured_minor"),
    ({"revision": 1.5}, "int_type", "revision"),
    ({"requested_at": "2026-08-01T00:00:00"}, "naive_time", "requested_at"),
]


@pytest.mark.parametrize(("changes", "code", "field"), BAD_BOOKINGS, ids=lambda value: str(value)[:50])
def test_a_bad_booking_is_refused_with_a_code_and_its_field(
    world: World, changes: dict[str, Any], code: str, field: str
) -> None:
    answer = call("PUT", "/bookings/b1", WEDDING | changes)
    assert (answer.status, answer.error) == (422, (code, field))
    assert answer.body["error"]["message"]
    assert answer.headers["content-type"] == "application/json"
    assert len(world.table.stream) == 0


def test_a_required_field_that_is_missing_is_named(world: World) -> None:
    for field in ("customer_id", "chef_id", "event_start", "price_minor", "currency"):
        body = {name: value for name, value in WEDDING.items() if name != field}
        assert call("PUT", "/bookings/b1", body).error == ("missing", field)


BAD_JOBS: list[tuple[Any, int, str, str]] = [
    ({}, 422, "value_error", "body"),
    (AT | {"anchor": "event_start"}, 422, "value_error", "body"),
    (AT | {"offset": 5}, 422, "value_error", "body"),
    ({"anchor": "event_middle"}, 422, "literal_error", "anchor"),
    ({"anchor": "event_start", "offset": 1.5}, 422, "int_type", "offset"),
    ({"anchor": "event_start", "offset": 10**10}, 422, "less_than_equal", "offset"),
    ({"anchor": "event_start"}, 422, "no_event", "anchor"),
    ({"run_at": "2026-11-14T18:00:00"}, 422, "naive_time", "run_at"),
    ({"run_at": "2026-07-31T09:59:59Z"}, 422, "past_run_at", "run_at"),
    ({"run_at": "2031-08-06T00:00:00Z"}, 422, "beyond_horizon", "run_at"),
    (AT | {"payload": "x" * 32_767}, 422, "payload_too_large", "payload"),
    (AT | {"payload": "ä" * 5_500}, 422, "payload_too_large", "payload"),
    ('{"run_at":"2026-11-14T18:00:00Z","payload":NaN}', 400, "malformed_json", "body"),
    ('{"run_at":"2026-11-14T18:00:00Z","payload":[1,{"x":-Infinity}]}', 400, "malformed_json", "body"),
    (nested(DEEPEST), 422, "nested_too_deeply", "body"),
    (AT | {"keep_on_cancel": "yes"}, 422, "bool_type", "keep_on_cancel"),
    (AT | {"keep_on_cancel": 1}, 422, "bool_type", "keep_on_cancel"),
    (AT | {"revision": -1}, 422, "greater_than_equal", "revision"),
    (AT | {"revision": True}, 422, "int_type", "revision"),
    (AT | {"shiny": 1}, 422, "extra_forbidden", "shiny"),
]


@pytest.mark.parametrize(("body", "status", "code", "field"), BAD_JOBS, ids=lambda value: str(value)[:50])
def test_a_bad_job_is_refused_with_a_code_and_its_field(
    world: World, body: Any, status: int, code: str, field: str
) -> None:
    answer = call("PUT", "/bookings/b1/jobs/menu", body)
    assert (answer.status, answer.error) == (status, (code, field))
    assert len(world.table.stream) == 0


def test_the_largest_and_the_deepest_payload_still_arrive(world: World) -> None:
    largest = "x" * 32_766
    assert call("PUT", "/bookings/b1/jobs/menu", AT | {"payload": largest}).status == 200
    assert call("PUT", "/bookings/b1/jobs/deep", nested(DEEPEST - 1)).status == 200
    world.travel_to(END)
    payloads = [event["data"]["payload"] for event in world.events() if event["type"] == "job.due"]
    assert sorted(map(len, payloads)) == [1, len(largest)]


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/bookings/" + "b" * 40, "booking_id"),
        ("/bookings/a b", "booking_id"),
        ("/bookings/a.b", "booking_id"),
        ("/bookings/a#b", "booking_id"),
        ("/bookings/ä", "booking_id"),
        ("/bookings/a\n", "booking_id"),
        ("/bookings/b1/jobs/Menu", "job"),
        ("/bookings/b1/jobs/a-b", "job"),
        ("/bookings/b1/jobs/" + "j" * 25, "job"),
    ],
)
def test_an_id_or_name_outside_its_pattern_is_refused(world: World, path: str, field: str) -> None:
    answer = call("PUT", path, AT if "jobs" in path else WEDDING)
    assert (answer.status, answer.error) == (422, ("string_pattern_mismatch", field))


BAD_QUERIES: list[tuple[str, dict[str, str], str, str]] = [
    ("/jobs", {"to": WINDOW["to"]}, "missing", "from"),
    ("/jobs", WINDOW | {"from": "2026-11-01T00:00:00"}, "naive_time", "from"),
    ("/jobs", WINDOW | {"from": "x" * 65}, "string_too_long", "from"),
    ("/jobs", WINDOW | {"to": "2026-10-01T00:00:00Z"}, "empty_window", "to"),
    ("/jobs", WINDOW | {"to": "2027-10-01T00:00:00Z"}, "window_too_long", "to"),
    ("/jobs", WINDOW | {"limit": "0"}, "greater_than_equal", "limit"),
    ("/jobs", WINDOW | {"limit": "501"}, "less_than_equal", "limit"),
    ("/jobs", WINDOW | {"limit": "many"}, "int_parsing", "limit"),
    ("/jobs", WINDOW | {"job": "A B"}, "string_pattern_mismatch", "job"),
    ("/jobs", WINDOW | {"cursor": "not ours"}, "bad_cursor", "cursor"),
    ("/jobs", WINDOW | {"cursor": "x" * 257}, "string_too_long", "cursor"),
    ("/dead-letters", {"kind": "alive"}, "string_pattern_mismatch", "kind"),
    ("/bookings/b1/history", {"cursor": "first"}, "string_pattern_mismatch", "cursor"),
    ("/payments/b1", {}, "string_pattern_mismatch", "payment_id"),
    ("/payments/b1.p0", {}, "string_pattern_mismatch", "payment_id"),
]


@pytest.mark.parametrize(("path", "query", "code", "field"), BAD_QUERIES, ids=lambda value: str(value)[-40:])
def test_a_bad_query_is_refused_with_a_code_and_its_field(
    world: World, path: str, query: dict[str, str], code: str, field: str
) -> None:
    world.book()
    answer = call("GET", path, query=query)
    assert (answer.status, answer.error) == (422, (code, field))


BAD_COMMANDS: list[tuple[str, Any, str, str]] = [
    ("cancel", {}, "missing", "actor"),
    ("cancel", {"actor": {"role": "king"}}, "enum", "actor.role"),
    ("cancel", {"actor": {"role": "chef"}, "refund_minor": -1}, "greater_than_equal", "refund_minor"),
    ("cancel", {"actor": {"role": "chef"}, "refund_minor": 1.0}, "int_type", "refund_minor"),
    ("cancel", {"actor": {"role": "chef"}, "refund_minor": 1}, "refund_exceeds_capture", "refund_minor"),
    ("cancel", {"actor": {"role": "chef"}, "reason": ""}, "string_too_short", "reason"),
    ("pay", {"captured_minor": True, "charge_ref": "ch"}, "int_type", "captured_minor"),
    ("pay", {"captured_minor": 1, "charge_ref": "ch", "paid_at": "2026-08-02T00:00:00Z"}, "in_the_future", "paid_at"),
    ("pay", {"captured_minor": 1}, "missing", "charge_ref"),
    ("move", {"event_start": "2026-08-01T09:00:00Z"}, "past_event", "event_start"),
    ("move", {"event_start": AT["run_at"], "event_end": AT["run_at"]}, "end_before_start", "event_end"),
    ("move", {"event_start": "2031-08-06T00:00:00Z"}, "beyond_horizon", "event_end"),
    ("accept", {"actor": {"role": "chef", "shiny": 1}}, "extra_forbidden", "actor.shiny"),
    ("decline", {"reason": "x" * 501}, "string_too_long", "reason"),
]


@pytest.mark.parametrize(("command", "body", "code", "field"), BAD_COMMANDS, ids=lambda value: str(value)[:50])
def test_a_bad_command_is_refused_with_a_code_and_its_field(
    world: World, command: str, body: Any, code: str, field: str
) -> None:
    world.book()
    if command == "pay":
        world.commands.accept("b1", {}, None)
    before = world.snapshot()
    answer = call("POST", f"/bookings/b1/{command}", body)
    assert (answer.status, answer.error) == (422, (code, field))
    assert world.snapshot() == before


# --- errors of state -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/bookings/b9", None),
        ("GET", "/bookings/b9/jobs", None),
        ("GET", "/bookings/b9/history", None),
        ("GET", "/bookings/b9/payments", None),
        ("GET", "/payments/b9.p1", None),
        ("POST", "/bookings/b9/accept", {}),
        ("POST", "/bookings/b9/cancel", {"actor": {"role": "chef"}}),
        ("POST", "/bookings/b9/jobs/menu/redrive", {}),
        ("DELETE", "/bookings/b9/jobs/menu", None),
    ],
)
def test_what_does_not_exist_is_404(world: World, method: str, path: str, body: Any) -> None:
    answer = call(method, path, body)
    assert (answer.status, answer.error) == (404, ("not_found", None))


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/"), ("GET", "/nope"), ("PATCH", "/bookings/b1"), ("POST", "/jobs")]
)
def test_an_unknown_route_is_404_with_a_code_of_its_own(world: World, method: str, path: str) -> None:
    answer = call(method, path)
    assert (answer.status, answer.error) == (404, ("no_such_route", None))


def test_an_illegal_transition_is_409_with_the_current_state(world: World) -> None:
    world.paid()
    answer = call("POST", "/bookings/b1/decline", {})
    assert (answer.status, answer.error[0], answer.body["error"]["state"]) == (409, "illegal_transition", "paid")


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize("job", ["close_event", "pay_1", "watch_dispute"])
def test_a_built_in_job_s_name_is_409(world: World, method: str, job: str) -> None:
    answer = call(method, f"/bookings/b1/jobs/{job}", AT if method == "PUT" else None)
    assert (answer.status, answer.error[0]) == (409, "built_in_job")


def test_another_body_for_the_same_booking_or_revision_is_409(world: World) -> None:
    call("PUT", "/bookings/b1", WEDDING)
    answer = call("PUT", "/bookings/b1", WEDDING | {"price_minor": 1})
    assert (answer.status, answer.error[0], answer.body["error"]["state"]) == (409, "already_exists", "requested")
    call("PUT", "/bookings/b1/jobs/menu", AT | {"revision": 1})
    assert call("PUT", "/bookings/b1/jobs/menu", AT | {"revision": 1, "payload": 1}).error[0] == "revision_conflict"


def test_too_many_own_jobs_are_409(world: World) -> None:
    for number in range(25):
        assert call("PUT", f"/bookings/b1/jobs/j{number}", AT).status == 200
    answer = call("PUT", "/bookings/b1/jobs/one_more", AT)
    assert (answer.status, answer.error[0]) == (409, "too_many_jobs")


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (Contention(), 409, "version_conflict"),
        (Throttled("slow down"), 429, "throttled"),
        (AwsFailure("HTTP 500 of DynamoDB"), 503, "aws_failure"),
        (RuntimeError("a bug, with an internal detail"), 500, "internal_error"),
    ],
)
def test_what_goes_wrong_behind_the_api_has_its_status_and_tells_nothing_internal(
    world: World, monkeypatch: pytest.MonkeyPatch, failure: Exception, status: int, code: str
) -> None:
    def failing(*_: Any) -> None:
        raise failure

    monkeypatch.setattr(world.table, "write", failing)
    answer = call("PUT", "/bookings/b1", WEDDING)
    assert (answer.status, answer.error[0]) == (status, code)
    assert "internal detail" not in answer.body["error"]["message"]


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "application/x-www-form-urlencoded"])
def test_another_content_type_is_refused(world: World, content_type: str) -> None:
    answer = call("PUT", "/bookings/b1", json.dumps(WEDDING), headers={"content-type": content_type})
    assert answer.status == 415 or (answer.status == 422 and "form" in content_type)
    assert len(world.table.stream) == 0


def test_json_is_json_whatever_its_charset_says(world: World) -> None:
    headers = {"content-type": "application/json; charset=utf-8"}
    assert call("PUT", "/bookings/b1", WEDDING, headers=headers).status == 200


@pytest.mark.parametrize("key", ["", "a b", "x" * 129, "ä"])
def test_a_bad_idempotency_key_is_refused(world: World, key: str) -> None:
    world.book()
    answer = call("POST", "/bookings/b1/accept", {}, headers={"Idempotency-Key": key})
    assert (answer.status, answer.error) == (422, ("bad_idempotency_key", "Idempotency-Key"))


def test_an_operator_cancels_days_after_the_event_while_the_money_is_still_held(world: World) -> None:
    world.paid()
    world.travel_to(RELEASE - DAY / 2)
    answer = call("POST", "/bookings/b1/cancel", {"actor": {"role": "operator"}, "refund_minor": 30_000})
    assert (answer.body["state"], answer.body["refunded_minor"]) == ("cancelled", 30_000)
    assert world.now > START


@pytest.mark.parametrize(
    "content_type",
    [
        "multipart/form-data",
        "multipart/form-data; boundary=b",
        "application/x-www-form-urlencoded",
        "application/json-seq",
        "text/plain",
    ],
)
def test_only_json_is_read_though_the_router_could_read_forms(world: World, content_type: str) -> None:
    """A form without its boundary was a 500, and a form's field was taken as if it were JSON."""
    for body in ("reason=menu", "--b\r\n\r\n--b--", json.dumps({"reason": "menu"})):
        answer = call("POST", "/payouts/pause", body, headers={"content-type": content_type})
        assert (answer.status, answer.error) == (415, ("unsupported_content_type", "Content-Type"))
    assert call("GET", "/payouts").body["paused"] is False


def test_without_a_body_it_does_not_matter_what_it_is_said_to_be(world: World) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert call("POST", "/payouts/pause", headers=form).status == 200
    assert call("POST", "/payouts/resume", headers=form).status == 200


def test_what_comes_with_a_read_is_not_looked_at(world: World) -> None:
    call("PUT", "/bookings/b1", WEDDING)
    for body in ("{", "x" * 70_000):
        assert call("GET", "/bookings/b1", body, headers={"content-type": "text/plain"}).status == 200
    assert call("GET", "/bookings/b1", "/w==", base64=True).status == 200


def test_a_reconcile_run_that_lambda_does_not_start_now_is_an_answer_to_try_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a 500, whatever Lambda had answered."""
    monkeypatch.setenv("RECONCILER_FUNCTION", "reconciler")
    for code, status in (("TooManyRequestsException", 429), ("ServiceException", 503)):

        def refuse(code: str = code, **_: Any) -> Any:
            raise ClientError({"Error": {"Code": code}}, "Invoke")

        monkeypatch.setattr(world.functions, "invoke", refuse)
        assert call("POST", "/reconcile").status == status


def test_a_day_of_a_provider_that_cannot_be_asked_says_so(world: World) -> None:
    """Both fields were missing from the answer."""
    world.use_external_payments()
    world.paid()
    world.travel_to(RELEASE + 2 * DAY)
    world.reconcile()
    answer = call("GET", "/ledger/reconciliation", query={"day": RELEASE.date().isoformat()})
    assert (answer.body["provider"], answer.body["difference"]) == (None, None)
