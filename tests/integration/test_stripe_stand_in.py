"""The stand-in keeps Stripe's own rules; asked through Stripe's library, whose classes say which fields there are."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import stripe

from duebook.adapters.stripe_payments import http_client
from local.stripe_fake import Fault, StripeFake, Trouble, shapes
from local.stripe_fake.server import API_KEY
from tests.stand_in import ACCOUNT, CHARGE, Clock, ready, session

NOW = datetime(2026, 11, 16, tzinfo=UTC)
TRANSFER: dict[str, Any] = {
    "amount": 30_000,
    "currency": "eur",
    "destination": ACCOUNT,
    "source_transaction": CHARGE,
    "transfer_group": "b1",
}


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.fixture
def fake(clock: Clock) -> Iterator[StripeFake]:
    with StripeFake(clock, hang=False, pause=clock.pause) as fake:
        ready(fake)
        yield fake


@pytest.fixture
def api(fake: StripeFake) -> Iterator[Any]:
    with session() as used:
        client = stripe.StripeClient(
            API_KEY, base_addresses={"api": fake.url}, http_client=http_client(used), max_network_retries=0
        )
        yield client.v1


def keyed(key: str) -> dict[str, Any]:
    return {"idempotency_key": key}


def replayed(raised: pytest.ExceptionInfo[stripe.StripeError]) -> bool:
    return (raised.value.headers or {}).get("Idempotent-Replayed") == "true"


def test_a_saved_result_is_replayed_for_24_hours_and_then_the_call_runs_again(
    fake: StripeFake, clock: Clock, api: Any
) -> None:
    first = api.transfers.create(TRANSFER, keyed("k1"))
    clock.now += timedelta(hours=24, seconds=-1)
    assert api.transfers.create(TRANSFER, keyed("k1")).id == first.id
    clock.now += timedelta(seconds=1)
    assert api.transfers.create(TRANSFER, keyed("k1")).id != first.id
    assert len(fake.state.transfers) == 2


def test_a_500_is_saved_and_replayed_with_the_header(fake: StripeFake, api: Any) -> None:
    fake.faults.append(Fault(trouble=Trouble.ERROR_AFTER))
    for again in (False, True):
        with pytest.raises(stripe.APIError) as raised:
            api.transfers.create(TRANSFER, keyed("k1"))
        assert replayed(raised) is again
    assert len(fake.state.transfers) == 1


def test_a_key_with_other_parameters_or_another_endpoint_is_refused(api: Any) -> None:
    api.transfers.create(TRANSFER, keyed("k1"))
    with pytest.raises(stripe.IdempotencyError):
        api.transfers.create(TRANSFER | {"amount": 1}, keyed("k1"))
    with pytest.raises(stripe.IdempotencyError):
        api.refunds.create({"charge": CHARGE, "amount": 1}, keyed("k1"))


def test_a_key_in_use_is_a_conflict(fake: StripeFake, api: Any) -> None:
    met: list[stripe.StripeError] = []

    def meanwhile(by: timedelta) -> None:
        with pytest.raises(stripe.APIError) as raised:
            api.transfers.create(TRANSFER, keyed("k1"))
        met.append(raised.value)

    fake.pause = meanwhile
    fake.faults.append(Fault(trouble=Trouble.SLOW))
    api.transfers.create(TRANSFER, keyed("k1"))
    (error,) = met
    assert error.error is not None
    assert (error.http_status, error.error.code) == (409, "idempotency_key_in_use")


@pytest.mark.parametrize("trouble", [Trouble.RATE_LIMIT, Trouble.UNAVAILABLE, Trouble.KEY_REFUSED])
def test_what_comes_before_the_idempotency_layer_is_not_saved(fake: StripeFake, api: Any, trouble: Trouble) -> None:
    fake.faults.append(Fault(trouble=trouble))
    with pytest.raises(stripe.StripeError):
        api.transfers.create(TRANSFER, keyed("k1"))
    assert not fake.keys
    assert api.transfers.create(TRANSFER, keyed("k1")).amount == 30_000


def test_what_fails_validation_is_not_saved_but_what_the_endpoint_refuses_is(fake: StripeFake, api: Any) -> None:
    with pytest.raises(stripe.InvalidRequestError):
        api.transfers.create({"amount": 1, "currency": "eur"}, keyed("k1"))
    assert not fake.keys
    with pytest.raises(stripe.InvalidRequestError):
        api.transfers.create(TRANSFER | {"destination": "acct_none"}, keyed("k1"))
    assert set(fake.keys) == {"k1"}


def test_transfers_of_a_charge_never_sum_to_more_than_it(fake: StripeFake, api: Any) -> None:
    for number in range(3):
        api.transfers.create(TRANSFER, keyed(f"k{number}"))
    with pytest.raises(stripe.InvalidRequestError):
        api.transfers.create(TRANSFER, keyed("k9"))
    with pytest.raises(stripe.InvalidRequestError):
        api.transfers.create(TRANSFER | {"amount": 1, "currency": "usd"}, keyed("k10"))
    assert api.balance.retrieve().available[0].amount == 10_000


def test_reversals_and_refunds_never_take_more_than_is_left(fake: StripeFake, api: Any) -> None:
    made = api.transfers.create(TRANSFER, keyed("k1"))
    api.transfers.reversals.create(made.id, {"amount": 20_000})
    with pytest.raises(stripe.InvalidRequestError):
        api.transfers.reversals.create(made.id, {"amount": 10_001})
    api.refunds.create({"charge": CHARGE, "amount": 60_000})
    with pytest.raises(stripe.InvalidRequestError):
        api.refunds.create({"charge": CHARGE, "amount": 40_001})
    assert api.balance.retrieve().available[0].amount == 100_000 - 30_000 + 20_000 - 60_000


def test_a_list_lags_and_is_paged_newest_first(fake: StripeFake, clock: Clock, api: Any) -> None:
    fake.state.lists_lag = timedelta(hours=1)
    ids = [api.transfers.create(TRANSFER | {"amount": 10}, keyed(f"k{number}")).id for number in range(12)]
    assert api.transfers.list({"transfer_group": "b1"}).data == []
    assert api.transfers.retrieve(ids[0]).id == ids[0]
    clock.now += timedelta(hours=1)
    page = api.transfers.list({"transfer_group": "b1"})
    assert ([found.id for found in page.data], page.has_more) == (ids[:1:-1], True)
    assert [found.id for found in page.auto_paging_iter()] == ids[::-1]
    assert api.transfers.list({"transfer_group": "b2"}).data == []


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (shapes.charge("ch_1", 1, "eur", 1), stripe.Charge),
        (shapes.transfer("tr_1", 1, "eur", 1), stripe.Transfer),
        (shapes.refund("re_1", 1, "eur", 1), stripe.Refund),
        (shapes.dispute("dp_1", 1, "eur", 1), stripe.Dispute),
        (shapes.balance({"eur": 1}), stripe.Balance),
        (shapes.balance_transaction("txn_1", "transfer", 1, "eur", 1, "tr_1"), stripe.BalanceTransaction),
        (shapes.event("evt_1", "charge.succeeded", {}, 1), stripe.Event),
    ],
)
def test_an_object_has_no_field_that_stripe_s_has_not_and_none_is_missing_that_must_be_there(
    made: dict[str, Any], kind: type
) -> None:
    fields = {name: str(hint) for name, hint in kind.__annotations__.items() if not name.startswith("_")}
    assert made.keys() <= fields.keys()
    always = {
        name
        for name, hint in fields.items()
        if "Optional" not in hint and "None" not in hint and "ClassVar" not in hint
    }
    assert always <= made.keys()
