"""All commands together."""

from importlib.metadata import version
from typing import Annotated

import typer

from duebook_cli.command import Commands
from duebook_cli.commands import (
    bookings,
    clock,
    dead,
    disputes,
    due,
    imports,
    jobs,
    moves,
    payouts,
    reconcile,
)

app = typer.Typer(
    name="duebook",
    cls=Commands,
    help="See, move, redrive and import what Duebook has to do. Exit codes: 0 done, 1 failed, 2 usage, 3 not found, "
    "4 conflict, 5 partly done, 6 not allowed, 7 not reached, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"duebook {version('duebook-client')}")
        raise typer.Exit


@app.callback()
def _shared(
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version, and end.")
    ] = False,
) -> None: ...


for module in (due, bookings, jobs, disputes, dead, payouts, reconcile, imports, moves, clock):
    module.add_to(app)
