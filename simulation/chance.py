"""Chance from one seed, without one sequence: each draw depends on the seed, on whose it is, on what it is for and on
how often that was drawn before. So leaving out a booking, or a kind of fault, shifts nobody else's."""

import zlib
from hashlib import blake2b
from math import log1p
from random import Random

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_UNIT = 1.0 / (1 << 53)
_purposes: dict[str, int] = {}


def generator(seed: int, *of: object) -> Random:
    """A generator of its own for one thing, such as a booking's plan."""
    return Random("/".join(map(str, (seed, *of))))


class Draws:
    """The draws of one booking (or chef, or function)."""

    __slots__ = ("_base", "_left", "counts")

    def __init__(self, seed: int, key: str) -> None:
        self._base = int.from_bytes(blake2b(f"{seed}/{key}".encode(), digest_size=8).digest(), "big")
        self.counts: dict[str, int] = {}
        self._left: dict[str, int] = {}

    def strikes(self, purpose: str, rate: float) -> bool:
        """True for one in `1 / rate` of the calls: how many pass between two is drawn (geometric), not each of them."""
        left = self._left.get(purpose)
        if left is None:
            left = self._pass(purpose, rate)
        self._left[purpose] = left - 1 if left else self._pass(purpose, rate)
        return not left

    def _pass(self, purpose: str, rate: float) -> int:
        return int(log1p(-self.next(purpose)) / log1p(-rate))

    def next(self, purpose: str) -> float:
        """Uniform in [0, 1)."""
        ordinal = self.counts.get(purpose, 0)
        self.counts[purpose] = ordinal + 1
        salt = _purposes.get(purpose)
        if salt is None:
            salt = _purposes[purpose] = (zlib.crc32(purpose.encode()) + 1) * 0xD6E8FEB86659FD93 & _MASK
        # The finalizer of splitmix64 (Steele, Lea, Flood 2014), over what identifies the draw.
        mixed = (self._base ^ salt) + ordinal * _GOLDEN & _MASK
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
        return ((mixed ^ mixed >> 31) >> 11) * _UNIT
