"""`make deploy`: what is checked before anything changes, and that production asks."""

from collections.abc import Iterator, Sequence

import boto3
import pytest
from moto import mock_aws

from stacks.deploy import BOOTSTRAP_PARAMETER, NotReady, deploy, main
from stacks.environments import ENVIRONMENTS

DEV = ENVIRONMENTS["dev"]
PROD = ENVIRONMENTS["prod"]


class Cli:
    """Stands for the CDK CLI: notes its arguments and ends as told."""

    def __init__(self, *, diff: int = 0) -> None:
        self.ran: list[str] = []
        self._diff = diff

    def __call__(self, arguments: Sequence[str]) -> int:
        self.ran.append(arguments[0])
        return self._diff if arguments[0] == "diff" else 0


def never(question: str) -> str:
    raise AssertionError(f"asked {question!r}")


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[boto3.Session]:
    for name in ("AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    with mock_aws():
        yield boto3.Session(region_name="eu-west-1")


@pytest.fixture
def bootstrapped(session: boto3.Session) -> boto3.Session:
    session.client("ssm").put_parameter(Name=BOOTSTRAP_PARAMETER, Value="30", Type="String")
    return session


def test_development_is_deployed_after_the_difference_was_shown(bootstrapped: boto3.Session) -> None:
    cli = Cli()
    assert deploy(DEV, session=bootstrapped, cdk=cli, ask=never) == 0
    assert cli.ran == ["diff", "deploy"]


def test_production_is_deployed_only_when_its_name_is_typed(bootstrapped: boto3.Session) -> None:
    cli = Cli()
    assert deploy(PROD, session=bootstrapped, cdk=cli, ask=lambda _: "prod") == 0
    assert cli.ran == ["diff", "deploy"]


@pytest.mark.parametrize("answer", ["", "y", "yes", "PROD", "dev"])
def test_production_is_left_alone_on_any_other_answer(bootstrapped: boto3.Session, answer: str) -> None:
    cli = Cli()
    assert deploy(PROD, session=bootstrapped, cdk=cli, ask=lambda _: answer) == 1
    assert cli.ran == ["diff"]


def test_a_difference_that_cannot_be_shown_deploys_nothing(bootstrapped: boto3.Session) -> None:
    cli = Cli(diff=3)
    assert deploy(DEV, session=bootstrapped, cdk=cli, ask=never) == 3
    assert cli.ran == ["diff"]


def test_an_account_without_the_bootstrap_is_told_the_command(session: boto3.Session) -> None:
    with pytest.raises(NotReady, match=r"cdk bootstrap aws://\d+/eu-west-1"):
        deploy(DEV, session=session, cdk=Cli(), ask=never)


def test_an_old_bootstrap_is_told_the_command(session: boto3.Session) -> None:
    session.client("ssm").put_parameter(Name=BOOTSTRAP_PARAMETER, Value="5", Type="String")
    with pytest.raises(NotReady, match="version 5"):
        deploy(DEV, session=session, cdk=Cli(), ask=never)


def test_without_a_region_nothing_is_tried(session: boto3.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "missing")
    with pytest.raises(NotReady, match="AWS_REGION"):
        deploy(DEV, session=boto3.Session(), cdk=Cli(), ask=never)


def test_without_credentials_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "missing")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "missing")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(NotReady, match="credentials"):
        deploy(DEV, session=boto3.Session(region_name="eu-west-1"), cdk=Cli(), ask=never)


@pytest.mark.parametrize("name", ["local", "staging"])
def test_only_an_accounts_environment_can_be_deployed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--env", name]) == 1
    assert "choose dev, prod" in capsys.readouterr().err
