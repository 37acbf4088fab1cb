"""How things are told to people: instants in UTC and from now, money in its currency, text without surprises."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from iso4217 import Currency

_UNITS = (
    (timedelta(days=1), "d"),
    (timedelta(hours=1), "h"),
    (timedelta(minutes=1), "min"),
    (timedelta(seconds=1), "s"),
)


def instant(at: datetime) -> str:
    """`2026-11-14 17:00:00 UTC`."""
    return f"{at.astimezone(UTC).replace(tzinfo=None).isoformat(' ', 'seconds')} UTC"


def iso(at: datetime) -> str:
    """For programs, as the API writes it: `2026-11-14T17:00:00Z`, with parts of a second where there are any."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def length(duration: timedelta) -> str:
    """`1 d 3 h`, `0 s`: whole seconds, rounded down."""
    parts, left = [], duration
    for unit, name in _UNITS:
        number, left = divmod(left, unit)
        if number:
            parts.append(f"{number} {name}")
    return " ".join(parts) or "0 s"


def from_now(at: datetime, now: datetime) -> str:
    """`in 12 d`, `in 2 d 23 h`, `3 h 5 min ago`, `now`: rounded down, two units where the first is below 10."""
    told = length(abs(at - now)).split()
    if told == ["0", "s"]:
        return "now"
    shown = " ".join(told[: 2 if int(told[0]) >= 10 else 4])
    return f"in {shown}" if at > now else f"{shown} ago"


def when(at: datetime | None, now: datetime) -> str:
    """`2026-11-14 17:00:00 UTC (in 3 d)`; `-` for none."""
    return "-" if at is None else f"{instant(at)} ({from_now(at, now)})"


def money(amount: int, currency: str) -> str:
    """Minor units by the currency's ISO 4217 exponent: 123456 EUR → `1,234.56 EUR`, 1234 JPY → `1,234 JPY`."""
    exponent = exponent_of(currency) or 0
    sign, (whole, part) = "-" if amount < 0 else "", divmod(abs(amount), 10**exponent)
    return f"{sign}{whole:,}{f'.{part:0{exponent}d}' if exponent else ''} {currency}"


def sums(amounts: Mapping[str, int]) -> str:
    """Sums of several currencies: `1,234.56 EUR + 1,234 JPY`; `-` for none."""
    return " + ".join(money(amount, currency) for currency, amount in sorted(amounts.items())) or "-"


def exponent_of(currency: str) -> int | None:
    """Digits after the point; None for what is no ISO 4217 currency, or has no minor unit."""
    try:
        exponent: int | None = Currency(currency).exponent
    except ValueError:
        return None
    return exponent


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 booking`, `1,200 bookings`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def plain(text: object) -> str:
    """Text of others as it may be shown in a terminal: nothing in it can move the cursor or recolour the screen."""
    return "".join(each if each.isprintable() or each == "\n" else "�" for each in str(text))
