from tests.infrastructure.template import Synthesized

COMMON = {"TABLE_NAME", "POWERTOOLS_SERVICE_NAME", "POWERTOOLS_METRICS_NAMESPACE", "LOG_LEVEL"}
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
    "reconciler": QUEUES | SCHEDULES,
}


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
    assert told == {handler: COMMON | settings for handler, settings in TOLD.items()}


def test_the_api_answers_before_the_gateway_gives_up(everywhere: Synthesized) -> None:
    """An HTTP API ends an integration after 30 s (API Gateway quotas)."""
    assert everywhere.functions["api"]["Properties"]["Timeout"] < 30


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
