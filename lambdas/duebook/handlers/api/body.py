"""A request's body: JSON as the standard has it (no NaN, no Infinity), of bounded size and depth."""

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

from duebook.domain.errors import InvalidRequest

JSON_TYPE = "application/json"

LARGEST_BODY = 64 * 1024
"""Bytes of a request body; an own job's payload has half of it at most."""
DEEPEST = 64
"""Levels of lists and objects in each other; what checks and stores a body counts on a bound."""

MOST_DIGITS = 100
"""Of a whole number, sign included; Python itself stops at 4,300."""


def text_of(event: Mapping[str, Any]) -> str:
    """The body as text; API Gateway sends it in base64 unless its content type is text. Raises ValueError."""
    body = str(event.get("body") or "")
    return base64.b64decode(body, validate=True).decode() if event.get("isBase64Encoded") else body


def is_json(event: Mapping[str, Any]) -> bool:
    """Whether the body is said to be JSON; of one that is said to be nothing, that is taken for granted."""
    said = str(event.get("headers", {}).get("content-type") or JSON_TYPE)
    return said.partition(";")[0].strip().lower() == JSON_TYPE


def parsed(text: str) -> Any:
    """Raises `json.JSONDecodeError` for what is no JSON, `InvalidRequest` for what is nested too deeply."""
    try:
        value = json.loads(text, parse_constant=_no_constant, parse_float=_finite, parse_int=_whole)
    except json.JSONDecodeError:
        raise
    except ValueError as wrong:
        raise json.JSONDecodeError(str(wrong), text, 0) from None
    except RecursionError:
        raise _too_deep() from None
    level, depth = _containers([value]), 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise _too_deep()
        level = [inner for outer in level for inner in _containers(outer)]
    return value


def _containers(value: Any) -> list[Any]:
    """The lists and objects directly in a list or an object."""
    inside = value.values() if isinstance(value, dict) else value
    return [inner for inner in inside if isinstance(inner, dict | list)]


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:32]} is too large a number")
    return value


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"{text[:32]}... has more than {MOST_DIGITS} digits")
    return int(text)


def _too_deep() -> InvalidRequest:
    return InvalidRequest("nested_too_deeply", "body", f"a body has at most {DEEPEST} levels")
