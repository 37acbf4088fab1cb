"""How a request is signed and sent."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

import urllib3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import BotoCoreError
from botocore.httpsession import get_cert_path

from duebook_client.errors import DuebookError, NoCredentials

SERVICE = "execute-api"
"""The signing name of API Gateway's own endpoints (API Gateway guide, "IAM authorization")."""


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request; `url` with its query, percent-encoded."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    """One HTTP answer. Names of headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NoAnswer(DuebookError):
    """The connection failed or timed out: the request may or may not have arrived."""


class Transport(Protocol):
    """Sends one request once: no retries, no redirects. Raises `NoAnswer`."""

    def send(self, request: Request) -> Response: ...

    def close(self) -> None: ...


class Session(Protocol):
    """What is needed of a boto3 or botocore session to sign."""

    def get_credentials(self) -> Any: ...


class Urllib3Transport:
    """Connections that are kept and may be used from many threads. `connect` and `read`: time-outs in seconds.

    The read time-out is a little longer than API Gateway's own 30 s. `ca_certs`: a CA bundle, botocore's by default.
    """

    def __init__(
        self, *, connect: float = 5.0, read: float = 31.0, connections: int = 10, ca_certs: str | None = None
    ) -> None:
        self._pool = urllib3.PoolManager(
            maxsize=connections,
            timeout=urllib3.Timeout(connect=connect, read=read),
            retries=False,
            ca_certs=ca_certs or cast(str, get_cert_path(True)),
        )

    def send(self, request: Request) -> Response:
        """Raises `NoAnswer`."""
        try:
            answer = self._pool.request(
                request.method, request.url, body=request.body, headers=dict(request.headers), redirect=False
            )
            headers = {name.lower(): value for name, value in answer.headers.items()}
            return Response(answer.status, headers, answer.data)
        except urllib3.exceptions.HTTPError as error:
            raise NoAnswer(f"no answer from {urlsplit(request.url).netloc}: {error}") from error

    def close(self) -> None:
        """Close every connection."""
        self._pool.clear()


def credentials_of(session: Session) -> ReadOnlyCredentials:
    """The session's credentials as of now, refreshed if they are about to expire. Raises `NoCredentials`."""
    try:
        credentials = session.get_credentials()
        frozen = credentials.get_frozen_credentials() if credentials is not None else None
    except BotoCoreError as error:
        raise NoCredentials(f"the AWS credentials could not be had: {error}") from error
    if frozen is None or not frozen.access_key or not frozen.secret_key:
        raise NoCredentials("no AWS credentials found to sign with")
    return cast(ReadOnlyCredentials, frozen)


def signed(request: Request, credentials: ReadOnlyCredentials, region: str) -> Request:
    """The request with AWS Signature Version 4, dated now; the hash of the body is part of it.

    A `Host` header given is the one that is signed and sent, whatever the URL's host.
    """
    aws = AWSRequest(method=request.method, url=request.url, data=request.body, headers=dict(request.headers))
    SigV4Auth(credentials, SERVICE, region).add_auth(aws)
    return replace(request, headers=dict(aws.headers.items()))
