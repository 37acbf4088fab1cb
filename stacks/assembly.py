"""Building the app: the same from the CDK CLI, from `python app.py` and from the tests."""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aws_cdk import (
    App,
    Aws,
    CliCredentialsStackSynthesizer,
    DefaultStackSynthesizer,
    IStackSynthesizer,
    Stack,
    Tags,
    Validations,
)
from aws_cdk import aws_iam as iam
from cdk_nag import AwsSolutionsChecks

from stacks import ROOT
from stacks.app_stack import AppStack
from stacks.bundling import BundlingError
from stacks.data_stack import DataStack
from stacks.environments import SETTINGS, Environment, SettingError, environment_from
from stacks.monitoring_stack import MonitoringStack

OUTPUT = ROOT / "cdk.out"


def build(*, context: Mapping[str, Any] | None = None, outdir: Path | None = None) -> App:
    """The app, not yet synthesized. Without `context` and `outdir` it takes what the CDK CLI passes.

    Raises SettingError for an environment or a setting that does not exist. Synthesis raises RuntimeError for a finding
    of cdk-nag that nobody accepted.
    """
    app = App(
        analytics_reporting=False,
        outdir=None if outdir is None else str(outdir),
        context=None if context is None else {**_project_context(), **context},
    )
    environment = environment_from({name: app.node.try_get_context(name) for name in SETTINGS})
    data = DataStack(
        app,
        f"{environment.stack_prefix}-Data",
        environment=environment,
        synthesizer=_synthesizer(environment),
        termination_protection=environment.keep,
    )
    service = AppStack(
        app,
        f"{environment.stack_prefix}-App",
        environment=environment,
        data=data,
        synthesizer=_synthesizer(environment),
        termination_protection=environment.keep,
    )
    MonitoringStack(
        app,
        f"{environment.stack_prefix}-Monitoring",
        environment=environment,
        data=data,
        service=service,
        synthesizer=_synthesizer(environment),
        termination_protection=environment.keep,
    )
    for tag, value in environment.tags.items():
        Tags.of(app).add(tag, value)
    _bound(app, environment)
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    return app


def main(arguments: Sequence[str]) -> int:
    """Synthesize; 1 with the reason on standard error when that can't be done."""
    parser = argparse.ArgumentParser(prog="app.py", description="Synthesize Duebook's templates.")
    parser.add_argument("-c", "--context", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("-o", "--output", type=Path, default=OUTPUT, metavar="FOLDER", help="by default cdk.out")
    options = parser.parse_args(arguments)
    try:
        if "CDK_OUTDIR" in os.environ:
            build().synth()
        else:
            context = dict(setting.split("=", 1) for setting in options.context)
            build(context=context, outdir=options.output).synth()
    except (SettingError, BundlingError) as error:
        print(f"duebook: {error}", file=sys.stderr)
        return 1
    return 0


def _bound(app: App, environment: Environment) -> None:
    """Every role of the app gets the permissions boundary, whoever made it (IAM user guide, "Permissions boundaries for
    IAM entities"); CDK's own roles are made by the bootstrap, which has an option of its own."""
    boundary = environment.permissions_boundary
    if boundary is None:
        return
    arn = boundary if boundary.startswith("arn:") else f"arn:{Aws.PARTITION}:iam::{Aws.ACCOUNT_ID}:policy/{boundary}"
    for stack in app.node.children:
        if isinstance(stack, Stack):
            policy = iam.ManagedPolicy.from_managed_policy_arn(stack, "PermissionsBoundary", arn)
            iam.PermissionsBoundary.of(stack).apply(policy)


def _project_context() -> dict[str, Any]:
    context: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    return context


def _synthesizer(environment: Environment) -> IStackSynthesizer:
    """The embedded AWS has no use for the bootstrap's roles, and its file-publishing role can't read its bucket."""
    return CliCredentialsStackSynthesizer() if environment.embedded else DefaultStackSynthesizer()
