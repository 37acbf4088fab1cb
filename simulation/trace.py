"""The real bookings of a trace as the simulation's marketplace: booked, accepted, paid, moved, cancelled, arrived."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Any

from local.trace import CURRENCY, POLICY, ZONE, Do, Row, expected, plan, read_trace, stay
from local.trace import Action as Planned
from simulation.deploys import deploys
from simulation.marketplace import Action
from simulation.settings import Settings

SPREAD = 4 * 3600
"""Seconds after 09:00 UTC over which a day's commands are spread, by the booking's line."""
SOME_TIME = timedelta(days=3)


class Real:
    """`bookings` of the settings is how many rows are read; `days` is the trace's own."""

    insists = True

    def __init__(self, settings: Settings) -> None:
        assert settings.trace is not None
        chosen = settings.only_bookings
        found = read_trace(settings.trace, limit=settings.bookings)
        kept = [row for row in found if chosen is None or row.booking_id in chosen]
        self._rows = {row.booking_id: row for row in kept}
        self._order = sorted((row.booked_on, row.line, row.booking_id) for row in kept)
        self._without = settings.without_actions
        self._settings = settings
        self.start = datetime.combine(self._order[0][0], time(), UTC)
        last = max(stay(row, later=0)[1] for row in kept).astimezone(UTC)
        self.end = last + SOME_TIME

    def bookings(self) -> Iterator[tuple[datetime, str]]:
        for booked_on, line, booking_id in self._order:
            yield datetime.combine(booked_on, time(9), UTC) + _spread(line), booking_id

    def actions(self, booking_id: str, at: datetime) -> list[Action]:
        row = self._rows[booking_id]
        found: list[Action] = []
        for planned in plan(row):
            when = planned.at + _spread(row.line)
            for name, method, path, body in _requests(row, planned):
                number = len(found) + 1
                key = f"{booking_id}-{number}" if method == "POST" else None
                found.append(Action(when, booking_id, number, name, method, path, body, key))
        return [action for action in found if action.id not in self._without]

    def others(self) -> list[Action]:
        return [
            Action(self.start, chef, 1, "puts the account", "PUT", f"/chefs/{chef}", {"account": f"acct_{chef}"})
            for chef in ("ch-city", "ch-resort")
        ]

    def deploys(self) -> list[tuple[datetime, str]]:
        """As many as the marketplace has, over the trace's years."""
        span = (self.end - self.start) / timedelta(days=1) / self._settings.days
        first = deploys(self._settings)
        return [(self.start + (at - first[0][0]) * span + timedelta(days=30), kind) for at, kind in first]

    def judge(self, booking_id: str, booking: Mapping[str, Any]) -> str | None:
        """What its row alone says must come out, against what came out."""
        must, engagement = expected(self._rows[booking_id]), booking["engagement"]
        if self._without:
            return None
        found = (engagement["state"], engagement.get("refunded", 0), engagement.get("paid_out", 0))
        if found != (must.state, must.refund, must.payout):
            return f"it must end {(must.state, must.refund, must.payout)}, it ended {found}"
        return None


def _spread(line: int) -> timedelta:
    return timedelta(seconds=line * 7919 % SPREAD)


def _requests(row: Row, planned: Planned) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    path = f"/bookings/{row.booking_id}"
    match planned.do:
        case Do.CANCEL:
            yield "is cancelled by the customer", "POST", f"{path}/cancel", {"actor": {"role": "customer"}}
        case Do.MOVE:
            yield "is moved", "POST", f"{path}/move", _event(planned)
        case Do.BOOK:
            body = {
                "customer_id": f"cu-{row.booking_id}",
                "chef_id": f"ch-{row.booking_id.partition('-')[0]}",
                "price_minor": row.amount,
                "currency": CURRENCY,
                "policy": POLICY,
                **_event(planned),
            }
            yield "is requested", "PUT", path, body
            yield "is accepted", "POST", f"{path}/accept", {}
            paid = {"captured_minor": row.amount, "charge_ref": f"ch_{row.booking_id}"}
            yield "is paid", "POST", f"{path}/pay", paid


def _event(planned: Planned) -> dict[str, Any]:
    assert planned.start is not None
    assert planned.end is not None
    return {name: _local(at) for name, at in (("event_start", planned.start), ("event_end", planned.end))}


def _local(at: datetime) -> dict[str, Any]:
    return {"local": at.replace(tzinfo=None).isoformat(), "zone": ZONE, "choose": "earlier"}
