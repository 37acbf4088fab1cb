"""The books: a booking's entries, a day's sums by currency and account, and the day compared with the provider's.

The day is read from its sparse index, so no counter is shared by all that moves money. A closed day is a row of its
own, written once: opening, movement and closing balances. Nothing here ever changes an entry.
"""

from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from typing import Any

from duebook.domain.errors import ConditionFailed
from duebook.domain.ledger import totals
from duebook.domain.times import iso
from duebook.service import rows
from duebook.service.bookings import Bookings
from duebook.service.ports import If, Item, PaymentProvider, Put, Table, every
from duebook.service.queries import Listing

Sums = dict[str, dict[str, int]]
"""Currency → account → minor units, debit positive."""

SETTLES = timedelta(hours=1)
"""A day is closed this long after its end: by then the index, which is eventually consistent, has all of it."""
FIRST_LOOK_BACK = timedelta(days=31)
CLOSE_PK = "#ledger"
MOVES = ("payout", "refund", "reversal")
MOST_DIFFERENCES = 500
"""Lines of a reconciliation file that are listed; all are counted (a row has at most 400 KB)."""


def of_booking(table: Table, booking_id: str, *, cursor: str | None = None, limit: int = 100) -> Listing:
    """A booking's entries, oldest first. The cursor is the last entry's `<version>#<n>`."""
    after = {"pk": booking_id, "sk": f"{rows.LEDGER_PREFIX}{cursor}"} if cursor else None
    page = table.query(booking_id, rows.LEDGER_PREFIX, after=after, limit=limit)
    following = page.items[-1]["sk"].removeprefix(rows.LEDGER_PREFIX) if page.after and page.items else None
    return Listing(list(page.items), following, page.scanned)


def entries(table: Table, day: date) -> Iterable[Item]:
    """Every entry of a UTC day."""
    for number in range(rows.DAY_SHARDS):
        yield from every(table, rows.day_partition(day.isoformat(), number))


def trial_balance(table: Table, day: date) -> dict[str, Any]:
    """Opening, movement and closing of each currency's accounts; all accounts of a currency sum to 0.

    A closed day as it was written; else as far as the index has it, opening from the last closed day before it.
    """
    stored = table.get(CLOSE_PK, _close_sk(day))
    if stored:
        return _shown(stored)
    before = _closed_before(table, day)
    opening: Sums = before["closing"] if before else {}
    movement = _movement(entries(table, day))
    return {
        "day": day.isoformat(),
        "closed": False,
        "opening_of": before["day"] if before else None,
        **_balances(opening, movement),
    }


def close(bookings: Bookings, until: datetime) -> list[str]:
    """Close every UTC day that is well over and not closed yet, in order; those closed now. Twice is harmless.

    The first one ever is the first day of the last 31 that has an entry.
    """
    table = bookings.table
    closed: list[str] = []
    last = (until - SETTLES).date() - timedelta(days=1)
    newest = _closed_before(table, last + timedelta(days=1))
    day = date.fromisoformat(newest["day"]) + timedelta(days=1) if newest else last - FIRST_LOOK_BACK
    opening: Sums = newest["closing"] if newest else {}
    while day <= last:
        movement = _movement(entries(table, day))
        if not movement and newest is None and not closed:
            day += timedelta(days=1)
            continue
        balances = _balances(opening, movement)
        item = {"pk": CLOSE_PK, "sk": _close_sk(day), "day": day.isoformat(), "at": iso(bookings.clock()), **balances}
        try:
            table.write(Put(item=item, condition=If(absent=True)))
        except ConditionFailed:
            return closed
        closed.append(day.isoformat())
        opening = balances["closing"]
        day += timedelta(days=1)
    return closed


def unreconciled(table: Table, most: int) -> list[date]:
    """Of the last `most` closed days, those that have no file yet: the provider was down, or a run was cut off."""
    closed = table.query(CLOSE_PK, "close#", limit=most, newest_first=True).items
    days = sorted(date.fromisoformat(row["day"]) for row in closed)
    return [day for day in days if table.get(CLOSE_PK, _file_sk(day)) is None]


def reconcile_day(bookings: Bookings, provider: PaymentProvider, day: date) -> dict[str, Any]:
    """The day's file, written: what we say moved, what the provider says, and every difference, by payment.

    Ours and the provider's are compared by payment and the amount in minor units. `provider` is None when it cannot be
    asked; then ours is all that is known, and there is no difference to tell.
    """
    ours = _by_payment(
        (row["payment_id"], row["currency"], sum(abs(amount) for amount in row["lines"].values()) // 2)
        for row in entries(bookings.table, day)
        if row["what"] in MOVES
    )
    told = provider.movements(day)
    theirs = None if told is None else _by_payment((m.payment_id, m.currency, m.amount) for m in told)
    known = theirs or {}
    differing = sorted(key for key in ours.keys() | known.keys() if ours.get(key, 0) != known.get(key, 0))
    lines = [_line(key, ours.get(key, 0), known.get(key, 0)) for key in differing[:MOST_DIFFERENCES]]
    file = {
        "day": day.isoformat(),
        "at": iso(bookings.clock()),
        "ours": _summed(ours),
        "provider": None if theirs is None else _summed(theirs),
        "difference": None if theirs is None else _less(_summed(ours), _summed(theirs)),
        "payments": len(ours),
        "differences": 0 if theirs is None else len(differing),
        "lines": [] if theirs is None else lines,
    }
    bookings.table.write(Put(item={"pk": CLOSE_PK, "sk": _file_sk(day), **file}))
    return file


def reconciliation(table: Table, day: date) -> dict[str, Any] | None:
    """The day's file as it was last written; a row leaves out what is None."""
    row = table.get(CLOSE_PK, _file_sk(day))
    return {"provider": None, "difference": None, **_shown(row)} if row else None


def _close_sk(day: date) -> str:
    return f"close#{day.isoformat()}"


def _file_sk(day: date) -> str:
    return f"file#{day.isoformat()}"


def _closed_before(table: Table, day: date) -> Item | None:
    """The latest closed day before this one; the rows of a year are read newest first, one page."""
    for row in table.query(CLOSE_PK, "close#", limit=400, newest_first=True).items:
        if row["day"] < day.isoformat():
            return row
    return None


def _movement(found: Iterable[Item]) -> Sums:
    lines: dict[str, list[Mapping[str, int]]] = {}
    sums: Sums = {}
    for row in found:
        lines.setdefault(row["currency"], []).append(row["lines"])
    for currency, of_currency in lines.items():
        sums[currency] = totals(of_currency)
    return sums


def _balances(opening: Sums, movement: Sums) -> dict[str, Any]:
    closing = {
        currency: totals([opening.get(currency, {}), movement.get(currency, {})])
        for currency in sorted(opening.keys() | movement.keys())
    }
    return {"opening": opening, "movement": movement, "closing": closing}


def _by_payment(found: Iterable[tuple[str, str, int]]) -> dict[tuple[str, str], int]:
    sums: dict[tuple[str, str], int] = {}
    for payment_id, currency, amount in found:
        sums[payment_id, currency] = sums.get((payment_id, currency), 0) + amount
    return sums


def _summed(by_payment: Mapping[tuple[str, str], int]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for (_, currency), amount in by_payment.items():
        sums[currency] = sums.get(currency, 0) + amount
    return sums


def _less(ours: Mapping[str, int], theirs: Mapping[str, int]) -> dict[str, int]:
    return {
        currency: ours.get(currency, 0) - theirs.get(currency, 0) for currency in sorted(ours.keys() | theirs.keys())
    }


def _line(key: tuple[str, str], ours: int, theirs: int) -> dict[str, Any]:
    return {"payment_id": key[0], "currency": key[1], "ours": ours, "provider": theirs, "difference": ours - theirs}


def _shown(row: Item) -> dict[str, Any]:
    shown = {name: value for name, value in row.items() if name not in ("pk", "sk")}
    return shown | ({"closed": True} if row["sk"].startswith("close#") else {})
