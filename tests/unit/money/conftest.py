"""All of Duebook on the twins, paying through Stripe's library to the stand-in on 127.0.0.1."""

from collections.abc import Iterator

import pytest
import requests

from local.stripe_fake import StripeFake
from tests.stand_in import session
from tests.unit.money import drive


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "loopback: talks to a server of its own on 127.0.0.1")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How much the property test went through."""
    if drive.ran.schedules:
        terminalreporter.write_line(f"money: {drive.ran}")


@pytest.fixture
def used(socket_enabled: None) -> Iterator[requests.Session]:
    with session() as used:
        yield used


@pytest.fixture
def fake(socket_enabled: None) -> Iterator[StripeFake]:
    with StripeFake(hang=False) as fake:
        yield fake
