"""Unit tests reach no network, and hypothesis is bounded so that the whole suite stays within seconds."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.configuration import set_hypothesis_home_dir
from pytest_socket import disable_socket, enable_socket

from tests.unit import event_schemas
from tests.unit.world import World

set_hypothesis_home_dir(Path(__file__).parents[2] / ".cache" / "hypothesis")
settings.register_profile(
    "unit",
    max_examples=25,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("unit")


def pytest_configure(config: pytest.Config) -> None:
    """As handlers/support.py does, whose own filter pytest takes away."""
    config.addinivalue_line("filterwarnings", "ignore:No application metrics to publish")


@pytest.fixture(autouse=True)
def _no_network(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sockets are off in every unit test but those marked `loopback`."""
    if request.node.get_closest_marker("loopback"):
        yield
        return
    disable_socket()
    yield
    enable_socket()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """All of Duebook on the in-memory twins, in August, paying through the ledger.

    Whatever it publishes is held to docs/events.
    """
    made = World(monkeypatch)
    yield made
    for event in made.bus.events:
        event_schemas.check(event["detail"])
