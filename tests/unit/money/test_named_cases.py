"""One case of each thing that makes money move twice elsewhere."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
import requests

from duebook.domain.payment import Status
from duebook.service.webhook import handle
from local.stripe_fake import Fault, StripeFake, Trouble
from tests.stand_in import CHARGE
from tests.unit.builders import DAY, HOUR, MINUTE, RELEASE
from tests.unit.money.drive import Paying

pytestmark = [pytest.mark.loopback, pytest.mark.usefixtures("socket_enabled")]


@pytest.fixture
def paying(monkeypatch: pytest.MonkeyPatch, fake: StripeFake, used: requests.Session) -> Paying:
    made = Paying(monkeypatch, fake, used)
    made.world.paid()
    return made


def keys(paying: Paying) -> list[str | None]:
    return [request.key for request in paying.fake.sent("POST ")]


def test_a_time_out_after_success_is_settled_by_the_same_key(paying: Paying) -> None:
    paying.fake.faults.append(Fault(trouble=Trouble.TIME_OUT_AFTER))
    paying.world.travel_to(RELEASE)
    (payment,) = paying.payments()
    assert payment.status is Status.UNKNOWN
    assert len(paying.moved(payment)) == 1
    paying.world.travel_to(RELEASE + 10 * MINUTE)
    assert keys(paying) == ["b1.p1.e1", "b1.p1.e1"]
    assert not paying.fake.sent("GET ")
    paying.check()


@pytest.mark.parametrize("days", [1, 30, 365])
def test_a_forgotten_key_is_not_sent_again_but_looked_up(paying: Paying, days: int) -> None:
    """The answer was lost, and the next wake-up comes when the provider knows the key no more."""
    paying.fake.faults.append(Fault(trouble=Trouble.TIME_OUT_AFTER))
    paying.world.travel_to(RELEASE)
    paying.world.now += days * DAY
    paying.fake.forget_keys()
    paying.back()
    assert keys(paying) == ["b1.p1.e1"]
    assert paying.fake.sent("GET /v1/transfers")
    paying.check()


def test_a_forgotten_key_of_what_never_went_gets_a_new_epoch(paying: Paying) -> None:
    paying.fake.faults.append(Fault(trouble=Trouble.RESET_BEFORE))
    paying.world.travel_to(RELEASE)
    paying.world.now += 30 * DAY
    paying.back()
    assert keys(paying) == ["b1.p1.e1", "b1.p1.e2"]
    paying.check()


def test_a_list_that_lags_is_not_believed_too_early(paying: Paying) -> None:
    """A saved 500 whose transfer went: looked up only once the lists have had their two hours."""
    paying.fake.faults.append(Fault(trouble=Trouble.ERROR_AFTER, lag=119 * MINUTE))
    paying.world.travel_to(RELEASE + HOUR)
    (payment,) = paying.payments()
    assert payment.look_up_first
    assert not paying.fake.sent("GET ")
    paying.world.travel_to(RELEASE + 3 * HOUR)
    assert set(keys(paying)) == {"b1.p1.e1"}
    assert paying.fake.sent("GET /v1/transfers")
    paying.check()


def test_a_worker_that_outlives_its_lease_pays_nothing_twice(paying: Paying) -> None:
    paying.fake.faults.append(Fault(trouble=Trouble.SLOW, by=timedelta(minutes=10)))
    paying.world.travel_to(RELEASE)
    paying.again()
    paying.check()


def test_another_amount_under_our_reference_is_never_sent_over(paying: Paying) -> None:
    """Somebody moved part of it by hand, and named our reference."""
    paying.fake.faults.append(Fault(trouble=Trouble.RESET_BEFORE))
    paying.world.travel_to(RELEASE)
    by_hand: Mapping[str, Any] = {
        "amount": 100,
        "currency": "eur",
        "destination": "acct_1",
        "transfer_group": "b1",
        "metadata": {"reference": "b1.p1"},
    }
    paying.state.transfer(by_hand)
    paying.world.now += DAY
    paying.back()
    (payment,) = paying.payments()
    assert payment.status is Status.MISMATCHED
    paying.retry(payment)
    paying.world.travel_to(paying.world.now + 30 * DAY)
    assert len(paying.moved(payment)) == 1
    assert "payment.mismatch" in paying.world.types()


def test_a_chargeback_after_the_payout_is_taken_back_from_the_transfer_once(paying: Paying) -> None:
    world = paying.world
    world.travel_to(RELEASE)
    paying.check()
    paying.state.disputed(CHARGE)
    opened = paying.state.events[-1]
    assert opened["type"] == "charge.dispute.created"
    paying.fake.faults.append(Fault(trouble=Trouble.TIME_OUT_AFTER))
    for _ in range(2):
        handle(world.bookings, opened)
        world.deliver()
    paying.settle()
    paying.check()
    assert [payment.kind for payment in paying.payments()] == ["payout", "reversal"]
    (reversal,) = paying.state.reversals.values()
    (transfer,) = paying.state.transfers.values()
    assert reversal["transfer"] == transfer["id"]
    assert paying.books()["receivable"] == 0
