"""Options that several commands have."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from duebook_cli import arguments
from duebook_cli.exits import Usage
from duebook_client import Actor


def parsed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A parser of `arguments`, whose rule becomes the usage error. A default is what it gives, and stays as it is."""

    def parser(text: Any) -> Any:
        try:
            return parse(text) if isinstance(text, str) else text
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    parser.__name__ = parse.__name__
    return parser


BookingId = Annotated[str, typer.Argument(metavar="BOOKING", help="The booking's id.")]
Within = Annotated[
    timedelta,
    typer.Option(
        parser=parsed(arguments.window), metavar="LENGTH", help="From now on: 7d, 36h, 1d12h.", show_default="7d"
    ),
]
WEEK = timedelta(days=7)
Reason = Annotated[str | None, typer.Option(help="Why, for the history.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def _by(**more: Any) -> Any:
    return typer.Option(
        "--by",
        parser=parsed(arguments.actor),
        metavar="ROLE[:ID]",
        help="Who does it: operator, chef:ch-1, customer.",
        **more,
    )


By = Annotated[Actor, _by()]
ByOperator = Annotated[Actor, _by(show_default="operator")]
OPERATOR = Actor("operator")
"""Who acts where nobody else is named."""
Zone = Annotated[
    str | None, typer.Option(help="IANA zone, as Europe/Berlin: times are then local there, without an offset.")
]
Rate = Annotated[
    float, typer.Option(parser=parsed(arguments.rate), metavar="NUMBER", help="Calls a second, at most: 0.1 to 1000.")
]
InputFile = Annotated[
    Path,
    typer.Argument(exists=True, dir_okay=False, readable=True, metavar="FILE", help="CSV, or JSON lines (.jsonl)."),
]


def time(text: str, zone: str | None, option: str) -> Any:
    """A time as `arguments.time` reads it. Raises Usage naming the option."""
    try:
        return arguments.time(text, zone)
    except ValueError as error:
        raise Usage(f"{option}: {error}") from None
