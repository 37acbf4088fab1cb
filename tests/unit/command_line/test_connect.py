"""Which Duebook is meant: what is given decides, and an account is never guessed."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError

from duebook_cli import connect as module
from duebook_cli.connect import EmbeddedClock, NotChosen, NotFoundThere, TimeIsReal, caller, connect
from duebook_client import BadArgument, DuebookError, NoCredentials
from local.emulator import EmbeddedAws, EmulatorError
from tests.unit.command_line.conftest import runner

URL = "https://abc123.execute-api.eu-central-1.amazonaws.com"
STACKS: Mapping[str, Mapping[str, str]] = {
    "Duebook-prod-Data": {"TableName": "table", "ExportsOutputRefTable": "x"},
    "Duebook-prod-App": {"ApiUrl": URL, "OperationsPolicyArn": "arn:operations"},
    "Duebook-half-Data": {"TableName": "table"},
    "Duebook-half-App": {},
}


class Account:
    """A session of boto3 with what its CloudFormation and STS answer."""

    error: Exception | None = None
    region_name: str | None = "eu-central-1"

    def get_credentials(self) -> Credentials:
        return Credentials("key", "secret")

    def client(self, service: str) -> Any:
        assert service in ("cloudformation", "sts")
        return self

    def describe_stacks(self, *, StackName: str) -> Any:  # noqa: N803
        if self.error is not None:
            raise self.error
        if StackName not in STACKS:
            raise client_error("ValidationError")
        outputs = [{"OutputKey": key, "OutputValue": value} for key, value in STACKS[StackName].items()]
        return {"Stacks": [{"Outputs": outputs}]}

    def get_caller_identity(self) -> Any:
        if self.error is not None:
            raise self.error
        return {"Arn": "arn:aws:iam::123456789012:user/ada"}


def client_error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "it is told"}}, "DescribeStacks")


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> type[Account]:
    monkeypatch.delenv("AWS_REGION", raising=False)

    class Fresh(Account):
        def __init__(self, region_name: str | None = None) -> None:
            assert region_name is None  # no AWS_REGION in these tests: the profile's counts

    monkeypatch.setattr(boto3, "Session", Fresh)
    return Fresh


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ports on which an embedded AWS answers; what is connected to is named by its port."""
    ports: list[int] = []
    monkeypatch.setattr(module, "_answers", lambda port: port in ports)
    monkeypatch.setattr(module, "_embedded", lambda port, retries: f"embedded {port}")
    return ports


def test_an_environments_outputs_lead_to_its_api(account: type[Account]) -> None:
    with connect("prod", environ={}) as found:
        assert (found.env, found.name, found.url, found.clock) == ("prod", "prod", URL, None)
        assert found.outputs == {"TableName": "table", "ApiUrl": URL, "OperationsPolicyArn": "arn:operations"}
        assert found.now().utcoffset() == timedelta()


def test_a_url_needs_no_look_up_and_tells_its_region(account: type[Account]) -> None:
    account.error = client_error("AccessDenied")
    account.region_name = None
    with connect(url=URL, environ={}) as found:
        assert (found.env, found.name, found.outputs) == (None, URL, {})
    with pytest.raises(NotChosen, match="AWS_REGION"):
        connect(url="https://duebook.example.com", environ={})
    with pytest.raises(BadArgument, match="'foo' is no http"):
        connect(url="foo", environ={})
    account.region_name = "eu-west-1"
    with pytest.raises(BadArgument, match="http is for this machine only"):
        connect(url="http://duebook.example.com", environ={})


@pytest.mark.parametrize(
    ("given", "environ", "found"),
    [
        ({"env": "local"}, {}, "embedded 4566"),
        ({"env": "local", "port": 4000}, {}, "embedded 4000"),
        ({"port": 4000}, {"DUEBOOK_ENV": "prod"}, "embedded 4000"),
        ({}, {"DUEBOOK_ENV": "local"}, "embedded 4566"),
        ({}, {}, "embedded 4566"),
        ({"env": "local"}, {"DUEBOOK_API_URL": URL}, "embedded 4566"),
    ],
)
def test_what_is_given_decides_then_the_variables_then_what_runs_here(
    running: list[int], given: dict[str, Any], environ: dict[str, str], found: str
) -> None:
    running.append(4566)
    assert str(connect(**given, environ=environ)) == found


def test_the_variables_lead_to_an_account_too(account: type[Account], running: list[int]) -> None:
    running.append(4566)
    with connect(environ={"DUEBOOK_ENV": "prod"}) as by_name, connect(environ={"DUEBOOK_API_URL": URL}) as by_url:
        assert (by_name.env, by_url.env) == ("prod", None)


@pytest.mark.parametrize(
    ("given", "environ", "words"),
    [
        ({}, {}, "no environment was chosen"),
        ({}, {"DUEBOOK_ENV": "prod", "DUEBOOK_API_URL": URL}, "both set"),
        ({"env": "prod", "url": URL}, {}, "not both"),
        ({"port": 1, "url": URL}, {}, "not both"),
        ({"env": "prod", "port": 1}, {}, "a port is for the embedded AWS"),
        ({"env": "../prod"}, {}, "no environment's name"),
    ],
)
def test_what_is_not_clear_is_refused(
    account: type[Account], running: list[int], given: dict[str, Any], environ: dict[str, str], words: str
) -> None:
    with pytest.raises(NotChosen, match=words):
        connect(**given, environ=environ)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (client_error("ExpiredToken"), NoCredentials, "have expired"),
        (client_error("InvalidClientTokenId"), NoCredentials, "refuses these credentials"),
        (client_error("AccessDenied"), NotFoundThere, "give the API's address by --url"),
        (NoCredentialsError(), NoCredentials, "no AWS credentials found"),
        (EndpointConnectionError(endpoint_url="https://cloudformation"), NotFoundThere, "could not be asked"),
    ],
)
def test_why_an_account_can_not_be_asked_is_told(
    account: type[Account], error: Exception, kind: type[DuebookError], words: str
) -> None:
    account.error = error
    with pytest.raises(kind, match=words) as told:
        connect("prod", environ={})
    assert "prod" in str(told.value)


def test_an_environment_that_is_not_deployed_or_not_to_its_end_is_told(account: type[Account]) -> None:
    with pytest.raises(NotFoundThere, match="no stack Duebook-dev-Data in eu-central-1"):
        connect("dev", environ={})
    with pytest.raises(NotFoundThere, match="no output ApiUrl"):
        connect("half", environ={})
    account.region_name = None
    with pytest.raises(NotChosen, match=r"environment nope .* no region"):
        connect("nope", environ={})


def test_a_caller_is_named_by_aws_itself(account: type[Account]) -> None:
    assert caller(boto3.Session()) == "arn:aws:iam::123456789012:user/ada"
    account.error = client_error("ExpiredToken")
    with pytest.raises(NoCredentials, match="expired"):
        caller(boto3.Session())


def test_the_command_tells_it_and_ends_with_its_code(
    account: type[Account], running: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in (module.ENV_VARIABLE, module.URL_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    unconnected = runner(None)
    nothing_chosen = unconnected("due")
    assert nothing_chosen.exit == 2
    assert "no environment was chosen" in nothing_chosen.told
    assert unconnected("due", "--env", "dev").exit == 7
    account.error = client_error("ExpiredToken")
    told = unconnected("due", "--env", "prod", "--json")
    assert (told.exit, told.document["error"]["code"]) == (6, "no_credentials")


def test_an_embedded_aws_that_was_chosen_and_does_not_answer_is_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(*, port: int) -> Any:
        raise EmulatorError(f"no embedded AWS on port {port}")

    monkeypatch.setattr(EmbeddedAws, "attach", nobody)
    for chosen in (("--port", "4999"), ("--env", "local")):
        assert runner(None)("due", *chosen).exit == 7


def test_time_that_is_real_is_not_moved() -> None:
    class Real:
        travels = False

    class Aws:
        clock = Real()

    with pytest.raises(TimeIsReal):
        EmbeddedClock(Aws()).next()
    with pytest.raises(TimeIsReal):
        EmbeddedClock(Aws()).advance(timedelta(days=1))


def test_time_is_not_moved_beyond_all_years() -> None:
    class Travelling:
        travels = True

        def now(self) -> datetime:
            return datetime(2026, 8, 1, tzinfo=UTC)

    class Aws:
        clock = Travelling()

    with pytest.raises(BadArgument, match="99999999 d from 2026-08-01 00:00:00 UTC is outside the years 1 to 9999"):
        EmbeddedClock(Aws()).advance(timedelta(days=99_999_999))
