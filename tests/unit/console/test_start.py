"""`python -m duebook_console`: it says what is missing, and listens on this machine alone."""

import socket
from collections.abc import Iterator

import pytest
from pytest_socket import enable_socket

from duebook_cli.connect import connect
from duebook_client import NoCredentials
from duebook_console import __main__ as command


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator who is not signed in."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def test_without_a_region_it_says_what_to_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--env", "dev"]) == 1
    assert "set AWS_REGION" in capsys.readouterr().err


def test_the_region_it_asks_for_is_the_one_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    with pytest.raises(NoCredentials, match="aws sso login"):
        connect("dev")


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another program has."""
    enable_socket()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_it_listens_on_this_machine_alone_and_says_when_the_port_is_taken(taken: int) -> None:
    with command._listening(0) as own:
        assert own.getsockname()[0] == "127.0.0.1"
    with pytest.raises(OSError, match=f"port {taken} cannot be used for the console"):
        command._listening(taken)
