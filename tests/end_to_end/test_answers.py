"""What the API answers: repeats, pages, and everything that is wrong with a request."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from duebook_client import UNSET, Actor, Conflict, DuebookApiError, Invalid, NotFound, Request, Urllib3Transport
from duebook_client.client import Method
from duebook_client.transport import credentials_of, signed
from local.emulator import REGION
from local.world import World
from tests.end_to_end.conftest import CUSTOMER, PRICE, Book, whole_minute


def test_a_repeated_command_under_the_same_key_takes_effect_once(world: World, book: Book, booking_id: str) -> None:
    book(booking_id)
    first = world.client.cancel(booking_id, actor=CUSTOMER, refund_minor=1_000, idempotency_key="cancel-1")
    again = world.client.cancel(booking_id, actor=CUSTOMER, refund_minor=1_000, idempotency_key="cancel-1")
    assert (first.applied, again.applied) == (True, False)
    assert again.refunded_minor == first.refunded_minor == 1_000
    with pytest.raises(Invalid) as refused:
        world.client.cancel(booking_id, actor=CUSTOMER, refund_minor=2_000, idempotency_key="cancel-1")
    assert refused.value.code == "idempotency_key_reused"
    keys = [entry.idempotency_key for entry in world.client.history(booking_id) if entry.type == "booking.cancelled"]
    assert keys == ["cancel-1"]
    world.settle()


def test_the_same_booking_again_is_answered_whatever_has_happened_since(world: World, booking_id: str) -> None:
    given: dict[str, Any] = {
        "customer_id": "c",
        "chef_id": "k",
        "event_start": whole_minute(world.now() + timedelta(days=30)),
        "price_minor": PRICE,
        "currency": "EUR",
    }
    assert world.client.put_booking(booking_id, **given).applied
    world.client.accept(booking_id)
    again = world.client.put_booking(booking_id, **given)
    assert (again.applied, again.state) == (False, "accepted")
    with pytest.raises(Conflict) as refused:
        world.client.put_booking(booking_id, **{**given, "price_minor": PRICE + 1})
    assert (refused.value.code, refused.value.state) == ("already_exists", "accepted")
    world.settle()


def test_pending_work_is_paged_in_order_without_gap_or_repeat(world: World, booking_id: str) -> None:
    start = whole_minute(world.now() + timedelta(days=400))
    end = start + timedelta(days=2)
    wanted = [(f"remind_{number}", start + timedelta(hours=4 * number)) for number in range(12)]
    for job, run_at in reversed(wanted):
        world.client.put_job(booking_id, job, run_at)
    world.settle()
    for page_size in (1, 5, 12, 100):
        pages = world.client.due(start, end, page_size=page_size)
        assert [(job.job, job.run_at) for job in pages] == wanted
    only = world.client.due(start, end, job="remind_3")
    assert [(job.job, job.run_at) for job in only] == wanted[3:4]
    before = world.client.due(start, start + timedelta(hours=8))
    assert [job.job for job in before] == ["remind_0", "remind_1"]
    for job, _ in wanted:
        world.client.delete_job(booking_id, job)
    assert list(world.client.due(start, end)) == []
    world.settle()


def test_a_history_is_paged_and_says_what_made_each_thing_happen(world: World, book: Book, booking_id: str) -> None:
    book(booking_id)
    whole = list(world.client.history(booking_id))
    assert [entry.type for entry in whole] == ["booking.requested", "booking.accepted", "booking.paid"]
    assert list(world.client.history(booking_id, page_size=1)) == whole
    assert [entry.cause.source for entry in whole if entry.cause] == ["api", "api", "api"]
    assert all(entry.published_at is not None for entry in whole)
    assert whole[1].actor == Actor("chef", "chef-1")


GOOD = {
    "customer_id": "c",
    "chef_id": "k",
    "event_start": "2029-06-01T18:00:00+02:00",
    "price_minor": 100,
    "currency": "EUR",
}
BOOKING, JOB = "/bookings/bad", "/bookings/bad/jobs/remind"
PAST, FAR = "2020-01-01T00:00:00Z", "2045-01-01T00:00:00Z"
GAP = {"local": "2029-03-25T02:30:00", "zone": "Europe/Berlin"}
OVERLAP = {"local": "2029-10-28T02:30:00", "zone": "Europe/Berlin"}


def _booking(**changed: Any) -> dict[str, Any]:
    return {**GOOD, **changed}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "field"),
    [
        ("PUT", BOOKING, _booking(surprise=1), 422, "surprise"),
        ("PUT", BOOKING, _booking(price_minor=1.5), 422, "price_minor"),
        ("PUT", BOOKING, _booking(price_minor=-1), 422, "price_minor"),
        ("PUT", BOOKING, _booking(price_minor=True), 422, "price_minor"),
        ("PUT", BOOKING, _booking(price_minor="100"), 422, "price_minor"),
        ("PUT", BOOKING, _booking(currency="EURO"), 422, "currency"),
        ("PUT", BOOKING, _booking(currency="XXQ"), 422, "currency"),
        ("PUT", BOOKING, {name: GOOD[name] for name in GOOD if name != "chef_id"}, 422, "chef_id"),
        ("PUT", BOOKING, _booking(event_start="2029-06-01T18:00:00"), 422, "event_start"),
        ("PUT", BOOKING, _booking(event_start="soon"), 422, "event_start"),
        ("PUT", BOOKING, _booking(event_start=PAST), 422, "event_start"),
        ("PUT", BOOKING, _booking(event_start=FAR), 422, "event_end"),
        ("PUT", BOOKING, _booking(event_start=GAP), 422, "event_start"),
        ("PUT", BOOKING, _booking(event_start=OVERLAP), 422, "event_start"),
        ("PUT", BOOKING, _booking(event_end="2029-06-01T17:00:00+02:00"), 422, "event_end"),
        ("PUT", BOOKING, _booking(state="paid"), 422, "captured_minor"),
        ("PUT", BOOKING, _booking(policy={"fee_bps": 10_001}), 422, "policy.fee_bps"),
        ("PUT", BOOKING, _booking(policy={"patience": 1}), 422, "policy.patience"),
        ("PUT", "/bookings/no%20spaces", GOOD, 422, "booking_id"),
        ("PUT", f"/bookings/{'x' * 40}", GOOD, 422, "booking_id"),
        ("PUT", JOB, {"run_at": "2029-06-01T18:00:00"}, 422, "run_at"),
        ("PUT", JOB, {"run_at": PAST}, 422, "run_at"),
        ("PUT", JOB, {"run_at": FAR}, 422, "run_at"),
        ("PUT", JOB, {}, 422, None),
        ("PUT", JOB, {"run_at": "2029-06-01T18:00:00Z", "offset": 5}, 422, None),
        ("PUT", JOB, {"anchor": "event_start", "offset": -60}, 422, "anchor"),
        ("PUT", JOB, {"run_at": "2029-06-01T18:00:00Z", "payload": "x" * 33_000}, 422, "payload"),
        ("PUT", JOB, {"run_at": "2029-06-01T18:00:00Z", "payload": "x" * 70_000}, 413, None),
        ("PUT", "/bookings/bad/jobs/Remind", {"run_at": "2029-06-01T18:00:00Z"}, 422, "job"),
        ("PUT", "/bookings/bad/jobs/close_event", {"run_at": "2029-06-01T18:00:00Z"}, 409, None),
        ("PUT", "/bookings/bad/jobs/pay_7", {"run_at": "2029-06-01T18:00:00Z"}, 409, None),
        ("DELETE", "/bookings/bad/jobs/release_payment", None, 409, None),
        ("POST", "/bookings/bad/accept", {}, 404, None),
        ("POST", "/bookings/bad/cancel", {"actor": {"role": "customer"}}, 404, None),
        ("POST", "/bookings/bad/cancel", {}, 422, "actor"),
        ("POST", "/bookings/bad/pay", {"captured_minor": 0.5, "charge_ref": "c"}, 422, "captured_minor"),
        ("GET", BOOKING, None, 404, None),
        ("GET", "/bookings/bad/jobs", None, 404, None),
        ("GET", "/bookings/bad/history", None, 404, None),
        ("GET", "/payments/bad.p1", None, 404, None),
        ("GET", "/payments/bad", None, 422, "payment_id"),
        ("GET", "/dead-letters?kind=everything", None, 422, "kind"),
        ("GET", "/jobs", None, 422, "from"),
        ("GET", "/jobs?from=2029-01-01T00:00:00Z&to=2029-03-01T00:00:00Z", None, 422, "to"),
        ("GET", "/jobs?from=2029-01-02T00:00:00Z&to=2029-01-01T00:00:00Z", None, 422, "to"),
        ("GET", "/jobs?from=2029-01-01T00:00:00Z&to=2029-01-02T00:00:00Z&cursor=mine", None, 422, "cursor"),
        ("GET", "/jobs?from=2029-01-01T00:00:00Z&to=2029-01-02T00:00:00Z&limit=0", None, 422, "limit"),
    ],
)
def test_what_is_wrong_is_refused_with_a_code_and_the_field(
    world: World, method: Method, path: str, body: Mapping[str, Any] | None, status: int, field: str | None
) -> None:
    path, _, query = path.partition("?")
    parameters = dict(pair.split("=", 1) for pair in query.split("&")) if query else None
    with pytest.raises(DuebookApiError) as refused:
        world.client.call(method, path, query=parameters, body=UNSET if body is None else body)
    error = refused.value
    assert (error.status, error.attempts) == (status, 1), str(error)
    assert error.code
    assert error.message
    if field is not None:
        assert error.field is not None
        assert error.field.startswith(field), str(error)


def test_nothing_that_was_refused_has_left_a_trace(world: World) -> None:
    with pytest.raises(NotFound):
        world.client.booking("bad")


@pytest.mark.parametrize("body", [b"{", b"[]", b'"text"', b"{'single': 1}", b"\xff\xfe", b"[" * 5_000])
def test_a_body_that_is_no_json_object_is_refused(world: World, body: bytes) -> None:
    status, answer = _raw(world, "PUT", BOOKING, body)
    assert status in (400, 422)
    assert answer["error"]["code"]


def test_an_unknown_route_is_not_found(world: World) -> None:
    with pytest.raises((NotFound, DuebookApiError)) as refused:
        world.client.call("GET", "/weddings")
    assert refused.value.status in (403, 404)


def test_the_twenty_sixth_own_job_of_a_booking_is_refused(world: World, booking_id: str) -> None:
    run_at = world.now() + timedelta(days=800)
    for number in range(25):
        world.client.put_job(booking_id, f"remind_{number}", run_at)
    with pytest.raises(Conflict) as refused:
        world.client.put_job(booking_id, "remind_25", run_at)
    assert refused.value.code == "too_many_jobs"
    assert world.client.put_job(booking_id, "remind_24", run_at + timedelta(days=1)).applied
    world.settle()


def test_an_illegal_transition_is_refused_with_the_state_it_met(world: World, book: Book, booking_id: str) -> None:
    book(booking_id)
    with pytest.raises(Conflict) as refused:
        world.client.decline(booking_id)
    assert (refused.value.code, refused.value.state) == ("illegal_transition", "paid")


def test_an_older_revision_of_a_job_is_ignored_and_the_same_with_another_body_refused(
    world: World, booking_id: str
) -> None:
    run_at = whole_minute(world.now() + timedelta(days=3))
    assert world.client.put_job(booking_id, "remind", run_at, revision=5).applied
    late = world.client.put_job(booking_id, "remind", run_at + timedelta(days=1), revision=4)
    assert not late.applied
    assert late.current is not None
    assert late.current.run_at == run_at
    with pytest.raises(Conflict) as refused:
        world.client.put_job(booking_id, "remind", run_at + timedelta(days=1), revision=5)
    assert refused.value.code == "revision_conflict"
    world.client.delete_job(booking_id, "remind", revision=6)
    assert not world.client.put_job(booking_id, "remind", run_at, revision=5).applied
    world.settle()
    assert world.client.jobs(booking_id) == []


def _raw(world: World, method: str, path: str, body: bytes) -> tuple[int, Any]:
    """A signed request whose body the client would not send."""
    transport = Urllib3Transport()
    request = Request(method, world.url + path, {"Content-Type": "application/json"}, body)
    answer = transport.send(signed(request, credentials_of(world.aws.session()), REGION))
    transport.close()
    return answer.status, json.loads(answer.body)
