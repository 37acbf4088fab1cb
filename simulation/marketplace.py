"""What people do, as data: every booking's plan follows from the seed and its id alone.

An action is a request to the API (or an event posted to the webhook) at an instant. Some are refused, because the
booking went another way: that is what people do.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any

from simulation.chance import generator
from simulation.settings import START, Settings

HOUR, DAY, SECOND = timedelta(hours=1), timedelta(days=1), timedelta(seconds=1)
CURRENCIES = (("EUR", 100), ("EUR", 100), ("EUR", 100), ("JPY", 1), ("KWD", 1000))
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Tokyo", "Europe/Lisbon")
WEBHOOK = "/webhooks/stripe"


@dataclass(frozen=True, slots=True)
class Action:
    """`name` for people; `number` counts the booking's actions. `key`: sent as Idempotency-Key with each try."""

    at: datetime
    booking_id: str
    number: int
    name: str
    method: str
    path: str
    body: Mapping[str, Any] | None
    key: str | None = None

    @property
    def id(self) -> str:
        return f"{self.booking_id}/{self.number}"


def bookings(settings: Settings) -> Iterator[tuple[datetime, str]]:
    """When each booking's first action is, in order."""
    chosen = settings.only_bookings
    ids = chosen if chosen is not None else (f"b{number:06d}" for number in range(settings.bookings))
    span = timedelta(days=max(1.0, settings.days * 0.92 - 1))
    made = [
        (START + span * generator(settings.seed, id_, "made").random(), id_) for id_ in ids if not id_.startswith("ch")
    ]
    yield from sorted((at.replace(microsecond=0), id_) for at, id_ in made)


def chefs(settings: Settings) -> int:
    return max(3, settings.bookings // 25)


def plan(settings: Settings, booking_id: str, at: datetime, *, by_event: bool) -> list[Action]:
    """All that people will do about one booking."""
    return _Plan(settings, booking_id, at, by_event=by_event).actions()


def of_chefs(settings: Settings) -> list[Action]:
    """The chefs' accounts, holds and their ends; the switch for all payouts."""
    found: list[Action] = []
    for number in range(chefs(settings)):
        chef = f"ch-{number}"
        chance = generator(settings.seed, chef)
        late = timedelta(days=chance.uniform(0, settings.days)) if chance.random() < 0.05 else timedelta()
        put = Action(START + late, chef, 1, "puts the account", "PUT", f"/chefs/{chef}", {"account": f"acct_{number}"})
        found.append(put)
        for hold in range(chance.choice((0, 0, 0, 1, 2))):
            begins = START + timedelta(days=chance.uniform(1, settings.days))
            ends = begins + timedelta(days=chance.uniform(0.1, 12))
            path = f"/chefs/{chef}"
            found.append(Action(begins, chef, 2 * hold + 2, "is held", "POST", f"{path}/hold", {"reason": "checked"}))
            found.append(Action(ends, chef, 2 * hold + 3, "is held no more", "POST", f"{path}/unhold", None))
    chance = generator(settings.seed, "switch")
    for number in range(max(1, settings.days // 120)):
        begins = START + timedelta(days=chance.uniform(1, settings.days))
        ends = begins + timedelta(hours=chance.uniform(0.2, 60))
        found.append(Action(begins, "ch-switch", 2 * number, "pauses payouts", "POST", "/payouts/pause", {}))
        found.append(Action(ends, "ch-switch", 2 * number + 1, "resumes payouts", "POST", "/payouts/resume", None))
    return [action for action in found if action.id not in settings.without_actions]


class _Plan:
    def __init__(self, settings: Settings, booking_id: str, at: datetime, *, by_event: bool) -> None:
        self._id = booking_id
        self._chance: Random = generator(settings.seed, booking_id, "plan")
        self._made = at
        self._settings = settings
        self._by_event = by_event
        self._without = settings.without_actions
        self._found: list[Action] = []
        self._chef = f"ch-{self._chance.randrange(chefs(settings))}"
        self._charge = f"ch_{booking_id}"
        currency, unit = self._chance.choice(CURRENCIES)
        self._currency, self._price = currency, self._chance.randrange(10, 4_000) * unit
        if self._chance.random() < 0.02:
            self._price = 0

    def actions(self) -> list[Action]:
        chance = self._chance
        if chance.random() < 0.14:
            self._schedules_only()
        else:
            self._managed()
        kept = sorted(self._found, key=lambda action: (action.at, action.number))
        return [action for action in kept if action.id not in self._without]

    def _do(self, at: datetime, name: str, method: str, path: str, body: Mapping[str, Any] | None = None) -> None:
        at = max(at, self._made).replace(microsecond=0)
        number = len(self._found) + 1
        key = f"{self._id}-{number}" if method == "POST" and path != WEBHOOK else None
        self._found.append(Action(at, self._id, number, name, method, path, body, key))

    def _post(self, at: datetime, name: str, verb: str, body: Mapping[str, Any] | None = None) -> None:
        self._do(at, name, "POST", f"/bookings/{self._id}/{verb}", body or {})

    # --- schedules only ----------------------------------------------------------------------------------------

    def _schedules_only(self) -> None:
        chance = self._chance
        for number in range(chance.randint(1, 3)):
            job, path = f"note_{number}", f"/bookings/{self._id}/jobs/note_{number}"
            at, revision = self._made + number * HOUR, chance.choice((None, 1))
            run_at = at + timedelta(hours=chance.choice((0.001, 1, 24, 24 * 30, 24 * 90)) * chance.uniform(0.2, 1.5))
            for again in range(chance.choice((1, 1, 2, 3))):
                body: dict[str, Any] = {"run_at": _iso(run_at), "payload": {"job": job, "n": again}}
                if revision is not None:
                    body["revision"] = revision + again
                self._do(at, f"asks for {job}", "PUT", path, body)
                at += timedelta(hours=chance.uniform(0, 48))
                run_at = max(run_at, at) + timedelta(hours=chance.uniform(-2, 30))
            if chance.random() < 0.2:
                late = f"?revision={revision + 9}" if revision is not None else ""
                self._do(at, f"removes {job}", "DELETE", f"{path}{late}")

    # --- the managed lifecycle ---------------------------------------------------------------------------------

    def _managed(self) -> None:
        chance = self._chance
        lead = timedelta(hours=min(24 * 400, 2 + chance.expovariate(1 / (24 * 45))))
        start = (self._made + lead).replace(microsecond=0)
        length = timedelta(hours=chance.choice((2, 4, 4, 6, 48)))
        policy = self._policy()
        body: dict[str, Any] = {
            "customer_id": f"cu-{self._id}",
            "chef_id": self._chef,
            "event_start": self._time(start),
            "event_end": _iso(start + length),
            "price_minor": self._price,
            "currency": self._currency,
        }
        if policy:
            body["policy"] = policy
        path = f"/bookings/{self._id}"
        if chance.random() < 0.05:
            paid = {"captured_minor": self._price, "charge_ref": self._charge, "paid_at": _iso(self._made - HOUR)}
            holds = generator(self._settings.seed, self._id, "hold")
            held = {"hold_payout": True} if holds.random() < 0.5 else {}
            self._do(self._made, "is imported, paid elsewhere", "PUT", path, body | {"state": "paid"} | paid | held)
            if held:
                self._post(start + length + timedelta(days=holds.uniform(0, 6)), "is released", "release-payout")
            paid_at: datetime | None = self._made
        else:
            self._do(self._made, "is requested", "PUT", path, body)
            paid_at = self._agreed(start)
        self._own_jobs(start)
        start = self._moves(start, length)
        end = start + length
        if chance.random() < 0.2:
            self._cancels(paid_at or self._made, start, end)
        if paid_at is None:
            return
        if chance.random() < 0.14:
            self._disputes(paid_at, end, policy)
        if chance.random() < 0.05:
            self._outside(paid_at, end)

    def _policy(self) -> dict[str, Any]:
        chance = self._chance
        policy: dict[str, Any] = {}
        if chance.random() < 0.3:
            policy["appeals"] = 1
        if chance.random() < 0.3:
            policy["silence"] = "release"
        if chance.random() < 0.1:
            policy |= {"complete_after": 0, "dispute_within": chance.choice((0, 3_600))}
        if chance.random() < 0.1:
            policy["fee_bps"] = chance.choice((0, 333, 10_000))
        if chance.random() < 0.1:
            policy["cancellation"] = [{"before": 86_400, "refund_bps": 5_000}]
        return policy

    def _time(self, instant: datetime) -> Any:
        if self._chance.random() < 0.7:
            return _iso(instant)
        from zoneinfo import ZoneInfo

        zone = self._chance.choice(ZONES)
        local = instant.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        return {"local": local.isoformat(), "zone": zone, "choose": "earlier"}

    def _agreed(self, start: datetime) -> datetime | None:
        """The chef's answer and the customer's money; when it was paid."""
        chance = self._chance
        drawn = chance.random()
        if drawn < 0.06:
            return None
        at = self._made + timedelta(hours=min(24.0, chance.expovariate(1 / 5)))
        if drawn < 0.10:
            self._post(at, "is declined", "decline", {"actor": {"role": "chef", "id": self._chef}})
            return None
        if drawn < 0.13:
            at = self._made + DAY + chance.choice((-1, 0, 1)) * SECOND
        self._post(at, "is accepted", "accept")
        drawn = chance.random()
        if drawn < 0.06:
            return None
        paid = at + timedelta(hours=min(11.9, chance.expovariate(1 / 2)))
        if drawn < 0.12:
            paid = at + 12 * HOUR + chance.choice((-1, 0, 1, 7_200)) * SECOND
        self._pays(paid)
        if chance.random() < 0.05:
            self._pays(paid + timedelta(hours=chance.uniform(0, 30)))
        return paid

    def _pays(self, at: datetime) -> None:
        if self._by_event or self._chance.random() < 0.5:
            self._post(at, "is paid", "pay", {"captured_minor": self._price, "charge_ref": self._charge})
            return
        charge = {
            "id": self._charge,
            "object": "charge",
            "amount_captured": self._price,
            "captured": True,
            "created": int(at.timestamp()),
            "currency": self._currency.lower(),
            "metadata": {"booking_id": self._id},
        }
        self._event(at, "is paid by card", "charge.succeeded", charge)

    def _event(self, at: datetime, name: str, type_: str, about: Mapping[str, Any]) -> None:
        number = len(self._found) + 1
        event = {
            "id": f"evt_{self._id}_{number}",
            "object": "event",
            "type": type_,
            "created": int(at.timestamp()),
            "data": {"object": about},
        }
        self._do(at, name, "POST", WEBHOOK, event)

    def _own_jobs(self, start: datetime) -> None:
        chance = self._chance
        if chance.random() >= 0.35:
            return
        for number in range(chance.randint(1, 3)):
            job = f"own_{number}"
            path = f"/bookings/{self._id}/jobs/{job}"
            at = self._made + timedelta(hours=chance.uniform(0, 40))
            keep = chance.random() < 0.3
            for again in range(chance.choice((1, 1, 2))):
                body: dict[str, Any] = {"payload": {"n": again}, "keep_on_cancel": keep}
                if chance.random() < 0.6:
                    anchor = chance.choice(("event_start", "event_end"))
                    body |= {"anchor": anchor, "offset": chance.randrange(-14 * 86_400, 3 * 86_400)}
                else:
                    body["run_at"] = _iso(at + timedelta(hours=chance.uniform(0, 400)))
                self._do(at, f"asks for {job}", "PUT", path, body)
                at += timedelta(hours=chance.uniform(0, 60))
            if chance.random() < 0.15:
                self._do(at, f"removes {job}", "DELETE", path)

    def _moves(self, start: datetime, length: timedelta) -> datetime:
        """Where the event is in the end, if every move is accepted."""
        chance = self._chance
        if chance.random() >= 0.2:
            return start
        for _ in range(chance.randint(1, 3)):
            at = self._made + (start - self._made) * chance.uniform(0, 1.02)
            after = max(start + timedelta(hours=chance.choice((-48, -3, 3, 30, 24 * 60)) * chance.random()), at + HOUR)
            after = after.replace(microsecond=0)
            body = {"event_start": self._time(after), "event_end": _iso(after + length)}
            self._post(at, "is moved", "move", body)
            start = after
        return start

    def _cancels(self, since: datetime, start: datetime, end: datetime) -> None:
        chance = self._chance
        role = chance.choice(("customer", "customer", "chef", "operator", "system"))
        at = since + (max(start, since) - since) * chance.random()
        if role == "operator" and chance.random() < 0.5:
            at = end + timedelta(hours=chance.uniform(-2, 30))
        elif chance.random() < 0.15:
            at = start + chance.choice((-1, 0, 1)) * SECOND
        body: dict[str, Any] = {"actor": {"role": role}}
        if chance.random() < 0.15:
            body["refund_minor"] = chance.randint(0, max(1, self._price))
        self._post(at, f"is cancelled by the {role}", "cancel", body)
        if chance.random() < 0.1:
            self._post(at + HOUR, f"is cancelled by the {role} again", "cancel", body)

    def _disputes(self, paid_at: datetime, end: datetime, policy: Mapping[str, Any]) -> None:
        chance = self._chance
        within = timedelta(seconds=policy.get("complete_after", 10_800) + policy.get("dispute_within", 86_400))
        at = end + within * chance.uniform(-0.3, 1.0)
        if chance.random() < 0.15:
            at = paid_at + (end - paid_at) * chance.random()
        if chance.random() < 0.1:
            at = end + within - SECOND
        customer = {"role": "customer", "id": f"cu-{self._id}"}
        chef = {"role": "chef", "id": self._chef}
        claimed = self._price if chance.random() < 0.3 else chance.randint(1, max(1, self._price))
        opened = {"reason": "late", "text": "It was late.", "claimed_minor": claimed, "actor": customer}
        self._post(at, "is disputed", "disputes", opened)
        path = f"/disputes/{self._id}.d1"
        if chance.random() < 0.08:
            back = at + timedelta(hours=chance.uniform(0, 40))
            self._do(back, "takes the dispute back", "POST", f"{path}/withdraw", {"actor": customer})
        reply: dict[str, Any] = {"actor": chef}
        drawn = chance.random()
        if drawn < 0.25:
            reply["answer"] = "concede"
        elif drawn < 0.55:
            reply |= {"answer": "offer", "offer_minor": max(1, claimed // 2)}
        elif drawn < 0.85:
            reply |= {"answer": "contest", "text": "It was not."}
        if drawn < 0.85:
            at += timedelta(hours=chance.choice((chance.uniform(0, 24.5), chance.uniform(0, 3))))
            self._do(at, "the chef answers", "POST", f"{path}/reply", reply)
            if chance.random() < 0.05:
                self._do(at + HOUR, "the chef answers again", "POST", f"{path}/reply", reply)
        if reply.get("answer") == "offer" and chance.random() < 0.75:
            at += timedelta(hours=chance.uniform(0, 25))
            answer = chance.choice(("accept", "refuse"))
            body = {"answer": answer, "actor": customer}
            self._do(at, "the customer answers the offer", "POST", f"{path}/offer-answer", body)
        if chance.random() < 0.85:
            at += timedelta(hours=chance.uniform(0, 24 * 8))
            self._decides(at, path, claimed, "m-1")
        if policy.get("appeals") and chance.random() < 0.7:
            at += timedelta(hours=chance.uniform(0, 50))
            who = chance.choice((customer, chef))
            self._do(at, "is appealed", "POST", f"{path}/appeal", {"text": "No.", "actor": who})
            at += timedelta(hours=chance.uniform(0, 24 * 5))
            self._decides(at, path, claimed, chance.choice(("m-2", "m-2", "m-1")))

    def _decides(self, at: datetime, path: str, claimed: int, mediator: str) -> None:
        refund = self._chance.choice((0, claimed, self._chance.randint(0, claimed)))
        body = {"refund_minor": refund, "reason": "as seen", "actor": {"role": "mediator", "id": mediator}}
        self._do(at, f"mediator {mediator} decides", "POST", f"{path}/decision", body)

    def _outside(self, paid_at: datetime, end: datetime) -> None:
        """What the customer's bank and people at the provider do."""
        chance = self._chance
        at = paid_at + (end + 10 * DAY - paid_at) * chance.random()
        amount = self._price if chance.random() < 0.6 else chance.randint(1, max(1, self._price))
        about = {"amount": amount, "currency": self._currency.lower(), "charge": self._charge}
        if self._by_event:
            return
        if chance.random() < 0.7:
            chargeback = about | {"id": f"dp_{self._id}", "object": "dispute", "reason": "fraudulent"}
            self._event(at, "is charged back", "charge.dispute.created", chargeback | {"status": "needs_response"})
            if chance.random() < 0.85:
                closed = at + timedelta(days=chance.uniform(1, 40))
                status = chance.choice(("won", "lost"))
                self._event(
                    closed, f"the chargeback is {status}", "charge.dispute.closed", chargeback | {"status": status}
                )
            return
        refund = about | {"id": f"re_{self._id}", "object": "refund", "metadata": {}}
        self._event(at, "is refunded by hand", "refund.created", refund | {"status": "succeeded"})
        if chance.random() < 0.3:
            failed = refund | {"status": "failed"}
            self._event(at + 2 * DAY, "the refund by hand fails", "refund.failed", failed)


def _iso(instant: datetime) -> str:
    return instant.replace(microsecond=0).isoformat()
