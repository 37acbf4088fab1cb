"""Reads a JSON object field by field: known fields by type, unknown ones ignored. Raises `BadAnswer`."""

import json
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any, TypeVar

from duebook_client.errors import BadAnswer

T = TypeVar("T")


def read_object(body: bytes | str, what: str) -> Mapping[str, Any]:
    """The JSON object in `body`."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadAnswer(f"{what} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadAnswer(f"{what} is no JSON object")
    return value


class Fields:
    """One object of an answer; `what` names it in errors."""

    def __init__(self, value: Any, what: str) -> None:
        if not isinstance(value, Mapping):
            raise BadAnswer(f"{what} is no JSON object: {value!r}")
        self.what = what
        self.raw: Mapping[str, Any] = dict(value)

    def text(self, name: str) -> str:
        return self._needed(name, self.text_or_none(name))

    def text_or_none(self, name: str) -> str | None:
        value = self.raw.get(name)
        if value is None or isinstance(value, str):
            return value
        raise self._wrong(name, "text")

    def texts(self, name: str) -> tuple[str, ...]:
        """The list of texts `name`, empty where there is none."""
        value = self.raw.get(name)
        if value is None:
            return ()
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        raise self._wrong(name, "a list of texts")

    def whole(self, name: str) -> int:
        return self._needed(name, self.whole_or_none(name))

    def whole_or_none(self, name: str) -> int | None:
        value = self.raw.get(name)
        if value is None or type(value) is int:
            return value
        raise self._wrong(name, "a whole number")

    def flag_or_none(self, name: str) -> bool | None:
        value = self.raw.get(name)
        if value is None or isinstance(value, bool):
            return value
        raise self._wrong(name, "true or false")

    def flag(self, name: str) -> bool:
        return self._needed(name, self.flag_or_none(name))

    def instant(self, name: str) -> datetime:
        return self._needed(name, self.instant_or_none(name))

    def instant_or_none(self, name: str) -> datetime | None:
        text = self.text_or_none(name)
        if text is None:
            return None
        try:
            instant = datetime.fromisoformat(text)
        except ValueError:
            raise self._wrong(name, "an ISO 8601 time") from None
        if instant.tzinfo is None:
            raise self._wrong(name, "a time with offset")
        return instant

    def day(self, name: str) -> date:
        try:
            return date.fromisoformat(self.text(name))
        except ValueError:
            raise self._wrong(name, "a day") from None

    def duration_or_none(self, name: str) -> timedelta | None:
        seconds = self.whole_or_none(name)
        return None if seconds is None else timedelta(seconds=seconds)

    def mapping(self, name: str) -> Mapping[str, Any]:
        """The object `name`, empty where there is none."""
        value = self.raw.get(name)
        if value is None:
            return {}
        if isinstance(value, Mapping):
            return dict(value)
        raise self._wrong(name, "an object")

    def part_or_none(self, name: str) -> "Fields | None":
        value = self.raw.get(name)
        return None if value is None else Fields(value, f"{self.what}.{name}")

    def part(self, name: str) -> "Fields":
        return self._needed(name, self.part_or_none(name))

    def parts(self, name: str) -> list["Fields"]:
        value = self.raw.get(name)
        if value is None:
            return []
        if isinstance(value, list):
            return [Fields(each, f"{self.what}.{name}[{position}]") for position, each in enumerate(value)]
        raise self._wrong(name, "a list")

    def _needed(self, name: str, value: T | None) -> T:
        if value is None:
            raise BadAnswer(f"{self.what} lacks {name}")
        return value

    def _wrong(self, name: str, wanted: str) -> BadAnswer:
        return BadAnswer(f"{self.what}.{name} is not {wanted}: {self.raw.get(name)!r}")
