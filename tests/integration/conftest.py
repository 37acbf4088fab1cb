"""A mocked AWS for the contract tests: one a test file, and names that no other test uses. No network, no sleep."""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from typing import Any

import boto3
import pytest
from moto import mock_aws

REGION = "eu-west-1"
Client = Callable[[str], Any]
"""Service name → its low-level client."""

_numbers = count(1)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Clients of moto, one a service."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            patch.setenv(name, value)
        for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_SESSION_TOKEN"):
            patch.delenv(name, raising=False)
        with mock_aws():
            session = boto3.Session(region_name=REGION)
            yield cache(lambda service: session.client(service))


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """A name that no other test uses, from what it is for."""
    return lambda name: f"{name}-{next(_numbers)}"
