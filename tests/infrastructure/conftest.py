"""Synthesizing each environment once, in this process, without bundling, network or credentials."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from stacks.assembly import build
from stacks.environments import ENVIRONMENTS, environment_from
from tests.infrastructure.template import Synthesized, Template

WITHOUT_BUNDLING: dict[str, Any] = {"aws:cdk:bundling-stacks": []}
STRIPE = {
    "payments": "stripe",
    "stripe_secret": "duebook/stripe-key",
    "stripe_webhook_secret": "duebook/stripe-webhook",
}
VARIANTS: dict[str, dict[str, str]] = {
    **{name: {"env": name} for name in ENVIRONMENTS},
    "stripe": {"env": "dev", **STRIPE},
}
"""What is synthesized: each environment as it is by default, and one that Stripe pays in."""

Synthesize = Callable[[str], Synthesized]


@pytest.fixture(scope="session")
def synthesize(tmp_path_factory: pytest.TempPathFactory) -> Synthesize:
    """Synthesize one of VARIANTS by its name; the second time for the same name costs nothing."""

    @cache
    def by_name(name: str) -> Synthesized:
        outdir = tmp_path_factory.mktemp(name)
        build(context={**WITHOUT_BUNDLING, **VARIANTS[name]}, outdir=outdir).synth()
        environment = environment_from(VARIANTS[name])
        return Synthesized(
            environment=environment,
            folder=outdir,
            data=_template(outdir, environment.name, "Data"),
            app=_template(outdir, environment.name, "App"),
            monitoring=_template(outdir, environment.name, "Monitoring"),
        )

    return by_name


@pytest.fixture(params=list(VARIANTS), scope="session")
def everywhere(request: pytest.FixtureRequest, synthesize: Synthesize) -> Synthesized:
    """Each variant in turn: what a test asserts of it holds in all."""
    return synthesize(request.param)


@pytest.fixture(scope="session")
def dev(synthesize: Synthesize) -> Synthesized:
    return synthesize("dev")


@pytest.fixture(scope="session")
def prod(synthesize: Synthesize) -> Synthesized:
    return synthesize("prod")


@pytest.fixture(scope="session")
def stripe(synthesize: Synthesize) -> Synthesized:
    return synthesize("stripe")


@pytest.fixture(scope="session")
def local(synthesize: Synthesize) -> Synthesized:
    return synthesize("local")


def _template(folder: Path, environment: str, stack: str) -> Template:
    path = folder / f"Duebook-{environment}-{stack}.template.json"
    return Template(path=path, body=json.loads(path.read_text(encoding="utf-8")))
