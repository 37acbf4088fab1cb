"""Money that moves without us: chargebacks, refunds by hand, payments that come back. What is right is reckoned anew.

The rule: the chef's share is what it would be, had the money gone before the payout was decided. So what is gone comes
out of a payout that was not sent yet, else it is reclaimed by a reversal, a payment of its own through the same fence.
While a chargeback is open, payout and refund are frozen as they are. Every act is idempotent by the provider's id.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from duebook.domain.booking import Booking, Engagement, Outside, OutsideKind, State
from duebook.domain.errors import NotFound, Refused
from duebook.domain.names import pay_job
from duebook.domain.payment import Failed, Kind, Payment, Status, record, reduced, unpark
from duebook.domain.transitions import Step, amounts, briefed, chefs_share, engaged, engaged_step, new_payment

Payments = Sequence[Payment]
"""All payments of the booking, as they are."""


def charged_back(booking: Booking, ref: str, amount: int, why: str, payments: Payments, now: datetime) -> Step | None:
    """The customer's bank took it: gone, until the chargeback is won. Not decided: nobody is paid meanwhile."""
    item = Outside(kind=OutsideKind.CHARGEBACK, amount=amount, is_open=True)
    return _took(booking, ref, item, "booking.charged_back", f"a chargeback was opened: {why}", payments, now)


def chargeback_closed(
    booking: Booking, ref: str, amount: int, won: bool, payments: Payments, now: datetime
) -> Step | None:
    """Decided: the money is back, or gone for good; what was frozen goes on. One never seen open is taken as it is."""
    known = engaged(booking).outside.get(ref)
    if known is not None and not known.is_open:
        return None
    item = Outside(kind=OutsideKind.CHARGEBACK, amount=known.amount if known else amount, is_back=won)
    reason = "the chargeback was won: the money is back" if won else "the chargeback was lost"
    return _reckoned(booking, ref, item, "booking.chargeback_closed", reason, payments, now)


def refunded_outside(booking: Booking, ref: str, amount: int, payments: Payments, now: datetime) -> Step | None:
    """Somebody refunded at the provider, by hand."""
    item = Outside(kind=OutsideKind.REFUND, amount=amount)
    return _took(booking, ref, item, "booking.refunded_outside", "refunded by hand at the provider", payments, now)


def refund_outside_failed(booking: Booking, ref: str, payments: Payments, now: datetime) -> Step | None:
    """A refund by hand failed: its money is here again. One never seen was never counted."""
    known = engaged(booking).outside.get(ref)
    if known is None or known.is_back:
        return None
    item = replace(known, is_back=True)
    reason = "the refund by hand failed: the money is back"
    return _reckoned(booking, ref, item, "booking.refunded_outside", reason, payments, now)


def came_back(
    booking: Booking, payment: Payment, ref: str, amount: int, why: str, payments: Payments, now: datetime
) -> Step | None:
    """Money of a payment that was done is here again. A payout's counts against what the chef owes; else it is owed
    again, as a payment that waits for a person. Raises `Refused` while the payment is not known to be done."""
    engagement = engaged(booking)
    if ref in engagement.outside:
        return None
    if payment.status is not Status.DONE or payment.kind is Kind.REVERSAL or amount > payment.amount:
        raise Refused("not_done", f"the payment is {payment.status}", state=payment.status.value)
    if payment.kind is Kind.PAYOUT and amount <= engagement.receivable:
        item = Outside(kind=OutsideKind.RECOVERED, amount=amount)
        after = replace(engagement, reversed=engagement.reversed + amount)
        _, changed = _reduce(payments, Kind.REVERSAL, amount, now)
        return _step(booking, ref, item, briefed(after, *changed), changed, "payment.returned", why, now)
    payout = payment.kind is Kind.PAYOUT
    item = Outside(kind=OutsideKind.RETURNED_PAYOUT if payout else OutsideKind.RETURNED_REFUND, amount=amount)
    after, made = new_payment(booking.booking_id, engagement, payment.kind, amount, now)
    waiting = tuple(record(intent, Failed(why), now) for intent in made)
    return _step(booking, ref, item, briefed(after, *waiting), waiting, "payment.returned", why, now)


def _took(
    booking: Booking, ref: str, item: Outside, type_: str, reason: str, payments: Payments, now: datetime
) -> Step | None:
    engagement = engaged(booking)
    if ref in engagement.outside:
        if engagement.outside[ref].amount != item.amount:
            raise Refused("other_amount", f"{ref} came with another amount before", state=engagement.state)
        return None
    if engagement.charge_ref is None:
        raise NotFound(f"{booking.booking_id} has no charge")
    return _reckoned(booking, ref, item, type_, reason, payments, now)


def _reckoned(
    booking: Booking, ref: str, item: Outside, type_: str, reason: str, payments: Payments, now: datetime
) -> Step:
    """With the money gone or back: payments that were not sent change, else a reversal or a further payout follows."""
    before = engaged(booking)
    after = replace(before, outside={**before.outside, ref: item})
    changed: list[Payment] = []
    if not after.is_frozen:
        excess = after.refunded + after.gone - after.captured
        taken, fewer = _reduce(payments, Kind.REFUND, excess, now)
        after, changed = replace(after, refunded=after.refunded - taken), [*changed, *fewer]
    unsent = any(p.kind is Kind.PAYOUT and p.is_unsent for p in payments)
    if after.is_settled and not (after.is_frozen and unsent):
        after, more = _share_again(booking.booking_id, after, payments, now)
        changed += more
    if not after.is_frozen:
        known = {payment.number for payment in changed}
        parked = [p for p in payments if p.is_open and p.parked_since and p.number not in known]
        changed = [unpark(p, now) if p.is_open and p.parked_since else p for p in [*changed, *parked]]
    after = briefed(after, *changed)
    if after.state is State.PAYING and not any(brief.kind is Kind.PAYOUT for brief in after.payments.values()):
        left = {p.number: p for p in [*payments, *changed]}.values()
        if all(p.status in (Status.DONE, Status.VOID) for p in left if p.kind is Kind.PAYOUT):
            after = replace(after, state=State.PAID_OUT)
    return _step(booking, ref, item, after, tuple(changed), type_, reason, now)


def _share_again(
    booking_id: str, engagement: Engagement, payments: Payments, now: datetime
) -> tuple[Engagement, list[Payment]]:
    """The chef's share as of now, against what was decided before."""
    share = chefs_share(engagement)
    rest = engagement.captured - engagement.refunded - engagement.gone
    too_much = engagement.paid_out - engagement.reclaimed - share
    after = replace(engagement, fee=rest - share)
    if too_much > 0:
        taken, changed = _reduce(payments, Kind.PAYOUT, too_much, now)
        after, made = new_payment(booking_id, after, Kind.REVERSAL, too_much - taken, now)
        after = replace(after, paid_out=after.paid_out - taken, reclaimed=after.reclaimed + too_much - taken)
    else:
        taken, changed = _reduce(payments, Kind.REVERSAL, -too_much, now)
        after, made = new_payment(booking_id, after, Kind.PAYOUT, -too_much - taken, now)
        after = replace(after, reclaimed=after.reclaimed - taken, paid_out=after.paid_out - too_much - taken)
    return after, [*changed, *made]


def _reduce(payments: Payments, kind: Kind, by: int, now: datetime) -> tuple[int, tuple[Payment, ...]]:
    """Take at most `by` out of what was surely not sent, the latest first."""
    left, changed = max(0, by), []
    for payment in sorted(payments, key=lambda payment: -payment.number):
        part = min(left, payment.amount)
        if payment.kind is kind and payment.is_unsent and part:
            changed.append(reduced(payment, part, now))
            left -= part
    return max(0, by) - left, tuple(changed)


def _step(
    booking: Booking,
    ref: str,
    item: Outside,
    after: Engagement,
    changed: tuple[Payment, ...],
    type_: str,
    reason: str,
    now: datetime,
) -> Step:
    after = replace(after, outside={**after.outside, ref: item})
    data = {
        "outside_ref": ref,
        "kind": item.kind.value,
        "amount_minor": item.amount,
        "currency": after.currency,
        "is_open": item.is_open,
        "is_back": item.is_back,
        "receivable_minor": after.receivable,
        **amounts(changed),
    }
    worth_changed = frozenset({"release_payment", *(pay_job(payment.number) for payment in changed)})
    return engaged_step(booking, after, type_, now, reason, payments=changed, data=data, renew=worth_changed)
