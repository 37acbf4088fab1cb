"""Signature Version 4, checked against the algorithm written down in AWS's guide, not against botocore."""

import hashlib
import hmac
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlsplit

import boto3
import botocore.session
import pytest
from botocore.credentials import Credentials, RefreshableCredentials
from botocore.exceptions import CredentialRetrievalError

from duebook_client import NoCredentials, Request
from tests.unit.client.fakes import (
    ACCESS_KEY,
    BOOKING,
    JOB,
    REGION,
    SECRET_KEY,
    FixedSession,
    ScriptedTransport,
    answer,
    client,
    refusal,
)

AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<day>\d{8})/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request, "
    r"SignedHeaders=(?P<signed>[a-z0-9;-]+), Signature=(?P<signature>[0-9a-f]{64})"
)


def _lower(request: Request) -> dict[str, str]:
    return {name.lower(): value for name, value in request.headers.items()}


def _authorization(request: Request) -> re.Match[str]:
    found = AUTHORIZATION.fullmatch(_lower(request)["authorization"])
    assert found is not None
    return found


def _expected_signature(request: Request, secret: str = SECRET_KEY) -> str:
    """IAM guide, "Create a signed AWS API request": canonical request, string to sign, derived key."""
    url = urlsplit(request.url)
    headers = {"host": url.netloc} | _lower(request)
    signed = _authorization(request)["signed"]
    canonical = "\n".join(
        [
            request.method,
            quote(url.path),
            "&".join(sorted(url.query.split("&"))) if url.query else "",
            "".join(f"{name}:{headers[name].strip()}\n" for name in signed.split(";")),
            signed,
            hashlib.sha256(request.body).hexdigest(),
        ]
    )
    date = headers["x-amz-date"]
    scope = f"{date[:8]}/{REGION}/execute-api/aws4_request"
    to_sign = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{secret}".encode()
    for part in (date[:8], REGION, "execute-api", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()


def test_a_body_is_signed_with_its_hash_for_execute_api_in_the_given_region() -> None:
    transport = ScriptedTransport(answer({**JOB, "applied": True}))
    client(transport).put_job("b1", "remind_guest", datetime(2026, 11, 12, 9, tzinfo=UTC), payload={"mail": 4})
    found = _authorization(transport.sent[0])
    assert (found["key"], found["region"], found["service"]) == (ACCESS_KEY, REGION, "execute-api")
    assert {"host", "x-amz-date", "content-type"} <= set(found["signed"].split(";"))
    assert found["signature"] == _expected_signature(transport.sent[0])


def test_a_query_is_signed_as_it_is_sent() -> None:
    transport = ScriptedTransport(answer({"jobs": [], "cursor": None}))
    start = datetime(2026, 11, 12, 9, tzinfo=UTC)
    list(client(transport).due(start, start + timedelta(days=1), job="remind_guest"))
    assert "from=2026-11-12T09%3A00%3A00Z" in transport.sent[0].url
    assert _authorization(transport.sent[0])["signature"] == _expected_signature(transport.sent[0])


def test_another_body_has_another_signature() -> None:
    transport = ScriptedTransport(answer({**JOB, "applied": True}))
    client(transport).put_job("b1", "remind_guest", datetime(2026, 11, 12, 9, tzinfo=UTC), payload=1)
    sent = transport.sent[0]
    forged = Request(sent.method, sent.url, sent.headers, sent.body.replace(b"1", b"2"))
    assert _authorization(forged)["signature"] != _expected_signature(forged)


def test_a_session_token_is_sent_and_signed() -> None:
    transport = ScriptedTransport(answer(BOOKING))
    client(transport, session=FixedSession(Credentials(ACCESS_KEY, SECRET_KEY, "a-token"))).booking("b1")
    assert _lower(transport.sent[0])["x-amz-security-token"] == "a-token"
    assert "x-amz-security-token" in _authorization(transport.sent[0])["signed"].split(";")
    assert _authorization(transport.sent[0])["signature"] == _expected_signature(transport.sent[0])


def test_an_idempotency_key_is_signed() -> None:
    transport = ScriptedTransport(answer(BOOKING))
    client(transport).accept("b1")
    assert "idempotency-key" in _authorization(transport.sent[0])["signed"].split(";")


def test_the_host_header_given_is_the_one_that_is_signed_and_sent() -> None:
    transport = ScriptedTransport(answer(BOOKING))
    host = "abc123.execute-api.localhost"
    client(transport, base_url="http://127.0.0.1:4566", host_header=host).booking("b1")
    sent = transport.sent[0]
    assert sent.url == "http://127.0.0.1:4566/bookings/b1"
    assert sent.headers["Host"] == host
    assert _authorization(sent)["signature"] == _expected_signature(sent)


def test_every_send_is_signed_anew_with_the_credentials_of_that_moment() -> None:
    class Rotating:
        def __init__(self) -> None:
            self.calls = 0

        def get_credentials(self) -> Credentials:
            self.calls += 1
            return Credentials(f"KEY{self.calls}", SECRET_KEY)

    transport = ScriptedTransport(refusal(503, "unavailable"), answer(BOOKING))
    client(transport, session=Rotating()).booking("b1")
    assert [_authorization(sent)["key"] for sent in transport.sent] == ["KEY1", "KEY2"]
    assert [_authorization(sent)["signature"] for sent in transport.sent] == [
        _expected_signature(sent) for sent in transport.sent
    ]


def test_credentials_that_expire_are_refreshed() -> None:
    def issued(number: int) -> dict[str, str]:
        expires = datetime.now(UTC) + (timedelta(hours=6) if number else timedelta(seconds=30))
        return {
            "access_key": f"KEY{number}",
            "secret_key": SECRET_KEY,
            "token": "t",
            "expiry_time": expires.isoformat(),
        }

    numbers: Iterator[int] = iter((1, 2))
    credentials = RefreshableCredentials.create_from_metadata(
        metadata=issued(0), refresh_using=lambda: issued(next(numbers)), method="test"
    )
    transport = ScriptedTransport(answer(BOOKING))
    caller = client(transport, session=FixedSession(credentials))
    caller.booking("b1")
    caller.booking("b1")
    assert [_authorization(sent)["key"] for sent in transport.sent] == ["KEY1", "KEY1"]


@pytest.mark.parametrize("kind", ["boto3", "botocore"])
def test_a_session_of_either_library_will_do(kind: str) -> None:
    session: Any
    if kind == "boto3":
        session = boto3.Session(ACCESS_KEY, SECRET_KEY, region_name=REGION)
    else:
        session = botocore.session.Session()
        session.set_credentials(ACCESS_KEY, SECRET_KEY)
    transport = ScriptedTransport(answer(BOOKING))
    client(transport, session=session).booking("b1")
    assert _authorization(transport.sent[0])["key"] == ACCESS_KEY


def test_without_credentials_nothing_is_sent() -> None:
    transport = ScriptedTransport(answer(BOOKING))
    with pytest.raises(NoCredentials, match="no AWS credentials"):
        client(transport, session=FixedSession(None)).booking("b1")
    assert transport.sent == []


def test_credentials_that_cannot_be_refreshed_are_told_as_such() -> None:
    def refused() -> Any:
        raise CredentialRetrievalError(provider="test", error_msg="denied")

    metadata = {
        "access_key": "K",
        "secret_key": "S",
        "token": "t",
        "expiry_time": (datetime.now(UTC) + timedelta(seconds=1)).isoformat(),
    }
    credentials = RefreshableCredentials.create_from_metadata(metadata=metadata, refresh_using=refused, method="test")
    transport = ScriptedTransport(answer(BOOKING))
    with pytest.raises(NoCredentials, match="denied"):
        client(transport, session=FixedSession(credentials)).booking("b1")
