"""Times as they are sent and read: aware datetimes, or a local time with its zone. Naive ones are refused."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from duebook_client.errors import BadArgument

Choose = Literal["earlier", "later"]


@dataclass(frozen=True, slots=True)
class Local:
    """A wall clock's time in an IANA zone: `Local(datetime(2026, 11, 14, 18), "Europe/Berlin")`.

    `local`: a naive datetime, or its ISO 8601 text. Inside the hour that happens twice when clocks go back, the service
    needs `choose`; inside the hour that is left out when they go forward, it refuses.
    """

    local: datetime | str
    zone: str
    choose: Choose | None = None

    def __post_init__(self) -> None:
        if isinstance(self.local, datetime) and self.local.tzinfo is not None:
            raise BadArgument("local", f"{self.local} has an offset already; with a zone give none")


TimeIn = datetime | Local


def time_in(value: TimeIn, field: str) -> Any:
    """As the API takes it. Raises `BadArgument` for a naive datetime or anything else."""
    if isinstance(value, Local):
        local = value.local.isoformat() if isinstance(value.local, datetime) else value.local
        sent = {"local": local, "zone": value.zone}
        return sent if value.choose is None else sent | {"choose": value.choose}
    return instant_in(value, field)


def instant_in(value: datetime, field: str) -> str:
    """ISO 8601 with the datetime's own offset. Raises `BadArgument` for a naive datetime."""
    _aware(value, field)
    return value.isoformat()


def utc_in(value: datetime, field: str) -> str:
    """ISO 8601 in UTC, for query strings. Raises `BadArgument` for a naive datetime."""
    _aware(value, field)
    return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def seconds_in(value: timedelta, field: str) -> int:
    """Whole seconds. Raises `BadArgument`."""
    if not isinstance(value, timedelta):
        raise BadArgument(field, f"give a timedelta, not {value!r}")
    if value % timedelta(seconds=1):
        raise BadArgument(field, f"{value} is not a whole number of seconds")
    return value // timedelta(seconds=1)


def _aware(value: datetime, field: str) -> None:
    if not isinstance(value, datetime):
        raise BadArgument(field, f"give an aware datetime or Local(local, zone), not {value!r}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise BadArgument(field, f"{value!r} is naive: give it a time zone, or use Local(local, zone)")
