"""`python -m local.replay --trace FILE --limit N`: real bookings through the HTTP API, on travelling time.

Every booking is made, accepted, paid, changed and cancelled when the trace says so, and its jobs do the rest. At the
end each booking's state, its transfers and refunds and its events must be what its row alone says, and a reconcile pass
must find no difference. The daily pass is switched off meanwhile, so that it can't hide one.
"""

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from duebook_client import Actor, Booking, CancellationTier, DuebookError, Event, Local, Policy, ReconcileReport
from local.deploy import DeployError
from local.emulator import EmulatorError
from local.trace import CURRENCY, POLICY, ZONE, Action, Do, Outcome, Row, TraceError, expected, plan, read_trace
from local.world import World, deployed

SAMPLE = Path(__file__).with_name("sample_trace.csv")
INTERRUPTED = 130
_AT_ONCE = 4
"""Calls in flight."""
_SHOWN = 20
_TERMINAL = {"booking.paid_out", "booking.cancelled"}


@dataclass(slots=True)
class Findings:
    """What does not agree with the trace."""

    problems: list[str] = field(default_factory=list)
    late: list[timedelta] = field(default_factory=list)
    refunds: int = 0
    payouts: int = 0
    refunded: int = 0
    paid_out: int = 0

    def expect(self, row: Row, what: str, found: object, wanted: object) -> None:
        if found != wanted:
            self.problems.append(f"{row.booking_id} (line {row.line}): {what}: {found}, but it must be {wanted}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 0 if everything agrees."""
    options = _parser().parse_args(arguments)
    for ending in (signal.SIGINT, signal.SIGTERM):  # also where a shell had them ignored
        signal.signal(ending, _interrupt)
    console = Console(highlight=False, soft_wrap=True)
    try:
        rows = read_trace(options.trace, limit=options.limit)
        return replay(console, rows)
    except KeyboardInterrupt:
        console.print("\nStopped; nothing is left running.")
        return INTERRUPTED
    except (TraceError, DuebookError, DeployError, EmulatorError, TimeoutError) as error:
        console.print(f"[red]{escape(str(error))}[/red]")
    return 1


def replay(console: Console, rows: Sequence[Row]) -> int:
    """Deploy, play, check, report; 0 if everything agrees."""
    actions = sorted((action for row in rows for action in plan(row)), key=lambda action: action.at)
    ends = max(expected(row).settled_at for row in rows)
    console.print(
        f"{len(rows)} bookings, {len(actions)} commands, from {actions[0].at:%d %b %Y} to {ends:%d %b %Y}: "
        f"{sum(row.outcome is Outcome.CANCELLED for row in rows)} are cancelled, "
        f"{sum(row.changes for row in rows)} changes, {sum(row.amount == 0 for row in rows)} free stays."
    )
    started = time.monotonic()
    with deployed(start_at=actions[0].at - timedelta(minutes=5)) as world:
        if not world.travels:
            console.print("[red]Time does not travel on this machine, and a replay takes months.[/red]")
            return 1
        world.stop_daily_reconcile()
        with _progress(console) as progress:
            play(world, actions, ends, progress)
            findings = check(world, rows, progress)
        report = world.reconcile()
    if report.differences:
        findings.problems.append(f"reconcile found {report.differences} differences: {report.raw.get('examples')}")
    return _report(console, rows, findings, report, time.monotonic() - started)


def play(world: World, actions: Sequence[Action], ends: datetime, progress: Progress) -> None:
    """Give every command at its instant, and let time pass until `ends`."""
    task = progress.add_task("", total=len(actions))
    world.watch = lambda now, goal: progress.update(task, description=f"{now:%d %b %Y}")
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for at, together in groupby(actions, key=lambda action: action.at):
            world.reach(at)
            by_booking: dict[str, list[Action]] = {}
            for action in together:
                by_booking.setdefault(action.row.booking_id, []).append(action)
            for done in pool.map(lambda own: _do_all(world, own), by_booking.values()):
                progress.advance(task, done)
    world.reach(ends + timedelta(minutes=1))


def _do_all(world: World, actions: Sequence[Action]) -> int:
    for action in actions:
        _do(world, action)
    return len(actions)


def _do(world: World, action: Action) -> None:
    row, client = action.row, world.client
    if action.do is Do.CANCEL:
        client.cancel(row.booking_id, actor=Actor("customer"))
        return
    assert action.start is not None
    assert action.end is not None
    start, end = _local(action.start), _local(action.end)
    if action.do is Do.MOVE:
        client.move(row.booking_id, event_start=start, event_end=end, actor=Actor("customer"))
        return
    client.put_booking(
        row.booking_id,
        customer_id=f"guest-{row.booking_id}",
        chef_id=row.booking_id.partition("-")[0],
        event_start=start,
        event_end=end,
        price_minor=row.amount,
        currency=CURRENCY,
        policy=_policy(),
    )
    client.accept(row.booking_id, actor=Actor("chef"))
    client.pay(row.booking_id, captured_minor=row.amount, charge_ref=f"charge-{row.booking_id}")


def check(world: World, rows: Sequence[Row], progress: Progress) -> Findings:
    """Compare how every booking ended with what its row says."""
    findings = Findings()
    task = progress.add_task("checking", total=len(rows))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for row, booking in zip(rows, pool.map(lambda row: world.client.booking(row.booking_id), rows), strict=True):
            _check_booking(findings, row, booking)
            _check_events(findings, row, booking, world.inbox.of(row.booking_id))
            progress.advance(task)
    ours = {row.booking_id for row in rows}
    left = [name for name in world.schedules() if name.partition("-")[2] in ours]
    if left:
        findings.problems.append(f"{len(left)} schedules are left: {sorted(left)[:3]}")
    return findings


def _check_booking(findings: Findings, row: Row, booking: Booking) -> None:
    ends = expected(row)
    findings.expect(row, "state", booking.state, ends.state)
    findings.expect(row, "captured", booking.captured_minor, row.amount)
    wanted = [(kind, amount) for kind, amount in (("refund", ends.refund), ("payout", ends.payout)) if amount]
    findings.expect(row, "payments", [(pay.kind, pay.amount_minor) for pay in booking.payments], wanted)
    for pay in booking.payments:
        findings.expect(row, f"{pay.payment_id} sent", (pay.status, pay.epoch, pay.attempt), ("done", 1, 1))
        if pay.kind == "refund":
            findings.refunds, findings.refunded = findings.refunds + 1, findings.refunded + pay.amount_minor
        else:
            findings.payouts, findings.paid_out = findings.payouts + 1, findings.paid_out + pay.amount_minor


def _check_events(findings: Findings, row: Row, booking: Booking, events: Sequence[Event]) -> None:
    """Every version was heard of once, the end came once, and each payment was attempted and done once."""
    versions = [event.version for event in events]
    findings.expect(row, "versions heard of", versions, list(range(1, booking.version + 1)))
    types = [event.type for event in events]
    findings.expect(row, "ends", sum(type_ in _TERMINAL for type_ in types), 1)
    findings.expect(row, "changes", types.count("booking.moved"), row.changes)
    payments = sorted(pay.payment_id for pay in booking.payments)
    for word in ("payment.attempted", "payment.done"):
        done = [event for event in events if event.type == word or (word.endswith("done") and _is_last_payout(event))]
        findings.expect(row, word, sorted(event.data["payment_id"] for event in done), payments)
    findings.late += [event.at - event.due for event in events if event.due is not None]


def _is_last_payout(event: Event) -> bool:
    """`booking.paid_out` stands for its payment's `payment.done`; a free stay's has no payment."""
    return event.type == "booking.paid_out" and "payment_id" in event.data


def _report(console: Console, rows: Sequence[Row], findings: Findings, report: ReconcileReport, seconds: float) -> int:
    for problem in findings.problems[:_SHOWN]:
        console.print(f" [red]✗[/red] {escape(problem)}")
    if len(findings.problems) > _SHOWN:
        console.print(f"   and {len(findings.problems) - _SHOWN} more")
    worst = max(findings.late, default=timedelta())
    console.print(
        f"{len(rows)} bookings ended; {findings.payouts} payouts of {findings.paid_out / 100:,.2f} {CURRENCY} and "
        f"{findings.refunds} refunds of {findings.refunded / 100:,.2f} {CURRENCY}; {len(findings.late)} jobs ran, "
        f"the latest {worst.total_seconds():.0f} s after its instant. "
        f"Reconcile checked {report.bookings_checked} bookings: {report.differences} differences. {seconds:.0f} s."
    )
    if findings.problems:
        console.print("[red]The replay does not agree with its trace.[/red]")
        return 1
    console.print("[green]Everything is as the trace says.[/green]")
    return 0


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:>11}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )


def _local(instant: datetime) -> Local:
    return Local(instant.replace(tzinfo=None), ZONE)


def _policy() -> Policy:
    return Policy(
        accept_within=timedelta(seconds=POLICY["accept_within"]),
        pay_within=timedelta(seconds=POLICY["pay_within"]),
        complete_after=timedelta(seconds=POLICY["complete_after"]),
        dispute_within=timedelta(seconds=POLICY["dispute_within"]),
        fee_bps=POLICY["fee_bps"],
        cancellation=tuple(
            CancellationTier(timedelta(seconds=tier["before"]), tier["refund_bps"]) for tier in POLICY["cancellation"]
        ),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m local.replay", description=__doc__)
    parser.add_argument("--trace", type=Path, default=SAMPLE, help="CSV or CSV.gz; by default a few synthetic rows")
    parser.add_argument("--limit", type=int, default=300, help="at most so many rows from the top (300)")
    return parser


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
