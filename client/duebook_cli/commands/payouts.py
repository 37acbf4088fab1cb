"""`payouts`, `pause payouts` and `resume payouts`: the money that will go, and the switch that stops it."""

from collections import Counter

import typer

from duebook_cli import arguments, options, words
from duebook_cli.command import Run, command, facts, group, row, table
from duebook_cli.exits import Usage
from duebook_client import Payouts
from duebook_client.client import LONGEST_SUMMARY


def add_to(app: typer.Typer) -> None:
    command(app, "payouts", needs=["schedules", "operations"])(payouts)
    pauses = group("pause", "Stop something for all.")
    command(pauses, "payouts", needs=["operations"])(pause)
    app.add_typer(pauses)
    resumes = group("resume", "Let it go again.")
    command(resumes, "payouts", needs=["operations"])(resume)
    app.add_typer(resumes)


def payouts(run: Run, within: options.Within = options.WEEK) -> None:
    """Payouts that come due, by UTC day; `due --job release_payment` names the bookings."""
    if within > LONGEST_SUMMARY:
        raise Usage(f"--within: at most {LONGEST_SUMMARY.days}d, not {words.length(within)}")
    end = arguments.later(run.now, within)
    days = run.client.jobs_summary(run.now, end, job="release_payment")
    switch = run.client.payouts()
    total: Counter[str] = Counter()
    shown = table("day", "payouts", "amount", right=["payouts", "amount"])
    for each in days:
        total.update(each.amounts)
        row(shown, each.day.isoformat(), f"{each.count:,}", words.sums(each.amounts))
    number = sum(each.count for each in days)
    document = {
        "from": words.iso(run.now),
        "to": words.iso(end),
        "paused": switch.paused,
        "days": [{"day": each.day.isoformat(), "count": each.count, "amounts": dict(each.amounts)} for each in days],
        "count": number,
        "amounts": dict(total),
    }
    run.show(document, *([shown] if days else []))
    amount = f" of {words.sums(total)}" if total else ""
    run.say(f"{words.count(number, 'payout')}{amount} until {words.instant(end)}")
    if switch.paused:
        run.say(f"Payouts are paused: {switch.reason or 'no reason was given'}. `duebook resume payouts` lets them go.")


def pause(run: Run, reason: options.Reason = None) -> None:
    """No payout is sent, at once and for all bookings, until they are resumed. It does not ask."""
    _show(run, run.client.pause_payouts(reason=reason))


def resume(run: Run) -> None:
    """Payouts go again: what waited goes within the hour."""
    _show(run, run.client.resume_payouts())


def _show(run: Run, switch: Payouts) -> None:
    run.show({"payouts": switch.raw}, facts(payouts="paused" if switch.paused else "go", reason=switch.reason))
    if not switch.applied:
        run.say("It was so already.")
