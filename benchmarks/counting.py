"""Counting AWS calls: typical bookings, played over the in-memory twins by the real handlers.

What a booking takes is what a second one of its kind adds to a first. The two share no batch, so it is the most that a
booking can take. What goes on without bookings (the sweeper, the daily comparison, polls) is counted by itself.
"""

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from pathlib import Path
from typing import Any

from benchmarks.cost import Costs, Prices, add, polls
from duebook.adapters.memory import PROJECTED, MemoryTable
from duebook.adapters.table import INDEXES, is_plain, size
from duebook.handlers import sweeper
from duebook.handlers.support import NAMESPACE
from duebook.service.ports import Item, Page, Put, Write
from simulation.cloud import Cloud
from simulation.faults import Faults
from simulation.settings import START, Settings

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
EVENT = START + 60 * DAY
OVER = EVENT + 10 * DAY
"""When every flow has ended."""
MONTH = 30 * DAY
WRITE_UNIT, READ_UNIT = 1024, 4096
"""Bytes (DynamoDB developer guide, "Read and write request units")."""

Calls = dict[str, float]


# --- units of the table --------------------------------------------------------------------------------------------


def metered(table: MemoryTable) -> Calls:
    """Counts the table's request units from now on, as `dynamodb.read_units` and `dynamodb.write_units`.

    A write: 1 KB a unit of the larger of old and new, twice that in a transaction, checks too; each index that it
    changes: a unit a KB of what the index holds, two where its key changes. A consistent read: 4 KB a unit; from an
    index half of that; of nothing: one. (Developer guide, "Read and write request units", "Global secondary indexes".)
    """
    units: Calls = {"dynamodb.read_units": 0, "dynamodb.write_units": 0}
    get, write, query, query_index, scan = table.get, table.write, table.query, table.query_index, table.scan

    def read(items: Iterable[Item], share: float = 1.0) -> None:
        amount = max(1, ceil(sum(map(size, items)) / READ_UNIT)) * share
        units["dynamodb.read_units"] += amount

    def metered_get(pk: str, sk: str) -> Item | None:
        found = get(pk, sk)
        read([found] if found else [])
        return found

    def metered_write(*writes: Write) -> None:
        keys = [(w.item["pk"], w.item["sk"]) if isinstance(w, Put) else (w.pk, w.sk) for w in writes]
        before = [table.row(*key) for key in keys]
        write(*writes)
        times = 1 if is_plain(writes) else 2
        for key, old in zip(keys, before, strict=True):
            new = table.row(*key)
            amount = max(_write_units(old), _write_units(new), 1) * times
            units["dynamodb.write_units"] += amount + sum(_index_units(name, old, new) for name in INDEXES)

    def metered_query(*given: Any, **more: Any) -> Page:
        page = query(*given, **more)
        read(page.items)
        return page

    def metered_index(*given: Any, **more: Any) -> Page:
        page = query_index(*given, **more)
        read(page.items, 0.5)
        return page

    def metered_scan(
        *, index: str | None = None, sk: str | None = None, after: Item | None = None, limit: int = 500
    ) -> Page:
        whole = scan(index=index, after=after, limit=limit)
        read(whole.items, 0.5 if index else 1.0)
        kept = [row for row in whole.items if sk is None or row["sk"] == sk]
        return Page(items=kept, after=whole.after, scanned=whole.scanned)

    for name, method in {
        "get": metered_get,
        "write": metered_write,
        "query": metered_query,
        "query_index": metered_index,
        "scan": metered_scan,
    }.items():
        setattr(table, name, method)
    return units


def _write_units(row: Item | None) -> int:
    return ceil(size(row) / WRITE_UNIT) if row else 0


def _index_units(name: str, old: Item | None, new: Item | None) -> int:
    before, after = _in_index(name, old), _in_index(name, new)
    if before == after:
        return 0
    if before and after and all(before[key] == after[key] for key in INDEXES[name]):
        return max(_write_units(before), _write_units(after))
    return _write_units(before) + _write_units(after)


def _in_index(name: str, row: Item | None) -> Item | None:
    if row is None or any(key not in row for key in INDEXES[name]):
        return None
    return row if name == "day" else {key: value for key, value in row.items() if key in PROJECTED}


# --- flows ---------------------------------------------------------------------------------------------------------


Requests = tuple[tuple[timedelta, str, str, Mapping[str, Any] | None], ...]
"""When, method, path, body."""


@dataclass(frozen=True, slots=True)
class Flow:
    """`share` of all bookings go this way."""

    share: float
    requests: Requests


APART = timedelta(minutes=7)
"""Between two bookings that are played together, so that they share nothing."""
_BODY = {
    "customer_id": "customer",
    "chef_id": "chef",
    "event_start": (EVENT - 4 * HOUR).isoformat(),
    "event_end": EVENT.isoformat(),
    "price_minor": 100_000,
    "currency": "EUR",
}
_CUSTOMER, _CHEF = {"role": "customer", "id": "customer"}, {"role": "chef", "id": "chef"}
_ASKED: Requests = ((HOUR, "PUT", "/bookings/{id}", _BODY),)
_PAID: Requests = (
    *_ASKED,
    (2 * HOUR, "POST", "/bookings/{id}/accept", {}),
    (3 * HOUR, "POST", "/bookings/{id}/pay", {"captured_minor": 100_000, "charge_ref": "ch_1"}),
    (4 * HOUR, "GET", "/bookings/{id}", None),
)
_LATER = EVENT + 5 * DAY - START
_MOVED = {
    "event_start": (EVENT + 5 * DAY - 4 * HOUR).isoformat(),
    "event_end": (EVENT + 5 * DAY).isoformat(),
}
_DISPUTED = EVENT + HOUR - START
_OPENED = {"reason": "late", "text": "It was late.", "claimed_minor": 40_000, "actor": _CUSTOMER}
_DECISION = {"refund_minor": 20_000, "reason": "as seen", "actor": {"role": "mediator", "id": "m-1"}}

FLOWS: Mapping[str, Flow] = {
    "never accepted": Flow(0.10, _ASKED),
    "paid out": Flow(0.68, _PAID),
    "moved, paid out": Flow(0.12, (*_PAID, (20 * DAY, "POST", "/bookings/{id}/move", _MOVED))),
    "cancelled, refunded": Flow(0.08, (*_PAID, (30 * DAY, "POST", "/bookings/{id}/cancel", {"actor": _CUSTOMER}))),
    "disputed, decided": Flow(
        0.02,
        (
            *_PAID,
            (_DISPUTED, "POST", "/bookings/{id}/disputes", _OPENED),
            (
                _DISPUTED + HOUR,
                "POST",
                "/disputes/{id}.d1/reply",
                {"actor": _CHEF, "answer": "contest", "text": "It was not."},
            ),
            (_DISPUTED + DAY, "POST", "/disputes/{id}.d1/decision", _DECISION),
        ),
    ),
}
OWN_JOBS = 0.3
"""Own jobs a booking, each asked for once and due once."""
OWN_JOB = Flow(
    1.0, ((5 * HOUR, "PUT", "/bookings/{id}/jobs/reminder", {"run_at": EVENT.isoformat(), "payload": {"mail": "1"}}),)
)


@dataclass(slots=True)
class Played:
    """What one run counted until everything was over, and in the month after; `stored`: bytes then; `types`: events."""

    calls: Calls
    month: Calls
    stored: int
    types: list[str]


def play(flow: Flow, bookings: int) -> Played:
    """So many bookings of a kind, from their requests until all is over, and a month more."""
    cloud, units = _cloud()
    types: list[str] = []

    def request(method: str, path: str, body: Mapping[str, Any] | None) -> None:
        status, answer = cloud.request(path, method, path, body)
        if status >= 300:
            raise RuntimeError(f"{method} {path} was answered {status}: {answer}")

    def delivered(event: Mapping[str, Any]) -> None:
        types.append(event["type"])
        if event["type"] == "payment.requested":
            path = f"/payments/{event['data']['payment_id']}/result"
            cloud.at(cloud.now + HOUR, request, "POST", path, {"status": "done", "provider_ref": "tr_1"})

    cloud.delivered = delivered
    with cloud.wired():
        for number in range(bookings):
            for after, method, path, body in flow.requests:
                cloud.at(START + after + number * APART, request, method, path.format(id=f"b{number}"), body)
        cloud.run(OVER)
        calls = _counted(cloud, units)
        stored = sum(_stored(row) for row in cloud.table.rows())
        cloud.run(OVER + MONTH)
    return Played(calls, less(_counted(cloud, units), calls), stored, types)


def _cloud() -> tuple[Cloud, Calls]:
    settings = Settings(faults=0.0)
    cloud = Cloud(settings, Faults(settings), by_event=True)
    cloud.down = lambda name: name == "sweeper"  # type: ignore[method-assign]  # its runs are counted as fixed
    return cloud, metered(cloud.table)


def _stored(row: Item) -> int:
    """Bytes that are paid for: the row and what each index holds of it, 100 bytes of overhead each."""
    held = [row, *(found for name in INDEXES if (found := _in_index(name, row)))]
    return sum(size(part) + 100 for part in held)


def _counted(cloud: Cloud, units: Calls) -> Calls:
    """Every call so far: what the cloud and the twins counted, the table's as units, transitions by states entered."""
    total: Calls = dict(cloud.calls)
    for twin in (cloud.schedules, cloud.queues, cloud.bus, cloud.workflow):
        total |= {f"{twin.name}.{kind}": amount for kind, amount in twin.calls.items()}
    entered = sum(
        event["type"].endswith("StateEntered") or event["type"] == "TaskFailed"
        for execution in cloud.machine.executions.values()
        for event in execution.events
    )
    return total | units | {"states.transitions": entered}


def less(calls: Mapping[str, float], without: Mapping[str, float]) -> Calls:
    """The difference, without what is equal."""
    found = {kind: calls.get(kind, 0) - without.get(kind, 0) for kind in sorted({*calls, *without})}
    return {kind: amount for kind, amount in found.items() if amount}


# --- the parts -----------------------------------------------------------------------------------------------------


def measure(prices: Prices) -> Costs:
    """Plays every flow, synthesizes the templates, and puts the parts together."""
    booking: Calls = {}
    kept: Calls = {}
    for share, flow in [(flow.share, flow) for flow in FLOWS.values()] + [(OWN_JOBS, OWN_JOB)]:
        one, two = play(flow, 1), play(flow, 2)
        add(booking, less(two.calls, one.calls), share)
        add(kept, less(two.month, one.month), share)
        for kind in ("dynamodb.storage_gb", "dynamodb.backup_gb"):
            add(kept, {kind: (two.stored - one.stored) / 1e9}, share)
    days = prices.assumptions["hours"] / 24
    add(kept, {"lambda.gb_seconds": prices.assumptions["memory_gb"] * prices.assumptions["compared"]}, days)
    fixed = deployed(synthesized(), prices)
    add(fixed, _compared(), days)
    return Costs(fixed, booking, kept)


def _compared() -> Calls:
    """The daily comparison of nothing."""
    cloud, units = _cloud()
    with cloud.wired():
        cloud.reconcile({})
    return _counted(cloud, units)


def _swept() -> Calls:
    """One pass of the sweeper that finds nothing, some days after the first."""
    cloud, units = _cloud()
    with cloud.wired():
        cloud.run(START + 20 * DAY)
        before = _counted(cloud, units)
        cloud.invoke("sweeper", sweeper.handler, {}, "sweeper")
        return less(_counted(cloud, units), before)


def synthesized() -> list[Mapping[str, Any]]:
    """Every resource of the production templates."""
    from stacks.assembly import build

    with tempfile.TemporaryDirectory() as folder:
        build(context={"aws:cdk:bundling-stacks": [], "env": "prod"}, outdir=Path(folder)).synth()
        bodies = [json.loads(path.read_text(encoding="utf-8")) for path in Path(folder).glob("*.template.json")]
    return [resource for body in bodies for resource in body["Resources"].values()]


def deployed(resources: Iterable[Mapping[str, Any]], prices: Prices) -> Calls:
    """What is paid for because it is there: polled queues, alarms, own metrics, dashboards, and the sweeper's runs.

    Own metrics are those that an alarm or the dashboard shows, each in every hour of the month: the most they can be.
    """
    found: Calls = {}
    metrics: set[tuple[str, ...]] = set()
    for resource in resources:
        properties = resource.get("Properties", {})
        match resource["Type"]:
            case "AWS::CloudWatch::Alarm":
                add(found, {"cloudwatch.alarms": max(1, len(properties.get("Metrics", ())))})
                if properties.get("Namespace") == NAMESPACE:
                    dimensions = sorted((part["Name"], part["Value"]) for part in properties["Dimensions"])
                    metrics.add((properties["MetricName"], *(text for pair in dimensions for text in pair)))
            case "AWS::CloudWatch::Dashboard":
                add(found, {"cloudwatch.dashboards": 1})
                metrics |= set(_shown(json.dumps(properties["DashboardBody"])))
            case "AWS::Lambda::EventSourceMapping" if "StartingPosition" not in properties:
                add(found, {"sqs.requests": polls(1, prices)})
            case "AWS::Events::Rule" if str(properties.get("ScheduleExpression", "")).startswith("rate("):
                number = float(properties["ScheduleExpression"].removeprefix("rate(").split()[0])
                add(found, _swept(), prices.assumptions["hours"] * 60 / number)
    return found | {"cloudwatch.metrics": len(metrics)}


def _shown(body: str) -> Iterator[tuple[str, ...]]:
    """Our metrics in a dashboard's body: name, then dimensions and their values."""
    for texts in re.findall(rf'\["{NAMESPACE}",([^\[\]{{}}]*)', body.replace("\\", "")):
        yield tuple(re.findall(r'"([^"]*)"', texts))
