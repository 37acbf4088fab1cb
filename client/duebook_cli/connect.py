"""Which Duebook is meant, where it answers, and as whom it is called: for the command line and the console.

`local` is the embedded AWS of this checkout; any other environment is found in the AWS account that the operator's own
credentials lead to, by the outputs of its CloudFormation stacks; an explicit URL needs no look-up at all.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

import boto3
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from duebook_cli.arguments import later
from duebook_client import Duebook, DuebookError, NoCredentials, RetryPolicy

LOCAL = "local"
DEFAULT_PORT = 4566
"""Of `make local`."""
ENV_VARIABLE, URL_VARIABLE = "DUEBOOK_ENV", "DUEBOOK_API_URL"
EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
"""What AWS calls credentials that were valid once (common errors of every AWS API reference)."""

_STACKS = ("Data", "App")
_ENV_NAME = r"[A-Za-z][A-Za-z0-9-]{0,39}"
_API_HOST = re.compile(r"[a-z0-9]+\.execute-api\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?")
_SIGN_IN = "sign in again (aws sso login), or set AWS_PROFILE"


class NotChosen(DuebookError):
    """It is not clear which Duebook is meant, so nothing was done. The message says how to choose."""


class NotFoundThere(DuebookError):
    """No Duebook is where it was looked for. The message says what to do."""


class TimeIsReal(DuebookError):
    """Time can't be moved there."""


class Clock(Protocol):
    """The time of an embedded AWS, which can be moved forward. `travels`: whether it can on this machine."""

    @property
    def travels(self) -> bool: ...

    def now(self) -> datetime: ...

    def upcoming(self) -> datetime | None:
        """The next instant at which something happens by itself; None: nothing is due."""

    def advance(self, by: timedelta, watch: Callable[[datetime], None] = ...) -> datetime:
        """Let `by` pass, everything due on the way in its order; the new instant.

        `watch` is told each stop. Raises TimeIsReal, and BadArgument for more time than there is.
        """

    def next(self) -> datetime | None:
        """Let time pass to `upcoming`; the new instant, None where nothing is due. Raises TimeIsReal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """One Duebook, called as `session`.

    `env`: its name, None for an explicit URL. `outputs`: of its stacks, empty for an explicit URL. `clock`: of the
    embedded AWS, None where time is the world's.
    """

    env: str | None
    url: str
    client: Duebook
    session: boto3.Session
    outputs: Mapping[str, str]
    clock: Clock | None = None

    @property
    def name(self) -> str:
        """What people call it."""
        return self.url if self.env is None else self.env

    def now(self) -> datetime:
        """Its present instant, aware, in UTC."""
        return datetime.now(UTC) if self.clock is None else self.clock.now()

    def close(self) -> None:
        """Close the client's connections."""
        self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(
    env: str | None = None,
    *,
    port: int | None = None,
    url: str | None = None,
    retries: RetryPolicy | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Connection:
    """The Duebook that is meant, ready to be called.

    What is given decides: one of `env` and `url`; `port` (of the embedded AWS) means `local`. Nothing given: the
    variables DUEBOOK_ENV or DUEBOOK_API_URL; neither set: the embedded AWS, if one answers on port 4566. An account is
    never guessed. Raises NotChosen, NotFoundThere, NoCredentials, and BadArgument for a URL that is none.
    """
    if env is None and url is None and port is None:
        env, url = _by_variables(environ)
    if url is not None:
        if env is not None or port is not None:
            raise NotChosen("give one of an environment (with a port, if it is local) and a URL, not both")
        return _at(url, retries)
    env = LOCAL if env is None else env
    if env == LOCAL:
        return _embedded(DEFAULT_PORT if port is None else port, retries)
    if port is not None:
        raise NotChosen(f"a port is for the embedded AWS, environment {LOCAL}, not for {env}")
    return _deployed(env, retries)


def caller(session: boto3.Session) -> str:
    """The ARN that the session's credentials stand for. Raises NoCredentials when AWS takes them for nobody's."""
    try:
        arn: str = session.client("sts").get_caller_identity()["Arn"]
    except (BotoCoreError, ClientError) as error:
        raise _unusable(error) from error
    return arn


def _by_variables(environ: Mapping[str, str]) -> tuple[str | None, str | None]:
    env, url = environ.get(ENV_VARIABLE) or None, environ.get(URL_VARIABLE) or None
    if env is not None and url is not None:
        raise NotChosen(f"{ENV_VARIABLE} and {URL_VARIABLE} are both set: choose by --env or --url")
    if env is None and url is None:
        if not _answers(DEFAULT_PORT):
            raise NotChosen(
                f"no environment was chosen, and no embedded AWS answers on port {DEFAULT_PORT}: give --env "
                f"(or set {ENV_VARIABLE}), give --port, or start an embedded AWS by `make local`"
            )
        env = LOCAL
    return env, url


def _at(url: str, retries: RetryPolicy | None) -> Connection:
    session = _session()
    match = _API_HOST.fullmatch(urlsplit(url).hostname or "")
    region = match[1] if match else session.region_name
    client = Duebook(url, region=region or "", session=session, retries=retries)  # refuses what is no URL
    if region is None:
        raise NotChosen(f"the region of {url} is not known: set AWS_REGION")
    return Connection(env=None, url=url, client=client, session=session, outputs={})


def _deployed(env: str, retries: RetryPolicy | None) -> Connection:
    if not re.fullmatch(_ENV_NAME, env):
        raise NotChosen(f"{env!r} is no environment's name: letters, digits and hyphens")
    session = _session()
    if session.region_name is None:
        raise NotChosen(
            f"environment {env} is looked up in an AWS account (only {LOCAL} is not), and no region is set: if it is "
            "the one you mean, set AWS_REGION, or AWS_PROFILE to a profile that has one"
        )
    outputs = _outputs(session, env)
    url = outputs["ApiUrl"]
    client = Duebook(url, region=session.region_name, session=session, retries=retries)
    return Connection(env=env, url=url, client=client, session=session, outputs=outputs)


def _session() -> boto3.Session:
    """By the operator's own environment. AWS_REGION counts as for AWS's other tools; boto3 knows AWS_DEFAULT_REGION."""
    return boto3.Session(region_name=os.environ.get("AWS_REGION") or None)


def _embedded(port: int, retries: RetryPolicy | None) -> Connection:
    try:
        from local.emulator import EmbeddedAws, EmulatorError, api_url
    except ModuleNotFoundError:
        raise NotFoundThere("the embedded AWS is there only in a checkout of Duebook: run `make setup` in it") from None
    try:
        aws = EmbeddedAws.attach(port=port)
    except EmulatorError as error:
        raise NotFoundThere(str(error)) from None
    session = aws.session()
    outputs = _outputs(session, LOCAL)
    url = api_url(aws, outputs["ApiUrl"])
    client = Duebook(url, region=session.region_name, session=session, retries=retries)
    return Connection(env=LOCAL, url=url, client=client, session=session, outputs=outputs, clock=EmbeddedClock(aws))


def _answers(port: int) -> bool:
    try:
        from local.emulator import EmbeddedAws, EmulatorError
    except ModuleNotFoundError:
        return False
    try:
        EmbeddedAws.attach(port=port)
    except EmulatorError:
        return False
    return True


def _outputs(session: boto3.Session, env: str) -> dict[str, str]:
    """Of the environment's stacks, without those that CDK makes for itself. Raises NotFoundThere, NoCredentials."""
    cloudformation = session.client("cloudformation")
    found: dict[str, str] = {}
    for part in _STACKS:
        name = f"Duebook-{env}-{part}"
        try:
            (stack,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
        except (BotoCoreError, ClientError) as error:
            raise _not_described(error, env, name, session.region_name) from error
        for output in stack.get("Outputs", ()):
            if not output["OutputKey"].startswith("ExportsOutput"):
                found[output["OutputKey"]] = output["OutputValue"]
    if "ApiUrl" not in found:
        raise NotFoundThere(f"the stack Duebook-{env}-App has no output ApiUrl: it is not deployed to its end")
    return found


def _not_described(error: BotoCoreError | ClientError, env: str, stack: str, region: str) -> DuebookError:
    code = _code(error)
    if code == "ValidationError":  # of DescribeStacks: there is no stack of this name
        return NotFoundThere(
            f"there is no stack {stack} in {region}: deploy it, or choose its account and region "
            "(AWS_PROFILE, AWS_REGION)"
        )
    if code in ("AccessDenied", "AccessDeniedException"):
        return NotFoundThere(
            f"these AWS credentials may not look up the stack {stack} (cloudformation:DescribeStacks): "
            "give the API's address by --url"
        )
    return _unusable(error, f"environment {env}: ")


def _unusable(error: BotoCoreError | ClientError, asked_for: str = "") -> DuebookError:
    """Why AWS could not be asked at all."""
    if isinstance(error, NoCredentialsError):
        return NoCredentials(f"{asked_for}no AWS credentials found: {_SIGN_IN}")
    if _code(error) in EXPIRED:
        return NoCredentials(f"{asked_for}the AWS credentials have expired: {_SIGN_IN}")
    if isinstance(error, ClientError):
        return NoCredentials(f"{asked_for}AWS refuses these credentials ({_code(error)}): {_SIGN_IN}")
    return NotFoundThere(f"{asked_for}AWS could not be asked: {error}")


def _code(error: Any) -> str | None:
    return error.response["Error"]["Code"] if isinstance(error, ClientError) else None


class EmbeddedClock:
    """`Clock` over a running `local.emulator.EmbeddedAws`."""

    def __init__(self, aws: Any) -> None:
        self._aws = aws

    @property
    def travels(self) -> bool:
        travels: bool = self._aws.clock.travels
        return travels

    def now(self) -> datetime:
        now: datetime = self._aws.clock.now()
        return now

    def upcoming(self) -> datetime | None:
        found: datetime | None = self._aws.next_instant()
        return found

    def advance(self, by: timedelta, watch: Callable[[datetime], None] = lambda now: None) -> datetime:
        self._can_move()
        goal = later(self.now(), by)
        while self.now() < goal:
            self._aws.settle()
            stop = self.upcoming()
            self._aws.travel_to(goal if stop is None else min(stop, goal))
            watch(self.now())
        return self.now()

    def next(self) -> datetime | None:
        self._can_move()
        self._aws.settle()
        stop = self.upcoming()
        if stop is None:
            return None
        self._aws.travel_to(stop)
        return self.now()

    def _can_move(self) -> None:
        if not self.travels:
            raise TimeIsReal("time is real on this embedded AWS: it does not travel on this machine")
