"""The marketplace's rules for one booking, snapshotted when it is made: changing the default touches no old booking."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any

from duebook.domain.money import BASIS_POINTS, share

HOUR = 3600
DAY = 24 * HOUR


class Silence(StrEnum):
    """What a chef's silence in a dispute means: the claim is refunded, or the chef is paid as if undisputed."""

    REFUND = "refund"
    RELEASE = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """A customer who cancels at least `before` seconds ahead of the event gets `refund_bps`/10,000 back."""

    before: int
    refund_bps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Durations in seconds, shares in basis points."""

    accept_within: int = DAY
    pay_within: int = DAY // 2
    event_length: int = 4 * HOUR
    complete_after: int = 3 * HOUR
    dispute_within: int = DAY
    fee_bps: int = 1_000
    cancellation: tuple[Tier, ...] = (
        Tier(before=30 * DAY, refund_bps=10_000),
        Tier(before=7 * DAY, refund_bps=5_000),
    )
    reply_within: int = DAY
    remind_after: int = DAY // 2
    silence: Silence = Silence.REFUND
    offer_within: int = DAY
    review_within: int = 3 * DAY
    escalations: int = 2
    appeals: int = 0
    appeal_within: int = 2 * DAY

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in ("cancellation", "silence") and (type(value) is not int or value < 0):
                raise ValueError(f"policy.{field.name} is a whole number, 0 or more, not {value!r}")
        for tier in self.cancellation:
            if not 0 <= tier.refund_bps <= BASIS_POINTS or tier.before < 0:
                raise ValueError("policy.cancellation: refund_bps is 0 to 10000, before is 0 or more")
        if self.fee_bps > BASIS_POINTS:
            raise ValueError("policy.fee_bps is 0 to 10000")
        if self.appeals > 1:
            raise ValueError("policy.appeals is 0 or 1")
        if self.escalations > 10:
            raise ValueError("policy.escalations is 0 to 10")

    def refund(self, captured: int, left: timedelta) -> int:
        """What a customer who cancels with `left` to go gets back: the most generous tier that is reached."""
        reached = [tier.refund_bps for tier in self.cancellation if left >= timedelta(seconds=tier.before)]
        return share(captured, max(reached, default=0))

    def fee(self, amount: int) -> int:
        """The platform's part of what the customer pays in the end; the chef gets the remainder."""
        return share(amount, self.fee_bps)

    def overridden(self, overrides: Mapping[str, Any]) -> "Policy":
        """This policy with some values replaced; `cancellation` as a list of `{before, refund_bps}`.

        Raises ValueError naming what is wrong.
        """
        unknown = overrides.keys() - {field.name for field in fields(self)}
        if unknown:
            raise ValueError(f"policy has no {', '.join(sorted(unknown))}")
        values = dict(overrides)
        if "cancellation" in values:
            values["cancellation"] = tuple(Tier(**tier) for tier in values["cancellation"])
        if "silence" in values:
            values["silence"] = Silence(values["silence"])
        return replace(self, **values)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as stored and shown."""
        return {**_values(self), "cancellation": [_values(tier) for tier in self.cancellation]}


def _values(of: Policy | Tier) -> dict[str, Any]:
    return {field.name: getattr(of, field.name) for field in fields(of)}
