"""The templates as a whole: lint, cdk-nag, and what the embedded AWS is given instead of the real thing."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk import aws_sqs as sqs

from stacks import ROOT
from stacks.assembly import build
from tests.infrastructure.conftest import VARIANTS, WITHOUT_BUNDLING, Synthesize
from tests.infrastructure.template import Synthesized, Template

DIFFERENCES = {
    # The embedded AWS's bootstrap roles can't be used, so its stacks know of no bootstrap.
    r"Data\.(Parameters|Rules)\.\w+.*": "no bootstrap",
    r"App\.(Parameters|Rules)\.\w+.*": "no bootstrap",
    r"Monitoring\.(Parameters|Rules)\.\w+.*": "no bootstrap",
    r"Monitoring\.Resources\.AlarmsSweeperSilent\.Properties\.Period": "swept every minute, and so missed sooner",
    r"App\.Resources\.Functions(Api|PaymentsWorker|Reconciler)Function\.Properties\.Environment\.Variables\.PAYMENTS": (
        "money is a ledger, for nobody is there to pay"
    ),
    r"App\.Resources\.FunctionsPaymentsWorkerRoleDefaultPolicy\..*\.Action\.\d+": (
        "the ledger is looked up by a query"
    ),
    r"App\.Resources\.FunctionsSweepRule\.Properties\.(ScheduleExpression|Targets\.0\.RetryPolicy\.\w+)": (
        "swept every minute: nobody waits five for a demonstration"
    ),
    r"(App|Data)\.Resources\.\w+\.Properties\.RetentionInDays": "logs are kept for a week",
}
"""Every difference between what is deployed here and to an account, by its path."""


def test_cfn_lint_finds_nothing_in_any_template(synthesize: Synthesize) -> None:
    paths = [str(template.path) for name in VARIANTS for template in synthesize(name).templates]
    command = [str(Path(sys.executable).parent / "cfn-lint"), *paths]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_finding_of_cdk_nag_that_nobody_accepted_ends_synthesis(tmp_path: Path) -> None:
    app = build(context=WITHOUT_BUNDLING, outdir=tmp_path)
    sqs.Queue(Stack(app, "Careless"), "Queue")
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()


def test_cdk_nag_finds_nothing_in_any_environment(everywhere: Synthesized) -> None:
    report = json.loads((everywhere.folder / "validation-report.json").read_text(encoding="utf-8"))
    assert report["pluginReports"] == []


def test_every_difference_between_the_embedded_aws_and_an_account_is_listed(
    local: Synthesized, dev: Synthesized
) -> None:
    here = {path: leaf for template in local.templates for path, leaf in leaves(template, "local").items()}
    there = {path: leaf for template in dev.templates for path, leaf in leaves(template, "dev").items()}
    differing = {path for path in here.keys() | there.keys() if here.get(path) != there.get(path)}
    unlisted = sorted(path for path in differing if not any(re.fullmatch(known, path) for known in DIFFERENCES))
    assert not unlisted
    gone = [known for known in DIFFERENCES if not any(re.fullmatch(known, path) for path in differing)]
    assert not gone, "these differences no longer exist"


def leaves(template: Template, environment: str) -> dict[str, Any]:
    """Path to value, without what only the environment's name or a hash of other values makes different."""

    def walk(path: str, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            for key, part in value.items():
                yield from walk(f"{path}.{key}", part)
        elif isinstance(value, list):
            for position, part in enumerate(value):
                yield from walk(f"{path}.{position}", part)
        else:
            yield path, value

    stack = template.path.name.removesuffix(".template.json").rpartition("-")[2]
    return {
        _without_hashes(path, environment): _without_hashes(value, environment)
        for path, value in walk(stack, template.body)
    }


def _without_hashes(value: Any, environment: str) -> Any:
    if not isinstance(value, str):
        return value
    value = re.sub(r"(CurrentVersion)[0-9A-F]{8}[0-9a-f]{32}", r"\1", value)
    value = re.sub(r"\b[0-9a-f]{64}\b", "<asset>", value)
    value = re.sub(r"(?<=[A-Za-z])(?:[0-9A-F]{8})+(?=$|\.|:|[A-Z])", "", value)
    return re.sub(rf"(Duebook[-_]?|duebook-|Duebook \(){environment}(?=\b|[A-Z])|^{environment}$", r"\1<env>", value)
