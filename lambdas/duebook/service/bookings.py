"""Load a booking, decide, commit: the one way in which anything about a booking changes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from duebook.domain.booking import Booking
from duebook.domain.errors import ConditionFailed, Contention, InvalidRequest, NotFound, VersionConflict
from duebook.domain.names import parent, payment_id
from duebook.domain.payment import Payment
from duebook.domain.times import iso
from duebook.domain.transitions import Step, everything_due, refresh
from duebook.service import rows
from duebook.service.ports import Delete, If, Item, Put, Table, Write
from duebook.service.rows import Cause

Clock = Callable[[], datetime]
"""Aware UTC now."""

MOST_TRIES = 6
"""How often a change is decided again after another one came first; then `VersionConflict`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A caller's Idempotency-Key with the hash of the request it came with."""

    value: str
    request_hash: str

    @property
    def sk(self) -> str:
        return f"key#{self.value}"


class Bookings:
    """The bookings in the table."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self.table = table
        self.clock = clock

    def load(self, booking_id: str) -> Booking | None:
        """The booking as it is: one consistent read."""
        row = self.table.get(booking_id, rows.BOOKING_SK)
        return rows.read_booking(row) if row else None

    def payment(self, payment_id_: str) -> Payment:
        """Raises `NotFound`."""
        row = self.table.get(parent(payment_id_), f"{rows.PAYMENT_PREFIX}{payment_id_}")
        if row is None:
            raise NotFound(f"there is no payment {payment_id_}")
        return rows.read_payment(row)

    def payments(self, booking: Booking) -> list[Payment]:
        """All payments that were ever decided for it, in order."""
        made = booking.engagement.payments_made if booking.engagement else 0
        return [self.numbered_payment(booking.booking_id, number) for number in range(1, made + 1)]

    def numbered_payment(self, booking_id: str, number: int) -> Payment:
        return self.payment(payment_id(booking_id, number))

    def job_row(self, booking_id: str, job: str) -> Item | None:
        return self.table.get(booking_id, f"{rows.JOB_PREFIX}{job}")

    def change(
        self,
        booking_id: str,
        cause: Cause,
        decide: Callable[[Booking | None, datetime], Step | None],
        key: Key | None = None,
    ) -> tuple[Booking | None, bool]:
        """Apply what is due, then a command; decide again when another change came first.

        What is due is committed even if the command is then refused. Returns the booking and whether the command
        changed it. Raises what `decide` raises, and `VersionConflict` after bounded tries.
        """
        for _ in range(MOST_TRIES):
            try:
                now = self.clock()
                booking = self.caught_up(self.load(booking_id), cause, now)
                if key and self._seen(booking_id, key):
                    return booking, False
                step = decide(booking, now)
                if step is None:
                    return booking, False
                return self.commit(booking, step, cause, key), True
            except (ConditionFailed, Contention):
                continue
        raise VersionConflict(f"{booking_id} kept changing; nothing was done", booking_id=booking_id)

    def caught_up(self, booking: Booking | None, cause: Cause, now: datetime) -> Booking | None:
        """Every transition that is due, in order, each its own transaction. Raises `ConditionFailed` when outrun."""
        if booking is None:
            return None
        for step in everything_due(booking, now):
            booking = self.commit(booking, step, cause)
        return booking

    def refreshed(self, booking: Booking, cause: Cause, now: datetime) -> Booking:
        """Job rows as today's code derives them: what changed code renamed, dropped or added is put right here."""
        step = refresh(booking, now)
        return self.commit(booking, step, cause) if step else booking

    def commit(
        self, before: Booking | None, step: Step, cause: Cause, key: Key | None = None, also: Sequence[Write] = ()
    ) -> Booking:
        """One transaction: booking, changed job rows, payments, dispute, history. Raises `ConditionFailed` or
        `Contention`. `also`: rows of another kind that stand or fall with it."""
        self.table.write(*self._writes(before, step, cause, key), *also)
        return step.booking

    def _writes(self, before: Booking | None, step: Step, cause: Cause, key: Key | None) -> list[Write]:
        after = step.booking
        condition = If(equals={"version": before.version}) if before else If(absent=True)
        writes: list[Write] = [Put(item=rows.booking_row(after), condition=condition)]
        old = before.planned if before else {}
        for job in sorted(old.keys() - after.planned.keys()):
            writes.append(Delete(pk=after.booking_id, sk=f"{rows.JOB_PREFIX}{job}"))
        for job, planned in after.planned.items():
            if old.get(job) != planned:
                replaces = step.type == "job.set" and job == step.job
                more = rows.payout_shown(after, job)
                if replaces and step.payload is not None:
                    more["payload"] = step.payload
                drop = ("payload",) if replaces and step.payload is None else ()
                writes.append(rows.job_write(after.booking_id, job, planned, step.at, more, drop))
        writes += [Put(item=rows.payment_row(payment, step.at)) for payment in step.payments]
        charge_ref = after.engagement.charge_ref if after.engagement else None
        if charge_ref and not (before and before.engagement and before.engagement.charge_ref == charge_ref):
            writes.append(rows.charge_put(after, charge_ref))
        writes += rows.parked_writes(before, step) + rows.ledger_puts(before, step)
        if step.dispute_texts is not None:
            writes.append(rows.dispute_update(step, step.dispute_texts))
        payload = None
        if step.fires:
            row = self.job_row(after.booking_id, step.fires)
            payload = row.get("payload") if row else None
        writes.append(rows.history_put(step, cause, key.value if key else None, payload))
        if key:
            expires = int((step.at + rows.KEYS_ARE_KEPT).timestamp())
            item = {
                "pk": after.booking_id,
                "sk": key.sk,
                "request_hash": key.request_hash,
                "at": iso(step.at),
                "version": after.version,
                "expires_at": expires,
            }
            writes.append(Put(item=item, condition=If(absent=True)))
        return writes

    def _seen(self, booking_id: str, key: Key) -> bool:
        row = self.table.get(booking_id, key.sk)
        if row is None:
            return False
        if row["request_hash"] != key.request_hash:
            raise InvalidRequest(
                "idempotency_key_reused", "Idempotency-Key", f"{key.value!r} came with another request before"
            )
        return True
