"""`EmbeddedAws`: MiniStack as a context manager, in a process group of its own.

It listens on 127.0.0.1 only, keeps everything under `.cache/` in the project,
and takes its Lambda workers with it when it ends, however it ends.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from shutil import rmtree
from types import TracebackType
from typing import Any, Self

import boto3
import botocore.session

from local import launcher
from local.clock import Clock
from local.processes import end_group

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
REGION = "eu-west-1"
ACCOUNT = "000000000000"
ROOT_KEY = ("test", "test")
STATUS_PATH = "/_local/status"

_SERVICES = (
    "apigateway,cloudformation,dynamodb,dynamodbstreams,events,iam,kms,lambda,logs,monitoring,"
    "s3,scheduler,secretsmanager,sns,sqs,ssm,states,sts,tagging"
)
_HOMES = CACHE / "emulator"
_KEPT_HOMES = 5
_START_SECONDS = 60.0
_POLL_SECONDS = 0.05
_INHERITED = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH")


class EmulatorError(RuntimeError):
    """The emulator did not start, or died. The message ends with its log's tail."""


class EmbeddedAws:
    """A running emulator.

    `auth` makes it evaluate IAM policies, each function under its own role.
    `start_at` is its first instant where time travels; `travel=False` keeps
    real time. A `clock` of one's own (its file outside `home`) overrides both.
    `port=None` takes a free one.
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        auth: bool = True,
        clock: Clock | None = None,
        start_at: datetime | None = None,
        travel: bool = True,
    ) -> None:
        self.port = free_port() if port is None else port
        self.auth = auth
        self.home = _HOMES / str(self.port)
        self._given_clock = clock
        self._start_at = start_at
        self._travel = travel
        self._process: subprocess.Popen[bytes] | None = None
        self.clock: Clock

    @classmethod
    def attach(cls, *, port: int) -> Self:
        """The one that another process runs on `port`. EmulatorError if none answers there."""
        aws = cls(port=port)
        file = aws.home / "clock"
        aws.clock = Clock(file=file, travels=file.exists())
        if not aws._answers():
            raise EmulatorError(f"no embedded AWS answers on port {port}; start one: make local PORT={port}")
        return aws

    @property
    def endpoint(self) -> str:
        """Where every AWS API answers. An IP address, so that S3 is path-style."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """The emulator's own log, with the Lambda functions' output in it."""
        return self.home / "emulator.log"

    @property
    def env(self) -> dict[str, str]:
        """The settings with which any AWS SDK or CLI talks to this emulator as root."""
        key, secret = ROOT_KEY
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
        }

    def session(
        self,
        *,
        access_key: str = ROOT_KEY[0],
        secret_key: str = ROOT_KEY[1],
        session_token: str | None = None,
    ) -> boto3.Session:
        """A boto3 session whose clients talk to this emulator; root by default."""
        core = botocore.session.Session(profile="default")
        core.set_config_variable("config_file", str(self.home / "aws-config"))
        core.set_config_variable("region", REGION)
        core.set_credentials(access_key, secret_key, session_token)
        return boto3.Session(botocore_session=core, region_name=REGION)

    @property
    def alive(self) -> bool:
        """Whether the process that this object started still runs."""
        return self._process is not None and self._process.poll() is None

    def status(self) -> dict[str, Any]:
        """What the emulator is doing now: the fields of `local.status.Status`."""
        with _open(self.endpoint + STATUS_PATH, timeout=30.0) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def settle(self, *, timeout: float = 60.0) -> None:
        """Wait until nothing moves without time passing.

        That is: no due schedule, no deliverable message, no unread table change,
        no running function or workflow, in two looks in a row. Raises
        TimeoutError after `timeout` real seconds.
        """
        end = time.monotonic() + timeout
        quiet = 0
        while quiet < 2:
            status = self.status()
            quiet = 0 if status["busy"] else quiet + 1
            if time.monotonic() > end:
                raise TimeoutError(f"still moving after {timeout:.0f} s: {status}")
            time.sleep(_POLL_SECONDS)

    def travel_to(self, instant: datetime, *, timeout: float = 60.0) -> None:
        """Let time become `instant`, stop by stop, so that everything due on the way runs on time.

        A single jump would let a table change outlive its stream's 24 hours and
        a message its queue's retention. Where time is real, this waits for the
        instant. `timeout` bounds how long each stop may move, in real seconds.
        """
        if not self.clock.travels:
            time.sleep(max(0.0, (instant - self.clock.now()).total_seconds()))
            self.settle(timeout=timeout)
            return
        while True:
            self.settle(timeout=timeout)
            upcoming = self.next_instant()
            if upcoming is None or upcoming > instant:
                break
            self.clock.advance_to(upcoming)
        self.clock.advance_to(instant)
        self.settle(timeout=timeout)

    def travel_by(self, by: timedelta, *, timeout: float = 60.0) -> None:
        """`travel_to` the present plus `by`."""
        self.travel_to(self.clock.now() + by, timeout=timeout)

    def next_instant(self) -> datetime | None:
        """The next instant at which something happens by itself.

        The earliest of the schedules', delayed messages' and workflow waits'
        instants; recurring rules don't count.
        """
        found = self.status()["next_instant"]
        return None if found is None else datetime.fromisoformat(found)

    def __enter__(self) -> Self:
        if not _is_free(self.port):
            raise EmulatorError(f"port {self.port} is in use")
        _forget_old_homes()
        rmtree(self.home, ignore_errors=True)
        (self.home / "tmp").mkdir(parents=True)
        self.clock = self._given_clock or Clock.begin(
            file=self.home / "clock", start_at=self._start_at, travel=self._travel
        )
        config = f"[default]\nregion = {REGION}\nendpoint_url = {self.endpoint}\n"
        (self.home / "aws-config").write_text(config, encoding="utf-8")
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "local.launcher"],
                cwd=ROOT,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        end = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None:
                raise EmulatorError(f"the emulator ended at once\n{self.log_tail()}")
            if time.monotonic() > end:
                raise EmulatorError(f"no answer in {_START_SECONDS:.0f} s\n{self.log_tail()}")
            time.sleep(_POLL_SECONDS)

    def _answers(self) -> bool:
        try:
            with _open(self.endpoint + STATUS_PATH, timeout=5.0):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        end_group(process)
        rmtree(self.home / "tmp", ignore_errors=True)

    def log_tail(self, *, lines: int = 30) -> str:
        """The end of the emulator's log, for an error message."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def _environment(self) -> dict[str, str]:
        own = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        temporary = str(self.home / "tmp")
        return {  # Lambda workers inherit it: nothing of the developer's own
            **own,
            **self.clock.environment(),
            launcher.PARENT: str(os.getpid()),
            launcher.LOG: str(self.log),
            "AUTH": "true" if self.auth else "false",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "BIND_HOST": "127.0.0.1",
            "DOCKER_HOST": "",
            "GATEWAY_PORT": str(self.port),
            "HOME": temporary,
            "IOT_MTLS_ENABLED": "0",
            "LAMBDA_EXECUTOR": "local",
            "LAMBDA_WARM_TTL_SECONDS": str(10 * 365 * 86400),
            "MINISTACK_HOST": "localhost",
            "MINISTACK_REGION": REGION,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
            "S3_DATA_DIR": str(self.home / "tmp" / "s3"),
            "SERVICES": _SERVICES,
            "SFTP_ENABLED": "0",
            "STATE_DIR": str(self.home / "tmp" / "state"),
            "TMPDIR": temporary,
            "TZ": "UTC",
        }


def api_url(aws: EmbeddedAws, outputs: Mapping[str, str] | str) -> str:
    """Where the HTTP API answers: the base URL to put before `/bookings/...`.

    `outputs` is the API's id, its `https://<id>.execute-api...` address, or a
    stack's outputs with such an address in them. Requests to this URL are signed
    as they stand, with no special Host header.
    """
    values = [outputs] if isinstance(outputs, str) else list(outputs.values())
    for value in values:
        host = value.removeprefix("https://").removeprefix("http://").split("/")[0]
        api, dot, rest = host.partition(".")
        if rest.startswith("execute-api.") or (not dot and len(values) == 1):
            return f"{aws.endpoint}/_aws/execute-api/{api}"
    raise ValueError(f"no HTTP API address among {sorted(values)}")


def _forget_old_homes() -> None:
    """Keep the logs of the latest few runs only."""
    homes = sorted(_HOMES.glob("*"), key=lambda home: home.stat().st_mtime, reverse=True)
    for home in homes[_KEPT_HOMES:]:
        if _is_free(int(home.name)):
            rmtree(home, ignore_errors=True)


def free_port() -> int:
    """A port nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _open(url: str, *, timeout: float) -> Any:
    """Open without any proxy: the emulator is on this machine."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=timeout)
