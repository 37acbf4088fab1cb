"""Instants and local times. Every datetime inside is aware UTC; naive ones are refused at the boundary."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from duebook.domain.errors import InvalidRequest

HORIZON = timedelta(days=5 * 366)
"""Nothing is scheduled further ahead than five years."""


def iso(instant: datetime) -> str:
    """`2026-11-14T17:00:00.000Z`: fixed width, so that text order is time order; finer than ms is cut."""
    if instant.tzinfo is None:
        raise ValueError(f"naive datetime {instant!r}")
    in_utc = instant if instant.tzinfo is UTC else instant.astimezone(UTC)
    return in_utc.isoformat(timespec="milliseconds")[:23] + "Z"


def parse(text: str) -> datetime:
    """The inverse of `iso`."""
    return datetime.fromisoformat(text)


def whole_second(instant: datetime) -> datetime:
    """Rounded up to a whole second: planned instants are never earlier than what was asked."""
    return instant if instant.microsecond == 0 else instant.replace(microsecond=0) + timedelta(seconds=1)


def whole_minute(instant: datetime) -> datetime:
    """Rounded up to a whole minute, for EventBridge Scheduler, whose precision is a minute."""
    floor = instant.replace(second=0, microsecond=0)
    return floor if floor == instant else floor + timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant together with the local time and zone it was given in (an IANA name, or an offset as `+01:00`)."""

    instant: datetime
    local: str
    zone: str


def moment(value: str | Mapping[str, Any], field: str) -> Moment:
    """Read a time: ISO 8601 with offset, or `{local, zone, choose}`.

    A local time inside a DST gap does not exist and is refused; one inside an overlap happens twice and needs
    `choose` = `earlier` or `later`. Raises `InvalidRequest`.
    """
    if isinstance(value, str):
        instant = _read(value, field)
        if instant.tzinfo is None:
            raise InvalidRequest(
                "naive_time",
                field,
                f"{value!r} has no offset: write one, as in 2026-11-14T18:00:00+01:00, or give {{local, zone}}",
            )
        return _moment(instant, _offset_name(instant), field)
    local, zone_name, choose = value["local"], value["zone"], value.get("choose")
    wall = _read(local, f"{field}.local")
    if wall.tzinfo is not None:
        raise InvalidRequest("offset_and_zone", f"{field}.local", f"{local!r} has an offset; with a zone give none")
    zone = _zone(zone_name, f"{field}.zone")
    try:
        first, second = wall.replace(tzinfo=zone, fold=0), wall.replace(tzinfo=zone, fold=1)
        exists = first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == wall
    except OverflowError:
        raise InvalidRequest("out_of_range", field, f"{local!r} is out of range") from None
    if not exists:
        raise InvalidRequest("inside_dst_gap", field, f"{local} does not exist in {zone_name}: clocks go forward then")
    if first.utcoffset() == second.utcoffset():
        return _moment(first, zone_name, field)
    if choose not in ("earlier", "later"):
        raise InvalidRequest(
            "inside_dst_overlap", field, f'{local} happens twice in {zone_name}: add "choose": "earlier" or "later"'
        )
    return _moment(first if choose == "earlier" else second, zone_name, field)


def after(start: Moment, length: timedelta) -> Moment:
    """The moment `length` of elapsed time after `start`, told in the same zone."""
    instant = start.instant + length
    if start.zone[0] in "+-":
        zone = datetime.fromisoformat(f"2000-01-01T00:00:00{start.zone}").tzinfo
    else:
        zone = _iana(start.zone)
    return Moment(instant, _wall(instant.astimezone(zone)), start.zone)


def _moment(instant: datetime, zone: str, field: str) -> Moment:
    try:
        rounded = whole_second(instant.astimezone(UTC))
        return Moment(rounded, _wall(rounded.astimezone(instant.tzinfo)), zone)
    except OverflowError:
        raise InvalidRequest("out_of_range", field, f"{instant} is out of range") from None


def _read(text: str, field: str) -> datetime:
    try:
        if len(text) < len("2026-11-14T18:00") or text[10] not in "Tt ":
            raise ValueError
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest("not_a_time", field, f"{text[:64]!r} is no ISO 8601 date and time") from None


def _zone(name: str, field: str) -> tzinfo:
    try:
        if name.startswith(("posix/", "right/")) or name in ("localtime", "posixrules"):
            raise ValueError
        return _iana(name)
    except (ValueError, KeyError, OSError):
        raise InvalidRequest("unknown_zone", field, f"{name[:64]!r} is no IANA time zone") from None


def _iana(name: str) -> tzinfo:
    """Raises ValueError, KeyError or OSError for no such zone."""
    from zoneinfo import ZoneInfo  # only the API needs zones, and its import is felt in every other cold start

    return ZoneInfo(name)


def _wall(instant: datetime) -> str:
    return instant.replace(tzinfo=None).isoformat()


def _offset_name(instant: datetime) -> str:
    offset = instant.strftime("%z")
    return f"{offset[:3]}:{offset[3:5]}"
