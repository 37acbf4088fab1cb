"""A mark for the tests that talk to a server on this machine; all others have sockets off."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "loopback: talks to a server of its own on 127.0.0.1")
