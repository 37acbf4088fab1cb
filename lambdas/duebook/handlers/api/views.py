"""What the API shows of each thing: instants as ISO 8601 in UTC, money in minor units, durations in seconds."""

from collections.abc import Mapping
from typing import Any

from iso4217 import Currency

from duebook.domain.booking import Booking
from duebook.domain.chef import Chef, Switch
from duebook.domain.dispute import Dispute
from duebook.domain.ledger import held
from duebook.domain.money import shown
from duebook.domain.payment import key_of
from duebook.domain.times import Moment, iso
from duebook.service import rows
from duebook.service.codec import encode
from duebook.service.explain import Explanation
from duebook.service.ports import Item
from duebook.service.reconcile import Report
from duebook.service.summary import Summary

JOB_FIELDS = ("booking_id", "job", "run_at", "wake_at", "status", "attempts", "generation", "lane", "reason")
PAYMENT_FIELDS = (
    "payment_id",
    "booking_id",
    "kind",
    "currency",
    "status",
    "epoch",
    "attempt",
    "provider_ref",
    "next_attempt_at",
    "reason",
    "created_at",
    "account",
    "of_ref",
    "parked_since",
)
HISTORY_FIELDS = (
    "version",
    "type",
    "at",
    "due",
    "job",
    "state",
    "cause",
    "actor",
    "reason",
    "idempotency_key",
    "data",
    "published_at",
)

View = dict[str, Any]


def booking(value: Booking, payments: list[Item]) -> View:
    view: View = {"booking_id": value.booking_id, "version": value.version, "state": value.state}
    engagement = value.engagement
    if engagement is None:
        return view
    return view | {
        "revision": engagement.revision,
        "customer_id": engagement.customer_id,
        "chef_id": engagement.chef_id,
        "event_start": _moment(engagement.event_start),
        "event_end": _moment(engagement.event_end),
        "price_minor": engagement.price,
        "currency": engagement.currency,
        "policy": engagement.policy.as_dict(),
        "requested_at": iso(engagement.requested_at),
        "accepted_at": engagement.accepted_at and iso(engagement.accepted_at),
        "paid_at": engagement.paid_at and iso(engagement.paid_at),
        "captured_minor": engagement.captured,
        "charge_ref": engagement.charge_ref,
        "refunded_minor": engagement.refunded,
        "paid_out_minor": engagement.paid_out,
        "fee_minor": engagement.fee,
        "gone_minor": engagement.gone,
        "reversed_minor": engagement.reversed,
        "receivable_minor": engagement.receivable,
        "frozen": engagement.is_frozen,
        "payout_held": engagement.is_held,
        "payments": [payment(row) for row in payments],
        "dispute": engagement.dispute and _brief(engagement.dispute),
    }


def job(row: Mapping[str, Any]) -> View:
    return {name: row.get(name) for name in JOB_FIELDS}


def summary(value: Summary) -> View:
    days = [{"day": each.day, "job": each.job, "count": each.count, "amounts": each.amounts} for each in value.sums]
    return {"days": days, "complete": value.cursor is None, "next": value.cursor}


def explanation(value: Explanation) -> View:
    foreseen = value.foreseen
    return {
        "booking_id": foreseen.before.booking_id,
        "job": value.job,
        "at": iso(foreseen.at),
        "state": foreseen.before.state,
        "row": value.row and job(value.row),
        "verdict": value.told.verdict,
        "reason": value.told.reason,
        "steps": [
            {"type": step.type, "reason": step.reason, "at": iso(step.due or step.at)} for step in foreseen.steps
        ],
        "next": value.next and {"job": value.next[0], "run_at": iso(value.next[1])},
    }


def payment(row: Mapping[str, Any]) -> View:
    reference, epoch = row["payment_id"], row["epoch"]
    return {
        **{name: row.get(name) for name in PAYMENT_FIELDS},
        "amount_minor": row["amount"],
        "reference": reference,
        "idempotency_key": key_of(reference, epoch),
    }


def entry(row: Mapping[str, Any]) -> View:
    """Lines are signed minor units, debit positive; `shown` has them in major units, by the currency's exponent."""
    names = ("version", "at", "type", "what", "currency", "payment_id", "provider_ref")
    lines = dict(row["lines"])
    return {**{name: row.get(name) for name in names}, "lines": lines, "shown": _major(lines, row["currency"])}


def balance(value: Booking) -> View:
    """Where the captured money is; see `duebook.domain.ledger`."""
    engagement = value.engagement
    if engagement is None:
        return {}
    return {
        "currency": engagement.currency,
        "captured_minor": engagement.captured,
        "refunded_minor": engagement.refunded + engagement.gone,
        "net_paid_out_minor": engagement.paid_out - engagement.reversed,
        "fee_minor": engagement.fee,
        "held_minor": held(engagement),
        "receivable_minor": engagement.receivable,
    }


def trial_balance(value: View) -> View:
    """With each sum in major units too."""
    closing = {currency: _major(lines, currency) for currency, lines in value["closing"].items()}
    return value | {"closing_shown": closing}


def chef(value: Chef) -> View:
    return {
        "chef_id": value.chef_id,
        "account": value.account,
        "enabled": value.enabled,
        "held": value.held,
        "reason": value.reason,
        "version": value.version,
    }


def parked(row: Mapping[str, Any]) -> View:
    names = ("payment_id", "booking_id", "kind", "currency", "reason", "next_attempt_at", "parked_since")
    return {**{name: row.get(name) for name in names}, "amount_minor": row["amount"]}


def switch(value: Switch) -> View:
    return {"paused": value.paused, "reason": value.reason, "version": value.version}


def _major(lines: Mapping[str, int], currency: str) -> View:
    exponent = Currency(currency).exponent or 0
    return {account: shown(amount, exponent) for account, amount in lines.items()}


def history(row: Mapping[str, Any]) -> View:
    view = {name: row.get(name) for name in HISTORY_FIELDS}
    return view | ({"data": rows.event_of(row)["data"]} if "payload" in row else {})


DISPUTE_FIELDS = (
    "dispute_id", "booking_id", "status", "customer_id", "chef_id", "currency", "opened_at", "reason", "text",
    "evidence", "deadline", "remind_at", "reply", "reply_text", "reply_evidence", "offer_answer", "escalations",
    "needs_attention", "decided_by", "decided_at", "decision_reason", "mediator_id", "appeal_until", "appealed_by",
    "appeal_text", "run", "since",
)  # fmt: skip


def dispute(row: Mapping[str, Any], console_url: str) -> View:
    """All of a dispute but hashes; a task token is in another row and never shown."""
    amounts = {
        "claimed_minor": row.get("claimed"),
        "offer_minor": row.get("offered"),
        "refund_minor": row.get("refund"),
    }
    return {**{name: row.get(name) for name in DISPUTE_FIELDS}, **amounts, "console_url": console_url}


def attention(row: Mapping[str, Any], kind: str) -> View:
    names = ("booking_id", "job", "payment_id", "dispute_id", "attempts", "reason", "generation", "since")
    view = {"kind": kind, **{name: row.get(name) for name in names}}
    if "amount" in row:
        view |= {"amount_minor": row["amount"], "currency": row.get("currency")}
    if "kind" in row:
        view["payment_kind"] = row["kind"]
    if str(row["pk"]).startswith("poison#"):
        view["message_id"] = row["pk"].removeprefix("poison#")
    if str(row["sk"]).startswith(rows.HISTORY_PREFIX):
        view |= {"booking_id": row["pk"], "version": int(row["sk"].removeprefix(rows.HISTORY_PREFIX))}
    return view


def report(value: Report) -> View:
    told: View = encode(value)
    told.pop("after", None)
    return told | {
        "status": "done" if value.phase == "done" else "running",
        "differences": value.differences,
        "finished_at": value.finished_at and iso(value.finished_at),
    }


def _brief(value: Dispute) -> View:
    deadline = value.deadline and iso(value.deadline)
    return {"dispute_id": value.dispute_id, "status": value.status, "deadline": deadline}


def _moment(value: Moment) -> View:
    return {"instant": iso(value.instant), "local": value.local, "zone": value.zone}
