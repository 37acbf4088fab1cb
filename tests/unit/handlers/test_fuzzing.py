"""Thousands of requests made from the OpenAPI document, through the API's handler on the in-memory twins."""

import base64
import json
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
import schemathesis

from duebook.handlers.api import handler
from duebook_client import Request, Response
from tests import api_contract, fuzzing, hostile
from tests.unit.builders import END
from tests.unit.handlers.api_events import event
from tests.unit.world import Context, World

SCHEMA = fuzzing.document(examples=20)
BASE = "http://api.example"


@pytest.fixture
def lived_in(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """With the things that the document's examples name: a paid booking in dispute, its jobs, its chef."""
    monkeypatch.setenv("RECONCILER_FUNCTION", "reconciler")
    world.paid("wedding-77", customer_id="customer-7", chef_id="chef-9")
    world.put_job("remind_menu", "wedding-77", run_at=END)
    world.travel_to(END)
    return world


def send(request: Request) -> Response:
    """As the gateway does it: path decoded, names of headers in lower case."""
    url = urlsplit(request.url)
    body = request.body.decode("latin-1") if request.body else None
    made = event(request.method, unquote(url.path), body, query=dict(parse_qsl(url.query, keep_blank_values=True)))
    made["headers"] = {name.lower(): value for name, value in request.headers.items()}
    if body is not None:
        made |= {"body": base64.b64encode(request.body).decode(), "isBase64Encoded": True}
    answer = handler(made, Context())
    headers = {name.lower(): value for name, value in answer["headers"].items()}
    return Response(answer["statusCode"], headers, answer["body"].encode())


@SCHEMA.parametrize()  # type: ignore[untyped-decorator]
def test_every_request_is_answered_as_documented(lived_in: World, case: schemathesis.Case[Any]) -> None:
    fuzzing.known_ids(case)
    prepared, request = fuzzing.request_of(case, BASE)
    fuzzing.judge(case, prepared, send(request), where="in process")


def test_no_hostile_request_makes_it_fail_and_each_is_answered_as_documented(lived_in: World) -> None:
    for request in hostile.requests(BASE):
        answer = send(request)
        path = unquote(urlsplit(request.url).path)
        api_contract.check(request.method, path, answer.status, json.loads(answer.body))
        assert answer.status < 500, (request, answer)
        fuzzing.sent["hostile, in process"] += 1
