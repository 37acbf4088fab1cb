"""What a run came to, as text: what was simulated, what went wrong, what it took, and how a violation came about."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from benchmarks.cost import bill
from simulation.faults import FAULTS
from simulation.settings import Result, Violation

SERVICES = {
    "DynamoDB": ("table.",),
    "Scheduler": ("schedules.", "scheduler."),
    "SQS": ("queues.", "sqs."),
    "Lambda": ("lambda.",),
    "EventBridge": ("bus.", "events."),
    "Step Functions": ("workflow.",),
    "API Gateway": ("api.",),
    "stream reads": ("stream.",),
}


def report(result: Result) -> str:
    """Everything, line by line."""
    return "\n".join(_lines(result))


def _lines(result: Result) -> Iterator[str]:
    settings, days = result.settings, result.days
    rate = days / result.seconds if result.seconds else 0.0
    yield f"seed {settings.seed}: {result.bookings:,} bookings over {days:,.0f} days"
    each = 1000 * result.seconds / max(1, result.bookings)
    yield (
        f"took {result.seconds:.1f} s of CPU ({each:.1f} ms a booking, {rate:,.1f} simulated days a second), "
        f"{result.peak_memory / 2**20:,.0f} MB at most"
    )
    yield f"digest {result.digest}"
    yield f"checks made: {_counts(result.checks)}"
    yield f"faults met: {sum(result.faults.values()):,}"
    for name, count in sorted(result.faults.items(), key=lambda item: (-item[1], item[0])):
        known = FAULTS.get(name)
        yield f"  {count:>9,}  {name}{f': {known.text}' if known else ''}"
    yield f"people's acts: {_counts(result.actions)}"
    yield f"answers: {_counts(result.answers)}"
    yield f"bookings ended: {_counts(result.states)}"
    yield (
        f"at most {result.peak_open:,} open bookings, {result.peak_pending:,} pending jobs, "
        f"{result.peak_schedules:,} schedules"
    )
    yield f"wake-ups: {_counts(result.wake_ups)}"
    yield f"lateness of {len(result.lateness):,} timed effects: {lateness(result.lateness)}"
    yield "AWS requests a booking:"
    sums = by_service(result)
    for service, count in sums.items():
        yield f"  {count / max(1, result.bookings):>9.1f}  {service}"
    yield from _bill(result)


def by_service(result: Result) -> dict[str, int]:
    """Requests of each service, as the twins and the cloud counted them."""
    return {
        service: sum(count for kind, count in result.calls.items() if kind.startswith(prefixes))
        for service, prefixes in SERVICES.items()
    }


def lateness(found: Sequence[int]) -> str:
    """Half, 99 % and the worst of sorted seconds."""
    if not found:
        return "none"
    half, most = found[len(found) // 2], found[min(len(found) - 1, int(len(found) * 0.99))]
    return f"half within {_span(half)}, 99 % within {_span(most)}, the worst {_span(found[-1])}"


def told(violation: Violation) -> str:
    """The history that led to a violation, as a table."""
    lines = [
        f"{violation.invariant} does not hold for {violation.booking_id} at {_at(violation)}:",
        violation.found,
        "",
    ]
    lines += [f"  {line.at:%Y-%m-%d %H:%M:%S}  {line.what}" for line in violation.history]
    return "\n".join(lines)


def reproduce(result: Result) -> str:
    """The command that runs it again."""
    text = json.dumps(result.settings.as_dict(), separators=(",", ":"))
    return f"python -m simulation --scenario '{text}'"


def _bill(result: Result) -> Iterator[str]:
    """What these requests cost at the benchmarks' price table. Storage, idle polls and alarms are not among them.

    Of the table's units, reads are estimated at a unit each (half of one from an index), writes are weighed for every
    sixteenth row; each step of the workflow counts as two transitions.
    """
    calls = {kind: float(count) for kind, count in result.calls.items() if not kind.startswith(("table.", "provider"))}
    units = {"get": 1.0, "query": 1.0, "query_index": 0.5, "scan": 64.0}
    calls["dynamodb.read_units"] = sum(each * result.calls[f"table.{kind}"] for kind, each in units.items())
    calls["states.transitions"] = 2.0 * result.calls["lambda.dispute"]
    counted = bill(calls)
    each = 1000 * counted.usd / max(1, result.bookings)
    yield f"at the price table {counted.usd:,.2f} USD, {each:.2f} USD for 1,000 bookings:"
    for service, usd in counted.services.items():
        yield f"  {usd:>9.2f}  {service}"


def _at(violation: Violation) -> str:
    return f"{violation.at:%Y-%m-%d %H:%M:%S}"


def _counts(found: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _span(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
