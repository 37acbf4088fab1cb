"""The shape of every answer. The handlers answer plain values and never load this: in Lambda an answer costs no check.

What is here is what `duebook.handlers.api.views` makes: the tests hold every answer that they see to the document, and
so to these classes. Instants are ISO 8601 in UTC, money is in minor units, durations are in seconds.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict  # pydantic wants it before Python 3.12

from duebook.domain.booking import Role, State
from duebook.domain.dispute import Decider, DisputeStatus, OfferAnswer, Reply
from duebook.domain.explain import Verdict
from duebook.domain.ledger import ACCOUNTS
from duebook.domain.names import BOOKING_ID, DISPUTE_ID, JOB_NAME, LANES, OPAQUE_ID, PAYMENT_ID
from duebook.domain.payment import Kind, Status
from duebook.domain.policy import Silence

Instant = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
Day = Annotated[str, WithJsonSchema({"type": "string", "format": "date"})]
BookingId = Annotated[str, Field(pattern=f"^{BOOKING_ID}$")]
JobName = Annotated[str, Field(pattern=f"^{JOB_NAME}$")]
PaymentId = Annotated[str, Field(pattern=f"^{PAYMENT_ID}$")]
DisputeId = Annotated[str, Field(pattern=f"^{DISPUTE_ID}$")]
OpaqueId = Annotated[str, Field(pattern=f"^{OPAQUE_ID}$")]
Currency = Annotated[str, Field(pattern="^[A-Z]{3}$")]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Bps = Annotated[int, Field(ge=0, le=10_000)]
Lane = Annotated[str, WithJsonSchema({"type": "string", "enum": list(LANES)})]
AccountName = Annotated[str, WithJsonSchema({"type": "string", "enum": list(ACCOUNTS)})]
ByAccount = Annotated[dict[AccountName, int], Field(description="Account to signed minor units, debit positive.")]
InMajorUnits = Annotated[dict[AccountName, str], Field(description="The same in major units, as text.")]
ByCurrency = dict[Currency, int]
Sums = Annotated[dict[Currency, ByAccount], Field(description="Currency to account to minor units; sums to 0.")]
Cursor = Annotated[str | None, Field(description="Where the next page begins; null at the end.")]
Applied = Annotated[bool, Field(description="Whether this request changed anything; false: it was so already.")]


class Actor(TypedDict):
    role: Role
    id: NotRequired[OpaqueId]


# --- bookings ------------------------------------------------------------------------------------------------------


class Moment(TypedDict):
    """An instant, with the local time and the zone (an IANA name, or an offset) it was given in."""

    instant: Instant
    local: str
    zone: str


class Tier(TypedDict):
    before: Count
    refund_bps: Bps


class Policy(TypedDict):
    """The rules that were snapshotted when the booking was made."""

    accept_within: Count
    pay_within: Count
    event_length: Count
    complete_after: Count
    dispute_within: Count
    fee_bps: Bps
    cancellation: list[Tier]
    reply_within: Count
    remind_after: Count
    silence: Silence
    offer_within: Count
    review_within: Count
    escalations: Count
    appeals: Count
    appeal_within: Count


class Payment(TypedDict):
    """A payout to the chef, a refund to the customer, or a reversal of a payout."""

    payment_id: PaymentId
    booking_id: BookingId
    kind: Kind
    amount_minor: Count
    currency: Currency
    status: Status
    epoch: Positive
    attempt: Count
    reference: Annotated[PaymentId, Field(description="What the provider is given to find it by.")]
    idempotency_key: Annotated[str, Field(description="What the provider is given to do it once.")]
    provider_ref: str | None
    next_attempt_at: Instant | None
    reason: str | None
    created_at: Instant
    account: str | None
    of_ref: Annotated[str | None, Field(description="Of a reversal: the provider's id of the payout it takes back.")]
    parked_since: Instant | None


class PaymentChanged(Payment):
    applied: Applied


class DisputeBrief(TypedDict):
    dispute_id: DisputeId
    status: DisputeStatus
    deadline: Instant | None


class ManagedBooking(TypedDict):
    booking_id: BookingId
    version: Positive
    state: State
    revision: Count | None
    customer_id: OpaqueId
    chef_id: OpaqueId
    event_start: Moment
    event_end: Moment
    price_minor: Count
    currency: Currency
    policy: Policy
    requested_at: Instant
    accepted_at: Instant | None
    paid_at: Instant | None
    captured_minor: Count
    charge_ref: OpaqueId | None
    refunded_minor: Count
    paid_out_minor: Count
    fee_minor: Count
    gone_minor: Annotated[int, Field(description="What chargebacks and refunds by hand took of the charge.")]
    reversed_minor: Count
    receivable_minor: Annotated[int, Field(description="What the chef still owes.")]
    frozen: Annotated[bool, Field(description="A chargeback is open: neither payout nor refund goes.")]
    payout_held: Annotated[bool, Field(description="A person has to release the payout before it is decided.")]
    payments: list[Payment]
    dispute: DisputeBrief | None


class BookingChanged(ManagedBooking):
    applied: Applied


class OnlyOwnJobs(TypedDict):
    """An id that was never booked here: it holds own jobs, and has no lifecycle."""

    booking_id: BookingId
    version: Positive
    state: None


class HistoryCause(TypedDict):
    """What made it happen; of a wake-up, its job and generation."""

    source: Literal["schedule", "sweep", "queue", "api", "workflow"]
    job: NotRequired[JobName]
    generation: NotRequired[Count]


class HistoryEntry(TypedDict):
    version: Positive
    type: str
    at: Instant
    due: Annotated[Instant | None, Field(description="The planned instant of what had one.")]
    job: JobName | None
    state: State | None
    cause: HistoryCause
    actor: Actor | None
    reason: str
    idempotency_key: str | None
    data: Annotated[dict[str, Any], Field(description="By type: see docs/events.")]
    published_at: Annotated[Instant | None, Field(description="When the bus accepted its event.")]


class History(TypedDict):
    history: list[HistoryEntry]
    cursor: Cursor


class Payments(TypedDict):
    payments: list[Payment]


# --- schedules -----------------------------------------------------------------------------------------------------


class JobRow(TypedDict):
    booking_id: BookingId
    job: JobName
    run_at: Instant
    wake_at: Annotated[Instant, Field(description="When the sweeper looks at it, if nothing woke it before.")]
    attempts: Count
    generation: Positive
    lane: Lane
    reason: Annotated[str | None, Field(description="Why it is dead, or was tried again.")]


class Job(JobRow):
    status: Literal["pending", "dead"]


class JobRedriven(JobRow):
    """`done`: it was due, and this request did it."""

    status: Literal["pending", "dead", "done"]


class DaySum(TypedDict):
    """Pending jobs of one UTC day. `job` is `pay` for every `pay_<n>`, and `own` for the callers' own together."""

    day: Day
    job: JobName
    count: Positive
    amounts: Annotated[ByCurrency, Field(description="Of payouts, where known, in minor units.")]


Summary = TypedDict(
    "Summary",
    {"from": Instant, "to": Instant, "days": list[DaySum], "complete": bool, "next": Cursor},
)


class ExplainedStep(TypedDict):
    type: str
    reason: str
    at: Annotated[Instant, Field(description="Its planned instant.")]


class NextJob(TypedDict):
    job: JobName
    run_at: Instant


class Explanation(TypedDict):
    """What a wake-up of the booking would do now, and why the job acts, waits, is blocked or is absent."""

    booking_id: BookingId
    job: JobName
    at: Instant
    state: State | None
    row: Job | None
    verdict: Verdict
    reason: Annotated[str, Field(description="A sentence for people.")]
    steps: Annotated[list[ExplainedStep], Field(description="What would happen now, in order.")]
    next: Annotated[NextJob | None, Field(description="The earliest pending job after these steps.")]


class JobChanged(TypedDict):
    """The job as it is now; all null where there is none: anchored to an event that is not booked yet, or removed."""

    booking_id: BookingId
    job: JobName
    run_at: Instant | None
    wake_at: Instant | None
    status: Literal["pending", "dead"] | None
    attempts: Count | None
    generation: Positive | None
    lane: Lane | None
    reason: str | None
    applied: Applied


class JobRemoved(TypedDict):
    booking_id: BookingId
    job: JobName
    applied: Applied


class Jobs(TypedDict):
    jobs: list[Job]


class JobsPage(Jobs):
    cursor: Cursor


# --- disputes ------------------------------------------------------------------------------------------------------


class Dispute(TypedDict):
    dispute_id: DisputeId
    booking_id: BookingId
    status: DisputeStatus
    customer_id: OpaqueId
    chef_id: OpaqueId
    currency: Currency
    claimed_minor: Positive
    opened_at: Instant
    reason: str
    text: str
    evidence: list[str]
    deadline: Annotated[Instant | None, Field(description="Until when whoever is waited for may answer.")]
    remind_at: Instant | None
    reply: Reply | None
    reply_text: str | None
    reply_evidence: list[str] | None
    offer_minor: Positive | None
    offer_answer: OfferAnswer | None
    escalations: Count
    needs_attention: bool
    refund_minor: Count | None
    decided_by: Decider | None
    decided_at: Instant | None
    decision_reason: str | None
    mediator_id: OpaqueId | None
    appeal_until: Instant | None
    appealed_by: str | None
    appeal_text: str | None
    run: Positive
    since: Annotated[Instant | None, Field(description="Since when it waits as it does now.")]
    console_url: Annotated[str, Field(description="Its present execution in the AWS console.")]


class DisputeChanged(Dispute):
    applied: Applied


class Disputes(TypedDict):
    disputes: list[Dispute]
    cursor: Cursor


class DisputeEntry(TypedDict):
    """`at` is null where a source could not be read; the text says why."""

    at: Instant | None
    text: str
    source: Literal["history", "workflow"]
    run: NotRequired[Positive]
    version: NotRequired[Positive]
    type: NotRequired[str]
    due: NotRequired[Instant]
    actor: NotRequired[Actor]
    data: NotRequired[dict[str, Any]]


class DisputeHistory(TypedDict):
    history: list[DisputeEntry]
    console_url: str


# --- payments ------------------------------------------------------------------------------------------------------


class LedgerEntry(TypedDict):
    version: Positive
    at: Instant
    type: str
    what: Literal["decision", "payout", "refund", "reversal"]
    currency: Currency
    payment_id: PaymentId | None
    provider_ref: str | None
    lines: ByAccount
    shown: InMajorUnits


class Balance(TypedDict):
    """captured = refunded + net paid out + fee + held - receivable."""

    currency: Currency
    captured_minor: Count
    refunded_minor: int
    net_paid_out_minor: int
    fee_minor: int
    held_minor: int
    receivable_minor: int


NoBalance = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {"type": "object", "maxProperties": 0, "description": "An id that holds only own jobs has no money."}
    ),
]


class Ledger(TypedDict):
    entries: list[LedgerEntry]
    cursor: Cursor
    balance: Balance | NoBalance


class Chef(TypedDict):
    chef_id: OpaqueId
    account: Annotated[str | None, Field(description="The connected account at the provider.")]
    enabled: bool
    held: bool
    reason: str | None
    version: Count


class ChefChanged(Chef):
    applied: Applied


class ParkedPayment(TypedDict):
    payment_id: PaymentId
    booking_id: BookingId
    kind: Kind
    amount_minor: Count
    currency: Currency
    reason: str | None
    next_attempt_at: Annotated[Instant | None, Field(description="Null: a person has to look.")]
    parked_since: Instant


class Parked(TypedDict):
    parked: list[ParkedPayment]
    cursor: Cursor


# --- operations ----------------------------------------------------------------------------------------------------


class DeadLetter(TypedDict):
    kind: Literal["dead", "needs_attention", "outbox", "held"]
    booking_id: BookingId | None
    job: JobName | None
    payment_id: PaymentId | None
    dispute_id: DisputeId | None
    attempts: Count | None
    reason: str | None
    generation: Count | None
    since: Instant | None
    amount_minor: NotRequired[Annotated[Count, Field(description="Of a payment, or of a job that pays a chef.")]]
    currency: NotRequired[Annotated[Currency, Field(description="As `amount_minor`.")]]
    payment_kind: NotRequired[Annotated[Kind, Field(description="Of a payment.")]]
    message_id: NotRequired[Annotated[str, Field(description="Of a message that nobody could read.")]]
    version: NotRequired[
        Annotated[Positive, Field(description="Of a history row whose event the bus did not accept yet.")]
    ]


class DeadLetters(TypedDict):
    dead_letters: list[DeadLetter]
    cursor: Cursor


class ReconcileStarted(TypedDict):
    started: Literal[True]
    run: str | None


class ReconcileReport(TypedDict):
    run: str
    status: Literal["running", "done"]
    phase: Literal["schedules", "jobs", "bookings", "done"]
    started_at: Instant
    finished_at: Instant | None
    rounds: Count
    schedules_checked: Count
    jobs_checked: Count
    bookings_checked: Count
    differences: Count
    orphan_schedules: Count
    wrong_schedules: Count
    wrong_rows: Count
    overdue_jobs: Count
    foreign_schedules: Count
    examples: list[str]


class TrialBalance(TypedDict):
    day: Day
    closed: bool
    at: NotRequired[Annotated[Instant, Field(description="When it was closed.")]]
    opening_of: NotRequired[Annotated[Day | None, Field(description="Of an open day: whose closing it begins with.")]]
    opening: Sums
    movement: Sums
    closing: Sums
    closing_shown: dict[Currency, InMajorUnits]


class Difference(TypedDict):
    payment_id: PaymentId
    currency: Currency
    ours: int
    provider: int
    difference: int


class Reconciliation(TypedDict):
    day: Day
    at: Instant
    ours: ByCurrency
    provider: Annotated[ByCurrency | None, Field(description="Null: the provider cannot be asked.")]
    difference: ByCurrency | None
    payments: Count
    differences: Count
    lines: list[Difference]


class Switch(TypedDict):
    paused: bool
    reason: str | None
    version: Count


class SwitchChanged(Switch):
    applied: Applied


# --- errors --------------------------------------------------------------------------------------------------------


class ErrorDetail(TypedDict):
    code: Annotated[str, Field(description="For programs; stays the same.")]
    message: Annotated[str, Field(description="For people: what was wrong, and what to do.")]
    field: NotRequired[Annotated[str, Field(description="Where in the request, as a dotted path.")]]
    state: NotRequired[Annotated[str, Field(description="The booking's, where that is the reason.")]]


class Error(TypedDict):
    """What every error of the service is."""

    error: ErrorDetail


class GatewayError(TypedDict):
    """What the gateway answers before, or instead of, the service."""

    message: str | None


ANSWERS: Mapping[str, Any] = {
    "put_job": JobChanged,
    "delete_job": JobRemoved,
    "get_jobs": Jobs,
    "get_due": JobsPage,
    "get_summary": Summary,
    "put_booking": BookingChanged,
    "get_booking": ManagedBooking | OnlyOwnJobs,
    "accept": BookingChanged,
    "decline": BookingChanged,
    "pay_booking": BookingChanged,
    "move": BookingChanged,
    "cancel": BookingChanged,
    "get_history": History,
    "get_payments": Payments,
    "get_payment": Payment,
    "payment_result": PaymentChanged,
    "retry_payment": PaymentChanged,
    "get_ledger": Ledger,
    "put_chef": ChefChanged,
    "get_chef": Chef,
    "hold": ChefChanged,
    "unhold": ChefChanged,
    "get_parked": Parked,
    "open_dispute": DisputeChanged,
    "get_disputes": Disputes,
    "get_dispute": Dispute,
    "get_dispute_history": DisputeHistory,
    "reply": DisputeChanged,
    "answer_offer": DisputeChanged,
    "decide": DisputeChanged,
    "appeal": DisputeChanged,
    "withdraw": DisputeChanged,
    "get_dead_letters": DeadLetters,
    "release_payout": BookingChanged,
    "explain_job": Explanation,
    "redrive": JobRedriven,
    "start_reconcile": ReconcileStarted,
    "get_reconcile": ReconcileReport,
    "get_trial_balance": TrialBalance,
    "get_reconciliation": Reconciliation,
    "get_payouts": Switch,
    "pause": SwitchChanged,
    "resume": SwitchChanged,
}
"""Handler function to what it answers when all is well."""
