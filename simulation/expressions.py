"""The JSONata that the dispute's workflow uses, evaluated by `jsonata-python` on a clock that is passed in.

An expression that uses anything else is refused when the definition is loaded, so that nothing in a simulation means
something different from what it means at Step Functions. A value that is undefined fails there, as it does there
(Step Functions guide, "Transforming data with JSONata").
"""

import json
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from jsonata import Jsonata
from jsonata.jexception import JException

FUNCTIONS = frozenset({"exists", "max", "ceil", "toMillis", "millis"})
STATES = frozenset({"input", "result", "context"})
"""What of `$states` is there."""
OPERATORS = frozenset({"=", "-", "/"})

Variables = Mapping[str, Any]
Evaluate = Callable[[Variables, datetime], Any]
"""(variables with `states` among them, now) → JSON."""


class NotSupported(Exception):
    """The definition uses what this interpreter does not know; says where, what, and what to do."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}; teach simulation/ what Step Functions does with it, with a test on both")


class QueryError(Exception):
    """The expression has no value: Step Functions fails the state with States.QueryEvaluationError."""


def template(value: Any, where: str, variables: Collection[str]) -> Evaluate:
    """A field of a JSONata state: strings in `{% %}` are expressions, at any depth, of these variables."""
    if isinstance(value, Mapping):
        fields = {key: template(part, f"{where}.{key}", variables) for key, part in value.items()}
        return lambda found, now: {key: evaluate(found, now) for key, evaluate in fields.items()}
    if isinstance(value, list):
        raise NotSupported(where, "a list")
    if isinstance(value, str) and value.startswith("{%") and value.endswith("%}"):
        return _expression(value[2:-2].strip(), where, variables)
    return lambda _, __: value


def _expression(text: str, where: str, variables: Collection[str]) -> Evaluate:
    try:
        parsed = Jsonata(text)
    except JException as error:
        raise NotSupported(where, f"{text!r} is no JSONata ({error})") from error
    _refuse_unknown(parsed.ast, where, variables)

    def evaluate(found: Variables, now: datetime) -> Any:
        millis = int(now.timestamp() * 1000)
        try:
            value = parsed.evaluate(None, {**found, "millis": Jsonata.JLambda(lambda: millis)})
        except JException as error:
            raise QueryError(f"{where}: {text!r} failed: {error}") from error
        if value is None:
            raise QueryError(f"{where}: {text!r} returned nothing (undefined)")
        return json.loads(json.dumps(value))

    return evaluate


def _refuse_unknown(node: Any, where: str, variables: Collection[str]) -> None:
    if node.stages or node.predicate or node.group:
        raise NotSupported(where, f"a JSONata filter or grouping at {_named(node)!r}")
    parts = _parts(node)
    match node.type:
        case "number" | "string" | "name" | "condition" | "block":
            pass
        case "path" if node.steps[0].type == "variable" and node.steps[0].value == "states":
            if len(node.steps) < 2 or node.steps[1].value not in STATES:
                raise NotSupported(where, f"$states but for its {', '.join(sorted(STATES))}")
            parts = node.steps[1:]
        case "path":
            pass
        case "variable":
            if node.value not in variables:
                raise NotSupported(where, f"${node.value}, which no state assigns")
        case "function" if node.procedure.type == "variable" and node.procedure.value in FUNCTIONS:
            pass
        case "binary" if node.value in OPERATORS:
            pass
        case "unary" if node.value == "[" or (node.value == "{" and not node.lhs_object):
            pass
        case _:
            raise NotSupported(where, f"JSONata's {node.type} {_named(node)!r}")
    for part in parts:
        _refuse_unknown(part, where, variables)


def _named(node: Any) -> str:
    return f"${node.procedure.value}" if node.type == "function" else str(node.value)


def _parts(node: Any) -> list[Any]:
    """What `jsonata-python` keeps an expression's parts in."""
    many = [getattr(node, name, None) or () for name in ("steps", "arguments", "expressions")]
    one = [getattr(node, name, None) for name in ("condition", "then", "_else", "lhs", "rhs")]
    return [part for parts in many for part in parts] + [part for part in one if hasattr(part, "type")]
