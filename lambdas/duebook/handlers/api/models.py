"""The shape of every request: types, patterns and bounds. What needs the clock or the booking is checked further in.

Unknown fields are refused, whole numbers are strict (no float, no boolean, no text).
"""

from typing import Annotated, Any, Literal

from iso4217 import Currency
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
    Tag,
    model_validator,
)

from duebook.domain.booking import Role
from duebook.domain.dispute import OfferAnswer, Reply
from duebook.domain.money import BASIS_POINTS
from duebook.domain.names import OPAQUE_ID
from duebook.domain.policy import Silence

LARGEST_AMOUNT = 10**15
"""Minor units: far above any booking, well below what a DynamoDB number or a JSON reader keeps exact (2**53)."""
LARGEST_REVISION = 2**53
LONGEST = 10**9
"""Seconds: some 31 years, beyond every horizon and far within what a duration can be."""


def _known_currency(code: str) -> str:
    try:
        exponent = Currency(code).exponent
    except ValueError:
        raise ValueError(f"{code!r} is no ISO 4217 currency") from None
    if exponent is None:
        raise ValueError(f"{code!r} has no minor unit")
    return code


Id = Annotated[str, StringConstraints(strict=True, pattern=f"^{OPAQUE_ID}$")]
Text = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=500)]
LongText = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=4_000)]
Evidence = Annotated[
    list[Annotated[str, StringConstraints(strict=True, min_length=1, max_length=200)]], Field(max_length=20)
]
Minor = Annotated[StrictInt, Field(ge=0, le=LARGEST_AMOUNT)]
Seconds = Annotated[StrictInt, Field(ge=0, le=LONGEST)]
Bps = Annotated[StrictInt, Field(ge=0, le=BASIS_POINTS)]
Revision = Annotated[StrictInt, Field(ge=0, le=LARGEST_REVISION)]
CurrencyCode = Annotated[str, StringConstraints(strict=True, pattern="^[A-Z]{3}$"), AfterValidator(_known_currency)]
TimeText = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=64)]


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid")

    def __repr__(self) -> str:
        """No fields: the router words a route's arguments for a debug message at each request, whatever the level, and
        what people wrote stays out of the log."""
        return f"{type(self).__name__}(...)"


class LocalTime(Request):
    """A wall clock's time in an IANA zone; `choose` is needed inside a DST overlap."""

    local: TimeText
    zone: TimeText
    choose: Literal["earlier", "later"] | None = None


def _kind_of_time(value: Any) -> str:
    return "LocalTime" if isinstance(value, dict | LocalTime) else "TimeText"


TimeIn = Annotated[
    Annotated[TimeText, Tag("TimeText")] | Annotated[LocalTime, Tag("LocalTime")], Discriminator(_kind_of_time)
]


class ActorIn(Request):
    """Who the marketplace says did it."""

    role: Role
    id: Id | None = None


class TierIn(Request):
    before: Seconds
    refund_bps: Bps


class PolicyIn(Request):
    """Overrides of the default policy: durations in seconds, shares in basis points."""

    accept_within: Seconds | None = None
    pay_within: Seconds | None = None
    event_length: Annotated[StrictInt, Field(ge=1)] | None = None
    complete_after: Seconds | None = None
    dispute_within: Seconds | None = None
    fee_bps: Bps | None = None
    cancellation: Annotated[list[TierIn], Field(max_length=20)] | None = None
    reply_within: Annotated[StrictInt, Field(ge=1)] | None = None
    remind_after: Seconds | None = None
    silence: Silence | None = None
    offer_within: Annotated[StrictInt, Field(ge=1)] | None = None
    review_within: Annotated[StrictInt, Field(ge=1)] | None = None
    escalations: Annotated[StrictInt, Field(ge=0, le=10)] | None = None
    appeals: Annotated[StrictInt, Field(ge=0, le=1)] | None = None
    appeal_within: Annotated[StrictInt, Field(ge=1)] | None = None


class BookingIn(Request):
    """A booking to take on. `state` and what goes with it: one that exists elsewhere already. `hold_payout`: nothing is
    decided about its payout until a person releases it."""

    customer_id: Id
    chef_id: Id
    event_start: TimeIn
    event_end: TimeIn | None = None
    price_minor: Minor
    currency: CurrencyCode
    policy: PolicyIn | None = None
    revision: Revision | None = None
    state: Literal["requested", "accepted", "paid", "event_closed", "completed"] | None = None
    requested_at: TimeText | None = None
    accepted_at: TimeText | None = None
    paid_at: TimeText | None = None
    captured_minor: Minor | None = None
    charge_ref: Id | None = None
    hold_payout: StrictBool = False


class AcceptIn(Request):
    actor: ActorIn | None = None


class DeclineIn(Request):
    actor: ActorIn | None = None
    reason: Text | None = None


class PayIn(Request):
    captured_minor: Minor
    charge_ref: Id
    paid_at: TimeText | None = None


class MoveIn(Request):
    event_start: TimeIn
    event_end: TimeIn | None = None
    actor: ActorIn | None = None
    reason: Text | None = None


class CancelIn(Request):
    actor: ActorIn
    refund_minor: Minor | None = None
    reason: Text | None = None


class JobIn(Request):
    """An own job: at an instant, or `offset` seconds from the event's start or end."""

    run_at: TimeIn | None = None
    anchor: Literal["event_start", "event_end"] | None = None
    offset: Annotated[StrictInt, Field(ge=-(10**9), le=10**9)] | None = None
    payload: Any = None
    keep_on_cancel: StrictBool = False
    revision: Revision | None = None

    @model_validator(mode="after")
    def _one_way(self) -> "JobIn":
        if (self.run_at is None) == (self.anchor is None):
            raise ValueError("give either run_at, or anchor with offset")
        if self.run_at is not None and self.offset is not None:
            raise ValueError("offset goes with anchor")
        return self


class PartyIn(Request):
    """Who acts in a dispute: checked against the booking's parties, so the id is needed."""

    role: Role
    id: Id


class DisputeIn(Request):
    """What the customer claims. `evidence` are opaque references, at most 20."""

    reason: Text
    text: LongText
    claimed_minor: Annotated[StrictInt, Field(ge=1, le=LARGEST_AMOUNT)]
    evidence: Evidence = []
    actor: PartyIn


class ReplyIn(Request):
    """The chef concedes, offers a smaller refund (`offer_minor`), or contests."""

    answer: Reply
    offer_minor: Annotated[StrictInt, Field(ge=1, le=LARGEST_AMOUNT)] | None = None
    text: LongText | None = None
    evidence: Evidence = []
    actor: PartyIn

    @model_validator(mode="after")
    def _complete(self) -> "ReplyIn":
        if (self.answer is Reply.OFFER) != (self.offer_minor is not None):
            raise ValueError("offer_minor goes with answer offer, and with no other")
        if self.answer is Reply.CONTEST and self.text is None:
            raise ValueError("a chef who contests gives a text")
        return self


class OfferAnswerIn(Request):
    answer: OfferAnswer
    actor: PartyIn


class DecisionIn(Request):
    """The mediator's decision: what the customer gets back, and why."""

    refund_minor: Minor
    reason: LongText
    actor: PartyIn


class AppealIn(Request):
    text: LongText
    actor: PartyIn


class WithdrawIn(Request):
    actor: PartyIn


class RedriveIn(Request):
    actor: ActorIn | None = None
    reason: Text | None = None


class ChefIn(Request):
    """A chef as the marketplace has them; `account` is what the provider calls them, where it needs one."""

    account: Annotated[str, StringConstraints(strict=True, min_length=1, max_length=200)] | None = None
    enabled: StrictBool = True


class HoldIn(Request):
    reason: Text | None = None


class ResultIn(Request):
    """The marketplace's answer to a payment it was asked for; `key`: that of the event `payment.requested`."""

    status: Literal["done", "failed"]
    provider_ref: Annotated[str, StringConstraints(strict=True, min_length=1, max_length=200)] | None = None
    reason: Text | None = None
    key: Annotated[str, StringConstraints(strict=True, min_length=1, max_length=200)] | None = None

    @model_validator(mode="after")
    def _complete(self) -> "ResultIn":
        if self.status == "done" and self.provider_ref is None:
            raise ValueError("a payment that is done needs provider_ref")
        if self.status == "failed" and self.reason is None:
            raise ValueError("a payment that failed needs reason")
        return self
