"""Money is a whole number of minor units of one ISO 4217 currency. There is no float and one rounding point."""

import re
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
