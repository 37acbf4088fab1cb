"""Stripe pays: its own library at a stand-in for it, its events signed, the very template that payments=stripe makes.

One timeline on an embedded AWS of its own: four weddings are captured, and what happens to their money follows.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from duebook_client import Forbidden, NotFound, Request, Urllib3Transport
from local.story import BEGINS
from local.stripe import WEBHOOK, LocalStripe
from local.world import World, deployed
from tests.end_to_end.conftest import CHEF, CUSTOMER, PRICE, whole_minute

PAID, CHARGED_BACK, HELD, CANCELLED = "stripe-paid", "stripe-back", "stripe-held", "stripe-off"
SHARE = PRICE * 9 // 10


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with deployed(start_at=BEGINS, payments="stripe", quiet=True) as world:
        if not world.travels:
            pytest.skip("time does not travel on this machine")
        yield world


@pytest.fixture(scope="module")
def stripe(world: World) -> LocalStripe:
    assert world.stripe is not None
    return world.stripe


@pytest.fixture(scope="module")
def captured(world: World) -> None:
    """Four weddings tomorrow, accepted and captured."""
    starts = whole_minute(world.now() + timedelta(days=1))
    for booking_id in (PAID, CHARGED_BACK, HELD, CANCELLED):
        world.chef(f"chef-{booking_id}")
        world.client.put_booking(
            booking_id,
            customer_id="customer-1",
            chef_id=f"chef-{booking_id}",
            event_start=starts,
            price_minor=PRICE,
            currency="EUR",
        )
        world.client.accept(booking_id, actor=CHEF)
        world.capture(booking_id, PRICE, "EUR", charge(booking_id))
    world.settle()


@pytest.fixture(scope="module")
def released(world: World, captured: None) -> None:
    """All payouts have fallen due; one chef is held meanwhile."""
    world.client.call("POST", f"/chefs/chef-{HELD}/hold", body={"reason": "papers are missing"})
    world.reach({job.job: job for job in world.client.jobs(PAID)}["release_payment"].run_at)


def charge(booking_id: str) -> str:
    return f"ch_{booking_id.replace('-', '')}"


def sent(stripe: LocalStripe, kind: str, booking_id: str) -> list[dict[str, Any]]:
    """What the stand-in moved for a booking: transfers, refunds or reversals."""
    made = getattr(stripe.fake.state, kind).values()
    return [one for one in made if str(one["metadata"].get("reference", "")).startswith(f"{booking_id}.")]


def test_a_signed_event_captures_and_again_changes_nothing(world: World, stripe: LocalStripe, captured: None) -> None:
    booking = world.client.booking(PAID)
    assert (booking.state, booking.captured_minor) == ("paid", PRICE)
    assert [entry.type for entry in world.client.history(PAID)][-1] == "booking.paid"
    again = stripe.event("charge.succeeded", stripe.fake.state.charges[charge(PAID)])
    assert (stripe.post(again), stripe.post(again)) == (200, 200)
    assert world.client.booking(PAID).version == booking.version


def test_what_stripe_did_not_sign_is_refused_and_every_other_route_asks_for_iam(
    world: World, stripe: LocalStripe, captured: None
) -> None:
    event = stripe.event("charge.succeeded", stripe.fake.state.charges[charge(PAID)])
    assert stripe.post(event, secret="whsec_of_somebody_else") == 400
    assert stripe.post(event, signed_at=world.now() - timedelta(minutes=6)) == 400
    assert stripe.send(json.dumps(event), {}) == 400
    assert stripe.tell("customer.created", {"id": "cus_1", "object": "customer"}) == 200
    transport = Urllib3Transport()
    try:
        for path in ("/payouts", f"/chefs/chef-{PAID}", WEBHOOK):
            assert transport.send(Request("GET", world.url + path, {})).status in (403, 404), path
    finally:
        transport.close()
    with pytest.raises(Forbidden):
        world.client_of(world.user("only-books", "Bookings")).call("POST", "/payouts/pause", body={})


def test_a_cancelled_booking_is_refunded_once(world: World, stripe: LocalStripe, captured: None) -> None:
    world.client.cancel(CANCELLED, actor=CUSTOMER, refund_minor=40_000)
    world.settle()
    (refund,) = sent(stripe, "refunds", CANCELLED)
    assert (refund["charge"], refund["amount"]) == (charge(CANCELLED), 40_000)
    (transfer,) = sent(stripe, "transfers", CANCELLED)
    assert transfer["amount"] == 54_000
    assert {payment.status for payment in world.client.payments(CANCELLED)} == {"done"}


def test_a_payout_is_exactly_one_transfer_out_of_its_charge_to_the_chefs_account(
    world: World, stripe: LocalStripe, released: None
) -> None:
    (payment,) = world.client.payments(PAID)
    (transfer,) = sent(stripe, "transfers", PAID)
    assert (payment.status, payment.provider_ref, world.client.booking(PAID).state) == (
        "done",
        transfer["id"],
        "paid_out",
    )
    assert (transfer["amount"], transfer["currency"]) == (SHARE, "eur")
    assert (transfer["source_transaction"], transfer["destination"]) == (charge(PAID), "acct_chefstripepaid")
    assert transfer["transfer_group"]
    assert transfer["metadata"]["reference"] == payment.payment_id


def test_a_held_chefs_payout_is_parked_and_two_unholds_pay_it_once(
    world: World, stripe: LocalStripe, released: None
) -> None:
    chef = f"/chefs/chef-{HELD}"
    assert sent(stripe, "transfers", HELD) == []
    (parked,) = world.client.call("GET", f"{chef}/parked")["parked"]
    assert parked["payment_id"] == f"{HELD}.p1"
    for _ in range(2):
        world.client.call("POST", f"{chef}/unhold", body={})
    world.settle()
    (transfer,) = sent(stripe, "transfers", HELD)
    assert transfer["amount"] == SHARE
    assert world.client.booking(HELD).state == "paid_out"
    assert world.client.call("GET", f"{chef}/parked")["parked"] == []


def test_a_chargeback_after_the_payout_takes_the_transfer_back(
    world: World, stripe: LocalStripe, released: None
) -> None:
    dispute = stripe.fake.state.disputed(charge(CHARGED_BACK))
    assert stripe.tell("charge.dispute.created", dispute) == 200
    world.settle()
    (reversal,) = sent(stripe, "reversals", CHARGED_BACK)
    (transfer,) = sent(stripe, "transfers", CHARGED_BACK)
    assert (reversal["transfer"], reversal["amount"]) == (transfer["id"], SHARE)
    balances: dict[str, int] = {}
    for entry in world.client.call("GET", f"/bookings/{CHARGED_BACK}/ledger")["entries"]:
        assert sum(entry["lines"].values()) == 0
        for account, amount in entry["lines"].items():
            balances[account] = balances.get(account, 0) + amount
    assert {account: amount for account, amount in balances.items() if amount} == {}


def test_for_every_payment_stripe_moved_money_once(world: World, stripe: LocalStripe, released: None) -> None:
    bookings = (PAID, CHARGED_BACK, HELD, CANCELLED)
    ours = [payment for booking_id in bookings for payment in world.client.payments(booking_id)]
    assert stripe.moved() == {payment.payment_id: 1 for payment in ours if payment.status == "done"}
    assert all(payment.attempt == 1 for payment in ours)


def test_the_day_is_closed_and_agrees_with_what_stripe_says_of_it(
    world: World, stripe: LocalStripe, released: None
) -> None:
    """By the daily run, in the reconciler: it reads Stripe's key and asks for the day."""
    day = world.now().date()
    world.reach(world.now().replace(hour=3, minute=18, second=0, microsecond=0) + timedelta(days=1))

    def is_there() -> bool:
        try:
            world.client.call("GET", "/ledger/reconciliation", query={"day": day.isoformat()})
        except NotFound:
            return False
        return True

    assert world.wait(is_there)
    file = world.client.call("GET", "/ledger/reconciliation", query={"day": day.isoformat()})
    assert file["ours"] == file["provider"] != {}
    assert (file["differences"], file["difference"]) == (0, {"EUR": 0})
    balance = world.client.call("GET", "/ledger/trial-balance", query={"day": day.isoformat()})
    assert balance["closed"] is True
    assert sum(balance["closing"]["EUR"].values()) == 0


def test_no_function_was_refused_by_its_own_policies(world: World, released: None) -> None:
    log = world.aws.log.read_text(encoding="utf-8", errors="replace")
    assert "GetSecretValue" not in log
    assert "AccessDenied" not in log
