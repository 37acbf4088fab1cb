"""`python -m local up` runs the embedded AWS until Ctrl-C; `clock` moves its time, `sample` fills it."""

import argparse
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from types import FrameType

from duebook_cli.arguments import duration
from duebook_client import Duebook, DuebookError
from local import sample
from local.clock import TimeDoesNotTravelError
from local.console import console
from local.deploy import Outputs, deploy
from local.emulator import REGION, ROOT, EmbeddedAws, EmulatorError, api_url

_PORT = 4566


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit status."""
    options = _parser().parse_args(arguments)
    for ending in (signal.SIGINT, signal.SIGTERM):  # also where a shell had them ignored
        signal.signal(ending, _end)
    try:
        if options.command == "up":
            _up(
                port=options.port,
                start_at=options.start_at,
                fill=options.sample,
                console_port=options.console_port if options.console else None,
            )
        elif options.command == "clock":
            _move(port=options.port, by=options.by, to=options.to)
        elif options.command == "sample":
            aws = EmbeddedAws.attach(port=options.port)
            _fill(aws, sample.outputs_of(aws))
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
    except (DuebookError, EmulatorError, TimeDoesNotTravelError, TimeoutError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def usage(aws: EmbeddedAws, outputs: Outputs) -> str:
    """Shell lines, to be used as they stand, that talk to the running deployment."""
    named = {name: value for stack in outputs.values() for name, value in stack.items()}
    settings = {**aws.env, "DUEBOOK_API_URL": api_url(aws, named)}
    exports = "\n".join(f"export {name}={value}" for name, value in settings.items())
    now = aws.clock.now().replace(microsecond=0)
    window = f"from={now:%Y-%m-%dT%H:%M:%SZ}&to={now + timedelta(days=30):%Y-%m-%dT%H:%M:%SZ}"
    return f"""\
# The settings, for this shell:
{exports}

# A signed call from Python, by the typed client in client/:
PYTHONPATH={ROOT / "client"} {sys.executable} - <<'EOF'
import os
from datetime import datetime
from duebook_client import Duebook
with Duebook(os.environ["DUEBOOK_API_URL"], region=os.environ["AWS_REGION"]) as duebook:
    reminder = datetime.fromisoformat("{now + timedelta(days=10)}")
    print(duebook.put_job("wedding-1", "reminder", run_at=reminder, payload={{"say": "ten days have passed"}}))
EOF

# What is due in the next 30 days, by curl (7.75 or later):
curl --silent --show-error --aws-sigv4 aws:amz:{REGION}:execute-api \\
  --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" "$DUEBOOK_API_URL/jobs?{window}"
"""


def _up(*, port: int, start_at: datetime | None, fill: bool, console_port: int | None) -> None:
    """`console_port`: None for no console, 0 for a free port."""
    with EmbeddedAws(port=port, start_at=start_at) as aws, ExitStack() as beside:
        outputs = deploy(aws)
        if fill:
            _fill(aws, {name: value for stack in outputs.values() for name, value in stack.items()})
        print(usage(aws, outputs), flush=True)
        print(_told(aws), file=sys.stderr, flush=True)
        if console_port is not None:
            address = beside.enter_context(console(port, console_port=console_port))
            print(f"\nConsole: {address}\n", file=sys.stderr, flush=True)
        while aws.alive:
            time.sleep(1)
        raise EmulatorError(f"the emulator ended\n{aws.log_tail()}")


def _fill(aws: EmbeddedAws, outputs: Mapping[str, str]) -> None:
    with Duebook(api_url(aws, outputs["ApiUrl"]), region=REGION, session=aws.session()) as client:
        made = sample.make(aws, client, outputs["TableName"], lambda what: print(what, file=sys.stderr, flush=True))
    print(
        f"  {made.bookings} bookings, {made.disputes} disputes, and a dead letter: {made.dead_letter.job} of "
        f"{made.dead_letter.booking_id}.",
        file=sys.stderr,
    )


def _told(aws: EmbeddedAws) -> str:
    time_told = (
        "make clock BY=75d, or NEXT=1, moves its time."
        if aws.clock.travels
        else "Time is real: it does not travel on this machine."
    )
    port = "" if aws.port == _PORT else f" --port {aws.port}"
    return (
        f"Up at {aws.endpoint} (log: {aws.log}). {time_told} Ctrl-C ends it.\n"
        f"From another shell, without any of the exports above: .venv/bin/duebook due --within 7d{port}"
    )


def _move(*, port: int, by: timedelta | None, to: datetime | None) -> None:
    aws = EmbeddedAws.attach(port=port)
    before = aws.clock.now()
    if to is None:
        to = before + by if by is not None else aws.next_instant()
    if to is None:
        print("Nothing is due: no schedule, delayed message or workflow wait.")
        return
    aws.travel_to(to)
    print(f"{before:%Y-%m-%d %H:%M:%S} -> {aws.clock.now():%Y-%m-%d %H:%M:%S} UTC")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m local", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start, deploy, stay up until Ctrl-C")
    up.add_argument("--start-at", type=_instant, help="its first instant, e.g. 2026-08-01")
    clock = commands.add_parser("clock", help="move the running one's time forward")
    move = clock.add_mutually_exclusive_group(required=True)
    move.add_argument("--by", type=duration, help="75d, 36h, 1d12h")
    move.add_argument("--to", type=_instant, help="an instant, e.g. 2026-11-14T12:00")
    move.add_argument("--next", nargs="?", const="1", help="to the next instant with work")
    up.add_argument("--sample", action="store_true", help="with a small marketplace in it")
    up.add_argument("--console", action="store_true", help="with the console beside it")
    up.add_argument("--console-port", type=int, default=0, help="of the console; by default a free one")
    fill = commands.add_parser("sample", help="put a small marketplace into the running one")
    for command in (up, clock, fill):
        command.add_argument("--port", type=int, default=_PORT)
    return parser


def _instant(text: str) -> datetime:
    instant = datetime.fromisoformat(text)
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
