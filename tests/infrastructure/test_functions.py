import json
from pathlib import Path

from stacks.assembly import build
from tests.infrastructure.conftest import STRIPE as STRIPE_SETTINGS
from tests.infrastructure.conftest import WITHOUT_BUNDLING
from tests.infrastructure.template import Synthesized

COMMON = {"TABLE_NAME", "POWERTOOLS_SERVICE_NAME", "LOG_LEVEL"}
QUEUES = {"LIFECYCLE_QUEUE_URL", "PAYMENTS_QUEUE_URL", "PROJECTION_QUEUE_URL"}
SCHEDULES = {
    "LIFECYCLE_QUEUE_ARN",
    "PAYMENTS_QUEUE_ARN",
    "SCHEDULE_DLQ_ARN",
    "SCHEDULE_GROUP",
    "SCHEDULE_ROLE_ARN",
}
MACHINE = {"DISPUTE_MACHINE_ARN"}
TOLD = {
    "api": {"POLICY", "PAYMENTS", "RECONCILER_FUNCTION"} | MACHINE,
    "dispute": set(),
    "lifecycle_worker": QUEUES | MACHINE,
    "payments_worker": QUEUES | {"PAYMENTS"},
    "projector": QUEUES | SCHEDULES | MACHINE,
    "publisher": {"BUS_NAME"},
    "recorder": set(),
    "sweeper": QUEUES | {"BUS_NAME"},
    "reconciler": QUEUES | SCHEDULES | {"PAYMENTS"},
}
STRIPE = {
    "payments_worker": {"STRIPE_SECRET_ARN"},
    "reconciler": {"STRIPE_SECRET_ARN"},
    "stripe_webhook": {"STRIPE_WEBHOOK_SECRET_ARN"},
}
"""With payments=stripe."""


def test_every_function_is_arm64_python_3_13_traced_and_logs_to_its_own_group(everywhere: Synthesized) -> None:
    groups = []
    for function in everywhere.functions.values():
        properties = function["Properties"]
        assert properties["Runtime"] == "python3.13"
        assert properties["Architectures"] == ["arm64"]
        assert properties["TracingConfig"] == {"Mode": "Active"}
        groups.append(everywhere.target(properties["LoggingConfig"]["LogGroup"]))
    assert len(set(groups)) == len(everywhere.functions)


def test_every_function_is_told_exactly_the_settings_it_reads(everywhere: Synthesized) -> None:
    told = {
        handler: set(function["Properties"]["Environment"]["Variables"])
        for handler, function in everywhere.functions.items()
    }
    more = STRIPE if everywhere.environment.payments == "stripe" else {}
    assert told == {
        handler: COMMON | TOLD.get(handler, set()) | more.get(handler, set()) for handler in {**TOLD, **more}
    }


def test_only_the_embedded_aws_is_told_where_its_stripe_is(tmp_path: Path) -> None:
    """On AWS the library calls Stripe itself; there is no setting that could send money's requests elsewhere."""
    here = {**STRIPE_SETTINGS, "env": "local", "stripe_api_base": "http://127.0.0.1:4570"}
    build(context={**WITHOUT_BUNDLING, **here}, outdir=tmp_path).synth()
    template = json.loads((tmp_path / "Duebook-local-App.template.json").read_text(encoding="utf-8"))
    told = [
        variables["STRIPE_API_BASE"]
        for resource in template["Resources"].values()
        if "STRIPE_API_BASE"
        in (variables := resource.get("Properties", {}).get("Environment", {}).get("Variables", {}))
    ]
    assert set(told) == {"http://127.0.0.1:4570"}


def test_what_the_gateway_calls_answers_before_it_gives_up(everywhere: Synthesized) -> None:
    """An HTTP API ends an integration after 30 s (API Gateway quotas)."""
    for handler in {"api", "stripe_webhook"} & everywhere.functions.keys():
        assert everywhere.functions[handler]["Properties"]["Timeout"] < 30


def test_the_functions_share_one_asset(everywhere: Synthesized) -> None:
    assert len({function["Properties"]["Code"]["S3Key"] for function in everywhere.functions.values()}) == 1


def test_only_the_reconciler_may_call_itself(everywhere: Synthesized) -> None:
    """Lambda stops a chain of about 16 invocations, and a reconcile run takes as many rounds as the data needs. A
    worker whose wake-up goes round in circles is stopped: the dead letters' recorder has it woken again later."""
    loops = {
        handler: function["Properties"]["RecursiveLoop"]
        for handler, function in everywhere.functions.items()
        if "RecursiveLoop" in function["Properties"]
    }
    assert loops == {"reconciler": "Allow"}
