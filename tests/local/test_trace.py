"""Reading a trace of bookings: what each row means, and how a bad file is refused."""

import gzip
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from local.trace import COLUMNS, Do, Outcome, Row, TraceError, expected, plan, read_trace

HEADER = ",".join(COLUMNS)
GOOD = "1,city,2026-01-12,2026-03-28,2,24000,2,completed,2026-03-30"
SAMPLE = Path(__file__).resolve().parents[2] / "local" / "sample_trace.csv"


def a_row(
    *,
    outcome: Outcome = Outcome.COMPLETED,
    amount: int = 10_001,
    nights: int = 2,
    changes: int = 0,
    outcome_on: date = date(2026, 3, 30),
) -> Row:
    return Row(
        line=2,
        booking_id="city-1",
        booked_on=date(2026, 1, 12),
        event_on=date(2026, 3, 28),
        nights=nights,
        amount=amount,
        changes=changes,
        outcome=outcome,
        outcome_on=outcome_on,
    )


def test_the_sample_that_ships_with_the_project_can_be_read_and_shows_every_outcome() -> None:
    rows = read_trace(SAMPLE, limit=1_000)
    assert {row.outcome for row in rows} == set(Outcome)
    assert any(row.amount == 0 for row in rows)
    assert any(row.nights == 0 for row in rows)
    assert any(row.changes > 0 for row in rows)


def test_a_gzipped_trace_is_read_like_a_plain_one_and_no_further_than_the_limit(tmp_path: Path) -> None:
    plain, zipped = tmp_path / "trace.csv", tmp_path / "trace.csv.gz"
    text = f"{HEADER}\n{GOOD}\n{GOOD.replace('1,', '2,', 1)}\nthis line is never reached\n"
    plain.write_text(text, encoding="utf-8")
    zipped.write_bytes(gzip.compress(text.encode()))
    assert read_trace(plain, limit=2) == read_trace(zipped, limit=2)
    assert [row.booking_id for row in read_trace(plain, limit=1)] == ["city-1"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "empty"),
        (HEADER, "no bookings"),
        (f"{HEADER.replace(',nights', '')}\n", "line 1: missing nights"),
        (f"{HEADER}\n{GOOD.replace('2026-01-12', '12.1.2026')}\n", "line 2: booked_on"),
        (f"{HEADER}\n{GOOD}\n{GOOD}\n", "line 3: booking_id: city-1 was on line 2"),
        (f"{HEADER}\n{GOOD.replace('city', 'tent')}\n", "line 2: hotel"),
        (f"{HEADER}\n{GOOD.replace('24000', '240.00')}\n", "line 2: amount_minor"),
        (f"{HEADER}\n{GOOD.replace('24000', '-1')}\n", "line 2: amount_minor"),
        (f"{HEADER}\n{GOOD.replace('completed', 'lost')}\n", "line 2: outcome"),
        (f"{HEADER}\n{GOOD.replace('2026-03-28', '2025-03-28')}\n", "line 2: event_on"),
        (f"{HEADER}\n{GOOD.replace('completed,2026-03-30', 'cancelled,2026-04-30')}\n", "line 2: outcome_on"),
        (f"{HEADER}\n{GOOD},more\n", "line 2: 10 values under 9 columns"),
        (f'{HEADER}\n"1,city\n', "line"),
    ],
)
def test_a_bad_trace_is_refused_with_its_line(tmp_path: Path, text: str, names: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TraceError, match=names) as refused:
        read_trace(path, limit=10)
    assert "bad.csv" in str(refused.value)


def test_a_missing_a_broken_and_a_binary_file_are_refused(tmp_path: Path) -> None:
    broken, binary = tmp_path / "broken.csv.gz", tmp_path / "binary.csv"
    broken.write_bytes(gzip.compress(f"{HEADER}\n{GOOD}\n".encode())[:-12])
    binary.write_bytes(HEADER.encode() + b"\n\xff\xfe\x00\n")
    for path in (tmp_path / "missing.csv", tmp_path, broken, binary):
        with pytest.raises(TraceError, match="can't be read"):
            read_trace(path, limit=10)


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(TraceError, match="at least 1"):
        read_trace(SAMPLE, limit=0)


def test_every_change_moves_the_booking_one_day_nearer_until_it_is_where_it_took_place() -> None:
    actions = plan(a_row(changes=2))
    assert [action.do for action in actions] == [Do.BOOK, Do.MOVE, Do.MOVE]
    assert [action.start.date() for action in actions if action.start] == [
        date(2026, 3, 30),
        date(2026, 3, 29),
        date(2026, 3, 28),
    ]
    assert actions == sorted(actions, key=lambda action: action.at)


def test_a_stay_is_told_in_the_hotels_local_time_across_the_change_of_clocks() -> None:
    (booked,) = plan(a_row(nights=2))
    assert booked.start is not None
    assert booked.end is not None
    assert booked.start.astimezone(UTC) == datetime(2026, 3, 28, 15, tzinfo=UTC)
    assert booked.end.astimezone(UTC) == datetime(2026, 3, 30, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("cancelled_on", "refund", "payout"),
    [
        (date(2026, 2, 26), 10_001, 0),
        (date(2026, 2, 27), 5_000, 4_501),
        (date(2026, 3, 21), 5_000, 4_501),
        (date(2026, 3, 22), 0, 9_001),
        (date(2026, 3, 28), 0, 9_001),
    ],
)
def test_a_cancellation_refunds_by_its_tier_and_the_chef_gets_the_rest_less_the_fee(
    cancelled_on: date, refund: int, payout: int
) -> None:
    ends = expected(a_row(outcome=Outcome.CANCELLED, outcome_on=cancelled_on))
    assert (ends.state, ends.refund, ends.payout) == ("cancelled", refund, payout)


def test_who_does_not_show_up_has_the_chef_paid_like_who_does() -> None:
    shown, missing = expected(a_row()), expected(a_row(outcome=Outcome.NO_SHOW, outcome_on=date(2026, 3, 28)))
    assert (missing.state, missing.payout) == (shown.state, shown.payout) == ("paid_out", 9_001)


def test_a_free_stay_moves_no_money() -> None:
    ends = expected(a_row(amount=0))
    assert (ends.state, ends.refund, ends.payout) == ("paid_out", 0, 0)
