"""All commands together."""

import typer

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
    help="See, move, redrive and import what Duebook has to do. Exit codes: 0 done, 1 failed, 2 usage, 3 not found, "
    "4 conflict, 5 partly done, 6 not allowed, 7 not reached, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for module in (due, bookings, jobs, disputes, dead, payouts, reconcile, imports, moves, clock):
    module.add_to(app)
