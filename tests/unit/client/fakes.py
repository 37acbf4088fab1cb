"""A transport that answers from a script, sessions, and examples of the service's answers."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from botocore.credentials import Credentials

from duebook_client import Duebook, NoAnswer, Request, Response
from duebook_client.transport import Session

URL = "https://abc123.execute-api.eu-central-1.amazonaws.com"
REGION = "eu-central-1"
ACCESS_KEY = "AKIDEXAMPLE"
SECRET_KEY = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"

Answer = Response | NoAnswer


class FixedSession:
    """Always the same credentials; None: there are none."""

    def __init__(self, credentials: Any = Credentials(ACCESS_KEY, SECRET_KEY)) -> None:  # noqa: B008
        self.credentials = credentials

    def get_credentials(self) -> Any:
        return self.credentials


class ScriptedTransport:
    """Answers in the order given and keeps what was sent; the last answer is given again and again."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.sent: list[Request] = []
        self.closed = False

    def send(self, request: Request) -> Response:
        self.sent.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, NoAnswer):
            raise answer
        return answer

    def close(self) -> None:
        self.closed = True


class Sleeps:
    """Takes the place of sleeping: keeps the seconds asked for."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def client(
    transport: ScriptedTransport,
    *,
    session: Session | None = None,
    host_header: str | None = None,
    sleep: Callable[[float], None] | None = None,
    base_url: str = URL,
) -> Duebook:
    """A client whose jitter is 1 and whose keys are `key-1`, `key-2`, ..."""
    keys = (f"key-{number}" for number in range(1, 1000))
    return Duebook(
        base_url,
        region=REGION,
        session=session or FixedSession(),
        host_header=host_header,
        transport=transport,
        sleep=sleep or Sleeps(),
        jitter=lambda: 1.0,
        new_key=lambda: next(keys),
    )


def answer(body: Any, status: int = 200, **headers: str) -> Response:
    """JSON, as the service gives it."""
    return Response(status, headers, json.dumps(body).encode())


def refusal(status: int, code: str, **more: str) -> Response:
    """An error of the service."""
    return answer({"error": {"code": code, "message": f"it is {code}", **more}}, status)


def query_of(request: Request) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(request.url).query, strict_parsing=True)) if urlsplit(request.url).query else {}


def body_of(request: Request) -> Any:
    return json.loads(request.body) if request.body else None


PAYMENT: dict[str, Any] = {
    "payment_id": "b1.p1",
    "booking_id": "b1",
    "kind": "payout",
    "amount_minor": 45_000,
    "currency": "EUR",
    "status": "intent",
    "epoch": 1,
    "attempt": 0,
    "reference": "b1.p1",
    "idempotency_key": "b1.p1.e1",
    "created_at": "2026-11-16T00:00:00.000Z",
    "provider_ref": None,
    "next_attempt_at": "2026-11-16T00:00:00.000Z",
    "reason": None,
}

BOOKING: dict[str, Any] = {
    "booking_id": "b1",
    "state": "requested",
    "version": 3,
    "revision": None,
    "applied": True,
    "customer_id": "c-1",
    "chef_id": "ch-1",
    "event_start": {"instant": "2026-11-14T17:00:00.000Z", "local": "2026-11-14T18:00:00", "zone": "Europe/Berlin"},
    "event_end": {"instant": "2026-11-14T21:00:00.000Z", "local": "2026-11-14T22:00:00", "zone": "Europe/Berlin"},
    "price_minor": 50_000,
    "currency": "EUR",
    "policy": {
        "accept_within": 86_400,
        "pay_within": 43_200,
        "event_length": 14_400,
        "complete_after": 10_800,
        "dispute_within": 86_400,
        "fee_bps": 1_000,
        "cancellation": [{"before": 604_800, "refund_bps": 5_000}],
    },
    "requested_at": "2026-08-01T10:00:00.000Z",
    "accepted_at": None,
    "paid_at": None,
    "captured_minor": 0,
    "charge_ref": None,
    "refunded_minor": 0,
    "payments": [],
}

JOB: dict[str, Any] = {
    "booking_id": "b1",
    "job": "remind_guest",
    "run_at": "2026-11-12T09:00:00.000Z",
    "wake_at": "2026-11-12T09:00:00.000Z",
    "status": "pending",
    "attempts": 0,
    "generation": 4,
    "lane": "lifecycle",
    "reason": None,
}

HISTORY: dict[str, Any] = {
    "version": 1,
    "type": "booking.requested",
    "at": "2026-08-01T10:00:00.000Z",
    "due": None,
    "job": None,
    "state": "requested",
    "cause": {"source": "api", "generation": None, "job": None},
    "actor": {"role": "customer", "id": "c-1"},
    "reason": "requested",
    "idempotency_key": None,
    "data": {"price": 50_000},
    "published_at": None,
}

DEAD_LETTER: dict[str, Any] = {
    "kind": "dead",
    "booking_id": "b1",
    "job": "remind_guest",
    "payment_id": None,
    "since": "2026-11-12T09:00:00.000Z",
    "attempts": 9,
    "reason": "permanent",
    "generation": 4,
}

REPORT: dict[str, Any] = {
    "run": "r-1",
    "status": "running",
    "started_at": "2026-11-12T09:00:00.000Z",
    "finished_at": None,
    "schedules_checked": 10,
    "jobs_checked": 20,
    "bookings_checked": 5,
    "differences": 1,
}

EVENT: dict[str, Any] = {
    "version": "0",
    "id": "5b3c",
    "detail-type": "job.due",
    "source": "duebook",
    "account": "123456789012",
    "time": "2026-11-12T09:00:01Z",
    "region": REGION,
    "resources": [],
    "detail": {
        "id": "b1:7",
        "schema_version": 1,
        "type": "job.due",
        "booking_id": "b1",
        "version": 7,
        "at": "2026-11-12T09:00:01.000Z",
        "due": "2026-11-12T09:00:00.000Z",
        "job": "remind_guest",
        "data": {"run_at": "2026-11-12T09:00:00.000Z", "payload": {"mail": 4}},
    },
}
