"""Rows of bookings that exist elsewhere: what `import` takes, checked as the API checks it."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from duebook_cli.bulk.cells import BOOKING_ID, LARGEST_AMOUNT, LARGEST_REVISION, OPAQUE_ID, Cells
from duebook_cli.bulk.files import Wrong

COLUMNS = (
    "booking_id", "customer_id", "chef_id", "event_start", "event_end", "zone", "price_minor", "currency", "state",
    "requested_at", "accepted_at", "paid_at", "captured_minor", "charge_ref", "policy", "revision",
)  # fmt: skip
NEEDED = ("booking_id", "customer_id", "chef_id", "event_start", "price_minor", "currency")
STATES = ("requested", "accepted", "paid", "event_closed", "completed")

_CAPTURE = ("paid_at", "captured_minor", "charge_ref")
_OPEN = ("requested", "accepted")
_HORIZON = timedelta(days=5 * 366)
_SKEW = timedelta(minutes=5)

Arguments = Mapping[str, Any]
"""Of `Duebook.put_booking`, without those that are not given."""


def booking_reader(now: datetime) -> Callable[[Mapping[str, Any]], Arguments | list[Wrong]]:
    """Reads one row; `now`: the service's present, for what may be neither past nor future."""

    def read(row: Mapping[str, Any]) -> Arguments | list[Wrong]:
        cells = Cells(row)
        cells.matching("booking_id", BOOKING_ID, needed=True)
        zone = cells.text("zone", longest=64)
        start, end = cells.moment("event_start", zone, needed=True), cells.moment("event_end", zone)
        given: dict[str, Any] = {
            "customer_id": cells.matching("customer_id", OPAQUE_ID, needed=True),
            "chef_id": cells.matching("chef_id", OPAQUE_ID, needed=True),
            "event_start": start and start[0],
            "event_end": end and end[0],
            "price_minor": cells.whole("price_minor", most=LARGEST_AMOUNT, needed=True),
            "currency": cells.currency("currency"),
            "state": cells.one_of("state", STATES),
            "requested_at": cells.instant("requested_at"),
            "accepted_at": cells.instant("accepted_at"),
            "paid_at": cells.instant("paid_at"),
            "captured_minor": cells.whole("captured_minor", most=LARGEST_AMOUNT),
            "charge_ref": cells.matching("charge_ref", OPAQUE_ID),
            "policy": cells.policy("policy"),
            "revision": cells.whole("revision", most=LARGEST_REVISION),
        }
        if not cells.wrong:
            _check_state(cells, given)
            _check_times(cells, given, start and start[1], end and end[1], now)
        return cells.wrong or {name: value for name, value in given.items() if value is not None}

    return read


def _check_state(cells: Cells, given: Arguments) -> None:
    state = given["state"] or "requested"
    for name in _CAPTURE:
        if state in _OPEN and given[name] is not None:
            cells.refuse(name, f"a booking that is {state} has no capture")
        if state not in _OPEN and given[name] is None:
            cells.refuse(name, f"a booking that is {state} needs it")
    if state == "requested" and given["accepted_at"] is not None:
        cells.refuse("accepted_at", "a booking that is requested was not accepted")


def _check_times(cells: Cells, given: Arguments, start: datetime | None, end: datetime | None, now: datetime) -> None:
    state = given["state"] or "requested"
    for name in ("requested_at", "accepted_at", "paid_at"):
        if given[name] is not None and given[name] > now + _SKEW:
            cells.refuse(name, "is in the future")
    if start is None:
        return
    if end is not None and end <= start:
        cells.refuse("event_end", "is not after event_start")
    if state in _OPEN and start <= now:
        cells.refuse("event_start", f"is past, and the booking is only {state}")
    if start < now - _HORIZON:
        cells.refuse("event_start", "is over five years ago")
    if (end or start) > now + _HORIZON:
        cells.refuse("event_start" if end is None else "event_end", "is more than five years ahead")
