"""How things are told, and how they are written on the command line."""

from datetime import UTC, datetime, timedelta

import pytest

from duebook_cli import arguments, words
from duebook_client import Actor, Local

NOW = datetime(2026, 8, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("amount", "currency", "told"),
    [
        (123_456, "EUR", "1,234.56 EUR"),
        (5, "EUR", "0.05 EUR"),
        (-1_234, "EUR", "-12.34 EUR"),
        (1_234, "JPY", "1,234 JPY"),
        (1_234_567, "KWD", "1,234.567 KWD"),
        (7, "XXX", "7 XXX"),
    ],
)
def test_money_is_told_in_its_currencys_units(amount: int, currency: str, told: str) -> None:
    assert words.money(amount, currency) == told


def test_sums_of_several_currencies_are_not_added_up() -> None:
    assert words.sums({"JPY": 5, "EUR": 100}) == "1.00 EUR + 5 JPY"
    assert words.sums({}) == "-"


@pytest.mark.parametrize(
    ("distance", "told"),
    [
        (timedelta(days=75, hours=3), "in 75 d"),
        (timedelta(days=3), "in 3 d"),
        (timedelta(days=2, hours=23, minutes=59), "in 2 d 23 h"),
        (timedelta(hours=-5, minutes=-3), "5 h 3 min ago"),
        (timedelta(seconds=59), "in 59 s"),
        (timedelta(milliseconds=10), "now"),
    ],
)
def test_an_instant_is_told_in_utc_and_from_now(distance: timedelta, told: str) -> None:
    at = (NOW + distance).astimezone()
    assert words.from_now(at, NOW) == told
    assert words.when(at, NOW).endswith(f"UTC ({told})")


def test_a_year_is_told_with_four_digits() -> None:
    assert words.instant(datetime(1, 1, 1, tzinfo=UTC)) == "0001-01-01 00:00:00 UTC"


def test_the_longest_length_has_no_opposite() -> None:
    with pytest.raises(ValueError, match="longer than any duration"):
        arguments.signed_duration("-999999999d23h")


def test_text_of_others_can_not_steer_the_terminal() -> None:
    assert words.plain("a\x1b[31mred\x07\u202eb") == "a�[31mred��b"


@pytest.mark.parametrize("text", ["", "7", "d", "1w", "-1d", "1d x", "9" * 30 + "d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        arguments.duration(text)


def test_a_duration_may_have_a_sign_where_it_is_an_offset() -> None:
    assert arguments.signed_duration("-1d12h") == -timedelta(days=1, hours=12)
    assert arguments.signed_duration("+90s") == arguments.duration("90s") == timedelta(seconds=90)


def test_a_time_needs_an_offset_or_a_zone_and_never_both() -> None:
    assert arguments.time("2026-11-14T18:00:00+01:00") == datetime(2026, 11, 14, 17, tzinfo=UTC)
    assert arguments.time("2026-11-14T18:00", "Europe/Berlin") == Local(datetime(2026, 11, 14, 18), "Europe/Berlin")  # noqa: DTZ001
    with pytest.raises(ValueError, match="no offset"):
        arguments.time("2026-11-14T18:00")
    with pytest.raises(ValueError, match="already"):
        arguments.time("2026-11-14T18:00Z", "Europe/Berlin")
    with pytest.raises(ValueError, match="ISO 8601"):
        arguments.time("tomorrow")


def test_a_date_alone_is_its_midnight_in_utc_where_an_instant_is_meant() -> None:
    assert arguments.instant("2026-11-14") == datetime(2026, 11, 14, tzinfo=UTC)


def test_an_actor_has_a_role_and_perhaps_an_id() -> None:
    assert arguments.actor("operator") == Actor("operator")
    assert arguments.actor("chef:ch-1") == Actor("chef", "ch-1")
    with pytest.raises(ValueError, match="none of"):
        arguments.actor("boss")


@pytest.mark.parametrize("text", ["b1", "b1/", "/j", "b1/j/k"])
def test_what_names_no_job_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="BOOKING/JOB"):
        arguments.job_of(text)
    assert arguments.job_of("b1/j") == ("b1", "j")
