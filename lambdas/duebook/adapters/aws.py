"""The one way to call AWS: what goes wrong becomes an error of the domain, by its code and never by its text."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from botocore import exceptions
from botocore.exceptions import ClientError

from duebook.domain.errors import AwsFailure, DuebookError

T = TypeVar("T")


def call(service: str, kinds: Mapping[str, type[AwsFailure]], request: Callable[[], T]) -> T:
    """Make one request; the SDK repeats throttles, 5xx and broken connections before an error arrives here.

    `kinds`: AWS error code → what to raise; any other code, and no answer at all, is an `AwsFailure`. After a
    time-out it is not known whether the request took effect.
    """
    try:
        return request()
    except ClientError as error:
        raise failure(service, kinds, code_of(error)) from error
    except (exceptions.ConnectionError, exceptions.HTTPClientError) as error:
        raise failure(service, kinds, type(error).__name__) from error


def failure(service: str, kinds: Mapping[str, type[AwsFailure]], code: str) -> DuebookError:
    return kinds.get(code, AwsFailure)(f"{service} answered {code}", aws_code=code)


def code_of(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "Unknown"))
