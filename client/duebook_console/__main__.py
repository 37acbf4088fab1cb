"""`python -m duebook_console`: the console until Ctrl-C, at an address that it prints."""

import argparse
import secrets
import signal
import socket
import sys
from collections.abc import Sequence
from types import FrameType

import uvicorn

from duebook_cli.connect import LOCAL, connect
from duebook_client import DuebookError
from duebook_console.app import create_app
from duebook_console.guard import KEY, Locks


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit status."""
    options = _parser().parse_args(arguments)
    for ending in (signal.SIGINT, signal.SIGTERM):  # also where a shell had them ignored
        signal.signal(ending, _end)
    try:
        with (
            connect(options.env, url=options.url, port=options.port if options.env == LOCAL else None) as connection,
            _listening(options.console_port) as server_socket,
        ):
            locks = Locks(
                port=server_socket.getsockname()[1], key=secrets.token_urlsafe(32), token=secrets.token_urlsafe(32)
            )
            app = create_app(connection, locks)
            server = uvicorn.Server(
                uvicorn.Config(app, access_log=False, log_level="warning", server_header=False, proxy_headers=False)
            )
            print(
                "Whoever has this address acts with your AWS credentials: keep it secret. Ctrl-C ends the console.",
                file=sys.stderr,
            )
            print(f"Console of {connection.name}: http://127.0.0.1:{locks.port}/?{KEY}={locks.key}", flush=True)
            server.run(sockets=[server_socket])
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
    except (DuebookError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _listening(port: int) -> socket.socket:
    """On this machine alone. Port 0: a free one. Raises OSError."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(("127.0.0.1", port))
    except OSError as error:
        found.close()
        raise OSError(f"port {port} cannot be used for the console: {error.strerror}") from None
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m duebook_console", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--env", help="local, or a deployed environment: dev, prod")
    which.add_argument("--url", help="the API's URL, where its stacks may not be looked up")
    parser.add_argument("--port", type=int, help="of the embedded AWS (--env local)")
    parser.add_argument("--console-port", type=int, default=0, help="of the console; by default a free one")
    return parser


def _end(number: int, _frame: FrameType | None) -> None:
    """Who asks by SIGTERM, as `make local` does, has told it already."""
    if number == signal.SIGTERM:
        raise SystemExit(0)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
