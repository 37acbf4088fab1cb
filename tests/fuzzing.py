"""The API's OpenAPI document turned into requests, valid and broken ones, and each answer held to it.

Schemathesis makes the requests (examples, every boundary of every schema, random ones) and judges the answers: no 5xx,
a documented status, content type and schema, nothing accepted that the schema forbids. The same requests every time.
"""

import json
import zlib
from collections import Counter
from typing import Any

import requests
import schemathesis
from schemathesis.checks import CHECKS, load_all_checks

from duebook_client import Request, Response
from stacks import openapi
from stacks.openapi.examples import PARAMETERS

load_all_checks()
NOT_OURS = {
    "positive_data_acceptance": "what fits the schema may be refused all the same: an instant that is past",
    "unsupported_method": "the gateway answers 404 for what it does not route, and so does the service",
    "ignored_auth": "who may call is IAM's and has tests of its own",
}
"""Checks that do not apply, and why."""
CHECKED: list[Any] = [check for check in CHECKS.get_all() if check.__name__ not in NOT_OURS]

sent: Counter[str] = Counter()
"""How many requests were sent and judged, by where."""


def document(*, examples: int, coverage: bool = True) -> Any:
    """The document as schemathesis's, with so many random requests an operation.

    `coverage`: also each boundary of each schema, kept and broken, some fifty requests an operation.
    """
    settings = {
        "seed": 5,
        "generation": {"deterministic": True, "max-examples": examples, "database": "none"},
        "phases": {"coverage": {"enabled": coverage, "unexpected-methods": ["patch", "options"]}},
    }
    written = json.loads(openapi.FILE.read_text(encoding="utf-8"))
    del written["security"]  # each request is signed, whatever else is wrong with it
    return schemathesis.openapi.from_dict(written, config=schemathesis.Config.from_dict(settings))


def known_ids(case: schemathesis.Case[Any]) -> None:
    """Let every second valid request be about something that is there."""
    told = zlib.crc32(repr((case.path, case.query, case.body)).encode())
    is_negative = case.meta is not None and case.meta.generation.mode.is_negative
    if case.path_parameters and not is_negative and told % 2:
        case.path_parameters = {name: PARAMETERS[name] for name in case.path_parameters}


def request_of(case: schemathesis.Case[Any], base_url: str) -> tuple[requests.PreparedRequest, Request]:
    """The case as it goes over the wire."""
    prepared = requests.Request(**case.as_transport_kwargs(base_url=base_url)).prepare()
    body: Any = prepared.body or b""
    headers = {name: str(value) for name, value in prepared.headers.items() if name.lower() != "content-length"}
    return prepared, Request(
        method=str(prepared.method),
        url=str(prepared.url),
        headers=headers,
        body=body.encode() if isinstance(body, str) else bytes(body),
    )


def judge(case: schemathesis.Case[Any], prepared: requests.PreparedRequest, answer: Response, *, where: str) -> None:
    """Raises for an answer that is not as documented."""
    sent[where] += 1
    response = schemathesis.Response(
        status_code=answer.status,
        headers={name: [value] for name, value in answer.headers.items()},
        content=answer.body,
        request=prepared,
        elapsed=0.0,
        verify=False,
    )
    case.validate_response(response, checks=CHECKED)
