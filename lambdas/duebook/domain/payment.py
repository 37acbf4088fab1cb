"""The money fence: one payout or refund, from the intent to a definite end, whatever gets lost in between.

The rule: before the provider is called, the row says `unknown`, with a lease longer than the function's time-out. A
provider forgets idempotency keys (Stripe: "keys can be removed after at least 24 hours"; a saved 500 is replayed;
docs.stripe.com/api/idempotent_requests), so after 23 h, or after a replayed error, the payment is looked up by its
reference first, and only when the last attempt is over 2 h old, because lists lag.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

KEY_IS_SAFE = timedelta(hours=23)
LISTS_LAG = timedelta(hours=2)
LEASE = timedelta(minutes=3)
"""Longer than the payments worker's time-out of 60 s, with room for clock skew between functions."""
RETRY_DELAYS = tuple(timedelta(minutes=m) for m in (1, 5, 15, 60, 180, 360))
ASK_AGAIN = timedelta(hours=12)
MOST_ATTEMPTS = 20
"""Then a person has to look: nothing is retried for ever."""
PARKED_LOOK = timedelta(days=1)
"""After which a parked payment is looked at again, beside the hold's end, which wakes it at once."""
LONGEST_LOOK = timedelta(days=7)
"""The later looks come after as long as it has been parked already, at most this: each is a row of the history."""
PAUSED_LOOK = timedelta(hours=1)
LONGEST_PARKED = timedelta(days=90)
"""Then a person has to look: it stays listed under its chef, and the hold's end still wakes it."""


def key_of(payment_id: str, epoch: int) -> str:
    """The provider's idempotency key of one epoch."""
    return f"{payment_id}.e{epoch}"


class Kind(StrEnum):
    """`payout` to the chef, `refund` to the customer, `reversal`: back from the chef, of a payout that was made."""

    PAYOUT = "payout"
    REFUND = "refund"
    REVERSAL = "reversal"


class Status(StrEnum):
    INTENT = "intent"
    UNKNOWN = "unknown"
    DONE = "done"
    FAILED = "failed"
    MISMATCHED = "mismatched"
    """The provider has our reference with another amount, currency or destination: never sent again."""
    VOID = "void"
    """Nothing is left to move: it was decided otherwise before anything was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """One payout, refund or reversal. `amount` in minor units; `payment_id` is the reference the provider is given.

    `account`: the chef's connected account as it was when the epoch's first send was claimed, so that one key always
    carries the same parameters. `of_ref`: for a reversal, the provider's id of the payout that it takes back.
    """

    payment_id: str
    booking_id: str
    number: int
    kind: Kind
    amount: int
    currency: str
    chef_id: str
    charge_ref: str | None
    created_at: datetime
    next_attempt_at: datetime | None
    status: Status = Status.INTENT
    epoch: int = 1
    attempt: int = 0
    epoch_started_at: datetime | None = None
    attempted_at: datetime | None = None
    lease_until: datetime | None = None
    look_up_first: bool = False
    provider_ref: str | None = None
    reason: str | None = None
    account: str | None = None
    of_ref: str | None = None
    parked_since: datetime | None = None
    unknown_since: datetime | None = None
    """When it was first sent, whatever epochs followed."""

    @property
    def key(self) -> str:
        """The provider's idempotency key: the reference and the epoch."""
        return key_of(self.payment_id, self.epoch)

    def had_key(self, key: str) -> bool:
        """Whether it was ever asked for under this key: that of an epoch whose first send was claimed."""
        last = self.epoch - 1 if self.status is Status.INTENT else self.epoch
        return any(key == key_of(self.payment_id, epoch) for epoch in range(1, last + 1))

    @property
    def is_open(self) -> bool:
        return self.status in (Status.INTENT, Status.UNKNOWN)

    def unknown_for(self, now: datetime) -> timedelta | None:
        """How long nobody knows whether the money moved; None when it is known."""
        if self.status is not Status.UNKNOWN:
            return None
        return now - (self.unknown_since or self.epoch_started_at or self.created_at)

    @property
    def is_unsent(self) -> bool:
        """Nothing is under way: never sent, or refused, as far as anybody said. It may still be changed."""
        return self.status in (Status.INTENT, Status.FAILED)

    @property
    def needs_attention(self) -> bool:
        """No automatic attempt follows: it failed for sure, or too many attempts stayed without an answer."""
        return self.status in (Status.FAILED, Status.MISMATCHED) or (self.is_open and self.next_attempt_at is None)


@dataclass(frozen=True, slots=True)
class Done:
    """The provider moved the money; `provider_ref` is its id for it."""

    provider_ref: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The provider definitely refused, and will not do it later."""

    reason: str


@dataclass(frozen=True, slots=True)
class Uncertain:
    """Nobody knows whether the money moved. `saved_error`: the provider replays an error it saved under this key."""

    reason: str
    saved_error: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """The marketplace was asked by event and will answer through the API."""


@dataclass(frozen=True, slots=True)
class Mismatched:
    """The provider has our reference with another amount, currency or destination: an alarm, and never sent again."""

    reason: str


Outcome = Done | Failed | Uncertain | Asked | Mismatched


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """Money that the provider says it moved for one of our references; `amount` in minor units of `currency`."""

    payment_id: str
    kind: Kind
    amount: int
    currency: str
    provider_ref: str


class Act(StrEnum):
    """What to do with a payment now."""

    SEND = "send"
    LOOK_UP = "look_up"
    WAIT = "wait"
    GIVE_UP = "give_up"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Decision:
    act: Act
    reason: str
    until: datetime | None = None


def decide(payment: Payment, now: datetime, *, by_event: bool = False) -> Decision:
    """What may be done with this payment at `now`. `by_event`: the marketplace itself dedupes by the reference."""
    match payment.status:
        case Status.DONE | Status.FAILED | Status.MISMATCHED | Status.VOID:
            return Decision(Act.NOTHING, f"payment is {payment.status}")
        case Status.INTENT | Status.UNKNOWN:
            pass
        case _:
            assert_never(payment.status)
    if payment.next_attempt_at is None:
        return Decision(Act.NOTHING, "waits for a person")
    if payment.lease_until is not None and now < payment.lease_until:
        return Decision(Act.WAIT, "an attempt may still be running", payment.lease_until)
    if now < payment.next_attempt_at:
        return Decision(Act.WAIT, "not due yet", payment.next_attempt_at)
    if payment.attempt >= MOST_ATTEMPTS:
        return Decision(Act.GIVE_UP, f"{payment.attempt} attempts without a definite answer")
    if payment.status is Status.INTENT or payment.epoch_started_at is None:
        return Decision(Act.SEND, "first attempt")
    if by_event:
        return Decision(Act.SEND, "ask again under the same reference")
    if now < payment.epoch_started_at + KEY_IS_SAFE and not payment.look_up_first:
        return Decision(Act.SEND, "the provider still knows the key")
    quiet_at = (payment.attempted_at or payment.epoch_started_at) + LISTS_LAG
    if now < quiet_at:
        return Decision(Act.WAIT, "the provider's lists may lag behind the last attempt", quiet_at)
    return Decision(Act.LOOK_UP, "the key may be forgotten or holds a saved error: look it up by reference")


def claim(payment: Payment, act: Act, now: datetime, account: str | None = None) -> Payment:
    """The row as it must be committed before the provider is called. `account`: where an epoch's first send goes."""
    lease = now + LEASE
    if act is Act.LOOK_UP:
        return replace(payment, lease_until=lease, next_attempt_at=lease, attempt=payment.attempt + 1)
    return replace(
        payment,
        status=Status.UNKNOWN,
        attempt=payment.attempt + 1,
        epoch_started_at=payment.epoch_started_at or now,
        unknown_since=payment.unknown_since or now,
        attempted_at=now,
        lease_until=lease,
        next_attempt_at=lease,
        parked_since=None,
        account=payment.account if payment.epoch_started_at else account,
    )


def not_found(payment: Payment, now: datetime, account: str | None = None) -> Payment:
    """The provider surely has no such payment: a new epoch, so a new key, sent at once."""
    return replace(
        payment,
        epoch=payment.epoch + 1,
        epoch_started_at=now,
        attempted_at=now,
        look_up_first=False,
        lease_until=now + LEASE,
        next_attempt_at=now + LEASE,
        parked_since=None,
        account=account,
    )


def park(payment: Payment, reason: str, after: timedelta, now: datetime) -> Payment:
    """It may not go now: nothing is sent, it is looked at again `after`; no attempt is counted. A look of a day or more
    is of what is woken when it ends, and comes ever later."""
    since = payment.parked_since or now
    last = since + LONGEST_PARKED
    if after >= PARKED_LOOK:
        after = min(max(after, now - since), LONGEST_LOOK)
    return replace(
        payment,
        reason=reason,
        parked_since=since,
        lease_until=None,
        next_attempt_at=min(now + after, last) if now < last else None,
    )


def unpark(payment: Payment, now: datetime) -> Payment:
    """What held it is over: due at once. It is checked again like any other before it is sent."""
    attempt = payment.attempt if payment.next_attempt_at else 0
    return replace(payment, attempt=attempt, parked_since=None, reason=None, next_attempt_at=now)


def give_up(payment: Payment, reason: str) -> Payment:
    """No further attempt until a person asks for one."""
    return replace(payment, next_attempt_at=None, lease_until=None, reason=payment.reason or reason)


def reduced(payment: Payment, by: int, now: datetime) -> Payment:
    """A smaller amount, of what was not sent yet; nothing left: void. A refused one keeps waiting for a person."""
    assert payment.is_unsent
    amount = payment.amount - by
    if amount == 0:
        return replace(
            payment,
            amount=0,
            status=Status.VOID,
            next_attempt_at=None,
            lease_until=None,
            parked_since=None,
            reason=None,
        )
    return replace(payment, amount=amount)


def record(payment: Payment, outcome: Outcome, now: datetime) -> Payment:
    """The row after an answer."""
    match outcome:
        case Done(provider_ref):
            return replace(
                payment,
                status=Status.DONE,
                provider_ref=provider_ref,
                next_attempt_at=None,
                lease_until=None,
                reason=None,
            )
        case Failed(why):
            return replace(payment, status=Status.FAILED, reason=why, next_attempt_at=None, lease_until=None)
        case Mismatched(why):
            return replace(payment, status=Status.MISMATCHED, reason=why, next_attempt_at=None, lease_until=None)
        case Uncertain(why, saved_error):
            reason: str | None = why
            delay = RETRY_DELAYS[min(payment.attempt, len(RETRY_DELAYS)) - 1]
            look_up_first = payment.look_up_first or saved_error
        case Asked():
            delay, reason, look_up_first = ASK_AGAIN, None, False
        case _:
            assert_never(outcome)
    return replace(
        payment,
        lease_until=None,
        look_up_first=look_up_first,
        reason=reason,
        next_attempt_at=now + delay if payment.attempt < MOST_ATTEMPTS else None,
    )


def retry(payment: Payment, now: datetime) -> Payment | None:
    """A person says: try again. After a definite failure a new epoch; None when nothing is to be done.

    While an attempt may still be running, or the next one is due, pressing again changes nothing. What the provider
    has with another amount is never sent again: a person has to settle it there.
    """
    match payment.status:
        case Status.DONE | Status.MISMATCHED | Status.VOID:
            return None
        case Status.FAILED:
            return replace(
                payment,
                status=Status.INTENT,
                epoch=payment.epoch + 1,
                attempt=0,
                epoch_started_at=None,
                unknown_since=None,
                reason=None,
                look_up_first=False,
                next_attempt_at=now,
                parked_since=None,
            )
        case Status.INTENT | Status.UNKNOWN:
            at = max(now, payment.lease_until) if payment.lease_until else now
            stuck = payment.next_attempt_at is None
            return replace(payment, attempt=0 if stuck else payment.attempt, next_attempt_at=at, parked_since=None)
        case _:
            assert_never(payment.status)
