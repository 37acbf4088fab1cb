"""`python -m smoke --env dev`: plays the stories, asks the probes, tidies up; exit code 0 when every story holds.

0: all holds. 1: something does not. 2: nothing was begun (not confirmed, not found, no credentials). 130: interrupted.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import FrameType

from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from duebook_cli.connect import Connection, caller, connect
from duebook_client import DuebookError
from local.deploy import DeployError, deploy
from local.emulator import EmbeddedAws, EmulatorError
from smoke import permissions, probes
from smoke.deployment import Deployment, tidy
from smoke.runner import Failed, Result, Verdict, run
from smoke.stories import reconciled, stories

UNCONFIRMED = ("local", "dev")
"""Environments in which nobody has to be asked; any other may be somebody's business."""
NOT_BEGUN, INTERRUPTED = 2, 130
_WIDTH = 140
_STYLE = {Verdict.OK: "green", Verdict.PARTLY: "yellow", Verdict.FAILED: "red"}


def main(arguments: Sequence[str] = ()) -> int:
    options = _parser().parse_args(arguments)
    for ending in (signal.SIGINT, signal.SIGTERM):  # what was made is tidied up all the same
        signal.signal(ending, _interrupt)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _WIDTH
    if options.env not in UNCONFIRMED and options.confirm != options.env:
        print(
            f"smoke: it makes bookings and asks for payments in {options.env}: if that is what you want, "
            f"say CONFIRM={options.env}",
            file=sys.stderr,
        )
        return NOT_BEGUN
    try:
        with _environment(options.env, options.port) as connection:
            deployment = Deployment(connection)
            if options.permissions:
                print(json.dumps(permissions.policy(deployment), indent=2))
                return 0
            console.print(f"{connection.name}: {connection.url}, as {caller(connection.session)}", soft_wrap=True)
            return 0 if smoke(deployment, console, boundary=options.boundary) else 1
    except KeyboardInterrupt:
        console.print("\nStopped, and tidied up.")
        return INTERRUPTED
    except (DuebookError, DeployError, EmulatorError, BotoCoreError, ClientError, Failed) as error:
        print(f"smoke: {error}", file=sys.stderr)
        return NOT_BEGUN


def smoke(deployment: Deployment, console: Console, *, boundary: str | None = None) -> bool:
    """Play, ask, compare, tidy up and show; whether every story holds."""
    d, began = deployment, time.monotonic()
    console.print(f"Ids begin with {d.name}, resources with {d.prefix}. On an account it takes 8 to 15 minutes.")
    answers: list[Result] = []
    with console.status("Making queues, a group and a role") as status:

        def watch(what: str) -> None:
            status.update(escape(what))

        try:
            with d.listening(), probes.bench_of(d, boundary) as bench:
                answers = run(probes.checks(bench, [probes.NEW_ROLE]), d.time, watch)
                asked = probes.checks(bench, probes.PROBES)
                found = run([*stories(d), *asked], d.time, watch)
                told, answers = found[: -len(asked)], [*answers, *found[-len(asked) :]]
                told += run([reconciled(d)], d.time, watch)
        finally:
            status.update("Tidying up")
            left = tidy(d)
    console.print(_told(told))
    console.print(_answered(answers))
    for each in left:
        console.print(f"[red]could not be ended:[/red] {escape(each)}", soft_wrap=True)
    failed = [result for result in told if result.verdict is Verdict.FAILED]
    console.print(
        f"{len(told) - len(failed)} of {len(told)} stories hold; {len(answers)} questions were asked; "
        f"{time.monotonic() - began:.0f} s."
    )
    return not failed and not left


@contextmanager
def _environment(env: str, port: int | None) -> Iterator[Connection]:
    """The environment asked for. `local` without a port: an embedded AWS of its own, for the time of the run."""
    own = EmbeddedAws() if env == "local" and port is None else None
    with own or nullcontext():
        if own is not None:
            deploy(own, context={"payments": "external"})
            port = own.port
        with connect(env, port=port) as connection:
            yield connection


def _told(results: Sequence[Result]) -> Table:
    table = Table(title="Stories", title_justify="left")
    for column in ("story", "", "took", "found"):
        table.add_column(column)
    for result in results:
        minutes, seconds = divmod(int(result.took.total_seconds()), 60)
        table.add_row(
            escape(result.name),
            f"[{_STYLE[result.verdict]}]{result.verdict}[/]",
            f"{minutes}:{seconds:02d}",
            escape(result.found),
        )
    return table


def _answered(results: Sequence[Result]) -> Table:
    table = Table(title="What AWS answered", title_justify="left", show_lines=True)
    for column in ("open in its documentation", "the answer here", "the design assumes", "why the other is harmless"):
        table.add_column(column, ratio=1)
    known = {probe.fact: probe for probe in (probes.NEW_ROLE, *probes.PROBES)}
    for result in results:
        probe = known[result.name]
        answer = result.found if result.verdict is Verdict.OK else f"could not be asked: {result.found}"
        table.add_row(*map(escape, (probe.fact, answer, probe.assumes, probe.harmless)))
    return table


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m smoke", description="Play the stories on a deployment.")
    parser.add_argument("--env", default="dev", help="local, dev or prod; by default dev")
    parser.add_argument("--port", type=int, help="of a running embedded AWS; local without it starts one of its own")
    parser.add_argument("--confirm", default="", help="the environment's name again, where it is not local or dev")
    parser.add_argument("--boundary", help="ARN of a permissions boundary for the role that the probes make")
    parser.add_argument("--permissions", action="store_true", help="print the least policy that it needs, and stop")
    return parser


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
