"""Answers of the API held to docs/api/openapi.json: the status is documented, the body fits, no field is unknown."""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import jsonschema_rs

from stacks import openapi

Json = dict[str, Any]


@cache
def document() -> Json:
    """The committed one; a test keeps it current."""
    found: Json = json.loads(openapi.FILE.read_text(encoding="utf-8"))
    return found


def check(method: str, path: str, status: int, body: Any) -> None:
    """Raises AssertionError for an answer that is not documented. A route that is not there answers 404."""
    operation = _operation(method, path)
    if operation is None:
        assert status == 404, (method, path, status)
        return
    name = operation["operationId"]
    assert str(status) in operation["responses"], f"{name} answered {status}, which is not documented: {body}"
    problems = [f"{error.instance_path}: {error.message}" for error in _validator(name, status).iter_errors(body)]
    assert not problems, (name, status, body, problems)


def _operation(method: str, path: str) -> Json | None:
    for template, item in document()["paths"].items():
        if method.lower() in item and re.fullmatch(re.sub(r"{[^}]+}", "[^/]+", template), path):
            found: Json = item[method.lower()]
            return found
    return None


@cache
def _validator(name: str, status: int) -> Any:
    [response] = [
        operation["responses"][str(status)]
        for _, _, operation in openapi.operations(document())
        if operation["operationId"] == name
    ]
    if "$ref" in response:
        response = document()["components"]["responses"][response["$ref"].rsplit("/", 1)[-1]]
    schema = response["content"][openapi.JSON_TYPE]["schema"]
    return jsonschema_rs.Draft202012Validator({**schema, "components": _strict()}, validate_formats=True)


@cache
def _strict() -> Json:
    """The document's schemas, each of which takes no field that it does not name."""
    schemas: Mapping[str, Json] = document()["components"]["schemas"]
    strict = {
        name: {"additionalProperties": False, **schema} if "properties" in schema else schema
        for name, schema in schemas.items()
    }
    return {"schemas": strict}
