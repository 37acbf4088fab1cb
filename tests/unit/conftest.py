"""Unit tests reach no network, and hypothesis is bounded so that the whole suite stays within seconds."""

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "unit", max_examples=40, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unit")


@pytest.fixture(autouse=True)
def _no_network(socket_disabled: None) -> None:
    """Sockets are off in every unit test."""
