"""Domain values to plain ones (for a row) and back, by their type hints.

Reading is tolerant, so that rows outlive code: an unknown field is ignored, a missing one takes its default.
"""

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache, lru_cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from duebook.domain.policy import Policy, Tier
from duebook.domain.times import iso, parse

T = TypeVar("T")

SHARED = (Policy, Tier)
"""Of these few different ones exist, each in many bookings: equal ones are read into one."""
_PLAIN = frozenset({str, int, bool})


def encode(value: Any) -> Any:
    """Datetimes as `iso`, durations as seconds, None left out of maps."""
    kind: Any = type(value)
    return _encoder(kind)(value)


@cache
def _encoder(kind: Any) -> Callable[[Any], Any]:
    """How a value of exactly this class is written. Raises TypeError for what has no place in a row."""
    if is_dataclass(kind):
        names = [field.name for field in fields(kind)]
        return lambda value: {
            name: item if type(item) in _PLAIN else encode(item)
            for name in names
            if (item := getattr(value, name)) is not None
        }
    if issubclass(kind, Enum):
        return lambda value: value.value
    if issubclass(kind, str | int | None):
        return _as_it_is
    if issubclass(kind, datetime):
        return iso
    if issubclass(kind, timedelta):
        return lambda value: int(value.total_seconds())
    if issubclass(kind, Mapping):
        return lambda value: {str(key): encode(item) for key, item in value.items()}
    if issubclass(kind, list | tuple):
        return lambda value: [encode(item) for item in value]
    raise TypeError(f"cannot store a {kind.__name__}")


def decode(as_type: type[T], value: Any) -> T:
    """The inverse of `encode`. Raises ValueError, KeyError or TypeError for a row that is not of this type."""
    found: T = _decoder(cast(Any, as_type))(value)
    return found


@cache
def _decoder(hint: Any) -> Callable[[Any], Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (inner,) = (argument for argument in arguments if argument is not type(None))
        some = _decoder(inner)
        if some is _as_it_is:
            return some
        return lambda value: None if value is None else some(value)
    if origin is Literal or hint in (str, int, bool, Any):
        return _as_it_is
    if hint is datetime:
        return parse
    if hint is timedelta:
        return lambda value: timedelta(seconds=value)
    if origin is not None and issubclass(origin, Mapping):
        key, item = (_decoder(argument) for argument in arguments)
        key = int if arguments[0] is int else key
        return lambda value: {key(name): item(inner) for name, inner in value.items()}
    if origin is tuple:
        element = _decoder(arguments[0])
        return lambda value: tuple([element(inner) for inner in value])
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    if isinstance(hint, type) and is_dataclass(hint):
        return _dataclass_decoder(hint)
    raise TypeError(f"cannot read a {hint!r}")


def _dataclass_decoder(cls: Any) -> Callable[[Any], Any]:
    """One call of the class with every field written out, as `dataclasses` writes `__init__`: it is read often."""
    hints = get_type_hints(cls)
    scope: dict[str, Any] = {"make": lru_cache(maxsize=1_000, typed=True)(cls) if cls in SHARED else cls}
    arguments = []
    for field in fields(cls):
        name, reader = field.name, _decoder(hints[field.name])
        found = f"value[{name!r}]"
        if reader is not _as_it_is:
            scope[f"read_{name}"] = reader
            found = f"read_{name}({found})"
        if field.default_factory is not MISSING:
            scope[f"default_{name}"] = field.default_factory
            found += f" if {name!r} in value else default_{name}()"
        elif field.default is not MISSING or type(None) in get_args(hints[name]):
            scope[f"default_{name}"] = None if field.default is MISSING else field.default
            found += f" if {name!r} in value else default_{name}"
        arguments.append(f"{name}={found}")
    read: Callable[[Any], Any] = eval(f"lambda value: make({', '.join(arguments)})", scope)
    return read


def _as_it_is(value: Any) -> Any:
    return value
