"""Stripe's webhook over real API Gateway events, signed by Stripe's own library."""

import base64
import json
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from stripe import WebhookSignature

from duebook import wiring
from duebook.adapters.stripe_webhook import REFRESH_EVERY, TOLERANCE, StripeEvents
from duebook.domain.errors import AwsFailure
from duebook.handlers import stripe_webhook
from duebook.handlers.stripe_webhook import LARGEST_EVENT
from duebook.service.ports import Put, Write
from duebook.service.webhook import CAPTURE_MAY_FOLLOW, EVENT_TYPES
from local.stripe_fake import shapes
from tests.unit.builders import AUGUST, HOUR, RELEASE
from tests.unit.world import World

SECRET = "whsec_of_the_test"
NOBODY = "mallory@example.com"


class Secret:
    """`stored` is what Secrets Manager has, `kept` what was read of it; `reads` counts reading anew."""

    def __init__(self) -> None:
        self.kept = self.stored = SECRET
        self.reads = 0

    def value(self) -> str:
        return self.kept

    def fresh(self) -> str:
        self.reads += 1
        self.kept = self.stored
        return self.kept


@pytest.fixture
def secret(world: World, monkeypatch: pytest.MonkeyPatch) -> Secret:
    made = Secret()
    events = StripeEvents(made, world.clock)
    monkeypatch.setattr(wiring, "stripe_events", lambda: events)
    return made


@pytest.fixture(autouse=True)
def _wired(secret: Secret) -> None:
    pass


def post(body: str, headers: Mapping[str, str], *, encoded: bool = False) -> tuple[int, str]:
    sent = base64.b64encode(body.encode()).decode() if encoded else body
    event = {"version": "2.0", "headers": dict(headers), "body": sent, "isBase64Encoded": encoded}
    answer = stripe_webhook.handler(event, None)
    return answer["statusCode"], json.loads(answer["body"])["said"]


def signed(body: str, secret: str = SECRET, ago: timedelta = timedelta()) -> dict[str, str]:
    """The library compares with the machine's own time."""
    at = int(time.time() - ago.total_seconds())
    return {"stripe-signature": WebhookSignature.generate_signature_header(body, secret, at)}


def tell(event: Mapping[str, Any]) -> tuple[int, str]:
    body = json.dumps(event)
    return post(body, signed(body))


def event(type_: str, subject: Mapping[str, Any], number: int = 1, world: World | None = None) -> dict[str, Any]:
    created = int((world.now if world else AUGUST).timestamp())
    return shapes.event(f"evt_{number}", type_, dict(subject), created)


def charge(**changes: Any) -> dict[str, Any]:
    created = int(AUGUST.timestamp())
    return shapes.charge("ch_1", 100_000, "eur", created, metadata={"booking_id": "b1"}) | changes


def chargeback(amount: int = 100_000, **changes: Any) -> dict[str, Any]:
    return shapes.dispute("dp_1", amount, "eur", int(AUGUST.timestamp()), charge="ch_1") | changes


def refund(amount: int, **changes: Any) -> dict[str, Any]:
    return shapes.refund("re_1", amount, "eur", int(AUGUST.timestamp()), charge="ch_1") | changes


def accepted(world: World) -> None:
    world.book()
    world.commands.accept("b1", {}, None)


# --- captures --------------------------------------------------------------------------------------------------------


def test_a_signed_capture_pays_the_booking_that_its_charge_names(world: World) -> None:
    accepted(world)
    assert tell(event("charge.succeeded", charge())) == (200, "done")
    booking = world.bookings.load("b1")
    assert booking is not None
    assert booking.engagement is not None
    assert (booking.state, booking.engagement.captured, booking.engagement.charge_ref) == ("paid", 100_000, "ch_1")
    assert booking.engagement.paid_at == AUGUST


def test_the_same_event_again_and_another_one_about_the_same_charge_change_nothing(world: World) -> None:
    accepted(world)
    tell(event("charge.succeeded", charge()))
    before = world.snapshot()
    assert tell(event("charge.succeeded", charge())) == (200, "duplicate")
    assert tell(event("charge.captured", charge(), number=2)) == (200, "done")
    assert world.snapshot() == before


def test_a_crash_between_the_effect_and_its_mark_repeats_harmlessly(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted(world)
    write = world.table.write

    def crash(*writes: Write) -> None:
        if any(isinstance(one, Put) and str(one.item["pk"]).startswith("webhook#") for one in writes):
            raise AwsFailure("it ended here")
        write(*writes)

    with monkeypatch.context() as crashing:
        crashing.setattr(world.table, "write", crash)
        assert tell(event("charge.succeeded", charge()))[0] == 503
    assert world.state() == "paid"
    before = world.snapshot()
    assert tell(event("charge.succeeded", charge())) == (200, "done")
    assert tell(event("charge.succeeded", charge())) == (200, "duplicate")
    assert world.snapshot() == before


def test_marks_expire_but_never_while_stripe_still_sends_the_event_again(world: World) -> None:
    accepted(world)
    tell(event("charge.succeeded", charge()))
    mark = world.table.get("webhook#evt_1", "event")
    assert mark is not None
    assert mark["expires_at"] - AUGUST.timestamp() >= timedelta(days=30).total_seconds()
    assert not {"due_pk", "attention_pk", "day_pk"} & mark.keys()


@pytest.mark.parametrize(
    "changes",
    [{"captured": False}, {"metadata": {}}, {"metadata": {"order": "7"}}],
    ids=["authorized", "bare", "other"],
)
def test_a_charge_that_is_only_authorized_or_names_no_booking_is_ignored(world: World, changes: dict[str, Any]) -> None:
    accepted(world)
    assert tell(event("charge.succeeded", charge(**changes))) == (200, "ignored")
    assert world.state() == "accepted"


def test_a_capture_that_the_booking_refuses_is_kept_for_a_person_until_it_succeeds(world: World) -> None:
    world.book()
    assert tell(event("charge.succeeded", charge())) == (409, "refused")
    (letter,) = world.attention()
    assert "evt_1" in letter["reason"]
    assert "requested" in letter["reason"]
    world.commands.accept("b1", {}, None)
    assert tell(event("charge.succeeded", charge())) == (200, "done")
    assert (world.state(), world.attention()) == ("paid", [])


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"currency": "usd"}, "EUR, not USD"),
        ({"metadata": {"booking_id": "nobody"}}, "no booking nobody"),
        ({"metadata": {"booking_id": "b1#booking"}}, "no booking's id"),
        ({"amount_captured": -1}, "amount_captured"),
        ({"amount_captured": "100000"}, "amount_captured"),
    ],
)
def test_a_capture_that_does_not_fit_is_kept_for_a_person(world: World, changes: dict[str, Any], why: str) -> None:
    accepted(world)
    assert tell(event("charge.succeeded", charge(**changes))) == (409, "refused")
    assert [why in letter["reason"] for letter in world.attention()] == [True]
    assert world.state() == "accepted"


# --- signature, replay, size ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"stripe-signature": ""},
        {"stripe-signature": "t=1,v1=00"},
        {"stripe-signature": "nonsense"},
        signed("another body"),
        signed(json.dumps(event("charge.succeeded", charge())), secret="whsec_of_somebody"),
        signed(json.dumps(event("charge.succeeded", charge())), ago=TOLERANCE + timedelta(seconds=5)),
    ],
    ids=["missing", "empty", "wrong", "nonsense", "another body", "another secret", "too old"],
)
def test_what_stripe_did_not_sign_now_is_refused_and_does_nothing(world: World, headers: dict[str, str]) -> None:
    accepted(world)
    before = len(world.table.stream)
    assert post(json.dumps(event("charge.succeeded", charge())), headers) == (400, "bad_signature")
    assert len(world.table.stream) == before


def test_a_signature_counts_for_five_minutes(world: World) -> None:
    accepted(world)
    body = json.dumps(event("charge.succeeded", charge()))
    assert post(body, signed(body, ago=TOLERANCE - timedelta(seconds=30))) == (200, "done")


def test_a_signing_secret_that_was_replaced_is_read_again_at_most_once_a_minute(world: World, secret: Secret) -> None:
    secret.stored = "whsec_new"
    body = json.dumps(event("invoice.paid", {}))
    assert post(body, signed(body, "whsec_new")) == (200, "ignored")
    for _ in range(5):
        assert post(body, signed(body, "whsec_forged")) == (400, "bad_signature")
    assert secret.reads == 1
    world.now += REFRESH_EVERY
    assert post(body, signed(body, "whsec_forged")) == (400, "bad_signature")
    assert secret.reads == 2


@pytest.mark.parametrize("encoded", [True, False])
def test_the_gateway_may_send_the_body_in_base64(world: World, encoded: bool) -> None:
    accepted(world)
    body = json.dumps(event("charge.succeeded", charge(description="Hochzeit für Zoë")), ensure_ascii=False)
    assert post(body, signed(body), encoded=encoded) == (200, "done")


@pytest.mark.parametrize("encoded", [True, False])
def test_a_body_beyond_the_bound_is_not_even_checked(secret: Secret, encoded: bool) -> None:
    body = "x" * (LARGEST_EVENT + 1)
    assert post(body, signed(body), encoded=encoded) == (413, "body_too_large")


@pytest.mark.parametrize("body", ["", "no JSON", "[]", "7", "{}", '{"object": "v2.core.event"}', '{"id": "evt 1"}'])
def test_a_signed_body_that_is_no_event_is_refused(body: str) -> None:
    assert post(body, signed(body)) == (400, "bad_event")


def test_bytes_that_are_no_text_are_refused() -> None:
    event = {"headers": {}, "body": base64.b64encode(b"\xff\xfe").decode(), "isBase64Encoded": True}
    assert stripe_webhook.handler(event, None)["statusCode"] == 400
    assert stripe_webhook.handler({**event, "body": "%%%"}, None)["statusCode"] == 400


def test_an_event_of_a_type_that_nothing_follows_from_is_answered_and_ignored(world: World) -> None:
    before = len(world.table.stream)
    assert tell(event("customer.created", {"email": NOBODY})) == (200, "ignored")
    assert len(world.table.stream) == before


def test_the_log_names_events_and_never_what_they_hold(world: World, caplog: pytest.LogCaptureFixture) -> None:
    accepted(world)
    private = {"billing_details": {"email": NOBODY, "name": "Mallory"}, "receipt_email": NOBODY, "description": "M."}
    tell(event("charge.succeeded", charge(**private)))
    tell(event("charge.succeeded", charge(**private, currency="usd"), number=2))
    tell(event("customer.created", {"email": NOBODY}, number=3))
    post(json.dumps(event("charge.succeeded", charge(**private))), {"stripe-signature": "t=1,v1=00"})
    logged = "\n".join(str(vars(record)) for record in caplog.records)
    assert {f"evt_{number}" for number in (1, 2, 3) if f"evt_{number}" in logged} == {"evt_1", "evt_2", "evt_3"}
    assert not [word for word in (NOBODY, "Mallory", "100000", SECRET, "ch_1") if word in logged]


def test_aws_failing_makes_stripe_send_the_event_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(pk: str, sk: str) -> None:
        raise AwsFailure("DynamoDB is away")

    monkeypatch.setattr(world.table, "get", fail)
    assert tell(event("charge.succeeded", charge())) == (503, "aws_failure")


# --- what happens to the money afterwards --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "subject"),
    [("charge.dispute.created", chargeback()), ("refund.created", refund(1_000))],
    ids=["chargeback", "refund"],
)
def test_what_is_about_an_unknown_charge_comes_again_for_an_hour_and_is_then_none_of_ours(
    world: World, type_: str, subject: dict[str, Any]
) -> None:
    """Events come in any order: the capture may be under way."""
    about = event(type_, subject)
    assert tell(about) == (409, "later")
    world.now += CAPTURE_MAY_FOLLOW
    assert tell(about) == (200, "ignored")
    assert world.attention() == []


def test_an_event_that_came_before_its_capture_takes_effect_when_it_comes_again(world: World) -> None:
    accepted(world)
    about = event("charge.dispute.created", chargeback(), number=2)
    assert tell(about) == (409, "later")
    tell(event("charge.succeeded", charge()))
    assert tell(about) == (200, "done")
    assert "release_payment" not in world.jobs()


def test_a_chargeback_freezes_the_payout_and_one_that_is_won_lets_it_go(world: World) -> None:
    world.paid()
    assert tell(event("charge.dispute.created", chargeback())) == (200, "done")
    assert tell(event("charge.dispute.funds_withdrawn", chargeback(), number=2)) == (200, "done")
    world.travel_to(RELEASE + HOUR)
    assert (world.state(), world.payments()) == ("completed", [])
    assert tell(event("charge.dispute.closed", chargeback(status="won"), number=3)) == (200, "done")
    world.travel_to(world.now + HOUR)
    assert world.state() == "paid_out"
    assert world.types().count("booking.charged_back") == 1
    assert [payment["amount"] for payment in world.payments()] == [90_000]


def test_a_chargeback_that_is_lost_leaves_nothing_to_pay_out(world: World) -> None:
    world.paid()
    tell(event("charge.dispute.created", chargeback()))
    assert tell(event("charge.dispute.closed", chargeback(status="lost"), number=2)) == (200, "done")
    world.travel_to(RELEASE + HOUR)
    assert world.transfers("b1.p1") == []


def test_an_inquiry_takes_no_money_and_freezes_nothing_until_it_becomes_a_chargeback(world: World) -> None:
    world.paid()
    inquiry = chargeback(status="warning_needs_response")
    assert tell(event("charge.dispute.created", inquiry)) == (200, "ignored")
    assert "release_payment" in world.jobs()
    assert tell(event("charge.dispute.closed", chargeback(status="warning_closed"), number=2)) == (200, "ignored")
    assert tell(event("charge.dispute.funds_withdrawn", chargeback(), number=3)) == (200, "done")
    assert "release_payment" not in world.jobs()


def test_a_refund_made_by_hand_leaves_less_to_pay_out_and_one_that_failed_does_not(world: World) -> None:
    world.paid()
    assert tell(event("refund.created", refund(40_000))) == (200, "done")
    assert tell(event("refund.updated", refund(40_000), number=2)) == (200, "done")
    assert tell(event("refund.created", refund(10_000, id="re_2"), number=3)) == (200, "done")
    assert tell(event("refund.failed", refund(10_000, id="re_2", status="failed"), number=4)) == (200, "done")
    world.travel_to(RELEASE + HOUR)
    assert [payment["amount"] for payment in world.payments()] == [54_000]
    assert world.types().count("booking.refunded_outside") == 3


def test_our_own_refunds_and_reversals_are_no_news(world: World) -> None:
    world.paid()
    ours = {"reference": "b1.p1", "booking": "b1"}
    before = world.snapshot()
    assert tell(event("refund.created", refund(40_000, metadata=ours))) == (200, "ignored")
    reversal = shapes.reversal("trr_1", 90_000, "eur", 1, metadata={"reference": "b1.p2"})
    assert tell(event("transfer.reversed", transfer([reversal]), number=2)) == (200, "ignored")
    assert tell(event("transfer.reversed", transfer([reversal], metadata={}), number=3)) == (200, "ignored")
    assert world.snapshot() == before


def transfer(reversals: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    made = shapes.transfer("tr_1", 90_000, "eur", 1, metadata={"reference": "b1.p1"}, reversed=True)
    return made | {"reversals": shapes.listed(reversals, "/v1/transfers/tr_1/reversals")} | changes


@pytest.mark.parametrize(
    ("type_", "subject"),
    [
        ("transfer.reversed", transfer([shapes.reversal("trr_9", 90_000, "eur", 1)])),
        ("transfer.failed", transfer([])),
    ],
)
def test_a_transfer_that_was_reversed_by_hand_or_failed_calls_for_a_person(
    world: World, type_: str, subject: dict[str, Any]
) -> None:
    world.paid()
    world.travel_to(RELEASE + HOUR)
    assert world.state() == "paid_out"
    assert tell(event(type_, subject, world=world)) == (200, "done")
    (owed,) = world.attention("needs_attention")
    assert (owed["payment_id"], owed["reason"].split(" ")[:2]) == ("b1.p2", ["the", "transfer"])
    assert tell(event(type_, subject, number=2, world=world)) == (200, "done")
    assert world.attention("needs_attention") == [owed]


def test_the_endpoint_is_to_be_subscribed_to_events_that_stripe_has() -> None:
    from stripe import Event

    known = str(Event.__annotations__["type"])
    assert [name for name in EVENT_TYPES if f"'{name}'" not in known.replace('"', "'")] == ["transfer.failed"]
