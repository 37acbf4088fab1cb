"""API Gateway HTTP API events as they are (payload format 2.0), and the API's answer to them."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from duebook.handlers.api import handler
from tests import api_contract
from tests.unit.world import Context


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    headers: dict[str, str]

    @property
    def error(self) -> tuple[str, str | None]:
        """(code, field) of an error."""
        return self.body["error"]["code"], self.body["error"].get("field")


def event(
    method: str,
    path: str,
    body: str | None = None,
    *,
    query: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
    base64: bool = False,
) -> dict[str, Any]:
    text = urlencode(query or {})
    made: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": quote(path),
        "rawQueryString": text,
        "headers": {"content-type": "application/json", "host": "api.example", **(headers or {})},
        "requestContext": {
            "accountId": "000000000000",
            "apiId": "api-1",
            "authorizer": {"iam": {"userArn": "arn:aws:iam::000000000000:user/marketplace"}},
            "domainName": "api.example",
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "192.0.2.1",
                "userAgent": "test",
            },
            "requestId": "req-1",
            "routeKey": "$default",
            "stage": "$default",
            "time": "01/Aug/2026:10:00:00 +0000",
            "timeEpoch": 1_785_578_400_000,
        },
        "isBase64Encoded": base64,
    }
    if query:
        made["queryStringParameters"] = query
    if body is not None:
        made["body"] = body
    return made


def call(method: str, path: str, body: Any = None, **more: Any) -> Answer:
    """`body`: a value that is sent as JSON, or text that is sent as it is. The answer is held to docs/api."""
    text = body if body is None or isinstance(body, str) else json.dumps(body)
    answer = handler(event(method, path, text, **more), Context())
    headers = {name.lower(): value for name, value in (answer.get("headers") or {}).items()}
    for name, values in (answer.get("multiValueHeaders") or {}).items():
        headers[name.lower()] = values[0]
    told = Answer(answer["statusCode"], json.loads(answer["body"]), headers)
    api_contract.check(method, path, told.status, told.body)
    return told
