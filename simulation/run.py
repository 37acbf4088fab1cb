"""One simulation, from its settings to its result: people, functions and faults on one clock."""

import gc
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import Any, Protocol

from duebook.domain.names import execution_name, parent
from duebook.domain.payment import Kind
from duebook.service import rows
from simulation import marketplace
from simulation.cloud import DAY, HOUR, MINUTE, SECOND, Cloud
from simulation.deploys import Code, deploys, policy_of
from simulation.faults import Faults
from simulation.invariants import Broken, Invariants, Life, started_for
from simulation.marketplace import WEBHOOK, Action
from simulation.settings import BOUND, START, Result, Sample, Settings, Told, Violation

PATIENCE = (10 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 8 * HOUR)
"""After how long a caller repeats a request that failed; Stripe repeats an event for three days."""
OPERATORS_EVERY = 8 * HOUR
QUIET = timedelta(hours=36)
"""How long a booking that is over is kept and watched."""
SAMPLES = 800


class Business(Protocol):
    """Where the bookings come from."""

    start: datetime
    end: datetime
    insists: bool
    """Whether a booking's acts wait for each other, and a refused one is repeated: each follows from the one before."""

    def bookings(self) -> Iterator[tuple[datetime, str]]:
        """When each booking's first action is, in order."""

    def actions(self, booking_id: str, at: datetime) -> list[Action]:
        """All that people do about one booking."""

    def others(self) -> list[Action]:
        """What people do about chefs, and about all payouts."""

    def deploys(self) -> list[tuple[datetime, str]]: ...

    def judge(self, booking_id: str, booking: Mapping[str, Any]) -> str | None:
        """What is wrong with how a booking ended; None when it is right, or when nobody knows better."""


class Market:
    """The random marketplace."""

    insists = False

    def __init__(self, settings: Settings, *, by_event: bool) -> None:
        self._settings = settings
        self._by_event = by_event
        self.start = START
        self.end = START + timedelta(days=settings.days)

    def bookings(self) -> Iterator[tuple[datetime, str]]:
        return marketplace.bookings(self._settings)

    def actions(self, booking_id: str, at: datetime) -> list[Action]:
        return marketplace.plan(self._settings, booking_id, at, by_event=self._by_event)

    def others(self) -> list[Action]:
        return marketplace.of_chefs(self._settings)

    def deploys(self) -> list[tuple[datetime, str]]:
        return deploys(self._settings)

    def judge(self, booking_id: str, booking: Mapping[str, Any]) -> str | None:
        return None


def simulate(settings: Settings, progress: Callable[[datetime, int], None] | None = None) -> Result:
    """Run it to its end, or to the first violation. The same settings give the same digest, always.

    `progress(now, bookings so far)` is called now and then.
    """
    by_event = (settings.payments or ("external" if settings.seed % 3 == 0 else "provider")) == "external"
    if settings.trace is not None:
        from simulation.trace import Real

        business: Business = Real(settings)
    else:
        business = Market(settings, by_event=by_event)
    return _Run(settings, business, by_event=by_event, progress=progress).result()


class _Run:
    def __init__(
        self,
        settings: Settings,
        business: Business,
        *,
        by_event: bool,
        progress: Callable[[datetime, int], None] | None,
    ) -> None:
        self._settings = settings
        self._business = business
        self._by_event = by_event
        self._progress = progress
        self._faults = Faults(settings)
        self._cloud = cloud = Cloud(
            settings, self._faults, by_event=by_event, start=business.start, days=(business.end - business.start) / DAY
        )
        self._invariants = invariants = Invariants(cloud)
        self._code = Code()
        self._feed = business.bookings()
        self._open = True
        self._told: dict[str, list[Told]] = {}
        self._answered: dict[str, tuple[str, str]] = {}
        self._result = Result(settings=settings, began=business.start)
        cloud.changed = self._changed
        cloud.stepped = invariants.stepped
        cloud.paying = invariants.paying
        cloud.delivered = self._delivered
        if settings.tell:
            cloud.tell = self._tell

    def result(self) -> Result:
        result, cloud = self._result, self._cloud
        began = time.process_time()
        thresholds = gc.get_threshold()
        gc.collect()
        gc.freeze()
        gc.set_threshold(200_000, 20, 50)
        with ExitStack() as stack:
            stack.callback(gc.set_threshold, *thresholds)
            stack.callback(gc.unfreeze)
            stack.enter_context(cloud.wired())
            stack.callback(self._code.as_before)
            try:
                self._all()
            except Broken as broken:
                result.violation = Violation(
                    invariant=broken.invariant,
                    booking_id=broken.booking_id,
                    at=cloud.now,
                    found=broken.found,
                    history=tuple(self._told.get(broken.booking_id, ())),
                )
        result.seconds = time.process_time() - began
        result.peak_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        result.ended = cloud.now
        result.digest = cloud.digest
        result.checks = self._invariants.checks
        result.faults = self._faults.count
        result.faults["dead_letter_expired"] = sum(queue.expired for queue in cloud.queues.dead.values())
        result.occurrences = self._faults.occurrences
        result.lateness = sorted(self._invariants.lateness)
        result.states = self._invariants.states
        result.types = self._invariants.types
        result.wake_ups = cloud.wake_ups
        result.calls = self._calls()
        return result

    def _all(self) -> None:
        cloud, business = self._cloud, self._business
        for action in business.others():
            if action.at < business.end:
                cloud.at(action.at, self._act, action, 0)
        for at, kind in business.deploys():
            cloud.at(at, self._deploy, kind)
        self._next_booking()
        cloud.at(business.start + OPERATORS_EVERY, self._operators)
        self._sample_every = max(HOUR, (business.end - business.start) / SAMPLES)
        cloud.at(business.start, self._sample)
        cloud.run(business.end)
        self._open = False
        self._faults.stop()
        for life in self._invariants.lives.values():
            life.left = 0
        cloud.reconcile_every = DAY
        cloud.at(cloud.now + BOUND - 2 * HOUR, cloud.reconcile, {})
        cloud.run(business.end + BOUND)
        self._end()

    def _end(self) -> None:
        """Faults have stopped, and the bound is over: everything is right again."""
        invariants, now = self._invariants, self._cloud.now
        for life in list(invariants.lives.values()):
            invariants.checks["right_in_the_end"] += 1
            wrong = invariants.unfinished(life, now)
            if wrong:
                raise Broken("right_in_the_end", life.booking_id, wrong)
            self._judge(life)
        for booking_id, what in invariants.orphans():
            raise Broken("no_orphans", booking_id, what)

    # --- bookings ----------------------------------------------------------------------------------------------

    def _next_booking(self) -> None:
        following = next(self._feed, None)
        if following is not None:
            self._cloud.at(following[0], self._begin, following[1])

    def _begin(self, booking_id: str) -> None:
        cloud = self._cloud
        if self._open:
            actions = self._business.actions(booking_id, cloud.now)
            self._invariants.lives[booking_id] = Life(booking_id, left=len(actions))
            self._result.bookings += 1
            for action in actions:
                cloud.at(action.at, self._act, action, 0)
            if self._progress and self._result.bookings % 200 == 0:
                self._progress(cloud.now, self._result.bookings)
        self._next_booking()

    def _act(self, action: Action, tries: int) -> None:
        """A request, repeated as callers do until it has an answer."""
        cloud, about = self._cloud, action.booking_id
        if not self._open:
            return
        life = self._invariants.lives.get(about)
        waits = life is not None and life.repeated not in (None, action.number)
        if cloud.api_runs or waits:
            cloud.at(cloud.now + (MINUTE if waits else SECOND), self._act, action, tries)
            return
        status, answer = cloud.request(about, action.method, action.path, action.body, action.key)
        code = (answer or {}).get("error", {}).get("code") if isinstance(answer, dict) else None
        self._result.actions[action.name.rstrip("0123456789_-")] += tries == 0
        self._result.answers[f"{status} {code or ''}".rstrip()] += 1
        self._tell(about, f"{action.name}: {status} {code or ''}".rstrip())
        if status == 500:
            raise Broken("handlers_answer", about, f"{action.method} {action.path} was answered {answer}")
        unseen = status < 500 and cloud.faults.strikes("request_unanswered", about)
        again = status in (429, 503) or unseen or code == "version_conflict"
        again = again or (status != 200 and action.path == WEBHOOK)
        again = again or (status in (404, 409) and self._business.insists)
        if life is not None:
            life.repeated = action.number if again and tries < len(PATIENCE) and self._business.insists else None
        if again and tries < len(PATIENCE):
            cloud.at(cloud.now + PATIENCE[tries], self._act, action, tries + 1)
            return
        if tries == 0 and cloud.faults.strikes("request_repeated", about):
            cloud.at(cloud.now + HOUR * cloud.faults.how("request_repeated", about), self._act, action, len(PATIENCE))
            return
        if life is not None and life.left:
            life.left -= 1
            self._look_for_end(life)

    # --- what is seen ------------------------------------------------------------------------------------------

    def _changed(self, change: Any) -> None:
        self._invariants.changed(change)
        if self._cloud.tell and change.sk.startswith(rows.HISTORY_PREFIX) and change.old is None:
            new = change.new
            self._tell(change.pk, f"{new['version']} {new['type']}: {new['reason']} ({new['cause']['source']})")
        if change.sk == rows.BOOKING_SK:
            life = self._invariants.lives.get(change.pk)
            if life is not None and not change.new.get("planned"):
                self._look_for_end(life)
        if change.sk.startswith(rows.DISPUTE_PREFIX) and change.old is None and change.new is not None:
            self._may_be_killed(change.pk, change.new["dispute_id"])

    def _may_be_killed(self, booking_id: str, dispute_id: str) -> None:
        cloud = self._cloud
        if cloud.faults.strikes("execution_killed", booking_id):
            cloud.at(cloud.now + DAY * 3 * cloud.faults.how("execution_killed", booking_id), self._kill, dispute_id)

    def _kill(self, dispute_id: str) -> None:
        for execution in self._cloud.machine.running():
            if started_for(execution)[0] == dispute_id and self._open:
                self._tell(parent(dispute_id), f"execution {execution.name} is stopped")
                self._cloud.machine.kill(execution.name)

    def _delivered(self, event: Mapping[str, Any]) -> None:
        self._invariants.delivered(event)
        if self._by_event and event["type"] == "payment.requested":
            about = event["booking_id"]
            wait = MINUTE * (1 + 300 * self._faults.how("answers", about) ** 4)
            self._cloud.at(self._cloud.now + wait, self._pays, event["data"], 0)

    def _pays(self, asked: Mapping[str, Any], tries: int) -> None:
        """The marketplace moves the money itself, once for each reference, and answers."""
        cloud, faults = self._cloud, self._faults
        if cloud.api_runs:
            cloud.at(cloud.now + SECOND, self._pays, asked, tries)
            return
        payment_id, key = asked["payment_id"], asked["key"]
        about = parent(payment_id)
        if key not in self._answered:
            moved = [made for made in cloud.provider.moved.get(about, ()) if made.payment_id == payment_id]
            if moved:
                self._answered[key] = ("done", moved[0].ref)
            elif faults.strikes("provider_refuses", about):
                self._answered[key] = ("failed", "the account is closed")
            else:
                kind = Kind(asked["kind"])
                row = cloud.table.look(about, f"{rows.PAYMENT_PREFIX}{payment_id}")
                assert row is not None
                self._invariants.paying(rows.read_payment(row))
                made = cloud.provider.moves(payment_id, kind, asked["amount_minor"], asked["currency"])
                self._answered[key] = ("done", made.ref)
            self._tell(about, f"the marketplace pays {payment_id}: {self._answered[key][0]}")
        if faults.strikes("answer_lost", about):
            return
        status, said = self._answered[key]
        body = {"status": status, "provider_ref" if status == "done" else "reason": said, "key": key}
        code, answer = cloud.request(about, "POST", f"/payments/{payment_id}/result", body)
        if code == 500:
            raise Broken("handlers_answer", about, f"the result of {payment_id} was answered {answer}")
        if code in (429, 503) and tries < len(PATIENCE):
            cloud.at(cloud.now + PATIENCE[tries], self._pays, asked, tries + 1)

    def _tell(self, about: str, what: str) -> None:
        if about in self._settings.tell:
            self._told.setdefault(about, []).append(Told(self._cloud.now, what))

    # --- operators ---------------------------------------------------------------------------------------------

    def _operators(self) -> None:
        """A few times a day: people look at what needs them, and act on most of it."""
        cloud = self._cloud
        if not self._open:
            return
        cloud.at(cloud.now + OPERATORS_EVERY, self._operators)
        if cloud.api_runs:
            return
        for kind in ("dead", "needs_attention"):
            status, answer = cloud.request("operators", "GET", f"/dead-letters?kind={kind}&limit=500", None)
            for item in answer["dead_letters"] if status == 200 else ():
                booking_id = item["booking_id"]
                if booking_id in self._invariants.lives and self._faults.how("operator", booking_id) < 0.6:
                    self._operate(booking_id, item)

    def _operate(self, booking_id: str, item: Mapping[str, Any]) -> None:
        actor: dict[str, Any] = {"actor": {"role": "operator", "id": "op-1"}}
        if item["payment_id"]:
            path, body = f"/payments/{item['payment_id']}/retry", actor
        elif item["dispute_id"]:
            if self._faults.how("decides", booking_id) < 0.5:
                path = f"/disputes/{item['dispute_id']}/decision"
                body = {"refund_minor": 0, "reason": "late", "actor": {"role": "mediator", "id": "m-9"}}
            else:
                path, body = f"/bookings/{booking_id}/jobs/watch_dispute/redrive", actor
        elif item["job"]:
            path, body = f"/bookings/{booking_id}/jobs/{item['job']}/redrive", actor
        else:
            return
        status, answer = self._cloud.request(booking_id, "POST", path, body)
        self._result.actions[f"operator: {path.rpartition('/')[2]}"] += 1
        self._tell(booking_id, f"an operator posts {path}: {status}")
        if status == 500:
            raise Broken("handlers_answer", booking_id, f"{path} was answered {answer}")

    def _deploy(self, kind: str) -> None:
        self._result.actions[f"deploy: {kind}"] += 1
        self._cloud.deployed_at = self._cloud.now
        if kind == "policy":
            self._cloud.policy = policy_of(self._settings.seed)
        else:
            self._code.deploy(kind)
        if not self._cloud.api_runs:
            self._cloud.request("operators", "POST", "/reconcile", None)

    # --- the end of a booking ------------------------------------------------------------------------------------

    def _look_for_end(self, life: Life) -> None:
        if not life.looked and not life.left:
            life.looked = True
            self._cloud.at(self._cloud.now + QUIET, self._may_forget, life)

    def _may_forget(self, life: Life) -> None:
        """A booking that is over, and everything about it in order, is forgotten: memory grows with open ones."""
        cloud, invariants, now = self._cloud, self._invariants, self._cloud.now
        touched = life.touched_at or now
        if invariants.is_over(life):
            closed = cloud.reconciled_at is not None and touched.date() < cloud.reconciled_at.date()
            settled = now - touched >= QUIET and (closed or self._settings.reconcile_days is not None)
            invariants.checks["right_when_over"] += 1
            if settled and not self._orphans(life) and invariants.unfinished(life, now) is None:
                self._judge(life)
                self._forget(life)
                return
            cloud.at(now + DAY, self._may_forget, life)
        else:
            life.looked = False

    def _orphans(self, life: Life) -> bool:
        """Whether a schedule or an execution of it is left."""
        cloud = self._cloud
        row = cloud.table.look(life.booking_id, rows.BOOKING_SK)
        dispute = ((row or {}).get("engagement") or {}).get("dispute") or {"run": 0}
        runs = range(1, dispute["run"] + 1)
        found = (cloud.machine.find(execution_name(dispute["dispute_id"], run)) for run in runs)
        return cloud.schedules.of[life.booking_id] > 0 or any(known and known.status == "RUNNING" for known in found)

    def _judge(self, life: Life) -> None:
        booking = self._cloud.table.look(life.booking_id, rows.BOOKING_SK)
        if booking is None:
            self._invariants.states["never made"] += 1
            return
        wrong = self._business.judge(life.booking_id, booking)
        if wrong:
            raise Broken("ends_as_it_must", life.booking_id, wrong)
        self._invariants.states[life.state or "own jobs only"] += 1

    def _forget(self, life: Life) -> None:
        booking_id, table = life.booking_id, self._cloud.table
        booking = table.look(booking_id, rows.BOOKING_SK)
        charge = (booking or {}).get("engagement", {}).get("charge_ref")
        self._cloud.forget(booking_id)
        if charge:
            table.forget(f"charge#{charge}")
        for number in range(1, 30):
            table.forget(f"webhook#evt_{booking_id}_{number}")
        self._cloud.provider.forget(booking_id)
        self._faults.forget(booking_id)
        del self._invariants.lives[booking_id]
        self._invariants.promises.forget(booking_id)

    # --- the report --------------------------------------------------------------------------------------------

    def _sample(self) -> None:
        cloud, result, invariants = self._cloud, self._result, self._invariants
        if not self._open:
            return
        pending, schedules = cloud.table.count("due"), len(cloud.schedules.requests)
        result.samples.append(Sample(cloud.now, len(invariants.lives), pending, schedules, invariants.worst))
        invariants.worst = 0
        result.peak_pending = max(result.peak_pending, pending)
        result.peak_schedules = max(result.peak_schedules, schedules)
        result.peak_open = max(result.peak_open, len(invariants.lives))
        cloud.at(cloud.now + self._sample_every, self._sample)

    def _calls(self) -> Counter[str]:
        cloud = self._cloud
        calls = Counter(cloud.calls)
        for twin in (cloud.table, cloud.schedules, cloud.queues, cloud.bus, cloud.workflow):
            for kind, number in twin.calls.items():
                calls[f"{twin.name}.{kind}"] += number
        calls["provider"] = cloud.provider.calls
        return calls
