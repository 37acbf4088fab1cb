"""All of Duebook's Lambda functions on the in-memory twins and a clock that is moved by hand.

The handlers are the real ones. What lies between them is what AWS does: the stream, the schedules, the queues with
their visibility and dead letters, the bus. Nothing sleeps; time stops at every instant at which something is due.
"""

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from duebook import wiring
from duebook.adapters.memory import MemoryBus, MemoryQueue, MemoryQueues, MemorySchedules, MemoryTable, MemoryWorkflow
from duebook.adapters.payments import ExternalPayments, LedgerPayments
from duebook.domain.booking import Booking
from duebook.domain.policy import Policy
from duebook.handlers import (
    lifecycle_worker,
    payments_worker,
    projector,
    publisher,
    reconciler,
    recorder,
    sweeper,
)
from duebook.service import queries, rows
from duebook.service.bookings import Bookings, Key
from duebook.service.commands import Commands
from duebook.service.dispute import Disputes
from duebook.service.ports import Item, PaymentProvider, WakeUp
from tests.unit.builders import AUGUST, END, MINUTE, START

Handler = Callable[[dict[str, Any], Any], dict[str, Any]]
BATCH = 10
SEES = {"projector": rows.JOB_PREFIX, "publisher": rows.HISTORY_PREFIX}
"""What the stream's event source lets through: the sort key's prefix (stacks/components/sources.py)."""

WEDDING: dict[str, Any] = {
    "customer_id": "c-1",
    "chef_id": "ch-1",
    "event_start": "2026-11-14T18:00:00+01:00",
    "event_end": "2026-11-14T22:00:00+01:00",
    "price_minor": 100_000,
    "currency": "EUR",
}
PAID = {"captured_minor": 100_000, "charge_ref": "ch_1"}
assert START.isoformat() == "2026-11-14T17:00:00+00:00"
assert END.isoformat() == "2026-11-14T21:00:00+00:00"


class Context:
    """What the handlers ask of Lambda's context."""

    aws_request_id = "run-1"
    invoked_function_arn = "arn:aws:lambda:eu-west-1:000000000000:function:reconciler:live"
    function_name = "test"
    memory_limit_in_mb = 512

    def __init__(self, left_ms: int = 300_000) -> None:
        self.left_ms = left_ms

    def get_remaining_time_in_millis(self) -> int:
        return self.left_ms


class LambdaClient:
    """The one call that is made without a port of its own: invoke a function asynchronously."""

    def __init__(self) -> None:
        self.invoked: list[dict[str, Any]] = []

    def invoke(self, **request: Any) -> dict[str, Any]:
        self.invoked.append(request)
        return {"StatusCode": 202, "ResponseMetadata": {"RequestId": "req-1"}}


class World:
    """`now` is moved by `travel_to`; `table`, `schedules`, `queues`, `bus` are the twins and may be looked into."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, now: datetime = AUGUST) -> None:
        self.now = now
        self.table = MemoryTable(self.clock)
        self.schedules = MemorySchedules(self.clock)
        self.queues = MemoryQueues(self.clock)
        self.bus = MemoryBus()
        self.workflow = MemoryWorkflow()
        self.functions = LambdaClient()
        self.bookings = Bookings(self.table, self.clock)
        self.disputes = Disputes(self.bookings, self.workflow, sleep=lambda _: None)
        self.provider: PaymentProvider = LedgerPayments(self.table)
        self.policy = Policy()
        self.commands = Commands(self.bookings, self.policy)
        self._read = {"projector": 0, "publisher": 0}
        for name, found in {
            "utc_now": self.clock,
            "bookings": lambda: self.bookings,
            "schedules": lambda: self.schedules,
            "queues": lambda: self.queues,
            "bus": lambda: self.bus,
            "provider": lambda: self.provider,
            "manner": lambda: self.provider,
            "disputes": lambda: self.disputes,
            "default_policy": lambda: self.policy,
            "client": lambda service: {"lambda": self.functions}[service],
        }.items():
            monkeypatch.setattr(wiring, name, found)

    def clock(self) -> datetime:
        return self.now

    # --- what the marketplace does ---------------------------------------------------------------------------------

    def book(self, booking_id: str = "b1", **changes: Any) -> Booking:
        return self.commands.put_booking(booking_id, WEDDING | changes)[0]

    def paid(self, booking_id: str = "b1", **changes: Any) -> Booking:
        """Booked, accepted and paid at once, everything delivered."""
        self.book(booking_id, **changes)
        self.commands.accept(booking_id, {}, None)
        booking, _ = self.commands.pay(booking_id, PAID, None)
        self.deliver()
        return booking

    def put_job(self, job: str, booking_id: str = "b1", **body: Any) -> Item:
        if isinstance(body.get("run_at"), datetime):
            body["run_at"] = body["run_at"].isoformat()
        return self.commands.put_job(booking_id, job, body)[0]

    def cancel(self, booking_id: str = "b1", role: str = "customer", key: Key | None = None, **more: Any) -> Booking:
        return self.commands.cancel(booking_id, {"actor": {"role": role}, **more}, key)[0]

    def use_external_payments(self) -> None:
        self.provider = ExternalPayments()

    # --- what AWS does ---------------------------------------------------------------------------------------------

    def deliver(self) -> None:
        """Let everything that waits now reach its function, until nothing moves any more."""
        for _ in range(1_000):
            self.fire()
            moved = self.stream("projector", projector.handler) + self.stream("publisher", publisher.handler)
            moved += self.drain(self.queues.projection, projector.handler)
            moved += self.drain(self.queues.lanes["lifecycle"], lifecycle_worker.handler)
            moved += self.drain(self.queues.lanes["payments"], payments_worker.handler)
            for queue in self.queues.dead.values():
                moved += self.drain(queue, recorder.handler)
            if not moved:
                return
        raise AssertionError("it never comes to rest")

    def fire(self) -> None:
        for request in self.schedules.due():
            self.queues.fire(request)

    def stream(self, name: str, handler: Handler) -> int:
        """Hand the stream on; from a record that failed on, it comes again with the next call (as Lambda does)."""
        at = self._read[name]
        moved = 0
        while at < len(self.table.stream):
            changes = self.table.stream.changes(at, at + BATCH)
            records = [change.record() for change in changes if change.sk.startswith(SEES[name])]
            failures = handler({"Records": records}, Context())["batchItemFailures"] if records else []
            failed = {int(failure["itemIdentifier"]) for failure in failures}
            numbers = [change.number for change in changes]
            done = min((numbers.index(number) for number in failed), default=len(changes))
            at, moved = at + done, moved + done
            if failed:
                break
        self._read[name] = at
        return moved

    def skip_stream(self, name: str) -> None:
        """The function gave up on what waits: these records never come again."""
        self._read[name] = len(self.table.stream)

    def drain(self, queue: MemoryQueue, handler: Handler) -> int:
        before = len(queue.messages)
        records = queue.receive()
        if records:
            queue.finish(records, handler({"Records": records}, Context()))
        return len(records) + before - len(queue.messages)

    def travel_to(self, instant: datetime) -> None:
        """Stop at every instant on the way at which a schedule fires or a message becomes visible."""
        while True:
            self.deliver()
            upcoming = [request.at for request in self.schedules.requests.values()]
            for queue in (*self.queues.lanes.values(), *self.queues.dead.values(), self.queues.projection):
                upcoming += [message.visible_at for message in queue.messages]
            following = min((at for at in upcoming if at > self.now), default=instant)
            if following >= instant:
                break
            self.now = following
        self.now = max(self.now, instant)
        self.deliver()

    def sweep(self, left_ms: int = 300_000) -> dict[str, Any]:
        found: dict[str, Any] = sweeper.handler({}, Context(left_ms))
        self.deliver()
        return found

    def travel_sweeping(self, until: datetime, every: timedelta = 5 * MINUTE) -> None:
        """With the sweeper's rule switched on."""
        while self.now < until:
            self.travel_to(min(until, self.now + every))
            self.sweep()

    def reconcile(self) -> dict[str, Any]:
        """One run of the reconciler to its end, following its invocations of itself."""
        answer: dict[str, Any] = reconciler.handler({}, Context())
        while self.functions.invoked:
            answer = reconciler.handler(json.loads(self.functions.invoked.pop()["Payload"]), Context())
        self.deliver()
        return answer

    def wake(self, job: str, booking_id: str = "b1", generation: int = 1) -> None:
        """A wake-up as the schedule would send it, from nowhere."""
        lane = "payments" if job.startswith("pay_") else "lifecycle"
        self.queues.wake(lane, WakeUp(booking_id=booking_id, job=job, generation=generation), source="queue")

    # --- what can be seen ------------------------------------------------------------------------------------------

    def state(self, booking_id: str = "b1") -> str | None:
        booking = self.bookings.load(booking_id)
        return booking.state if booking else None

    def jobs(self, booking_id: str = "b1") -> dict[str, Item]:
        return {row["job"]: row for row in queries.jobs(self.table, booking_id)}

    def planned(self) -> dict[str, datetime]:
        """Schedule → instant."""
        return {name: request.at for name, request in sorted(self.schedules.requests.items())}

    def events(self, booking_id: str = "b1") -> list[dict[str, Any]]:
        """Each event once, in the order of its version."""
        found = {event["detail"]["id"]: event["detail"] for event in self.bus.events}
        return sorted(
            (event for event in found.values() if event["booking_id"] == booking_id), key=lambda event: event["version"]
        )

    def types(self, booking_id: str = "b1") -> list[str]:
        return [event["type"] for event in self.events(booking_id)]

    def history(self, booking_id: str = "b1") -> list[Item]:
        return queries.history(self.table, booking_id, limit=500).items

    def transfers(self, payment_id: str) -> list[Item]:
        """What the ledger moved for a payment, one row for each idempotency key."""
        return list(self.table.query(f"transfers#{payment_id}", "").items)

    def attention(self, kind: str = rows.DEAD) -> list[Item]:
        return queries.attention(self.table, kind).items

    def payments(self, booking_id: str = "b1") -> list[Item]:
        return queries.payments(self.table, booking_id)

    def snapshot(self, booking_id: str = "b1") -> Mapping[str, Any]:
        """Everything stored about a booking but for bookkeeping of when something was last looked at."""
        page = self.table.query(booking_id, "", limit=1_000)
        return {row["sk"]: {k: v for k, v in row.items() if k not in ("published_at",)} for row in page.items}


def lateness(world: World, booking_id: str = "b1") -> timedelta:
    """The most that any timed step came after its planned instant."""
    late = [
        datetime.fromisoformat(event["at"]) - datetime.fromisoformat(event["due"])
        for event in world.events(booking_id)
        if "due" in event
    ]
    return max(late, default=timedelta())
