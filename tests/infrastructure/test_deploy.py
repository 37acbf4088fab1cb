"""`make deploy`: what is checked before anything changes, and that production asks."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import boto3
import pytest
from moto import mock_aws

from stacks.deploy import BOOTSTRAP_PARAMETER, NotReady, deploy, main
from stacks.environments import ENVIRONMENTS

DEV = ENVIRONMENTS["dev"]
PROD = ENVIRONMENTS["prod"]


class Cli:
    """Stands for the CDK CLI: notes its arguments and ends as told."""

    def __init__(self, *, diff: int = 0, deploy: int = 0) -> None:
        self.ran: list[str] = []
        self._ends = {"diff": diff, "deploy": deploy}

    def __call__(self, arguments: Sequence[str]) -> int:
        self.ran.append(arguments[0])
        return self._ends[arguments[0]]


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


def test_an_account_that_is_not_the_environment_s_is_refused_before_anything_is_shown(
    bootstrapped: boto3.Session,
) -> None:
    cli = Cli()
    elsewhere = replace(PROD, account="9" * 12)
    with pytest.raises(NotReady, match=r"prod belongs to account 9{12}, .* lead to [0-9]+: choose another AWS_PROFILE"):
        deploy(elsewhere, session=bootstrapped, cdk=cli, ask=never)
    assert cli.ran == []


def test_a_region_that_is_not_the_environment_s_is_refused(bootstrapped: boto3.Session) -> None:
    with pytest.raises(NotReady, match=r"belongs to region eu-north-1, .* eu-west-1"):
        deploy(replace(DEV, region="eu-north-1"), session=bootstrapped, cdk=Cli(), ask=never)


def test_the_environment_s_own_account_and_region_are_deployed_to(bootstrapped: boto3.Session) -> None:
    here = bootstrapped.client("sts").get_caller_identity()["Account"]
    own = replace(PROD, account=here, region="eu-west-1")
    assert deploy(own, session=bootstrapped, cdk=Cli(), ask=lambda _: "prod") == 0


def test_production_without_an_account_of_its_own_is_told_how_to_name_one(
    bootstrapped: boto3.Session, capsys: pytest.CaptureFixture[str]
) -> None:
    deploy(PROD, session=bootstrapped, cdk=Cli(), ask=lambda _: "prod")
    assert "ACCOUNT=" in capsys.readouterr().err
    deploy(DEV, session=bootstrapped, cdk=Cli(), ask=never)
    assert "ACCOUNT=" not in capsys.readouterr().err


def test_after_a_deployment_the_next_step_is_told_and_after_a_failed_one_not(
    bootstrapped: boto3.Session, capsys: pytest.CaptureFixture[str]
) -> None:
    deploy(DEV, session=bootstrapped, cdk=Cli(), ask=never)
    assert "make smoke ENV=dev" in capsys.readouterr().err
    assert deploy(DEV, session=bootstrapped, cdk=Cli(deploy=1), ask=never) == 1
    assert "make smoke" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["local", "staging"])
def test_only_an_accounts_environment_can_be_deployed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--env", name]) == 1
    assert "choose dev, prod" in capsys.readouterr().err
