"""One embedded AWS with everything deployed, each function and caller under its own policies, for all of these tests.

Its time travels forward only, so each test uses ids of its own and instants relative to the present. The daily
reconcile pass is switched off: whatever holds here, holds without a repair.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from duebook_client import Actor, Booking, Payment
from local.story import BEGINS
from local.world import World, deployed

CHEF, CUSTOMER = Actor("chef", "chef-1"), Actor("customer", "customer-1")
PRICE = 100_000
_NUMBERS = count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All that is here deploys."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    with deployed(start_at=BEGINS, quiet=True) as world:
        if not world.travels:
            pytest.skip("time does not travel on this machine")
        world.stop_daily_reconcile()
        yield world


@pytest.fixture(scope="session")
def rough_world() -> Iterator[World]:
    """Another one, for tests that leave it in disorder: fuzzed, and robbed of its permissions."""
    with deployed(start_at=BEGINS, quiet=True) as world:
        world.stop_daily_reconcile()
        yield world


@pytest.fixture
def booking_id() -> str:
    """A booking id that no other test uses."""
    return f"test-{next(_NUMBERS)}"


Book = Callable[..., Booking]


@pytest.fixture
def book(world: World) -> Book:
    """Make a booking whose event begins `starts_in` from now."""

    def made(booking_id: str, *, starts_in: timedelta = timedelta(days=60), paid: bool = True) -> Booking:
        booking = world.client.put_booking(
            booking_id,
            customer_id="customer-1",
            chef_id="chef-1",
            event_start=whole_minute(world.now() + starts_in),
            price_minor=PRICE,
            currency="EUR",
        )
        if paid:
            world.client.accept(booking_id, actor=CHEF)
            booking = world.client.pay(booking_id, captured_minor=PRICE, charge_ref=f"charge-{booking_id}")
        world.settle()
        return booking

    return made


def only_payment(world: World, booking_id: str) -> Payment:
    """The one payment of a booking."""
    (payment,) = world.client.payments(booking_id)
    assert payment == world.client.payment(payment.payment_id)
    return payment


def whole_minute(instant: datetime) -> datetime:
    """Rounded up, as Scheduler does."""
    return instant.replace(second=0, microsecond=0) + timedelta(minutes=1)
