"""Stripe moves the money: charges stay on the platform, a transfer to the chef's connected account comes later.

Read first: docs.stripe.com/connect/separate-charges-and-transfers (transfers, `source_transaction`, `transfer_group`),
docs.stripe.com/api/idempotent_requests and docs.stripe.com/error-low-level (what an answer means).

One attempt is one request. The library's own automatic retries are off: the fence repeats with the same key, across
processes and days, and a worker that sleeps between tries could outlive its lease.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from math import inf
from time import monotonic
from typing import Any, Protocol, TypeVar, assert_never

import requests
import stripe

from duebook.domain.errors import AwsFailure
from duebook.domain.payment import Done, Failed, Kind, Mismatched, Movement, Outcome, Payment, Uncertain

T = TypeVar("T")

CONNECT_SECONDS = 3.0
READ_SECONDS = 15.0
"""Well within the payments worker's time-out of 60 s, so that an attempt ends with an answer to record."""
LOOK_UP_SECONDS = 30.0
"""No further page is asked for after that; with the last one's own time-out it is still less than 60 s."""
PAGE = 100
MOST_PAGES = 10
"""Of one list. A booking's transfers, a charge's refunds and a transfer's reversals are a handful."""
MOST_PAGES_OF_A_DAY = 500
REPLAYED = "Idempotent-Replayed"
"""The header of an answer that was saved under the key before (docs.stripe.com/error-low-level, "Replayed")."""

_ERRORS = "https://docs.stripe.com/api/errors"
_LOW_LEVEL = "https://docs.stripe.com/error-low-level"
_IDEMPOTENCY = "https://docs.stripe.com/api/idempotent_requests"
_HANDLING = "https://docs.stripe.com/error-handling"
_RATE_LIMITS = "https://docs.stripe.com/rate-limits"


class Secret(Protocol):
    """Where the API key comes from. Raises `AwsFailure`."""

    def value(self) -> str:
        """As last read."""

    def fresh(self) -> str:
        """Read anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An error as the table below looks at it; `status` is None when there was no answer at all."""

    status: int | None
    type: str | None
    code: str | None
    replayed: bool
    request_id: str | None

    def __str__(self) -> str:
        """For a person: codes only. Stripe's message may quote what is none of a log's business."""
        told = [part for part in (self.type, self.code) if part]
        where = f"HTTP {self.status}" if self.status else "no answer"
        return " ".join([where, *told, *([f"({self.request_id})"] if self.request_id else [])])


@dataclass(frozen=True, slots=True)
class Rule:
    """`source`: the page of Stripe's documentation that says so."""

    name: str
    applies: Callable[[Answer], bool]
    outcome: Callable[[str], Outcome]
    source: str


_NOT_NOW = frozenset(["rate_limit", "lock_timeout"])
_ACCOUNT_CODES = frozenset(
    [
        "account_closed",
        "account_invalid",
        "account_number_invalid",
        "insufficient_capabilities_for_transfer",
        "payouts_not_allowed",
        "transfers_not_allowed",
    ]
)
"""docs.stripe.com/error-codes: what the chef's account has to put right before any transfer can go."""

ERRORS: tuple[Rule, ...] = (
    Rule("no answer: connection or time-out", lambda a: a.status is None, Uncertain, f"{_LOW_LEVEL}#network-errors"),
    Rule("the key came with other parameters", lambda a: a.type == "idempotency_error" and a.status == 400, Mismatched,
         _IDEMPOTENCY),
    Rule("the key is in use by another request", lambda a: a.status == 409, Uncertain, f"{_ERRORS}#status-codes"),
    Rule("rate limit or lock time-out: not begun", lambda a: a.status == 429 or a.code in _NOT_NOW, Uncertain,
         _RATE_LIMITS),
    Rule("an error that was saved under the key", lambda a: a.replayed, partial(Uncertain, saved_error=True),
         f"{_LOW_LEVEL}#idempotency"),
    Rule("our API key was refused: not begun", lambda a: a.status in (401, 403) and not _of_account(a), Uncertain,
         f"{_ERRORS}#status-codes"),
    Rule("the connected account cannot take it", lambda a: _of_account(a), Failed,
         "https://docs.stripe.com/error-codes#account-invalid"),
    Rule("card error", lambda a: a.status == 402 or a.type == "card_error", Failed, f"{_HANDLING}#payment-errors"),
    Rule("a dependency of Stripe failed", lambda a: a.status == 424, Uncertain, f"{_ERRORS}#status-codes"),
    Rule("invalid request", lambda a: a.status in (400, 404), Failed, f"{_LOW_LEVEL}#content-errors"),
    Rule("Stripe's own error", lambda a: a.status is not None and a.status >= 500, Uncertain,
         f"{_LOW_LEVEL}#server-errors"),
    Rule("anything else", lambda a: True, Uncertain, _LOW_LEVEL),
)  # fmt: skip
"""The first rule that applies decides. What is not surely final is uncertain."""


def _of_account(answer: Answer) -> bool:
    return answer.code in _ACCOUNT_CODES


def rule_for(answer: Answer) -> Rule:
    """The row of the table that decides."""
    return next(rule for rule in ERRORS if rule.applies(answer))


def outcome_of(error: stripe.StripeError) -> Outcome:
    """What an error of Stripe's library means for the payment."""
    answer = answer_of(error)
    rule = rule_for(answer)
    return rule.outcome(f"{rule.name}: {answer}")


def answer_of(error: stripe.StripeError) -> Answer:
    """An error without a status (connection, time-out, an answer cut off) is no answer."""
    body = error.json_body.get("error") if isinstance(error.json_body, dict) else None
    told: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    status = error.http_status
    return Answer(
        status=status if status is None or status >= 400 else None,
        type=_word(told.get("type")),
        code=_word(told.get("code")),
        replayed=str(headers.get(REPLAYED.lower(), "")).lower() == "true",
        request_id=_word(headers.get("request-id")),
    )


def _word(value: Any) -> str | None:
    return value[:80] if isinstance(value, str) else None


def http_client(session: requests.Session | None = None, read_seconds: float = READ_SECONDS) -> stripe.HTTPClient:
    """The library's client on `requests`, with our time-outs (connect, between two reads) in seconds."""
    return stripe.RequestsClient(timeout=(CONNECT_SECONDS, read_seconds), session=session)


class StripePayments:
    """Transfers, refunds and reversals. `api_base`: another address than Stripe's own, for the embedded AWS and tests.

    Errors of the provider are outcomes; nothing is raised for them.
    """

    by_event = False
    needs_account = True

    def __init__(
        self,
        secret: Secret,
        *,
        api_base: str | None = None,
        http: stripe.HTTPClient | None = None,
        elapsed: Callable[[], float] = monotonic,
    ) -> None:
        stripe.enable_telemetry = False
        self._secret = secret
        self._api_base = api_base
        self._http = http or http_client(_direct() if api_base else None)
        self._elapsed = elapsed
        self._client: tuple[str, stripe.StripeClient] | None = None

    def send(self, payment: Payment, now: datetime) -> Outcome:
        """One request with the key `payment.key`; the same payment always sends the same parameters."""
        missing = _missing(payment)
        if missing:
            return Failed(missing)
        try:
            made = self._asked(lambda client: _create(client, payment))
        except stripe.StripeError as error:
            return outcome_of(error)
        except AwsFailure as failure:
            return Uncertain(f"the API key could not be read: {failure.details.get('aws_code')}")
        return _verdict(payment, made)

    def find(self, payment: Payment, now: datetime) -> Outcome | None:
        """By the reference in the metadata, through the lists of what it belongs to; never through Search, which lags
        up to an hour (docs.stripe.com/search#data-freshness)."""
        if _missing(payment):
            return None
        try:
            return self._found(payment)
        except stripe.StripeError as error:
            return Uncertain(f"the look-up failed: {answer_of(error)}")
        except AwsFailure as failure:
            return Uncertain(f"the API key could not be read: {failure.details.get('aws_code')}")

    def movements(self, day: date) -> Sequence[Movement] | None:
        """What balance transactions of that UTC day moved, with their sources; None when not all could be read.

        docs.stripe.com/reports/balance-transaction-types: a reversal of a transfer is a `transfer_refund`.
        """
        from_ = datetime.combine(day, time(), UTC)
        created = {"gte": int(from_.timestamp()), "lt": int((from_ + timedelta(days=1)).timestamp())}
        moved = []
        try:
            for type_, kind in _TYPES.items():
                for made in self._pages(
                    lambda c, p: c.v1.balance_transactions.list(p),
                    inf,
                    MOST_PAGES_OF_A_DAY,
                    type=type_,
                    created=created,
                    expand=["data.source"],
                ):
                    if made is None:
                        return None
                    moved += _movement(kind, made["source"])
        except (stripe.StripeError, AwsFailure):
            return None
        return moved

    def _found(self, payment: Payment) -> Outcome | None:
        ours = []
        ends_at = self._elapsed() + LOOK_UP_SECONDS
        for made in self._listed(payment, ends_at):
            if made is None:
                return Uncertain("the look-up did not come to the end of the list")
            if (made.get("metadata") or {}).get("reference") == payment.payment_id:
                ours.append(_verdict(payment, made))
        for wanted in (Mismatched, Done):
            for outcome in ours:
                if isinstance(outcome, wanted):
                    return outcome
        return next((outcome for outcome in ours if isinstance(outcome, Failed)), None)

    def _listed(self, payment: Payment, ends_at: float) -> Iterator[Mapping[str, Any] | None]:
        """Everything that may be it, newest first; None when there was more than may be read."""
        match payment.kind:
            case Kind.PAYOUT:
                yield from self._pages(lambda c, p: c.v1.transfers.list(p), ends_at, transfer_group=payment.booking_id)
                # Which group wins when the charge has another one is undocumented: both are looked through.
                group = self._group_of(payment.charge_ref)
                if group and group != payment.booking_id:
                    yield from self._pages(lambda c, p: c.v1.transfers.list(p), ends_at, transfer_group=group)
            case Kind.REFUND:
                yield from self._pages(lambda c, p: c.v1.refunds.list(p), ends_at, charge=payment.charge_ref)
            case Kind.REVERSAL:
                of_ref = str(payment.of_ref)
                yield from self._pages(lambda c, p: c.v1.transfers.reversals.list(of_ref, p), ends_at)
            case _:
                assert_never(payment.kind)

    def _pages(
        self,
        list_: Callable[[stripe.StripeClient, Any], Any],
        ends_at: float,
        most: int | None = None,
        **narrowed: Any,
    ) -> Iterator[Mapping[str, Any] | None]:
        """docs.stripe.com/api/pagination: 100 at most, the next page starts after the last id."""
        parameters: dict[str, Any] = {"limit": PAGE, **narrowed}
        for _ in range(most or MOST_PAGES):
            page = _plain(self._asked(lambda client: list_(client, parameters)))  # noqa: B023
            yield from page["data"]
            if not page["has_more"] or not page["data"]:
                return
            if self._elapsed() > ends_at:
                break
            parameters = {**parameters, "starting_after": page["data"][-1]["id"]}
        yield None

    def _group_of(self, charge_ref: str | None) -> str | None:
        if charge_ref is None:
            return None
        charge = _plain(self._asked(lambda client: client.v1.charges.retrieve(charge_ref)))
        return charge.get("transfer_group")

    def _asked(self, request: Callable[[stripe.StripeClient], T]) -> T:
        """One request; after a refused API key once more, if Secrets Manager has another one by now.

        A 401 comes before the idempotency layer, so nothing was begun or saved (docs.stripe.com/error-low-level).
        """
        used = self._secret.value()
        try:
            return request(self._with(used))
        except stripe.AuthenticationError:
            fresh = self._secret.fresh()
            if fresh == used:
                raise
        return request(self._with(fresh))

    def _with(self, key: str) -> stripe.StripeClient:
        if self._client is None or self._client[0] != key:
            addresses: Any = {"api": self._api_base} if self._api_base else {}
            client = stripe.StripeClient(key, base_addresses=addresses, http_client=self._http, max_network_retries=0)
            self._client = (key, client)
        return self._client[1]


def _direct() -> requests.Session:
    """A session that no proxy of the environment comes between."""
    session = requests.Session()
    session.trust_env = False
    return session


def _missing(payment: Payment) -> str | None:
    """What keeps it from being sent at all."""
    match payment.kind:
        case Kind.PAYOUT:
            return None if payment.account else "the chef has no connected account"
        case Kind.REFUND:
            return None if payment.charge_ref else "no charge is known that could be refunded"
        case Kind.REVERSAL:
            return None if payment.of_ref else "no transfer is known that could be reversed"
        case _:
            assert_never(payment.kind)


def _create(client: stripe.StripeClient, payment: Payment) -> Any:
    """Nothing here may depend on anything but the payment: another parameter under the same key is an error."""
    metadata = {"reference": payment.payment_id, "booking": payment.booking_id, "key": payment.key}
    options: Any = {"idempotency_key": payment.key}
    parameters: dict[str, Any] = {"amount": payment.amount, "metadata": metadata}
    match payment.kind:
        case Kind.PAYOUT:
            parameters |= {
                "currency": payment.currency.lower(),
                "destination": payment.account,
                "transfer_group": payment.booking_id,
            }
            if payment.charge_ref:
                parameters["source_transaction"] = payment.charge_ref
            return client.v1.transfers.create(parameters, options)  # type: ignore[arg-type]
        case Kind.REFUND:
            parameters["charge"] = payment.charge_ref
            return client.v1.refunds.create(parameters, options)  # type: ignore[arg-type]
        case Kind.REVERSAL:
            return client.v1.transfers.reversals.create(str(payment.of_ref), parameters, options)  # type: ignore[arg-type]
        case _:
            assert_never(payment.kind)


def _verdict(payment: Payment, made: Any) -> Outcome:
    """What an object of Stripe's says about the payment; anything that is not what was asked for is a mismatch."""
    found = _plain(made)
    wanted: dict[str, Any] = {"amount": payment.amount, "currency": payment.currency.lower()}
    match payment.kind:
        case Kind.PAYOUT:
            wanted["destination"] = payment.account
        case Kind.REFUND:
            wanted["charge"] = payment.charge_ref
        case Kind.REVERSAL:
            wanted["transfer"] = payment.of_ref
        case _:
            assert_never(payment.kind)
    other = [f"{name} {found.get(name)}" for name, value in wanted.items() if found.get(name) != value]
    if other:
        return Mismatched(f"{found.get('id')} has {', '.join(other)}")
    if payment.kind is Kind.REFUND and found.get("status") in ("failed", "canceled"):
        # docs.stripe.com/refunds#failed-refunds: the money is back on the platform's balance.
        return Failed(f"refund {found['id']} {found['status']}: {found.get('failure_reason') or 'no reason given'}")
    return Done(str(found["id"]))


_TYPES: Mapping[str, Kind] = {
    "transfer": Kind.PAYOUT,
    "transfer_refund": Kind.REVERSAL,
    "refund": Kind.REFUND,
    "payment_refund": Kind.REFUND,
}


def _movement(kind: Kind, source: Any) -> list[Movement]:
    """None for what carries no reference of ours: somebody else's, or made by hand."""
    reference = (source.get("metadata") or {}).get("reference") if isinstance(source, Mapping) else None
    if not reference:
        return []
    amount, currency = source["amount"], str(source["currency"]).upper()
    return [Movement(payment_id=reference, kind=kind, amount=amount, currency=currency, provider_ref=source["id"])]


def _plain(made: Any) -> Mapping[str, Any]:
    """An object of the library as a mapping; its own are none since version 15."""
    return made if isinstance(made, Mapping) else made.to_dict()
