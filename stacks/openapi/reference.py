"""The API reference for people: the OpenAPI document as one Markdown page."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from stacks import ROOT
from stacks.openapi import operations

PAGE = ROOT / "docs" / "api" / "reference.md"
Json = Mapping[str, Any]


def render(document: Json) -> str:
    """The page: routes by group, then every shape they take or answer, then the errors."""
    schemas = document["components"]["schemas"]
    lines = [
        "# API reference",
        "",
        "Made from [`openapi.json`](openapi.json) by `make openapi`. Shapes are below the routes, errors at the end.",
        "",
        document["info"]["description"],
        "",
    ]
    for tag in document["tags"]:
        lines += [f"## {tag['name']}", "", tag.get("description", ""), ""]
        for method, path, operation in operations(document):
            if operation["tags"][0] == tag["name"]:
                lines += _route(method.upper(), path, operation)
    lines += ["## Shapes", ""]
    for name in sorted(schemas):
        lines += _shape(name, schemas[name])
    lines += ["## Errors", "", "| status | when |", "|---|---|"]
    lines += [f"| {status} | {text} |" for status, text in sorted(_errors(document).items())]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _route(method: str, path: str, operation: Json) -> list[str]:
    lines = [f"### {operation['summary']}", "", f"`{method} {path}`", ""]
    described = operation.get("description", "")
    if described.rstrip(".") != operation["summary"].rstrip("."):
        lines += [described, ""]
    parameters = operation.get("parameters", ())
    if parameters:
        lines += ["| parameter | in | | |", "|---|---|---|---|"]
        for given in parameters:
            needed = "required" if given.get("required") else ""
            told = _cell(given.get("description", ""))
            what = f"{_type(given['schema'])} {needed}".strip()
            lines.append(f"| `{given['name']}` | {given['in']} | {what} | {told} |")
        lines.append("")
    for content in operation.get("requestBody", {}).get("content", {}).values():
        lines += [f"Body: {_type(content['schema'])}", ""]
        for name, example in content.get("examples", {}).items():
            lines += [f"For example, {name}:", "", "```json", json.dumps(example["value"], indent=2), "```", ""]
    for status, answer in operation["responses"].items():
        if not status.startswith("2"):
            continue
        shapes = [_type(content["schema"]) for content in answer.get("content", {}).values()]
        lines += [f"Answers {status}{': ' + ', '.join(shapes) if shapes else ''}.", ""]
    refusals = [status for status in operation["responses"] if not status.startswith("2")]
    return [*lines, f"Refusals: {', '.join(refusals)}.", ""]


def _shape(name: str, schema: Json) -> list[str]:
    lines = [f"### {name}", "", schema.get("description", ""), ""]
    properties = schema.get("properties", {})
    if not properties:
        return [*lines, _type({**schema, "title": None}), ""]
    lines += ["| field | | |", "|---|---|---|"]
    required = schema.get("required", ())
    for field, value in properties.items():
        needed = "" if field in required else "optional"
        what = f"{_type(value)} {needed}".strip()
        lines.append(f"| `{field}` | {what} | {_cell(value.get('description', ''))} |")
    return [*lines, ""]


def _type(schema: Json) -> str:
    """A schema in a few words, with links to named ones."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    for several in ("oneOf", "anyOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(_type(one) for one in schema[several]))
    if "allOf" in schema:
        return " and ".join(_type(one) for one in schema["allOf"])
    kind = schema.get("type", "any JSON")
    if isinstance(kind, list):
        return " or ".join(_type({**schema, "type": one}) for one in kind)
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return " ".join([kind, *_limits(schema)])


def _limits(schema: Json) -> Iterator[str]:
    if "format" in schema:
        yield f"({schema['format']})"
    if "pattern" in schema:
        yield f"`{_cell(schema['pattern'])}`"
    for words, low, high in (("", "minimum", "maximum"), ("characters ", "minLength", "maxLength")):
        if high in schema:
            yield f"{words}{schema.get(low, 0):,} to {schema[high]:,}"
        elif low in schema:
            yield f"{words}from {schema[low]:,}"


def _errors(document: Json) -> dict[str, str]:
    """Status → when, from the answers that routes share."""
    shared = document["components"]["responses"]
    found: dict[str, str] = {}
    for _, _, operation in operations(document):
        for status, answer in operation["responses"].items():
            if "$ref" in answer:
                answer = shared[answer["$ref"].rsplit("/", 1)[1]]
            if not status.startswith("2"):
                found.setdefault(status, _cell(answer["description"]))
    return found


def _cell(text: str) -> str:
    """Text that stays within a table's cell."""
    return " ".join(text.split()).replace("|", "\\|")
