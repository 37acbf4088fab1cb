"""The payment worker's use case: the wake-up of `pay_<n>`, and the answers of the `external` marketplace."""

from dataclasses import replace
from datetime import datetime
from typing import assert_never

from duebook.domain.booking import Actor, Booking
from duebook.domain.chef import obstacle
from duebook.domain.errors import ConditionFailed, Contention, NotFound, Permanent, Refused, VersionConflict
from duebook.domain.names import parent, payment_number
from duebook.domain.payment import (
    Act,
    Asked,
    Done,
    Failed,
    Kind,
    Mismatched,
    Outcome,
    Payment,
    Status,
    Uncertain,
    claim,
    decide,
    give_up,
    not_found,
    park,
    record,
    retry,
)
from duebook.domain.transitions import Step, engaged, payment_step, retried
from duebook.service import chefs
from duebook.service.bookings import MOST_TRIES, Bookings
from duebook.service.ports import Manner, PaymentProvider, Queues, WakeUp
from duebook.service.rows import Cause
from duebook.service.wake import Woken, wake, wake_at


def wake_payment(bookings: Bookings, queues: Queues, provider: PaymentProvider, wake_up: WakeUp, source: str) -> Woken:
    """Do what the fence allows for one payment: at most one call that moves money, and only under a claim.

    What was outrun before the provider was called is decided again: it may have been a rival for this payment, which
    then has the claim, or something else about the booking, such as its other payment.
    """
    number = payment_number(wake_up.job)
    cause = Cause(source=source, job=wake_up.job, generation=wake_up.generation)
    for _ in range(MOST_TRIES):
        woken = wake(bookings, queues, wake_up, source)
        if woken.booking is None or number is None or wake_up.job not in woken.booking.planned:
            return woken
        now = bookings.clock()
        if woken.booking.planned[wake_up.job].run_at > now:
            return woken
        try:
            payment = bookings.numbered_payment(wake_up.booking_id, number)
        except NotFound as missing:
            raise Permanent(f"{wake_up.job} is pending but its payment is missing") from missing
        try:
            reason, outcome = _attempt(bookings, queues, provider, woken.booking, payment, cause, now)
        except (ConditionFailed, Contention):
            continue
        return Woken(woken.booking, reason, woken.transitions, outcome)
    raise VersionConflict(f"{wake_up.booking_id} kept changing", booking_id=wake_up.booking_id)


def _attempt(
    bookings: Bookings,
    queues: Queues,
    provider: PaymentProvider,
    booking: Booking,
    payment: Payment,
    cause: Cause,
    now: datetime,
) -> tuple[str, Outcome | None]:
    decision = decide(payment, now, by_event=provider.by_event)
    match decision.act:
        case Act.NOTHING:
            return decision.reason, None
        case Act.GIVE_UP:
            stuck = give_up(payment, decision.reason)
            step = payment_step(booking, stuck, "payment.needs_attention", now, decision.reason)
            bookings.commit(booking, step, cause)
            return decision.reason, None
        case Act.WAIT:
            assert decision.until is not None
            if payment.next_attempt_at != decision.until:
                later = replace(payment, next_attempt_at=decision.until)
                bookings.commit(booking, payment_step(booking, later, "payment.postponed", now, decision.reason), cause)
            else:
                generation = booking.planned[cause.job or ""].generation
                wake_at(queues, booking.booking_id, cause.job or "", generation, decision.until, now)
            return decision.reason, None
        case Act.LOOK_UP:
            claimed = claim(payment, decision.act, now)
            booking = bookings.commit(booking, _attempted(booking, claimed, now, decision.reason), cause)
            found = provider.find(claimed, now)
            if found is not None:
                return _record(bookings, claimed, found, cause), found
            return _send(bookings, provider, booking, claimed, cause, now, "not found by its reference: a new epoch")
        case Act.SEND:
            return _send(bookings, provider, booking, payment, cause, now, decision.reason)
        case _:
            assert_never(decision.act)


def _send(
    bookings: Bookings,
    provider: PaymentProvider,
    booking: Booking,
    payment: Payment,
    cause: Cause,
    now: datetime,
    reason: str,
) -> tuple[str, Outcome | None]:
    """Claim and send, or park: each in a transaction that checks the rows that decided it.

    A payment that is under a claim already was looked up and not found: it goes under a new epoch.
    """
    payment = of_payout(bookings, booking, payment)
    chef, switch = chefs.load(bookings.table, payment.chef_id), chefs.switch(bookings.table)
    guards = chefs.guards(chef, switch) if payment.kind is Kind.PAYOUT else ()
    frozen = engaged(booking).is_frozen
    stop = obstacle(payment, chef, switch, frozen=frozen, needs_account=provider.needs_account)
    if stop is not None:
        waiting = park(payment, stop.reason, stop.again, now)
        type_ = "payment.parked" if waiting.next_attempt_at else "payment.needs_attention"
        bookings.commit(booking, payment_step(booking, waiting, type_, now, stop.reason), cause, also=guards)
        return f"parked: {stop.reason}", None
    looked_up = payment.lease_until is not None and now < payment.lease_until
    account = chef.account
    claimed = not_found(payment, now, account) if looked_up else claim(payment, Act.SEND, now, account)
    if provider.by_event:
        asked = record(claimed, Asked(), now)
        bookings.commit(booking, _requested(booking, asked, now, reason), cause, also=guards)
        return f"asked the marketplace: {reason}", None
    bookings.commit(booking, _attempted(booking, claimed, now, reason), cause, also=guards)
    outcome = provider.send(claimed, now)
    return _record(bookings, claimed, outcome, cause), outcome


def of_payout(bookings: Bookings, booking: Booking, payment: Payment) -> Payment:
    """A reversal with the provider's id of what it takes back: the latest payout that was done and is large enough."""
    if payment.kind is not Kind.REVERSAL or payment.of_ref is not None:
        return payment
    done = [p for p in bookings.payments(booking) if p.kind is Kind.PAYOUT and p.status is Status.DONE]
    enough = [p for p in done if p.amount >= payment.amount] or done
    return replace(payment, of_ref=enough[-1].provider_ref) if enough else payment


def _attempted(booking: Booking, payment: Payment, now: datetime, reason: str) -> Step:
    return payment_step(booking, payment, "payment.attempted", now, reason, attempt=payment.attempt, key=payment.key)


def _requested(booking: Booking, payment: Payment, now: datetime, reason: str) -> Step:
    return payment_step(
        booking,
        payment,
        "payment.requested",
        now,
        reason,
        attempt=payment.attempt,
        key=payment.key,
        chef_id=payment.chef_id,
        charge_ref=payment.charge_ref,
    )


def _record(bookings: Bookings, claimed: Payment, outcome: Outcome, cause: Cause) -> str:
    """Commit what the provider answered. 'Done' is always recorded; anything else only by its own attempt."""
    reason = f"{type(outcome).__name__.lower()}: {getattr(outcome, 'reason', '')}".rstrip(": ")

    def answer(booking: Booking | None, now: datetime) -> Step | None:
        assert booking is not None
        latest = bookings.payment(claimed.payment_id)
        if latest.status is Status.DONE:
            if isinstance(outcome, Done) and outcome.provider_ref != latest.provider_ref:
                raise Permanent(
                    f"{claimed.payment_id} was done as {latest.provider_ref} and again as {outcome.provider_ref}"
                )
            return None
        if latest.attempt != claimed.attempt and not isinstance(outcome, Done):
            return None
        return _answered(booking, latest, outcome, now)

    bookings.change(claimed.booking_id, cause, answer)
    return reason


def _answered(booking: Booking, payment: Payment, outcome: Outcome, now: datetime) -> Step:
    answered = record(payment, outcome, now)
    match outcome:
        case Done(provider_ref):
            type_ = "payout.reversed" if payment.kind is Kind.REVERSAL else "payment.done"
            return payment_step(booking, answered, type_, now, "the money moved", provider_ref=provider_ref)
        case Failed(reason):
            return payment_step(booking, answered, "payment.failed", now, reason)
        case Uncertain(reason):
            type_ = "payment.needs_attention" if answered.needs_attention else "payment.uncertain"
            return payment_step(booking, answered, type_, now, reason)
        case Mismatched(reason):
            return payment_step(booking, answered, "payment.mismatch", now, reason)
        case Asked():
            return payment_step(booking, answered, "payment.requested", now, "asked")


def press(bookings: Bookings, payment_id: str, actor: Actor | None, why: str | None) -> tuple[Payment, bool]:
    """A person says: try again. Safe to press twice: while an attempt is due or may still run, nothing changes.

    Raises `Refused` for what the provider has with another amount.
    """

    def decide_(booking: Booking | None, now: datetime) -> Step | None:
        payment = bookings.payment(payment_id)
        if payment.status is Status.MISMATCHED:
            raise Refused("mismatched", "the provider has it otherwise: settle it there", state=payment.status.value)
        again = retry(payment, now)
        assert booking is not None
        if again is None or (payment.is_open and payment.next_attempt_at and payment.next_attempt_at <= now):
            return None
        if again == payment:
            return None
        return retried(booking, again, actor, why, now)

    bookings.payment(payment_id)
    _, applied = bookings.change(parent(payment_id), Cause(source="api"), decide_)
    return bookings.payment(payment_id), applied


def result(
    bookings: Bookings, provider: Manner, payment_id: str, outcome: Done | Failed, key: str | None = None
) -> tuple[Payment, bool]:
    """The marketplace's answer to a payment it was asked for. The same again is fine, another one is refused.

    `key` says which request it answers. That the money moved is recorded whichever it was, also after a failure: else
    a person's retry would pay twice. A failure of an earlier request changes nothing; one without a key is refused
    where several were made, since it may be of any.
    """
    if not provider.by_event:
        raise Refused("answered_by_provider", "this payment is answered by its provider, not by the API")

    def answer(booking: Booking | None, now: datetime) -> Step | None:
        latest = bookings.payment(payment_id)
        if booking is None:
            raise NotFound(f"there is no payment {payment_id}")
        if key is not None and not latest.had_key(key):
            raise Refused("not_requested", f"the payment was never asked for under {key}", state=latest.status.value)
        is_failure = isinstance(outcome, Failed)
        if is_failure and key is not None and key != latest.key:
            return None
        match latest.status, outcome:
            case Status.DONE, Done(provider_ref) if provider_ref == latest.provider_ref:
                return None
            case Status.FAILED, Failed(reason) if reason == latest.reason:
                return None
            case (Status.DONE, _) | (Status.FAILED, Failed()):
                raise Refused("already_answered", f"the payment is {latest.status}", state=latest.status.value)
            case Status.INTENT, Done() if latest.epoch > 1:
                pass  # an earlier request moved it
            case ((Status.INTENT | Status.MISMATCHED | Status.VOID), _):
                raise Refused("not_requested", "the payment is not asked for", state=latest.status.value)
        if is_failure and key is None and latest.epoch > 1:
            raise Refused(
                "which_request", "it was asked for more than once: name the request by its key", key=latest.key
            )
        return _answered(booking, latest, outcome, now)

    _, applied = bookings.change(parent(payment_id), Cause(source="api"), answer)
    return bookings.payment(payment_id), applied
