"""What the running emulator is doing: served at `/_local/status`, read by `EmbeddedAws`.

It answers what the clock and the tests need: is anything still moving, and
when is the next instant at which something happens by itself?
"""

import json
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from ministack.services import dynamodb, eventbridge, lambda_svc, scheduler, sqs, stepfunctions

PATH = "/_local/status"

Scope = dict[str, Any]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Any, Send], Awaitable[None]]

waits: dict[int, float] = {}
"""Epoch seconds that running state machines wait for, by waiter (kept by the shims)."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """One look at the emulator. Instants are ISO 8601 in UTC."""

    now: str
    running: int
    """Lambda invocations in flight, and workflows that are not waiting."""
    deliverable: int
    """Messages that a queue's function could be given now."""
    stream_backlog: int
    """Table changes that a stream's function has not read."""
    due: int
    """Schedules and rules whose instant has come and that have not fired."""
    next_instant: str | None
    """The earliest of: a schedule's instant, a message's, a workflow's wait.

    Recurring rules don't count. Nor do messages to be tried again without end.
    """
    schedules: int

    @property
    def busy(self) -> bool:
        """Something is moving, or would without any time passing."""
        return bool(self.running or self.deliverable or self.stream_backlog or self.due)


def take() -> Status:
    """Look at the emulator this code runs in."""
    now = time.time()
    schedules = list(_pending_schedules())
    messages = list(_messages_for_functions())
    upcoming = [at for at in (*schedules, *list(waits.values())) if now < at < math.inf]
    upcoming += [at for at, bounded in messages if at > now and bounded]
    return Status(
        now=_iso(now),
        running=_invocations() + _workflows(now),
        deliverable=sum(1 for at, _ in messages if at <= now),
        stream_backlog=sum(_stream_backlogs()),
        due=sum(1 for at in schedules if at <= now) + sum(1 for at in _next_ticks() if at <= now),
        next_instant=_iso(min(upcoming)) if upcoming else None,
        schedules=len(scheduler._schedules._data),
    )


def served(app: App) -> App:
    """`app` with the status added at its path."""

    async def with_status(scope: Scope, receive: Any, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PATH:
            await app(scope, receive, send)
            return
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        found = take()
        body = json.dumps({**asdict(found), "busy": found.busy}).encode()
        await send({"type": "http.response.body", "body": body})

    return with_status


def _invocations() -> int:
    executing: int = lambda_svc.executions_in_flight()[0]
    batches: int = sum(list(lambda_svc._esm_inflight.values()))
    return max(executing, batches)


def _workflows(now: float) -> int:
    executions = list(stepfunctions._executions._data.values())
    running = sum(1 for execution in executions if execution["status"] == "RUNNING")
    return max(0, running - sum(1 for until in list(waits.values()) if until > now))


def _pending_schedules() -> Iterator[float]:
    for key, schedule in list(scheduler._schedules._data.items()):
        if schedule["State"] == "ENABLED" and key not in scheduler._schedule_last_fired:
            at = scheduler._at_time_epoch(schedule["ScheduleExpression"])
            if at is not None:
                yield at


def _sources(service: str) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    for key, mapping in list(lambda_svc._esms._data.items()):
        if mapping.get("Enabled", True) and f":{service}:" in mapping["EventSourceArn"]:
            yield key, mapping


def _next_ticks() -> Iterator[float]:
    """When the recurring rules that have a target are due next."""
    for key, rule in list(eventbridge._rules._data.items()):
        interval = eventbridge._parse_rate_seconds(rule.get("ScheduleExpression", ""))
        if interval and rule.get("State") == "ENABLED" and eventbridge._targets._data.get(key):
            last = eventbridge._rule_last_fired.get(key, rule.get("CreationTime", math.inf))
            yield last + interval


def _messages_for_functions() -> Iterator[tuple[float, bool]]:
    """When each message with a function can be delivered, and whether its retries are bounded."""
    sources = {mapping["EventSourceArn"] for _, mapping in _sources("sqs")}
    for queue in list(sqs._queues._data.values()):
        if queue["attributes"].get("QueueArn") in sources:
            redriven = "RedrivePolicy" in queue["attributes"]
            for message in list(queue["messages"]):
                first = not message.get("receive_count")
                yield message.get("visible_at", 0.0), redriven or first


def _stream_backlogs() -> Iterator[int]:
    for key, mapping in _sources("dynamodb"):
        account, region, _ = key
        table = mapping["EventSourceArn"].split("/")[1]
        end = dynamodb.stream_end_position(table, account_id=account, region=region)
        position = lambda_svc._dynamodb_stream_positions._data.get(key)
        yield 0 if position is None else max(0, end - position)


def _iso(epoch: float) -> str:
    return datetime.fromtimestamp(epoch, UTC).isoformat()
