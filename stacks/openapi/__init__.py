"""The HTTP API's contract as OpenAPI 3.1: `python -m stacks.openapi` writes `docs/api/openapi.json`.

Routes, parameters and request bodies are the handlers' own, as Powertools tells them. What Lambda must not pay for is
added here, outside of it: the shape of answers, examples, errors, texts.
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter

from stacks import ROOT
from stacks.components.routes import ROUTES
from stacks.openapi import texts
from stacks.openapi.examples import EXAMPLES, PARAMETERS

FILE = ROOT / "docs" / "api" / "openapi.json"

TAKE_IDEMPOTENCY_KEY = (
    *("accept", "decline", "pay_booking", "move", "cancel", "open_dispute", "redrive", "release_payout"),
    *("reply", "answer_offer", "decide", "appeal", "withdraw"),
)
"""Commands that are not idempotent by their path and body alone."""
ONLY_START = ("start_reconcile",)
"""Answered 202: what was asked for goes on elsewhere."""
MAY_BE_MISSING = ("get_reconcile", "get_reconciliation")
"""Without an id in their path, and 404 all the same while there is nothing."""
INSTANTS = ("accepted_at", "event_end", "event_start", "from", "paid_at", "requested_at", "run_at", "to")
"""Text in a request that is an instant with its offset."""
DAYS = ("day",)

LINKED: Mapping[str, Mapping[str, str]] = {
    "put_booking": {"booking_id": "$request.path.booking_id"},
    "put_job": {"booking_id": "$request.path.booking_id", "job": "$request.path.job"},
    "put_chef": {"chef_id": "$request.path.chef_id"},
    "open_dispute": {"dispute_id": "$response.body#/dispute_id"},
    "get_payments": {"payment_id": "$response.body#/payments/0/payment_id"},
}
"""What makes or finds a thing, and where its ids are: all that takes just these ids in its path goes on from it."""

Json = dict[str, Any]
JSON_TYPE = "application/json"


def document() -> Json:
    """The whole document, as plain values."""
    api = _api()
    found: Json = json.loads(api.app.get_openapi_json_schema())
    schemas: Json = found["components"]["schemas"]
    for never_answered in ("HTTPValidationError", "ValidationError", "ResponseValidationError"):
        schemas.pop(never_answered, None)
    answers, of_answers = _answers()
    if clash := [name for name, schema in of_answers.items() if schemas.setdefault(name, schema) != schema]:
        raise ValueError(f"a request and an answer are both called {', '.join(sorted(clash))}")
    for schema in schemas.values():
        _tell_times(schema)
    for method, path, operation in operations(found):
        _complete(api, method, path, operation, answers)
    _link(found)
    return {
        "openapi": found["openapi"],
        "info": {
            "title": "Duebook",
            "version": tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"],
            "summary": texts.SUMMARY,
            "description": texts.DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [texts.SERVER],
        "security": [{"sigv4": []}],
        "tags": [{"name": group, "description": texts.GROUPS[group]} for group in ROUTES],
        "paths": _plain(dict(sorted(found["paths"].items()))),
        "components": {
            "schemas": _plain(dict(sorted(schemas.items()))),
            "responses": {name: _error(*told) for name, told in texts.ERRORS.items()},
            "securitySchemes": {"sigv4": texts.SIGV4},
        },
    }


def text() -> str:
    """The document as its file has it."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def operations(found: Mapping[str, Any]) -> Iterator[tuple[str, str, Json]]:
    """Every operation of a document: method (in lower case), path, and what the document says of it."""
    for path, item in found["paths"].items():
        for method, operation in item.items():
            yield method, path, operation


def _api() -> Any:
    """The handlers, imported only where the document is made: they are not on everybody's path."""
    if str(ROOT / "lambdas") not in sys.path:
        sys.path.append(str(ROOT / "lambdas"))
    from duebook.handlers import api

    return api


# --- schemas -------------------------------------------------------------------------------------------------------


def _answers() -> tuple[Mapping[str, Json], Json]:
    """The schema of what each function answers, and the schemas that these refer to."""
    from stacks.openapi.answers import ANSWERS, Error, GatewayError

    kinds = {**ANSWERS, "Error": Error, "GatewayError": GatewayError}
    found, shared = TypeAdapter.json_schemas(
        [(name, "serialization", TypeAdapter(kind)) for name, kind in kinds.items()],
        ref_template="#/components/schemas/{model}",
    )
    return {name: dict(schema) for (name, _), schema in found.items()}, shared["$defs"]


def _tell_times(schema: Json) -> None:
    """In a request an instant is text; here it is told which text."""
    for name, value in schema.get("properties", {}).items():
        if name in INSTANTS:
            _as(value, "date-time")


def _as(schema: Json, form: str) -> None:
    """Name the format of the text in a schema, wherever it is text."""
    for alternative in (schema, *schema.get("anyOf", ()), *schema.get("oneOf", ())):
        if alternative is not schema and ("oneOf" in alternative or "anyOf" in alternative):
            _as(alternative, form)
        elif alternative.get("type") == "string":
            alternative["format"] = form


def _plain(value: Any) -> Any:
    """Without the titles that pydantic makes of names, and with whole bounds as whole numbers."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, dict):
        return value
    return {name: _plain(item) for name, item in value.items() if name != "title" or not isinstance(item, str)}


# --- one operation--------------------------------------------------------------------------------------------------


def _complete(api: Any, method: str, path: str, operation: Json, answers: Mapping[str, Json]) -> None:
    """`operation` as the reader needs it. The function's name is its id: Powertools puts path and method behind it."""
    name = str(operation["operationId"]).removesuffix(re.sub(r"\W", "_", path) + f"_{method}")
    told = re.sub(r"\s*\n\s*", " ", getattr(api, name).__doc__ or "").strip()
    if not told:
        raise ValueError(f"duebook.handlers.api.{name} has no docstring, and so the document no description of it")
    operation["operationId"] = name
    operation["summary"] = told.split(". ")[0].removesuffix(".")
    operation["description"] = told
    for parameter in operation.get("parameters", ()):
        _tell(parameter)
    if name in TAKE_IDEMPOTENCY_KEY:
        operation.setdefault("parameters", []).append(_idempotency_key(api))
    if "requestBody" in operation:
        _tell_body(api, operation["requestBody"], EXAMPLES[name])
    answer = {"description": texts.ANSWERED, "content": {JSON_TYPE: {"schema": answers[name]}}}
    operation["responses"] = {
        "202" if name in ONLY_START else "200": answer,
        **{status: {"$ref": f"#/components/responses/{error}"} for status, error in _errors(method, name, operation)},
    }


def _tell(parameter: Json) -> None:
    """Its meaning, its format, an example; in a query nothing is null."""
    name, schema = parameter["name"], parameter["schema"]
    if "anyOf" in schema:
        [schema] = [alternative for alternative in schema["anyOf"] if alternative != {"type": "null"}]
        parameter["schema"] = schema
    if name in INSTANTS + DAYS:
        schema["format"] = "date" if name in DAYS else "date-time"
    parameter["description"] = texts.PARAMETERS[name]
    if name in PARAMETERS:
        parameter["example"] = PARAMETERS[name]


def _tell_body(api: Any, body: Json, examples: Mapping[str, Any]) -> None:
    """No body is an empty object, which is enough where no field is required."""
    content = body["content"][JSON_TYPE]
    content["examples"] = {title: {"value": value} for title, value in examples.items()}
    model = getattr(api.models, content["schema"]["$ref"].rsplit("/", 1)[-1])
    body["required"] = any(field.is_required() for field in model.model_fields.values())


def _idempotency_key(api: Any) -> Json:
    return {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "description": texts.IDEMPOTENCY_KEY,
        "schema": {"type": "string", "pattern": f"^{api._IDEMPOTENCY_KEY}$"},
        "example": PARAMETERS["Idempotency-Key"],
    }


def _errors(method: str, name: str, operation: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What can go wrong follows from what an operation takes and does."""
    places = {parameter["in"] for parameter in operation.get("parameters", ())}
    may_send = method in ("put", "post")
    if may_send:
        yield "400", "MalformedBody"
    yield "403", "Forbidden"
    if "path" in places or name in MAY_BE_MISSING:
        yield "404", "NotFound"
    if method != "get" and name not in ONLY_START:
        yield "409", "Refused"
    if may_send:
        yield "413", "BodyTooLarge"
        yield "415", "NotJson"
    if places or "requestBody" in operation:
        yield "422", "Invalid"
    yield "429", "Throttled"
    yield "500", "Failed"
    yield "503", "Unavailable"


def _error(meaning: str, by_service: bool, by_gateway: bool) -> Json:
    """Errors have one shape; but what the gateway answers by itself has its own."""
    known = (("Error", by_service), ("GatewayError", by_gateway))
    shapes = [{"$ref": f"#/components/schemas/{name}"} for name, answers in known if answers]
    schema = shapes[0] if len(shapes) == 1 else {"anyOf": shapes}
    return {"description": meaning, "content": {JSON_TYPE: {"schema": schema}}}


def _link(found: Json) -> None:
    """From what makes a thing to what else can be done with it."""
    by_name = {operation["operationId"]: operation for _, _, operation in operations(found)}
    for source, ids in LINKED.items():
        by_name[source]["responses"]["200"]["links"] = {
            name: {"operationId": name, "parameters": dict(ids)}
            for name, target in sorted(by_name.items())
            if name != source
            and {parameter["name"] for parameter in target.get("parameters", ()) if parameter["in"] == "path"}
            == set(ids)
        }
