"""The console over the whole service in this process: real pages, real answers, no network."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Lock
from types import SimpleNamespace
from typing import Any, cast
from warnings import catch_warnings, simplefilter

import boto3
import pytest
from botocore.exceptions import ClientError
from pytest_socket import disable_socket, enable_socket

from duebook import wiring
from duebook.adapters.memory import MemoryWorkflow
from duebook.service.dispute import Disputes
from duebook_cli.connect import Clock, Connection, TimeIsReal
from duebook_client import Actor, Duebook, Local, Request, Response
from duebook_console.app import create_app
from duebook_console.guard import KEY, TOKEN, Locks
from tests.unit.client.fakes import REGION, URL, FixedSession
from tests.unit.client.in_process import InProcessService, in_process_service

with catch_warnings():  # it asks for httpx2, a new name of what is pinned
    simplefilter("ignore")
    from starlette.testclient import TestClient as TestClient

LOCKS = Locks(port=8123, key="the-key", token="the-token")
ORIGIN = "http://127.0.0.1:8123"
WEDDING = Local("2026-08-14T18:00:00", "Europe/Berlin")
CHEF, CUSTOMER = Actor("chef", "ch-1"), Actor("customer", "c-1")


@pytest.fixture(autouse=True)
def _no_network() -> Iterator[None]:
    """An event loop needs a pair of unix sockets; nothing else is let through."""
    disable_socket(allow_unix_socket=True)
    yield
    enable_socket()


class SessionStub:
    """A session whose STS knows who we are, or says why not."""

    def __init__(self) -> None:
        self.refusal: str | None = None

    def client(self, name: str) -> Any:
        assert name == "sts"
        return SimpleNamespace(get_caller_identity=self._identity)

    def _identity(self) -> dict[str, str]:
        if self.refusal:
            raise ClientError({"Error": {"Code": self.refusal, "Message": "no"}}, "GetCallerIdentity")
        return {"Arn": "arn:aws:sts::123456789012:assumed-role/operators/ada"}


class ClockStub:
    """Moves the service in this process."""

    def __init__(self, service: InProcessService) -> None:
        self.travels = True
        self._service = service

    def now(self) -> datetime:
        return self._service.now

    def upcoming(self) -> datetime | None:
        row = self._service._next(datetime.max.replace(tzinfo=self._service.now.tzinfo))
        return None if row is None else datetime.fromisoformat(row["run_at"])

    def advance(self, by: timedelta, watch: Callable[[datetime], None] = lambda now: None) -> datetime:
        if not self.travels:
            raise TimeIsReal("time is real here")
        self._service.move_by(by)
        watch(self._service.now)
        return self._service.now

    def next(self) -> datetime | None:
        at = self.upcoming()
        if at is not None:
            self._service.move_to(at)
        return at


class OneByOne:
    """A Lambda handles one request at a time; the console sends several."""

    def __init__(self, service: InProcessService) -> None:
        self._service = service
        self._lock = Lock()

    def send(self, request: Request) -> Response:
        with self._lock:
            return self._service.send(request)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcessService]:
    with in_process_service() as service:
        disputes = Disputes(service.bookings, MemoryWorkflow(), sleep=lambda _: None)
        monkeypatch.setattr(wiring, "disputes", lambda: disputes)
        yield service


@pytest.fixture
def client(service: InProcessService) -> Duebook:
    return Duebook(URL, region=REGION, session=FixedSession(), transport=OneByOne(service), sleep=lambda _: None)


@pytest.fixture
def session() -> SessionStub:
    return SessionStub()


@pytest.fixture
def connection(service: InProcessService, client: Duebook, session: SessionStub) -> Connection:
    """To the embedded AWS: the one where time can be moved."""
    return Connection(
        env="local",
        url=URL,
        client=client,
        session=cast(boto3.Session, session),
        outputs={},
        clock=cast(Clock, ClockStub(service)),
    )


class Browser:
    """Opens pages as the operator's browser does: with the cookie, and forms with their token."""

    def __init__(self, connection: Connection) -> None:
        self.raw = TestClient(create_app(connection, LOCKS), base_url=ORIGIN, raise_server_exceptions=False)
        self.last: Any = self.get(f"/?{KEY}={LOCKS.key}")

    def get(self, path: str) -> Any:
        return self.raw.get(path)

    def post(self, path: str, **fields: str) -> Any:
        return self.raw.post(path, data={TOKEN: LOCKS.token, **fields}, headers={"Origin": ORIGIN})


@pytest.fixture
def browser(connection: Connection) -> Browser:
    return Browser(connection)


@pytest.fixture
def deployed(connection: Connection) -> Connection:
    """As in an account: time is the world's."""
    return replace(connection, env="prod", clock=None)


def book(client: Duebook, booking_id: str = "b1", **changes: Any) -> None:
    """A paid booking."""
    given: dict[str, Any] = {
        "customer_id": "c-1",
        "chef_id": "ch-1",
        "event_start": WEDDING,
        "price_minor": 50_000,
        "currency": "EUR",
    }
    client.put_booking(booking_id, **{**given, **changes})
    client.accept(booking_id, actor=CHEF)
    client.pay(booking_id, captured_minor=50_000, charge_ref=f"ch_{booking_id}")
