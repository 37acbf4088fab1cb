"""A secret of a mocked Secrets Manager: read at its first use, kept for 15 minutes, and shown nowhere."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duebook.adapters.secrets import KEPT_FOR, SecretsManagerSecret
from duebook.domain.errors import AwsFailure
from tests.stand_in import Clock

NOW = datetime(2026, 11, 16, tzinfo=UTC)


class Counting:
    """A client that counts what is read."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.reads = 0

    def get_secret_value(self, **request: Any) -> Any:
        self.reads += 1
        return self._client.get_secret_value(**request)


@pytest.fixture
def manager(client: Callable[[str], Any]) -> Any:
    return client("secretsmanager")


def test_a_secret_is_read_at_its_first_use_and_again_after_15_minutes(
    manager: Any, fresh: Callable[[str], str]
) -> None:
    name, clock, counting = fresh("key"), Clock(NOW), Counting(manager)
    secret = SecretsManagerSecret(counting, name, clock)
    assert counting.reads == 0
    manager.create_secret(Name=name, SecretString="sk_test_1\n")
    assert [secret.value(), secret.value()] == ["sk_test_1", "sk_test_1"]
    manager.put_secret_value(SecretId=name, SecretString="sk_test_2")
    clock.now += KEPT_FOR - timedelta(seconds=1)
    assert secret.value() == "sk_test_1"
    clock.now += timedelta(seconds=1)
    assert secret.value() == "sk_test_2"
    assert counting.reads == 2


def test_a_refused_secret_is_read_anew_at_once(manager: Any, fresh: Callable[[str], str]) -> None:
    name = fresh("key")
    manager.create_secret(Name=name, SecretString="sk_test_1")
    secret = SecretsManagerSecret(manager, name, Clock(NOW))
    secret.value()
    manager.put_secret_value(SecretId=name, SecretString="sk_test_2")
    assert (secret.fresh(), secret.value()) == ("sk_test_2", "sk_test_2")
    assert "sk_test" not in repr(secret)


def test_a_secret_that_is_not_there_is_told_by_its_code(manager: Any, fresh: Callable[[str], str]) -> None:
    with pytest.raises(AwsFailure) as raised:
        SecretsManagerSecret(manager, fresh("nothing"), Clock(NOW)).value()
    assert raised.value.details["aws_code"] == "ResourceNotFoundException"


def test_a_secret_without_text_is_none(manager: Any, fresh: Callable[[str], str]) -> None:
    name = fresh("binary")
    manager.create_secret(Name=name, SecretBinary=b"x")
    with pytest.raises(AwsFailure):
        SecretsManagerSecret(manager, name, Clock(NOW)).value()
