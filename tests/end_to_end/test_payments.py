"""Money that comes too late, through the ledger."""

from datetime import timedelta

from local.world import World
from tests.end_to_end.conftest import CHEF, PRICE, Book, only_payment


def test_money_that_comes_after_the_booking_expired_goes_back(world: World, book: Book, booking_id: str) -> None:
    book(booking_id, paid=False)
    world.client.accept(booking_id, actor=CHEF)
    world.reach(world.now() + timedelta(hours=12, minutes=1))
    assert world.client.booking(booking_id).state == "expired"

    booking = world.client.pay(booking_id, captured_minor=PRICE, charge_ref="late-1")
    assert (booking.applied, booking.state, booking.refunded_minor) == (True, "expired", PRICE)
    assert world.client.pay(booking_id, captured_minor=PRICE, charge_ref="late-1").applied is False
    world.settle()
    world.inbox.read()
    payment = only_payment(world, booking_id)
    assert (payment.kind, payment.amount_minor, payment.status) == ("refund", PRICE, "done")
    (event,) = world.inbox.of(booking_id, "booking.capture_refunded")
    assert event.data["payments"] == [
        {"payment_id": payment.payment_id, "kind": "refund", "amount_minor": PRICE, "currency": "EUR"}
    ]
    assert len(world.inbox.of(booking_id, "payment.done")) == 1
