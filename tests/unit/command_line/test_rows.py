"""Rows are checked before anything is sent, as the API itself checks them."""

import csv
import json
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from duebook_cli.bulk.booking_rows import COLUMNS, NEEDED, booking_reader
from duebook_cli.bulk.files import Wrong, read_rows
from duebook_cli.commands.moves import NEEDED as MOVE_NEEDED
from duebook_cli.commands.moves import read_move
from duebook_cli.exits import Usage
from duebook_client import BadArgument, Duebook, Invalid
from tests.unit.client.in_process import AUGUST

GOOD: Mapping[str, Any] = {
    "booking_id": "b1",
    "customer_id": "c-1",
    "chef_id": "ch-1",
    "event_start": "2026-11-14T18:00:00+01:00",
    "price_minor": 50_000,
    "currency": "EUR",
}
PAID = {"state": "paid", "paid_at": "2026-07-01T10:00:00Z", "captured_minor": 50_000, "charge_ref": "ch_1"}
LOCAL = {"local": "2026-10-25T02:30:00", "zone": "Europe/Berlin"}

GOOD_CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"event_end": "2026-11-14T23:00:00+01:00", "revision": 3},
    {"event_start": "2026-11-14T18:00:00", "zone": "Europe/Berlin", "event_end": "2026-11-14T23:00"},
    {"event_start": {"local": "2026-11-14T18:00:00", "zone": "Europe/Berlin"}},
    {"event_start": {**LOCAL, "choose": "later"}},
    {"price_minor": 0, "currency": "KWD"},
    {"requested_at": "2026-07-31T11:00:00+02:00"},
    {"state": "accepted", "accepted_at": "2026-07-31T10:00:00Z"},
    {**PAID},
    {**PAID, "state": "completed", "event_start": "2026-03-14T18:00:00Z"},
    {**PAID, "event_start": "2026-03-14T18:00:00Z"},
    {"policy": {"fee_bps": 0, "silence": "release", "complete_after": 60, "event_length": 1, "appeals": 1}},
    {"policy": {"cancellation": [{"before": 86_400, "refund_bps": 10_000}], "escalations": 10}},
    {"requested_at": "2026-08-01T10:04:00Z"},
)
"""What is taken by both."""

BAD_CHANGES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("booking_id", {"booking_id": "a b"}),
    ("booking_id", {"booking_id": "x" * 40}),
    ("customer_id", {"customer_id": None}),
    ("customer_id", {"customer_id": "ada@example.com, Ada"}),
    ("chef_id", {"chef_id": "x" * 65}),
    ("event_start", {"event_start": None}),
    ("event_start", {"event_start": "2026-11-14T18:00:00"}),
    ("event_start", {"event_start": "2026-11-14"}),
    ("event_start", {"event_start": "tomorrow"}),
    ("event_start", {"event_start": LOCAL}),
    ("event_start", {"event_start": {"local": "2026-03-29T02:30:00", "zone": "Europe/Berlin"}}),
    ("event_start", {"event_start": {"local": "2026-11-14T18:00:00", "zone": "Europe/Atlantis"}}),
    ("event_start", {"event_start": {"local": "2026-11-14T18:00:00Z", "zone": "Europe/Berlin"}}),
    ("event_start", {"event_start": {"local": "2026-11-14T18:00:00", "zone": "Europe/Berlin", "choose": "first"}}),
    ("event_start", {"event_start": {"local": "2026-11-14T18:00:00", "zone": "posix/Europe/Berlin"}}),
    ("event_start", {"event_start": {"local": "2026-11-14T18:00:00", "tz": "Europe/Berlin"}}),
    ("event_start", {"event_start": "2026-07-31T18:00:00Z"}),
    ("event_start", {**PAID, "event_start": "2021-01-01T18:00:00Z"}),
    ("event_start", {"event_start": "2031-09-01T18:00:00Z"}),
    ("event_end", {"event_end": "2026-11-14T17:00:00Z"}),
    ("event_end", {"event_end": "2031-09-01T18:00:00Z"}),
    ("price_minor", {"price_minor": -1}),
    ("price_minor", {"price_minor": 10**15 + 1}),
    ("price_minor", {"price_minor": 12.5}),
    ("price_minor", {"price_minor": True}),
    ("currency", {"currency": "eur"}),
    ("currency", {"currency": "EUX"}),
    ("currency", {"currency": "XAU"}),
    ("state", {"state": "paying"}),
    ("paid_at", {**PAID, "paid_at": None}),
    ("captured_minor", {**PAID, "captured_minor": None}),
    ("charge_ref", {**PAID, "charge_ref": None}),
    ("captured_minor", {"captured_minor": 5}),
    ("accepted_at", {"accepted_at": "2026-07-31T10:00:00Z"}),
    ("requested_at", {"requested_at": "2026-08-01T10:06:00Z"}),
    ("requested_at", {"requested_at": "2026-07-31T10:00:00"}),
    ("revision", {"revision": 2**53 + 1}),
    ("policy", {"policy": {"fee_bps": 10_001}}),
    ("policy", {"policy": {"fee": 1}}),
    ("policy", {"policy": {"silence": "shout"}}),
    ("policy", {"policy": {"complete_after": 367 * 86_400}}),
    ("policy", {"policy": {"complete_after": 1.5}}),
    ("policy", {"policy": {"event_length": 0}}),
    ("policy", {"policy": {"appeals": 2}}),
    ("policy", {"policy": {"cancellation": [{"before": 1}]}}),
    ("policy", {"policy": {"cancellation": [{"before": 1, "refund_bps": 10_001}]}}),
    ("policy", {"policy": []}),
)
"""What is refused by both, with the field that is at fault."""

_NUMBERS = count(1)


def cells(changes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**GOOD, **changes}.items() if value is not None}


def body(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The row as a caller of the API would send it."""
    row = cells(changes)
    zone = row.pop("zone", None)
    row.pop("booking_id")
    for name in ("event_start", "event_end"):
        if zone and name in row:
            row[name] = {"local": row[name], "zone": zone}
    return row


@pytest.mark.parametrize("changes", GOOD_CHANGES)
def test_what_is_taken_here_is_taken_by_the_api(client: Duebook, changes: dict[str, Any]) -> None:
    found = booking_reader(AUGUST)(cells(changes))
    assert isinstance(found, Mapping), found
    by_row = client.put_booking(f"b{next(_NUMBERS)}", **found)
    by_body = client.call("PUT", f"/bookings/b{next(_NUMBERS)}", body=body(changes))
    for name in ("state", "event_start", "event_end", "policy", "requested_at", "price_minor", "captured_minor"):
        assert by_row.raw[name] == by_body[name]


@pytest.mark.parametrize(("field", "changes"), BAD_CHANGES)
def test_what_is_refused_here_is_refused_by_the_api(client: Duebook, field: str, changes: dict[str, Any]) -> None:
    found = booking_reader(AUGUST)(cells(changes))
    assert isinstance(found, list), found
    assert field in {wrong.field for wrong in found}
    booking_id = changes.get("booking_id", f"b{next(_NUMBERS)}")
    with pytest.raises((Invalid, BadArgument)):
        client.call("PUT", f"/bookings/{booking_id.replace(' ', '%20')}", body=body(changes))


def test_everything_that_is_wrong_with_a_row_is_told_at_once() -> None:
    found = booking_reader(AUGUST)({"booking_id": "b1", "price_minor": "x", "currency": "EUX"})
    assert isinstance(found, list)
    assert [wrong.field for wrong in found] == [
        *("event_start", "customer_id", "chef_id", "price_minor", "currency"),
    ]


def test_the_columns_are_the_apis_fields(client: Duebook) -> None:
    from duebook.handlers.api.models import BookingIn

    assert set(COLUMNS) - {"booking_id", "zone"} == set(BookingIn.model_fields) - {"hold_payout"}


# --- files ---------------------------------------------------------------------------------------------------------


def as_csv(path: Path, *rows: Mapping[str, Any]) -> Path:
    names = list(dict.fromkeys(name for each in rows for name in each))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(
            {name: json.dumps(value) if isinstance(value, dict) else value for name, value in each.items()}
            for each in rows
        )
    return path


def read(path: Path) -> Any:
    return read_rows(path, COLUMNS, NEEDED, booking_reader(AUGUST))


def test_a_csv_and_json_lines_say_the_same(tmp_path: Path) -> None:
    rows = [cells({"policy": {"fee_bps": 7}}), cells({**PAID, "booking_id": "b2"})]
    lines = tmp_path / "bookings.jsonl"
    lines.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    of_csv, of_lines = read(as_csv(tmp_path / "bookings.csv", *rows)), read(lines)
    assert [each.value for each in of_csv.good] == [each.value for each in of_lines.good]
    assert [each.line for each in of_csv.good] == [2, 3]
    assert [each.line for each in of_lines.good] == [1, 2]


def test_a_refused_row_is_told_by_its_line_even_behind_one_with_line_breaks(tmp_path: Path) -> None:
    file = as_csv(tmp_path / "b.csv", {**GOOD, "charge_ref": "a\nb"}, {**GOOD, "booking_id": "b2", "currency": "EUX"})
    assert [(each.line, each.booking_id, each.field) for each in read(file).refused] == [
        (2, "b1", "charge_ref"),
        (4, "b2", "currency"),
    ]


def test_a_bookings_second_row_is_refused_and_the_first_one_named(tmp_path: Path) -> None:
    rows = read(as_csv(tmp_path / "b.csv", GOOD, {**GOOD, "booking_id": "b2"}, {**GOOD, "price_minor": 7}))
    (refusal,) = rows.refused
    assert (refusal.line, refusal.field) == (4, "booking_id")
    assert "line 2" in refusal.reason
    assert rows.number == 3


def test_a_row_of_another_shape_is_refused_and_the_others_are_read(tmp_path: Path) -> None:
    file = tmp_path / "b.csv"
    file.write_text(",".join(NEEDED) + "\nb1\nb2,,,,,,more\n\nb3,c-1,,,,\n")
    assert [(each.line, each.reason) for each in read(file).refused if each.field is None] == [
        (2, "has 1 cells under 6 columns"),
        (3, "has 7 cells under 6 columns"),
    ]
    lines = tmp_path / "b.jsonl"
    lines.write_text('{"booking_id": \n[]\n{"booking": "b1"}\n' + json.dumps(GOOD) + "\n")
    rows = read(lines)
    assert [(each.line, each.field) for each in rows.refused] == [(1, None), (2, None), (3, "booking")]
    assert [each.line for each in rows.good] == [4]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "customer_id\nc-1\n",
        "booking_id,colour\nb1,red\n",
        "booking_id,booking_id\nb1,b1\n",
        'booking_id\n"b1',
        "\xff",
    ],
)
def test_a_file_that_is_no_such_table_is_refused_as_a_whole(tmp_path: Path, text: str) -> None:
    file = tmp_path / "b.csv"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(Usage, match=r"b\.csv"):
        read(file)


@pytest.mark.parametrize(("reader", "needed"), [(booking_reader(AUGUST), NEEDED), (read_move, MOVE_NEEDED)])
def test_the_columns_that_are_needed_are_those_that_no_row_may_lack(reader: Any, needed: tuple[str, ...]) -> None:
    assert {wrong.field for wrong in reader({}) if wrong.reason == "is missing"} >= {*needed} - {"currency"}
    assert {wrong.field for wrong in reader({})} == {*needed}


def test_a_header_without_columns_that_are_needed_is_one_refusal(tmp_path: Path) -> None:
    file = tmp_path / "b.csv"
    file.write_text("booking_id,customer_id\nb1,c-1\nb2,c-2\n")
    with pytest.raises(Usage, match=r"b\.csv: no columns chef_id, event_start, price_minor, currency;"):
        read(file)


@pytest.mark.parametrize(("name", "text"), [("b.csv", ""), ("b.csv", "\n"), ("b.jsonl", "")])
def test_an_empty_file_is_called_so(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(Usage, match="is empty"):
        read(tmp_path / name)


def test_what_is_no_json_is_told_by_the_files_line_alone(tmp_path: Path) -> None:
    lines = tmp_path / "b.jsonl"
    lines.write_text(json.dumps(GOOD) + '\n{"booking_id": \n' + json.dumps({**GOOD, "policy": "{", "booking_id": "b2"}))
    assert [(each.line, each.field) for each in read(lines).refused] == [(2, None), (3, "policy")]
    for refusal in read(lines).refused:
        assert "is no JSON: " in refusal.reason
        assert "line" not in refusal.reason


def test_the_example_of_the_docs_is_good() -> None:
    rows = read(Path(__file__).parents[3] / "docs" / "example-import.csv")
    assert rows.refused == []
    assert {name for row in rows.good for name in row.value} >= {"policy", "captured_minor", "event_end"}


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    file = as_csv(tmp_path / "b.csv", GOOD)
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert len(read(file).good) == 1


def test_a_move_needs_a_booking_and_a_start() -> None:
    found = read_move({"reason": "x" * 501})
    assert isinstance(found, list)
    assert [wrong.field for wrong in found] == ["booking_id", "event_start", "reason"]
    assert read_move({"booking_id": "b1", "event_start": "2026-11-14T18:00Z", "event_end": "2026-11-14T17:00Z"}) == [
        Wrong("event_end", "is not after event_start")
    ]
