"""Domain values to plain ones (for a row) and back, by their type hints.

Reading is tolerant, so that rows outlive code: an unknown field is ignored, a missing one takes its default.
"""

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from duebook.domain.times import iso, parse

T = TypeVar("T")


def encode(value: Any) -> Any:
    """Datetimes as `iso`, durations as seconds, None left out of maps."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, timedelta):
        return int(value.total_seconds())
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if is_dataclass(value):
        pairs = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {name: encode(item) for name, item in pairs if item is not None}
    raise TypeError(f"cannot store {value!r}")


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
        return lambda value: None if value is None else some(value)
    if origin is Literal or hint in (str, int, bool, Any):
        return lambda value: value
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
        return lambda value: tuple(element(inner) for inner in value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    if isinstance(hint, type) and is_dataclass(hint):
        return _dataclass_decoder(hint)
    raise TypeError(f"cannot read a {hint!r}")


def _dataclass_decoder(cls: Any) -> Callable[[Any], Any]:
    hints = get_type_hints(cls)
    readers = [(field.name, _decoder(hints[field.name])) for field in fields(cls)]
    optional = {
        f.name
        for f in fields(cls)
        if f.default is MISSING and f.default_factory is MISSING and type(None) in get_args(hints[f.name])
    }

    def read(value: Any) -> Any:
        found = {name: reader(value[name]) for name, reader in readers if name in value}
        found.update({name: None for name in optional if name not in value})
        return cls(**found)

    return read
