"""The ledger: append-only double entry, in minor units, each entry balanced and in one currency.

An entry is the difference that a step makes to the booking's position, so whatever a step does is recorded by it, and
a correction is the entry of the step that corrects. Lines are signed: debit positive. Accounts: `cash` at the provider;
`held` for the customer, not decided yet; `chef_payable` and `refunds`, decided and not moved yet; `fee`, ours;
`receivable`, what the chef owes after a chargeback or refund that came after the payout.

For every booking at every instant: captured = refunded + net paid out + fee + held - receivable, where `refunded` is
all that went back to the customer, decided by us or taken outside.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from duebook.domain.booking import Engagement, OutsideKind
from duebook.domain.payment import Kind, Payment, Status

CASH, HELD, CHEF_PAYABLE, FEE, REFUNDS, RECEIVABLE = ACCOUNTS = (
    "cash",
    "held",
    "chef_payable",
    "fee",
    "refunds",
    "receivable",
)

Lines = Mapping[str, int]
"""Account → minor units, debit positive; no account with 0."""

_SETTLES = {Kind.PAYOUT: CHEF_PAYABLE, Kind.REFUND: REFUNDS, Kind.REVERSAL: RECEIVABLE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One balanced entry. `what`: `decision`, or `payout`, `refund`, `reversal` when that payment's money moved."""

    what: str
    currency: str
    lines: Lines
    payment_id: str | None = None
    provider_ref: str | None = None

    def __post_init__(self) -> None:
        if sum(self.lines.values()) != 0:
            raise ValueError(f"an entry must balance: {dict(self.lines)}")


def entries_for(before: Engagement | None, after: Engagement, payments: Sequence[Payment]) -> tuple[Entry, ...]:
    """What one step adds: what it decided, then the money that moved. `payments`: the rows the step writes."""
    decided = _without_zeros(_sum((position(after), 1), *(((position(before), -1),) if before else ())))
    entries = [Entry(what="decision", currency=after.currency, lines=decided)] if decided else []
    return (*entries, *(_moved(payment) for payment in payments if payment.status is Status.DONE))


def position(engagement: Engagement) -> Lines:
    """What is decided, and what moved without us, as balances: our own payments' movements come on top. Sums to 0."""
    e = engagement
    payout_back, refund_back = e.came(OutsideKind.RETURNED_PAYOUT), e.came(OutsideKind.RETURNED_REFUND)
    recovered = e.came(OutsideKind.RECOVERED)
    return {
        CASH: e.captured - e.gone + payout_back + refund_back + recovered,
        HELD: -held(e),
        CHEF_PAYABLE: -e.paid_out - payout_back,
        FEE: -e.fee,
        REFUNDS: -e.refunded - refund_back,
        RECEIVABLE: e.reclaimed - recovered,
    }


def held(engagement: Engagement) -> int:
    """What is still undecided. Negative: more was charged back than was left."""
    e = engagement
    return e.captured - e.refunded - e.gone - (e.paid_out - e.reclaimed) - e.fee


def totals(entries: Iterable[Lines]) -> dict[str, int]:
    """The sum of lines by account, of one currency; every account is there."""
    return dict.fromkeys(ACCOUNTS, 0) | dict(_sum(*((lines, 1) for lines in entries)))


def _moved(payment: Payment) -> Entry:
    """The provider moved it: cash against the account in which it waited."""
    sign = -1 if payment.kind is Kind.REVERSAL else 1
    return Entry(
        what=payment.kind.value,
        currency=payment.currency,
        lines={_SETTLES[payment.kind]: sign * payment.amount, CASH: -sign * payment.amount},
        payment_id=payment.payment_id,
        provider_ref=payment.provider_ref,
    )


def _sum(*signed: tuple[Lines, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for lines, sign in signed:
        for account, amount in lines.items():
            found[account] = found.get(account, 0) + sign * amount
    return found


def _without_zeros(lines: Lines) -> dict[str, int]:
    return {account: amount for account, amount in lines.items() if amount}
