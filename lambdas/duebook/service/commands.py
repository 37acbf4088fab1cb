"""The API's use cases: read a request that is well-formed, decide, commit."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from duebook.domain import dispute_steps, transitions
from duebook.domain.booking import Actor, Booking, Engagement, OwnJob, Role, State
from duebook.domain.dispute import OfferAnswer, Reply
from duebook.domain.errors import InvalidRequest, NotFound, Refused
from duebook.domain.names import WATCH_DISPUTE, is_built_in, payment_number
from duebook.domain.payment import retry
from duebook.domain.policy import Policy
from duebook.domain.times import Moment, after, iso, moment
from duebook.domain.transitions import Step
from duebook.service import rows
from duebook.service.bookings import Bookings, Key
from duebook.service.dispute import Disputes
from duebook.service.ports import Item
from duebook.service.rows import Cause

API = Cause(source="api")
LARGEST_PAYLOAD = 32 * 1024
"""Bytes of an own job's payload, as compact ASCII JSON."""
_NOT_CARRIED = re.compile("[\ud800-\udfff\ufffe\uffff]")
LONGEST_POLICY = timedelta(days=366)
PAST_STATES = (State.PAID, State.EVENT_CLOSED, State.COMPLETED)

Body = Mapping[str, Any]


class Commands:
    """The API's commands. Bodies are well-formed (types, patterns); the clock is asked here."""

    def __init__(self, bookings: Bookings, default_policy: Policy) -> None:
        self.bookings = bookings
        self.default_policy = default_policy

    def put_booking(self, booking_id: str, body: Body) -> tuple[Booking, bool]:
        """Make a managed booking. The same request again is fine whatever has happened since; another is refused."""
        request_hash = canonical_hash(body)

        def decide(booking: Booking | None, now: datetime) -> Step | None:
            known = booking.engagement if booking else None
            if known:
                _repeated(known, body, request_hash)
                return None
            return transitions.request(booking, booking_id, self._engagement(body, request_hash, now), now)

        return self._change(booking_id, decide)

    def accept(self, booking_id: str, body: Body, key: Key | None) -> tuple[Booking, bool]:
        return self._command(booking_id, key, lambda b, now: transitions.accept(b, _actor(body), now))

    def decline(self, booking_id: str, body: Body, key: Key | None) -> tuple[Booking, bool]:
        return self._command(
            booking_id, key, lambda b, now: transitions.decline(b, _actor(body), body.get("reason"), now)
        )

    def pay(self, booking_id: str, body: Body, key: Key | None) -> tuple[Booking, bool]:
        def decide(booking: Booking, now: datetime) -> Step | None:
            paid_at = _instant(body, "paid_at") or now
            return transitions.pay(booking, body["captured_minor"], body["charge_ref"], paid_at, now)

        return self._command(booking_id, key, decide)

    def move(self, booking_id: str, body: Body, key: Key | None) -> tuple[Booking, bool]:
        def decide(booking: Booking, now: datetime) -> Step | None:
            policy = booking.engagement.policy if booking.engagement else self.default_policy
            start, end = _event(body, policy)
            return transitions.move(booking, start, end, _actor(body), body.get("reason"), now)

        return self._command(booking_id, key, decide)

    def cancel(self, booking_id: str, body: Body, key: Key | None) -> tuple[Booking, bool]:
        actor = _some_actor(body)
        return self._command(
            booking_id,
            key,
            lambda b, now: transitions.cancel(b, actor, body.get("refund_minor"), body.get("reason"), now),
        )

    def release_payout(self, booking_id: str, body: Body, key: Key | None) -> tuple[Booking, bool]:
        """Lift the hold that came with an import."""
        return self._command(
            booking_id, key, lambda b, now: transitions.release_payout(b, _actor(body), body.get("reason"), now)
        )

    def put_job(self, booking_id: str, job: str, body: Body) -> tuple[Item, bool]:
        """Make, move or replace an own job; the job's row as it is now."""
        _own_name(job)
        payload = _payload(body)
        at = moment(body["run_at"], "run_at") if body.get("run_at") is not None else None
        wanted = OwnJob(
            at=at,
            anchor=body.get("anchor"),
            offset=timedelta(seconds=body.get("offset") or 0),
            keep_on_cancel=bool(body.get("keep_on_cancel")),
            revision=body.get("revision"),
            request_hash=canonical_hash(body),
        )
        _, applied = self.bookings.change(
            booking_id, API, lambda b, now: transitions.set_job(b, booking_id, job, wanted, payload, now)
        )
        row = self.bookings.job_row(booking_id, job)
        return row or {"booking_id": booking_id, "job": job}, applied

    def delete_job(self, booking_id: str, job: str, revision: int | None) -> bool:
        _own_name(job)
        booking, applied = self.bookings.change(
            booking_id, API, lambda b, now: transitions.remove_job(b, booking_id, job, revision, now)
        )
        if booking is None:
            raise NotFound(f"there is no booking {booking_id}")
        return applied

    def open_dispute(self, booking_id: str, body: Body, key: Key | None) -> tuple[Booking, bool]:
        """The customer disputes: the payout is frozen in this transaction. The workflow starts from the stream."""
        actor, opening_hash = _some_actor(body), canonical_hash(body)
        texts = {"reason": body["reason"], "text": body["text"], "evidence": list(body.get("evidence") or ())}
        return self._command(
            booking_id,
            key,
            lambda b, now: dispute_steps.open_dispute(b, body["claimed_minor"], texts, opening_hash, actor, now),
        )

    def redrive(self, booking_id: str, job: str, body: Body, key: Key | None) -> Item:
        """Wake a pending or dead job now, under a new generation; a failed payment gets a new epoch.

        A job that is due is done by the command itself, which applies what is due first: the answer is then the row as
        it was, with the status `done`.
        """
        known = self.bookings.job_row(booking_id, job)

        def decide(booking: Booking, now: datetime) -> Step | None:
            number = payment_number(job)
            if number and booking.engagement and number <= booking.engagement.payments_made:
                payment = self.bookings.numbered_payment(booking_id, number)
                again = retry(payment, now)
                if again is None:
                    raise Refused("already_done", f"{payment.payment_id} is done", state=booking.state)
                return transitions.retried(booking, again, _actor(body), body.get("reason"), now)
            if job == WATCH_DISPUTE and booking.engagement and booking.engagement.dispute:
                return dispute_steps.resume(booking, _actor(body), body.get("reason"), now)
            if job not in booking.planned:
                if known:
                    return None
                raise NotFound(f"{booking_id} has no pending or dead job {job}")
            return transitions.redrive(booking, job, _actor(body), body.get("reason"), now)

        self._command(booking_id, key, decide)
        return self.bookings.job_row(booking_id, job) or {
            "booking_id": booking_id,
            "job": job,
            **(known or {}),
            "status": rows.DONE,
        }

    def _command(
        self, booking_id: str, key: Key | None, decide: Callable[[Booking, datetime], Step | None]
    ) -> tuple[Booking, bool]:
        def known(booking: Booking | None, now: datetime) -> Step | None:
            if booking is None:
                raise NotFound(f"there is no booking {booking_id}")
            return decide(booking, now)

        return self._change(booking_id, known, key)

    def _change(
        self, booking_id: str, decide: Callable[[Booking | None, datetime], Step | None], key: Key | None = None
    ) -> tuple[Booking, bool]:
        booking, applied = self.bookings.change(booking_id, API, decide, key)
        assert booking is not None
        return booking, applied

    def _engagement(self, body: Body, request_hash: str, now: datetime) -> Engagement:
        policy = self._policy(body.get("policy") or {})
        start, end = _event(body, policy)
        state = State(body.get("state") or State.REQUESTED)
        accepted_at, paid_at = _instant(body, "accepted_at"), _instant(body, "paid_at")
        captured, charge_ref = body.get("captured_minor"), body.get("charge_ref")
        if state in PAST_STATES:
            for name, value in (("captured_minor", captured), ("charge_ref", charge_ref), ("paid_at", paid_at)):
                if value is None:
                    raise InvalidRequest("missing", name, f"a booking that is {state} needs {name}")
        elif captured is not None or charge_ref is not None or paid_at is not None:
            raise InvalidRequest("not_paid", "state", f"a booking that is {state} has no capture")
        if state is State.REQUESTED and accepted_at is not None:
            raise InvalidRequest("not_accepted", "accepted_at", "a booking that is requested was not accepted")
        requested_at = _instant(body, "requested_at") or now
        for name, value in (("requested_at", requested_at), ("accepted_at", accepted_at), ("paid_at", paid_at)):
            if value is not None and value > now + transitions.CLOCK_SKEW:
                raise InvalidRequest("in_the_future", name, f"{name} {iso(value)} is in the future: it is {iso(now)}")
        return Engagement(
            state=state,
            customer_id=body["customer_id"],
            chef_id=body["chef_id"],
            event_start=start,
            event_end=end,
            price=body["price_minor"],
            currency=body["currency"],
            policy=policy,
            requested_at=requested_at,
            accepted_at=accepted_at or (None if state is State.REQUESTED else requested_at),
            paid_at=paid_at,
            captured=captured or 0,
            charge_ref=charge_ref,
            payout_held_since=now if body.get("hold_payout") else None,
            request_hash=request_hash,
            revision=body.get("revision"),
        )

    def _policy(self, overrides: Body) -> Policy:
        overrides = {name: value for name, value in overrides.items() if value is not None}
        try:
            policy = self.default_policy.overridden(overrides)
        except ValueError as wrong:
            raise InvalidRequest("bad_policy", "policy", str(wrong)) from None
        for name, value in overrides.items():
            if isinstance(value, int) and not name.endswith("_bps") and value > LONGEST_POLICY.total_seconds():
                raise InvalidRequest("bad_policy", f"policy.{name}", f"{name} is at most {LONGEST_POLICY.days} days")
        return policy


def canonical_hash(body: Body) -> str:
    """The hash by which a repeated request is known: of its JSON with sorted keys."""
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _repeated(known: Engagement, body: Body, request_hash: str) -> None:
    """Fine for the same request, or for an older one than is known; else refused."""
    if request_hash == known.request_hash:
        return
    revision = body.get("revision")
    if revision is not None and known.revision is not None:
        if revision < known.revision:
            return
        if revision == known.revision:
            raise Refused("revision_conflict", f"revision {revision} came with another body before", state=known.state)
    raise Refused(
        "already_exists",
        "the booking was made with another request; use move, cancel and the other commands",
        state=known.state,
    )


def _event(body: Body, policy: Policy) -> tuple[Moment, Moment]:
    start = moment(body["event_start"], "event_start")
    if body.get("event_end") is not None:
        return start, moment(body["event_end"], "event_end")
    try:
        return start, after(start, timedelta(seconds=policy.event_length))
    except OverflowError:
        raise InvalidRequest("out_of_range", "event_start", "the event's time is out of range") from None


def _instant(body: Body, name: str) -> datetime | None:
    return moment(body[name], name).instant if body.get(name) is not None else None


def _actor(body: Body) -> Actor | None:
    actor = body.get("actor")
    return Actor(Role(actor["role"]), actor.get("id")) if actor else None


def _some_actor(body: Body) -> Actor:
    return Actor(Role(body["actor"]["role"]), body["actor"].get("id"))


def _payload(body: Body) -> str | None:
    """As text. Refused is what could be stored here but never arrive, months later: EventBridge takes whole numbers of
    64 bits (API reference, PutEvents), SQS no surrogate, U+FFFE or U+FFFF (API reference, SendMessage)."""
    if "payload" not in body:
        return None
    try:
        text = json.dumps(body["payload"], separators=(",", ":"), allow_nan=False)
    except ValueError:
        raise InvalidRequest("not_json", "payload", "NaN and Infinity are not JSON") from None
    if len(text) > LARGEST_PAYLOAD:
        raise InvalidRequest(
            "payload_too_large", "payload", f"{len(text)} bytes; a payload has at most {LARGEST_PAYLOAD}"
        )
    value = json.loads(text, parse_int=_whole)
    if _NOT_CARRIED.search(json.dumps(value, ensure_ascii=False)):
        raise InvalidRequest("not_text", "payload", "no text may hold half a surrogate pair, U+FFFE or U+FFFF")
    return text


def _whole(digits: str) -> int:
    value = int(digits)
    if not -(2**63) <= value < 2**63:
        raise InvalidRequest("number_too_large", "payload", "a whole number has at most 64 bits; send it as text")
    return value


def _own_name(job: str) -> None:
    if is_built_in(job):
        raise Refused("built_in_job", f"{job} is a built-in job; choose another name")


class DisputeCommands:
    """What people do to a dispute."""

    def __init__(self, disputes: Disputes) -> None:
        self.disputes = disputes

    def reply(self, dispute_id: str, body: Body, key: Key | None) -> tuple[Booking, bool]:
        actor, reply_hash = _some_actor(body), canonical_hash(body)
        answer, offered = Reply(body["answer"]), body.get("offer_minor")
        said = {"reply_text": body.get("text"), "reply_evidence": body.get("evidence") or None}
        texts = {name: value for name, value in said.items() if value is not None}
        return self.disputes.act(
            dispute_id, lambda b, now: dispute_steps.reply(b, answer, offered, texts, reply_hash, actor, now), key
        )

    def answer_offer(self, dispute_id: str, body: Body, key: Key | None) -> tuple[Booking, bool]:
        actor, answer = _some_actor(body), OfferAnswer(body["answer"])
        return self.disputes.act(dispute_id, lambda b, now: dispute_steps.answer_offer(b, answer, actor, now), key)

    def decide(self, dispute_id: str, body: Body, key: Key | None) -> tuple[Booking, bool]:
        actor, decision_hash = _some_actor(body), canonical_hash(body)
        texts = {"decision_reason": body["reason"]}
        return self.disputes.act(
            dispute_id,
            lambda b, now: dispute_steps.decide(b, body["refund_minor"], texts, decision_hash, actor, now),
            key,
        )

    def appeal(self, dispute_id: str, body: Body, key: Key | None) -> tuple[Booking, bool]:
        actor, appeal_hash = _some_actor(body), canonical_hash(body)
        texts = {"appeal_text": body["text"]}
        return self.disputes.act(
            dispute_id, lambda b, now: dispute_steps.appeal(b, texts, appeal_hash, actor, now), key
        )

    def withdraw(self, dispute_id: str, body: Body, key: Key | None) -> tuple[Booking, bool]:
        actor = _some_actor(body)
        return self.disputes.act(dispute_id, lambda b, now: dispute_steps.withdraw(b, actor, now), key)
