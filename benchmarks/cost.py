"""`make cost BOOKINGS=`: what a month costs, from AWS calls that were counted and prices that can be edited.

Three parts, counted by `benchmarks.counting`: what a deployment costs with no booking at all, what each booking adds
from its request to its payout, and what each booking that is kept adds every month after (storage, backup, the daily
comparison). No free tier is taken off.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

PRICES = Path(__file__).with_name("prices.json")
FREE = frozenset(
    {
        *("schedules.create", "schedules.replace", "schedules.delete", "schedules.get", "schedules.names"),
        *("workflow.start", "workflow.describe", "workflow.succeed", "workflow.history"),
        *("events.delivered", "rule.sweep"),
    }
)
"""Calls that AWS does not charge: Scheduler's own API, Step Functions' API (its transitions cost), delivery from the
bus to a queue of the same account, a rule on a timer."""


class UnknownCall(Exception):
    """A kind of call that no price is known for: says which, and where to add it."""


@dataclass(frozen=True, slots=True)
class Prices:
    """`units`: billed unit → its entry in the file; `assumptions`: name → number."""

    units: Mapping[str, Mapping[str, Any]]
    assumptions: Mapping[str, float]
    region: str
    looked_up: str

    @staticmethod
    def load(path: Path = PRICES) -> "Prices":
        raw = json.loads(path.read_text(encoding="utf-8"))
        assumptions = {name: float(entry["value"]) for name, entry in raw["assumptions"].items()}
        return Prices(raw["units"], assumptions, raw["region"], raw["looked_up"])


@dataclass(frozen=True, slots=True)
class Line:
    """One billed unit: how many, and US dollars for all of them."""

    service: str
    unit: str
    amount: float
    usd: float


@dataclass(frozen=True, slots=True)
class Bill:
    lines: tuple[Line, ...]

    @property
    def usd(self) -> float:
        return sum(line.usd for line in self.lines)

    @property
    def services(self) -> Mapping[str, float]:
        """US dollars by service, the dearest first."""
        found: dict[str, float] = {}
        for line in self.lines:
            add(found, {line.service: line.usd})
        return dict(sorted(found.items(), key=lambda entry: -entry[1]))


def bill(calls: Mapping[str, float], prices: Prices | None = None) -> Bill:
    """The bill for these calls: kinds as the simulation counts them (`lambda.projector`, `schedules.create`), or billed
    units of the price table. Raises `UnknownCall`."""
    prices = prices or Prices.load()
    units = billed(calls, prices)
    lines = []
    for name, entry in prices.units.items():
        if amount := units.get(name, 0.0):
            lines.append(Line(entry["service"], entry["unit"], amount, amount * entry["usd"] / entry["per"]))
    return Bill(tuple(lines))


def billed(calls: Mapping[str, float], prices: Prices) -> dict[str, float]:
    """Calls as what AWS counts. Raises `UnknownCall`."""
    units: dict[str, float] = {}
    for kind, amount in calls.items():
        add(units, _units_of(kind, prices), amount)
    return units


def _units_of(kind: str, prices: Prices) -> Mapping[str, float]:
    if kind in prices.units:
        return {kind: 1}
    if kind in FREE:
        return {}
    service, _, name = kind.partition(".")
    match service:
        case "lambda" if f"seconds.{name}" in prices.assumptions:
            known = prices.assumptions
            return {
                "lambda.requests": 1,
                "lambda.gb_seconds": known["memory_gb"] * known[f"seconds.{name}"],
                "logs.ingested_gb": known["log_bytes"] / 1e9,
                "xray.traces": known["traced"],
            }
        case "sqs" | "queues" if name in ("send", "receive", "delete", "wake", "project"):
            return {"sqs.requests": 1}
        case "bus" if name == "publish":
            return {"events.published": 1}
        case "stream" if name == "read":
            return {"dynamodb.stream_reads": 1}
        case _:
            raise UnknownCall(
                f"nobody knows what {kind!r} costs: add it to benchmarks/prices.json, or to FREE in {__name__}"
            )


def add(total: dict[str, float], calls: Mapping[str, float], times: float = 1) -> None:
    """Add so many times these calls to a total."""
    for kind, amount in calls.items():
        total[kind] = total.get(kind, 0.0) + amount * times


def polls(queues: int, prices: Prices) -> float:
    """Requests a month with which Lambda asks that many idle queues."""
    known = prices.assumptions
    return queues * known["pollers"] * known["hours"] * 3600 / known["poll_seconds"]


@dataclass(frozen=True, slots=True)
class Costs:
    """Calls of a month without bookings, of one booking, and of a month of one booking that is kept."""

    fixed: Mapping[str, float]
    booking: Mapping[str, float]
    kept: Mapping[str, float]

    def month(self, bookings: int, kept: int) -> dict[str, float]:
        """All calls of a month in which so many bookings are made while so many are kept."""
        total: dict[str, float] = {}
        for calls, times in ((self.fixed, 1), (self.booking, bookings), (self.kept, kept)):
            add(total, calls, times)
        return total


def tables(costs: Costs, bookings: int, months: int, prices: Prices) -> list[Table]:
    """The month by service and part, and what of the booking's price is what."""
    kept = bookings * months
    parts = {
        "fixed": bill(costs.fixed, prices),
        f"{bookings:,} bookings": bill(Costs({}, costs.booking, {}).month(bookings, 0), prices),
        f"{kept:,} kept": bill(Costs({}, {}, costs.kept).month(0, kept), prices),
    }
    whole = bill(costs.month(bookings, kept), prices)
    title = f"A month of {bookings:,} bookings, after {months} months, {prices.region}, USD"
    month = Table(title=title, title_justify="left")
    month.add_column("service")
    for name in (*parts, "all"):
        month.add_column(name, justify="right")
    for service, usd in whole.services.items():
        month.add_row(service, *(f"{part.services.get(service, 0.0):,.2f}" for part in parts.values()), f"{usd:,.2f}")
    month.add_section()
    month.add_row("all", *(f"{part.usd:,.2f}" for part in parts.values()), f"{whole.usd:,.2f}")

    one = bill(costs.booking, prices)
    booking = Table(title=f"One booking: {one.usd * 1000:.3f} USD a thousand", title_justify="left")
    for name in ("service", "unit", "a booking", "USD a thousand"):
        booking.add_column(name, justify="left" if name in ("service", "unit") else "right")
    for line in sorted(one.lines, key=lambda line: -line.usd):
        booking.add_row(line.service, line.unit, f"{line.amount:,.4g}", f"{line.usd * 1000:.4f}")

    idle = bill(costs.fixed, prices)
    fixed = Table(title=f"No booking at all: {idle.usd:.2f} USD a month", title_justify="left")
    for name in ("service", "unit", "a month", "USD"):
        fixed.add_column(name, justify="left" if name in ("service", "unit") else "right")
    for line in sorted(idle.lines, key=lambda line: -line.usd):
        fixed.add_row(line.service, line.unit, f"{line.amount:,.4g}", f"{line.usd:.2f}")
    return [month, booking, fixed]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make cost", description="What a month costs.")
    parser.add_argument("--bookings", type=_count, default=1_000, help="made in the month")
    parser.add_argument("--months", type=_count, default=12, help="of bookings that are kept")
    parser.add_argument("--prices", type=Path, default=PRICES)
    options = parser.parse_args(arguments)
    from benchmarks.counting import measure

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 110
    prices = Prices.load(options.prices)
    with console.status("Counting calls ..."):
        costs = measure(prices)
    for table in tables(costs, options.bookings, options.months, prices):
        console.print(table, "")
    unsure = sorted(name for name, entry in prices.units.items() if "note" in entry)
    console.print(
        f"Prices of {prices.looked_up}, no free tier. With a note in {options.prices.name}: {', '.join(unsure)}."
    )
    return 0


def _count(text: str) -> int:
    found = int(text.replace(",", "").replace("_", ""))
    if found < 0:
        raise argparse.ArgumentTypeError("it cannot be negative")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
