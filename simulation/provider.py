"""Who moves the money, as Stripe behaves: one movement for each idempotency key, and nothing deduped by reference.

Keys are kept for 24 h and may then be forgotten; an answer, a saved error too, is replayed under its key; lists lag
behind (docs.stripe.com/api/idempotent_requests). What moved is never changed here, so a double payment stays visible.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from duebook.domain.names import parent
from duebook.domain.payment import Done, Failed, Kind, Mismatched, Movement, Outcome, Payment, Uncertain
from simulation.faults import Faults

KEY_IS_KEPT = timedelta(hours=24)
LONGEST_LAG = timedelta(minutes=90)


@dataclass(frozen=True, slots=True)
class Moved:
    """Money that moved: `ref` is the provider's id."""

    ref: str
    payment_id: str
    kind: Kind
    amount: int
    currency: str
    at: datetime
    listed_at: datetime
    account: str | None


class Provider:
    """`moved` has every movement by booking. `by_event`: the marketplace itself pays, asked by event."""

    def __init__(
        self,
        faults: Faults,
        clock: Callable[[], datetime],
        hook: Callable[[str, str], None],
        down: Callable[[], bool],
        sending: Callable[[Payment], None],
        *,
        by_event: bool,
    ) -> None:
        self.by_event = by_event
        self.needs_account = not by_event
        self.moved: dict[str, list[Moved]] = {}
        self.calls = 0
        self._faults = faults
        self._clock = clock
        self._hook = hook
        self._down = down
        self._sending = sending
        self._saved: dict[str, tuple[datetime, Payment, Outcome]] = {}

    def send(self, payment: Payment, now: datetime) -> Outcome:
        if self.by_event:
            raise AssertionError("the marketplace is asked by event")
        self._hook("provider.send", "before")
        self.calls += 1
        outcome = self._answered(payment)
        self._hook("provider.send", "after")
        return outcome

    def find(self, payment: Payment, now: datetime) -> Outcome | None:
        self.calls += 1
        if self._down() or self._faults.strikes("provider_list_fails", payment.booking_id):
            return Uncertain("the look-up failed")
        for made in self.moved.get(payment.booking_id, ()):
            if made.payment_id == payment.payment_id and made.listed_at <= self._clock():
                if (made.amount, made.currency) != (payment.amount, payment.currency):
                    return Mismatched(f"{made.ref} moved {made.amount} {made.currency}")
                return Done(made.ref)
        return None

    def movements(self, day: date) -> Sequence[Movement] | None:
        if self.by_event or self._down():
            return None
        return [
            Movement(
                payment_id=made.payment_id,
                kind=made.kind,
                amount=made.amount,
                currency=made.currency,
                provider_ref=made.ref,
            )
            for of_booking in self.moved.values()
            for made in of_booking
            if made.at.date() == day
        ]

    def moves(self, payment_id: str, kind: Kind, amount: int, currency: str, account: str | None = None) -> Moved:
        """The money moves, now."""
        booking_id, now = parent(payment_id), self._clock()
        known = self.moved.setdefault(booking_id, [])
        lag = LONGEST_LAG * self._faults.how("list_lag", booking_id)
        made = Moved(f"tr_{payment_id}_{len(known) + 1}", payment_id, kind, amount, currency, now, now + lag, account)
        known.append(made)
        return made

    def forget(self, booking_id: str) -> None:
        for made in self.moved.pop(booking_id, ()):
            for epoch in range(1, 40):
                if self._saved.pop(f"{made.payment_id}.e{epoch}", None) is None and epoch > 20:
                    break

    def _answered(self, payment: Payment) -> Outcome:
        if self._down():
            return Uncertain("no answer: connection")
        booking_id, now = payment.booking_id, self._clock()
        saved = self._saved.get(payment.key)
        if saved is not None and now - saved[0] < KEY_IS_KEPT:
            _, first, outcome = saved
            if (first.amount, first.currency, first.account) != (payment.amount, payment.currency, payment.account):
                return Mismatched("the key came with other parameters")
            return Uncertain("saved", saved_error=True) if isinstance(outcome, Uncertain) else outcome
        self._sending(payment)
        kept, told = self._done(payment, booking_id)
        if kept is not None:
            self._saved[payment.key] = (now, payment, kept)
        return told

    def _done(self, payment: Payment, booking_id: str) -> tuple[Outcome | None, Outcome]:
        """What is saved under the key, and what the caller sees."""
        strikes = self._faults.strikes
        if strikes("provider_timeout", booking_id):
            return None, Uncertain("no answer: time-out")
        if strikes("provider_refuses", booking_id):
            refused = Failed("the account is closed")
            return refused, refused
        if strikes("provider_insufficient", booking_id):
            refused = Failed("insufficient funds")
            return refused, refused
        if strikes("provider_saved_error", booking_id):
            if self._faults.how("saved_error_moved", booking_id) < 0.5:
                self._move(payment)
            error = Uncertain("HTTP 500")
            return error, error
        done = Done(self._move(payment).ref)
        if strikes("provider_done_unanswered", booking_id):
            return done, Uncertain("no answer: time-out")
        return done, done

    def _move(self, payment: Payment) -> Moved:
        return self.moves(payment.payment_id, payment.kind, payment.amount, payment.currency, payment.account)
