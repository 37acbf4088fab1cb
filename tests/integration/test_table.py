"""The table port: what holds for DynamoDB (on moto) and for its twin alike."""

from collections.abc import Callable
from typing import Any

import pytest

from duebook.adapters.memory import MemoryTable
from duebook.domain.errors import AwsFailure, ConditionFailed, Permanent
from duebook.service.ports import ALWAYS, Check, Delete, If, Item, Page, Put, Table, Update, Write
from tests.integration.tables import BOTH, now, on_dynamodb

ROW: Item = {"pk": "b1", "sk": "booking", "version": 3, "state": "paid"}


@pytest.fixture(params=BOTH)
def table(request: pytest.FixtureRequest, fresh: Callable[[str], str]) -> Table:
    if request.param == "in memory":
        return MemoryTable(now)
    return on_dynamodb(request.getfixturevalue("client"), fresh("duebook"))


def put(table: Table, *rows: Item) -> None:
    for row in rows:
        table.write(Put(item=row))


def pages(read: Callable[[Item | None], Page]) -> list[Item]:
    """Every page, one after the other."""
    found: list[Item] = []
    after: Item | None = None
    for _ in range(1_000):
        page = read(after)
        found += page.items
        after = page.after
        if after is None:
            return found
    raise AssertionError("the pages never end")


def keys(rows: list[Item]) -> list[str]:
    return [row["sk"] for row in rows]


# --- rows ----------------------------------------------------------------------------------------------------------


def test_a_row_comes_back_as_it_was_put(table: Table) -> None:
    row = {
        **ROW,
        "zero": 0,
        "negative": -7,
        "large": 10**30,
        "yes": True,
        "no": False,
        "empty": "",
        "text": "Küche 🍲",
        "list": [1, "two", [True], {"three": 3}, None],
        "map": {"a": {"b": [1]}, "name": "reserved"},
        "nothing": [],
        "none": {},
    }
    put(table, row)
    found = table.get("b1", "booking")
    assert found == row
    assert type(found["zero"]) is int
    assert found["yes"] is True


def test_a_tuple_comes_back_as_a_list(table: Table) -> None:
    put(table, {**ROW, "tuple": (1, (2,))})
    assert table.get("b1", "booking") == {**ROW, "tuple": [1, [2]]}


def test_an_attribute_that_is_none_is_not_stored_nor_is_one_in_a_map(table: Table) -> None:
    put(table, {**ROW, "reason": None, "map": {"a": None, "b": 1}})
    assert table.get("b1", "booking") == {**ROW, "map": {"b": 1}}


def test_there_is_no_row_where_none_was_put(table: Table) -> None:
    put(table, ROW)
    assert table.get("b1", "job#x") is None
    assert table.get("b2", "booking") is None


def test_what_was_read_can_be_changed_without_changing_the_row(table: Table) -> None:
    put(table, {**ROW, "map": {"a": [1]}})
    found = table.get("b1", "booking")
    assert found is not None
    found["map"]["a"].append(2)
    assert table.get("b1", "booking") == {**ROW, "map": {"a": [1]}}


def test_what_was_put_can_be_changed_without_changing_the_row(table: Table) -> None:
    row = {**ROW, "map": {"a": [1]}}
    put(table, row)
    row["map"] = {}
    assert table.get("b1", "booking") == {**ROW, "map": {"a": [1]}}


def test_a_put_replaces_the_whole_row(table: Table) -> None:
    put(table, {**ROW, "reason": "old"}, ROW)
    assert table.get("b1", "booking") == ROW


def test_an_update_sets_and_removes_and_leaves_the_rest(table: Table) -> None:
    put(table, {**ROW, "reason": "old", "map": {"a": 1, "b": 2}})
    table.write(Update(pk="b1", sk="booking", set={"version": 4, "map": {"a": 5}}, remove=("reason", "not_there")))
    assert table.get("b1", "booking") == {**ROW, "version": 4, "map": {"a": 5}}


def test_an_update_makes_the_row_that_is_not_there(table: Table) -> None:
    table.write(Update(pk="b1", sk="job#x", set={"status": "pending"}))
    assert table.get("b1", "job#x") == {"pk": "b1", "sk": "job#x", "status": "pending"}


def test_an_update_that_only_removes_leaves_the_rest(table: Table) -> None:
    put(table, ROW)
    table.write(Update(pk="b1", sk="booking", remove=("state",)))
    assert table.get("b1", "booking") == {"pk": "b1", "sk": "booking", "version": 3}


def test_setting_none_removes(table: Table) -> None:
    put(table, {**ROW, "reason": "x"})
    table.write(Update(pk="b1", sk="booking", set={"state": None, "version": 4}))
    assert table.get("b1", "booking") == {"pk": "b1", "sk": "booking", "version": 4, "reason": "x"}
    table.write(Update(pk="b1", sk="booking", set={"reason": None}, remove=("reason",)))
    assert table.get("b1", "booking") == {"pk": "b1", "sk": "booking", "version": 4}


def test_names_that_dynamodb_reserves_or_that_look_like_aliases_are_ordinary(table: Table) -> None:
    values = {"status": 1, "data": 2, "name": 3, "if_status": 4, "n0": 5, "v0": 6, "a-b.c": 7, "size": 8}
    table.write(Update(pk="b1", sk="x", set=values))
    table.write(Update(pk="b1", sk="x", set={"status": 2}, remove=("a-b.c",), condition=If(equals=values)))
    del values["a-b.c"]
    assert table.get("b1", "x") == {"pk": "b1", "sk": "x", **values, "status": 2}


def test_a_delete_removes_the_row_and_nothing_else(table: Table) -> None:
    put(table, ROW, {**ROW, "sk": "job#x"})
    table.write(Delete(pk="b1", sk="booking"))
    assert table.get("b1", "booking") is None
    assert table.get("b1", "job#x") is not None


def test_deleting_what_is_not_there_is_fine(table: Table) -> None:
    table.write(Delete(pk="b1", sk="booking"))
    assert table.get("b1", "booking") is None


def test_writing_nothing_is_fine(table: Table) -> None:
    table.write()


# --- conditions ----------------------------------------------------------------------------------------------------

HELD: list[tuple[str, If, Item | None]] = [
    ("always, a row", ALWAYS, ROW),
    ("always, no row", ALWAYS, None),
    ("absent, no row", If(absent=True), None),
    ("exists, a row", If(exists=True), ROW),
    ("an equal number", If(equals={"version": 3}), ROW),
    ("an equal text", If(equals={"state": "paid"}), ROW),
    ("two equal values", If(equals={"version": 3, "state": "paid"}), ROW),
    ("exists and equal", If(exists=True, equals={"version": 3}), ROW),
    ("none, a missing attribute", If(equals={"reason": None}), ROW),
    ("none, no row", If(equals={"reason": None}), None),
    ("none and equal", If(equals={"reason": None, "version": 3}), ROW),
    ("an equal map", If(equals={"map": {"a": [1, "x"]}}), {**ROW, "map": {"a": [1, "x"]}}),
    ("an equal flag", If(equals={"flag": True}), {**ROW, "flag": True}),
]
FAILED: list[tuple[str, If, Item | None]] = [
    ("absent, a row", If(absent=True), ROW),
    ("exists, no row", If(exists=True), None),
    ("another number", If(equals={"version": 4}), ROW),
    ("another text", If(equals={"state": "paid "}), ROW),
    ("a number for a text", If(equals={"version": "3"}), ROW),
    ("a number, no row", If(equals={"version": 3}), None),
    ("a missing attribute", If(equals={"reason": "x"}), ROW),
    ("one of two differs", If(equals={"version": 3, "state": "accepted"}), ROW),
    ("none, an attribute", If(equals={"state": None}), ROW),
    ("none, an empty text", If(equals={"text": None}), {**ROW, "text": ""}),
    ("another map", If(equals={"map": {"a": [1]}}), {**ROW, "map": {"a": [2]}}),
]
WRITES: dict[str, Callable[[If], Write]] = {
    "put": lambda condition: Put(item={"pk": "b1", "sk": "booking", "version": 9}, condition=condition),
    "update": lambda condition: Update(pk="b1", sk="booking", set={"version": 9}, condition=condition),
    "delete": lambda condition: Delete(pk="b1", sk="booking", condition=condition),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(("condition", "row"), [case[1:] for case in HELD], ids=[case[0] for case in HELD])
def test_a_write_whose_condition_holds_is_done(table: Table, write: str, condition: If, row: Item | None) -> None:
    put(table, *([row] if row else []))
    table.write(WRITES[write](condition))
    found = table.get("b1", "booking")
    assert found is None if write == "delete" else found is not None and found["version"] == 9


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(("condition", "row"), [case[1:] for case in FAILED], ids=[case[0] for case in FAILED])
def test_a_write_whose_condition_fails_changes_nothing(
    table: Table, write: str, condition: If, row: Item | None
) -> None:
    put(table, *([row] if row else []))
    with pytest.raises(ConditionFailed) as raised:
        table.write(WRITES[write](condition))
    assert raised.value.details["failed"] == [0]
    assert table.get("b1", "booking") == row


@pytest.mark.parametrize(
    ("condition", "row", "holds"),
    [(*case[1:], True) for case in HELD[2:]] + [(*case[1:], False) for case in FAILED],
    ids=[case[0] for case in HELD[2:] + FAILED],
)
def test_a_check_alone_writes_nothing(table: Table, condition: If, row: Item | None, holds: bool) -> None:
    put(table, *([row] if row else []))
    if holds:
        table.write(Check(pk="b1", sk="booking", condition=condition))
    else:
        with pytest.raises(ConditionFailed):
            table.write(Check(pk="b1", sk="booking", condition=condition))
    assert table.get("b1", "booking") == row


def test_none_matches_an_attribute_that_was_removed(table: Table) -> None:
    put(table, ROW)
    table.write(Update(pk="b1", sk="booking", remove=("state",)))
    table.write(Update(pk="b1", sk="booking", set={"version": 4}, condition=If(equals={"state": None})))
    assert table.get("b1", "booking") == {"pk": "b1", "sk": "booking", "version": 4}


# --- transactions --------------------------------------------------------------------------------------------------


def test_a_transaction_does_all_its_writes(table: Table) -> None:
    put(table, ROW, {**ROW, "sk": "job#old"}, {**ROW, "sk": "guard"})
    table.write(
        Put(item={**ROW, "version": 4}, condition=If(equals={"version": 3})),
        Update(pk="b1", sk="job#new", set={"status": "pending"}),
        Delete(pk="b1", sk="job#old"),
        Check(pk="b1", sk="guard", condition=If(exists=True)),
        Put(item={"pk": "b2", "sk": "booking"}, condition=If(absent=True)),
    )
    assert keys(pages(lambda after: table.query("b1", "", after=after))) == ["booking", "guard", "job#new"]
    assert table.get("b2", "booking") is not None


def test_a_transaction_whose_conditions_fail_names_their_positions_and_does_nothing(table: Table) -> None:
    put(table, ROW, {**ROW, "sk": "guard"})
    with pytest.raises(ConditionFailed) as raised:
        table.write(
            Put(item={"pk": "b1", "sk": "job#x"}),
            Put(item=ROW, condition=If(absent=True)),
            Update(pk="b1", sk="guard", set={"version": 9}),
            Check(pk="b1", sk="nothing", condition=If(exists=True)),
            Delete(pk="b9", sk="booking"),
        )
    assert raised.value.details["failed"] == [1, 3]
    assert keys(pages(lambda after: table.query("b1", "", after=after))) == ["booking", "guard"]
    assert table.get("b1", "guard") == {**ROW, "sk": "guard"}


def test_a_transaction_takes_a_hundred_writes_and_no_more(table: Table) -> None:
    writes = [Put(item={"pk": "b1", "sk": f"job#{number:03d}"}) for number in range(101)]
    with pytest.raises(Permanent):
        table.write(*writes)
    assert table.query("b1", "").items == []
    table.write(*writes[:100])
    assert len(pages(lambda after: table.query("b1", "", after=after))) == 100


def test_a_transaction_takes_no_row_twice(table: Table) -> None:
    with pytest.raises(ValueError, match="twice"):
        table.write(Put(item=ROW), Check(pk="b1", sk="booking", condition=If(absent=True)))
    assert table.get("b1", "booking") is None


# --- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1.5, float("nan"), b"x", {1, 2}, object(), [1.0], {"a": {"b": 0.1}}, {1: "x"}])
def test_a_row_holds_no_float_nor_anything_else_that_json_does_not(table: Table, value: Any) -> None:
    with pytest.raises(TypeError):
        table.write(Put(item={**ROW, "value": value}))
    with pytest.raises(TypeError):
        table.write(Update(pk="b1", sk="booking", set={"value": value}))
    assert table.get("b1", "booking") is None


@pytest.mark.parametrize("name", ["pk", "sk", "due_pk", "due_sk", "attention_pk", "attention_sk"])
@pytest.mark.parametrize(("value", "error"), [("", ValueError), (7, TypeError), ("é" * 1_100, Permanent)])
def test_a_key_is_text_and_neither_empty_nor_too_long(
    table: Table, name: str, value: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        table.write(Put(item={**ROW, name: value}))
    assert table.get("b1", "booking") is None


@pytest.mark.parametrize("name", ["due_pk", "attention_sk"])
def test_an_update_sets_no_empty_index_key(table: Table, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        table.write(Update(pk="b1", sk="booking", set={name: ""}))


@pytest.mark.parametrize(("pk", "sk"), [("", "booking"), ("b1", "")])
def test_nothing_is_read_or_deleted_by_an_empty_key(table: Table, pk: str, sk: str) -> None:
    with pytest.raises(ValueError, match="empty"):
        table.get(pk, sk)
    with pytest.raises(ValueError, match="empty"):
        table.write(Delete(pk=pk, sk=sk))


@pytest.mark.parametrize(
    "write",
    [
        Put(item={"pk": "b1"}),
        Update(pk="b1", sk="booking"),
        Update(pk="b1", sk="booking", set={"pk": "b2"}),
        Update(pk="b1", sk="booking", remove=("sk",)),
        Update(pk="b1", sk="booking", set={"a": 1}, remove=("a",)),
        Check(pk="b1", sk="booking", condition=ALWAYS),
    ],
    ids=[
        "no sort key",
        "an update of nothing",
        "another key",
        "no key any more",
        "set and removed",
        "a check of nothing",
    ],
)
def test_a_write_that_dynamodb_never_takes_is_refused(table: Table, write: Write) -> None:
    put(table, ROW)
    with pytest.raises((ValueError, TypeError)):
        table.write(write)
    assert table.get("b1", "booking") == ROW


def test_a_row_has_at_most_400_kb(table: Table) -> None:
    put(table, {**ROW, "text": "x" * 390_000})
    with pytest.raises(Permanent):
        put(table, {**ROW, "sk": "job#x", "text": "x" * 410_000})
    with pytest.raises(Permanent):
        table.write(Put(item={**ROW, "sk": "job#x", "list": ["é" * 210_000]}), Put(item={**ROW, "sk": "job#y"}))
    assert keys(pages(lambda after: table.query("b1", "", after=after))) == ["booking"]


def test_an_update_cannot_grow_a_row_beyond_400_kb(table: Table) -> None:
    put(table, {**ROW, "text": "x" * 390_000})
    with pytest.raises(AwsFailure):
        table.write(Update(pk="b1", sk="booking", set={"more": "x" * 30_000}))
    found = table.get("b1", "booking")
    assert found is not None
    assert "more" not in found


def test_a_transaction_has_at_most_4_mb(table: Table) -> None:
    writes = [Put(item={"pk": "b1", "sk": f"job#{number}", "text": "x" * 390_000}) for number in range(11)]
    with pytest.raises(Permanent):
        table.write(*writes)
    assert table.query("b1", "").items == []


# --- queries -------------------------------------------------------------------------------------------------------

JOBS = [{"pk": "b1", "sk": f"job#{name}", "job": name} for name in "abcdefg"]
OTHERS = [ROW, {**ROW, "pk": "b2", "sk": "job#a"}, {**ROW, "sk": "job"}, {**ROW, "sk": "job$"}, {**ROW, "sk": "joc#a"}]


def test_a_query_reads_one_partition_by_prefix_in_order(table: Table) -> None:
    put(table, *reversed(JOBS), *OTHERS)
    page = table.query("b1", "job#")
    assert page.items == JOBS
    assert page.after is None
    assert page.scanned == len(JOBS)


def test_a_query_without_prefix_reads_the_whole_partition(table: Table) -> None:
    put(table, *JOBS, *OTHERS)
    assert keys(list(table.query("b1", "").items)) == sorted(row["sk"] for row in JOBS + OTHERS if row["pk"] == "b1")


def test_a_query_of_nothing_is_empty(table: Table) -> None:
    put(table, ROW)
    assert table.query("b1", "job#") == Page(items=[], after=None, scanned=0)
    assert table.query("b9", "") == Page(items=[], after=None, scanned=0)


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7, 8])
@pytest.mark.parametrize("newest_first", [False, True])
def test_pages_of_a_query_give_every_row_once_in_order(table: Table, limit: int, newest_first: bool) -> None:
    put(table, *JOBS, *OTHERS)
    found = pages(lambda after: table.query("b1", "job#", after=after, limit=limit, newest_first=newest_first))
    assert found == (JOBS[::-1] if newest_first else JOBS)


def test_a_page_has_as_many_rows_as_its_limit(table: Table) -> None:
    put(table, *JOBS)
    page = table.query("b1", "job#", limit=3)
    assert page.items == JOBS[:3]
    assert page.scanned == 3
    assert page.after == {"pk": "b1", "sk": "job#c"}


def test_a_query_goes_on_after_a_row_that_is_gone(table: Table) -> None:
    put(table, *JOBS)
    table.write(Delete(pk="b1", sk="job#c"))
    assert table.query("b1", "job#", after={"pk": "b1", "sk": "job#c"}).items == JOBS[3:]


NO_ROWS: dict[str, Callable[[Table], Page]] = {
    "query": lambda table: table.query("b1", "", limit=0),
    "query_index": lambda table: table.query_index("due", "d", limit=0),
    "scan": lambda table: table.scan(limit=0),
}


@pytest.mark.parametrize("read", NO_ROWS.values(), ids=NO_ROWS.keys())
def test_a_page_of_no_rows_is_refused(table: Table, read: Callable[[Table], Page]) -> None:
    with pytest.raises(ValueError, match="at least 1 row"):
        read(table)


# --- indexes -------------------------------------------------------------------------------------------------------


def due(booking_id: str, at: str, partition: str = "d", **more: Any) -> Item:
    row = {"pk": booking_id, "sk": "job#x", "due_pk": partition, "due_sk": at, "booking_id": booking_id, "job": "x"}
    return {**row, "payload": "large", "data": {"a": 1}, **more}


DUE = [due("b4", "01"), due("b3", "02"), due("b2", "03"), due("b1", "04")]


def seen(row: Item) -> Item:
    return {name: value for name, value in row.items() if name not in ("payload", "data")}


def test_an_index_gives_a_partition_in_the_order_of_its_sort_key_without_payloads(table: Table) -> None:
    put(table, *reversed(DUE), due("b5", "02", "another"), ROW)
    page = table.query_index("due", "d")
    assert page.items == [seen(row) for row in DUE]
    assert page.after is None
    assert page.scanned == len(DUE)


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [
        ("", "\uffff", "4321"),
        ("02", "03", "32"),
        ("", "02", "43"),
        ("03", "\uffff", "21"),
        ("015", "035", "32"),
        ("05", "06", ""),
        ("03", "02", ""),
        ("02", "02", "3"),
        ("", "", ""),
    ],
)
def test_an_index_is_read_from_low_to_high_both_included(table: Table, low: str, high: str, found: str) -> None:
    put(table, *DUE)
    page = table.query_index("due", "d", low=low, high=high) if high else table.query_index("due", "d", high="00")
    assert [row["pk"] for row in page.items] == [f"b{number}" for number in found]
    assert page.scanned == len(page.items)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
def test_pages_of_an_index_give_every_row_once_even_with_equal_sort_keys(table: Table, limit: int) -> None:
    rows = [due(f"b{number}", "02") for number in range(4)] + [due("b8", "01"), due("b9", "03")]
    put(table, *rows)
    found = pages(lambda after: table.query_index("due", "d", low="01", high="03", after=after, limit=limit))
    assert sorted(row["pk"] for row in found) == sorted(row["pk"] for row in rows)
    assert [row["due_sk"] for row in found] == ["01", "02", "02", "02", "02", "03"]


def test_a_row_without_both_keys_is_not_in_the_index(table: Table) -> None:
    put(table, {**ROW, "due_pk": "d"}, {**ROW, "sk": "x", "due_sk": "01"}, due("b2", "03"))
    assert [row["pk"] for row in table.query_index("due", "d").items] == ["b2"]
    assert [row["pk"] for row in table.scan(index="due").items] == ["b2"]


def test_a_row_moves_within_the_index_and_leaves_it_with_its_keys(table: Table) -> None:
    put(table, *DUE)
    table.write(Update(pk="b4", sk="job#x", set={"due_sk": "09"}))
    table.write(Update(pk="b3", sk="job#x", set={"due_pk": "e"}))
    table.write(
        Update(pk="b2", sk="job#x", remove=("due_pk", "due_sk"), set={"attention_pk": "d", "attention_sk": "1"})
    )
    table.write(Delete(pk="b1", sk="job#x"))
    assert [row["pk"] for row in table.query_index("due", "d").items] == ["b4"]
    assert [row["pk"] for row in table.query_index("due", "e").items] == ["b3"]
    assert [row["pk"] for row in table.query_index("attention", "d").items] == ["b2"]


def test_an_index_shows_the_new_values_of_a_row_that_keeps_its_place(table: Table) -> None:
    put(table, due("b1", "01", attempts=0))
    table.write(Update(pk="b1", sk="job#x", set={"attempts": 1}))
    assert [row["attempts"] for row in table.query_index("due", "d").items] == [1]


# --- scans ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 5, 500])
def test_pages_of_a_scan_give_every_row_once(table: Table, limit: int) -> None:
    rows = [{"pk": f"b{booking}", "sk": sk} for booking in range(4) for sk in ("booking", "job#a", "job#b")]
    put(table, *rows)
    found = pages(lambda after: table.scan(after=after, limit=limit))
    assert sorted(found, key=str) == sorted(rows, key=str)


@pytest.mark.parametrize("limit", [1, 3, 500])
def test_a_scan_for_a_sort_key_gives_only_its_rows_and_counts_all_that_it_read(table: Table, limit: int) -> None:
    put(table, *({"pk": f"b{booking}", "sk": sk} for booking in range(4) for sk in ("booking", "job#a")))
    read = 0

    def scan(after: Item | None) -> Page:
        nonlocal read
        page = table.scan(sk="booking", after=after, limit=limit)
        read += page.scanned
        return page

    assert sorted(row["pk"] for row in pages(scan)) == ["b0", "b1", "b2", "b3"]
    assert read == 8


@pytest.mark.parametrize("limit", [1, 2, 500])
def test_a_scan_of_an_index_gives_what_is_in_it_and_nothing_else(table: Table, limit: int) -> None:
    put(table, *DUE, due("b5", "02", "another"), ROW, {**ROW, "pk": "b9"})
    found = pages(lambda after: table.scan(index="due", after=after, limit=limit))
    assert sorted(row["pk"] for row in found) == ["b1", "b2", "b3", "b4", "b5"]
    assert all("payload" not in row for row in found)
