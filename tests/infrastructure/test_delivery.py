"""How a wake-up, a change and an event get where they go, and where they end when they can't."""

import json
from typing import Any

import pytest

from tests.infrastructure.template import Synthesized, plain

FOURTEEN_DAYS = 14 * 86400
QUEUE = "AWS::SQS::Queue"
LANES = {"lifecycle_worker": "Lifecycle", "payments_worker": "Payments"}
FINAL = ("Parked", "Undelivered", "StreamFailures")


def redrive(assembly: Synthesized, queue: str) -> tuple[str, int]:
    """Where a queue's unworkable messages go, and after how many deliveries."""
    policy = assembly.queues[queue]["Properties"]["RedrivePolicy"]
    return assembly.target(policy["deadLetterTargetArn"]), policy["maxReceiveCount"]


def queue_mappings(assembly: Synthesized) -> list[tuple[str, str, dict[str, Any]]]:
    return [mapping for mapping in assembly.mappings if mapping[1] in assembly.queues]


def stream_mappings(assembly: Synthesized) -> dict[str, dict[str, Any]]:
    return {handler: p for handler, source, p in assembly.mappings if source not in assembly.queues}


def test_every_consumed_queue_hides_a_message_six_times_its_functions_timeout(everywhere: Synthesized) -> None:
    for handler, queue, _ in queue_mappings(everywhere):
        timeout = everywhere.functions[handler]["Properties"]["Timeout"]
        assert everywhere.queues[queue]["Properties"]["VisibilityTimeout"] >= 6 * timeout, (handler, queue)


def test_every_consumed_queue_gives_a_message_at_least_five_deliveries(everywhere: Synthesized) -> None:
    for _, queue, _ in queue_mappings(everywhere):
        if queue != everywhere.queue("Projection", "Queue"):
            assert redrive(everywhere, queue)[1] >= 5
    assert redrive(everywhere, everywhere.queue("Projection", "Queue"))[1] >= 5


def test_every_queue_keeps_messages_for_fourteen_days(everywhere: Synthesized) -> None:
    """A dead letter keeps its original enqueue time, so a shorter life anywhere would lose it early."""
    assert {q["Properties"]["MessageRetentionPeriod"] for q in everywhere.queues.values()} == {FOURTEEN_DAYS}


def test_every_queue_is_encrypted_and_refuses_plain_http(everywhere: Synthesized) -> None:
    refusing = {
        everywhere.target(policy["Properties"]["Queues"])
        for policy in everywhere.of_type("AWS::SQS::QueuePolicy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Deny" and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    }
    assert refusing == set(everywhere.queues)
    assert all(q["Properties"]["SqsManagedSseEnabled"] is True for q in everywhere.queues.values())


@pytest.mark.parametrize(("handler", "lane"), LANES.items())
def test_a_lane_is_worked_from_its_queue_and_ends_in_its_own_dead_letters(
    everywhere: Synthesized, handler: str, lane: str
) -> None:
    [(_, source, _)] = [mapping for mapping in queue_mappings(everywhere) if mapping[0] == handler]
    assert source == everywhere.queue(lane, "Queue")
    assert redrive(everywhere, source)[0] == everywhere.queue(lane, "DeadLetters")


def test_the_recorder_reads_the_dead_letters_of_both_lanes_and_what_it_cannot_read_is_parked(
    everywhere: Synthesized,
) -> None:
    sources = {source for handler, source, _ in everywhere.mappings if handler == "recorder"}
    assert sources == {everywhere.queue(lane, "DeadLetters") for lane in LANES.values()}
    assert {redrive(everywhere, source)[0] for source in sources} == {everywhere.queue("Parked")}


def test_nothing_consumes_the_queues_where_messages_end(everywhere: Synthesized) -> None:
    consumed = {source for _, source, _ in everywhere.mappings}
    assert not consumed & {everywhere.queue(name) for name in FINAL}
    assert not any("RedrivePolicy" in everywhere.queues[everywhere.queue(name)]["Properties"] for name in FINAL)


def test_a_failed_projection_is_retried_from_its_queue_and_then_kept(everywhere: Synthesized) -> None:
    [source] = [source for handler, source, _ in queue_mappings(everywhere) if handler == "projector"]
    assert source == everywhere.queue("Projection", "Queue")
    assert redrive(everywhere, source)[0] == everywhere.queue("Projection", "DeadLetters")


def test_every_source_reports_failed_items_one_by_one(everywhere: Synthesized) -> None:
    """Without it a bad message repeats its whole batch."""
    assert {plain(p["FunctionResponseTypes"]) for _, _, p in everywhere.mappings} == {'["ReportBatchItemFailures"]'}


def test_no_source_waits_for_a_batch_to_fill(everywhere: Synthesized) -> None:
    """Any window, even of one second, can hold a lone message for 20 s (Lambda developer guide)."""
    assert all("MaximumBatchingWindowInSeconds" not in p for _, _, p in everywhere.mappings)


def test_the_lanes_bound_their_concurrency_at_the_source(everywhere: Synthesized) -> None:
    """Reserved concurrency below the sum of maximums would throttle good messages into the dead letters."""
    environment = everywhere.environment
    most = {
        handler: p["ScalingConfig"]["MaximumConcurrency"]
        for handler, _, p in everywhere.mappings
        if "ScalingConfig" in p
    }
    assert most == {
        "lifecycle_worker": environment.lifecycle_concurrency,
        "payments_worker": environment.payments_concurrency,
    }
    assert all(2 <= value <= 1000 for value in most.values())
    assert not any("ReservedConcurrentExecutions" in f["Properties"] for f in everywhere.functions.values())


def test_the_stream_has_its_two_readers_and_no_third(everywhere: Synthesized) -> None:
    """DynamoDB throttles a third reader of the same shard."""
    assert set(stream_mappings(everywhere)) == {"projector", "publisher"}


def test_no_record_can_block_the_stream_for_its_whole_day(everywhere: Synthesized) -> None:
    for handler, p in stream_mappings(everywhere).items():
        assert p["StartingPosition"] == "TRIM_HORIZON", handler
        assert p["BisectBatchOnFunctionError"] is True
        assert 0 < p["MaximumRetryAttempts"] < 10_000
        assert 3600 < p["MaximumRecordAgeInSeconds"] < 86400
        assert everywhere.target(p["DestinationConfig"]["OnFailure"]["Destination"]) == everywhere.queue(
            "StreamFailures"
        )


def test_the_stream_readers_are_woken_only_for_their_rows(everywhere: Synthesized) -> None:
    patterns = {
        handler: [json.loads(f["Pattern"]) for f in p["FilterCriteria"]["Filters"]]
        for handler, p in stream_mappings(everywhere).items()
    }
    assert patterns == {
        "projector": [{"dynamodb": {"Keys": {"sk": {"S": [{"prefix": "job#"}]}}}}],
        "publisher": [
            {
                "dynamodb": {
                    "Keys": {"sk": {"S": [{"prefix": "history#"}]}},
                    "NewImage": {"attention_pk": {"S": [{"prefix": "outbox#"}]}},
                }
            }
        ],
    }


def test_everything_calls_the_alias_so_that_a_deployment_strands_no_caller(everywhere: Synthesized) -> None:
    mapped = {everywhere.target(p["FunctionName"]) for _, _, p in everywhere.mappings}
    ruled = {
        everywhere.target(target["Arn"])
        for rule in everywhere.app.of_type("AWS::Events::Rule").values()
        for target in rule["Properties"]["Targets"]
    }
    called = {
        everywhere.target(integration["Properties"]["IntegrationUri"])
        for integration in everywhere.of_type("AWS::ApiGatewayV2::Integration").values()
    }
    worked = {
        everywhere.target(machine["Properties"]["DefinitionSubstitutions"]["DisputeFunction"])
        for machine in everywhere.of_type("AWS::StepFunctions::StateMachine").values()
    }
    assert mapped | ruled | called | worked == set(everywhere.aliases)
    assert {alias["Properties"]["Name"] for alias in everywhere.of_type("AWS::Lambda::Alias").values()} == {"live"}


def test_the_sweeper_runs_every_few_minutes_and_the_reconciler_once_a_day(everywhere: Synthesized) -> None:
    every = {
        everywhere.aliases[everywhere.target(rule["Properties"]["Targets"][0]["Arn"])]: rule["Properties"][
            "ScheduleExpression"
        ]
        for rule in everywhere.app.of_type("AWS::Events::Rule").values()
    }
    minutes = everywhere.environment.sweep_minutes
    assert every == {
        "sweeper": f"rate({minutes} minute{'' if minutes == 1 else 's'})",
        "reconciler": "cron(17 3 * * ? *)",
    }


def test_every_event_of_the_service_reaches_the_default_queue_or_its_dead_letters(everywhere: Synthesized) -> None:
    [rule] = everywhere.data.of_type("AWS::Events::Rule").values()
    [bus] = everywhere.of_type("AWS::Events::EventBus")
    assert rule["Properties"]["EventPattern"] == {"source": ["duebook"]}
    assert everywhere.target(rule["Properties"]["EventBusName"]) == bus
    [target] = rule["Properties"]["Targets"]
    assert everywhere.target(target["Arn"]) == everywhere.queue("Events", "Queue")
    assert everywhere.target(target["DeadLetterConfig"]["Arn"]) == everywhere.queue("Events", "DeadLetters")
    assert target["RetryPolicy"] == {"MaximumEventAgeInSeconds": 86400, "MaximumRetryAttempts": 185}


def test_eventbridge_may_write_to_the_default_queue_and_its_dead_letters_for_that_rule_only(
    everywhere: Synthesized,
) -> None:
    [rule] = everywhere.data.of_type("AWS::Events::Rule")
    allowed = {
        everywhere.target(policy["Properties"]["Queues"]): statement
        for policy in everywhere.of_type("AWS::SQS::QueuePolicy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Allow"
    }
    assert set(allowed) == {everywhere.queue("Events", kind) for kind in ("Queue", "DeadLetters")}
    for statement in allowed.values():
        assert statement["Principal"] == {"Service": "events.amazonaws.com"}
        assert everywhere.target(statement["Condition"]["ArnEquals"]["aws:SourceArn"]) == rule
