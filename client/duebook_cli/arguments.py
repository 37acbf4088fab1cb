"""How times, lengths of time, actors and jobs are written on the command line. Each raises ValueError with the rule."""

import re
from datetime import UTC, datetime, timedelta

from duebook_cli import words
from duebook_client import Actor, BadArgument, Local
from duebook_client.times import TimeIn

_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
ROLES = ("customer", "chef", "operator", "mediator", "system")


def duration(text: str) -> timedelta:
    """`75d`, `36h`, `1d12h`, `90s` as a timedelta. ValueError for anything else."""
    parts = re.findall(r"(\d+)([dhms])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"not a duration such as 75d or 1d12h: {text!r}")
    try:
        return sum((timedelta(**{_UNITS[unit]: int(n)}) for n, unit in parts), timedelta(0))
    except OverflowError:
        raise ValueError(f"longer than any duration can be: {text!r}") from None


def window(text: str) -> timedelta:
    """A duration that lasts."""
    found = duration(text)
    if not found:
        raise ValueError(f"has to be longer than nothing, such as 7d: {text!r}")
    return found


def later(at: datetime, by: timedelta) -> datetime:
    """`by` after `at`. Raises BadArgument (a ValueError too) where the years, 1 to 9999, have no such instant."""
    try:
        return at + by
    except OverflowError:
        raise BadArgument(
            "length", f"{words.length(by)} from {words.instant(at)} is outside the years 1 to 9999"
        ) from None


def rate(text: str) -> float:
    """Calls a second, from 0.1 to 1000."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0.1 <= found <= 1000:
        raise ValueError(f"not a number of calls a second, from 0.1 to 1000: {text!r}")
    return found


def signed_duration(text: str) -> timedelta:
    """A duration that may have a sign: `-2d` is before."""
    if not text.startswith("-"):
        return duration(text.removeprefix("+"))
    try:
        return -duration(text[1:])
    except OverflowError:
        raise ValueError(f"longer than any duration can be: {text!r}") from None


def time(text: str, zone: str | None = None) -> TimeIn:
    """ISO 8601 with an offset (`2026-11-14T18:00:00+01:00`, `…Z`); with a zone, the local time there without one."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"not an ISO 8601 time such as 2026-11-14T18:00:00+01:00: {text!r}") from None
    if zone is not None:
        if at.tzinfo is not None:
            raise ValueError(f"{text!r} has an offset already: with a zone give none")
        return Local(at, zone)
    if at.tzinfo is None:
        raise ValueError(f"{text!r} has no offset: write one, as in {at.isoformat()}Z for UTC, or give a zone")
    try:
        at.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{text!r} is outside the years 1 to 9999 in UTC") from None
    return at


def instant(text: str) -> datetime:
    """ISO 8601 with an offset; a date alone is its midnight in UTC."""
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        text += "T00:00:00Z"
    at = time(text)
    assert isinstance(at, datetime)
    return at.astimezone(UTC)


def actor(text: str) -> Actor:
    """`operator`, or with an opaque id `chef:ch-1`."""
    role, _, id_ = text.partition(":")
    if role not in ROLES:
        raise ValueError(f"{text!r} is none of {', '.join(ROLES)} (with an id: chef:ch-1)")
    return Actor(role, id_ or None)


def job_of(text: str) -> tuple[str, str]:
    """`BOOKING/JOB`, as `dead list` shows it."""
    booking_id, slash, job = text.partition("/")
    if not (booking_id and slash and job) or "/" in job:
        raise ValueError(f"{text!r} is no BOOKING/JOB, such as wedding-1/release_payment")
    return booking_id, job
