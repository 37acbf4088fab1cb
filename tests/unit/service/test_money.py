"""Money through the real functions: holds, pauses, retries, chargebacks, the day's books; each pays once."""

from itertools import pairwise
from typing import Any

import pytest

from duebook.adapters.payments import LedgerPayments
from duebook.domain.booking import State
from duebook.domain.errors import ConditionFailed, Refused, VersionConflict
from duebook.domain.payment import LONGEST_LOOK, LONGEST_PARKED, Done, Failed, Mismatched, Outcome, Payment
from duebook.domain.times import parse
from duebook.domain.transitions import Step
from duebook.handlers import payments_worker
from duebook.service import chefs, ledger, outside, rows
from tests.unit.builders import DAY, HOUR, MINUTE, RELEASE
from tests.unit.handlers.api_events import call
from tests.unit.world import World


def sends(world: World) -> list[tuple[str, str, int]]:
    """Every key that the provider was asked to move money for: the payment, the kind, the amount."""
    moved = (row for row in world.table.rows() if row["pk"].startswith("transfers#"))
    return sorted((row["payment_id"], row["kind"], row["amount"]) for row in moved)


def payment(world: World, payment_id: str = "b1.p1") -> Payment:
    return world.bookings.payment(payment_id)


PAYOUT = ("b1.p1", "payout", 90_000)


# --- chefs -----------------------------------------------------------------------------------------------------------


def test_a_payout_to_a_held_chef_parks_is_listed_and_goes_when_the_hold_ends(world: World) -> None:
    world.paid()
    call("POST", "/chefs/ch-1/hold", {"reason": "papers are missing"})
    world.travel_to(RELEASE + HOUR)
    assert sends(world) == []
    (listed,) = call("GET", "/chefs/ch-1/parked").body["parked"]
    assert (listed["payment_id"], listed["amount_minor"]) == ("b1.p1", 90_000)
    assert listed["reason"] == "the chef is held: papers are missing"
    assert call("POST", "/chefs/ch-1/unhold").body["applied"] is True
    world.deliver()
    assert sends(world) == [PAYOUT]
    assert call("GET", "/chefs/ch-1/parked").body["parked"] == []
    assert world.state() == State.PAID_OUT


def test_the_end_of_a_hold_wakes_all_that_is_parked_past_one_that_keeps_changing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [f"b{number}" for number in range(1, 6)]
    for booking_id in ids:
        world.paid(booking_id)
    chefs.hold(world.bookings, "ch-1", None)
    world.travel_to(RELEASE + HOUR)
    monkeypatch.setattr(chefs, "PAGE", 2)
    change = world.bookings.change

    def one_keeps_changing(booking_id: str, *more: Any) -> Any:
        if booking_id == "b2":
            raise VersionConflict("b2 kept changing")
        return change(booking_id, *more)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(world.bookings, "change", one_keeps_changing)
        chefs.unhold(world.bookings, "ch-1")
    assert [row["payment_id"] for row in chefs.parked(world.table, "ch-1").items] == ["b2.p1"]
    chefs.unhold(world.bookings, "ch-1")
    world.deliver()
    assert sorted(id_ for id_, _, _ in sends(world)) == [f"{booking_id}.p1" for booking_id in ids]


def test_two_unholds_pay_once(world: World) -> None:
    world.paid()
    chefs.hold(world.bookings, "ch-1", None)
    world.travel_to(RELEASE + HOUR)
    assert call("POST", "/chefs/ch-1/unhold").body["applied"] is True
    assert call("POST", "/chefs/ch-1/unhold").body["applied"] is False
    world.deliver()
    call("POST", "/chefs/ch-1/unhold")
    world.deliver()
    assert sends(world) == [PAYOUT]


def test_what_is_parked_is_looked_at_after_a_day_then_ever_later_and_after_90_days_a_person_has_to(
    world: World,
) -> None:
    world.paid()
    chefs.hold(world.bookings, "ch-1", None)
    world.travel_to(RELEASE + MINUTE)
    first = payment(world).next_attempt_at
    assert first is not None
    world.travel_to(RELEASE + DAY + MINUTE)
    assert payment(world).next_attempt_at == first + DAY
    assert payment(world).attempt == 0
    world.travel_to(RELEASE + LONGEST_PARKED + HOUR)
    assert payment(world).needs_attention
    parked = [row for row in world.history() if row["type"] == "payment.parked"]
    looks = [parse(row["at"]).replace(second=0) for row in parked]
    assert [(later - look) // DAY for look, later in pairwise(looks)] == [1, 1, 2, 4] + [7] * 11
    assert looks[-1] + LONGEST_LOOK > looks[0] + LONGEST_PARKED
    chefs.unhold(world.bookings, "ch-1")
    world.deliver()
    assert sends(world) == [PAYOUT]


def test_a_hold_that_comes_between_the_look_and_the_claim_stops_the_send(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.paid()
    real = chefs.guards

    def held_meanwhile(*read: Any) -> Any:
        monkeypatch.setattr(chefs, "guards", real)
        chefs.hold(world.bookings, "ch-1", None)
        return real(*read)

    monkeypatch.setattr(chefs, "guards", held_meanwhile)
    world.travel_to(RELEASE + HOUR)
    assert sends(world) == []
    assert payment(world).parked_since is not None


def test_a_hold_that_ends_between_the_look_and_the_parking_lets_the_payment_go(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.paid()
    chefs.hold(world.bookings, "ch-1", None)
    real = chefs.guards

    def ended_meanwhile(*read: Any) -> Any:
        monkeypatch.setattr(chefs, "guards", real)
        chefs.unhold(world.bookings, "ch-1")
        return real(*read)

    monkeypatch.setattr(chefs, "guards", ended_meanwhile)
    world.travel_to(RELEASE + HOUR)
    assert sends(world) == [PAYOUT]


def test_a_hold_after_the_claim_changes_nothing_of_the_send(world: World) -> None:
    world.paid()
    real = world.provider.send

    def send(payment: Payment, now: Any) -> Outcome:
        chefs.hold(world.bookings, "ch-1", None)
        return real(payment, now)

    world.provider.send = send  # type: ignore[method-assign]
    world.travel_to(RELEASE + HOUR)
    assert sends(world) == [PAYOUT]
    assert world.state() == State.PAID_OUT


def test_a_disabled_chef_is_not_paid_until_enabled_and_a_refund_goes_all_the_same(world: World) -> None:
    world.paid()
    assert call("PUT", "/chefs/ch-1", {"account": "acct_1", "enabled": False}).body["applied"] is True
    assert call("PUT", "/chefs/ch-1", {"account": "acct_1", "enabled": False}).body["applied"] is False
    world.cancel(refund_minor=40_000)
    world.deliver()
    assert sends(world) == [("b1.p1", "refund", 40_000)]
    call("PUT", "/chefs/ch-1", {"account": "acct_1", "enabled": True})
    world.deliver()
    assert sends(world) == [("b1.p1", "refund", 40_000), ("b1.p2", "payout", 54_000)]
    assert payment(world, "b1.p2").account == "acct_1"
    assert call("GET", "/chefs/ch-1").body["version"] == 2
    assert call("GET", "/chefs/nobody").status == 404


def test_a_provider_that_needs_an_account_parks_without_one(world: World) -> None:
    assert isinstance(world.provider, LedgerPayments)
    world.provider.needs_account = True
    world.paid()
    world.travel_to(RELEASE + HOUR)
    assert payment(world).reason == "the chef has no connected account"
    call("PUT", "/chefs/ch-1", {"account": "acct_1"})
    world.deliver()
    assert sends(world) == [PAYOUT]


def test_the_switch_pauses_all_payouts_at_once_and_within_the_hour_they_go_again(world: World) -> None:
    world.paid()
    world.paid("b2")
    assert call("POST", "/payouts/pause", {"reason": "audit"}).body == {
        "paused": True, "reason": "audit", "version": 1, "applied": True,
    }  # fmt: skip
    assert call("POST", "/payouts/pause", {}).body["applied"] is False
    world.travel_to(RELEASE + 90 * MINUTE)
    assert sends(world) == []
    assert call("GET", "/payouts").body["paused"] is True
    call("POST", "/payouts/resume")
    world.travel_to(RELEASE + 3 * HOUR)
    assert sends(world) == [PAYOUT, ("b2.p1", "payout", 90_000)]


# --- answers ---------------------------------------------------------------------------------------------------------


def _answers(world: World, *outcomes: Outcome) -> list[str]:
    left, keys = list(outcomes), []

    def send(payment: Payment, now: Any) -> Outcome:
        keys.append(payment.key)
        return left.pop(0) if len(left) > 1 else left[0]

    world.provider.send = send  # type: ignore[method-assign]
    world.provider.find = lambda payment, now: None  # type: ignore[method-assign]
    return keys


def test_another_amount_under_our_reference_is_refused_with_an_alarm_and_never_sent_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []
    monkeypatch.setattr(payments_worker, "count", lambda name, *_: counted.append(name))
    keys = _answers(world, Mismatched("tr_9 moved 1 EUR"))
    world.paid()
    world.travel_to(RELEASE + 400 * DAY)
    assert keys == ["b1.p1.e1"]
    assert counted == ["PaymentMismatch"]
    refused = call("POST", "/payments/b1.p1/retry", {})
    assert (refused.status, refused.body["error"]["code"]) == (409, "mismatched")
    (listed,) = call("GET", "/dead-letters", query={"kind": "needs_attention"}).body["dead_letters"]
    assert (listed["payment_id"], listed["amount_minor"], listed["currency"]) == ("b1.p1", 90_000, "EUR")


def test_retry_pressed_twice_after_a_refusal_is_one_new_attempt(world: World) -> None:
    keys = _answers(world, Failed("account closed"), Done("tr_1"))
    world.paid()
    world.travel_to(RELEASE + HOUR)
    assert call("POST", "/payments/b1.p1/retry", {}).body["applied"] is True
    assert call("POST", "/payments/b1.p1/retry", {}).body["applied"] is False
    world.deliver()
    assert call("POST", "/payments/b1.p1/retry", {}).body["applied"] is False
    world.deliver()
    assert keys == ["b1.p1.e1", "b1.p1.e2"]
    assert call("POST", "/payments/b1.p9/retry", {}).status == 404


def test_nothing_is_tried_for_ever_even_when_every_worker_dies_after_its_claim(world: World) -> None:
    tried = 0

    def dies(payment: Payment, now: Any) -> Outcome:
        nonlocal tried
        tried += 1
        raise SystemError("the worker died")

    world.provider.send = dies  # type: ignore[method-assign]
    world.provider.find = lambda payment, now: None  # type: ignore[method-assign]
    world.paid()
    world.travel_sweeping(RELEASE + 3 * DAY, HOUR)
    world.travel_sweeping(RELEASE + 60 * DAY, 12 * HOUR)
    assert 1 < tried <= 40
    assert payment(world).needs_attention
    before = tried
    world.travel_sweeping(RELEASE + 120 * DAY, DAY)
    assert tried == before


# --- money that moves without us -------------------------------------------------------------------------------------


def test_a_chargeback_after_the_payout_is_taken_back_from_the_chef(world: World) -> None:
    world.paid()
    world.travel_to(RELEASE + HOUR)
    assert outside.charged_back(world.bookings, "b1", "dp_1", 100_000, "fraud") is True
    assert outside.charged_back(world.bookings, "b1", "dp_1", 100_000, "fraud") is False
    assert call("GET", "/bookings/b1/ledger").body["balance"]["receivable_minor"] == 90_000
    world.deliver()
    assert sends(world) == [PAYOUT, ("b1.p2", "reversal", 90_000)]
    assert payment(world, "b1.p2").of_ref == payment(world).provider_ref
    assert call("GET", "/bookings/b1/ledger").body["balance"] == {
        "currency": "EUR", "captured_minor": 100_000, "refunded_minor": 100_000, "net_paid_out_minor": 0,
        "fee_minor": 0, "held_minor": 0, "receivable_minor": 0,
    }  # fmt: skip


def test_a_reversal_that_the_provider_does_not_allow_waits_for_a_person_with_its_amount(world: World) -> None:
    world.paid()
    world.travel_to(RELEASE + HOUR)
    _answers(world, Failed("the balance is too low"))
    outside.refunded_outside(world.bookings, "b1", "re_1", 50_000)
    world.deliver()
    (listed,) = call("GET", "/dead-letters", query={"kind": "needs_attention"}).body["dead_letters"]
    assert (listed["payment_id"], listed["payment_kind"], listed["amount_minor"]) == ("b1.p2", "reversal", 45_000)
    assert call("GET", "/bookings/b1").body["receivable_minor"] == 45_000
    assert outside.payment_came_back(world.bookings, "b1.p1", "trr_hand", 45_000, "reversed by hand") is True
    assert call("GET", "/bookings/b1").body["receivable_minor"] == 0
    assert payment(world, "b1.p2").status == "void"


def test_a_chargeback_parks_a_payout_that_was_decided_and_a_win_lets_it_go(world: World) -> None:
    world.paid()
    chefs.pause(world.bookings, True, None)
    world.travel_to(RELEASE + MINUTE)
    outside.charged_back(world.bookings, "b1", "dp_1", 100_000, "fraud")
    chefs.pause(world.bookings, False, None)
    world.travel_to(RELEASE + 3 * DAY)
    assert sends(world) == []
    assert payment(world).reason == "a chargeback is open"
    assert call("POST", "/bookings/b1/cancel", {"actor": {"role": "operator"}}).status == 409
    outside.chargeback_closed(world.bookings, "b1", "dp_1", 100_000, True)
    world.deliver()
    assert sends(world) == [PAYOUT]


def test_a_refund_that_fails_after_it_was_done_waits_for_a_person_who_pays_it_again(world: World) -> None:
    world.paid()
    world.cancel(refund_minor=100_000)
    with pytest.raises(Refused):
        outside.payment_came_back(world.bookings, "b1.p1", "re_0", 100_000, "too early")
    world.deliver()
    assert outside.payment_came_back(world.bookings, "b1.p1", "re_1", 100_000, "the card is gone") is True
    assert outside.payment_came_back(world.bookings, "b1.p1", "re_1", 100_000, "the card is gone") is False
    world.deliver()
    assert sends(world) == [("b1.p1", "refund", 100_000)]
    call("POST", "/payments/b1.p2/retry", {})
    world.deliver()
    assert sends(world) == [("b1.p1", "refund", 100_000), ("b1.p2", "refund", 100_000)]


# --- the books -------------------------------------------------------------------------------------------------------


def test_a_day_is_closed_once_it_is_over_and_its_balances_sum_to_nothing(world: World) -> None:
    world.paid()
    day = world.now.date()
    shown = call("GET", "/ledger/trial-balance", query={"day": day.isoformat()}).body
    assert (shown["closed"], shown["movement"]["EUR"]["cash"]) == (False, 100_000)
    world.travel_to(RELEASE + HOUR)
    world.now += 2 * DAY
    world.reconcile()
    closed = call("GET", "/ledger/trial-balance", query={"day": RELEASE.date().isoformat()}).body
    assert closed["closed"] is True
    assert closed["movement"]["EUR"]["chef_payable"] == 0
    assert closed["closing_shown"]["EUR"]["fee"] == "-100.00"
    assert all(sum(of.values()) == 0 for of in closed["closing"].values())
    assert ledger.close(world.bookings, world.now) == []
    assert call("GET", "/ledger/trial-balance", query={"day": "2026-02-30"}).status == 422


def test_the_reconciliation_file_tells_ours_the_providers_and_the_difference(world: World) -> None:
    world.paid()
    world.travel_to(RELEASE + HOUR)
    day = RELEASE.date()
    agreed = ledger.reconcile_day(world.bookings, world.provider, day)
    assert (agreed["ours"], agreed["provider"], agreed["difference"]) == ({"EUR": 90_000}, {"EUR": 90_000}, {"EUR": 0})
    world.provider.send(Payment(**{**_fields(payment(world)), "epoch": 2}), world.now)
    differs = ledger.reconcile_day(world.bookings, world.provider, day)
    assert differs["lines"] == [
        {"payment_id": "b1.p1", "currency": "EUR", "ours": 90_000, "provider": 180_000, "difference": -90_000}
    ]
    assert call("GET", "/ledger/reconciliation", query={"day": day.isoformat()}).body["differences"] == 1
    assert call("GET", "/ledger/reconciliation", query={"day": "2020-01-01"}).status == 404


def test_a_day_that_could_not_be_compared_is_compared_by_the_next_run(world: World) -> None:
    world.paid()
    world.travel_to(RELEASE + HOUR)
    world.now += DAY
    movements = world.provider.movements

    def down(day: Any) -> Any:
        raise ConnectionError("the provider is down")

    world.provider.movements = down  # type: ignore[method-assign]
    assert world.reconcile()["phase"] == "done"
    query = {"day": RELEASE.date().isoformat()}
    assert call("GET", "/ledger/trial-balance", query=query).body["closed"] is True
    assert call("GET", "/ledger/reconciliation", query=query).status == 404
    world.provider.movements = movements  # type: ignore[method-assign]
    world.reconcile()
    assert call("GET", "/ledger/reconciliation", query=query).body["ours"] == {"EUR": 90_000}


def test_what_the_marketplace_moves_itself_cannot_be_compared(world: World) -> None:
    world.use_external_payments()
    file = ledger.reconcile_day(world.bookings, world.provider, RELEASE.date())
    assert (file["provider"], file["difference"], file["differences"]) == (None, None, 0)


def test_no_entry_is_ever_written_over(world: World) -> None:
    world.paid()
    (row,) = call("GET", "/bookings/b1/ledger").body["entries"]
    assert row["shown"] == {"cash": "1000.00", "held": "-1000.00"}
    booking = world.bookings.load("b1")
    assert booking is not None
    again = Step(type="booking.paid", booking=booking, at=world.now, reason="again")
    with pytest.raises(ConditionFailed):
        world.table.write(*rows.ledger_puts(None, again))


def _fields(value: Payment) -> dict[str, Any]:
    return {name: getattr(value, name) for name in Payment.__dataclass_fields__}
