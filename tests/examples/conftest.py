"""The marketplace on a database file of its own, beside the service in this process; sockets are off."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from sqlalchemy.orm import Session, sessionmaker

from duebook_client import Duebook
from examples.flask.marketplace.app import create_app, database
from tests.unit.client.fakes import REGION, URL, FixedSession
from tests.unit.client.in_process import InProcessService, in_process_service

Restart = Callable[[], sessionmaker[Session]]


@pytest.fixture(autouse=True)
def _no_network(socket_disabled: None) -> None:
    """Sockets are off."""


@pytest.fixture
def service() -> Iterator[InProcessService]:
    with in_process_service() as service:
        yield service


@pytest.fixture
def duebook(service: InProcessService) -> Duebook:
    return Duebook(URL, region=REGION, session=FixedSession(), transport=service, sleep=lambda _: None)


@pytest.fixture
def restart(tmp_path: Path) -> Iterator[Restart]:
    """Each call is a new process: another engine on the same file."""
    engines = []

    def start() -> sessionmaker[Session]:
        engines.append(database(f"sqlite:///{tmp_path / 'marketplace.db'}"))
        return sessionmaker(engines[-1], expire_on_commit=False)

    yield start
    for engine in engines:
        engine.dispose()


@pytest.fixture
def sessions(restart: Restart) -> sessionmaker[Session]:
    return restart()


@pytest.fixture
def web(sessions: sessionmaker[Session], service: InProcessService) -> FlaskClient:
    return create_app(sessions, now=lambda: service.now).test_client()
