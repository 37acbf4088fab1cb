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
    kind: Any = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    names = _names(kind)
    if names is not None:
        pairs = [(name, getattr(value, name)) for name in names]
        return {name: encode(item) for name, item in pairs if item is not None}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str | int):
        return value
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, timedelta):
        return int(value.total_seconds())
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    raise TypeError(f"cannot store {value!r}")


@cache
def _names(kind: Any) -> tuple[str, ...] | None:
    """A dataclass's fields; None for anything else."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else None


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
        return lambda value: tuple(element(inner) for inner in value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    if isinstance(hint, type) and is_dataclass(hint):
        return _dataclass_decoder(hint)
    raise TypeError(f"cannot read a {hint!r}")


def _dataclass_decoder(cls: Any) -> Callable[[Any], Any]:
    hints = get_type_hints(cls)
    readers = [(field.name, _decoder(hints[field.name])) for field in fields(cls)]
    plain = [name for name, reader in readers if reader is _as_it_is]
    others = [(name, reader) for name, reader in readers if reader is not _as_it_is]
    optional = {
        f.name: None
        for f in fields(cls)
        if f.default is MISSING and f.default_factory is MISSING and type(None) in get_args(hints[f.name])
    }

    def read(value: Any) -> Any:
        found = optional | {name: value[name] for name in plain if name in value}
        for name, reader in others:
            if name in value:
                found[name] = reader(value[name])
        return cls(**found)

    return read


def _as_it_is(value: Any) -> Any:
    return value
