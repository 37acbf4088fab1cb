"""`pause payouts` and `resume payouts`: the switch that stops the money."""

import typer

from duebook_cli import options
from duebook_cli.command import Run, command, facts, group
from duebook_client import Payouts


def add_to(app: typer.Typer) -> None:
    pauses = group("pause", "Stop something for all.")
    command(pauses, "payouts", needs=["operations"])(pause)
    app.add_typer(pauses)
    resumes = group("resume", "Let it go again.")
    command(resumes, "payouts", needs=["operations"])(resume)
    app.add_typer(resumes)


def pause(run: Run, reason: options.Reason = None) -> None:
    """No payout is sent from now on, until they are resumed."""
    _show(run, run.client.pause_payouts(reason=reason))


def resume(run: Run) -> None:
    """Payouts go again: what waited goes within the hour."""
    _show(run, run.client.resume_payouts())


def _show(run: Run, switch: Payouts) -> None:
    run.show({"payouts": switch.raw}, facts(payouts="paused" if switch.paused else "go", reason=switch.reason))
    if not switch.applied:
        run.say("It was so already.")
