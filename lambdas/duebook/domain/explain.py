"""What a wake-up of a booking would do now, and why one of its jobs acts, waits, is blocked or is not there.

Nothing is decided here: what decides for real (`everything_due`, `refresh`, `lifecycle_jobs`, a payment's `decide` and
`obstacle`, a dispute's `watch`) runs on the value, and this tells what came of it. Why a job is not derived is found by
deriving it again with one thing lifted at a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, assert_never

from duebook.domain import dispute_steps
from duebook.domain.booking import OFF, Booking, Engagement, State, Stop, in_order, lifecycle_jobs
from duebook.domain.chef import Chef, Switch, obstacle
from duebook.domain.errors import Refused
from duebook.domain.names import LIFECYCLE_JOBS, WATCH_DISPUTE, payment_number
from duebook.domain.payment import Act, Payment, decide, park, retry
from duebook.domain.times import iso
from duebook.domain.transitions import Step, engaged, everything_due, refresh

_LIFTED: Mapping[Stop, Mapping[str, Any]] = {
    Stop.DISPUTE: {"dispute": None},
    Stop.CHARGEBACK: {"outside": {}},
    Stop.HELD: {"payout_held_since": None},
}
"""Each thing that stops the payout → the engagement without it."""
_STOPS: Mapping[Stop, str] = {
    Stop.DISPUTE: "a dispute is open",
    Stop.CHARGEBACK: "a chargeback is open",
    Stop.HELD: "the payout is held until a person releases it",
}


class Verdict(StrEnum):
    """`acts`: a wake-up now does it. `waits`: its instant is to come. `blocked`: something else has to happen first.
    `absent`: there is no such job now, or there is none any more once what is due has happened."""

    ACTS = "acts"
    WAITS = "waits"
    BLOCKED = "blocked"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Told:
    """`reason`: a sentence for people."""

    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """The steps that a wake-up commits at the instant `at`, in order. What has its own step, a payment or a dispute's
    watch, is not among them."""

    before: Booking
    at: datetime
    steps: tuple[Step, ...]

    @property
    def after(self) -> Booking:
        return self.steps[-1].booking if self.steps else self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class Paying:
    """What decides about a payment beside its booking: its row and the rows that `obstacle` looks at."""

    payment: Payment
    chef: Chef
    switch: Switch
    by_event: bool
    needs_account: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the table tells of a job beside the booking. `died`: a dead row's last error. `done`: the last thing that
    the job did, in words. `paying`: of a `pay_<n>` whose payment was decided."""

    died: str | None = None
    done: str | None = None
    paying: Paying | None = None


def foresee(booking: Booking, now: datetime) -> Foreseen:
    """What a wake-up at `now` does to the booking, without doing it. Raises as `everything_due` does."""
    steps = tuple(everything_due(booking, now))
    put_right = refresh(steps[-1].booking if steps else booking, now)
    return Foreseen(before=booking, at=now, steps=(*steps, put_right) if put_right else steps)


def explain(foreseen: Foreseen, job: str, known: Known) -> Told:
    """Whether and why the job acts now."""
    told = _told(foreseen, job, known)
    if known.died is None:
        return told
    return Told(
        Verdict.BLOCKED,
        f"it died ({known.died}) and is woken only when a person redrives it, under a new generation; then: "
        f"{told.verdict}, {told.reason}",
    )


def pending_after(foreseen: Foreseen, dead: frozenset[str]) -> tuple[str, datetime] | None:
    """The earliest job that is pending after the steps; `dead` ones are woken by nobody."""
    left = {job: planned.run_at for job, planned in foreseen.after.planned.items() if job not in dead}
    return next(((job, run_at) for run_at, job in in_order(left)), None)


def _told(foreseen: Foreseen, job: str, known: Known) -> Told:
    for step in foreseen.steps:
        if step.job == job and step.due is not None:
            return Told(Verdict.ACTS, f"it is due since {iso(step.due)}: {step.reason}")
    planned = foreseen.after.planned.get(job)
    if planned is None:
        return _missing(foreseen, job, known)
    if payment_number(job) is not None:
        return _payment(foreseen, job, known.paying)
    if planned.run_at > foreseen.at:
        return Told(Verdict.WAITS, f"it waits until {iso(planned.run_at)}{_then(foreseen.after, job, planned.run_at)}")
    assert job == WATCH_DISPUTE, f"{job} is due and nothing did it"
    return _watch(foreseen)


def _then(booking: Booking, job: str, run_at: datetime) -> str:
    """What it does at its instant if nothing happens before."""
    steps = foresee(booking, run_at).steps
    then = next((step.reason for step in steps if step.job == job), None)
    return f"; if nothing changes, then: {then}" if then else ""


# --- a job that has its own step -----------------------------------------------------------------------------------


def _payment(foreseen: Foreseen, job: str, paying: Paying | None) -> Told:
    if paying is None:
        return Told(Verdict.BLOCKED, f"{job} is pending but its payment is missing: a person has to look")
    payment, now = paying.payment, foreseen.at
    decision = decide(payment, now, by_event=paying.by_event)
    stop = obstacle(
        payment,
        paying.chef,
        paying.switch,
        frozen=engaged(foreseen.after).is_frozen,
        needs_account=paying.needs_account,
    )
    match decision.act:
        case Act.NOTHING:
            return Told(Verdict.BLOCKED, decision.reason)
        case Act.GIVE_UP:
            return Told(Verdict.ACTS, f"it gives up and waits for a person: {decision.reason}")
        case Act.WAIT:
            assert decision.until is not None
            until = f"until {iso(decision.until)}"
            if payment.parked_since is not None:
                return Told(
                    Verdict.BLOCKED, f"it is parked since {iso(payment.parked_since)}: {payment.reason}; {until}"
                )
            if payment.lease_until is not None and now < payment.lease_until:
                return Told(Verdict.BLOCKED, f"it is not known whether the money moved: {decision.reason}, {until}")
            last = f"; the last answer: {payment.reason}" if payment.reason else ""
            held = f"; as things stand it is parked then: {stop.reason}" if stop else ""
            return Told(Verdict.WAITS, f"it waits {until}: {decision.reason}{last}{held}")
        case Act.LOOK_UP:
            other = replace(payment, epoch=payment.epoch + 1).key
            else_ = f"it is parked: {stop.reason}" if stop else f"it is sent under the new key {other}"
            return Told(
                Verdict.ACTS, f"it is looked up as {payment.payment_id} first ({decision.reason}); not found, {else_}"
            )
        case Act.SEND if stop is not None:
            again = park(payment, stop.reason, stop.again, now).next_attempt_at
            then = f"it is looked at again {iso(again)}" if again else "it waits for a person from now on"
            return Told(Verdict.BLOCKED, f"nothing is sent: {stop.reason}; {then}")
        case Act.SEND if paying.by_event:
            return Told(
                Verdict.ACTS,
                f"the marketplace is asked to pay under the reference {payment.payment_id}: {decision.reason}",
            )
        case Act.SEND:
            return Told(Verdict.ACTS, f"it is sent to the provider with the key {payment.key}: {decision.reason}")
        case _:
            assert_never(decision.act)


def _watch(foreseen: Foreseen) -> Told:
    """Only AWS knows whether the workflow still runs; both are told."""
    runs, gone = (dispute_steps.watch(foreseen.after, is_running, foreseen.at) for is_running in (True, False))
    assert runs is not None
    assert gone is not None
    return Told(Verdict.ACTS, f"if the workflow still runs: {runs.reason}; if not: {gone.reason}")


# --- a job that is not there ---------------------------------------------------------------------------------------


def _missing(foreseen: Foreseen, job: str, known: Known) -> Told:
    before = foreseen.before
    for step in foreseen.steps:
        if job in before.planned and job not in step.booking.planned:
            return Told(Verdict.ABSENT, f"{step.type} comes first and takes it away: {step.reason}")
        before = step.booking
    number = payment_number(job)
    if number is not None:
        return _payment_of_a_person(foreseen, number, known.paying)
    booking = foreseen.after
    if job == WATCH_DISPUTE:
        return _unwatched(booking, foreseen.at)
    if job in LIFECYCLE_JOBS:
        return _not_derived(booking, job, known.done)
    return _no_own_job(booking, job, known.done)


def _payment_of_a_person(foreseen: Foreseen, number: int, paying: Paying | None) -> Told:
    """A payment that no wake-up carries on."""
    if paying is None:
        return Told(Verdict.ABSENT, f"payment {number} was not decided")
    payment = paying.payment
    if not payment.needs_attention:
        by = f" as {payment.provider_ref}" if payment.provider_ref else ""
        return Told(Verdict.ABSENT, f"the payment is {payment.status}{by}")
    again = retry(payment, foreseen.at)
    then = f"a redrive tries again with the key {again.key}" if again else "it has to be settled at the provider"
    why = f": {payment.reason}" if payment.reason else ""
    return Told(Verdict.BLOCKED, f"the payment is {payment.status} and waits for a person{why}; {then}")


def _unwatched(booking: Booking, now: datetime) -> Told:
    dispute = booking.engagement.dispute if booking.engagement else None
    if dispute is None:
        return Told(Verdict.ABSENT, "nobody opened a dispute")
    if not dispute.is_open:
        return Told(Verdict.ABSENT, f"the dispute is {dispute.status}")
    try:
        dispute_steps.resume(booking, None, None, now)
    except Refused as refused:
        return Told(Verdict.BLOCKED, f"the dispute waits for a person: {refused}")
    return Told(Verdict.BLOCKED, "the dispute waits for a person: a redrive starts the next run of its workflow")


def _not_derived(booking: Booking, job: str, done: str | None) -> Told:
    engagement = booking.engagement
    if engagement is None:
        return Told(Verdict.ABSENT, f"{booking.booking_id} holds only own jobs")
    if job in lifecycle_jobs(_lifted(engagement)):
        stops = [stop for stop in engagement.stops if job not in lifecycle_jobs(_lifted(engagement, but=stop))]
        return Told(Verdict.BLOCKED, f"it is not planned: {' and '.join(_STOPS[stop] for stop in stops)}")
    if done is not None:
        return Told(Verdict.ABSENT, f"it is done: {done}")
    free, order = _lifted(engagement), list(State)
    states = [state for state in State if job in lifecycle_jobs(replace(free, state=state))]
    over = engagement.state in OFF or order.index(engagement.state) > order.index(states[-1])
    when = "no more" if over else "not yet"
    return Told(
        Verdict.ABSENT,
        f"{when}: it is planned while a booking is {' or '.join(states)}, and this one is {engagement.state}",
    )


def _lifted(engagement: Engagement, *, but: Stop | None = None) -> Engagement:
    """Without what stops the payout, `but` for one."""
    lifted = {name: value for stop, values in _LIFTED.items() if stop is not but for name, value in values.items()}
    return replace(engagement, **lifted)


def _no_own_job(booking: Booking, job: str, done: str | None) -> Told:
    if job in booking.own:
        return Told(Verdict.ABSENT, f"the booking is {booking.state}, and the job is not kept on cancel")
    if done is not None:
        return Told(Verdict.ABSENT, f"it is over: {done}")
    if job in booking.past:
        return Told(Verdict.ABSENT, "it fired or was removed before")
    return Told(Verdict.ABSENT, "nobody asked for such a job")
