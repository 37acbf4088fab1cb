"""The command line over the service in this process: every command ends in the real API handler."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from typer.testing import CliRunner

from duebook import wiring
from duebook.adapters.memory import MemoryWorkflow
from duebook.service.dispute import Disputes
from duebook_cli.app import app
from duebook_cli.bulk import calls
from duebook_cli.connect import Connection
from duebook_client import Duebook, RetryPolicy, Transport
from tests.unit.client.fakes import REGION, URL, FixedSession
from tests.unit.client.in_process import InProcessService, in_process_service

_SESSION = boto3.Session(region_name=REGION)
OUTPUTS = {"OperationsPolicyArn": "arn:aws:iam::123456789012:policy/operations"}


@dataclass(frozen=True)
class Answer:
    """What a command printed, and how it ended."""

    exit: int
    out: str
    told: str
    """Standard error."""

    @property
    def document(self) -> Any:
        """Standard output as the one JSON document that it has to be."""
        return json.loads(self.out)


class ServiceClock:
    """The clock of an embedded AWS, over the service in this process."""

    travels = True

    def __init__(self, service: InProcessService) -> None:
        self._service = service

    def now(self) -> datetime:
        return self._service.now

    def upcoming(self) -> datetime | None:
        due = self._service._next(datetime.max.replace(tzinfo=UTC))
        return None if due is None else datetime.fromisoformat(due["run_at"])

    def advance(self, by: timedelta, watch: Callable[[datetime], None] = lambda now: None) -> datetime:
        self._service.move_by(by)
        watch(self.now())
        return self.now()

    def next(self) -> datetime | None:
        upcoming = self.upcoming()
        if upcoming is not None:
            self._service.move_to(upcoming)
        return upcoming


Run = Callable[..., Answer]


def runner(connection: Connection | None) -> Run:
    """Runs a command over a connection; `answers` is what a person types."""

    def run(*arguments: str | Path, answers: str | None = None) -> Answer:
        result = CliRunner().invoke(app, [str(each) for each in arguments], obj=connection, input=answers)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)

    return run


def connected(
    transport: Transport, *, clock: Any = None, env: str = "local", outputs: Mapping[str, str] = OUTPUTS
) -> Connection:
    client = Duebook(
        URL,
        region=REGION,
        session=FixedSession(),
        transport=transport,
        retries=RetryPolicy(attempts=2, first=0, longest=0),
        sleep=lambda _: None,
    )
    return Connection(env=env, url=URL, client=client, session=_SESSION, outputs=outputs, clock=clock)


@pytest.fixture(autouse=True)
def _one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The in-memory table is for one thread; and nothing here waits for a rate."""
    monkeypatch.setattr(calls, "AT_ONCE", 1)
    monkeypatch.setattr(calls.Pace, "wait", lambda self: None)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcessService]:
    with in_process_service() as service:
        disputes = Disputes(service.bookings, MemoryWorkflow())
        monkeypatch.setattr(wiring, "disputes", lambda: disputes)
        yield service


@pytest.fixture
def connection(service: InProcessService) -> Connection:
    return connected(service, clock=ServiceClock(service))


@pytest.fixture
def duebook(connection: Connection) -> Run:
    """Run a command: `duebook("due", "--within", "7d")`."""
    return runner(connection)


@pytest.fixture
def client(connection: Connection) -> Duebook:
    return connection.client
