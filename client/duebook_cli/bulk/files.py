"""Files of rows: CSV with a header, or JSON lines. Every cell is text in a CSV and any JSON value in JSON lines."""

import csv
import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from duebook_cli.exits import Usage
from duebook_client import DuebookApiError, DuebookError

T = TypeVar("T")

JSON_LINES = (".jsonl", ".ndjson")
LONGEST_LINE = 1_000_000
"""Characters of one JSON line: far above any row."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """What is wrong with a row: the field (None: the row itself), and why."""

    field: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row that is not sent, or was refused; `line` counts from 1, the header's included."""

    line: int
    booking_id: str | None
    field: str | None
    reason: str

    @classmethod
    def by_service(cls, row: "Row[Any]", error: DuebookError) -> Self:
        """Of a row that was sent."""
        return cls(row.line, row.booking_id, error.field if isinstance(error, DuebookApiError) else None, str(error))

    def as_json(self) -> dict[str, Any]:
        return {"line": self.line, "booking_id": self.booking_id, "field": self.field, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Row(Generic[T]):
    """A row that was understood. `key`: the hash of what it says, by which it is known again."""

    line: int
    booking_id: str
    value: T
    key: str


@dataclass(frozen=True, slots=True)
class Rows(Generic[T]):
    """A whole file, understood. `digest`: SHA-256 of its bytes. `columns` of a CSV."""

    digest: str
    good: Sequence[Row[T]]
    refused: Sequence[Refusal]

    @property
    def number(self) -> int:
        """Of rows in the file."""
        return len(self.good) + len({refusal.line for refusal in self.refused})


def read_rows(
    path: Path,
    columns: Collection[str],
    needed: Collection[str],
    read: Callable[[Mapping[str, Any]], T | list[Wrong]],
) -> Rows[T]:
    """Read every row by `read`, which gives its value or all that is wrong with it; `needed`: columns of every header.

    A booking's second row is refused: which of two is meant can't be known. Raises Usage for a file that is none.
    """
    good: list[Row[T]] = []
    refused: list[Refusal] = []
    lines: dict[str, int] = {}
    content = path.read_bytes()
    if not content.strip():
        raise Usage(f"{path} is empty")
    for line, cells in _cells(path, columns, needed):
        if isinstance(cells, Wrong):
            refused.append(Refusal(line, None, cells.field, cells.reason))
            continue
        given = cells.get("booking_id")
        booking_id = given if isinstance(given, str) else None
        value = read(cells)
        if isinstance(value, list):
            refused += [Refusal(line, booking_id, wrong.field, wrong.reason) for wrong in value]
        elif booking_id is None:
            refused.append(Refusal(line, None, "booking_id", "is missing"))
        elif booking_id in lines:
            refused.append(Refusal(line, booking_id, "booking_id", f"is in line {lines[booking_id]} already"))
        else:
            key = hashlib.sha256(json.dumps(cells, sort_keys=True).encode()).hexdigest()
            good.append(Row(line, booking_id, value, key))
        if booking_id is not None:
            lines.setdefault(booking_id, line)
    return Rows(hashlib.sha256(content).hexdigest(), good, refused)


def write_refusals(path: Path, refusals: Sequence[Refusal]) -> None:
    """The report, as CSV: line, booking_id, field, reason."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("line", "booking_id", "field", "reason"))
        writer.writerows((each.line, each.booking_id, each.field, each.reason) for each in refusals)


def parsed_json(text: str) -> Any:
    """ValueError with the place within `text`, for which the caller knows the line."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"is no JSON: {error.msg} at character {error.pos + 1}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is no JSON: {error}") from None


def _cells(
    path: Path, columns: Collection[str], needed: Collection[str]
) -> Iterator[tuple[int, Mapping[str, Any] | Wrong]]:
    """Line number and cells; an empty cell is as none."""
    try:
        yield from _json_lines(path, columns) if path.suffix.lower() in JSON_LINES else _csv(path, columns, needed)
    except UnicodeDecodeError as error:
        raise Usage(f"{path}: is no UTF-8 text ({error})") from None


def _csv(
    path: Path, columns: Collection[str], needed: Collection[str]
) -> Iterator[tuple[int, Mapping[str, Any] | Wrong]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            header = [name.strip() for name in next(reader, [])]
            _check_header(path, header, columns, needed)
            began = reader.line_num + 1
            for cells in reader:
                if len(cells) == len(header):
                    yield began, {name: cell for name, cell in zip(header, cells, strict=True) if cell != ""}
                elif cells:
                    yield began, Wrong(None, f"has {len(cells)} cells under {len(header)} columns")
                began = reader.line_num + 1
        except csv.Error as error:
            raise Usage(f"{path}, line {reader.line_num}: is no CSV ({error})") from None


def _check_header(path: Path, header: Sequence[str], columns: Collection[str], needed: Collection[str]) -> None:
    unknown, missing = [name for name in header if name not in columns], [each for each in needed if each not in header]
    if unknown or missing:
        wrong = f"unknown columns {', '.join(unknown)}" if unknown else f"no columns {', '.join(missing)}"
        raise Usage(f"{path}: {wrong}; its first line names the columns, of {', '.join(columns)}")
    if len(set(header)) < len(header):
        raise Usage(f"{path}: a column is there twice")


def _json_lines(path: Path, columns: Collection[str]) -> Iterator[tuple[int, Mapping[str, Any] | Wrong]]:
    with path.open(encoding="utf-8-sig") as file:
        for line, text in enumerate(file, start=1):
            if text.isspace():
                continue
            try:
                cells = parsed_json(text) if len(text) <= LONGEST_LINE else None
            except ValueError as error:
                yield line, Wrong(None, str(error))
                continue
            if not isinstance(cells, dict):
                yield line, Wrong(None, "is no JSON object")
            elif unknown := sorted(cells.keys() - set(columns)):
                yield line, Wrong(unknown[0], "is no known field")
            else:
                yield line, {name: cell for name, cell in cells.items() if cell is not None}
