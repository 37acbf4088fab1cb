"""The HTTP API, one method a route."""

import json
import logging
import random
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from enum import Enum
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import botocore.session

from duebook_client import errors, models
from duebook_client.errors import BadAnswer, BadArgument, DuebookApiError, NotManaged, Unavailable
from duebook_client.fields import Fields, read_object
from duebook_client.models import (
    Actor,
    Booking,
    Chef,
    DaySummary,
    DeadLetter,
    Dispute,
    DisputeHistory,
    Explanation,
    HistoryEntry,
    Job,
    JobChange,
    LedgerEntry,
    ParkedPayment,
    Payment,
    Payouts,
    Policy,
    ReconcileReport,
    ReconcileStart,
)
from duebook_client.retries import RetryPolicy
from duebook_client.times import TimeIn, instant_in, seconds_in, time_in, utc_in
from duebook_client.transport import (
    NoAnswer,
    Request,
    Response,
    Session,
    Transport,
    Urllib3Transport,
    credentials_of,
    signed,
)

Anchor = Literal["event_start", "event_end"]
Method = Literal["GET", "PUT", "POST", "DELETE"]
T = TypeVar("T")

LONGEST_WINDOW = timedelta(days=31)
"""Of one `due` listing."""
LONGEST_SUMMARY = timedelta(days=366)
"""Of one `jobs_summary`."""
USER_AGENT = "duebook-client/0.1.0"

_BOOKING_ID = r"[0-9A-Za-z_-]{1,39}"
_JOB_NAME = r"[a-z0-9_]{1,24}"
_PAYMENT_ID = _BOOKING_ID + r"\.p[1-9][0-9]{0,5}"
_OPAQUE_ID: Final = r"[0-9A-Za-z_.:@-]{1,64}"
_DISPUTE_ID = _BOOKING_ID + r"\.d[1-9][0-9]{0,5}"
_IDEMPOTENCY_KEY = r"[0-9A-Za-z_.:@-]{1,128}"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")

_logger = logging.getLogger("duebook_client")


class Unset(Enum):
    """Tells "no payload" from the payload null."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


class Duebook:
    """A service at `base_url`, called with the AWS credentials of `session`; may be used from many threads.

    `session`: a boto3 or botocore session; None: botocore's default chain. Credentials are asked for at every send, so
    ones that expire are refreshed. `host_header`: sent and signed instead of the URL's host (the embedded AWS).
    `transport`, `sleep` (seconds), `jitter` (0 to 1) and `new_key` can be replaced in tests.

    Connection errors, time-outs, 429, 502, 503, 504 and a version conflict are tried again within `retries`: GET, PUT
    and DELETE are repeatable by themselves, a POST because each carries an Idempotency-Key, made once a call where the
    caller gives none. Every other refusal is raised at once.

    Every method raises `BadArgument` before sending, `DuebookApiError` (a subclass by status) for a refusal or when
    nothing answers, `BadAnswer` for an answer that breaks the contract, `NoCredentials`.
    """

    def __init__(
        self,
        base_url: str,
        *,
        region: str,
        session: Session | None = None,
        host_header: str | None = None,
        transport: Transport | None = None,
        retries: RetryPolicy | None = None,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        new_key: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        self._base_url = _checked_url(base_url)
        self._region = region
        self._session: Session = session if session is not None else botocore.session.get_session()
        self._host_header = host_header
        self._transport: Transport = transport if transport is not None else Urllib3Transport()
        self._retries = retries or RetryPolicy()
        self._sleep = sleep
        self._jitter = jitter
        self._new_key = new_key

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- schedules -------------------------------------------------------------------------------------------------

    def put_job(
        self,
        booking_id: str,
        job: str,
        run_at: TimeIn | None = None,
        *,
        anchor: Anchor | None = None,
        offset: timedelta = timedelta(),
        payload: Any = UNSET,
        keep_on_cancel: bool = False,
        revision: int | None = None,
    ) -> JobChange:
        """Make an own job, or move it and replace its payload.

        Either `run_at`, or `anchor` with `offset` where Duebook manages the booking. `payload`: JSON, at most 32 KB.
        `revision`: your increasing number; a lower one than is known changes nothing, the same with another body is
        `Conflict`.
        """
        if (run_at is None) == (anchor is None):
            raise BadArgument("run_at", "give either run_at, or anchor with offset")
        if run_at is not None and offset:
            raise BadArgument("offset", "goes with anchor")
        body: dict[str, Any] = {}
        if run_at is not None:
            body["run_at"] = time_in(run_at, "run_at")
        else:
            body |= {"anchor": anchor, "offset": seconds_in(offset, "offset")}
        if payload is not UNSET:
            body["payload"] = payload
        if keep_on_cancel:
            body["keep_on_cancel"] = True
        if revision is not None:
            body["revision"] = _whole(revision, "revision")
        return models.read_job_change(self._fields("PUT", _job_path(booking_id, job), body=body))

    def delete_job(self, booking_id: str, job: str, *, revision: int | None = None) -> JobChange:
        """Remove an own job. With a `revision` a PUT that comes late, with a lower one, stays without effect."""
        query = {} if revision is None else {"revision": str(_whole(revision, "revision"))}
        return models.read_job_change(self._fields("DELETE", _job_path(booking_id, job), query=query))

    def jobs(self, booking_id: str) -> list[Job]:
        """What is scheduled for a booking, by instant."""
        answer = self._fields("GET", f"{_booking_path(booking_id)}/jobs")
        return [models.read_job(each) for each in answer.parts("jobs")]

    def due(self, start: datetime, end: datetime, *, job: str | None = None, page_size: int = 100) -> Iterator[Job]:
        """Pending work in [start, end), in order, read page by page as it is asked for.

        The window has at most 31 days; split a longer one yourself. `job`: one job's name, or `own` for all of the
        callers' own.
        """
        return self._pages("/jobs", _window(start, end, job, LONGEST_WINDOW), "jobs", models.read_job, page_size)

    def jobs_summary(self, start: datetime, end: datetime, *, job: str | None = None) -> list[DaySummary]:
        """How many jobs are pending in [start, end), by UTC day and job; `job` as for `due`. At most 366 days.

        Some 10,000 rows are read by one request; this makes as many as it takes.
        """
        path, query = "/jobs/summary", _window(start, end, job, LONGEST_SUMMARY)
        found = list(self._page_by_page(path, query, "days", models.read_day_summary, cursor_in="next"))
        return models.merged(found)

    # --- bookings --------------------------------------------------------------------------------------------------

    def put_booking(
        self,
        booking_id: str,
        *,
        customer_id: str,
        chef_id: str,
        event_start: TimeIn,
        price_minor: int,
        currency: str,
        event_end: TimeIn | None = None,
        policy: Policy | None = None,
        revision: int | None = None,
        state: str | None = None,
        requested_at: datetime | None = None,
        accepted_at: datetime | None = None,
        paid_at: datetime | None = None,
        captured_minor: int | None = None,
        charge_ref: str | None = None,
        hold_payout: bool = False,
    ) -> Booking:
        """Let Duebook manage a booking. The same call again answers the booking as it is now; another is `Conflict`.

        `price_minor`, `captured_minor`: in the currency's minor units. `state` and what follows it: for a booking that
        exists elsewhere already. `hold_payout`: nothing is decided about its payout until `release_payout`; a
        cancellation is a person's decision and is not held.
        """
        body: dict[str, Any] = {
            "customer_id": customer_id,
            "chef_id": chef_id,
            "event_start": time_in(event_start, "event_start"),
            "event_end": None if event_end is None else time_in(event_end, "event_end"),
            "price_minor": _whole(price_minor, "price_minor"),
            "currency": currency,
            "policy": None if policy is None else policy.as_json(),
            "revision": None if revision is None else _whole(revision, "revision"),
            "state": state,
            "requested_at": None if requested_at is None else instant_in(requested_at, "requested_at"),
            "accepted_at": None if accepted_at is None else instant_in(accepted_at, "accepted_at"),
            "paid_at": None if paid_at is None else instant_in(paid_at, "paid_at"),
            "captured_minor": None if captured_minor is None else _whole(captured_minor, "captured_minor"),
            "charge_ref": charge_ref,
            "hold_payout": hold_payout or None,
        }
        return models.read_booking(self._fields("PUT", _booking_path(booking_id), body=_given(body)))

    def booking(self, booking_id: str) -> Booking:
        """A managed booking. Raises `NotManaged` for an id that only holds own jobs."""
        answer = self._fields("GET", _booking_path(booking_id))
        if answer.raw.get("state") is None:
            raise NotManaged(f"{booking_id} only holds own jobs", code="not_managed", status=200)
        return models.read_booking(answer)

    def accept(self, booking_id: str, *, actor: Actor | None = None, idempotency_key: str | None = None) -> Booking:
        """The chef accepts."""
        return self._command(booking_id, "accept", {"actor": _actor(actor)}, idempotency_key)

    def decline(
        self,
        booking_id: str,
        *,
        actor: Actor | None = None,
        reason: str | None = None,
        idempotency_key: str | None = None,
    ) -> Booking:
        """The chef declines."""
        return self._command(booking_id, "decline", {"actor": _actor(actor), "reason": reason}, idempotency_key)

    def pay(
        self,
        booking_id: str,
        *,
        captured_minor: int,
        charge_ref: str,
        paid_at: datetime | None = None,
        idempotency_key: str | None = None,
    ) -> Booking:
        """The customer's money was captured, in minor units. For a booking that is off, all of it is refunded."""
        body = {
            "captured_minor": _whole(captured_minor, "captured_minor"),
            "charge_ref": charge_ref,
            "paid_at": None if paid_at is None else instant_in(paid_at, "paid_at"),
        }
        return self._command(booking_id, "pay", body, idempotency_key)

    def move(
        self,
        booking_id: str,
        *,
        event_start: TimeIn,
        event_end: TimeIn | None = None,
        actor: Actor | None = None,
        reason: str | None = None,
        idempotency_key: str | None = None,
    ) -> Booking:
        """Move the event; every job moves with it. Without an end, the policy's event length is taken."""
        body = {
            "event_start": time_in(event_start, "event_start"),
            "event_end": None if event_end is None else time_in(event_end, "event_end"),
            "actor": _actor(actor),
            "reason": reason,
        }
        return self._command(booking_id, "move", body, idempotency_key)

    def cancel(
        self,
        booking_id: str,
        *,
        actor: Actor,
        refund_minor: int | None = None,
        reason: str | None = None,
        idempotency_key: str | None = None,
    ) -> Booking:
        """Cancel; the refund (minor units) and what remains to be paid out are decided at once.

        Without `refund_minor`: all of it if the chef or an operator cancels, else by the policy's tiers.
        """
        body = {
            "actor": _actor(actor),
            "refund_minor": None if refund_minor is None else _whole(refund_minor, "refund_minor"),
            "reason": reason,
        }
        return self._command(booking_id, "cancel", body, idempotency_key)

    def history(self, booking_id: str, *, page_size: int = 100) -> Iterator[HistoryEntry]:
        """Everything that ever happened to a booking, oldest first, read page by page."""
        return self._pages(f"{_booking_path(booking_id)}/history", {}, "history", models.read_history_entry, page_size)

    def payments(self, booking_id: str) -> list[Payment]:
        """A booking's payouts and refunds, in the order they were decided."""
        answer = self._fields("GET", f"{_booking_path(booking_id)}/payments")
        return [models.read_payment(each) for each in answer.parts("payments")]

    # --- payments --------------------------------------------------------------------------------------------------

    def payment(self, payment_id: str) -> Payment:
        """One payout or refund."""
        return models.read_payment(self._fields("GET", _payment_path(payment_id)))

    def payment_result(
        self,
        payment_id: str,
        *,
        status: Literal["done", "failed"],
        provider_ref: str | None = None,
        reason: str | None = None,
        key: str | None = None,
        idempotency_key: str | None = None,
    ) -> Payment:
        """Answer a `payment.requested` event: done needs the provider's reference, failed a reason. `key` is the
        event's: it says which request is answered, should there be several."""
        body = _given({"status": status, "provider_ref": provider_ref, "reason": reason, "key": key})
        return models.read_payment(
            self._fields("POST", f"{_payment_path(payment_id)}/result", body=body, idempotency_key=idempotency_key)
        )

    def retry_payment(
        self,
        payment_id: str,
        *,
        actor: Actor | None = None,
        reason: str | None = None,
        idempotency_key: str | None = None,
    ) -> Payment:
        """Try a payment again that waits for a person; pressed twice, it is tried once."""
        body = _given({"actor": _actor(actor), "reason": reason})
        path = f"{_payment_path(payment_id)}/retry"
        return models.read_payment(self._fields("POST", path, body=body, idempotency_key=idempotency_key))

    def ledger(self, booking_id: str, *, page_size: int = 100) -> Iterator[LedgerEntry]:
        """A booking's ledger entries, oldest first."""
        path = f"{_booking_path(booking_id)}/ledger"
        return self._pages(path, {}, "entries", models.read_ledger_entry, page_size)

    def put_chef(self, chef_id: str, *, account: str | None = None, enabled: bool = True) -> Chef:
        """The chef's connected account, and whether they are paid at all."""
        body = _given({"account": account, "enabled": enabled})
        return models.read_chef(self._fields("PUT", _chef_path(chef_id), body=body))

    def chef(self, chef_id: str) -> Chef:
        return models.read_chef(self._fields("GET", _chef_path(chef_id)))

    def hold_chef(self, chef_id: str, *, reason: str | None = None) -> Chef:
        """No payout to this chef is sent from now on."""
        return models.read_chef(self._fields("POST", f"{_chef_path(chef_id)}/hold", body=_given({"reason": reason})))

    def unhold_chef(self, chef_id: str) -> Chef:
        """What was parked goes at once."""
        return models.read_chef(self._fields("POST", f"{_chef_path(chef_id)}/unhold"))

    def parked(self, chef_id: str, *, page_size: int = 100) -> Iterator[ParkedPayment]:
        """Payments that wait for this chef."""
        return self._pages(f"{_chef_path(chef_id)}/parked", {}, "parked", models.read_parked, page_size)

    # --- disputes --------------------------------------------------------------------------------------------------

    def open_dispute(
        self,
        booking_id: str,
        *,
        actor: Actor,
        claimed_minor: int,
        reason: str,
        text: str,
        evidence: Sequence[str] = (),
        idempotency_key: str | None = None,
    ) -> Dispute:
        """The customer disputes a paid order: from this moment nobody is paid. `Conflict` once the payout is decided.

        `claimed_minor`: what the customer wants back, in minor units. `evidence`: at most 20 references of your own.
        """
        body = {
            "actor": _actor(actor),
            "claimed_minor": _whole(claimed_minor, "claimed_minor"),
            "reason": reason,
            "text": text,
            "evidence": list(evidence) or None,
        }
        path = f"{_booking_path(booking_id)}/disputes"
        return models.read_dispute(self._fields("POST", path, body=_given(body), idempotency_key=idempotency_key))

    def dispute(self, dispute_id: str) -> Dispute:
        """A dispute as it stands."""
        return models.read_dispute(self._fields("GET", _dispute_path(dispute_id)))

    def disputes(
        self, kind: Literal["in_review", "needs_attention", "awaiting_chef"] = "in_review", *, page_size: int = 50
    ) -> Iterator[Dispute]:
        """Disputes that wait for someone, the longest first, read page by page."""
        return self._pages("/disputes", {"kind": kind}, "disputes", models.read_dispute, page_size)

    def dispute_history(self, dispute_id: str) -> DisputeHistory:
        """What happened in a dispute and in its executions, in order."""
        return models.read_dispute_history(self._fields("GET", f"{_dispute_path(dispute_id)}/history"))

    def reply(
        self,
        dispute_id: str,
        answer: Literal["concede", "offer", "contest"],
        *,
        actor: Actor,
        offer_minor: int | None = None,
        text: str | None = None,
        evidence: Sequence[str] = (),
        idempotency_key: str | None = None,
    ) -> Dispute:
        """The chef's answer. `offer` needs `offer_minor`, less than the claim; `contest` needs `text`.

        The first answer stands: the same again is fine, another is `Conflict`, and so is one after the deadline.
        """
        body = {
            "actor": _actor(actor),
            "answer": answer,
            "offer_minor": None if offer_minor is None else _whole(offer_minor, "offer_minor"),
            "text": text,
            "evidence": list(evidence) or None,
        }
        return self._in_dispute(dispute_id, "reply", body, idempotency_key)

    def answer_offer(
        self,
        dispute_id: str,
        answer: Literal["accept", "refuse"],
        *,
        actor: Actor,
        idempotency_key: str | None = None,
    ) -> Dispute:
        """The customer's answer to the chef's offer."""
        return self._in_dispute(dispute_id, "offer-answer", {"actor": _actor(actor), "answer": answer}, idempotency_key)

    def decide(
        self, dispute_id: str, *, actor: Actor, refund_minor: int, reason: str, idempotency_key: str | None = None
    ) -> Dispute:
        """The mediator's decision: what the customer gets back, in minor units. An appeal needs another mediator."""
        body = {"actor": _actor(actor), "refund_minor": _whole(refund_minor, "refund_minor"), "reason": reason}
        return self._in_dispute(dispute_id, "decision", body, idempotency_key)

    def appeal(self, dispute_id: str, *, actor: Actor, text: str, idempotency_key: str | None = None) -> Dispute:
        """A party appeals the first decision within its window, where the policy allows it."""
        return self._in_dispute(dispute_id, "appeal", {"actor": _actor(actor), "text": text}, idempotency_key)

    def withdraw(self, dispute_id: str, *, actor: Actor, idempotency_key: str | None = None) -> Dispute:
        """The customer takes the dispute back before it is decided: everything is as if it had never been."""
        return self._in_dispute(dispute_id, "withdraw", {"actor": _actor(actor)}, idempotency_key)

    # --- operations ------------------------------------------------------------------------------------------------

    def dead_letters(self, *, kind: str = "dead", page_size: int = 100) -> Iterator[DeadLetter]:
        """What a person has to look at, the longest waiting first. `kind`: dead, needs_attention, outbox, held.

        `held`: bookings whose payout waits for `release_payout`.
        """
        return self._pages("/dead-letters", {"kind": kind}, "dead_letters", models.read_dead_letter, page_size)

    def release_payout(
        self,
        booking_id: str,
        *,
        actor: Actor | None = None,
        reason: str | None = None,
        idempotency_key: str | None = None,
    ) -> Booking:
        """Lift the hold of `put_booking(hold_payout=True)`: the payout keeps its ordinary instant, past ones go now."""
        return self._command(booking_id, "release-payout", {"actor": _actor(actor), "reason": reason}, idempotency_key)

    def explain(self, booking_id: str, job: str) -> Explanation:
        """What a wake-up would do now, and why this job acts, waits, is blocked or is absent. Nothing is done."""
        return models.read_explanation(self._fields("GET", f"{_job_path(booking_id, job)}/explain"))

    def redrive(
        self,
        booking_id: str,
        job: str,
        *,
        actor: Actor | None = None,
        reason: str | None = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """Wake a dead or pending job now, under a new generation. One that is due is done by this call: status done."""
        body = _given({"actor": _actor(actor), "reason": reason})
        path = f"{_job_path(booking_id, job)}/redrive"
        return models.read_job(self._fields("POST", path, body=body, idempotency_key=idempotency_key))

    def payouts(self) -> Payouts:
        """Whether all payouts are paused."""
        return models.read_payouts(self._fields("GET", "/payouts"))

    def pause_payouts(self, *, reason: str | None = None) -> Payouts:
        """No payout is sent from now on."""
        return models.read_payouts(self._fields("POST", "/payouts/pause", body=_given({"reason": reason})))

    def resume_payouts(self) -> Payouts:
        """Payouts go again: what waited goes at its next look, within the hour."""
        return models.read_payouts(self._fields("POST", "/payouts/resume"))

    def trial_balance(self, day: date) -> Mapping[str, Any]:
        """Opening, movement and closing of each currency's accounts on a UTC day, as the service answers it."""
        return self.call("GET", "/ledger/trial-balance", query={"day": day.isoformat()})

    def reconciliation(self, day: date) -> Mapping[str, Any]:
        """The UTC day's money: ours, the provider's, the difference, as the service answers it."""
        return self.call("GET", "/ledger/reconciliation", query={"day": day.isoformat()})

    def start_reconcile(self) -> ReconcileStart:
        """Compare and repair every level, in the background; its report is the one with the same `run`."""
        return models.read_reconcile_start(self._fields("POST", "/reconcile"))

    def reconcile_report(self) -> ReconcileReport:
        """Where the last reconcile pass stands; one just started may not show yet. `NotFound` if there was none."""
        return models.read_reconcile_report(self._fields("GET", "/reconcile"))

    # --- any route -------------------------------------------------------------------------------------------------

    def call(
        self,
        method: Method,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = UNSET,
        idempotency_key: str | None = None,
    ) -> Mapping[str, Any]:
        """One call as it is, for a route that this client does not know: signed and retried like the others.

        `path`: percent-encoded, with a leading slash. `body`: JSON; NaN and Infinity are refused.
        """
        if not path.startswith("/"):
            raise BadArgument("path", f"{path!r} does not begin with a slash")
        headers = {"Accept": "application/json", "User-Agent": USER_AGENT}
        if self._host_header is not None:
            headers["Host"] = self._host_header
        if method == "POST":
            headers["Idempotency-Key"] = _matching(
                _IDEMPOTENCY_KEY, self._new_key() if idempotency_key is None else idempotency_key, "idempotency_key"
            )
        content = b""
        if body is not UNSET:
            content = _json(body)
            headers["Content-Type"] = "application/json"
        url = self._base_url + path
        if query:
            url += "?" + urlencode(query, quote_via=quote, safe="-_.~")
        return self._send(Request(method, url, headers, content))

    def _send(self, request: Request) -> Mapping[str, Any]:
        attempt = 0
        while True:
            attempt += 1
            failure, retry_after = self._once(request, attempt)
            if not isinstance(failure, DuebookApiError):
                return failure
            again = self._retries.decide(
                attempt=attempt,
                repeatable=request.method != "POST" or "Idempotency-Key" in request.headers,
                jitter=self._jitter(),
                status=failure.status,
                code=failure.code,
                retry_after=retry_after,
            )
            if again is None:
                raise failure
            _logger.info("%s %s again in %.2f s: %s", request.method, request.url, again.after, again.reason)
            self._sleep(again.after)

    def _once(self, request: Request, attempt: int) -> tuple[Mapping[str, Any] | DuebookApiError, float | None]:
        """The answer, or why there is none, and the seconds the service asks to wait."""
        try:
            response = self._transport.send(signed(request, credentials_of(self._session), self._region))
        except NoAnswer as error:
            failure = Unavailable(str(error), code="no_answer", attempts=attempt)
            failure.__cause__ = error
            return failure, None
        if response.status >= 300:
            return _failure(request, response, attempt), _retry_after(response)
        return read_object(response.body, f"the answer to {request.method} {urlsplit(request.url).path}"), None

    def _fields(
        self,
        method: Method,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = UNSET,
        idempotency_key: str | None = None,
    ) -> Fields:
        answer = self.call(method, path, query=query, body=body, idempotency_key=idempotency_key)
        return Fields(answer, f"{method} {path}")

    def _command(self, booking_id: str, command: str, body: Mapping[str, Any], idempotency_key: str | None) -> Booking:
        path = f"{_booking_path(booking_id)}/{command}"
        return models.read_booking(self._fields("POST", path, body=_given(body), idempotency_key=idempotency_key))

    def _in_dispute(self, dispute_id: str, act: str, body: Mapping[str, Any], idempotency_key: str | None) -> Dispute:
        path = f"{_dispute_path(dispute_id)}/{act}"
        return models.read_dispute(self._fields("POST", path, body=_given(body), idempotency_key=idempotency_key))

    def _pages(
        self, path: str, query: Mapping[str, str], name: str, read: Callable[[Fields], T], page_size: int
    ) -> Iterator[T]:
        """Checked at once, read lazily."""
        if type(page_size) is not int or page_size < 1:
            raise BadArgument("page_size", "is a whole number, 1 or more")
        return self._page_by_page(path, {**query, "limit": str(page_size)}, name, read)

    def _page_by_page(
        self, path: str, query: Mapping[str, str], name: str, read: Callable[[Fields], T], cursor_in: str = "cursor"
    ) -> Iterator[T]:
        cursor: str | None = None
        while True:
            page = self._fields("GET", path, query=query if cursor is None else {**query, "cursor": cursor})
            for each in page.parts(name):
                yield read(each)
            following = page.text_or_none(cursor_in)
            if following is None:
                return
            if following == cursor:
                raise BadAnswer(f"GET {path}: the cursor {cursor!r} does not move on")
            cursor = following


def _failure(request: Request, response: Response, attempt: int) -> DuebookApiError:
    """The error of an answer, also of one that is not the service's but API Gateway's or a proxy's."""
    kind = errors.error_class(response.status)
    told: dict[str, str] = {}
    code = kind.__name__.lower() if kind is not DuebookApiError else "unexpected_status"
    try:
        body = read_object(response.body, "the error")
    except BadAnswer:
        body = {}
    error = body.get("error")
    if isinstance(error, Mapping):
        told = {name: value for name, value in error.items() if isinstance(value, str)}
    elif isinstance(body.get("message"), str):
        told = {"message": body["message"]}
    return kind(
        told.get("message") or f"{request.method} {urlsplit(request.url).path} was answered {response.status}",
        code=told.get("code") or code,
        status=response.status,
        field=told.get("field"),
        state=told.get("state"),
        attempts=attempt,
    )


def _retry_after(response: Response) -> float | None:
    """Seconds; a date is not understood and ignored."""
    value = response.headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdigit() else None


def _checked_url(base_url: str) -> str:
    parts = urlsplit(base_url)
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.query or parts.fragment:
        raise BadArgument("base_url", f"{base_url!r} is no http(s) URL of an API")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise BadArgument("base_url", "http is for this machine only: session tokens would travel in the clear")
    return base_url.rstrip("/")


def _window(start: datetime, end: datetime, job: str | None, longest: timedelta) -> dict[str, str]:
    query = {"from": utc_in(start, "start"), "to": utc_in(end, "end")}
    if end <= start:
        raise BadArgument("end", f"{end} is not after {start}")
    if end - start > longest:
        raise BadArgument("end", f"a window has at most {longest.days} days: split it")
    if job is not None:
        query["job"] = _matching(_JOB_NAME, job, "job")
    return query


def _booking_path(booking_id: str) -> str:
    return f"/bookings/{_matching(_BOOKING_ID, booking_id, 'booking_id')}"


def _job_path(booking_id: str, job: str) -> str:
    return f"{_booking_path(booking_id)}/jobs/{_matching(_JOB_NAME, job, 'job')}"


def _chef_path(chef_id: str) -> str:
    return f"/chefs/{_matching(_OPAQUE_ID, chef_id, 'chef_id')}"


def _payment_path(payment_id: str) -> str:
    return f"/payments/{_matching(_PAYMENT_ID, payment_id, 'payment_id')}"


def _dispute_path(dispute_id: str) -> str:
    return f"/disputes/{_matching(_DISPUTE_ID, dispute_id, 'dispute_id')}"


def _matching(pattern: str, value: Any, field: str) -> str:
    if not isinstance(value, str) or not re.fullmatch(pattern, value):
        raise BadArgument(field, f"{value!r} does not match {pattern}")
    return value


def _whole(value: int, field: str) -> int:
    if type(value) is not int:
        raise BadArgument(field, f"is a whole number, not {value!r}")
    return value


def _given(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}


def _actor(actor: Actor | None) -> dict[str, Any] | None:
    return None if actor is None else actor.as_json()


def _json(body: Any) -> bytes:
    try:
        return json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadArgument("body", f"is no JSON: {error}") from None
