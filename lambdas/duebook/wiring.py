"""The one place that connects services with AWS. Everything is made at its first use and then kept."""

import json
import os
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

from duebook.adapters.aws import call
from duebook.adapters.table import DynamoTable
from duebook.domain.errors import Throttled
from duebook.domain.names import LIFECYCLE, PAYMENTS
from duebook.domain.policy import Policy
from duebook.service.bookings import Bookings
from duebook.service.ports import Bus, Manner, PaymentProvider, Queues, Schedules, SignedEvents
from duebook.settings import setting

if TYPE_CHECKING:
    from duebook.service.dispute import Disputes

_CONFIG = Config(
    connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 3}, max_pool_connections=10
)
"""A call that hangs is given up well within every function's time-out; the SDK repeats throttles and 5xx twice."""


def utc_now() -> datetime:
    """The one clock of what runs in Lambda."""
    return datetime.now(UTC)


@cache
def client(service: str) -> Any:
    """A boto3 client; one a service and process."""
    return boto3.client(service, config=_CONFIG)  # type: ignore[call-overload]


def start(function: str) -> str | None:
    """Invoke a function asynchronously; the request's id. Raises `AwsFailure`."""
    throttles = {"TooManyRequestsException": Throttled}
    answer = call("lambda", throttles, lambda: client("lambda").invoke(FunctionName=function, InvocationType="Event"))
    request: str | None = answer["ResponseMetadata"].get("RequestId")
    return request


@cache
def bookings() -> Bookings:
    return Bookings(DynamoTable(client("dynamodb"), setting("TABLE_NAME")), utc_now)


@cache
def queues() -> Queues:
    from duebook.adapters.queues import SqsQueues

    lanes = {LIFECYCLE: setting("LIFECYCLE_QUEUE_URL"), PAYMENTS: setting("PAYMENTS_QUEUE_URL")}
    return SqsQueues(client("sqs"), lanes, setting("PROJECTION_QUEUE_URL"))


@cache
def schedules() -> Schedules:
    from duebook.adapters.schedules import EventBridgeSchedules

    return EventBridgeSchedules(
        client("scheduler"),
        setting("SCHEDULE_GROUP"),
        setting("SCHEDULE_ROLE_ARN"),
        setting("SCHEDULE_DLQ_ARN"),
        {LIFECYCLE: setting("LIFECYCLE_QUEUE_ARN"), PAYMENTS: setting("PAYMENTS_QUEUE_ARN")},
    )


@cache
def bus() -> Bus:
    from duebook.adapters.bus import EventBridgeBus

    return EventBridgeBus(client("events"), setting("BUS_NAME"))


@cache
def provider() -> PaymentProvider:
    from duebook.adapters.payments import ExternalPayments, LedgerPayments

    match setting("PAYMENTS"):
        case "external":
            return ExternalPayments()
        case "ledger":
            return LedgerPayments(bookings().table)
        case "stripe":
            return stripe_payments()
        case other:
            raise ValueError(f"PAYMENTS is {other!r}; it must be external, ledger or stripe")


def manner() -> Manner:
    """How payments go here, for the API: it calls no provider, so it has no key of one."""
    from duebook.adapters.payments import STRIPE

    return STRIPE if setting("PAYMENTS") == "stripe" else provider()


@cache
def stripe_payments() -> PaymentProvider:
    """Stripe's library is imported here alone, so that only the function that calls Stripe pays for it."""
    from duebook.adapters.secrets import SecretsManagerSecret
    from duebook.adapters.stripe_payments import StripePayments

    secret = SecretsManagerSecret(client("secretsmanager"), setting("STRIPE_SECRET_ARN"), utc_now)
    return StripePayments(secret, api_base=os.environ.get("STRIPE_API_BASE") or None)


@cache
def stripe_events() -> SignedEvents:
    from duebook.adapters.secrets import SecretsManagerSecret
    from duebook.adapters.stripe_webhook import StripeEvents

    secret = SecretsManagerSecret(client("secretsmanager"), setting("STRIPE_WEBHOOK_SECRET_ARN"), utc_now)
    return StripeEvents(secret, utc_now)


@cache
def disputes() -> "Disputes":
    from duebook.adapters.workflow import StepFunctionsWorkflow
    from duebook.service.dispute import Disputes

    return Disputes(bookings(), StepFunctionsWorkflow(client("stepfunctions"), setting("DISPUTE_MACHINE_ARN")))


@cache
def dispute_steps() -> "Disputes":
    """For the function that the state machine itself calls: it is told no machine, for it starts and asks none."""
    from duebook.adapters.workflow import StepFunctionsWorkflow
    from duebook.service.dispute import Disputes

    return Disputes(bookings(), StepFunctionsWorkflow(client("stepfunctions"), ""))


@cache
def default_policy() -> Policy:
    """The policy that a new booking snapshots: the built-in one with the deployment's overrides."""
    return Policy().overridden(json.loads(os.environ.get("POLICY") or "{}"))
