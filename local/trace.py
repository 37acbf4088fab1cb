"""A trace of real bookings: reading it, and what each row means for the marketplace.

Rows say on which days things happened; the hours are ours, so that a whole day's commands meet at one instant:
commands at 09:00 UTC, events from 15:00 to 11:00 at the hotel. See `plan` for the meaning of each column.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

COLUMNS = (
    "booking_id",
    "hotel",
    "booked_on",
    "event_on",
    "nights",
    "amount_minor",
    "changes",
    "outcome",
    "outcome_on",
)
HOTELS = ("resort", "city")
ZONE = "Europe/Lisbon"
CURRENCY = "EUR"
COMMANDS_AT = time(9, tzinfo=UTC)
ARRIVAL, DEPARTURE = time(15), time(11)
DAY_STAY = timedelta(hours=4)
"""How long a stay of no night lasts."""
MOST_NIGHTS = 366
MOST_CHANGES = 100
LONGEST_LEAD = timedelta(days=4 * 366)
"""Between booking and event. The service looks five years ahead; changes and nights come on top."""
POLICY: dict[str, Any] = {
    "accept_within": 86_400,
    "pay_within": 43_200,
    "complete_after": 10_800,
    "dispute_within": 86_400,
    "fee_bps": 1_000,
    "cancellation": [
        {"before": 30 * 86_400, "refund_bps": 10_000},
        {"before": 7 * 86_400, "refund_bps": 5_000},
    ],
}
"""Sent with every booking, so that what must come out can be worked out from this module alone."""


class TraceError(ValueError):
    """A trace that can't be replayed. The message names the file and the line."""


class Outcome(StrEnum):
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    NO_SHOW = "no_show"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One booking as the trace tells it."""

    line: int
    booking_id: str
    booked_on: date
    event_on: date
    nights: int
    amount: int
    changes: int
    outcome: Outcome
    outcome_on: date


class Do(StrEnum):
    """A command of the marketplace, in the order in which a day's commands are given."""

    BOOK = "book"
    MOVE = "move"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A command at an instant. `start` and `end` are local times at the hotel; a cancellation has none."""

    at: datetime
    do: Do
    row: Row
    start: datetime | None = None
    end: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """How a booking must end, worked out from its row alone. Amounts in minor units."""

    state: str
    refund: int
    payout: int
    settled_at: datetime
    """No job is left after this instant, but for the payments' own moment."""


def read_trace(path: Path, *, limit: int) -> list[Row]:
    """The first `limit` rows of a CSV or a gzipped CSV.

    Raises TraceError, which names the line, for anything that is not a trace.
    """
    if limit < 1:
        raise TraceError(f"the limit is at least 1, not {limit}")
    rows: list[Row] = []
    lines: dict[str, int] = {}
    line = 0
    try:
        with _text(path) as text:
            reader = csv.reader(text, strict=True)
            header = next(reader, None)
            line = reader.line_num
            if header is None:
                raise TraceError(f"{path}: the file is empty; its first line must name the columns")
            missing = [name for name in COLUMNS if name not in header]
            if missing:
                raise TraceError(f"{path}, line 1: missing {', '.join(missing)}; the columns are {', '.join(COLUMNS)}")
            for values in reader:
                line = reader.line_num
                if not values:
                    continue
                row = _row(path, line, header, values)
                if row.booking_id in lines:
                    raise TraceError(
                        f"{path}, line {line}: booking_id: {row.booking_id} was on line {lines[row.booking_id]} before"
                    )
                lines[row.booking_id] = line
                rows.append(row)
                if len(rows) == limit:
                    break
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        where = f"{path}, after line {line}" if line else str(path)
        raise TraceError(f"{where}: it can't be read: {reason}") from error
    if not rows:
        raise TraceError(f"{path}: no bookings below the first line")
    return rows


def plan(row: Row) -> list[Action]:
    """What the marketplace does about one booking.

    It is booked, accepted and paid in one go, for as many days later as it will be changed; each change moves it
    one day nearer, so that the last one puts it where it took place. Changes are spread evenly over the days until
    the event or the cancellation. Arriving takes no command, and so does not showing up: the chef was ready.
    """
    last_day = row.outcome_on if row.outcome is Outcome.CANCELLED else row.event_on
    span = (last_day - row.booked_on).days
    actions = [_visit(row, Do.BOOK, row.booked_on, later=row.changes)]
    for number in range(1, row.changes + 1):
        day = row.booked_on + timedelta(days=span * number // (row.changes + 1))
        actions.append(_visit(row, Do.MOVE, day, later=row.changes - number))
    if row.outcome is Outcome.CANCELLED:
        actions.append(Action(at=_on(row.outcome_on), do=Do.CANCEL, row=row))
    return actions


def expected(row: Row) -> Expected:
    """How the booking must end.

    Free stays move no money. A cancellation refunds by the tier of the time that is left; the chef gets the rest
    less the fee at once. Otherwise the chef is paid after the time for disputes.
    """
    start, end = stay(row, later=0)
    if row.outcome is Outcome.CANCELLED:
        at = _on(row.outcome_on)
        left = (start - at).total_seconds()
        reached = [tier["refund_bps"] for tier in POLICY["cancellation"] if left >= tier["before"]]
        refund = _share(row.amount, max(reached, default=0))
        rest = row.amount - refund
        return Expected(state="cancelled", refund=refund, payout=rest - _share(rest, POLICY["fee_bps"]), settled_at=at)
    release = end.astimezone(UTC) + timedelta(seconds=POLICY["complete_after"] + POLICY["dispute_within"])
    payout = row.amount - _share(row.amount, POLICY["fee_bps"])
    return Expected(state="paid_out", refund=0, payout=payout, settled_at=release)


def stay(row: Row, *, later: int) -> tuple[datetime, datetime]:
    """Arrival and departure at the hotel, `later` days after the trace's; aware, in the hotel's zone."""
    zone = ZoneInfo(ZONE)
    day = row.event_on + timedelta(days=later)
    start = datetime.combine(day, ARRIVAL, zone)
    if row.nights == 0:
        return start, start + DAY_STAY
    return start, datetime.combine(day + timedelta(days=row.nights), DEPARTURE, zone)


def _visit(row: Row, do: Do, day: date, *, later: int) -> Action:
    start, end = stay(row, later=later)
    return Action(at=_on(day), do=do, row=row, start=start, end=end)


def _on(day: date) -> datetime:
    return datetime.combine(day, COMMANDS_AT)


def _share(amount: int, basis_points: int) -> int:
    """A share of an amount, rounded half to even. Not the product's own rounding, which it is to check."""
    return int((Decimal(amount) * basis_points / 10_000).quantize(Decimal(1), ROUND_HALF_EVEN))


@contextmanager
def _text(path: Path) -> Iterator[io.TextIOWrapper]:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        raw = gzip.GzipFile(fileobj=file) if zipped else file
        with io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
            yield text


def _row(path: Path, line: int, header: list[str], values: list[str]) -> Row:
    try:
        if len(values) != len(header):
            raise ValueError(f"{len(values)} values under {len(header)} columns")
        cells = dict(zip(header, values, strict=True))
        row = Row(
            line=line,
            booking_id=_booking_id(cells),
            booked_on=_date(cells, "booked_on"),
            event_on=_date(cells, "event_on"),
            nights=_number(cells, "nights", most=MOST_NIGHTS),
            amount=_number(cells, "amount_minor", most=10**12),
            changes=_number(cells, "changes", most=MOST_CHANGES),
            outcome=_outcome(cells),
            outcome_on=_date(cells, "outcome_on"),
        )
        for problem in _problems(row):
            raise ValueError(problem)
    except ValueError as error:
        raise TraceError(f"{path}, line {line}: {error}") from None
    return row


def _problems(row: Row) -> Iterator[str]:
    if row.event_on < row.booked_on:
        yield f"event_on: {row.event_on} is before booked_on {row.booked_on}"
    if row.event_on - row.booked_on > LONGEST_LEAD:
        yield f"event_on: {row.event_on} is more than {LONGEST_LEAD.days} days after booked_on {row.booked_on}"
    if row.outcome_on < row.booked_on:
        yield f"outcome_on: {row.outcome_on} is before booked_on {row.booked_on}"
    if row.outcome is Outcome.CANCELLED and row.outcome_on > row.event_on:
        yield f"outcome_on: cancelled {row.outcome_on}, after event_on {row.event_on}"


def _booking_id(cells: dict[str, str]) -> str:
    number, hotel = cells["booking_id"], cells["hotel"]
    if not (number.isascii() and number.isalnum() and len(number) <= 32):
        raise ValueError(f"booking_id: {number[:40]!r} must be 1 to 32 letters and digits")
    if hotel not in HOTELS:
        raise ValueError(f"hotel: {hotel[:40]!r} must be {' or '.join(HOTELS)}")
    return f"{hotel}-{number}"


def _date(cells: dict[str, str], name: str) -> date:
    try:
        return date.fromisoformat(cells[name])
    except ValueError:
        raise ValueError(f"{name}: {cells[name][:40]!r} is no ISO date") from None


def _number(cells: dict[str, str], name: str, *, most: int) -> int:
    text = cells[name]
    if not (text.isascii() and text.isdigit() and len(text) <= 15 and int(text) <= most):
        raise ValueError(f"{name}: {text[:40]!r} must be a whole number from 0 to {most}")
    return int(text)


def _outcome(cells: dict[str, str]) -> Outcome:
    try:
        return Outcome(cells["outcome"])
    except ValueError:
        raise ValueError(f"outcome: {cells['outcome'][:40]!r} must be {', '.join(Outcome)}") from None
