"""Whether a payment may go now: the chef's row, the switch that pauses all payouts, an open chargeback.

What may not go parks: nothing is sent, it is listed under its chef and looked at again. The rows that decided are
checked in the transaction that claims or parks, so a hold either comes before a send or after it, never beside it.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from duebook.domain.payment import PARKED_LOOK, PAUSED_LOOK, Kind, Payment


@dataclass(frozen=True, slots=True, kw_only=True)
class Chef:
    """A chef's row. `account`: the connected account; `held`: a person stopped the payouts, for `reason`."""

    chef_id: str
    account: str | None = None
    enabled: bool = True
    held: bool = False
    reason: str | None = None
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """The one switch for all payouts."""

    paused: bool = False
    reason: str | None = None
    version: int = 0


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a payment may not go now, and after how long it is looked at again."""

    reason: str
    again: timedelta


def obstacle(payment: Payment, chef: Chef, switch: Switch, *, frozen: bool, needs_account: bool) -> Obstacle | None:
    """None: it may go. A hold and the switch stop payouts only; an open chargeback stops refunds of its charge too."""
    if payment.kind is Kind.REVERSAL:
        return Obstacle("the payout that it takes back is not done yet", PAUSED_LOOK) if not payment.of_ref else None
    if frozen:
        return Obstacle("a chargeback is open", PARKED_LOOK)
    if payment.kind is Kind.REFUND:
        return None
    if switch.paused:
        return Obstacle("all payouts are paused", PAUSED_LOOK)
    why = stopped(chef, needs_account=needs_account)
    return Obstacle(why, PARKED_LOOK) if why else None


def stopped(chef: Chef, *, needs_account: bool) -> str | None:
    """Why this chef is not paid now; None: they are."""
    if chef.held:
        return f"the chef is held: {chef.reason}" if chef.reason else "the chef is held"
    if not chef.enabled:
        return "the chef is disabled"
    if needs_account and chef.account is None:
        return "the chef has no connected account"
    return None


def named(chef: Chef, account: str | None, enabled: bool) -> Chef | None:
    """The account and whether they are enabled; None when it is so already."""
    return _changed(chef, replace(chef, account=account, enabled=enabled))


def held(chef: Chef, reason: str | None) -> Chef | None:
    """A person stops this chef's payouts; None when they are held already."""
    return None if chef.held else _changed(chef, replace(chef, held=True, reason=reason))


def unheld(chef: Chef) -> Chef | None:
    """The hold is over; None when there was none."""
    return _changed(chef, replace(chef, held=False, reason=None))


def _changed(before: Chef, after: Chef) -> Chef | None:
    return None if after == before else replace(after, version=before.version + 1)
