"""The Stripe adapter over HTTP, through Stripe's own library, against the stand-in."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import requests
import stripe

from duebook.adapters import stripe_payments
from duebook.adapters.stripe_payments import ERRORS, Answer, StripePayments, http_client, rule_for
from duebook.domain.errors import AwsFailure
from duebook.domain.payment import Done, Failed, Kind, Mismatched, Movement, Payment, Uncertain
from duebook.service.ports import PaymentProvider
from local.stripe_fake import Fault, StripeFake, Trouble
from tests.stand_in import ACCOUNT, CHARGE, Clock, Secret, provider_of, ready, session

NOW = datetime(2026, 11, 16, tzinfo=UTC)
HOUR = timedelta(hours=1)
PAYOUT = Payment(
    payment_id="b1.p1",
    booking_id="b1",
    number=1,
    kind=Kind.PAYOUT,
    amount=85_000,
    currency="EUR",
    chef_id="ch-1",
    charge_ref=CHARGE,
    account=ACCOUNT,
    created_at=NOW,
    next_attempt_at=NOW,
)
REFUND = replace(PAYOUT, payment_id="b1.p2", number=2, kind=Kind.REFUND, amount=15_000)
BOTH = pytest.mark.parametrize("payment", [PAYOUT, REFUND], ids=["payout", "refund"])


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.fixture
def fake(clock: Clock) -> Iterator[StripeFake]:
    with StripeFake(clock, hang=False, pause=clock.pause) as fake:
        ready(fake)
        yield fake


@pytest.fixture
def used() -> Iterator[requests.Session]:
    with session() as used:
        yield used


@pytest.fixture
def provider(fake: StripeFake, used: requests.Session) -> StripePayments:
    return provider_of(fake, used)


def moved(fake: StripeFake) -> int:
    return len(fake.state.transfers) + len(fake.state.refunds) + len(fake.state.reversals)


def movement_of(payment: Payment, done: Done) -> Movement:
    return Movement(
        payment_id=payment.payment_id,
        kind=payment.kind,
        amount=payment.amount,
        currency=payment.currency,
        provider_ref=done.provider_ref,
    )


def fails(fake: StripeFake, trouble: Trouble, on: str = "POST ", **more: Any) -> None:
    fake.faults.append(Fault(trouble=trouble, on=on, **more))


# --- what is sent ------------------------------------------------------------------------------------------------


def test_a_payout_is_a_transfer_out_of_the_charge_to_the_chef_s_account(
    fake: StripeFake, provider: PaymentProvider
) -> None:
    assert (provider.by_event, provider.needs_account) == (False, True)
    done = provider.send(PAYOUT, NOW)
    (made,) = fake.state.transfers.values()
    assert done == Done(made["id"])
    assert (made["amount"], made["currency"], made["destination"]) == (85_000, "eur", ACCOUNT)
    assert (made["source_transaction"], made["transfer_group"]) == (CHARGE, "b1")
    assert made["metadata"] == {"reference": "b1.p1", "booking": "b1", "key": "b1.p1.e1"}
    (request,) = fake.sent("POST /v1/transfers")
    assert request.key == "b1.p1.e1"


def test_a_refund_goes_against_the_charge(fake: StripeFake, provider: PaymentProvider) -> None:
    done = provider.send(REFUND, NOW)
    (made,) = fake.state.refunds.values()
    assert done == Done(made["id"])
    assert (made["amount"], made["charge"], made["metadata"]["reference"]) == (15_000, CHARGE, "b1.p2")


def test_a_reversal_takes_back_from_the_transfer(fake: StripeFake, provider: PaymentProvider) -> None:
    done = provider.send(PAYOUT, NOW)
    assert isinstance(done, Done)
    reversal = replace(
        PAYOUT, payment_id="b1.p3", number=3, kind=Kind.REVERSAL, amount=40_000, of_ref=done.provider_ref
    )
    assert provider.find(reversal, NOW) is None
    back = provider.send(reversal, NOW)
    (made,) = fake.state.reversals.values()
    assert back == Done(made["id"]) == provider.find(reversal, NOW)
    assert fake.state.transfers[done.provider_ref]["amount_reversed"] == 40_000


def test_a_transfer_without_a_known_charge_comes_from_the_balance(fake: StripeFake, provider: PaymentProvider) -> None:
    assert isinstance(provider.send(replace(PAYOUT, charge_ref=None), NOW), Done)
    assert "source_transaction" not in fake.sent("POST ")[0].parameters


@pytest.mark.parametrize(
    "payment",
    [
        replace(PAYOUT, account=None),
        replace(REFUND, charge_ref=None),
        replace(PAYOUT, kind=Kind.REVERSAL, of_ref=None),
    ],
)
def test_what_has_nowhere_to_go_is_refused_without_a_call(
    fake: StripeFake, provider: PaymentProvider, payment: Payment
) -> None:
    assert isinstance(provider.send(payment, NOW), Failed)
    assert provider.find(payment, NOW) is None
    assert not fake.seen


# --- keys --------------------------------------------------------------------------------------------------------


@BOTH
def test_the_same_key_again_moves_nothing_more(fake: StripeFake, provider: PaymentProvider, payment: Payment) -> None:
    assert provider.send(payment, NOW) == provider.send(payment, NOW)
    assert moved(fake) == 1


@BOTH
def test_the_same_key_with_another_amount_is_a_mismatch(
    fake: StripeFake, provider: PaymentProvider, payment: Payment
) -> None:
    provider.send(payment, NOW)
    again = provider.send(replace(payment, amount=payment.amount - 1), NOW)
    assert isinstance(again, Mismatched)
    assert moved(fake) == 1


def test_the_same_reference_with_another_amount_is_found_as_a_mismatch(
    fake: StripeFake, provider: PaymentProvider
) -> None:
    provider.send(PAYOUT, NOW)
    found = provider.find(replace(PAYOUT, amount=1, epoch=2), NOW)
    assert isinstance(found, Mismatched)
    assert "amount 85000" in found.reason


def test_the_same_reference_to_another_account_is_found_as_a_mismatch(
    fake: StripeFake, provider: PaymentProvider
) -> None:
    provider.send(PAYOUT, NOW)
    assert isinstance(provider.find(replace(PAYOUT, account="acct_2", epoch=2), NOW), Mismatched)


def test_what_the_provider_made_otherwise_than_asked_is_a_mismatch() -> None:
    made = {"id": "tr_1", "amount": 84_999, "currency": "eur", "destination": ACCOUNT}
    assert stripe_payments._verdict(PAYOUT, made) == Mismatched("tr_1 has amount 84999")


def test_a_key_in_use_by_another_request_is_uncertain(
    fake: StripeFake, provider: PaymentProvider, used: requests.Session
) -> None:
    met: list[object] = []
    fake.pause = lambda by: met.append(provider_of(fake, used).send(PAYOUT, NOW))
    fails(fake, Trouble.SLOW)
    assert isinstance(provider.send(PAYOUT, NOW), Done)
    (other,) = met
    assert isinstance(other, Uncertain)
    assert "in use" in other.reason
    assert moved(fake) == 1


# --- look-ups ----------------------------------------------------------------------------------------------------


@BOTH
def test_it_is_found_by_its_reference_whatever_its_key(
    fake: StripeFake, provider: PaymentProvider, payment: Payment
) -> None:
    assert provider.find(payment, NOW) is None
    sent = provider.send(payment, NOW)
    assert provider.find(replace(payment, epoch=2), NOW) == sent
    assert provider.find(replace(payment, payment_id="b1.p9"), NOW) is None
    assert not [request for request in fake.seen if "search" in request.path]


def test_every_page_of_the_list_is_read(fake: StripeFake, provider: PaymentProvider) -> None:
    sent = provider.send(replace(PAYOUT, amount=10), NOW)
    for number in range(250):
        provider.send(replace(PAYOUT, payment_id=f"b1.p{number + 10}", amount=10), NOW)
    fake.seen.clear()
    assert provider.find(replace(PAYOUT, amount=10), NOW) == sent
    assert len(fake.sent("GET /v1/transfers")) == 3


def test_a_list_that_does_not_end_is_uncertain_not_empty(
    fake: StripeFake, provider: PaymentProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stripe_payments, "PAGE", 1)
    monkeypatch.setattr(stripe_payments, "MOST_PAGES", 2)
    for number in range(4):
        provider.send(replace(PAYOUT, payment_id=f"b1.p{number}", amount=10), NOW)
    assert isinstance(provider.find(replace(PAYOUT, payment_id="b1.p9"), NOW), Uncertain)


def test_a_look_up_that_takes_too_long_is_uncertain(
    fake: StripeFake, used: requests.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stripe_payments, "PAGE", 1)
    ticks = iter(range(0, 1_000, 20))
    provider = StripePayments(Secret(), api_base=fake.url, http=http_client(used), elapsed=lambda: float(next(ticks)))
    for number in range(8):
        provider.send(replace(PAYOUT, payment_id=f"b1.p{number}", amount=10), NOW)
    assert isinstance(provider.find(replace(PAYOUT, payment_id="b1.p9"), NOW), Uncertain)
    assert len(fake.sent("GET /v1/transfers")) == 2


def test_a_look_up_that_fails_is_uncertain(fake: StripeFake, provider: PaymentProvider) -> None:
    for trouble in (Trouble.ERROR_BEFORE, Trouble.RATE_LIMIT, Trouble.RESET_BEFORE, Trouble.TIME_OUT_BEFORE):
        fails(fake, trouble, "GET ")
        assert isinstance(provider.find(PAYOUT, NOW), Uncertain)


def test_a_transfer_in_the_charge_s_own_group_is_found_too(fake: StripeFake, provider: PaymentProvider) -> None:
    """Whose group wins is undocumented, so the look-up leans on neither."""
    sent = provider.send(PAYOUT, NOW)
    assert isinstance(sent, Done)
    fake.state.transfers[sent.provider_ref]["transfer_group"] = "theirs"
    fake.state.charges[CHARGE]["transfer_group"] = "theirs"
    assert provider.find(PAYOUT, NOW) == sent


def test_a_charge_that_this_api_key_does_not_know_leaves_the_look_up_uncertain(
    fake: StripeFake, provider: PaymentProvider
) -> None:
    """An API key of another account or mode sees empty lists: that proves nothing."""
    fake.state.charges.clear()
    assert isinstance(provider.find(PAYOUT, NOW), Uncertain)


def test_a_refund_that_failed_later_is_found_as_failed_unless_another_one_went(
    fake: StripeFake, provider: PaymentProvider
) -> None:
    fake.state.refund_status = "failed"
    assert isinstance(provider.send(REFUND, NOW), Failed)
    assert isinstance(provider.find(REFUND, NOW), Failed)
    fake.state.refund_status = "pending"
    sent = provider.send(replace(REFUND, epoch=2), NOW)
    assert isinstance(sent, Done)
    assert provider.find(replace(REFUND, epoch=2), NOW) == sent


def test_a_day_s_movements_are_what_the_provider_moved_for_references_of_ours(
    fake: StripeFake, provider: PaymentProvider, clock: Clock
) -> None:
    payout, refund = provider.send(PAYOUT, NOW), provider.send(REFUND, NOW)
    assert isinstance(payout, Done)
    assert isinstance(refund, Done)
    clock.now += timedelta(days=1)
    reversal = replace(PAYOUT, payment_id="b1.p3", kind=Kind.REVERSAL, amount=500, of_ref=payout.provider_ref)
    back = provider.send(reversal, NOW)
    assert isinstance(back, Done)
    fake.state.refunded_by_hand(CHARGE, 1)
    first, second = (provider.movements(day) for day in (NOW.date(), clock.now.date()))
    assert first == [movement_of(PAYOUT, payout), movement_of(REFUND, refund)]
    assert second == [movement_of(reversal, back)]


def test_a_day_that_cannot_be_read_to_its_end_is_not_told(fake: StripeFake, provider: PaymentProvider) -> None:
    fails(fake, Trouble.RATE_LIMIT, "GET ")
    assert provider.movements(NOW.date()) is None


# --- faults ------------------------------------------------------------------------------------------------------

UNCERTAIN_AND_MOVED = [Trouble.TIME_OUT_AFTER, Trouble.RESET_AFTER]
UNCERTAIN_AND_STILL = [Trouble.TIME_OUT_BEFORE, Trouble.RESET_BEFORE, Trouble.UNAVAILABLE, Trouble.RATE_LIMIT]


@BOTH
@pytest.mark.parametrize("trouble", UNCERTAIN_AND_MOVED + UNCERTAIN_AND_STILL)
def test_without_an_answer_it_is_uncertain_and_the_same_key_settles_it(
    fake: StripeFake, provider: PaymentProvider, payment: Payment, trouble: Trouble
) -> None:
    fails(fake, trouble)
    first = provider.send(payment, NOW)
    assert isinstance(first, Uncertain)
    assert not first.saved_error
    assert moved(fake) == (1 if trouble in UNCERTAIN_AND_MOVED else 0)
    assert isinstance(provider.send(payment, NOW), Done)
    assert moved(fake) == 1


@BOTH
@pytest.mark.parametrize("trouble", [Trouble.ERROR_BEFORE, Trouble.ERROR_AFTER])
def test_a_500_is_replayed_under_its_key_so_it_has_to_be_looked_up(
    fake: StripeFake, provider: PaymentProvider, payment: Payment, trouble: Trouble
) -> None:
    fails(fake, trouble)
    fresh, again = provider.send(payment, NOW), provider.send(payment, NOW)
    assert isinstance(fresh, Uncertain)
    assert isinstance(again, Uncertain)
    assert (fresh.saved_error, again.saved_error) == (False, True)
    found = provider.find(payment, NOW)
    assert isinstance(found, Done) if trouble is Trouble.ERROR_AFTER else found is None


@pytest.mark.parametrize("trouble", [Trouble.REFUSED, Trouble.CARD])
def test_a_refusal_is_definite_and_its_replay_is_known_as_one(
    fake: StripeFake, provider: PaymentProvider, trouble: Trouble
) -> None:
    fails(fake, trouble)
    assert isinstance(provider.send(PAYOUT, NOW), Failed)
    again = provider.send(PAYOUT, NOW)
    assert isinstance(again, Uncertain)
    assert again.saved_error
    assert isinstance(provider.send(replace(PAYOUT, epoch=2), NOW), Done)


def test_an_account_that_cannot_take_transfers_is_definite(fake: StripeFake, provider: PaymentProvider) -> None:
    fake.state.account(ACCOUNT, enabled=False)
    failed = provider.send(PAYOUT, NOW)
    assert isinstance(failed, Failed)
    assert "insufficient_capabilities_for_transfer" in failed.reason
    assert isinstance(provider.send(replace(PAYOUT, account="acct_0", epoch=2), NOW), Failed)


def test_more_than_the_charge_is_refused(fake: StripeFake, provider: PaymentProvider) -> None:
    provider.send(PAYOUT, NOW)
    assert isinstance(provider.send(replace(PAYOUT, payment_id="b1.p2"), NOW), Failed)
    assert moved(fake) == 1


def test_a_slow_answer_is_still_an_answer(fake: StripeFake, provider: PaymentProvider, clock: Clock) -> None:
    fails(fake, Trouble.SLOW, by=timedelta(seconds=14))
    assert isinstance(provider.send(PAYOUT, NOW), Done)
    assert clock.now == NOW + timedelta(seconds=14)


def test_a_caller_that_waits_in_vain_gives_up_at_its_own_time_out(used: requests.Session) -> None:
    with StripeFake(Clock(NOW)) as fake:
        ready(fake)
        provider = StripePayments(Secret(), api_base=fake.url, http=http_client(used, read_seconds=0.05))
        fails(fake, Trouble.TIME_OUT_AFTER)
        assert isinstance(provider.send(PAYOUT, NOW), Uncertain)
        assert moved(fake) == 1


def test_an_attempt_is_one_request_whatever_it_meets(fake: StripeFake, provider: PaymentProvider) -> None:
    for trouble in (Trouble.RESET_BEFORE, Trouble.UNAVAILABLE, Trouble.RATE_LIMIT, Trouble.ERROR_BEFORE):
        fake.seen.clear()
        fails(fake, trouble)
        provider.send(PAYOUT, NOW)
        assert len(fake.seen) == 1


def test_nobody_there_is_uncertain(used: requests.Session) -> None:
    with StripeFake(Clock(NOW)) as gone:
        pass
    assert isinstance(provider_of(gone, used).send(PAYOUT, NOW), Uncertain)


# --- the table of errors -----------------------------------------------------------------------------------------

NO_ERROR = Answer(status=None, type=None, code=None, replayed=False, request_id=None)


@pytest.mark.parametrize(
    ("answer", "outcome", "saved"),
    [
        ({}, Uncertain, False),
        ({"status": 400, "type": "invalid_request_error"}, Failed, False),
        ({"status": 400, "type": "invalid_request_error", "code": "balance_insufficient"}, Failed, False),
        ({"status": 400, "type": "invalid_request_error", "code": "account_closed"}, Failed, False),
        ({"status": 403, "type": "invalid_request_error", "code": "account_invalid"}, Failed, False),
        ({"status": 404, "type": "invalid_request_error", "code": "resource_missing"}, Failed, False),
        ({"status": 402, "type": "card_error", "code": "card_declined"}, Failed, False),
        ({"status": 400, "type": "idempotency_error"}, Mismatched, False),
        ({"status": 409, "type": "idempotency_error", "code": "idempotency_key_in_use"}, Uncertain, False),
        ({"status": 400, "type": "invalid_request_error", "code": "rate_limit"}, Uncertain, False),
        ({"status": 429, "type": "invalid_request_error", "code": "rate_limit"}, Uncertain, False),
        ({"status": 429, "type": "invalid_request_error", "code": "lock_timeout"}, Uncertain, False),
        ({"status": 401, "type": "invalid_request_error"}, Uncertain, False),
        ({"status": 403, "type": "invalid_request_error"}, Uncertain, False),
        ({"status": 424, "type": "api_error"}, Uncertain, False),
        ({"status": 500, "type": "api_error"}, Uncertain, False),
        ({"status": 502}, Uncertain, False),
        ({"status": 503}, Uncertain, False),
        ({"status": 504}, Uncertain, False),
        ({"status": 500, "type": "api_error", "replayed": True}, Uncertain, True),
        ({"status": 402, "type": "card_error", "replayed": True}, Uncertain, True),
        ({"status": 400, "type": "invalid_request_error", "replayed": True}, Uncertain, True),
        ({"status": 418}, Uncertain, False),
    ],
)
def test_an_error_means_what_the_table_says(answer: dict[str, Any], outcome: type, saved: bool) -> None:
    met = replace(NO_ERROR, **answer)
    found = rule_for(met).outcome("it")
    assert type(found) is outcome
    assert getattr(found, "saved_error", False) is saved


def test_every_rule_cites_stripe_s_documentation_and_has_its_own_name() -> None:
    assert all(rule.source.startswith("https://docs.stripe.com/") for rule in ERRORS)
    assert len({rule.name for rule in ERRORS}) == len(ERRORS)


def test_only_what_is_surely_final_is_final() -> None:
    """Kind: an error that a later version of the API brings must not count as a refusal."""
    for status in (None, *range(500, 600)):
        assert isinstance(rule_for(replace(NO_ERROR, status=status)).outcome("it"), Uncertain)


# --- the API key -------------------------------------------------------------------------------------------------


def test_a_refused_api_key_is_read_anew_once(fake: StripeFake, used: requests.Session) -> None:
    secret = Secret("sk_test_old")
    secret.stored = next(iter(fake.api_keys))
    provider = provider_of(fake, used, secret)
    assert isinstance(provider.send(PAYOUT, NOW), Done)
    assert isinstance(provider.send(replace(PAYOUT, payment_id="b1.p5", amount=10), NOW), Done)
    assert secret.read == 1


def test_a_refused_api_key_that_is_still_the_same_is_not_tried_again(fake: StripeFake, used: requests.Session) -> None:
    secret = Secret("sk_test_old")
    refused = provider_of(fake, used, secret).send(PAYOUT, NOW)
    assert isinstance(refused, Uncertain)
    assert "sk_test" not in refused.reason
    assert (secret.read, len(fake.seen)) == (1, 1)


def test_a_secret_that_cannot_be_read_is_uncertain(fake: StripeFake, used: requests.Session) -> None:
    class Unreadable(Secret):
        def value(self) -> str:
            raise AwsFailure("no", aws_code="AccessDeniedException")

    provider = provider_of(fake, used, Unreadable())
    assert provider.send(PAYOUT, NOW) == Uncertain("the API key could not be read: AccessDeniedException")
    assert isinstance(provider.find(PAYOUT, NOW), Uncertain)
    assert not fake.seen


def test_nothing_tells_stripe_about_the_machine_and_nothing_logs_the_api_key(
    fake: StripeFake, provider: PaymentProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    provider.send(PAYOUT, NOW)
    assert not stripe.enable_telemetry
    assert "sk_test" not in caplog.text
    assert "sk_test" not in repr(provider)
