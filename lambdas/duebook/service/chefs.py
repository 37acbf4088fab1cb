"""Chefs and the switch: who is paid. What may not go is parked under its chef, and goes when what held it is over."""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta

from duebook.domain import chef as rules
from duebook.domain.booking import Booking
from duebook.domain.chef import Chef, Switch
from duebook.domain.errors import ConditionFailed, Contention, NotFound, VersionConflict
from duebook.domain.names import parent
from duebook.domain.payment import unpark
from duebook.domain.transitions import Step, payment_step
from duebook.service import rows
from duebook.service.bookings import MOST_TRIES, Bookings
from duebook.service.codec import decode, encode
from duebook.service.ports import Check, If, Item, Put, Table
from duebook.service.queries import Listing
from duebook.service.rows import Cause

SWITCH = ("#payouts", "switch")
PAGE = 200
WAKING = timedelta(seconds=15)
"""How long one call wakes parked payments, of the 29 s that API Gateway waits. What is left goes when the call is
repeated, or at its own look, within a week."""


def load(table: Table, chef_id: str) -> Chef:
    """The chef; one that nobody put is enabled and has no account."""
    row = table.get(rows.chef_pk(chef_id), rows.CHEF_SK)
    return decode(Chef, row) if row else Chef(chef_id=chef_id)


def existing(table: Table, chef_id: str) -> Chef:
    """Raises `NotFound` for a chef that nobody put or held."""
    found = load(table, chef_id)
    if found.version == 0:
        raise NotFound(f"there is no chef {chef_id}")
    return found


def switch(table: Table) -> Switch:
    """The switch for all payouts; not paused until somebody does it."""
    row = table.get(*SWITCH)
    return decode(Switch, row) if row else Switch()


def guards(chef: Chef, all_payouts: Switch) -> tuple[Check, ...]:
    """The checks that let a claim or a parking stand only on the rows that it was decided by."""
    return (
        Check(pk=rows.chef_pk(chef.chef_id), sk=rows.CHEF_SK, condition=_as_read(chef.version)),
        Check(pk=SWITCH[0], sk=SWITCH[1], condition=_as_read(all_payouts.version)),
    )


def put(bookings: Bookings, chef_id: str, account: str | None, enabled: bool) -> tuple[Chef, bool]:
    """The connected account, and whether they are paid at all."""
    return _change(bookings, chef_id, lambda chef: rules.named(chef, account, enabled))


def hold(bookings: Bookings, chef_id: str, reason: str | None) -> tuple[Chef, bool]:
    """No payout to them is sent from now on."""
    return _change(bookings, chef_id, lambda chef: rules.held(chef, reason))


def unhold(bookings: Bookings, chef_id: str) -> tuple[Chef, bool]:
    """What is parked goes at once. Again: nothing is left to wake."""
    return _change(bookings, chef_id, rules.unheld)


def pause(bookings: Bookings, paused: bool, reason: str | None) -> tuple[Switch, bool]:
    """All payouts at once. Resumed: what waited goes at its next look, within the hour, or when it is retried."""
    for _ in range(MOST_TRIES):
        before = switch(bookings.table)
        if before.paused is paused:
            return before, False
        after = Switch(paused=paused, reason=reason if paused else None, version=before.version + 1)
        item = {"pk": SWITCH[0], "sk": SWITCH[1], **encode(after)}
        try:
            bookings.table.write(Put(item=item, condition=_as_read(before.version)))
        except (ConditionFailed, Contention):
            continue
        return after, True
    raise VersionConflict("the switch kept changing")


def parked(table: Table, chef_id: str, *, cursor: str | None = None, limit: int = 100) -> Listing:
    """What waits for this chef. The cursor is the last payment shown."""
    after = {"pk": rows.chef_pk(chef_id), "sk": f"{rows.PARKED_PREFIX}{cursor}"} if cursor else None
    page = table.query(rows.chef_pk(chef_id), rows.PARKED_PREFIX, after=after, limit=limit)
    following = str(page.items[-1]["payment_id"]) if page.after and page.items else None
    return Listing(list(page.items), following, page.scanned)


def _change(bookings: Bookings, chef_id: str, decide: Callable[[Chef], Chef | None]) -> tuple[Chef, bool]:
    for _ in range(MOST_TRIES):
        before = load(bookings.table, chef_id)
        after = decide(before)
        if after is not None:
            item: Item = {"pk": rows.chef_pk(chef_id), "sk": rows.CHEF_SK, **encode(after)}
            try:
                bookings.table.write(Put(item=item, condition=_as_read(before.version)))
            except (ConditionFailed, Contention):
                continue
        now_is = after or before
        if rules.stopped(now_is, needs_account=False) is None:
            _wake_parked(bookings, chef_id)
        return now_is, after is not None
    raise VersionConflict(f"chef {chef_id} kept changing")


def _wake_parked(bookings: Bookings, chef_id: str) -> None:
    """Each by its own transaction; one that was woken already, or that keeps changing, is left alone."""
    until = bookings.clock() + WAKING
    cursor: str | None = None
    while True:
        page = parked(bookings.table, chef_id, cursor=cursor, limit=PAGE)
        for row in page.items:
            if bookings.clock() >= until:
                return
            _wake(bookings, row["payment_id"])
        cursor = page.cursor
        if cursor is None:
            return


def _wake(bookings: Bookings, payment_id: str) -> None:
    def wake(booking: Booking | None, now: datetime) -> Step | None:
        payment = bookings.payment(payment_id)
        if booking is None or not payment.is_open or payment.parked_since is None:
            return None
        return payment_step(booking, unpark(payment, now), "payment.retried", now, "what held it is over")

    with suppress(VersionConflict):
        bookings.change(parent(payment_id), Cause(source="api"), wake)


def _as_read(version: int) -> If:
    return If(equals={"version": version}) if version else If(absent=True)
