"""The rows of the one table: how a booking, a job, a payment and a history entry are laid out and read back.

| row | sk | index |
|---|---|---|
| booking | `booking` | `attention` while its payout is held |
| job | `job#<name>` | `due` while pending, `attention` when dead |
| payment | `payment#<payment_id>` | `attention` when it needs a person |
| ledger entry | `ledger#<version>#<n>` | `day` |
| history | `history#<version>` | `attention` (kind `outbox`) until its event is published |
| dispute | `dispute#<dispute_id>` | `attention` while it waits for the chef, a mediator or a person |
| task token | `token#<dispute_id>` | |
| idempotency key | `key#<key>` | |
| charge | `charge` (partition `charge#<charge_ref>`: whose capture it is) | |

The partition is the booking id. Rows of the service itself have a `#` in their partition, which no booking id has:
`chef#<chef_id>` holds a chef (`chef`) and what is parked for them (`parked#<payment_id>`), `#payouts` the switch.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from duebook.domain import names
from duebook.domain.booking import Booking, Planned
from duebook.domain.dispute import IN_REVIEW, Dispute, DisputeStatus
from duebook.domain.errors import NewerRow
from duebook.domain.ledger import entries_for
from duebook.domain.payment import Payment
from duebook.domain.times import iso, parse
from duebook.domain.transitions import Step, payout_of
from duebook.service.codec import decode, encode
from duebook.service.ports import Delete, If, Item, Put, Update, Write

SCHEMA = 1
"""Of a booking's row as it is written. It grows when code that does not know the new form would decide wrongly, and
then the release before reads it already (docs/deploying.md); a field that may be ignored needs no new number."""
HELD_SCHEMA = 2
"""Of a booking whose payout is held: code that does not know of it would pay it out."""
READS = 2
"""The newest schema that this code reads."""
EVENT_SCHEMA = 1
DUE_SHARDS = 2
"""Partitions of one kind of job and day: 2,000 writes a second, and a listing merges no more than it must."""
ATTENTION_SHARDS = 4
KEYS_ARE_KEPT = timedelta(days=90)

DEAD = "dead"
NEEDS_ATTENTION = "needs_attention"
OUTBOX = "outbox"
HELD = "held"
"""Bookings whose payout a person has to release."""
DISPUTES_IN_REVIEW = "in_review"
AWAITING_CHEF = "awaiting_chef"

PENDING = "pending"
"""A job row's status: `pending`, or `dead` (a person has to redrive it)."""
DONE = "done"
"""What an answer calls a job that the request itself has done; no row has it."""

BOOKING_SK = "booking"
JOB_PREFIX = "job#"
HISTORY_PREFIX = "history#"
PAYMENT_PREFIX = "payment#"
DISPUTE_PREFIX = "dispute#"
LEDGER_PREFIX = "ledger#"
CHEF_SK = "chef"
PARKED_PREFIX = "parked#"
DAY_SHARDS = 4
"""Partitions of a day's ledger entries: 4,000 entries a second."""
CHARGE_SK = "charge"

_IN_DUE = ("due_pk", "due_sk")
_IN_ATTENTION = ("attention_pk", "attention_sk")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What made a transition happen. `source`: schedule, sweep, queue, api or workflow."""

    source: str
    job: str | None = None
    generation: int | None = None


def shard(key: str, of: int) -> int:
    return zlib.crc32(key.encode()) % of


# --- the booking ---------------------------------------------------------------------------------------------------


def booking_row(booking: Booking) -> Item:
    row = {
        "pk": booking.booking_id,
        "sk": BOOKING_SK,
        "schema": SCHEMA,
        "has_jobs": bool(booking.planned),
        **encode(booking),
    }
    engagement = booking.engagement
    if engagement is not None and engagement.is_held and engagement.payout_held_since is not None:
        since = engagement.payout_held_since
        row |= {"schema": HELD_SCHEMA, "since": iso(since), **attention_keys(HELD, booking.booking_id, since)}
    return row


def read_booking(row: Mapping[str, Any]) -> Booking:
    """Raises `NewerRow` for what code of today would read wrongly, and then write back without what it left out."""
    if row.get("schema", SCHEMA) > READS:
        raise NewerRow(
            f"booking {row['pk']} has schema {row['schema']}, written by a newer release; this one reads {READS}"
        )
    return decode(Booking, row)


# --- jobs ----------------------------------------------------------------------------------------------------------


def due_partition(day: str, kind: str, shard_number: int) -> str:
    """`2026-11-14#close_event#0`: one UTC day, one kind of job, one shard."""
    return f"{day}#{kind}#{shard_number}"


def due_keys(booking_id: str, job: str, wake_at: datetime) -> dict[str, str]:
    """Where a pending job stands in the due index."""
    at = iso(wake_at)
    partition = due_partition(at[:10], names.kind(job), shard(booking_id, DUE_SHARDS))
    return {"due_pk": partition, "due_sk": f"{at}#{booking_id}#{job}"}


def attention_keys(kind: str, key: str, since: datetime) -> dict[str, str]:
    """Where a row stands in the attention index."""
    return {"attention_pk": f"{kind}#{shard(key, ATTENTION_SHARDS)}", "attention_sk": f"{iso(since)}#{key}"}


def job_write(
    booking_id: str, job: str, planned: Planned, now: datetime, more: Mapping[str, Any], drop: tuple[str, ...]
) -> Update:
    """A job row made, or moved: pending again, with a new generation. The payload stays unless named."""
    wake_at = max(planned.run_at, now)
    return Update(
        pk=booking_id,
        sk=f"{JOB_PREFIX}{job}",
        set={
            "booking_id": booking_id,
            "job": job,
            "run_at": iso(planned.run_at),
            "wake_at": iso(wake_at),
            "generation": planned.generation,
            "lane": names.lane(job),
            "status": PENDING,
            "attempts": 0,
            **due_keys(booking_id, job, wake_at),
            **more,
        },
        remove=("reason", "since", "failing_since", *_IN_ATTENTION, *drop),
    )


def payout_shown(booking: Booking, job: str) -> dict[str, Any]:
    """What a job's row says that it pays a chef: for listings and sums, it decides nothing. Whatever changes it gives
    the job a new generation, so a row is never behind its booking."""
    engagement = booking.engagement
    amount = payout_of(engagement, job) if engagement else None
    return {} if engagement is None or amount is None else {"amount": amount, "currency": engagement.currency}


def job_wake_later(row: Item, wake_at: datetime, **more: Any) -> Update:
    """Bookkeeping of a pending job (never a new generation): when the sweeper looks at it next."""
    return Update(
        pk=row["pk"],
        sk=row["sk"],
        condition=_still(row),
        set={"wake_at": iso(wake_at), **due_keys(row["booking_id"], row["job"], wake_at), **more},
    )


def job_dead(row: Item, now: datetime, reason: str, **more: Any) -> Update:
    """A job that only a person can bring back: out of the due index, into the attention index."""
    key = f"{row['booking_id']}#{row['job']}"
    return Update(
        pk=row["pk"],
        sk=row["sk"],
        condition=_still(row),
        remove=_IN_DUE,
        set={"status": DEAD, "since": iso(now), "reason": reason, **attention_keys(DEAD, key, now), **more},
    )


def _still(row: Item) -> If:
    return If(equals={"generation": row["generation"], "status": PENDING})


# --- payments ------------------------------------------------------------------------------------------------------


def payment_row(payment: Payment, now: datetime) -> Item:
    row = {"pk": payment.booking_id, "sk": f"{PAYMENT_PREFIX}{payment.payment_id}", **encode(payment)}
    if payment.needs_attention:
        row |= {"since": iso(now), **attention_keys(NEEDS_ATTENTION, payment.payment_id, now)}
    return row


def charge_put(booking: Booking, charge_ref: str) -> Put:
    """By this the booking is found when the provider tells of something that happened to its charge."""
    return Put(item={"pk": f"charge#{charge_ref}", "sk": CHARGE_SK, "booking_id": booking.booking_id})


def read_payment(row: Mapping[str, Any]) -> Payment:
    return decode(Payment, row)


def chef_pk(chef_id: str) -> str:
    return f"chef#{chef_id}"


def parked_writes(before: Booking | None, step: Step) -> list[Write]:
    """The listing under the chef of payments that this step parks, or that were parked before it."""
    brief = before.engagement.payments if before and before.engagement else {}
    writes: list[Write] = []
    for payment in step.payments:
        pk, sk = chef_pk(payment.chef_id), f"{PARKED_PREFIX}{payment.payment_id}"
        if payment.parked_since is not None:
            shown = (
                "payment_id",
                "booking_id",
                "kind",
                "amount",
                "currency",
                "reason",
                "next_attempt_at",
                "parked_since",
            )
            row = encode(payment)
            writes.append(Put(item={"pk": pk, "sk": sk} | {name: row[name] for name in shown if name in row}))
        elif payment.number in brief and brief[payment.number].parked:
            writes.append(Delete(pk=pk, sk=sk))
    return writes


# --- the ledger ----------------------------------------------------------------------------------------------------


def day_partition(day: str, shard_number: int) -> str:
    """`2026-11-14#0`: one UTC day, one shard."""
    return f"{day}#{shard_number}"


def ledger_puts(before: Booking | None, step: Step) -> list[Write]:
    """The entries that a step adds; none is ever replaced."""
    after = step.booking
    if after.engagement is None:
        return []
    entries = entries_for(before.engagement if before else None, after.engagement, step.payments)
    at = iso(step.at)
    return [
        Put(
            item={
                "pk": after.booking_id,
                "sk": f"{LEDGER_PREFIX}{after.version:010d}#{number}",
                "booking_id": after.booking_id,
                "version": after.version,
                "at": at,
                "type": step.type,
                "day_pk": day_partition(at[:10], shard(after.booking_id, DAY_SHARDS)),
                "day_sk": f"{at}#{after.booking_id}#{after.version:010d}#{number}",
                **encode(entry),
            },
            condition=If(absent=True),
        )
        for number, entry in enumerate(entries, start=1)
    ]


# --- disputes ------------------------------------------------------------------------------------------------------


def dispute_update(step: Step, texts: Mapping[str, Any]) -> Update:
    """The dispute's row: all of the dispute, who is in it, and its texts; those of earlier steps stay.

    In the attention index while it waits for the chef, for a mediator, or for a person.
    """
    booking, engagement = step.booking, step.booking.engagement
    assert engagement is not None
    assert engagement.dispute is not None
    dispute = engagement.dispute
    values = encode(dispute) | {
        "booking_id": booking.booking_id,
        "customer_id": engagement.customer_id,
        "chef_id": engagement.chef_id,
        "currency": engagement.currency,
        **encode(texts),
    }
    unset = [field.name for field in fields(dispute) if field.name not in values]
    kind = _dispute_kind(dispute)
    if kind:
        values |= {"since": iso(step.at), **attention_keys(kind, dispute.dispute_id, step.at)}
    else:
        unset += ["since", *_IN_ATTENTION]
    return Update(pk=booking.booking_id, sk=f"{DISPUTE_PREFIX}{dispute.dispute_id}", set=values, remove=unset)


def _dispute_kind(dispute: Dispute) -> str | None:
    if not dispute.is_open:
        return None
    if dispute.needs_attention:
        return NEEDS_ATTENTION
    if dispute.status in IN_REVIEW:
        return DISPUTES_IN_REVIEW
    return AWAITING_CHEF if dispute.status in (DisputeStatus.OPENED, DisputeStatus.AWAITING_CHEF) else None


# --- history -------------------------------------------------------------------------------------------------------


def history_sk(version: int) -> str:
    """Versions in order, as text."""
    return f"{HISTORY_PREFIX}{version:010d}"


def outbox_keys(booking_id: str, version: int, since: datetime) -> dict[str, str]:
    """Where a history row stands in the outbox until its event is published."""
    return attention_keys(OUTBOX, f"{booking_id}#{version:010d}", since)


def history_put(step: Step, cause: Cause, idempotency_key: str | None, payload: str | None) -> Put:
    booking = step.booking
    row = {
        "pk": booking.booking_id,
        "sk": history_sk(booking.version),
        "booking_id": booking.booking_id,
        "version": booking.version,
        "type": step.type,
        "at": iso(step.at),
        "reason": step.reason,
        "cause": encode(cause),
        "data": encode(step.data),
        **outbox_keys(booking.booking_id, booking.version, step.at),
    }
    optional = {
        "due": step.due and iso(step.due),
        "job": step.job,
        "actor": step.actor and encode(step.actor),
        "state": booking.state and booking.state.value,
        "idempotency_key": idempotency_key,
        "payload": payload,
    }
    row |= {name: value for name, value in optional.items() if value is not None}
    return Put(item=row, condition=If(absent=True))


def event_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The event of a history row, as it goes on the bus: see docs/events."""
    event = {
        "id": f"{row['booking_id']}:{row['version']}",
        "schema_version": EVENT_SCHEMA,
        "type": row["type"],
        "booking_id": row["booking_id"],
        "version": row["version"],
        "at": row["at"],
        **{name: row[name] for name in ("due", "job", "state") if name in row},
        "data": dict(row.get("data", {})),
    }
    if "payload" in row:
        event["data"]["payload"] = json.loads(row["payload"])
    return event


def published(row: Mapping[str, Any], now: datetime) -> Update:
    """The bus accepted the event: the row leaves the outbox."""
    return Update(
        pk=row["pk"],
        sk=row["sk"],
        set={"published_at": iso(now)},
        remove=(*_IN_ATTENTION, "attempts", "since"),
        condition=If(exists=True),
    )


def run_at(row: Mapping[str, Any]) -> datetime:
    return parse(row["run_at"])
