"""The service itself in this process: its API handler, use cases and in-memory table on a clock that the test moves."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from warnings import catch_warnings, filterwarnings

import pytest

from duebook import wiring
from duebook.adapters.memory import MemoryBus, MemoryQueues, MemoryTable
from duebook.adapters.payments import ExternalPayments
from duebook.domain.policy import Policy
from duebook.handlers import api
from duebook.service import rows
from duebook.service.bookings import Bookings
from duebook.service.pay import wake_payment
from duebook.service.ports import Item, WakeUp
from duebook.service.publish import publish
from duebook_client import Request, Response

AUGUST = datetime(2026, 8, 1, 10, tzinfo=UTC)


@dataclass(frozen=True)
class LambdaContext:
    """What Powertools asks of it."""

    function_name: str = "api"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:eu-central-1:123456789012:function:api"
    aws_request_id: str = "request"


class InProcessService:
    """A `Transport` that ends in the API's handler."""

    def __init__(self) -> None:
        self.now = AUGUST
        self.table = MemoryTable(lambda: self.now)
        self.bookings = Bookings(self.table, lambda: self.now)
        self.bus = MemoryBus()
        self.queues = MemoryQueues(lambda: self.now)
        self.sent: list[Request] = []
        self.lost: list[Exception] = []
        """Raised, one a send, AFTER the request took effect: the answer got lost on its way back."""

    def send(self, request: Request) -> Response:
        self.sent.append(request)
        with catch_warnings():
            filterwarnings("ignore", message="No application metrics to publish")
            answer = api.handler(_event(request), LambdaContext())
        if self.lost:
            raise self.lost.pop(0)
        headers = {name.lower(): value for name, value in answer["headers"].items()}
        return Response(answer["statusCode"], headers, answer["body"].encode())

    def close(self) -> None:
        """Nothing is open."""

    def move_to(self, now: datetime) -> None:
        """Time passes to `now`; every job is woken at its instant, in order."""
        woken: Item | None = None
        while (due := self._next(now)) is not None:
            assert due != woken, f"waking {due['job']} changed nothing"
            woken = due
            self.now = max(self.now, datetime.fromisoformat(due["run_at"]))
            wake_up = WakeUp(booking_id=due["booking_id"], job=due["job"], generation=due["generation"])
            wake_payment(self.bookings, self.queues, ExternalPayments(), wake_up, "schedule")
        self.now = now

    def move_by(self, length: timedelta) -> None:
        self.move_to(self.now + length)

    def events(self) -> list[dict[str, Any]]:
        """What the bus was given since the last time, as EventBridge puts it into the queue."""
        history = sorted(
            (row for row in self._rows() if row["sk"].startswith(rows.HISTORY_PREFIX) and "published_at" not in row),
            key=lambda row: (row["at"], row["pk"], row["sk"]),
        )
        before = len(self.bus.events)
        publish(self.bookings, self.bus, history)
        return self.bus.events[before:]

    def _next(self, now: datetime) -> Item | None:
        pending = [
            row
            for row in self._rows()
            if row["sk"].startswith(rows.JOB_PREFIX)
            and row["status"] == "pending"
            and datetime.fromisoformat(row["run_at"]) <= now
        ]
        return min(pending, key=lambda row: (row["run_at"], row["pk"], row["sk"]), default=None)

    def _rows(self) -> list[Item]:
        return list(self.table.scan(limit=100_000).items)


@contextmanager
def in_process_service() -> Iterator[InProcessService]:
    """The service, wired into the handlers for as long as the block lasts."""
    service = InProcessService()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wiring, "bookings", lambda: service.bookings)
        patch.setattr(wiring, "provider", ExternalPayments)
        patch.setattr(wiring, "manner", ExternalPayments)
        patch.setattr(wiring, "default_policy", Policy)
        yield service


def _event(request: Request) -> dict[str, Any]:
    """The HTTP API's event, payload format 2.0 (API Gateway guide, "Lambda proxy integrations")."""
    url = urlsplit(request.url)
    path = unquote(url.path)
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": url.query,
        "queryStringParameters": dict(parse_qsl(url.query)),
        "headers": {name.lower(): value for name, value in request.headers.items()},
        "requestContext": {"http": {"method": request.method, "path": path}, "stage": "$default"},
        "body": request.body.decode() if request.body else None,
        "isBase64Encoded": False,
    }
