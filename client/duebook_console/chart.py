"""Payouts per week as bars: geometry for an inline SVG, and the same numbers for a table."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from duebook_cli.words import count, exponent_of, money

WEEKS = 13
UNKNOWN = ""
"""Instead of a currency."""
WIDTH, HEIGHT = 760, 190
_LEFT, _TOP, _FLOOR, _GAP = 4, 22, 164, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One week. `x`, `y`, `width`, `height` in the drawing's units."""

    week: date
    count: int
    amount: str
    label: str
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Payouts of one currency, or the number of those whose amount is not known. `words`: the same in a sentence."""

    currency: str
    total: str
    words: str
    bars: tuple[Bar, ...]
    floor: int = _FLOOR
    width: int = WIDTH
    height: int = HEIGHT


def charts(days: Iterable[tuple[date, int, Mapping[str, int]]], start: date) -> list[Chart]:
    """One chart a currency, the largest sum first, from `start`'s week on.

    `days`: UTC day, number of payouts, their amounts in minor units by currency, empty where they are not known: then
    the number itself is drawn. A day's count is told with its largest amount's currency, which is all of it where a
    marketplace has one.
    """
    first = start - timedelta(days=start.weekday())
    amounts: dict[str, list[int]] = {}
    numbers: dict[str, list[int]] = {}
    for day, number, sums in days:
        week = (day - first).days // 7
        if not 0 <= week < WEEKS or not number:
            continue
        for currency, amount in (sums or {UNKNOWN: number}).items():
            amounts.setdefault(currency, [0] * WEEKS)[week] += amount
        told = max(sums, key=lambda each: sums[each], default=UNKNOWN)
        numbers.setdefault(told, [0] * WEEKS)[week] += number
    found = sorted(amounts.items(), key=lambda item: (item[0] == UNKNOWN, -sum(item[1]), item[0]))
    return [_chart(currency, sums, numbers.get(currency, [0] * WEEKS), first) for currency, sums in found]


def _chart(currency: str, sums: list[int], numbers: list[int], first: date) -> Chart:
    most = max(*sums, 1)
    pitch = (WIDTH - 2 * _LEFT) / WEEKS
    bars = []
    for week, amount in enumerate(sums):
        height = round((_FLOOR - _TOP) * amount / most, 1)
        bars.append(
            Bar(
                week=first + timedelta(weeks=week),
                count=numbers[week],
                amount=_whole(amount, currency),
                label=_short(amount, currency) if amount else "",
                x=round(_LEFT + week * pitch + _GAP / 2, 1),
                y=round(_FLOOR - height, 1),
                width=round(pitch - _GAP, 1),
                height=height,
            )
        )
    total = _whole(sum(sums), currency)
    top = max(bars, key=lambda bar: bar.height)
    words = f"{total} in {WEEKS} weeks; the most in the week of {top.week:%d %b}: {top.amount}."
    return Chart(currency=currency, total=total, words=words, bars=tuple(bars))


def _whole(amount: int, currency: str) -> str:
    return count(amount, "payout") if currency == UNKNOWN else money(amount, currency)


def _short(amount: int, currency: str) -> str:
    """`950`, `1.2k`, `34k`, `5.6M` in major units."""
    major: float = amount / 10 ** (exponent_of(currency) or 0)
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if major >= 0.9995 * unit:  # what would be rounded up to it
            return f"{major / unit:.1f}{name}" if major < 10 * unit else f"{major / unit:.0f}{name}"
    return f"{major:.0f}"
