"""The environments that the app can be synthesized for, and the settings a deployer may change with `-c`."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from stacks import ROOT

PAYMENTS = ("external", "ledger")
"""Who moves money: the marketplace, asked by an event; or a ledger in the table, which moves none."""


class SettingError(ValueError):
    """A `-c` setting that the app can't be synthesized with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What differs between deployments.

    `payments`: one of `PAYMENTS`. `policy`: the marketplace's overrides of the default policy, as JSON. `keep`: data
    outlives its stack, and deleting it takes two steps. `log_days`: log retention. `sweep_minutes`: the most a job
    whose schedule was lost waits for the sweeper, beside its grace. `*_concurrency`: the most workers a lane runs at
    once (2 to 1,000). `requests_per_second` and `burst` bound the HTTP API.
    """

    name: str
    payments: str
    policy: str = "{}"
    keep: bool
    log_level: str = "INFO"
    log_days: int
    sweep_minutes: int = 5
    lifecycle_concurrency: int = 10
    payments_concurrency: int = 5
    requests_per_second: int = 100
    burst: int = 200

    @property
    def embedded(self) -> bool:
        """Deployed to the embedded AWS on this machine, never to an account."""
        return self.name == "local"

    @property
    def stack_prefix(self) -> str:
        """What the names of the environment's stacks begin with."""
        return f"Duebook-{self.name}"


ENVIRONMENTS: Mapping[str, Environment] = {
    environment.name: environment
    for environment in (
        Environment(name="local", payments="ledger", keep=False, log_days=7, sweep_minutes=1),
        Environment(name="dev", payments="external", keep=False, log_days=30),
        Environment(
            name="prod",
            payments="external",
            keep=True,
            log_days=365,
            lifecycle_concurrency=50,
            payments_concurrency=10,
            requests_per_second=500,
            burst=1000,
        ),
    )
}

DEFAULT = "dev"
SETTINGS = ("env", "payments", "policy")


def environment_from(settings: Mapping[str, Any]) -> Environment:
    """The environment that `-c env=`, `-c payments=` and `-c policy=` ask for; absent ones are None or missing.

    Raises SettingError, whose message says what is allowed.
    """
    name = settings.get("env") or DEFAULT
    if name not in ENVIRONMENTS:
        raise SettingError(f"-c env={name}: there is no such environment; choose {_or(ENVIRONMENTS)}")
    environment = ENVIRONMENTS[name]
    payments = settings.get("payments") or environment.payments
    if payments not in PAYMENTS:
        raise SettingError(f"-c payments={payments}: there is no such payment provider; choose {_or(PAYMENTS)}")
    if payments == "ledger" and not environment.embedded:
        raise SettingError(
            f"-c payments=ledger: the ledger moves no money and is for the embedded AWS only, not for {name!r}; "
            "use -c payments=external"
        )
    return replace(environment, payments=payments, policy=_policy(settings.get("policy") or "{}"))


def _policy(overrides: Any) -> str:
    """The overrides as canonical JSON, once the domain has accepted them."""
    lambdas = str(ROOT / "lambdas")
    if lambdas not in sys.path:
        sys.path.append(lambdas)
    from duebook.domain.policy import Policy

    try:
        values = json.loads(overrides) if isinstance(overrides, str) else overrides
        if not isinstance(values, dict):
            raise ValueError("it is one JSON object")
        Policy().overridden(values)
    except (TypeError, ValueError) as error:
        raise SettingError(f"-c policy={overrides}: {error}") from error
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def _or(names: Any) -> str:
    return ", ".join(names)
