"""The worker dies at every step of the payment's path, and the redelivery ends right."""

import pytest
import requests

from local.stripe_fake import Fault, StripeFake, Trouble
from tests.unit.builders import DAY, RELEASE, START
from tests.unit.money.drive import HALF, Paying, Point

pytestmark = [pytest.mark.loopback, pytest.mark.usefixtures("socket_enabled")]


@pytest.fixture
def paying(monkeypatch: pytest.MonkeyPatch, fake: StripeFake, used: requests.Session) -> Paying:
    made = Paying(monkeypatch, fake, used)
    made.world.paid(policy=HALF)
    return made


@pytest.mark.parametrize("point", Point)
def test_a_payout_goes_once_when_its_worker_dies(paying: Paying, point: Point) -> None:
    paying.deaths.planned = [point]
    paying.world.travel_to(RELEASE)
    assert paying.deaths.met == [point]
    paying.settle()
    paying.check()
    assert paying.world.state() == "paid_out"


@pytest.mark.parametrize("point", Point)
def test_a_refund_and_a_payout_go_once_each_when_a_worker_dies(paying: Paying, point: Point) -> None:
    paying.deaths.planned = [point, point]
    paying.world.travel_to(START - 5 * DAY)
    paying.world.cancel()
    paying.settle()
    assert paying.deaths.met == [point, point]
    paying.check()
    assert sorted(payment.kind for payment in paying.payments()) == ["payout", "refund"]


@pytest.mark.parametrize("trouble", [Trouble.TIME_OUT_AFTER, Trouble.ERROR_AFTER, Trouble.RESET_BEFORE])
@pytest.mark.parametrize("point", Point)
def test_a_worker_that_dies_after_a_fault_leaves_it_to_the_next_one(
    paying: Paying, point: Point, trouble: Trouble
) -> None:
    paying.fake.faults.append(Fault(trouble=trouble))
    paying.deaths.planned = [point]
    paying.world.travel_to(RELEASE)
    paying.settle()
    paying.check()
    assert paying.deaths.met == [point]
