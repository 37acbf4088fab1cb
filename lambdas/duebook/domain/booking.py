"""The booking and the jobs that follow from it: the truth that every row, schedule and wake-up is derived from."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

from duebook.domain.dispute import Dispute
from duebook.domain.names import LIFECYCLE_JOBS, WATCH_DISPUTE, pay_job
from duebook.domain.payment import Kind
from duebook.domain.policy import Policy
from duebook.domain.times import Moment

MOST_OWN_JOBS = 25
MOST_PAST_JOBS = 50
"""Requests of finished own jobs that are remembered, so that a late repeat is recognised; the oldest are forgotten."""

Anchor = Literal["event_start", "event_end"]


class State(StrEnum):
    REQUESTED = "requested"
    ACCEPTED = "accepted"
    PAID = "paid"
    EVENT_CLOSED = "event_closed"
    COMPLETED = "completed"
    PAYING = "paying"
    PAID_OUT = "paid_out"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


PAYABLE = (State.PAID, State.EVENT_CLOSED, State.COMPLETED)
"""The customer has paid and the payout is not decided yet."""
OFF = (State.REJECTED, State.EXPIRED, State.CANCELLED)
"""The event will not happen."""


class Role(StrEnum):
    CUSTOMER = "customer"
    CHEF = "chef"
    OPERATOR = "operator"
    MEDIATOR = "mediator"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who the marketplace says did it; `id` is opaque."""

    role: Role
    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnJob:
    """A caller's request to be woken: at an instant, or `offset` from the event's start or end."""

    at: Moment | None = None
    anchor: Anchor | None = None
    offset: timedelta = timedelta()
    keep_on_cancel: bool = False
    revision: int | None = None
    request_hash: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastJob:
    """What is remembered of an own job that fired or was removed: enough to recognise a late or repeated request."""

    revision: int | None
    request_hash: str


@dataclass(frozen=True, slots=True)
class Planned:
    """A job row as last written. `generation` is the booking's version then, so it never restarts."""

    run_at: datetime
    generation: int


@dataclass(frozen=True, slots=True)
class OpenPayment:
    """A payment that is not finished, in brief; None: it waits for a person."""

    kind: Kind
    amount: int
    next_attempt_at: datetime | None
    parked: bool = False


class OutsideKind(StrEnum):
    """What the provider moved without us. `chargeback` and `refund` (by hand) took of the charge; `returned_payout` and
    `returned_refund` came back to us after they were done; `recovered` came back from the chef, who owed it."""

    CHARGEBACK = "chargeback"
    REFUND = "refund"
    RETURNED_PAYOUT = "returned_payout"
    RETURNED_REFUND = "returned_refund"
    RECOVERED = "recovered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Money that moved without us; `amount` in minor units.

    `is_open`: a chargeback that is not decided, which freezes payout and refund; its money is gone meanwhile.
    `is_back`: it was won, or the refund by hand failed, so the money is here again.
    """

    kind: OutsideKind
    amount: int
    is_open: bool = False
    is_back: bool = False


class Stop(StrEnum):
    """Why nothing is decided about the payout now. Each ends by itself, and the payout is planned as if it had never
    been."""

    DISPUTE = "dispute"
    CHARGEBACK = "chargeback"
    HELD = "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Engagement:
    """What a managed booking is about; an id that only holds own jobs has none."""

    state: State
    customer_id: str
    chef_id: str
    event_start: Moment
    event_end: Moment
    price: int
    currency: str
    policy: Policy
    requested_at: datetime
    accepted_at: datetime | None = None
    paid_at: datetime | None = None
    captured: int = 0
    charge_ref: str | None = None
    refunded: int = 0
    paid_out: int = 0
    fee: int = 0
    """`refunded`, `paid_out` and `fee` as decided; the payment rows tell whether the money has moved."""
    payments_made: int = 0
    payments: Mapping[int, OpenPayment] = field(default_factory=lambda: MappingProxyType({}))
    outside: Mapping[str, Outside] = field(default_factory=lambda: MappingProxyType({}))
    """The provider's id of what it moved without us → what that was."""
    reclaimed: int = 0
    """What the chef owes or has given back of `paid_out`: the sum of all reversals decided."""
    reversed: int = 0
    """Of `reclaimed`, what came back."""
    dispute: Dispute | None = None
    """The one dispute a booking can have; kept when it has ended."""
    payout_held_since: datetime | None = None
    """A caller took it on with its payout held: nothing is decided about it until a person releases it."""
    request_hash: str = ""
    revision: int | None = None

    @property
    def is_disputed(self) -> bool:
        """An open dispute freezes completion and payout."""
        return self.dispute is not None and self.dispute.is_open

    @property
    def gone(self) -> int:
        """What chargebacks and refunds by hand took of the charge, in minor units."""
        return self.came(OutsideKind.CHARGEBACK) + self.came(OutsideKind.REFUND)

    @property
    def refundable(self) -> int:
        """What of the charge can still go back to the customer; an open chargeback may yet be won."""
        lost = self.gone - sum(item.amount for item in self.outside.values() if item.is_open)
        return max(0, self.captured - self.refunded - lost)

    def came(self, kind: OutsideKind) -> int:
        """The sum of what moved in this way and was not undone."""
        return sum(item.amount for item in self.outside.values() if item.kind is kind and not item.is_back)

    @property
    def is_frozen(self) -> bool:
        """A chargeback is open: neither payout nor refund goes."""
        return any(item.is_open for item in self.outside.values())

    @property
    def is_held(self) -> bool:
        """The payout waits for a person. Once it is decided, by a cancellation too, nothing is held any more."""
        return self.payout_held_since is not None and not self.is_settled

    @property
    def stops(self) -> tuple[Stop, ...]:
        """What stops the payout now; empty: it is decided at its ordinary instant."""
        found = {Stop.DISPUTE: self.is_disputed, Stop.CHARGEBACK: self.is_frozen, Stop.HELD: self.is_held}
        return tuple(stop for stop, stands in found.items() if stands)

    @property
    def is_settled(self) -> bool:
        """It is decided who gets what was captured."""
        return self.state in (State.PAYING, State.PAID_OUT, *OFF)

    @property
    def receivable(self) -> int:
        """What the chef still owes."""
        return self.reclaimed - self.reversed

    @property
    def reject_at(self) -> datetime:
        """The chef may accept strictly before this."""
        return min(self.requested_at + timedelta(seconds=self.policy.accept_within), self.event_start.instant)

    @property
    def unpaid_at(self) -> datetime:
        """The customer may pay strictly before this."""
        accepted = self.accepted_at or self.requested_at
        return min(accepted + timedelta(seconds=self.policy.pay_within), self.event_start.instant)

    @property
    def complete_at(self) -> datetime:
        return self.event_end.instant + timedelta(seconds=self.policy.complete_after)

    @property
    def release_at(self) -> datetime:
        """The payout's ordinary instant; nobody is paid for the event before it."""
        return self.complete_at + timedelta(seconds=self.policy.dispute_within)


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """One booking, or an id that holds only own jobs (`engagement` is None). Holds all that decides."""

    booking_id: str
    version: int = 0
    engagement: Engagement | None = None
    own: Mapping[str, OwnJob] = field(default_factory=lambda: MappingProxyType({}))
    past: Mapping[str, PastJob] = field(default_factory=lambda: MappingProxyType({}))
    planned: Mapping[str, Planned] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def state(self) -> State | None:
        return self.engagement.state if self.engagement else None


def own_run_at(job: OwnJob, engagement: Engagement | None) -> datetime | None:
    """When an own job is due; None for an anchored one without an event."""
    if job.at is not None:
        return job.at.instant
    if engagement is None:
        return None
    anchor = engagement.event_start if job.anchor == "event_start" else engagement.event_end
    return anchor.instant + job.offset


def jobs_for(booking: Booking) -> dict[str, datetime]:
    """Every job that should exist now, and when it is due: a pure function of the booking."""
    engagement = booking.engagement
    jobs = lifecycle_jobs(engagement) if engagement else {}
    off = engagement is not None and engagement.state in OFF
    for name, own in booking.own.items():
        run_at = own_run_at(own, engagement)
        if run_at is not None and (own.keep_on_cancel or not off):
            jobs[name] = run_at
    return jobs


def lifecycle_jobs(engagement: Engagement) -> dict[str, datetime]:
    """The built-in jobs: the whole forecast, from the day it is known."""
    jobs: dict[str, datetime] = {}
    match engagement.state:
        case State.REQUESTED:
            jobs["reject_request"] = engagement.reject_at
        case State.ACCEPTED:
            jobs["cancel_unpaid"] = engagement.unpaid_at
        case State.PAID:
            jobs["close_event"] = engagement.event_end.instant
        case _:
            pass
    if engagement.state in (State.PAID, State.EVENT_CLOSED) and not engagement.is_disputed:
        jobs["complete_order"] = engagement.complete_at
    if engagement.state in PAYABLE and not engagement.stops:
        jobs["release_payment"] = engagement.release_at
    if engagement.dispute is not None and engagement.dispute.watch_at is not None:
        jobs[WATCH_DISPUTE] = engagement.dispute.watch_at
    for number, payment in engagement.payments.items():
        if payment.next_attempt_at is not None:
            jobs[pay_job(number)] = payment.next_attempt_at
    return jobs


def in_order(jobs: Mapping[str, datetime]) -> list[tuple[datetime, str]]:
    """Jobs by instant; at the same instant own jobs first, then the lifecycle's in its order."""
    rank = {name: position for position, name in enumerate(LIFECYCLE_JOBS, start=1)}
    return [(run_at, name) for run_at, _, name in sorted((at, rank.get(name, 0), name) for name, at in jobs.items())]


def replanned(before: Booking | None, after: Booking, *, renew: frozenset[str] = frozenset()) -> Booking:
    """`after` as the next version, its jobs planned anew: an unchanged job keeps its generation, others get this one.

    `renew`: jobs that get a new generation though their instant is the same (new payload, redriven).
    """
    version = (before.version if before else 0) + 1
    old = before.planned if before else {}
    planned = {
        name: old[name]
        if name in old and old[name].run_at == run_at and name not in renew
        else Planned(run_at, version)
        for name, run_at in jobs_for(after).items()
    }
    return replace(after, version=version, planned=planned)
