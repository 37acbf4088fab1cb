"""`python -m local up` runs the embedded AWS until Ctrl-C; `python -m local clock` moves its time."""

import argparse
import re
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import FrameType

from local.clock import TimeDoesNotTravelError
from local.deploy import Outputs, deploy
from local.emulator import REGION, ROOT, EmbeddedAws, EmulatorError, api_url

_PORT = 4566
_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit status."""
    options = _parser().parse_args(arguments)
    for ending in (signal.SIGINT, signal.SIGTERM):  # also where a shell had them ignored
        signal.signal(ending, _end)
    try:
        if options.command == "up":
            _up(port=options.port, start_at=options.start_at)
        elif options.command == "clock":
            _move(port=options.port, by=options.by, to=options.to)
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
    except (EmulatorError, TimeDoesNotTravelError, TimeoutError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def duration(text: str) -> timedelta:
    """`75d`, `36h`, `1d12h`, `90s` as a timedelta. ValueError for anything else."""
    parts = re.findall(r"(\d+)([dhms])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"not a duration such as 75d or 1d12h: {text!r}")
    return sum((timedelta(**{_UNITS[unit]: int(n)}) for n, unit in parts), timedelta(0))


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


def _up(*, port: int, start_at: datetime | None) -> None:
    with EmbeddedAws(port=port, start_at=start_at) as aws:
        outputs = deploy(aws)
        print(usage(aws, outputs), flush=True)
        print(_told(aws), file=sys.stderr, flush=True)
        while aws.alive:
            time.sleep(1)
        raise EmulatorError(f"the emulator ended\n{aws.log_tail()}")


def _told(aws: EmbeddedAws) -> str:
    time_told = (
        "make clock BY=75d, or NEXT=1, moves its time."
        if aws.clock.travels
        else "Time is real: it does not travel on this machine."
    )
    return f"Up at {aws.endpoint} (log: {aws.log}). {time_told} Ctrl-C ends it."


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
    for command in (up, clock):
        command.add_argument("--port", type=int, default=_PORT)
    return parser


def _instant(text: str) -> datetime:
    instant = datetime.fromisoformat(text)
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
