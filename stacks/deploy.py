"""`make deploy`: credentials and bootstrap checked, the difference shown, a person asked in production, then deployed.

What is deployed is what was shown: the app is synthesized once, into `cdk.out`.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from stacks.assembly import OUTPUT
from stacks.assembly import main as synthesize
from stacks.environments import DEFAULT, ENVIRONMENTS, Environment, environment_from

BOOTSTRAP_PARAMETER = "/cdk-bootstrap/hnb659fds/version"
BOOTSTRAP_VERSION = 6
"""The oldest bootstrap that the synthesized stacks accept (their rule `CheckBootstrapVersion`)."""

Cdk = Callable[[Sequence[str]], int]
Ask = Callable[[str], str]


class NotReady(RuntimeError):
    """The account can't be deployed to yet. The message says what to do."""


def deploy(environment: Environment, *, session: boto3.Session, cdk: Cdk, ask: Ask) -> int:
    """Check, show, ask and deploy what `cdk.out` holds; the CDK CLI's exit code, or 1 when a person declined.

    Raises NotReady before anything is shown or changed.
    """
    account, region, caller = _identity(session)
    _check_place(environment, account=account, region=region)
    _check_bootstrap(session, account=account, region=region)
    print(f"{environment.stack_prefix}: account {account}, {region}, as {caller}", file=sys.stderr)
    if environment.keep and environment.account is None:
        print(f"Any account would do: name the one of {environment.name} by ACCOUNT= to be sure.", file=sys.stderr)
    shown = cdk(["diff", "--all"])
    if shown != 0:
        return shown
    if environment.keep and ask(f"Deploy this to {environment.name}? Type {environment.name}: ") != environment.name:
        print("Nothing was deployed.", file=sys.stderr)
        return 1
    deployed = cdk(["deploy", "--all", "--require-approval=never"])
    if deployed == 0:
        print(f"Deployed. Now see it work: make smoke ENV={environment.name} (docs/deploying.md).", file=sys.stderr)
    return deployed


def _identity(session: boto3.Session) -> tuple[str, str, str]:
    """Account, region and caller's ARN."""
    if session.region_name is None:
        raise NotReady("no region: set AWS_REGION, or a profile that has one")
    try:
        caller = session.client("sts").get_caller_identity()
    except (BotoCoreError, ClientError) as error:
        raise NotReady(f"no usable AWS credentials ({error}): sign in, or set AWS_PROFILE") from error
    return caller["Account"], session.region_name, caller["Arn"]


def _check_place(environment: Environment, *, account: str, region: str) -> None:
    """The account and region that the settings name, where they name any."""
    for what, wanted, found in (("account", environment.account, account), ("region", environment.region, region)):
        if wanted is not None and wanted != found:
            raise NotReady(
                f"{environment.name} belongs to {what} {wanted}, and these credentials lead to {found}: "
                "choose another AWS_PROFILE or AWS_REGION"
            )


def _check_bootstrap(session: boto3.Session, *, account: str, region: str) -> None:
    command = f"cdk bootstrap aws://{account}/{region}"
    client = session.client("ssm")
    try:
        version = int(client.get_parameter(Name=BOOTSTRAP_PARAMETER)["Parameter"]["Value"])
    except client.exceptions.ParameterNotFound as error:
        raise NotReady(f"{account}/{region} is not bootstrapped for CDK: run `{command}` once") from error
    except (BotoCoreError, ClientError) as error:
        raise NotReady(f"whether {account}/{region} is bootstrapped can't be read ({error})") from error
    if version < BOOTSTRAP_VERSION:
        raise NotReady(f"the bootstrap of {account}/{region} is version {version}: run `{command}` again")


def _cdk(arguments: Sequence[str]) -> int:
    from local.deploy import cdk_cli

    command = [*cdk_cli(), *arguments, f"--app={OUTPUT}", "--no-notices"]
    return subprocess.run(command, env={**os.environ, "CDK_DISABLE_CLI_TELEMETRY": "true"}, check=False).returncode


def main(arguments: Sequence[str]) -> int:
    """Exit code 1 with the reason on standard error when nothing could be deployed."""
    parser = argparse.ArgumentParser(prog="python -m stacks.deploy", description="Deploy to your AWS account.")
    parser.add_argument("--env", default=DEFAULT, help=f"{' or '.join(_DEPLOYABLE)}; by default {DEFAULT}")
    parser.add_argument("-c", "--context", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args(arguments)
    if options.env not in _DEPLOYABLE:
        print(f"duebook: --env {options.env} goes to no account; choose {', '.join(_DEPLOYABLE)}", file=sys.stderr)
        return 1
    settings = (f"env={options.env}", *options.context)
    if synthesize([part for setting in settings for part in ("-c", setting)]) != 0:
        return 1
    environment = environment_from(dict(setting.split("=", 1) for setting in settings))
    try:
        region = os.environ.get("AWS_REGION")  # the CDK reads it, boto3 knows AWS_DEFAULT_REGION alone
        return deploy(environment, session=boto3.Session(region_name=region or None), cdk=_cdk, ask=input)
    except NotReady as error:
        print(f"duebook: {error}", file=sys.stderr)
        return 1


_DEPLOYABLE = [name for name, environment in ENVIRONMENTS.items() if not environment.embedded]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
