"""Every change of a booking, as values: commands of people, and `advance`, which only the clock drives.

Each returns a `Step` (the booking after, and what to tell), None when it already took effect, or raises `Refused` or
`InvalidRequest`. Deadlines are half-open: an act counts strictly before its deadline.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from duebook.domain.booking import (
    MOST_OWN_JOBS,
    MOST_PAST_JOBS,
    OFF,
    PAYABLE,
    Actor,
    Booking,
    Engagement,
    OpenPayment,
    OwnJob,
    PastJob,
    Role,
    State,
    in_order,
    jobs_for,
    own_run_at,
    replanned,
)
from duebook.domain.errors import InvalidRequest, Permanent, Refused
from duebook.domain.names import LIFECYCLE_JOBS, pay_job, payment_id, payment_number
from duebook.domain.payment import Kind, Payment, Status
from duebook.domain.times import HORIZON, Moment, iso

T = TypeVar("T")

CLOCK_SKEW = timedelta(minutes=5)
LATE_REQUEST = timedelta(days=1)
"""An own job may be this much in the past when it is asked for (an outbox that lagged); it is then due at once."""
MOST_STEPS = MOST_OWN_JOBS + 10
"""More transitions than a booking can have due at once: a loop beyond it is a bug."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One transition = one version = one history row = one event.

    `due`: the planned instant of a timed one. `payments`: payment rows that are written with it. `payload`: an own
    job's payload as JSON text, written with it; `fires`: the own job whose payload the event carries.
    `dispute_texts`: the dispute's row is written, with these texts (None: it is not touched).
    """

    type: str
    booking: Booking
    at: datetime
    reason: str
    due: datetime | None = None
    job: str | None = None
    actor: Actor | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    payments: tuple[Payment, ...] = ()
    payload: str | None = None
    fires: str | None = None
    dispute_texts: Mapping[str, Any] | None = None


# --- what only the clock drives ------------------------------------------------------------------------------------


def advance(booking: Booking, now: datetime) -> Step | None:
    """The next transition that is due at `now`, or None. Apply it until None: order, repetition and delay of the
    wake-ups that call it make no difference. Payments have their own fence and are not advanced here."""
    for run_at, job in in_order(jobs_for(booking)):
        if run_at > now:
            return None
        if job in booking.own:
            return _fire(booking, job, run_at, now)
        if job in LIFECYCLE_JOBS:
            assert booking.engagement is not None
            return _timed(booking, booking.engagement, job, run_at, now)
    return None


def everything_due(booking: Booking, now: datetime) -> Iterator[Step]:
    """`advance` until nothing is due: every step that a wake-up at `now` takes, in order. Each is taken from the one
    before it, so whoever commits them one by one may stop at any. Raises `Permanent` when there is no end to it."""
    for _ in range(MOST_STEPS):
        step = advance(booking, now)
        if step is None:
            return
        yield step
        booking = step.booking
    raise Permanent(f"{booking.booking_id} had more than {MOST_STEPS} transitions due at once")


def refresh(booking: Booking, now: datetime) -> Step | None:
    """Job rows as today's code derives them, when they differ from what was written by older code; else None."""
    wanted = jobs_for(booking)
    written = {name: planned.run_at for name, planned in booking.planned.items()}
    if wanted == written:
        return None
    changed = sorted(name for name in wanted.keys() | written.keys() if wanted.get(name) != written.get(name))
    return Step(
        type="booking.replanned",
        booking=replanned(booking, booking),
        at=now,
        reason=f"derived jobs differ from the rows: {', '.join(changed)}",
        data={"jobs": changed},
    )


def _fire(booking: Booking, job: str, due: datetime, now: datetime) -> Step:
    own = booking.own[job]
    after = replace(booking, own=_without(booking.own, job), past=_remember(booking.past, job, own))
    return Step(
        type="job.due",
        booking=replanned(booking, after),
        at=now,
        due=due,
        job=job,
        fires=job,
        reason="its instant has come",
        data={"run_at": iso(due)},
    )


def _timed(booking: Booking, engagement: Engagement, job: str, due: datetime, now: datetime) -> Step:
    type_, state, reason = {
        "reject_request": ("booking.rejected", State.REJECTED, "the chef did not answer in time"),
        "cancel_unpaid": ("booking.expired", State.EXPIRED, "the customer did not pay in time"),
        "close_event": ("booking.event_closed", State.EVENT_CLOSED, "the event has ended"),
        "complete_order": ("booking.completed", State.COMPLETED, "no dispute held the completion"),
        "release_payment": ("booking.payout_decided", State.PAYING, "the time for disputes is over"),
    }[job]
    payments: tuple[Payment, ...] = ()
    if job == "release_payment":
        engagement, payments = _pay_out(booking.booking_id, engagement, now)
        if not payments:
            type_, state, reason = "booking.paid_out", State.PAID_OUT, "nothing is left to pay out"
    return engaged_step(
        booking,
        replace(engagement, state=state),
        type_,
        now,
        reason,
        due=due,
        job=job,
        payments=payments,
        data=amounts(payments),
    )


# --- the marketplace's commands ------------------------------------------------------------------------------------


def request(
    booking: Booking | None, booking_id: str, engagement: Engagement, now: datetime, actor: Actor | None = None
) -> Step:
    """A new managed booking, or one that exists elsewhere and is taken over in the state it has."""
    start, end = engagement.event_start.instant, engagement.event_end.instant
    if end <= start:
        raise InvalidRequest("end_before_start", "event_end", f"the event ends {iso(end)}, not after {iso(start)}")
    _within_horizon(end, now, "event_end")
    if engagement.state in (State.REQUESTED, State.ACCEPTED) and start <= now:
        raise InvalidRequest("past_event", "event_start", f"the event began {iso(start)}, and it is {iso(now)}")
    if start < now - HORIZON:
        raise InvalidRequest("past_event", "event_start", f"the event began {iso(start)}, over five years ago")
    before = booking or Booking(booking_id=booking_id)
    for name, own in before.own.items():
        _check_own_run_at(own_run_at(own, engagement), now, name)
    reason = f"taken on as {engagement.state}{', with its payout held' if engagement.is_held else ''}"
    return engaged_step(before, engagement, "booking.requested", now, reason, actor=actor)


def accept(booking: Booking, actor: Actor | None, now: datetime) -> Step | None:
    engagement = engaged(booking)
    if engagement.accepted_at is not None:
        return None
    _allow(engagement, "accept", State.REQUESTED)
    after = replace(engagement, state=State.ACCEPTED, accepted_at=now)
    return engaged_step(booking, after, "booking.accepted", now, "the chef accepted", actor=actor)


def decline(booking: Booking, actor: Actor | None, why: str | None, now: datetime) -> Step | None:
    engagement = engaged(booking)
    if engagement.state is State.REJECTED:
        return None
    _allow(engagement, "decline", State.REQUESTED)
    after = replace(engagement, state=State.REJECTED)
    return engaged_step(booking, after, "booking.declined", now, why or "the chef declined", actor=actor)


def pay(booking: Booking, captured: int, charge_ref: str, paid_at: datetime, now: datetime) -> Step | None:
    """The customer's money was captured. Too late for the booking, all of it goes back."""
    engagement = engaged(booking)
    if engagement.charge_ref is not None:
        if (engagement.charge_ref, engagement.captured) == (charge_ref, captured):
            return None
        raise Refused("already_paid", "another capture is recorded already", state=engagement.state)
    if paid_at > now + CLOCK_SKEW:
        raise InvalidRequest("in_the_future", "paid_at", f"paid_at {iso(paid_at)} is in the future: it is {iso(now)}")
    after = replace(engagement, captured=captured, charge_ref=charge_ref, paid_at=paid_at)
    if engagement.state in OFF:
        after, payments = refund_payment(booking.booking_id, after, captured, now)
        reason = f"the money came after the booking was {engagement.state}"
        return engaged_step(
            booking, after, "booking.capture_refunded", now, reason, payments=payments, data=amounts(payments)
        )
    _allow(engagement, "pay", State.ACCEPTED)
    return engaged_step(
        booking,
        replace(after, state=State.PAID),
        "booking.paid",
        now,
        "the customer paid",
        data={"captured_minor": captured, "currency": engagement.currency},
    )


def move(
    booking: Booking, start: Moment, end: Moment, actor: Actor | None, why: str | None, now: datetime
) -> Step | None:
    """The event moves, and with it everything that is tied to its date."""
    engagement = engaged(booking)
    if (engagement.event_start, engagement.event_end) == (start, end):
        return None
    _undisputed(engagement)
    _allow(engagement, "move", State.REQUESTED, State.ACCEPTED, State.PAID)
    if end.instant <= start.instant:
        raise InvalidRequest("end_before_start", "event_end", f"the event ends {iso(end.instant)}, not after its start")
    if start.instant <= now:
        raise InvalidRequest("past_event", "event_start", f"{iso(start.instant)} is past: it is {iso(now)}")
    _within_horizon(end.instant, now, "event_end")
    after = replace(engagement, event_start=start, event_end=end)
    for own in booking.own.values():
        run_at = own_run_at(own, after)
        if run_at is not None:
            _within_horizon(run_at, now, "event_start")
    data = {
        "from": {"event_start": iso(engagement.event_start.instant), "event_end": iso(engagement.event_end.instant)},
        "to": {"event_start": iso(start.instant), "event_end": iso(end.instant)},
    }
    return engaged_step(booking, after, "booking.moved", now, why or "the event was moved", actor=actor, data=data)


def cancel(booking: Booking, actor: Actor, refund: int | None, why: str | None, now: datetime) -> Step | None:
    """The refund and the chef's remainder are decided here and now; both payments are written with it.

    Without `refund`: all of it when the chef or the operator cancels, else by the policy's tiers. What a dispute gave
    back is no longer there to refund. A held payout does not hold it: a person decides here, and both payments go.
    """
    engagement = engaged(booking)
    if engagement.state is State.CANCELLED:
        given = engagement.refunded - _settled(engagement)
        if refund is None or refund == given:
            return None
        raise Refused("already_cancelled", f"cancelled with a refund of {given}", state=engagement.state)
    _undisputed(engagement)
    _allow(engagement, "cancel", State.REQUESTED, State.ACCEPTED, *PAYABLE)
    left = engagement.event_start.instant - now
    if left <= timedelta() and actor.role is not Role.OPERATOR:
        raise Refused("event_started", "once the event has begun only the operator can cancel", state=engagement.state)
    rest = engagement.refundable
    if refund is None:
        refund = rest if actor.role in (Role.CHEF, Role.OPERATOR) else engagement.policy.refund(rest, left)
    if refund > rest:
        raise InvalidRequest("refund_exceeds_capture", "refund_minor", f"{refund} is more than the {rest} that is left")
    after = replace(engagement, state=State.CANCELLED)
    after, back = refund_payment(booking.booking_id, after, refund, now)
    after, on = _pay_out(booking.booking_id, after, now)
    reason = why or f"cancelled by the {actor.role}"
    return engaged_step(
        booking, after, "booking.cancelled", now, reason, actor=actor, payments=back + on, data=amounts(back + on)
    )


def release_payout(booking: Booking, actor: Actor | None, why: str | None, now: datetime) -> Step | None:
    """A person lifts the hold with which the booking was taken on: the payout keeps its ordinary instant, and is due at
    once if that has passed. None: nothing is held."""
    engagement = engaged(booking)
    if not engagement.is_held:
        return None
    after = replace(engagement, payout_held_since=None)
    data = {"run_at": iso(after.release_at)}
    return engaged_step(
        booking, after, "booking.payout_released", now, why or "released by a person", actor=actor, data=data
    )


def _settled(engagement: Engagement) -> int:
    """What a dispute that is over has given back: a cancellation's refund comes on top."""
    over = engagement.dispute is not None and not engagement.dispute.is_open
    return (engagement.dispute.refund or 0) if over and engagement.dispute else 0


# --- own jobs ------------------------------------------------------------------------------------------------------


def set_job(
    booking: Booking | None, booking_id: str, name: str, job: OwnJob, payload: str | None, now: datetime
) -> Step | None:
    """PUT of an own job: made, or its instant and payload replaced. None: it is so already, or a newer one is known."""
    before = booking or Booking(booking_id=booking_id)
    known = before.own.get(name)
    if _is_stale(known or before.past.get(name), job.revision, job.request_hash):
        return None
    if job.anchor is not None and before.engagement is None:
        raise InvalidRequest("no_event", "anchor", f"{booking_id} is no managed booking, so it has no {job.anchor}")
    if before.state in OFF and not job.keep_on_cancel:
        raise Refused("booking_is_off", f"the booking is {before.state}; keep_on_cancel is needed", state=before.state)
    if known is None and len(before.own) >= MOST_OWN_JOBS:
        raise Refused("too_many_jobs", f"a booking has at most {MOST_OWN_JOBS} own jobs", state=before.state)
    run_at = own_run_at(job, before.engagement)
    _check_own_run_at(run_at, now, None)
    after = replace(before, own={**before.own, name: job}, past=_without(before.past, name))
    assert run_at is not None
    return Step(
        type="job.set",
        booking=replanned(before, after, renew=frozenset({name})),
        at=now,
        job=name,
        payload=payload,
        reason="moved" if known else "requested",
        data={"run_at": iso(run_at), "revision": job.revision},
    )


def remove_job(booking: Booking | None, booking_id: str, name: str, revision: int | None, now: datetime) -> Step | None:
    """DELETE of an own job. With a revision it is remembered even when there is no such job, for a PUT that is late."""
    before = booking or Booking(booking_id=booking_id)
    known = before.own.get(name)
    if known is None and revision is None:
        return None
    if _is_stale(known or before.past.get(name), revision, ""):
        return None
    removed = known if known is not None and revision is None else OwnJob(revision=revision)
    past = before.past if removed.revision is None else _remember(before.past, name, removed)
    after = replace(before, own=_without(before.own, name), past=past)
    return Step(
        type="job.removed",
        booking=replanned(before, after),
        at=now,
        job=name,
        reason="removed",
        data={"revision": revision},
    )


def redrive(booking: Booking, job: str, actor: Actor | None, why: str | None, now: datetime) -> Step:
    """A person wakes a job again: its row gets a new generation, so what is still under way for the old one is void."""
    return Step(
        type="job.redriven",
        booking=replanned(booking, booking, renew=frozenset({job})),
        at=now,
        job=job,
        actor=actor,
        reason=why or "redriven by a person",
    )


def _is_stale(known: OwnJob | PastJob | None, revision: int | None, request_hash: str) -> bool:
    """Whether a request changes nothing. Raises `Refused` for the same revision with another body."""
    if known is None:
        return False
    if revision is not None and known.revision is not None:
        if revision == known.revision and request_hash != known.request_hash:
            raise Refused("revision_conflict", f"revision {revision} came with another body before")
        return revision <= known.revision
    return request_hash != "" and request_hash == known.request_hash


# --- payments ------------------------------------------------------------------------------------------------------


def payment_step(booking: Booking, payment: Payment, type_: str, now: datetime, reason: str, **data: Any) -> Step:
    """A payment's row changed (claimed, answered, retried): the booking's brief and its state follow."""
    engagement = engaged(booking)
    after = briefed(engagement, payment)
    if payment.status is Status.DONE and payment.kind is Kind.REVERSAL:
        after = replace(after, reversed=engagement.reversed + payment.amount)
    if payment.status is Status.DONE and payment.kind is Kind.PAYOUT and engagement.state is State.PAYING:
        after, type_ = replace(after, state=State.PAID_OUT), "booking.paid_out"
    return engaged_step(
        booking,
        after,
        type_,
        now,
        reason,
        job=pay_job(payment.number),
        payments=(payment,),
        data={**_amount(payment), **data},
        renew=frozenset({pay_job(payment.number)}),
    )


def briefed(engagement: Engagement, *payments: Payment) -> Engagement:
    """The booking's brief of its open payments, with these as they are now."""
    brief = dict(engagement.payments)
    for payment in payments:
        brief.pop(payment.number, None)
        if payment.is_open:
            parked = payment.parked_since is not None
            brief[payment.number] = OpenPayment(payment.kind, payment.amount, payment.next_attempt_at, parked)
    return replace(engagement, payments=brief)


def retried(booking: Booking, payment: Payment, actor: Actor | None, why: str | None, now: datetime) -> Step:
    """A person tries a payment again; `payment` as `payment.retry` leaves it."""
    step = payment_step(booking, payment, "payment.retried", now, why or "retried by a person")
    return replace(step, actor=actor)


def refund_payment(
    booking_id: str, engagement: Engagement, amount: int, now: datetime
) -> tuple[Engagement, tuple[Payment, ...]]:
    after, payments = new_payment(booking_id, engagement, Kind.REFUND, amount, now)
    return replace(after, refunded=engagement.refunded + amount), payments


def chefs_share(engagement: Engagement) -> int:
    """What was captured and did not go back, less the fee. More may be gone than was captured: then nothing."""
    rest = max(0, engagement.captured - engagement.refunded - engagement.gone)
    return rest - engagement.policy.fee(rest)


def payout_of(engagement: Engagement, job: str) -> int | None:
    """What goes to the chef when this job is done, in minor units, as things stand; None: it pays no chef."""
    if job == "release_payment":
        return chefs_share(engagement)
    payment = engagement.payments.get(payment_number(job) or 0)
    return payment.amount if payment is not None and payment.kind is Kind.PAYOUT else None


def _pay_out(booking_id: str, engagement: Engagement, now: datetime) -> tuple[Engagement, tuple[Payment, ...]]:
    """The chef's share: one payout, once. The platform keeps, or bears, the rest."""
    share = chefs_share(engagement)
    after, payments = new_payment(booking_id, engagement, Kind.PAYOUT, share, now)
    rest = engagement.captured - engagement.refunded - engagement.gone
    return replace(after, paid_out=share, fee=rest - share), payments


def new_payment(
    booking_id: str, engagement: Engagement, kind: Kind, amount: int, now: datetime
) -> tuple[Engagement, tuple[Payment, ...]]:
    """A payment's intent, numbered after the last one; none for an amount of 0."""
    if amount == 0:
        return engagement, ()
    number = engagement.payments_made + 1
    payment = Payment(
        payment_id=payment_id(booking_id, number),
        booking_id=booking_id,
        number=number,
        kind=kind,
        amount=amount,
        currency=engagement.currency,
        chef_id=engagement.chef_id,
        charge_ref=engagement.charge_ref,
        created_at=now,
        next_attempt_at=now,
    )
    brief = {**engagement.payments, number: OpenPayment(kind, amount, now)}
    return replace(engagement, payments_made=number, payments=brief), (payment,)


def amounts(payments: tuple[Payment, ...]) -> dict[str, Any]:
    return {"payments": [_amount(payment) for payment in payments]} if payments else {}


def _amount(payment: Payment) -> dict[str, Any]:
    return {
        "payment_id": payment.payment_id,
        "kind": payment.kind.value,
        "amount_minor": payment.amount,
        "currency": payment.currency,
    }


# --- shared --------------------------------------------------------------------------------------------------------


def engaged_step(
    booking: Booking,
    engagement: Engagement,
    type_: str,
    now: datetime,
    reason: str,
    *,
    renew: frozenset[str] = frozenset(),
    **more: Any,
) -> Step:
    after = replanned(booking, replace(booking, engagement=engagement), renew=renew)
    return Step(type=type_, booking=after, at=now, reason=reason, **more)


def engaged(booking: Booking) -> Engagement:
    if booking.engagement is None:
        raise Refused("not_managed", f"{booking.booking_id} holds only own jobs", state=None)
    return booking.engagement


def _allow(engagement: Engagement, command: str, *states: State) -> None:
    if engagement.state not in states:
        allowed = ", ".join(states)
        raise Refused(
            "illegal_transition",
            f"cannot {command} a booking that is {engagement.state}; it must be {allowed}",
            state=engagement.state,
        )


def _undisputed(engagement: Engagement) -> None:
    if engagement.is_disputed:
        raise Refused("dispute_open", "an open dispute holds the booking as it is", state=engagement.state)
    if engagement.is_frozen:
        raise Refused("chargeback_open", "an open chargeback holds the booking as it is", state=engagement.state)


def _within_horizon(instant: datetime, now: datetime, field: str) -> None:
    if instant > now + HORIZON:
        raise InvalidRequest("beyond_horizon", field, f"{iso(instant)} is more than five years ahead")


def _check_own_run_at(run_at: datetime | None, now: datetime, name: str | None) -> None:
    if run_at is None:
        return
    if name is None and run_at < now - LATE_REQUEST:
        raise InvalidRequest("past_run_at", "run_at", f"{iso(run_at)} is more than a day past: it is {iso(now)}")
    _within_horizon(run_at, now, "run_at")


def _remember(past: Mapping[str, PastJob], name: str, job: OwnJob) -> dict[str, PastJob]:
    kept = dict(_without(past, name))
    kept[name] = PastJob(revision=job.revision, request_hash=job.request_hash)
    for oldest in list(kept)[: max(0, len(kept) - MOST_PAST_JOBS)]:
        del kept[oldest]
    return kept


def _without(mapping: Mapping[str, T], name: str) -> dict[str, T]:
    return {key: value for key, value in mapping.items() if key != name}
