"""What the provider tells of money that moved without us: each idempotent by the provider's id; True if it took effect
now, False if it had before."""

from collections.abc import Callable
from datetime import datetime

from duebook.domain import outside
from duebook.domain.booking import Booking
from duebook.domain.errors import NotFound
from duebook.domain.names import parent
from duebook.domain.transitions import Step
from duebook.service.bookings import Bookings
from duebook.service.rows import Cause

PROVIDER = Cause(source="provider")


def charged_back(bookings: Bookings, booking_id: str, ref: str, amount: int, reason: str) -> bool:
    """A chargeback was opened."""
    return _change(bookings, booking_id, lambda b, paid, now: outside.charged_back(b, ref, amount, reason, paid, now))


def chargeback_closed(bookings: Bookings, booking_id: str, ref: str, amount: int, won: bool) -> bool:
    return _change(bookings, booking_id, lambda b, paid, now: outside.chargeback_closed(b, ref, amount, won, paid, now))


def refunded_outside(bookings: Bookings, booking_id: str, ref: str, amount: int) -> bool:
    """A refund was made by hand."""
    return _change(bookings, booking_id, lambda b, paid, now: outside.refunded_outside(b, ref, amount, paid, now))


def refund_outside_failed(bookings: Bookings, booking_id: str, ref: str) -> bool:
    return _change(bookings, booking_id, lambda b, paid, now: outside.refund_outside_failed(b, ref, paid, now))


def payment_came_back(bookings: Bookings, payment_id: str, ref: str, amount: int, why: str) -> bool:
    """Money of our payment came back after it was done: it failed late, or was reversed by hand."""

    def decide(booking: Booking, paid: outside.Payments, now: datetime) -> Step | None:
        payment = bookings.payment(payment_id)
        return outside.came_back(booking, payment, ref, amount, why, paid, now)

    return _change(bookings, parent(payment_id), decide)


def _change(
    bookings: Bookings, booking_id: str, decide: Callable[[Booking, outside.Payments, datetime], Step | None]
) -> bool:
    def known(booking: Booking | None, now: datetime) -> Step | None:
        if booking is None:
            raise NotFound(f"there is no booking {booking_id}")
        return decide(booking, bookings.payments(booking), now)

    return bookings.change(booking_id, PROVIDER, known)[1]
