"""The environments that the app can be synthesized for, and the settings a deployer may change with `-c`."""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from stacks import ROOT

PAYMENTS = ("external", "ledger", "stripe")
"""Who moves money: the marketplace, asked by an event; a ledger in the table, which moves none; or Stripe."""
STRIPE_SECRETS: Mapping[str, str] = {
    "stripe_secret": "Stripe's API key",
    "stripe_webhook_secret": "the signing secret of Stripe's webhook",
}
"""Settings that name a secret of Secrets Manager, and what that secret holds."""

_SECRET_NAME = r"[0-9A-Za-z/_+=.@-]{1,512}"
_SECRET_ARN = rf"arn:[a-z-]+:secretsmanager:[0-9a-z-]+:[0-9]{{12}}:secret:{_SECRET_NAME}-[0-9A-Za-z]{{6}}"
_ADDRESS = r"[0-9A-Za-z_.+-]{1,64}@([0-9A-Za-z]([0-9A-Za-z-]{0,61}[0-9A-Za-z])?\.)+[A-Za-z]{2,63}"
_SECRET_ITSELF = re.compile(r"(sk|rk|pk|whsec)_")
_THIS_MACHINE = r"http://127\.0\.0\.1:[0-9]{1,5}"
_POLICY_NAME = r"[0-9A-Za-z_+=,.@-]{1,128}"
_TAG_VALUE = r"[0-9A-Za-z _.:/=+@-]{1,256}"
PLACE: Mapping[str, tuple[str, str]] = {
    "account": (r"[0-9]{12}", "the 12 digits of the AWS account that this environment lives in"),
    "region": (r"[a-z]{2}(-[a-z]+)+-[0-9]", "the region that this environment lives in, such as eu-west-1"),
}
TAGS: Mapping[str, tuple[str, str]] = {
    "owner": (_TAG_VALUE, "who answers for it, a team rather than a person"),
    "cost_center": (_TAG_VALUE, "who pays for it"),
}
BOUNDARY: Mapping[str, tuple[str, str]] = {
    "permissions_boundary": (
        rf"{_POLICY_NAME}|arn:[a-z-]+:iam::([0-9]{{12}}|aws):policy/([!-~]+/)?{_POLICY_NAME}",
        "name or ARN of the managed policy that bounds what any role may do",
    ),
}
_PLAIN: Mapping[str, tuple[str, str]] = {**PLACE, **TAGS, **BOUNDARY}
"""Settings that are one piece of text: what it has to look like, and what it is."""


class SettingError(ValueError):
    """A `-c` setting that the app can't be synthesized with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What differs between deployments.

    `payments`: one of `PAYMENTS`. `stripe_secret` and `stripe_webhook_secret`: name or ARN of the secrets that hold
    Stripe's API key and its webhook's signing secret. `stripe_api_base`: where the embedded AWS finds Stripe, which is
    a fake on this machine. `policy`: the marketplace's overrides of the default policy, as JSON. `keep`: data
    outlives its stack, and deleting it takes two steps. `log_days`: log retention. `sweep_minutes`: the most a job
    whose schedule was lost waits for the sweeper, beside its grace. `*_concurrency`: the most workers a lane runs at
    once (2 to 1,000). `requests_per_second` and `burst` bound the HTTP API.
    `permissions_boundary`: name or ARN of the managed policy that every role gets as its boundary. `owner` and
    `cost_center` become tags. `alarm_emails`: who is told of alarms by mail. `schedules_quota`: how many schedules the
    account may have in its region (EventBridge Scheduler, "Quotas": 10,000,000, adjustable).
    `account` and `region`: the only place that this environment may be deployed to.
    """

    name: str
    payments: str
    stripe_secret: str | None = None
    stripe_webhook_secret: str | None = None
    stripe_api_base: str | None = None
    policy: str = "{}"
    keep: bool
    log_level: str = "INFO"
    log_days: int
    sweep_minutes: int = 5
    lifecycle_concurrency: int = 10
    payments_concurrency: int = 5
    alarm_emails: tuple[str, ...] = ()
    schedules_quota: int = 10_000_000
    requests_per_second: int = 100
    burst: int = 200
    permissions_boundary: str | None = None
    owner: str | None = None
    cost_center: str | None = None
    account: str | None = None
    region: str | None = None

    @property
    def embedded(self) -> bool:
        """Deployed to the embedded AWS on this machine, never to an account."""
        return self.name == "local"

    @property
    def service(self) -> str:
        """What the deployment is called by its metrics and its schedules."""
        return f"duebook-{self.name}"

    @property
    def stack_prefix(self) -> str:
        """What the names of the environment's stacks begin with."""
        return f"Duebook-{self.name}"

    @property
    def tags(self) -> Mapping[str, str]:
        """What every resource of the environment is tagged with."""
        given = {"owner": self.owner, "cost-center": self.cost_center}
        return {
            "service": "duebook",
            "environment": self.name,
            **{name: value for name, value in given.items() if value is not None},
        }


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
SETTINGS = ("env", "payments", "policy", *STRIPE_SECRETS, "stripe_api_base", *_PLAIN, "alarm_emails", "schedules_quota")


def environment_from(settings: Mapping[str, Any]) -> Environment:
    """The environment that the settings `-c <one of SETTINGS>=` ask for; absent ones are None or missing.

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
    paid = replace(
        environment,
        payments=payments,
        policy=_policy(settings.get("policy") or "{}"),
        alarm_emails=_addresses(settings.get("alarm_emails") or ""),
        schedules_quota=_quota(settings.get("schedules_quota") or environment.schedules_quota),
        **_plain(settings, environment),
    )
    stripe = {name: settings[name] for name in (*STRIPE_SECRETS, "stripe_api_base") if settings.get(name)}
    if payments != "stripe":
        if stripe:
            raise SettingError(f"-c {next(iter(stripe))}= is for -c payments=stripe, and payments is {payments}")
        return paid
    _check_secrets(stripe)
    _check_api_base(stripe.get("stripe_api_base"), environment)
    return replace(paid, **stripe)


def _plain(settings: Mapping[str, Any], environment: Environment) -> dict[str, Any]:
    """The settings that are one piece of text, as far as they are given."""
    given = {name: str(settings[name]) for name in _PLAIN if settings.get(name)}
    for name, value in given.items():
        pattern, what = _PLAIN[name]
        if not re.fullmatch(pattern, value):
            raise SettingError(f"-c {name}={value}: it has to be {what}")
        if environment.embedded and name in PLACE:
            raise SettingError(f"-c {name}= is for an AWS account, and the embedded AWS is none")
    return given


def _addresses(given: Any) -> tuple[str, ...]:
    """Mail addresses, apart by commas. What is wrong is named by its place: an address is personal data."""
    addresses = [address.strip() for address in str(given).split(",")] if given else []
    for number, address in enumerate(addresses, start=1):
        if not re.fullmatch(_ADDRESS, address):
            raise SettingError(f"-c alarm_emails=: number {number} is no mail address; give them as a@b.org,c@d.org")
    if len({address.lower() for address in addresses}) < len(addresses):
        raise SettingError("-c alarm_emails=: an address is there twice")
    return tuple(addresses)


def _quota(given: Any) -> int:
    if not re.fullmatch(r"[1-9][0-9]{2,11}", str(given)):
        raise SettingError(
            f"-c schedules_quota={given}: it has to be the number of schedules that Service Quotas allows the account, "
            "such as 10000000"
        )
    return int(given)


def _check_secrets(given: Mapping[str, Any]) -> None:
    """Two secrets, by name or ARN. What is given instead is not repeated: it may be the secret itself."""
    for name, what in STRIPE_SECRETS.items():
        value = given.get(name)
        if value is None:
            raise SettingError(
                f"-c payments=stripe needs -c {name}=, the name or ARN of the Secrets Manager secret with {what}"
            )
        if _SECRET_ITSELF.match(str(value)) or not re.fullmatch(f"{_SECRET_NAME}|{_SECRET_ARN}", str(value)):
            raise SettingError(f"-c {name}= is neither name nor ARN of a secret; put {what} into Secrets Manager")
    if len({given[name] for name in STRIPE_SECRETS}) < len(STRIPE_SECRETS):
        raise SettingError(
            f"-c {' and -c '.join(STRIPE_SECRETS)} name the same secret: the function that anybody can call may not "
            "read the key that moves money"
        )


def _check_api_base(given: Any, environment: Environment) -> None:
    if not environment.embedded:
        if given is not None:
            raise SettingError(f"-c stripe_api_base= is for the embedded AWS only, not for {environment.name!r}")
    elif not re.fullmatch(_THIS_MACHINE, str(given)):
        raise SettingError(
            "-c stripe_api_base= has to be http://127.0.0.1:PORT of a fake: the embedded AWS never calls Stripe itself"
        )


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
