"""What the service answers, as frozen values: instants are aware, money is in minor units.

Every value ignores fields it does not know, so that an older client reads a newer service, and keeps the whole answer
in `raw`. States, kinds and event types are text for the same reason.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any

from duebook_client.fields import Fields
from duebook_client.times import seconds_in

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did it, as the marketplace says: role customer, chef, operator, mediator or system, and an opaque id.

    What is done to a dispute needs the id: it is checked against the booking's parties.
    """

    role: str
    id: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {"role": self.role} if self.id is None else {"role": self.role, "id": self.id}


@dataclass(frozen=True, slots=True)
class CancellationTier:
    """A customer who cancels at least `before` ahead of the event gets `refund_bps`/10,000 back."""

    before: timedelta
    refund_bps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules for one booking. In a request, None takes the service's default; an answer has them all.

    `silence`: what a chef's silence in a dispute means, refund or release. `appeals`: 0 or 1.
    """

    accept_within: timedelta | None = None
    pay_within: timedelta | None = None
    event_length: timedelta | None = None
    complete_after: timedelta | None = None
    dispute_within: timedelta | None = None
    fee_bps: int | None = None
    cancellation: tuple[CancellationTier, ...] | None = None
    reply_within: timedelta | None = None
    remind_after: timedelta | None = None
    silence: str | None = None
    offer_within: timedelta | None = None
    review_within: timedelta | None = None
    escalations: int | None = None
    appeals: int | None = None
    appeal_within: timedelta | None = None
    raw: Raw = field(default_factory=dict, repr=False, compare=False)

    def as_json(self) -> dict[str, Any]:
        """Only what is set. Raises `BadArgument` for a part of a second."""
        durations = {name: getattr(self, name) for name in _DURATIONS}
        sent: dict[str, Any] = {
            name: seconds_in(value, f"policy.{name}") for name, value in durations.items() if value is not None
        }
        plain = {name: getattr(self, name) for name in ("fee_bps", "silence", "escalations", "appeals")}
        sent |= {name: value for name, value in plain.items() if value is not None}
        if self.cancellation is not None:
            sent["cancellation"] = [
                {"before": seconds_in(tier.before, "policy.cancellation.before"), "refund_bps": tier.refund_bps}
                for tier in self.cancellation
            ]
        return sent


_DURATIONS = (
    *("accept_within", "pay_within", "event_length", "complete_after", "dispute_within"),
    *("reply_within", "remind_after", "offer_within", "review_within", "appeal_within"),
)


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant, with the local time and the zone (or offset) it was given in."""

    instant: datetime
    local: str
    zone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """One payout or refund. status: intent, unknown (the provider was asked), done or failed.

    `reference` and `idempotency_key` are what the payment provider is given.
    """

    payment_id: str
    booking_id: str
    kind: str
    amount_minor: int
    currency: str
    status: str
    epoch: int
    attempt: int
    reference: str
    idempotency_key: str
    created_at: datetime
    provider_ref: str | None
    next_attempt_at: datetime | None
    reason: str | None
    applied: bool | None = None
    """For an answer to `payment_result`: whether it changed anything."""
    raw: Raw = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """A managed booking. `version` grows with every change; `applied`: whether the command changed anything."""

    booking_id: str
    state: str
    version: int
    revision: int | None
    customer_id: str
    chef_id: str
    event_start: Moment
    event_end: Moment
    price_minor: int
    currency: str
    policy: Policy
    requested_at: datetime
    accepted_at: datetime | None
    paid_at: datetime | None
    captured_minor: int
    charge_ref: str | None
    refunded_minor: int
    payments: tuple[Payment, ...]
    payout_held: bool = False
    applied: bool | None = None
    raw: Raw = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What will happen at `run_at`. status: pending or dead (`reason` says why); `redrive` can answer done."""

    booking_id: str
    job: str
    run_at: datetime
    wake_at: datetime | None
    status: str
    attempts: int
    generation: int
    lane: str
    reason: str | None
    raw: Raw = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChange:
    """The answer to a PUT or DELETE of an own job.

    `applied` False: it was so already, or a higher revision is known. `current`: the job as it is now, None where there
    is none.
    """

    booking_id: str
    job: str
    applied: bool
    current: Job | None
    raw: Raw = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DaySummary:
    """The pending jobs of one UTC day. `job`: `pay` for every `pay_<n>`, `own` for the callers' own together.

    `amounts`: of payouts, where known: currency → minor units.
    """

    day: date
    job: str
    count: int
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ExplainedStep:
    """A step that a wake-up would take now; `at`: its planned instant."""

    type: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a wake-up of the booking would do at `at`, and why the job acts or not. verdict: acts, waits, blocked or
    absent.

    `row`: the job as it is, None where there is none. `steps`: what would happen, in order. `next_job`, `next_run_at`:
    the earliest pending job after them.
    """

    booking_id: str
    job: str
    at: datetime
    state: str | None
    row: Job | None
    verdict: str
    reason: str
    steps: tuple[ExplainedStep, ...]
    next_job: str | None
    next_run_at: datetime | None
    raw: Raw = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Cause:
    """What made it happen: source schedule, sweep, queue or api; of a wake-up, its job and generation."""

    source: str
    generation: int | None = None
    job: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One thing that happened: `at`, and when it was `due` if it had an instant."""

    version: int
    type: str
    at: datetime
    due: datetime | None
    job: str | None
    state: str | None
    cause: Cause | None
    actor: Actor | None
    reason: str | None
    idempotency_key: str | None
    data: Mapping[str, Any]
    published_at: datetime | None
    raw: Raw = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispute:
    """A dispute as it stands. status: opened, awaiting_chef, awaiting_customer, in_review, decided, in_appeal, settled
    or withdrawn. `deadline`: until when whoever is waited for may answer; None: nobody is, or a person without one.

    `decided_by`: concession, offer, silence or mediator. `console_url`: its execution in the AWS console, whose
    history shows task tokens to whoever may read it.
    """

    dispute_id: str
    booking_id: str
    status: str
    customer_id: str
    chef_id: str
    currency: str
    claimed_minor: int
    opened_at: datetime
    reason: str
    text: str
    evidence: tuple[str, ...]
    deadline: datetime | None
    reply: str | None
    reply_text: str | None
    reply_evidence: tuple[str, ...]
    offer_minor: int | None
    offer_answer: str | None
    escalations: int
    needs_attention: bool
    refund_minor: int | None
    decided_by: str | None
    decided_at: datetime | None
    decision_reason: str | None
    mediator_id: str | None
    appeal_until: datetime | None
    appealed_by: str | None
    run: int
    console_url: str | None
    applied: bool | None = None
    raw: Raw = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisputeEntry:
    """One thing that happened in a dispute, in plain words. source: history, or workflow with the number of its run.

    `at` is None where a source could not be read; the text says why.
    """

    at: datetime | None
    text: str
    source: str
    run: int | None
    type: str | None
    due: datetime | None
    actor: Actor | None
    raw: Raw = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisputeHistory:
    """A dispute's timeline, in order, and its present execution in the AWS console."""

    entries: tuple[DisputeEntry, ...]
    console_url: str
    raw: Raw = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """Something that needs a person. A message nobody could read has no booking."""

    kind: str
    booking_id: str | None
    job: str | None
    payment_id: str | None
    dispute_id: str | None
    since: datetime | None
    attempts: int | None
    reason: str | None
    generation: int | None
    raw: Raw = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One balanced entry: `lines` are signed minor units by account, debit positive."""

    version: int
    at: datetime
    type: str
    what: str
    currency: str
    lines: Mapping[str, int]
    payment_id: str | None
    provider_ref: str | None
    raw: Raw = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chef:
    """`account`: the connected account at the provider. Nobody is paid while `held` or not `enabled`."""

    chef_id: str
    account: str | None
    enabled: bool
    held: bool
    reason: str | None
    applied: bool | None = None
    raw: Raw = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedPayment:
    """A payment that waits for its chef; `next_attempt_at` is None when a person has to look."""

    payment_id: str
    booking_id: str
    kind: str
    amount_minor: int
    currency: str
    reason: str | None
    parked_since: datetime
    next_attempt_at: datetime | None
    raw: Raw = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Payouts:
    """The switch for all payouts."""

    paused: bool
    reason: str | None
    applied: bool | None = None
    raw: Raw = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileStart:
    """A reconcile pass was started; `reconcile_report` tells how it goes."""

    started: bool
    run: str | None
    raw: Raw = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileReport:
    """The last reconcile pass. status: running or done; `differences`: what did not match, and was repaired."""

    run: str
    status: str
    started_at: datetime
    finished_at: datetime | None
    schedules_checked: int
    jobs_checked: int
    bookings_checked: int
    differences: int
    raw: Raw = field(default_factory=dict, repr=False, compare=False)

    @property
    def is_done(self) -> bool:
        return self.status == "done"


# --- readers: each raises BadAnswer --------------------------------------------------------------------------------


def read_booking(fields: Fields) -> Booking:
    return Booking(
        booking_id=fields.text("booking_id"),
        state=fields.text("state"),
        version=fields.whole("version"),
        revision=fields.whole_or_none("revision"),
        customer_id=fields.text("customer_id"),
        chef_id=fields.text("chef_id"),
        event_start=_moment(fields.part("event_start")),
        event_end=_moment(fields.part("event_end")),
        price_minor=fields.whole("price_minor"),
        currency=fields.text("currency"),
        policy=_policy(fields.part("policy")),
        requested_at=fields.instant("requested_at"),
        accepted_at=fields.instant_or_none("accepted_at"),
        paid_at=fields.instant_or_none("paid_at"),
        captured_minor=fields.whole_or_none("captured_minor") or 0,
        charge_ref=fields.text_or_none("charge_ref"),
        refunded_minor=fields.whole_or_none("refunded_minor") or 0,
        payments=tuple(read_payment(each) for each in fields.parts("payments")),
        payout_held=bool(fields.flag_or_none("payout_held")),
        applied=fields.flag_or_none("applied"),
        raw=fields.raw,
    )


def read_payment(fields: Fields) -> Payment:
    return Payment(
        payment_id=fields.text("payment_id"),
        booking_id=fields.text("booking_id"),
        kind=fields.text("kind"),
        amount_minor=fields.whole("amount_minor"),
        currency=fields.text("currency"),
        status=fields.text("status"),
        epoch=fields.whole("epoch"),
        attempt=fields.whole("attempt"),
        reference=fields.text("reference"),
        idempotency_key=fields.text("idempotency_key"),
        created_at=fields.instant("created_at"),
        provider_ref=fields.text_or_none("provider_ref"),
        next_attempt_at=fields.instant_or_none("next_attempt_at"),
        reason=fields.text_or_none("reason"),
        applied=fields.flag_or_none("applied"),
        raw=fields.raw,
    )


def read_job(fields: Fields) -> Job:
    return Job(
        booking_id=fields.text("booking_id"),
        job=fields.text("job"),
        run_at=fields.instant("run_at"),
        wake_at=fields.instant_or_none("wake_at"),
        status=fields.text("status"),
        attempts=fields.whole("attempts"),
        generation=fields.whole("generation"),
        lane=fields.text("lane"),
        reason=fields.text_or_none("reason"),
        raw=fields.raw,
    )


def read_day_summary(fields: Fields) -> DaySummary:
    amounts = Fields(fields.mapping("amounts"), f"{fields.what}.amounts")
    return DaySummary(
        day=fields.day("day"),
        job=fields.text("job"),
        count=fields.whole("count"),
        amounts={currency: amounts.whole(currency) for currency in amounts.raw},
    )


def merged(found: Iterable[DaySummary]) -> list[DaySummary]:
    """One for each day and job, in order: the service may split one between two answers."""
    sums: dict[tuple[date, str], DaySummary] = {}
    for each in found:
        key = each.day, each.job
        known = sums.get(key)
        if known is not None:
            amounts = dict(Counter(known.amounts) + Counter(each.amounts))
            each = replace(each, count=known.count + each.count, amounts=amounts)
        sums[key] = each
    return [sums[key] for key in sorted(sums)]


def read_explanation(fields: Fields) -> Explanation:
    row, following = fields.part_or_none("row"), fields.part_or_none("next")
    return Explanation(
        booking_id=fields.text("booking_id"),
        job=fields.text("job"),
        at=fields.instant("at"),
        state=fields.text_or_none("state"),
        row=None if row is None else read_job(row),
        verdict=fields.text("verdict"),
        reason=fields.text("reason"),
        steps=tuple(
            ExplainedStep(step.text("type"), step.text("reason"), step.instant("at")) for step in fields.parts("steps")
        ),
        next_job=None if following is None else following.text("job"),
        next_run_at=None if following is None else following.instant("run_at"),
        raw=fields.raw,
    )


def read_job_change(fields: Fields) -> JobChange:
    return JobChange(
        booking_id=fields.text("booking_id"),
        job=fields.text("job"),
        applied=fields.flag("applied"),
        current=None if fields.raw.get("run_at") is None else read_job(fields),
        raw=fields.raw,
    )


def read_history_entry(fields: Fields) -> HistoryEntry:
    cause, actor = fields.part_or_none("cause"), fields.part_or_none("actor")
    return HistoryEntry(
        version=fields.whole("version"),
        type=fields.text("type"),
        at=fields.instant("at"),
        due=fields.instant_or_none("due"),
        job=fields.text_or_none("job"),
        state=fields.text_or_none("state"),
        cause=None if cause is None else _cause(cause),
        actor=None if actor is None else Actor(actor.text("role"), actor.text_or_none("id")),
        reason=fields.text_or_none("reason"),
        idempotency_key=fields.text_or_none("idempotency_key"),
        data=fields.mapping("data"),
        published_at=fields.instant_or_none("published_at"),
        raw=fields.raw,
    )


def read_dispute(fields: Fields) -> Dispute:
    return Dispute(
        dispute_id=fields.text("dispute_id"),
        booking_id=fields.text("booking_id"),
        status=fields.text("status"),
        customer_id=fields.text("customer_id"),
        chef_id=fields.text("chef_id"),
        currency=fields.text("currency"),
        claimed_minor=fields.whole("claimed_minor"),
        opened_at=fields.instant("opened_at"),
        reason=fields.text("reason"),
        text=fields.text("text"),
        evidence=fields.texts("evidence"),
        deadline=fields.instant_or_none("deadline"),
        reply=fields.text_or_none("reply"),
        reply_text=fields.text_or_none("reply_text"),
        reply_evidence=fields.texts("reply_evidence"),
        offer_minor=fields.whole_or_none("offer_minor"),
        offer_answer=fields.text_or_none("offer_answer"),
        escalations=fields.whole_or_none("escalations") or 0,
        needs_attention=fields.flag_or_none("needs_attention") or False,
        refund_minor=fields.whole_or_none("refund_minor"),
        decided_by=fields.text_or_none("decided_by"),
        decided_at=fields.instant_or_none("decided_at"),
        decision_reason=fields.text_or_none("decision_reason"),
        mediator_id=fields.text_or_none("mediator_id"),
        appeal_until=fields.instant_or_none("appeal_until"),
        appealed_by=fields.text_or_none("appealed_by"),
        run=fields.whole_or_none("run") or 1,
        console_url=fields.text_or_none("console_url"),
        applied=fields.flag_or_none("applied"),
        raw=fields.raw,
    )


def read_dispute_history(fields: Fields) -> DisputeHistory:
    entries = tuple(_dispute_entry(each) for each in fields.parts("history"))
    return DisputeHistory(entries=entries, console_url=fields.text("console_url"), raw=fields.raw)


def _dispute_entry(fields: Fields) -> DisputeEntry:
    actor = fields.part_or_none("actor")
    return DisputeEntry(
        at=fields.instant_or_none("at"),
        text=fields.text("text"),
        source=fields.text("source"),
        run=fields.whole_or_none("run"),
        type=fields.text_or_none("type"),
        due=fields.instant_or_none("due"),
        actor=None if actor is None else Actor(actor.text("role"), actor.text_or_none("id")),
        raw=fields.raw,
    )


def read_dead_letter(fields: Fields) -> DeadLetter:
    return DeadLetter(
        kind=fields.text("kind"),
        booking_id=fields.text_or_none("booking_id"),
        job=fields.text_or_none("job"),
        payment_id=fields.text_or_none("payment_id"),
        dispute_id=fields.text_or_none("dispute_id"),
        since=fields.instant_or_none("since"),
        attempts=fields.whole_or_none("attempts"),
        reason=fields.text_or_none("reason"),
        generation=fields.whole_or_none("generation"),
        raw=fields.raw,
    )


def read_ledger_entry(fields: Fields) -> LedgerEntry:
    lines = fields.part("lines")
    return LedgerEntry(
        version=fields.whole("version"),
        at=fields.instant("at"),
        type=fields.text("type"),
        what=fields.text("what"),
        currency=fields.text("currency"),
        lines={account: lines.whole(account) for account in lines.raw},
        payment_id=fields.text_or_none("payment_id"),
        provider_ref=fields.text_or_none("provider_ref"),
        raw=fields.raw,
    )


def read_chef(fields: Fields) -> Chef:
    return Chef(
        chef_id=fields.text("chef_id"),
        account=fields.text_or_none("account"),
        enabled=bool(fields.flag_or_none("enabled")),
        held=bool(fields.flag_or_none("held")),
        reason=fields.text_or_none("reason"),
        applied=fields.flag_or_none("applied"),
        raw=fields.raw,
    )


def read_parked(fields: Fields) -> ParkedPayment:
    return ParkedPayment(
        payment_id=fields.text("payment_id"),
        booking_id=fields.text("booking_id"),
        kind=fields.text("kind"),
        amount_minor=fields.whole("amount_minor"),
        currency=fields.text("currency"),
        reason=fields.text_or_none("reason"),
        parked_since=fields.instant("parked_since"),
        next_attempt_at=fields.instant_or_none("next_attempt_at"),
        raw=fields.raw,
    )


def read_payouts(fields: Fields) -> Payouts:
    return Payouts(
        paused=bool(fields.flag_or_none("paused")),
        reason=fields.text_or_none("reason"),
        applied=fields.flag_or_none("applied"),
        raw=fields.raw,
    )


def read_reconcile_start(fields: Fields) -> ReconcileStart:
    return ReconcileStart(started=fields.flag("started"), run=fields.text_or_none("run"), raw=fields.raw)


def read_reconcile_report(fields: Fields) -> ReconcileReport:
    return ReconcileReport(
        run=fields.text("run"),
        status=fields.text("status"),
        started_at=fields.instant("started_at"),
        finished_at=fields.instant_or_none("finished_at"),
        schedules_checked=fields.whole("schedules_checked"),
        jobs_checked=fields.whole("jobs_checked"),
        bookings_checked=fields.whole("bookings_checked"),
        differences=fields.whole("differences"),
        raw=fields.raw,
    )


def _cause(fields: Fields) -> Cause:
    return Cause(fields.text("source"), fields.whole_or_none("generation"), fields.text_or_none("job"))


def _moment(fields: Fields) -> Moment:
    return Moment(fields.instant("instant"), fields.text("local"), fields.text("zone"))


def _policy(fields: Fields) -> Policy:
    return Policy(
        **{name: fields.duration_or_none(name) for name in _DURATIONS},
        fee_bps=fields.whole_or_none("fee_bps"),
        silence=fields.text_or_none("silence"),
        escalations=fields.whole_or_none("escalations"),
        appeals=fields.whole_or_none("appeals"),
        cancellation=tuple(
            CancellationTier(timedelta(seconds=tier.whole("before")), tier.whole("refund_bps"))
            for tier in fields.parts("cancellation")
        ),
        raw=fields.raw,
    )
