"""What every command shares: which Duebook it speaks to, what it prints where, and how it ends.

Standard output holds the answer alone: tables for people, or with --json one JSON document. Everything else (progress,
questions, messages, errors) goes to standard error. With --json an error is a document too: `{"error": {...}}`.
"""

import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Concatenate, ParamSpec

import typer
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from duebook_cli import words
from duebook_cli.connect import Connection, caller, connect
from duebook_cli.exits import Declined, Exit, Usage, exit_of
from duebook_client import DuebookApiError, DuebookError, Forbidden, RetryPolicy

P = ParamSpec("P")

_NotUnderstood: type[Exception] = typer.BadParameter.__bases__[0]
"""Click's UsageError, of the click that typer uses: an installed one, or its own copy."""
_WHICH = "Which Duebook, and how it answers"
_WIDTH = 160
"""Columns where no terminal tells."""
_PATIENT = RetryPolicy(attempts=8, first=0.5, longest=15.0)
"""For many calls in a row: a throttled one waits up to a minute or so before the whole command gives up."""

_SHARED: Mapping[str, tuple[Any, Any]] = {
    "env": (
        Annotated[
            str | None,
            typer.Option(
                help="Environment: local, dev, prod, ... By default the variable DUEBOOK_ENV, else local if one runs.",
                rich_help_panel=_WHICH,
            ),
        ],
        None,
    ),
    "port": (
        Annotated[int | None, typer.Option(help="Port of the embedded AWS (local).", rich_help_panel=_WHICH)],
        None,
    ),
    "url": (
        Annotated[str | None, typer.Option(help="The API's address, instead of --env.", rich_help_panel=_WHICH)],
        None,
    ),
    "as_json": (Annotated[bool, typer.Option("--json", help="JSON on stdout.", rich_help_panel=_WHICH)], False),
}


class Run:
    """One run of a command."""

    def __init__(self, connection: Connection, *, as_json: bool, needs: Sequence[str] = ()) -> None:
        self._needs = needs
        self.connection = connection
        self.client = connection.client
        self.as_json = as_json
        self.now: datetime = connection.now()
        """The environment's present, when the command began."""
        self.messages = _console(sys.stderr)

    def show(self, document: Mapping[str, Any], *shown: RenderableType) -> None:
        """The answer: the document for programs, or what is shown to people."""
        if self.as_json:
            print_json(document)
            return
        console = _console(sys.stdout)
        for each in shown:
            console.print(each, markup=False)

    def say(self, message: str) -> None:
        """Tell a person something beside the answer."""
        self.messages.print(words.plain(message), markup=False)

    def when(self, at: datetime | None) -> str:
        """An instant, and how far it is from now."""
        return words.when(at, self.now)

    def explained(self, error: DuebookError) -> str:
        """What was wrong, where, and what to do."""
        if isinstance(error, Forbidden):
            return self._forbidden()
        if isinstance(error, DuebookApiError) and exit_of(error) is Exit.NOT_REACHED:
            return f"{self.connection.name}: {error}; the same command again is safe"
        return str(error)

    def _forbidden(self) -> str:
        """API Gateway says the same of expired credentials and of ones without a policy; STS tells them apart."""
        try:
            arn = caller(self.connection.session)
        except DuebookError as error:
            return str(error)
        outputs = self.connection.outputs
        names = [f"{need.capitalize()}PolicyArn" for need in self._needs]
        policies = [outputs.get(name, f"that the App stack puts out as {name}") for name in names]
        return f"{arn} may not do this in {self.connection.name}: attach the managed policy {' and '.join(policies)}"

    def confirm(self, question: str, *, yes: bool, number: int | None = None) -> None:
        """Ask a person, on standard error, unless `yes`. With a `number`, that number has to be typed.

        Raises Declined when the answer is another, or nobody is there to give one.
        """
        if yes:
            return
        wanted = "yes" if number is None else str(number)
        self.say(f"{question} ({self.connection.name})")
        print(f"Type {wanted} to go on: ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
        if not answer:
            self.say("")
            raise Declined("nobody answered, so nothing was done: --yes answers beforehand")
        if answer.strip() != wanted:
            raise Declined("not confirmed, so nothing was done")


class Commands(TyperGroup):
    """All commands: one that is not understood is told as every other error is, on both ways out."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **more: Any,
    ) -> Any:
        args = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **more)
        except _NotUnderstood as error:
            if not standalone_mode:
                raise
            if told := _told_of_usage(error):  # none where a group without a command showed its help
                _tell(_code_of(Usage()), told, as_json="--json" in args)
            code = Exit.USAGE
        if not standalone_mode:
            return code
        sys.exit(code)


def _told_of_usage(error: Any) -> str:
    message: str = error.format_message().strip().rstrip(".")
    if not message or error.ctx is None:
        return message
    return f"{message[0].lower()}{message[1:]} ({error.ctx.command_path} --help tells more)"


Act = Callable[Concatenate[Run, P], Exit | None]


def command(
    app: typer.Typer, name: str, *, needs: Sequence[str] = (), patient: bool = False, hidden: bool = False
) -> Callable[[Act[P]], Act[P]]:
    """Make a function a command of `app`: its docstring is the help, what it returns (None: OK) the exit code.

    Its first parameter is the `Run`; the options that every command has are added. `needs`: the groups of routes that
    it calls, told when a call is forbidden. `patient`: it makes many calls, and waits longer when it is throttled.
    Errors of Duebook become a message and an exit code; others are bugs and keep their traceback.
    """

    def added(act: Act[P]) -> Act[P]:
        run: Callable[..., Exit | None] = act

        def called(context: typer.Context, **given: Any) -> None:
            env, port, url, as_json = (given.pop(shared) for shared in _SHARED)
            connection, begun = context.obj, None
            try:
                if connection is None:
                    connection = connect(env, port=port, url=url, retries=_PATIENT if patient else None)
                    context.call_on_close(connection.close)
                begun = Run(connection, as_json=as_json, needs=needs)
                code = run(begun, **given)
            except KeyboardInterrupt:
                _tell("interrupted", "interrupted: what was done so far is kept", as_json=as_json)
                raise typer.Exit(Exit.INTERRUPTED) from None
            except DuebookError as error:
                told = str(error) if begun is None else begun.explained(error)
                _tell(_code_of(error), told, as_json=as_json)
                raise typer.Exit(exit_of(error)) from None
            raise typer.Exit(Exit.OK if code is None else code)

        first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        own = list(inspect.signature(act).parameters.values())[1:]
        shared = [
            inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
            for each, (annotation, default) in _SHARED.items()
        ]
        parameters = [first, *own, *shared]
        called.__doc__ = act.__doc__
        called.__annotations__ = {each.name: each.annotation for each in parameters}
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        app.command(name, hidden=hidden)(called)
        return act

    return added


def group(name: str, help: str) -> typer.Typer:
    """A command that only has commands of its own."""
    return typer.Typer(name=name, help=help, no_args_is_help=True, pretty_exceptions_enable=False)


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    """An empty table; `right`: the columns of numbers. Nothing in a cell is cut off."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def row(to: Table, *cells: object) -> None:
    """Add a row: `-` for None, and nothing in a text is taken as markup."""
    to.add_row(*(Text("-" if cell is None else words.plain(cell)) for cell in cells))


def facts(**told: object) -> Table:
    """Names and values, one a line; those that are None are left out. `_` in a name is shown as a space."""
    made = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in told.items():
        if value is not None:
            row(made, name.replace("_", " "), value)
    return made


def print_json(document: Mapping[str, Any]) -> None:
    """One line on standard output."""
    print(json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def error_document(error: DuebookError) -> dict[str, Any]:
    """An error as it is shown to programs."""
    told: dict[str, Any] = {"code": _code_of(error), "message": str(error)}
    if isinstance(error, DuebookApiError):
        told["message"] = error.message
        told |= {name: getattr(error, name) for name in ("status", "field", "state") if getattr(error, name)}
    return told


def _console(file: Any) -> Console:
    terminal = file.isatty()
    return Console(file=file, highlight=False, soft_wrap=not terminal, width=None if terminal else _WIDTH)


def _tell(code: str, message: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"error": {"code": code, "message": message}})
    print(f"duebook: {words.plain(message)}", file=sys.stderr)


def _code_of(error: DuebookError) -> str:
    if isinstance(error, DuebookApiError):
        return error.code
    name = type(error).__name__
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name).removeprefix("_")
