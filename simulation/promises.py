"""What each history row must be true to, beyond leading from one state to another: deadlines, freezes, promptness.

Written from the product's promises and the booking's row as it lies in the table. Called for every new history row.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from duebook.domain.times import iso, parse
from simulation.settings import Settings

Item = dict[str, Any]
MINUTE = timedelta(minutes=1)
PROMPT = 5 * MINUTE
"""Within which an answer is carried out when nothing but pauses goes wrong; the second wake-up takes 15 minutes."""
SOON = 11 * MINUTE
"""Within which a deadline acts when only wake-ups are lost, early, doubled or out of order: the sweeper's grace, its
five minutes, and the minute of a schedule."""
AT_ONCE = timedelta(seconds=150)
"""Within which it acts when none is lost: the minute of a schedule, the minute in which it fires, a function or two."""
THROUGH = timedelta(hours=8)
"""Within which a payment is made when only the provider's errors are in its way: lists lag two hours, and a look-up
comes before a key is a day old."""
OF_THE_PROVIDER = frozenset({"provider_saved_error", "provider_timeout", "provider_done_unanswered"})
MADE = ("payment.done", "booking.paid_out")
OF_WAKE_UPS = frozenset({"wake_up_lost", "wake_up_early", "wake_up_duplicated", "wake_up_reordered", "wake_up_old"})
DEAD_AFTER = timedelta(hours=24)
OVER = ("settled", "withdrawn")
DEADLINES = ("booking.rejected", "booking.expired", "booking.event_closed", "job.due")


class Promises:
    """`deadlines`: dispute's booking → until when it waits, as its last event said."""

    def __init__(self, settings: Settings) -> None:
        chosen = settings.only_faults
        self._only_wake_ups = settings.faults == 0 or (chosen is not None and OF_WAKE_UPS.issuperset(chosen))
        self._soon = AT_ONCE if chosen == ("wake_up_early",) else SOON
        self._only_provider = chosen is not None and OF_THE_PROVIDER.issuperset(chosen)
        self._only_pauses = settings.faults == 0 or chosen == ("pause",)
        self._deadlines: dict[str, datetime | None] = {}
        self._since: dict[str, datetime] = {}
        self._decided: dict[str, datetime] = {}

    def forget(self, booking_id: str) -> None:
        self._deadlines.pop(booking_id, None)
        self._since.pop(booking_id, None)

    def broken(self, booking: Item, row: Item) -> tuple[str, str] | None:
        """The promise that a history row breaks, and what was found."""
        type_, at, booking_id = row["type"], parse(row["at"]), row["booking_id"]
        since = self._since.setdefault(booking_id, at)
        if type_ in ("job.set", "booking.moved", "booking.requested"):
            self._since[booking_id] = at
        if type_ in DEADLINES and self._only_wake_ups:
            late = at - max(parse(row["due"]), since)
            if late > self._soon:
                return "deadlines_act_soon", f"{type_} came {late} late"
        if self._only_provider and (late_payment := self._of_payments(row, at)):
            return late_payment
        engagement = booking.get("engagement")
        if engagement is None:
            return None
        # More may have happened since, in the same invocation: then the booking is not as it was at this row.
        latest = row["version"] == booking["version"]
        of_booking = self._of_booking(engagement, type_, at) if latest else None
        return of_booking or self._of_dispute(booking_id, engagement, row, at)

    def _of_booking(self, engagement: Mapping[str, Any], type_: str, at: datetime) -> tuple[str, str] | None:
        policy, start = engagement["policy"], parse(engagement["event_start"]["instant"])
        match type_:
            case "booking.accepted":
                until = parse(engagement["requested_at"]) + timedelta(seconds=policy["accept_within"])
                return _strictly_before(type_, at, min(until, start))
            case "booking.paid":
                until = parse(engagement["accepted_at"]) + timedelta(seconds=policy["pay_within"])
                return _strictly_before(type_, at, min(until, start))
            case "booking.completed" | "booking.moved" | "booking.cancelled" if _is_stopped(engagement, type_):
                return "a_dispute_holds_it", f"{type_} while it is disputed or charged back"
            case "booking.payout_decided" if engagement.get("payout_held_since"):
                return "held_until_released", f"held since {engagement['payout_held_since']}"
            case "payment.mismatch":
                return "one_key_one_request", "the provider has the key or the reference with other parameters"
        return None

    def _of_payments(self, row: Item, at: datetime) -> tuple[str, str] | None:
        """Counted from the decision; one that was parked, or that a person retries, is counted no more."""
        data = row.get("data", {})
        for payment in data.get("payments", ()):
            self._decided[payment["payment_id"]] = at
        payment_id = data.get("payment_id")
        if payment_id is None or row["type"] in ("payment.attempted", "payment.uncertain", "payment.postponed"):
            return None
        decided = self._decided.pop(payment_id, None)
        if row["type"] in MADE and decided is not None and at > decided + THROUGH:
            return "payments_get_through", f"{payment_id} was decided {iso(decided)} and made {iso(at)}"
        return None

    def _of_dispute(
        self, booking_id: str, engagement: Mapping[str, Any], row: Item, at: datetime
    ) -> tuple[str, str] | None:
        type_ = row["type"]
        if not type_.startswith("dispute."):
            return None
        said = row.get("data", {}).get("deadline")
        before, deadline = self._deadlines.get(booking_id), parse(said) if said else None
        self._deadlines[booking_id] = deadline
        match type_:
            case "dispute.replied" | "dispute.offer_answered" if before is not None:
                return _strictly_before(type_, at, before)
            case "dispute.chef_asked":
                wanted = at + timedelta(seconds=engagement["policy"]["reply_within"])
                if deadline != wanted:
                    return "the_chef_has_the_whole_time", f"asked {iso(at)}, until {said}, not {iso(wanted)}"
            case "dispute.settled" if self._only_pauses:
                dispute = engagement["dispute"]
                due = max(parse(dispute["decided_at"]), parse(dispute.get("appeal_until") or dispute["decided_at"]))
                if at > due + PROMPT:
                    return "answers_are_carried_out", f"decided {iso(due)}, settled {iso(at)}"
        return None


def died(new: Item) -> str | None:
    """What is wrong with a job's death: not permanent, and its rounds of attempts span less than a day."""
    if new["status"] != "dead" or not new["reason"].startswith("every attempt of a round failed"):
        return None
    span = parse(new["since"]) - parse(new["failing_since"])
    return f"{new['job']} died after {span}" if span <= DEAD_AFTER else None


def _is_stopped(engagement: Mapping[str, Any], type_: str) -> bool:
    dispute = engagement.get("dispute")
    disputed = dispute is not None and dispute["status"] not in OVER
    charged_back = any(item.get("is_open") for item in engagement.get("outside", {}).values())
    return disputed or (charged_back and type_ != "booking.completed")


def _strictly_before(type_: str, at: datetime, until: datetime) -> tuple[str, str] | None:
    return None if at < until else ("deadlines_are_kept", f"{type_} at {iso(at)}, until {iso(until)}")
