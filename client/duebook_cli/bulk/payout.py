"""What of a booking is due at once when it is taken over, by the booking as the API answers it."""

from datetime import datetime, timedelta

from duebook_client import Booking

PAYABLE = ("paid", "event_closed", "completed")
"""The customer has paid, and the payout is not decided yet."""
_BPS = 10_000


def payout_at(booking: Booking) -> datetime | None:
    """When its payout is due: the event's end and the policy's two windows after it; None where none is ahead."""
    if booking.state not in PAYABLE:
        return None
    policy = booking.policy
    return booking.event_end.instant + (policy.complete_after or timedelta()) + (policy.dispute_within or timedelta())


def payout_minor(booking: Booking) -> int:
    """The chef's share, in minor units: what is left of the capture, less the fee, rounded half to even."""
    gone = booking.raw.get("gone_minor") or 0
    rest = max(0, booking.captured_minor - booking.refunded_minor - gone)
    quotient, remainder = divmod(rest * (booking.policy.fee_bps or 0), _BPS)
    up = 2 * remainder > _BPS or (2 * remainder == _BPS and quotient % 2 == 1)
    return rest - quotient - up


def is_past(booking: Booking, state: str, now: datetime) -> bool:
    """Whether a deadline or instant beside the payout had come when it was taken over in `state`, so that something
    happens at once, or has happened by now."""
    policy, start = booking.policy, booking.event_start.instant
    match state:
        case "requested":
            at = min(booking.requested_at + (policy.accept_within or timedelta()), start)
        case "accepted":
            accepted = booking.accepted_at or booking.requested_at
            at = min(accepted + (policy.pay_within or timedelta()), start)
        case "paid" | "event_closed":
            at = booking.event_end.instant
        case _:
            return False
    return at <= now
