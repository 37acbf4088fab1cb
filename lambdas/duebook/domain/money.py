"""Money is a whole number of minor units of one ISO 4217 currency. There is no float and one rounding point."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_CURRENCY = re.compile(r"[A-Z]{3}")
BASIS_POINTS = 10_000


@dataclass(frozen=True, slots=True)
class Money:
    """`amount` in minor units (cents for EUR, yen for JPY, fils for KWD), never negative."""

    amount: int
    currency: str

    def __post_init__(self) -> None:
        if type(self.amount) is not int or self.amount < 0:
            raise ValueError(f"money is a whole number of minor units, 0 or more, not {self.amount!r}")
        if not _CURRENCY.fullmatch(self.currency):
            raise ValueError(f"{self.currency!r} is no ISO 4217 code")


def share(amount: int, basis_points: int) -> int:
    """`basis_points`/10,000 of `amount`, rounded half to even: the one rounding point; who pays gets the remainder."""
    quotient, remainder = divmod(amount * basis_points, BASIS_POINTS)
    twice = 2 * remainder
    return quotient + (1 if twice > BASIS_POINTS or (twice == BASIS_POINTS and quotient % 2) else 0)


def split(amount: int, weights: Sequence[int]) -> list[int]:
    """`amount` minor units in parts proportional to `weights`: the sum is exactly `amount`, by the largest remainder.

    Equal remainders: the earlier part gets the unit. Raises ValueError when there is no weight to split by.
    """
    whole = sum(weights)
    if whole <= 0 or min(weights, default=0) < 0:
        raise ValueError(f"weights are 0 or more, and one is more than 0, not {weights!r}")
    parts = [amount * weight // whole for weight in weights]
    first = sorted(range(len(weights)), key=lambda at: (-(amount * weights[at] % whole), at))
    for at in first[: amount - sum(parts)]:
        parts[at] += 1
    return parts


def shown(amount: int, exponent: int) -> str:
    """In major units with the currency's ISO 4217 exponent, without a float: 1234, 2 → `12.34`; 1234, 0 → `1234`."""
    sign, digits = ("-" if amount < 0 else ""), f"{abs(amount):0{exponent + 1}d}"
    return f"{sign}{digits[:-exponent]}.{digits[-exponent:]}" if exponent else f"{sign}{digits}"
