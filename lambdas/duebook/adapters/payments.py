"""Who moves money: `external` (the marketplace itself, asked by event) and `ledger` (a table that only says so)."""

import contextlib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from duebook.domain.errors import ConditionFailed
from duebook.domain.payment import Asked, Done, Kind, Mismatched, Movement, Outcome, Payment
from duebook.domain.times import iso
from duebook.service.ports import If, Put, Table, every


@dataclass(frozen=True, slots=True)
class PaidThrough:
    """A provider's manner without the provider: for a function that calls none and is not trusted with its key."""

    by_event: bool
    needs_account: bool


STRIPE = PaidThrough(by_event=False, needs_account=True)
"""As `StripePayments` says of itself."""


class ExternalPayments:
    """The marketplace pays: the event `payment.requested` asks it, `POST /payments/{payment_id}/result` answers."""

    by_event = True
    needs_account = False

    def send(self, payment: Payment, now: datetime) -> Outcome:
        return Asked()

    def find(self, payment: Payment, now: datetime) -> Outcome | None:
        return None

    def movements(self, day: date) -> None:
        """The marketplace's own accounts are not known here."""
        return


class LedgerPayments:
    """For the embedded AWS only: a transfer is a row, one for each idempotency key, as a provider keeps it.

    It does not dedupe by the reference, just as a provider does not: two keys make two transfers.
    """

    by_event = False
    needs_account = False

    def __init__(self, table: Table) -> None:
        self._table = table

    def send(self, payment: Payment, now: datetime) -> Outcome:
        ref = f"tr_{hashlib.sha256(payment.key.encode()).hexdigest()[:24]}"
        row = {
            "pk": f"transfers#{payment.payment_id}",
            "sk": payment.key,
            "provider_ref": ref,
            "kind": payment.kind.value,
            "amount": payment.amount,
            "currency": payment.currency,
            "at": iso(now),
            "payment_id": payment.payment_id,
            "day_pk": _transfers_of(now.date()),
            "day_sk": f"{iso(now)}#{payment.key}",
        }
        with contextlib.suppress(ConditionFailed):
            self._table.write(Put(item=row, condition=If(absent=True)))
        return Done(ref)

    def find(self, payment: Payment, now: datetime) -> Outcome | None:
        for row in self._table.query(f"transfers#{payment.payment_id}", "").items:
            if (row["amount"], row["currency"]) != (payment.amount, payment.currency):
                return Mismatched(f"{row['provider_ref']} moved {row['amount']} {row['currency']}")
            return Done(row["provider_ref"])
        return None

    def movements(self, day: date) -> Sequence[Movement]:
        return [
            Movement(
                payment_id=row["payment_id"],
                kind=Kind(row["kind"]),
                amount=row["amount"],
                currency=row["currency"],
                provider_ref=row["provider_ref"],
            )
            for row in every(self._table, _transfers_of(day))
        ]


def _transfers_of(day: date) -> str:
    return f"transfers#{day.isoformat()}"
