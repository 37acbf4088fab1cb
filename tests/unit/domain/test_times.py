"""Time: what is read, what is refused, and that no rounding is ever early."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.domain.errors import InvalidRequest
from duebook.domain.times import Moment, after, iso, moment, parse, whole_minute, whole_second
from tests.unit.builders import utc

INSTANTS = st.datetimes(timezones=st.just(UTC)).filter(lambda instant: instant < utc(9999, 12, 31))
WALLS = st.integers(min_value=0, max_value=20 * 366 * 96).map(
    lambda quarters: (utc(2020, 1, 1) + timedelta(minutes=15 * quarters)).replace(tzinfo=None)
)
ZONES = st.sampled_from(
    [
        "Europe/Berlin",
        "Europe/London",
        "America/New_York",
        "America/Sao_Paulo",
        "Asia/Kolkata",
        "Asia/Tokyo",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "Africa/Casablanca",
        "UTC",
    ]
)


@given(INSTANTS, INSTANTS)
def test_the_text_of_an_instant_sorts_as_the_instant_does(one: datetime, other: datetime) -> None:
    one, other = parse(iso(one)), parse(iso(other))
    assert (iso(one) < iso(other)) == (one < other)
    assert len(iso(one)) == len(iso(other)) == 24


@given(INSTANTS)
def test_an_instant_is_read_back_to_the_millisecond_and_never_later(instant: datetime) -> None:
    assert timedelta() <= instant - parse(iso(instant)) < timedelta(milliseconds=1)


@pytest.mark.parametrize("year", [1, 33, 999])
def test_a_year_of_fewer_than_four_digits_is_padded_so_that_its_row_can_be_read_back(year: int) -> None:
    """Kind: strftime's %Y does not pad on Linux, so a booking requested in the year 999 could never be read again."""
    instant = utc(year, 3, 4)
    assert iso(instant) == f"{year:04d}-03-04T00:00:00.000Z"
    assert parse(iso(instant)) == instant


def test_a_naive_datetime_is_no_instant() -> None:
    with pytest.raises(ValueError, match="naive"):
        iso(datetime(2026, 11, 14))  # noqa: DTZ001


@given(INSTANTS)
def test_whole_seconds_and_minutes_are_never_earlier_and_less_than_one_unit_later(instant: datetime) -> None:
    for rounded, unit in ((whole_second(instant), 1), (whole_minute(instant), 60)):
        assert timedelta() <= rounded - instant < timedelta(seconds=unit)
        assert rounded.microsecond == 0
        assert rounded.second % unit == 0
    assert whole_minute(whole_minute(instant)) == whole_minute(instant)


@given(WALLS, ZONES, st.sampled_from(["earlier", "later"]))
def test_a_local_time_is_either_refused_as_not_existing_or_shown_again_as_it_was_given(
    wall: datetime, zone: str, choose: str
) -> None:
    given = {"local": wall.isoformat(), "zone": zone, "choose": choose}
    back = wall.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC).astimezone(ZoneInfo(zone))
    if back.replace(tzinfo=None) != wall:
        with pytest.raises(InvalidRequest, match="does not exist"):
            moment(given, "at")
        return
    found = moment(given, "at")
    assert found.local == wall.isoformat()
    assert found.zone == zone
    assert found.instant.astimezone(ZoneInfo(zone)).replace(tzinfo=None) == wall
    assert found.instant.tzinfo is UTC


def test_local_time_and_zone_are_kept_beside_the_instant() -> None:
    found = moment({"local": "2026-11-14T18:00:00", "zone": "Europe/Berlin"}, "event_start")
    assert found == Moment(utc(2026, 11, 14, 17), "2026-11-14T18:00:00", "Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "instant", "local", "zone"),
    [
        ("2026-11-14T18:00:00+01:00", utc(2026, 11, 14, 17), "2026-11-14T18:00:00", "+01:00"),
        ("2026-11-14T18:00Z", utc(2026, 11, 14, 18), "2026-11-14T18:00:00", "+00:00"),
        ("2026-11-14 18:00:00-03:30", utc(2026, 11, 14, 21, 30), "2026-11-14T18:00:00", "-03:30"),
        ("2026-11-14T18:00:00.001+00:00", utc(2026, 11, 14, 18, 0, 1), "2026-11-14T18:00:01", "+00:00"),
    ],
)
def test_iso_8601_with_an_offset_is_read_and_rounded_up_to_a_second(
    text: str, instant: datetime, local: str, zone: str
) -> None:
    assert moment(text, "at") == Moment(instant, local, zone)


def test_a_local_time_inside_the_gap_does_not_exist() -> None:
    with pytest.raises(InvalidRequest) as refused:
        moment({"local": "2027-03-28T02:30:00", "zone": "Europe/Berlin"}, "event_start")
    assert (refused.value.code, refused.value.details["field"]) == ("inside_dst_gap", "event_start")


@pytest.mark.parametrize(
    ("wall", "exists"), [("01:59:59", True), ("02:00:00", False), ("02:59:59", False), ("03:00:00", True)]
)
def test_the_gap_is_half_open(wall: str, exists: bool) -> None:
    value = {"local": f"2027-03-28T{wall}", "zone": "Europe/Berlin"}
    if exists:
        moment(value, "at")
    else:
        with pytest.raises(InvalidRequest, match="does not exist"):
            moment(value, "at")


@pytest.mark.parametrize(("choose", "hour"), [("earlier", 0), ("later", 1)])
def test_a_local_time_inside_the_overlap_needs_a_choice(choose: str, hour: int) -> None:
    value = {"local": "2026-10-25T02:30:00", "zone": "Europe/Berlin"}
    with pytest.raises(InvalidRequest) as refused:
        moment(value, "at")
    assert refused.value.code == "inside_dst_overlap"
    assert moment({**value, "choose": choose}, "at").instant == utc(2026, 10, 25, hour, 30)


def test_a_choice_outside_any_overlap_changes_nothing() -> None:
    value = {"local": "2026-11-14T18:00:00", "zone": "Europe/Berlin"}
    assert moment({**value, "choose": "later"}, "at") == moment(value, "at")


@pytest.mark.parametrize(
    ("value", "code", "field"),
    [
        ("2026-11-14T18:00:00", "naive_time", "at"),
        ("2026-11-14", "not_a_time", "at"),
        ("20261114T180000Z", "not_a_time", "at"),
        ("tomorrow at six o'clock", "not_a_time", "at"),
        ("2026-13-14T18:00:00Z", "not_a_time", "at"),
        ("2026-11-14T25:00:00Z", "not_a_time", "at"),
        ("", "not_a_time", "at"),
        ("0001-01-01T00:00:00+14:00", "out_of_range", "at"),
        ("9999-12-31T23:59:59-12:00", "out_of_range", "at"),
        ("9999-12-31T23:59:59.500+00:00", "out_of_range", "at"),
        ({"local": "9999-12-31T23:59:59.500", "zone": "UTC"}, "out_of_range", "at"),
        ({"local": "0001-01-01T00:00:00", "zone": "Asia/Tokyo"}, "out_of_range", "at"),
        ({"local": "2026-11-14T18:00:00+01:00", "zone": "Europe/Berlin"}, "offset_and_zone", "at.local"),
        ({"local": "soon", "zone": "Europe/Berlin"}, "not_a_time", "at.local"),
        ({"local": "2026-11-14T18:00:00", "zone": "Mars/Olympus"}, "unknown_zone", "at.zone"),
        ({"local": "2026-11-14T18:00:00", "zone": "/etc/passwd"}, "unknown_zone", "at.zone"),
        ({"local": "2026-11-14T18:00:00", "zone": "../zoneinfo/UTC"}, "unknown_zone", "at.zone"),
        ({"local": "2026-11-14T18:00:00", "zone": "right/Europe/Berlin"}, "unknown_zone", "at.zone"),
        ({"local": "2026-11-14T18:00:00", "zone": "Europe"}, "unknown_zone", "at.zone"),
        ({"local": "2026-11-14T18:00:00", "zone": ""}, "unknown_zone", "at.zone"),
    ],
)
def test_what_is_no_unambiguous_time_is_refused_with_its_field(value: Any, code: str, field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        moment(value, "at")
    assert (refused.value.code, refused.value.details["field"]) == (code, field)


@pytest.mark.parametrize(
    ("value", "hours", "local"),
    [
        ({"local": "2026-10-24T23:00:00", "zone": "Europe/Berlin"}, 5, "2026-10-25T03:00:00"),
        ({"local": "2027-03-27T23:00:00", "zone": "Europe/Berlin"}, 5, "2027-03-28T05:00:00"),
        ("2026-11-14T18:00:00-03:30", 4, "2026-11-14T22:00:00"),
    ],
)
def test_the_end_of_an_event_is_elapsed_time_after_its_start_told_in_the_same_zone(
    value: Any, hours: int, local: str
) -> None:
    start = moment(value, "at")
    end = after(start, timedelta(hours=hours))
    assert end.instant - start.instant == timedelta(hours=hours)
    assert (end.local, end.zone) == (local, start.zone)


def test_an_aware_datetime_of_another_zone_is_told_in_utc() -> None:
    assert iso(datetime(2026, 11, 14, 18, tzinfo=timezone(timedelta(hours=1)))) == "2026-11-14T17:00:00.000Z"


@pytest.mark.parametrize(
    ("wall", "choose", "instant", "local"),
    [
        ("2026-10-25T02:59:59.5", "earlier", utc(2026, 10, 25, 1), "2026-10-25T02:00:00"),
        ("2026-10-25T02:59:59.5", "later", utc(2026, 10, 25, 2), "2026-10-25T03:00:00"),
        ("2027-03-28T01:59:59.5", None, utc(2027, 3, 28, 1), "2027-03-28T03:00:00"),
    ],
)
def test_rounding_up_to_a_second_is_a_second_also_where_the_clocks_change(
    wall: str, choose: str | None, instant: datetime, local: str
) -> None:
    """Kind: wall-clock arithmetic across a change of offset, which was an hour off."""
    found = moment({"local": wall, "zone": "Europe/Berlin", "choose": choose}, "at")
    assert found == Moment(instant, local, "Europe/Berlin")
