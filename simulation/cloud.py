"""What AWS does between the handlers, on a virtual clock: stream, schedules, queues, rules, invocations, the bus.

Everything that is delivered goes through here, and so does everything that goes wrong on the way. A function's
invocation takes no time unless it is paused; while it is, everything else goes on (so two workers meet on one booking).
"""

import heapq
import json
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from datetime import datetime, timedelta
from hashlib import blake2b
from itertools import count
from typing import Any

from duebook import wiring
from duebook.adapters.memory import Change, MemoryBus, MemoryQueue, MemoryQueues, MemorySchedules, MemoryTable
from duebook.adapters.table import INDEXES, size
from duebook.domain.booking import Booking
from duebook.domain.errors import AwsFailure
from duebook.domain.payment import Payment
from duebook.domain.policy import Policy
from duebook.domain.times import parse
from duebook.handlers import (
    api,
    dispute,
    lifecycle_worker,
    payments_worker,
    projector,
    publisher,
    reconciler,
    recorder,
    stripe_webhook,
    support,
    sweeper,
)
from duebook.service import rows
from duebook.service.bookings import Bookings
from duebook.service.dispute import Disputes
from duebook.service.ports import ScheduleRequest
from duebook.service.sweep import GRACE
from simulation.chance import generator
from simulation.deploys import wired
from simulation.faults import LONGEST, MOST_SKEW, Crash, Faults, Outage, error_of
from simulation.invariants import Broken
from simulation.provider import Provider
from simulation.settings import START, Settings
from simulation.states import DEFINITION, LambdaError, Machine, NoAnswer, SimulatedWorkflow, load

Handler = Callable[[dict[str, Any], Any], Any]
SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
STREAM_BATCH = 25
STREAM_AGE = timedelta(hours=6)
"""Then Lambda gives a record up (stacks/components/sources.py)."""
STREAM_LATENCY = timedelta(milliseconds=300)
LONGEST_RETRY = timedelta(minutes=1)
SWEEP_EVERY = timedelta(minutes=5)
SWEEP_ANYWAY = timedelta(days=1)
WEIGHED = 16
"""One write in so many is weighed for the bill."""
NEAR = timedelta(minutes=2)
"""How near its instant a changed schedule may still fire as it was."""
TIMEOUTS = {"api": 29, "webhook": 20, "payments": 60, "sweeper": 60, "reconciler": 300}
LONGEST_PAUSE = 29.0
DOWN = {
    "projector": "projector_down",
    "publisher": "publisher_down",
    "sweeper": "sweeper_down",
    "lifecycle": "worker_down",
    "payments": "payments_down",
    "recorder": "recorder_down",
    "dispute": "steps_down",
}


class Context:
    """What the handlers ask of Lambda's context."""

    invoked_function_arn = "arn:aws:lambda:eu-west-1:000000000000:function:reconciler:live"
    function_name = "simulated"
    memory_limit_in_mb = 512

    def __init__(self, number: int) -> None:
        self.aws_request_id = f"run-{number}"

    def get_remaining_time_in_millis(self) -> int:
        return 300_000


class LambdaClient:
    """The one call that has no port of its own: invoke a function asynchronously."""

    def __init__(self, invoked: Callable[[dict[str, Any]], None]) -> None:
        self._invoked = invoked

    def invoke(self, **request: Any) -> dict[str, Any]:
        self._invoked(json.loads(request.get("Payload") or b"{}"))
        return {"StatusCode": 202, "ResponseMetadata": {"RequestId": "req-1"}}


class Told:
    """The webhook's events without their signature, whose check has tests of its own."""

    def read(self, body: str, signature: str | None) -> Mapping[str, Any]:
        event: Mapping[str, Any] = json.loads(body)
        return event


class Schedules(MemorySchedules):
    """Scheduler, with its imprecision: a schedule fires within its minute, and near its instant as it was."""

    def __init__(self, cloud: "Cloud") -> None:
        super().__init__(cloud.clock, hook=cloud.hook, strict=False)
        self._cloud = cloud
        self.of: Counter[str] = Counter()
        """How many schedules each booking has."""

    def _drop(self, name: str) -> None:
        booking_id = self.requests[name].wake_up.booking_id
        super()._drop(name)
        self.of[booking_id] -= 1
        if not self.of[booking_id]:
            del self.of[booking_id]

    def replace(self, request: ScheduleRequest) -> bool:
        old = self.requests.get(request.name)
        found = super().replace(request)
        if found and old is not None and old != request:
            self._as_it_was(old)
        return found

    def delete(self, name: str) -> bool:
        old = self.requests.get(name)
        found = super().delete(name)
        if found and old is not None:
            self._as_it_was(old)
        return found

    def _put(self, request: ScheduleRequest) -> None:
        self.of[request.wake_up.booking_id] += request.name not in self.requests
        super()._put(request)
        cloud, about = self._cloud, request.wake_up.booking_id
        if cloud.faults.strikes("wake_up_early", about):
            early = SECOND * (1 + 58 * cloud.faults.how("wake_up_early", about))
            cloud.at(request.at - early, self._ends, request, cloud.arrive)
        if cloud.faults.strikes("schedule_lost", about):
            left = max(SECOND, request.at - cloud.now)
            cloud.at(cloud.now + left * cloud.faults.how("schedule_lost", about), self._ends, request, cloud.lost)

    def _ends(self, request: ScheduleRequest, how: Callable[[ScheduleRequest, str], None]) -> None:
        """It goes before its instant, unless it was changed meanwhile."""
        if self.requests.get(request.name) is request and self._cloud.faults.on:
            self._drop(request.name)
            how(request, "early")

    def _as_it_was(self, old: ScheduleRequest) -> None:
        cloud = self._cloud
        if abs(old.at - cloud.now) <= NEAR and cloud.faults.strikes("old_configuration", old.wake_up.booking_id):
            cloud.at(cloud.now + SECOND, cloud.arrive, old, "an old configuration")


class Follower:
    """One function's view of the stream: in order, in batches, tried again from the first failure on."""

    def __init__(self, name: str, handler: Handler, prefix: str) -> None:
        self.name = name
        self.handler = handler
        self.prefix = prefix
        self.waiting: deque[Change] = deque()
        self.ready_at: datetime | None = None
        self.tries = 0
        self.busy = False

    def next_at(self) -> datetime | None:
        if self.busy or not self.waiting:
            return None
        due = self.waiting[0].at + STREAM_LATENCY
        return due if self.ready_at is None else max(due, self.ready_at)


class Cloud:
    """`now` is the true time. `changed(change)` is called for every written row, `stepped()` after every invocation."""

    def __init__(
        self, settings: Settings, faults: Faults, *, by_event: bool, start: datetime = START, days: float | None = None
    ) -> None:
        self.settings = settings
        self.faults = faults
        self.now = self.start = start
        self._days = settings.days if days is None else days
        self.calls: Counter[str] = Counter()
        self.wake_ups: Counter[str] = Counter()
        self.policy = Policy()
        self.table = MemoryTable(self.clock, index_lag=self._lag, hook=self.hook, lends=not settings.copies)
        self.schedules = Schedules(self)
        self.queues = MemoryQueues(self.clock, hook=self.hook)
        self.bus = MemoryBus(self.clock, hook=self.hook)
        self.machine = Machine(
            load(DEFINITION.read_text()),
            now=self.clock,
            at=self._callback,
            invoke=self._invoked_by_machine,
            jitter=lambda most: most * self.faults.how("jitter", "machine"),
            early=self._early,
        )
        self.workflow = SimulatedWorkflow(self.machine, hook=self.hook)
        self.provider = Provider(faults, self.clock, self.hook, self._provider_down, self.sending, by_event=by_event)
        self.bookings = Bookings(self.table, self.function_clock)
        self.disputes = Disputes(self.bookings, self.workflow, sleep=self._sleep)
        self.followers = (
            Follower("projector", projector.handler, rows.JOB_PREFIX),
            Follower("publisher", publisher.handler, rows.HISTORY_PREFIX),
        )
        self.changed: Callable[[Change], None] = lambda change: None
        self.stepped: Callable[[], None] = lambda: None
        self.paying: Callable[[Payment], None] = lambda payment: None
        self.delivered: Callable[[Mapping[str, Any]], None] = lambda event: None
        self.tell: Callable[[str, str], None] | None = None
        self._heap: list[tuple[datetime, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = count()
        self._running: list[str] = []
        self._runs = count(1)
        self._skews: dict[str, timedelta] = {}
        self._digest = blake2b(digest_size=16)
        self._absorbed = 0
        self._swept_at = start
        self._held: dict[str, datetime] = {}
        """Until when a function takes no messages."""
        self._overdue: list[tuple[datetime, str, str, str]] = []
        """When each row has to be looked at, as an instant and as the row words it, and its key."""
        self._read: dict[str, tuple[Any, Booking]] = {}
        self.deployed_at: datetime | None = None
        self.differences = 0
        self._outages = self._drawn_outages()
        self._consumers: tuple[tuple[str, MemoryQueue, Handler, int], ...] = (
            ("lifecycle", self.queues.lanes["lifecycle"], lifecycle_worker.handler, 10),
            ("payments", self.queues.lanes["payments"], payments_worker.handler, 1),
            ("projector", self.queues.projection, projector.handler, 10),
            ("recorder", self.queues.dead["lifecycle"], recorder.handler, 10),
            ("recorder", self.queues.dead["payments"], recorder.handler, 10),
        )
        self.at(self.now + SWEEP_EVERY, self._sweep)
        days = settings.reconcile_days or 1
        self.reconcile_every = timedelta(days=days)
        self.reconciled_at: datetime | None = None
        self.at(self.now.replace(hour=3, minute=17), self._reconcile)

    # --- time --------------------------------------------------------------------------------------------------

    def clock(self) -> datetime:
        return self.now

    def function_clock(self) -> datetime:
        """The clock of the function that runs now."""
        return self.now + self._skews.get(self._running[-1], timedelta()) if self._running else self.now

    def at(self, instant: datetime, action: Callable[..., None], *given: Any) -> None:
        heapq.heappush(self._heap, (max(instant, self.now), next(self._order), action, given))

    def run(self, until: datetime) -> None:
        """Everything that happens up to and at that instant."""
        heap, held = self._heap, self._held
        while True:
            at = until
            act: Callable[..., None] | None = None
            given: tuple[Any, ...] = ()
            if heap and heap[0][0] <= at:
                at, act = heap[0][0], self._pop
            for follower in self.followers:
                due = follower.next_at()
                if due is not None and due <= at and (act is None or due < at):
                    at, act, given = due, self._stream, (follower,)
            for consumer in self._consumers:
                due = consumer[1].next_at()
                if due is not None and consumer[0] in held and self.faults.on:
                    due = max(due, held[consumer[0]])
                if due is not None and due <= at and (act is None or due < at):
                    at, act, given = due, self._consume, consumer
            due = self.schedules.next_at()
            if due is not None and due <= at and (act is None or due < at):
                at, act, given = due, self._fire, ()
            if act is None:
                self.now = max(self.now, until)
                return
            self.now = max(self.now, at)
            act(*given)

    def _pop(self) -> None:
        _at, _order, action, given = heapq.heappop(self._heap)
        action(*given)

    # --- invocations -------------------------------------------------------------------------------------------

    def invoke(self, name: str, handler: Handler, event: dict[str, Any], about: str) -> Any:
        """Run a function. Raises `Crash` when its process died, and what it raised."""
        self.calls[f"lambda.{name}"] += 1
        if self.faults.on and self.faults.strikes("clock_skew", name):
            self._skews[name] = MOST_SKEW * (2 * self.faults.how("clock_skew", name) - 1)
        elif not self.faults.on:
            self._skews.pop(name, None)
        self._running.append(name)
        kept, self.table.about = self.table.about, about
        self._note(f"> {name} {about}")
        try:
            return handler(event, Context(next(self._runs)))
        finally:
            self._running.pop()
            self.table.about = kept
            self.absorb()
            self.stepped()

    def down(self, name: str) -> bool:
        """Whether a bad deploy, or an outage, keeps this function from working now."""
        if not self.faults.on:
            return False
        kind = DOWN.get(name, name)
        for outage in self._outages.get(kind, ()):
            if outage.start <= self.now < outage.end:
                if outage.start not in self._met:
                    self._met.add(outage.start)
                    self.faults.count[kind] += 1
                return True
        return False

    def hook(self, call: str, when: str) -> None:
        """Around every call of a twin and of the provider."""
        if not self._running:
            return
        about = self.table.about
        name = self.faults.around(call, when, about)
        if name is None:
            return
        running = self._running[-1]
        if self.tell:
            self.tell(about, f"{name} {when} {call} in {running}")
        self._note(f"! {name} {when} {call} {about}")
        if name == "pause":
            if len(self._running) == 1:
                self._pause(SECOND * (1 + (LONGEST_PAUSE - 2) * self.faults.how("pause", about)))
            return
        raise error_of(name)

    def _pause(self, span: timedelta) -> None:
        about = self.table.about
        self.absorb()
        running, self._running = self._running, [*self._running, "paused"]
        try:
            self.run(self.now + span)
        finally:
            self._running = running
            self.table.about = about

    @property
    def api_runs(self) -> bool:
        """The API's router keeps one request at a time, as a Lambda function does."""
        return "api" in self._running

    def _sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def _lag(self) -> timedelta:
        if self.faults.strikes("index_lag", self.table.about):
            return SECOND * 5 * self.faults.how("index_lag", self.table.about)
        return timedelta()

    # --- what was written ---------------------------------------------------------------------------------------

    def absorb(self) -> None:
        """Hand on what was written since, and what the bus accepted."""
        stream = self.table.stream
        if len(stream) > self._absorbed:
            changes = stream.changes(self._absorbed)
            self._absorbed = len(stream)
            stream.forget(self._absorbed)
            for change in changes:
                self._written(change)
        if self.bus.events:
            accepted, self.bus.events = self.bus.events, []
            for event in accepted:
                self._rule(event["detail"])

    def _written(self, change: Change) -> None:
        new = change.new
        if change.number % WEIGHED == 0:
            self.calls["dynamodb.write_units"] += WEIGHED * _write_units(change)
        if new is None:
            self._note(f"- {change.pk} {change.sk}")
        elif self.settings.whole:
            self._note(f"= {change.pk} {change.sk} {sorted(new.items())!r}")
        else:
            self._note(f"= {change.pk} {change.sk} {new.get('version')} {new.get('generation')} {new.get('wake_at')}")
        if new is not None:
            self._is_due(new)
        for follower in self.followers:
            if change.sk.startswith(follower.prefix):
                if follower.name == "publisher" and not (
                    new is not None and new.get("attention_pk", "").startswith("outbox#")
                ):
                    continue
                if self.faults.strikes("record_lost", change.pk):
                    self._say(change.pk, f"the stream's record of {change.sk} is lost to the {follower.name}")
                    continue
                follower.waiting.append(change)
        self.changed(change)

    def _note(self, line: str) -> None:
        self._digest.update(f"{self.now.timestamp():.3f} {line}\n".encode())

    def _say(self, about: str, what: str) -> None:
        if self.tell:
            self.tell(about, what)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    # --- the stream ---------------------------------------------------------------------------------------------

    def _stream(self, follower: Follower) -> None:
        waiting = follower.waiting
        while waiting and self.now - waiting[0].at > STREAM_AGE:
            self.faults.count["record_expired"] += 1
            waiting.popleft()
        if not waiting:
            return
        first = waiting[0]
        if follower.tries == 0 and self.faults.strikes("record_delayed", first.pk):
            follower.ready_at = self.now + MINUTE * 60 ** (1.3 * self.faults.how("record_delayed", first.pk))
            return
        batch: list[Change] = []
        for change in waiting:
            if len(batch) == STREAM_BATCH or change.at + STREAM_LATENCY > self.now:
                break
            batch.append(change)
        if follower.tries:
            batch = batch[: max(1, len(batch) >> follower.tries)]
        follower.busy = True
        done = self._stream_batch(follower, batch)
        follower.busy = False
        for _ in range(done):
            waiting.popleft()
        if done == len(batch):
            follower.tries, follower.ready_at = 0, None
        else:
            follower.tries += 1
            follower.ready_at = self.now + min(LONGEST_RETRY, SECOND * 2 ** min(follower.tries, 6))

    def _stream_batch(self, follower: Follower, batch: Sequence[Change]) -> int:
        """How many of the batch are done with."""
        self.calls["stream.read"] += 1
        if self.down(follower.name):
            return 0
        about = batch[0].pk
        records = [change.record() for change in batch]
        try:
            answer = self.invoke(follower.name, follower.handler, {"Records": records}, about)
        except (Crash, AwsFailure):
            return 0
        except Exception as error:
            raise Broken("handlers_answer", about, f"{follower.name} raised {error!r}") from error
        if self.faults.strikes("record_repeated", about):
            return 0
        failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        numbers = [record["dynamodb"]["SequenceNumber"] for record in records]
        done = min((numbers.index(number) for number in failed), default=len(batch))
        if len(batch) > 1 and self.faults.strikes("batch_from_the_middle", about):
            return min(done, len(batch) // 2)
        return done

    # --- schedules and queues -----------------------------------------------------------------------------------

    def _fire(self) -> None:
        for request in self.schedules.due():
            self._fired(request)

    def _fired(self, request: ScheduleRequest) -> None:
        """Scheduler sends within the minute; what goes wrong is drawn for each."""
        self.calls["scheduler.invocations"] += 1
        about, strikes, how = request.wake_up.booking_id, self.faults.strikes, self.faults.how
        within = SECOND * 59 * how("within", about)
        if strikes("schedule_given_up", about):
            self._say(about, f"Scheduler gave {request.name} up")
            return
        if strikes("wake_up_lost", about):
            self._say(about, f"the wake-up of {request.name} is lost")
            return
        if strikes("wake_up_delayed", about):
            within = MINUTE * 3 ** (8 * how("wake_up_delayed", about))
            self._say(about, f"the wake-up of {request.name} is late by {within}")
        elif strikes("wake_up_reordered", about):
            within += SECOND * 90 * how("wake_up_reordered", about)
        self.at(self.now + within, self.arrive, request, "")
        if strikes("wake_up_duplicated", about):
            self.at(self.now + HOUR * 30 * how("wake_up_duplicated", about) ** 3, self.arrive, request, "a duplicate")
        if strikes("wake_up_old", about):
            self.at(self.now + DAY * 20 * how("wake_up_old", about), self.arrive, request, "an old one")

    def arrive(self, request: ScheduleRequest, why: str) -> None:
        """A wake-up reaches its queue."""
        self.wake_ups[why or "on time"] += 1
        self._say(request.wake_up.booking_id, f"wake-up of {request.name} {why}".rstrip())
        self.queues.fire(request)
        self.calls["sqs.send"] += 1

    def lost(self, request: ScheduleRequest, why: str) -> None:
        self._say(request.wake_up.booking_id, f"the schedule {request.name} vanishes")

    def _consume(self, name: str, queue: MemoryQueue, handler: Handler, batch: int) -> None:
        if name == "recorder" and self.down(name):
            # Its event source is off, so that nothing is received: dead letters wait, and may expire.
            ends = (outage.end for outage in self._outages[DOWN[name]] if outage.start <= self.now < outage.end)
            self._held[name] = max(ends)
            return
        self._held.pop(name, None)
        self.calls["sqs.receive"] += 1
        records = queue.receive(batch)
        if not records:
            return
        about = _about(records[0])
        if self.down(name) or self.faults.strikes("receive_failed", about):
            return
        try:
            answer = self.invoke(name, handler, {"Records": records}, about)
        except Crash:
            return
        except Exception as error:
            raise Broken("handlers_answer", about, f"{name} raised {error!r}") from error
        kept = [record for record in records if not self.faults.strikes("redelivered", _about(record))]
        queue.finish(kept, answer)
        self.calls["sqs.delete"] += 1

    # --- the bus ------------------------------------------------------------------------------------------------

    def _rule(self, event: Mapping[str, Any]) -> None:
        about = event["booking_id"]
        self.calls["events.delivered"] += 1
        if self.faults.strikes("event_delayed", about):
            self.at(self.now + HOUR * 5 * self.faults.how("event_delayed", about), self._deliver, event)
            return
        self._deliver(event)
        if self.faults.strikes("event_repeated", about):
            self.at(self.now + HOUR * self.faults.how("event_repeated", about), self._deliver, event)

    def _deliver(self, event: Mapping[str, Any]) -> None:
        self._note(f"* {event['id']} {event['type']}")
        self.delivered(event)

    # --- the rules ----------------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        """Every five minutes. One that would surely find nothing is only counted, so that a year takes seconds."""
        self.at(self.now + SWEEP_EVERY, self._sweep)
        self.calls["rule.sweep"] += 1
        if self.down("sweeper"):
            return
        if self.now - self._swept_at < SWEEP_ANYWAY and not self._something_is_late():
            return
        self._swept_at = self.now
        try:
            self.invoke("sweeper", sweeper.handler, {}, "sweeper")
        except Crash:
            return
        except Exception as error:
            self._note(f"sweeper failed: {type(error).__name__}")

    def _something_is_late(self) -> bool:
        """Whether a job or an event is overdue: of every row's instant the earliest is looked at, if it still holds."""
        until = self.now + MOST_SKEW * 2 - GRACE
        while self._overdue and self._overdue[0][0] <= until:
            _, since, pk, sk = self._overdue[0]
            found = self.table.seen(pk, sk)
            if found and since in (found[0].get("wake_at"), found[0].get("attention_sk", "")[:24]):
                return True
            heapq.heappop(self._overdue)
        return False

    def _is_due(self, new: Mapping[str, Any]) -> None:
        """Note when the sweeper has to look at a row."""
        since = new.get("wake_at") if "due_pk" in new else None
        if since is None and new.get("attention_pk", "").startswith("outbox#"):
            since = new["attention_sk"][:24]
        if since is not None:
            heapq.heappush(self._overdue, (parse(since), since, new["pk"], new["sk"]))

    def _reconcile(self) -> None:
        following = self.now + self.reconcile_every
        self.at(following, self._reconcile)
        self.reconcile({})

    def reconcile(self, event: dict[str, Any], tries: int = 0) -> None:
        """The reconciler, with its invocations of itself; Lambda tries an asynchronous one twice more."""
        try:
            answer = self.invoke("reconciler", reconciler.handler, event, "reconciler")
        except (Crash, Exception) as error:
            self._note(f"reconciler failed: {type(error).__name__}")
            if tries < 2:
                self.at(self.now + MINUTE * (tries + 1), self.reconcile, event, tries + 1)
            return
        if answer["phase"] == "done":
            self.reconciled_at = self.now
            self.differences = answer["differences"]

    # --- the workflow -------------------------------------------------------------------------------------------

    def _callback(self, instant: datetime, callback: Callable[[], None]) -> None:
        self.at(instant, callback)

    def _invoked_by_machine(self, payload: dict[str, Any]) -> Any:
        about = str(payload["dispute_id"]).partition(".")[0]
        self._say(about, f"the workflow calls {payload['action']} {payload.get('stage', '')}".rstrip())
        if self.down("dispute") or self.faults.strikes("step_fails", about):
            raise LambdaError("Lambda.ServiceException")
        try:
            answer = self.invoke("dispute", dispute.handler, payload, about)
        except Crash:
            raise LambdaError("Lambda.Unknown") from None
        if self.faults.strikes("step_unanswered", about):
            raise NoAnswer
        return answer

    def _early(self) -> timedelta:
        return (
            SECOND * self.faults.how("wait_early", "machine")
            if self.faults.strikes("wait_early", "machine")
            else timedelta()
        )

    # --- the provider -------------------------------------------------------------------------------------------

    def _provider_down(self) -> bool:
        return self.down("provider_down")

    def sending(self, payment: Payment) -> None:
        self.paying(payment)

    # --- the callers --------------------------------------------------------------------------------------------

    def request(self, about: str, method: str, path: str, body: Any, key: str | None = None) -> tuple[int, Any]:
        """One HTTP request; 503 when the function died."""
        self.calls["api.requests"] += 1
        text = None if body is None else json.dumps(body)
        if path.startswith("/webhooks/"):
            name, handler = "webhook", stripe_webhook.handler
        else:
            name, handler = "api", api.handler
        try:
            answer = self.invoke(name, handler, http_event(method, path, text, key), about)
        except Crash:
            return 503, None
        return int(answer["statusCode"]), json.loads(answer["body"])

    # --- outages ------------------------------------------------------------------------------------------------

    def _drawn_outages(self) -> dict[str, list[Outage]]:
        self._met: set[datetime] = set()
        found: dict[str, list[Outage]] = {}
        if not self.faults.on:
            return found
        for kind, longest in LONGEST.items():
            rate = self.faults.rates[kind]
            if not rate:
                continue
            chance = generator(self.settings.seed, "outage", kind)
            most = max(3, round(rate * self._days))
            for _ in range(most):
                start = self.start + timedelta(days=chance.uniform(0, self._days))
                end = start + longest * chance.uniform(0.05, 1)
                found.setdefault(kind, []).append(Outage(kind, start, end))
        return found

    # --- reading ------------------------------------------------------------------------------------------------

    def _reading(self, read: Callable[[Mapping[str, Any]], Booking]) -> Callable[[Mapping[str, Any]], Booking]:
        """A row that the table lends is read once, for as long as it is the booking's row; values never change. The
        invariants read by themselves."""

        def read_once(row: Mapping[str, Any]) -> Booking:
            known = self._read.get(row["pk"])
            if known is None or known[0] is not row:
                known = self._read[row["pk"]] = (row, read(row))
            return known[1]

        return read_once

    def forget(self, booking_id: str) -> None:
        self.table.forget(booking_id)
        self._read.pop(booking_id, None)

    # --- wiring -------------------------------------------------------------------------------------------------

    def wired(self) -> ExitStack:
        """The handlers, connected with this cloud for as long as the context lasts."""
        stack = ExitStack()
        functions = LambdaClient(lambda event: self.at(self.now + SECOND, self.reconcile, event))
        told = Told()
        parts = {
            "utc_now": self.function_clock,
            "bookings": lambda: self.bookings,
            "schedules": lambda: self.schedules,
            "queues": lambda: self.queues,
            "bus": lambda: self.bus,
            "provider": lambda: self.provider,
            "manner": lambda: self.provider,
            "disputes": lambda: self.disputes,
            "dispute_steps": lambda: self.disputes,
            "stripe_events": lambda: told,
            "default_policy": lambda: self.policy,
            "client": lambda service: {"lambda": functions}[service],
        }
        stack.enter_context(wired(wiring, parts))
        if not self.settings.copies:
            stack.enter_context(wired(rows, {"read_booking": self._reading(rows.read_booking)}))
        level = support.logger.log_level
        support.logger.setLevel("CRITICAL")
        stack.callback(support.logger.setLevel, level)
        stack.enter_context(wired(support.metrics, {"add_metric": lambda **_: None}))
        stack.enter_context(wired(support.metrics.provider, {"flush_metrics": lambda **_: None}))
        stack.enter_context(wired(support, {"single_metric": lambda **_: nullcontext()}))
        stack.enter_context(wired(api, {"setting": lambda name: name}))
        return stack


def _write_units(change: Change) -> int:
    """As in a transaction: two a KB of the larger of old and new, and one or two for each index that it is in
    (DynamoDB developer guide, "Read and write request units")."""
    old, new = change.old or {}, change.new or {}
    units = 2 * -(-max(size(old), size(new), 1) // 1024)
    for partition, sort in INDEXES.values():
        was, now = (old.get(partition), old.get(sort)), (new.get(partition), new.get(sort))
        units += 0 if was == now else (was[0] is not None) + (now[0] is not None)
    return units


def _about(record: Mapping[str, Any]) -> str:
    try:
        return str(json.loads(record["body"])["booking_id"])
    except (ValueError, KeyError, TypeError):
        return "unreadable"


def http_event(method: str, path: str, body: str | None, key: str | None) -> dict[str, Any]:
    """An API Gateway HTTP API event (payload format 2.0)."""
    route, _, query = path.partition("?")
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": route,
        "rawQueryString": query,
        "headers": {"content-type": "application/json", **({"idempotency-key": key} if key else {})},
        "requestContext": {
            "http": {"method": method, "path": route},
            "requestId": "req-1",
            "stage": "$default",
        },
        "isBase64Encoded": False,
    }
    if query:
        event["queryStringParameters"] = dict(part.split("=", 1) for part in query.split("&"))
    if body is not None:
        event["body"] = body
    return event
