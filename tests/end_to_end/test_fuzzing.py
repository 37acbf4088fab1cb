"""The API's own OpenAPI document against the deployed API: signed requests, valid and broken, over real HTTP."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import schemathesis

from duebook_client import Request, Response, Urllib3Transport
from duebook_client.transport import credentials_of, signed
from local.emulator import REGION
from local.world import World
from tests import api_contract, fuzzing, hostile
from tests.end_to_end.conftest import CHEF, whole_minute

SCHEMA = fuzzing.document(examples=3, coverage=False)
EVERY = 29
"""Of the hostile requests, all of which the unit tests send in process, every so manieth."""

Send = Callable[[Request], Response]


@pytest.fixture(scope="module")
def send(rough_world: World) -> Iterator[Send]:
    """Signed by somebody who may call every route, about things that the document's examples name."""
    client = rough_world.client
    client.put_booking(
        "wedding-77",
        customer_id="customer-7",
        chef_id="chef-9",
        event_start=whole_minute(rough_world.now() + timedelta(days=60)),
        price_minor=120_000,
        currency="EUR",
    )
    client.accept("wedding-77", actor=CHEF)
    client.put_job("wedding-77", "remind_menu", rough_world.now() + timedelta(days=9))
    credentials = credentials_of(rough_world.user("fuzzer", *rough_world.policies))
    transport = Urllib3Transport()
    yield lambda request: transport.send(signed(request, credentials, REGION))
    transport.close()
    client.resume_payouts()
    rough_world.settle()


@SCHEMA.parametrize()  # type: ignore[untyped-decorator]
def test_every_request_is_answered_as_documented(rough_world: World, send: Send, case: schemathesis.Case[Any]) -> None:
    fuzzing.known_ids(case)
    prepared, request = fuzzing.request_of(case, rough_world.url)
    fuzzing.judge(case, prepared, send(request), where="over HTTP")


def test_no_hostile_request_makes_it_fail_and_each_is_answered_as_documented(rough_world: World, send: Send) -> None:
    base = urlsplit(rough_world.url).path
    unsigned = 0
    for number, request in enumerate(hostile.requests(rough_world.url)):
        if number % EVERY:
            continue
        answer = send(request)
        if answer.status == 403:  # the emulator signs some odd URLs in another way than the SDK
            unsigned += 1
            continue
        path = unquote(urlsplit(request.url).path).removeprefix(base)
        api_contract.check(request.method, path, answer.status, json.loads(answer.body))
        assert answer.status < 500, (request, answer)
        fuzzing.sent["hostile, over HTTP"] += 1
    assert unsigned < fuzzing.sent["hostile, over HTTP"] / 4
