"""Events held to docs/events: the envelope, the schema of their type, and no field that is not documented."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

FOLDER = Path(__file__).parents[2] / "docs" / "events"


@cache
def schemas() -> dict[str, dict[str, Any]]:
    """File name → schema."""
    return {path.name: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


@cache
def documented() -> frozenset[str]:
    """Every type that has a schema."""
    return frozenset(name.removesuffix(".schema.json") for name in schemas()) - {"envelope"}


@cache
def _validator(type_: str) -> Draft202012Validator:
    found = {name: Resource.from_contents(schema) for name, schema in schemas().items()}
    registry: Registry[Any] = Registry().with_resources(found.items())
    return Draft202012Validator(schemas()[f"{type_}.schema.json"], registry=registry)


_shapes_seen: set[str] = set()


def check(event: Mapping[str, Any]) -> None:
    """Raises AssertionError for an event that is not as documented. Of each shape one is looked at."""
    shape = repr((event["type"], event.get("state"), sorted(event), _shape(event["data"])))
    if shape in _shapes_seen:
        return
    assert event["type"] in documented(), f"{event['type']} has no schema in docs/events"
    problems = [f"{error.json_path}: {error.message}" for error in _validator(event["type"]).iter_errors(event)]
    assert not problems, (event, problems)
    envelope = schemas()["envelope.schema.json"]["properties"]
    data = schemas()[f"{event['type']}.schema.json"]["properties"]["data"]["properties"]
    assert event.keys() <= envelope.keys(), f"not documented: {event.keys() - envelope.keys()}"
    assert event["data"].keys() <= data.keys(), f"{event['type']}: not documented: {event['data'].keys() - data.keys()}"
    _shapes_seen.add(shape)


def _shape(data: Mapping[str, Any]) -> list[str]:
    return sorted(f"{name}:{type(value).__name__}:{value if name == 'status' else ''}" for name, value in data.items())
