"""A world that pays through the stand-in, whose workers may die at any step, and the count of what was tried."""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import pytest
import requests

from duebook.domain.errors import Refused
from duebook.domain.ledger import totals
from duebook.domain.payment import Outcome, Payment, Status
from duebook.service import chefs, ledger, rows
from duebook.service.bookings import Bookings
from duebook.service.ports import Item, Put, Table, Write
from local.stripe_fake import StripeFake
from local.stripe_fake.state import StripeState
from tests.stand_in import ACCOUNT, CHARGE, provider_of
from tests.unit.builders import DAY
from tests.unit.world import World


@dataclass
class Ran:
    """What the property test went through, for the summary."""

    schedules: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    gaps: Counter[int] = field(default_factory=Counter)

    def __str__(self) -> str:
        met = ", ".join(f"{name} {count}" for name, count in sorted(self.faults.items()))
        gaps = ", ".join(f"{days} d: {count}" for days, count in sorted(self.gaps.items()))
        return f"{self.schedules} fault schedules ran; met {met}; redriven after {gaps}"


ran = Ran()
HALF = {"cancellation": [{"before": 86_400, "refund_bps": 5_000}]}
"""The policy under which a customer who cancels days ahead gets half, and the chef the rest less the fee."""


class Dies(Exception):
    """The worker's process ends here."""


class Point(StrEnum):
    """Where on the payment's path it may end."""

    BEFORE_CLAIM = "before the claim"
    AFTER_CLAIM = "after the claim"
    BEFORE_CALL = "before the call"
    AFTER_CALL = "after the call"
    BEFORE_RECORD = "before the record"
    AFTER_RECORD = "after the record"


class Deaths:
    """Those that still have to happen, each once, and those that did."""

    def __init__(self) -> None:
        self.planned: list[Point] = []
        self.met: list[Point] = []

    def at(self, point: Point) -> None:
        if point in self.planned:
            self.planned.remove(point)
            self.met.append(point)
            raise Dies(point)


class MortalTable:
    """The table, for a process that may die around the two writes of a payment's path."""

    def __init__(self, table: Table, deaths: Deaths) -> None:
        self._table = table
        self._deaths = deaths

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def write(self, *writes: Write) -> None:
        paid = [write.item for write in writes if isinstance(write, Put) and _is_payment(write.item)]
        claims = any(row["status"] == Status.UNKNOWN and row.get("lease_until") for row in paid)
        records = any(row.get("attempt") and not row.get("lease_until") for row in paid)
        if claims:
            self._deaths.at(Point.BEFORE_CLAIM)
        if records:
            self._deaths.at(Point.BEFORE_RECORD)
        self._table.write(*writes)
        if claims:
            self._deaths.at(Point.AFTER_CLAIM)
        if records:
            self._deaths.at(Point.AFTER_RECORD)


def _is_payment(row: Item) -> bool:
    return str(row["sk"]).startswith(rows.PAYMENT_PREFIX)


class MortalProvider:
    """Stripe, for a process that may die around the call."""

    def __init__(self, provider: Any, deaths: Deaths) -> None:
        self._provider = provider
        self._deaths = deaths

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    def send(self, payment: Payment, now: datetime) -> Outcome:
        self._deaths.at(Point.BEFORE_CALL)
        outcome: Outcome = self._provider.send(payment, now)
        self._deaths.at(Point.AFTER_CALL)
        return outcome


class Paying:
    """A world with a wedding that was paid through the stand-in."""

    def __init__(self, patch: pytest.MonkeyPatch, fake: StripeFake, used: requests.Session) -> None:
        self.world = World(patch)
        self.fake = fake
        self.deaths = Deaths()
        fake.reset(self.world.clock, self._pass)
        fake.state.account(ACCOUNT)
        fake.state.charged(CHARGE, 100_000, "EUR")
        self.world.bookings = Bookings(MortalTable(self.world.table, self.deaths), self.world.clock)
        chefs.put(Bookings(self.world.table, self.world.clock), "ch-1", ACCOUNT, True)
        self.world.provider = MortalProvider(provider_of(fake, used), self.deaths)

    def _pass(self, by: timedelta) -> None:
        self.world.now += by

    @property
    def state(self) -> StripeState:
        return self.fake.state

    def payments(self) -> list[Payment]:
        booking = self.world.bookings.load("b1")
        assert booking is not None
        return [self.world.bookings.payment(row["payment_id"]) for row in self.world.payments()]

    def moved(self, payment: Payment) -> list[Item]:
        """What the provider has for this reference."""
        everything = [*self.state.transfers.values(), *self.state.refunds.values(), *self.state.reversals.values()]
        return [made for made in everything if made["metadata"].get("reference") == payment.payment_id]

    def settle(self, days: int = 60) -> None:
        """Let time pass, a person press retry on whatever waits for one, until everything has its end."""
        for _ in range(days):
            if all(payment.status is Status.DONE for payment in self.payments()):
                return
            for payment in self.payments():
                if payment.needs_attention:
                    self.retry(payment)
            self.world.travel_to(self.world.now + DAY)
            self.back()
        raise AssertionError(f"not settled: {self.payments()}")

    def check(self) -> None:
        """Exactly one movement for each payment, and both sides say the same."""
        for payment in self.payments():
            (made,) = self.moved(payment)
            assert (made["id"], made["amount"]) == (payment.provider_ref, payment.amount)
            assert made["currency"] == payment.currency.lower()
        books = self.books()
        assert sum(books.values()) == 0
        assert books["cash"] == self.state.available["eur"]
        assert (books["chef_payable"], books["refunds"]) == (0, 0)

    def books(self) -> dict[str, int]:
        """The booking's ledger, summed by account."""
        return totals(row["lines"] for row in ledger.of_booking(self.world.table, "b1").items)

    def retry(self, payment: Payment) -> None:
        """A person presses the button."""
        job = f"pay_{payment.number}"
        with suppress(Refused):
            self.world.commands.redrive("b1", job, {"actor": {"role": "operator"}}, None)

    def back(self) -> None:
        """The daily pass and the sweeper after an outage: messages that waited too long are gone by then."""
        self.world.reconcile()
        self.world.sweep()

    def again(self) -> None:
        """Every wake-up that a payment ever had comes once more."""
        for payment in self.payments():
            self.world.wake(f"pay_{payment.number}")
        self.world.deliver()

    def never_twice(self) -> None:
        for payment in self.payments():
            assert len(self.moved(payment)) <= 1, f"{payment.payment_id} moved twice"
