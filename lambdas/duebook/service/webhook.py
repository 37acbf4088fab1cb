"""What Stripe's events make happen: captures, chargebacks, and money that moved without us.

Events come at least once and in any order (docs.stripe.com/webhooks, "Event ordering"). Each effect is idempotent by
the id of the object that it is about, and only what was processed is marked: after a crash in between, Stripe sends
the event again, which then changes nothing. An event that the booking refuses is kept for a person, and answered so
that Stripe sends it again, for up to three days.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from duebook.domain import names
from duebook.domain.errors import DuebookError, InvalidRequest, NotFound, Permanent, Refused
from duebook.domain.policy import Policy
from duebook.domain.times import iso
from duebook.service import outside, rows
from duebook.service.bookings import Bookings
from duebook.service.commands import Commands
from duebook.service.ports import Item, Put

MARKS_ARE_KEPT = timedelta(days=60)
"""Stripe sends an event again for three days by itself, and on demand as long as it keeps it: 30 days
(docs.stripe.com/webhooks; docs.stripe.com/api/events)."""
CAPTURE_MAY_FOLLOW = timedelta(hours=1)
"""An event about a charge that we don't know (yet) is sent again within this time; then the charge is not ours."""

BOOKING = "booking_id"
"""The key in a charge's metadata by which the marketplace says which booking it pays."""
REFERENCE = "reference"
"""The key in the metadata of transfers, refunds and reversals that are ours: the payment's id."""

_EVENT_ID = r"[0-9A-Za-z_]{1,255}"
Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Handled:
    """`verdict`: done, duplicate, ignored, later (too early to tell) or refused (a person has to look)."""

    verdict: str
    reason: str

    @property
    def again(self) -> bool:
        """Whether Stripe should send the event again."""
        return self.verdict in ("later", "refused")


@dataclass(frozen=True, slots=True)
class _Unknown(Exception):
    """The event is about a charge of which we know no booking."""

    charge: str


def handle(bookings: Bookings, event: Object) -> Handled:
    """Do what a verified event says, once. Raises for what may be otherwise a moment later (`AwsFailure`...)."""
    event_id, type_ = _text(event, "id"), _text(event, "type")
    if not re.fullmatch(_EVENT_ID, event_id):
        raise InvalidRequest("bad_event", "id", "the event's id is none of Stripe's")
    act = _ACTS.get(type_)
    if act is None:
        return Handled("ignored", "nothing follows from events of this type")
    known = bookings.table.get(f"webhook#{event_id}", "event")
    if known and known["verdict"] == "done":
        return Handled("duplicate", "it was processed before")
    try:
        done = act(bookings, _part(_part(event, "data"), "object"))
    except _Unknown:
        if bookings.clock() < _instant(event, "created") + CAPTURE_MAY_FOLLOW:
            return Handled("later", "its charge is not known yet")
        return Handled("ignored", "its charge is none of ours")
    except (InvalidRequest, NotFound, Permanent, Refused) as error:
        bookings.table.write(Put(item=_kept(event_id, type_, error, bookings.clock())))
        return Handled("refused", error.code)
    if done is None:
        return Handled("ignored", "it is about nothing of ours")
    bookings.table.write(Put(item=_mark(event_id, type_, bookings.clock())))
    return Handled("done", "it took effect" if done else "it had taken effect")


def _mark(event_id: str, type_: str, now: datetime) -> Item:
    return {
        "pk": f"webhook#{event_id}",
        "sk": "event",
        "verdict": "done",
        "type": type_,
        "at": iso(now),
        "expires_at": int((now + MARKS_ARE_KEPT).timestamp()),
    }


def _kept(event_id: str, type_: str, error: DuebookError, now: datetime) -> Item:
    """For a person, among the dead letters, until the same event is processed after all."""
    return {
        **_mark(event_id, type_, now),
        "verdict": "refused",
        "reason": f"Stripe's event {event_id} ({type_}) was refused: {error}",
        "since": iso(now),
        **rows.attention_keys(rows.DEAD, event_id, now),
    }


# --- what each type of event means: True or False as it took effect now or before, None when it is not ours ----------


def _captured(bookings: Bookings, charge: Object) -> bool | None:
    """Money of a customer is here. A charge that was only authorized says so again when it is captured."""
    booking_id = _metadata(charge).get(BOOKING)
    if booking_id is None or charge.get("captured") is not True:
        return None
    if not re.fullmatch(names.BOOKING_ID, str(booking_id)):
        raise InvalidRequest("bad_event", f"metadata.{BOOKING}", "it can be no booking's id")
    _same_currency(bookings, booking_id, charge)
    body = {
        "captured_minor": _whole(charge, "amount_captured"),
        "charge_ref": _text(charge, "id"),
        "paid_at": iso(min(_instant(charge, "created"), bookings.clock())),
    }
    _, applied = Commands(bookings, Policy()).pay(booking_id, body, None)
    return applied


def _chargeback_opened(bookings: Bookings, chargeback: Object) -> bool | None:
    """An inquiry takes no money (docs.stripe.com/disputes/how-disputes-work): it counts when the money is withdrawn."""
    if _text(chargeback, "status").startswith("warning_"):
        return None
    return _withdrawn(bookings, chargeback)


def _withdrawn(bookings: Bookings, chargeback: Object) -> bool | None:
    booking_id = _booking_of(bookings, chargeback)
    return outside.charged_back(
        bookings,
        booking_id,
        _text(chargeback, "id"),
        _whole(chargeback, "amount"),
        str(chargeback.get("reason") or "general"),
    )


def _chargeback_closed(bookings: Bookings, chargeback: Object) -> bool | None:
    """Won: the money comes back, and the payout may go. Lost: it stays gone."""
    status = _text(chargeback, "status")
    if status not in ("won", "lost"):
        return None
    booking_id = _booking_of(bookings, chargeback)
    return outside.chargeback_closed(
        bookings, booking_id, _text(chargeback, "id"), _whole(chargeback, "amount"), status == "won"
    )


def _refunded(bookings: Bookings, refund: Object) -> bool | None:
    """A refund that is not ours was made by hand; it counts from its creation, as Stripe takes the money then. Ours
    is recorded where it was sent; here it matters only if it fails afterwards and the money comes back
    (docs.stripe.com/refunds, "Failed refunds")."""
    status, ours = _text(refund, "status"), _ours(refund)
    ref, came_back = _text(refund, "id"), status in ("failed", "canceled")
    if ours is not None:
        if not came_back:
            return None
        why = f"the refund {status}: {refund.get('failure_reason') or 'unknown'}"
        return outside.payment_came_back(bookings, ours, ref, _whole(refund, "amount"), why)
    booking_id = _booking_of(bookings, refund)
    if came_back:
        return outside.refund_outside_failed(bookings, booking_id, ref)
    return outside.refunded_outside(bookings, booking_id, ref, _whole(refund, "amount"))


def _transfer_reversed(bookings: Bookings, transfer: Object) -> bool | None:
    """Reversals by hand of a transfer that is ours. Those that we made are recorded where they were sent."""
    ours = _ours(transfer)
    if ours is None:
        return None
    by_hand = [reversal for reversal in _part(transfer, "reversals").get("data") or () if _ours(reversal) is None]
    applied = [
        outside.payment_came_back(
            bookings, ours, _text(reversal, "id"), _whole(reversal, "amount"), "the transfer was reversed by hand"
        )
        for reversal in by_hand
    ]
    return any(applied) if applied else None


def _transfer_failed(bookings: Bookings, transfer: Object) -> bool | None:
    ours = _ours(transfer)
    if ours is None:
        return None
    return outside.payment_came_back(
        bookings, ours, _text(transfer, "id"), _whole(transfer, "amount"), "the transfer failed"
    )


_ACTS: Mapping[str, Callable[[Bookings, Object], bool | None]] = {
    "charge.succeeded": _captured,
    "charge.captured": _captured,
    "charge.dispute.created": _chargeback_opened,
    "charge.dispute.funds_withdrawn": _withdrawn,
    "charge.dispute.closed": _chargeback_closed,
    "refund.created": _refunded,
    "refund.updated": _refunded,
    "refund.failed": _refunded,
    "charge.refund.updated": _refunded,
    "transfer.reversed": _transfer_reversed,
    "transfer.failed": _transfer_failed,
}
EVENT_TYPES = tuple(_ACTS)
"""The events to subscribe the endpoint to; any other is answered with 200 and ignored."""


# --- reading ---------------------------------------------------------------------------------------------------------


def _booking_of(bookings: Bookings, about: Object) -> str:
    """The booking that the object's charge paid. Raises `_Unknown`."""
    charge = about.get("charge")
    ref = str(charge.get("id") if isinstance(charge, Mapping) else charge or "none")
    row = bookings.table.get(f"charge#{ref}", rows.CHARGE_SK)
    if row is None:
        raise _Unknown(ref)
    booking_id = str(row["booking_id"])
    _same_currency(bookings, booking_id, about)
    return booking_id


def _same_currency(bookings: Bookings, booking_id: str, about: Object) -> None:
    booking = bookings.load(booking_id)
    if booking is None or booking.engagement is None:
        raise NotFound(f"there is no booking {booking_id}")
    currency = _text(about, "currency").upper()
    if currency != booking.engagement.currency:
        raise Refused("other_currency", f"{booking_id} is in {booking.engagement.currency}, not {currency}")


def _ours(thing: Object) -> str | None:
    """The payment that we made it for."""
    reference = _metadata(thing).get(REFERENCE)
    return str(reference) if reference and re.fullmatch(names.PAYMENT_ID, str(reference)) else None


def _metadata(thing: Object) -> Mapping[str, Any]:
    return _part(thing, "metadata") if thing.get("metadata") else {}


def _part(thing: Object, name: str) -> Mapping[str, Any]:
    value = thing.get(name)
    if not isinstance(value, Mapping):
        raise InvalidRequest("bad_event", name, f"{name} is no object")
    return value


def _text(thing: Object, name: str) -> str:
    value = thing.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidRequest("bad_event", name, f"{name} is no text")
    return value


def _whole(thing: Object, name: str) -> int:
    value = thing.get(name)
    if type(value) is not int or value < 0:
        raise InvalidRequest("bad_event", name, f"{name} is no amount")
    return value


def _instant(thing: Object, name: str) -> datetime:
    return datetime.fromtimestamp(_whole(thing, name), UTC)
