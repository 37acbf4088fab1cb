"""What the cells of a row say: each reader gives the value, or notes what is wrong and gives None.

The bounds are the API's own, so that a file is refused as a whole before anything of it is sent; a test holds the two
together.
"""

import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast
from zoneinfo import ZoneInfo

from duebook_cli import words
from duebook_cli.bulk.files import Wrong, parsed_json
from duebook_client import CancellationTier, Local, Policy
from duebook_client.times import Choose, TimeIn

T = TypeVar("T")

BOOKING_ID = r"[0-9A-Za-z_-]{1,39}"
OPAQUE_ID = r"[0-9A-Za-z_.:@-]{1,64}"
LARGEST_AMOUNT = 10**15
LARGEST_REVISION = 2**53
LONGEST_REASON = 500

_TIME = re.compile(r".{10}[Tt ].{5,53}", re.DOTALL)
_DAYS_366 = 366 * 86_400
_BPS = 10_000
_POLICY: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(
        ("accept_within", "pay_within", "complete_after", "dispute_within", "remind_after"), (0, _DAYS_366)
    ),
    **dict.fromkeys(("event_length", "reply_within", "offer_within", "review_within", "appeal_within"), (1, _DAYS_366)),
    "fee_bps": (0, _BPS),
    "escalations": (0, 10),
    "appeals": (0, 1),
}
_PLAIN = ("fee_bps", "escalations", "appeals")
_MOST_TIERS = 20
_LONGEST_TIER = 10**9


class Cells:
    """One row's cells, read one by one; `wrong` is what was found wrong on the way."""

    def __init__(self, cells: Mapping[str, Any]) -> None:
        self._cells = cells
        self.wrong: list[Wrong] = []

    def refuse(self, field: str, reason: str) -> None:
        self.wrong.append(Wrong(field, reason))

    def matching(self, field: str, pattern: str, *, needed: bool = False) -> str | None:
        """Text that matches."""

        def read(value: Any) -> str:
            if not isinstance(value, str) or not re.fullmatch(pattern, value):
                raise ValueError(f"{_told(value)} does not match {pattern}")
            return value

        return self._read(field, read, needed=needed)

    def one_of(self, field: str, values: Collection[str]) -> str | None:
        """One of a few texts."""

        def read(value: Any) -> str:
            if not isinstance(value, str) or value not in values:
                raise ValueError(f"{_told(value)} is none of {', '.join(values)}")
            return value

        return self._read(field, read)

    def text(self, field: str, *, longest: int) -> str | None:
        """Any text."""

        def read(value: Any) -> str:
            if not isinstance(value, str) or not 1 <= len(value) <= longest:
                raise ValueError(f"is no text of 1 to {longest} characters")
            return value

        return self._read(field, read)

    def whole(self, field: str, *, most: int, needed: bool = False) -> int | None:
        """A whole number from 0 on, also as its digits."""
        return self._read(field, lambda value: _whole(value, 0, most), needed=needed)

    def currency(self, field: str) -> str | None:
        """An ISO 4217 code with a minor unit."""

        def read(value: Any) -> str:
            if not isinstance(value, str) or not re.fullmatch("[A-Z]{3}", value) or words.exponent_of(value) is None:
                raise ValueError(f"{_told(value)} is no ISO 4217 currency with a minor unit")
            return value

        return self._read(field, read, needed=True)

    def instant(self, field: str) -> datetime | None:
        """ISO 8601 with an offset."""

        def read(value: Any) -> datetime:
            at = _time(value)
            if at.tzinfo is None:
                raise ValueError(f"{_told(value)} has no offset: write one, as in 2026-11-14T18:00:00+01:00")
            return at

        return self._read(field, read)

    def moment(self, field: str, zone: str | None, *, needed: bool = False) -> tuple[TimeIn, datetime] | None:
        """ISO 8601 with an offset, a local time in the row's `zone`, or `{local, zone, choose}`: as sent, and when."""

        def read(value: Any) -> tuple[TimeIn, datetime]:
            if isinstance(value, Mapping):
                return _local(value)
            at = _time(value)
            if zone is not None:
                return _local({"local": value, "zone": zone})
            if at.tzinfo is None:
                raise ValueError(f"{_told(value)} has no offset: write one, or name the zone in the column zone")
            return at, at.astimezone(UTC)

        return self._read(field, read, needed=needed)

    def policy(self, field: str) -> Policy | None:
        """Overrides of the service's policy: a JSON object, in a CSV as its text."""

        def read(value: Any) -> Policy:
            if isinstance(value, str):
                value = parsed_json(value)
            if not isinstance(value, Mapping):
                raise ValueError("is no JSON object")
            return _policy(value)

        return self._read(field, read)

    def _read(self, field: str, read: Callable[[Any], T], *, needed: bool = False) -> T | None:
        value = self._cells.get(field)
        if value is None:
            if needed:
                self.refuse(field, "is missing")
            return None
        try:
            return read(value)
        except (ValueError, OverflowError, RecursionError) as error:
            self.refuse(field, str(error))
            return None


def _whole(value: Any, least: int, most: int) -> int:
    number = int(value) if isinstance(value, str) and re.fullmatch("[0-9]{1,18}", value) else value
    if type(number) is not int or not least <= number <= most:
        raise ValueError(f"{_told(value)} is no whole number from {least} to {most}")
    return number


def _time(value: Any) -> datetime:
    try:
        if not isinstance(value, str) or not _TIME.fullmatch(value):
            raise ValueError
        return datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(f"{_told(value)} is no ISO 8601 date and time") from None


def _local(value: Mapping[str, Any]) -> tuple[Local, datetime]:
    """A wall clock's time. One that clocks leave out, or one that happens twice with no choice, is refused."""
    if unknown := value.keys() - {"local", "zone", "choose"}:
        raise ValueError(f"{sorted(unknown)[0]} is no part of {{local, zone, choose}}")
    local, name, choose = value.get("local"), value.get("zone"), value.get("choose")
    wall = _time(local)
    if wall.tzinfo is not None:
        raise ValueError(f"{_told(local)} has an offset already: with a zone give none")
    if choose not in (None, "earlier", "later"):
        raise ValueError("choose is earlier or later")
    zone = _zone(name)
    first, second = wall.replace(tzinfo=zone, fold=0), wall.replace(tzinfo=zone, fold=1)
    if first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != wall:
        raise ValueError(f"{local} does not exist in {name}: clocks go forward then")
    if first.utcoffset() != second.utcoffset() and choose is None:
        raise ValueError(f"{local} happens twice in {name}: write it with its offset")
    at = second if choose == "later" else first
    return Local(cast(str, local), cast(str, name), cast("Choose | None", choose)), at.astimezone(UTC)


def _zone(name: Any) -> ZoneInfo:
    try:
        if not isinstance(name, str) or name.startswith(("posix/", "right/")) or name in ("localtime", "posixrules"):
            raise ValueError
        return ZoneInfo(name)
    except (ValueError, KeyError, OSError):
        raise ValueError(f"{_told(name)} is no IANA time zone") from None


def _policy(value: Mapping[str, Any]) -> Policy:
    given = {name: each for name, each in value.items() if each is not None}
    if unknown := given.keys() - {*_POLICY, "silence", "cancellation"}:
        raise ValueError(f"{sorted(unknown)[0]} is no part of a policy")
    numbers = {}
    for name in given.keys() & _POLICY.keys():
        try:
            numbers[name] = _strictly_whole(given[name], *_POLICY[name])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    if given.get("silence") not in (None, "refund", "release"):
        raise ValueError("silence is refund or release")
    plain = {name: number for name, number in numbers.items() if name in _PLAIN}
    durations = {name: timedelta(seconds=number) for name, number in numbers.items() if name not in _PLAIN}
    return Policy(
        **plain,  # type: ignore[arg-type]
        **durations,  # type: ignore[arg-type]
        silence=given.get("silence"),
        cancellation=_tiers(given["cancellation"]) if "cancellation" in given else None,
    )


def _tiers(value: Any) -> tuple[CancellationTier, ...]:
    if not isinstance(value, list) or len(value) > _MOST_TIERS:
        raise ValueError(f"cancellation is a list of at most {_MOST_TIERS} tiers")
    tiers = []
    for tier in value:
        if not isinstance(tier, Mapping) or tier.keys() != {"before", "refund_bps"}:
            raise ValueError("cancellation: a tier is {before, refund_bps}")
        before = _strictly_whole(tier["before"], 0, _LONGEST_TIER)
        tiers.append(CancellationTier(timedelta(seconds=before), _strictly_whole(tier["refund_bps"], 0, _BPS)))
    return tuple(tiers)


def _strictly_whole(value: Any, least: int, most: int) -> int:
    if isinstance(value, str):
        raise ValueError(f"{_told(value)} is no number")
    return _whole(value, least, most)


def _told(value: Any) -> str:
    return repr(value)[:60]
