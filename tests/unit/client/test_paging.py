"""Lists are read page by page, as far as they are asked for."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duebook_client import BadAnswer, NoAnswer
from tests.unit.client.fakes import HISTORY, JOB, ScriptedTransport, answer, client, query_of

START = datetime(2026, 11, 1, tzinfo=UTC)
END = START + timedelta(days=7)


def _page(name: str, rows: list[dict[str, Any]], cursor: str | None) -> Any:
    return answer({name: rows, "cursor": cursor})


def test_pages_follow_the_cursor_and_keep_the_question() -> None:
    rows = [{**JOB, "booking_id": f"b{number}"} for number in range(5)]
    transport = ScriptedTransport(
        _page("jobs", rows[:2], "2026-11-02T00:00:00.000Z#x y"),
        _page("jobs", rows[2:4], "c2"),
        _page("jobs", rows[4:], None),
    )
    found = list(client(transport).due(START, END, job="remind_guest", page_size=2))
    assert [job.booking_id for job in found] == ["b0", "b1", "b2", "b3", "b4"]
    asked = {"from": "2026-11-01T00:00:00Z", "to": "2026-11-08T00:00:00Z", "job": "remind_guest", "limit": "2"}
    assert [query_of(sent) for sent in transport.sent] == [
        asked,
        {**asked, "cursor": "2026-11-02T00:00:00.000Z#x y"},
        {**asked, "cursor": "c2"},
    ]


def test_a_page_without_rows_but_with_a_cursor_is_not_the_end() -> None:
    transport = ScriptedTransport(_page("jobs", [], "c1"), _page("jobs", [JOB], None))
    assert len(list(client(transport).due(START, END))) == 1


def test_a_page_is_read_only_when_it_is_needed() -> None:
    rows = [{**HISTORY, "version": number} for number in (1, 2)]
    transport = ScriptedTransport(_page("history", rows, "2"), _page("history", [{**HISTORY, "version": 3}], None))
    entries = client(transport).history("b1", page_size=2)
    assert transport.sent == []
    assert next(entries).version == 1
    assert next(entries).version == 2
    assert len(transport.sent) == 1
    assert [entry.version for entry in entries] == [3]


def test_a_page_that_gets_lost_is_read_again() -> None:
    transport = ScriptedTransport(
        _page("history", [HISTORY], "1"), NoAnswer("reset"), _page("history", [{**HISTORY, "version": 2}], None)
    )
    assert [entry.version for entry in client(transport).history("b1")] == [1, 2]


def test_a_cursor_that_stands_still_ends_in_an_error_not_in_a_loop() -> None:
    transport = ScriptedTransport(_page("dead_letters", [], "c1"))
    with pytest.raises(BadAnswer, match="does not move on"):
        list(client(transport).dead_letters())
    assert len(transport.sent) == 2
