"""Every alarm looks at something that is really emitted, tells somebody, and has a runbook that works."""

import ast
import io
import json
import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name

from duebook.service import sweep
from stacks import ROOT
from stacks.components.watching import NEAR_TIMEOUT
from stacks.environments import SettingError, environment_from
from tests.infrastructure.template import Synthesized, handler_of, many

SOURCE = ROOT / "lambdas" / "duebook"
RUNBOOKS = ROOT / "docs" / "runbooks"
INDEX = "README"
SECTIONS = ["What it means", "Look", "Do", "Over when"]

DOCUMENTED = {
    # EventBridge Scheduler user guide, "Monitoring Amazon EventBridge Scheduler with Amazon CloudWatch"
    "AWS/Scheduler": (
        {"ScheduleGroup"},
        {
            "InvocationAttemptCount",
            "InvocationDroppedCount",
            "InvocationThrottleCount",
            "InvocationsFailedToBeSentToDeadLetterCount",
            "TargetErrorCount",
        },
    ),
    # SQS developer guide, "Available CloudWatch metrics for Amazon SQS"
    "AWS/SQS": ({"QueueName"}, {"ApproximateAgeOfOldestMessage", "ApproximateNumberOfMessagesVisible"}),
    # Lambda developer guide, "Types of metrics for Lambda functions"; "Recursive loop detection" for the last
    "AWS/Lambda": (
        {"FunctionName"},
        {"Duration", "Errors", "Invocations", "IteratorAge", "RecursiveInvocationsDropped", "Throttles"},
    ),
    # Step Functions developer guide, "Monitoring Step Functions metrics using Amazon CloudWatch"
    "AWS/States": (
        {"StateMachineArn"},
        {"ExecutionsAborted", "ExecutionsFailed", "ExecutionsStarted", "ExecutionsSucceeded", "ExecutionsTimedOut"},
    ),
    # API Gateway developer guide, "Monitor CloudWatch metrics for HTTP APIs"; the names differ from a REST API's
    "AWS/ApiGateway": ({"ApiId"}, {"4xx", "5xx", "Count", "Latency"}),
    # DynamoDB developer guide, "DynamoDB metrics and dimensions"
    "AWS/DynamoDB": ({"TableName"}, {"ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits"}),
}
"""Namespace to the dimensions and the metrics that its service documents."""

Properties = dict[str, Any]


# --- what alarms look at -------------------------------------------------------------------------------------------


def alarms(assembly: Synthesized) -> list[Properties]:
    return [alarm["Properties"] for alarm in assembly.monitoring.of_type("AWS::CloudWatch::Alarm").values()]


def name_of(assembly: Synthesized, alarm: Properties) -> str:
    """Without the deployment's."""
    name: str = alarm["AlarmName"]
    assert name.startswith(f"{assembly.environment.service}-")
    return name.removeprefix(f"{assembly.environment.service}-")


def dimensions(alarm: Properties) -> dict[str, Any]:
    return {each["Name"]: each["Value"] for each in alarm.get("Dimensions", [])}


def emitted() -> set[tuple[str, bool]]:
    """Each metric that a handler counts, and whether it has a kind, as the code says it."""
    found = set()
    for path in (SOURCE / "handlers").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "count":
                name = node.args[0]
                assert isinstance(name, ast.Constant), f"{path.name}:{node.lineno}: a metric's name is written out"
                found.add((str(name.value), any(keyword.arg == "kind" for keyword in node.keywords)))
    return found


def documents(service: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Properties]:
    """What `support.count` really prints for a function that is told `service`, by metric."""
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", service)
    from aws_lambda_powertools.metrics import Metrics

    from duebook.handlers import support

    monkeypatch.setattr(support, "metrics", Metrics(namespace=support.NAMESPACE))
    printed = io.StringIO()
    with redirect_stdout(printed):
        support.count("Plain")
        support.count("OfAKind", 2, kind="dead")
        support.metrics.flush_metrics()
    support.metrics.clear_metrics()
    found = [json.loads(line) for line in printed.getvalue().splitlines()]
    return {document["_aws"]["CloudWatchMetrics"][0]["Metrics"][0]["Name"]: document for document in found}


def test_what_a_handler_counts_is_emitted_under_the_namespace_and_dimensions_that_its_alarms_have(
    everywhere: Synthesized, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The classic silent failure: an alarm on a metric that nobody emits, for a dimension differs."""
    told = {
        f["Properties"]["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"] for f in everywhere.functions.values()
    }
    [service] = told
    printed = documents(service, monkeypatch)
    shapes = {}
    for name, of_a_kind in (("Plain", False), ("OfAKind", True)):
        [directive] = printed[name]["_aws"]["CloudWatchMetrics"]
        [names] = directive["Dimensions"]
        shapes[of_a_kind] = (directive["Namespace"], {each: printed[name][each] for each in names})
    own = [alarm for alarm in alarms(everywhere) if not alarm["Namespace"].startswith("AWS/")]
    assert own
    for alarm in own:
        of_a_kind = "kind" in dimensions(alarm)
        namespace, place = shapes[of_a_kind]
        assert (alarm["MetricName"], of_a_kind) in emitted(), f"nobody emits {alarm['MetricName']}"
        assert alarm["Namespace"] == namespace
        assert {**dimensions(alarm), "kind": "dead"} == {**place, "kind": "dead"}, alarm["AlarmName"]


def test_every_kind_that_an_alarm_looks_at_is_one_that_the_sweeper_counts(everywhere: Synthesized) -> None:
    kinds = {dimensions(alarm)["kind"] for alarm in alarms(everywhere) if "kind" in dimensions(alarm)}
    assert kinds == set(sweep.FOR_PEOPLE)


def test_every_metric_of_aws_is_documented_with_just_the_dimensions_that_its_alarm_has(everywhere: Synthesized) -> None:
    for alarm in alarms(everywhere):
        if alarm["Namespace"].startswith("AWS/"):
            names, metrics = DOCUMENTED[alarm["Namespace"]]
            assert alarm["MetricName"] in metrics
            assert set(dimensions(alarm)) == names
            assert "Unit" not in alarm


def test_the_dashboard_shows_only_metrics_that_exist(everywhere: Synthesized) -> None:
    [dashboard] = everywhere.monitoring.of_type("AWS::CloudWatch::Dashboard").values()
    body = json.loads(everywhere.text(dashboard["Properties"]["DashboardBody"]))
    shown = [row for widget in body["widgets"] for row in widget["properties"].get("metrics", [])]
    assert len(shown) > 60
    for namespace, name, *rest in shown:
        names = set(rest[: len(rest) // 2 * 2 : 2]) if not isinstance(rest[-1], dict) else set(rest[:-1:2])
        if namespace == "Duebook":
            assert (name, "kind" in names) in emitted()
            assert names - {"kind"} == {"service"}
        else:
            documented, metrics = DOCUMENTED[namespace]
            assert (name in metrics, names) == (True, documented), (namespace, name)


def test_the_dashboard_is_laid_out_by_question(everywhere: Synthesized) -> None:
    [dashboard] = everywhere.monitoring.of_type("AWS::CloudWatch::Dashboard").values()
    body = json.loads(everywhere.text(dashboard["Properties"]["DashboardBody"]))
    assert [w["properties"]["markdown"] for w in body["widgets"] if w["type"] == "text"] == [
        "# Is anything late?",
        "# Is anything stuck?",
        "# Is money moving, once?",
        "# Are disputes answered?",
        "# Do customers of the API notice?",
        "# What does it cost, and how much is scheduled?",
    ]


def test_no_dimension_names_a_person_or_a_booking(everywhere: Synthesized) -> None:
    """Only deployments, kinds and AWS's own resources: each value is one more metric, for ever."""
    assert {name for alarm in alarms(everywhere) for name in dimensions(alarm)} == {
        *("service", "kind"),
        *(name for names, _ in DOCUMENTED.values() for name in names if name != "TableName"),
    }


# --- what has alarms -----------------------------------------------------------------------------------------------


def watched(assembly: Synthesized, metric: str) -> dict[str, Properties]:
    """The alarms on one metric by the resource of its only dimension."""
    found = {}
    for alarm in alarms(assembly):
        if alarm["MetricName"] == metric:
            [value] = dimensions(alarm).values()
            found[assembly.target(value)] = alarm
    return found


@pytest.mark.parametrize("metric", ["Errors", "Throttles", "Duration"])
def test_every_function_is_watched(everywhere: Synthesized, metric: str) -> None:
    assert set(watched(everywhere, metric)) == set(everywhere.of_type("AWS::Lambda::Function"))


def test_a_function_is_near_its_time_out_at_nine_tenths_of_its_own(everywhere: Synthesized) -> None:
    functions = everywhere.of_type("AWS::Lambda::Function")
    for function, alarm in watched(everywhere, "Duration").items():
        assert alarm["Threshold"] == pytest.approx(NEAR_TIMEOUT * 1000 * functions[function]["Properties"]["Timeout"])
        assert (alarm["Statistic"], alarm["ComparisonOperator"]) == ("Maximum", "GreaterThanOrEqualToThreshold")


def test_the_sweeper_and_the_reconciler_stop_themselves_before_their_alarm() -> None:
    from duebook.handlers import reconciler, sweeper

    assert 60_000 - sweeper.ENOUGH_MS < NEAR_TIMEOUT * 60_000
    assert 300_000 - reconciler.ENOUGH_MS < NEAR_TIMEOUT * 300_000


def test_a_dropped_recursive_invocation_is_noticed_wherever_it_is_not_allowed(everywhere: Synthesized) -> None:
    functions = everywhere.of_type("AWS::Lambda::Function")
    allowed = {name for name, f in functions.items() if f["Properties"].get("RecursiveLoop") == "Allow"}
    assert {handler_of(functions[name]) for name in allowed} == {"reconciler"}
    assert set(watched(everywhere, "RecursiveInvocationsDropped")) == set(functions) - allowed


def test_who_reads_the_stream_is_watched_for_its_lag(everywhere: Synthesized) -> None:
    functions = everywhere.of_type("AWS::Lambda::Function")
    readers = {handler for handler, _, mapping in everywhere.mappings if "StartingPosition" in mapping}
    assert {handler_of(functions[name]) for name in watched(everywhere, "IteratorAge")} == readers


def test_every_queue_is_watched_for_late_messages_or_for_any(everywhere: Synthesized) -> None:
    """What has dead letters is worked through, and late messages count; where messages end, any does."""
    ends = {
        everywhere.target(queue["Properties"]["RedrivePolicy"]["deadLetterTargetArn"])
        for queue in everywhere.queues.values()
        if "RedrivePolicy" in queue["Properties"]
    }
    ends |= {name for name, queue in everywhere.queues.items() if "RedrivePolicy" not in queue["Properties"]}
    assert set(watched(everywhere, "ApproximateNumberOfMessagesVisible")) == ends
    assert set(watched(everywhere, "ApproximateAgeOfOldestMessage")) == set(everywhere.queues) - ends


def test_a_message_is_late_only_when_its_delay_and_all_its_deliveries_are_over(everywhere: Synthesized) -> None:
    for queue, alarm in watched(everywhere, "ApproximateAgeOfOldestMessage").items():
        properties = everywhere.queues[queue]["Properties"]
        deliveries = properties["RedrivePolicy"]["maxReceiveCount"]
        assert alarm["Threshold"] == 900 + deliveries * properties["VisibilityTimeout"]


def test_every_end_of_a_workflow_but_its_own_is_noticed(everywhere: Synthesized) -> None:
    [machine] = everywhere.of_type("AWS::StepFunctions::StateMachine")
    for metric in ("ExecutionsFailed", "ExecutionsTimedOut", "ExecutionsAborted"):
        assert set(watched(everywhere, metric)) == {machine}


def test_silence_is_the_fault_of_whatever_gives_signs_of_life_and_of_nothing_else(everywhere: Synthesized) -> None:
    silent = {name_of(everywhere, a): a for a in alarms(everywhere) if a["TreatMissingData"] == "breaching"}
    assert set(silent) == {"sweeper-silent", "reconcile-silent"}
    assert {(a["Statistic"], a["ComparisonOperator"], a["Threshold"]) for a in silent.values()} == {
        ("SampleCount", "LessThanThreshold", 1)
    }
    assert silent["sweeper-silent"]["Period"] == 60 * everywhere.environment.sweep_minutes
    assert 24 < silent["reconcile-silent"]["Period"] * silent["reconcile-silent"]["EvaluationPeriods"] / 3600 < 48


def test_no_alarm_looks_further_back_than_cloudwatch_does(everywhere: Synthesized) -> None:
    """CloudWatch API reference, PutMetricAlarm, `Period`: a day, or a week when the period is an hour or more."""
    for alarm in alarms(everywhere):
        window = alarm["Period"] * alarm["EvaluationPeriods"]
        assert window <= (604_800 if alarm["Period"] >= 3600 else 86_400)
        assert alarm["DatapointsToAlarm"] <= alarm["EvaluationPeriods"]


def test_stripes_webhook_is_watched_where_there_is_one(stripe: Synthesized, dev: Synthesized) -> None:
    def metrics(assembly: Synthesized) -> set[str]:
        return {alarm["MetricName"] for alarm in alarms(assembly)}

    assert metrics(stripe) - metrics(dev) == {"WebhooksRefused", "WebhookEventsRefused"}


# --- who is told ---------------------------------------------------------------------------------------------------


def test_every_alarm_tells_the_topic_when_it_begins_and_when_it_is_over(everywhere: Synthesized) -> None:
    [topic] = everywhere.monitoring.of_type("AWS::SNS::Topic")
    for alarm in alarms(everywhere):
        for actions in ("AlarmActions", "OKActions"):
            assert [everywhere.target(action) for action in alarm[actions]] == [topic]


def test_every_alarm_says_whether_it_may_wake_somebody_and_carries_that_as_a_tag(everywhere: Synthesized) -> None:
    for alarm in alarms(everywhere):
        [severity] = [tag["Value"] for tag in alarm["Tags"] if tag["Key"] == "severity"]
        assert alarm["AlarmDescription"].startswith(f"[{severity}] ")
        assert severity in ("page", "ticket")
        assert len(alarm["AlarmDescription"]) <= 1024


def test_cloudwatch_may_publish_this_deployments_alarms_and_nothing_is_published_in_the_clear(
    everywhere: Synthesized,
) -> None:
    """A topic with a policy of its own has lost the default one: without the first statement no alarm arrives."""
    [policy] = everywhere.monitoring.of_type("AWS::SNS::TopicPolicy").values()
    let_in, refused = sorted(policy["Properties"]["PolicyDocument"]["Statement"], key=lambda each: each["Effect"])
    assert let_in["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert many(let_in["Action"]) == ["sns:Publish"]
    assert let_in["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
    source = everywhere.text(let_in["Condition"]["ArnLike"]["aws:SourceArn"])
    prefix = f"{everywhere.environment.service}-"
    assert source == f"arn:<AWS::Partition>:cloudwatch:<AWS::Region>:<AWS::AccountId>:alarm:{prefix}*"
    assert all(alarm["AlarmName"].startswith(prefix) for alarm in alarms(everywhere))
    assert (refused["Effect"], refused["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})


def test_without_addresses_the_topic_has_no_subscriber(everywhere: Synthesized) -> None:
    assert everywhere.monitoring.of_type("AWS::SNS::Subscription") == {}


def test_each_address_is_subscribed_and_no_logical_id_tells_it(tmp_path: Path) -> None:
    from aws_cdk import App, Stack

    from stacks.components.alarms import Alarms

    app = App(analytics_reporting=False, outdir=str(tmp_path))
    environment = environment_from({"alarm_emails": "night@example.org, Day.Shift+duebook@ops.example.org"})
    stack = Stack(app, "Stack")
    Alarms(stack, "Alarms", environment=environment)
    template = app.synth().get_stack_by_name("Stack").template
    found = {
        name: each["Properties"]
        for name, each in template["Resources"].items()
        if each["Type"] == "AWS::SNS::Subscription"
    }
    assert sorted((each["Protocol"], each["Endpoint"]) for each in found.values()) == [
        ("email", "Day.Shift+duebook@ops.example.org"),
        ("email", "night@example.org"),
    ]
    assert not [name for name in found if "night" in name.lower() or "shift" in name.lower()]


@pytest.mark.parametrize("given", ["night", "x@y", "a@b.org;c@d.org", "a@b.org,,c@d.org", "a@-b.org", "a b@c.org"])
def test_what_is_no_list_of_addresses_is_refused_and_not_repeated(given: str) -> None:
    with pytest.raises(SettingError, match=r"alarm_emails=: number \d is no mail address") as refused:
        environment_from({"alarm_emails": given})
    assert given not in str(refused.value)


def test_an_address_that_is_there_twice_is_refused() -> None:
    with pytest.raises(SettingError, match="there twice"):
        environment_from({"alarm_emails": "a@b.org,A@b.org"})


@pytest.mark.parametrize(("given", "quota"), [(None, 10_000_000), ("1000000", 1_000_000)])
def test_the_quota_is_a_setting(given: str | None, quota: int) -> None:
    assert environment_from({"schedules_quota": given}).schedules_quota == quota


@pytest.mark.parametrize("given", ["ten million", "0", "-1", "1e7", "99"])
def test_what_is_no_quota_is_refused(given: str) -> None:
    with pytest.raises(SettingError, match="schedules_quota"):
        environment_from({"schedules_quota": given})


def test_the_deployed_quota_alarm_has_its_threshold(everywhere: Synthesized) -> None:
    [alarm] = [alarm for alarm in alarms(everywhere) if alarm["MetricName"] == "Schedules"]
    assert alarm["Threshold"] == 0.8 * everywhere.environment.schedules_quota


# --- runbooks ------------------------------------------------------------------------------------------------------


def pages() -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(RUNBOOKS.glob("*.md"))}


def commands(first: str) -> Iterator[tuple[str, list[str]]]:
    """Each command in the runbooks' code blocks and tools that begins with `first`: where it stands, and its words."""
    texts = {**pages(), "tools": "```sh\n" + (RUNBOOKS / "tools.sh").read_text(encoding="utf-8") + "```"}
    for page, text in texts.items():
        for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                for found in re.findall(rf"(?:^|\$\(|until |\| )({first} .*)", line.strip()):
                    words = shlex.split(found, comments=True)
                    yield page, words[: words.index("|")] if "|" in words else words


def test_every_alarm_has_a_runbook_of_its_name_and_every_runbook_an_alarm(
    dev: Synthesized, prod: Synthesized, stripe: Synthesized
) -> None:
    for assembly in (dev, prod, stripe):
        for alarm in alarms(assembly):
            name = name_of(assembly, alarm).partition(".")[0]
            assert alarm["AlarmDescription"].endswith(f" Runbook: docs/runbooks/{name}.md")
    runbooks = {name_of(stripe, alarm).partition(".")[0] for alarm in alarms(stripe)}
    assert runbooks == set(pages()) - {INDEX}


def test_the_index_lists_every_runbook_with_its_severity(stripe: Synthesized) -> None:
    index = pages()[INDEX]
    listed = dict(re.findall(r"^\| \[([a-z-]+)\]\(\1\.md\) \| ([a-z, ]+) \|", index, re.MULTILINE))
    severities: dict[str, set[str]] = {}
    for alarm in alarms(stripe):
        severity = re.match(r"\[(\w+)\]", alarm["AlarmDescription"])
        assert severity is not None
        severities.setdefault(name_of(stripe, alarm).partition(".")[0], set()).add(severity[1])
    assert listed == {name: ", ".join(sorted(found)) for name, found in severities.items()}


@pytest.mark.parametrize("page", sorted(path.stem for path in RUNBOOKS.glob("*.md") if path.stem != INDEX))
def test_a_runbook_says_what_it_means_how_to_look_what_to_do_and_when_it_is_over(page: str) -> None:
    text = pages()[page]
    assert text.startswith(f"# {page}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    assert "```sh\n" in text


def test_the_subjects_that_share_a_runbook_are_all_named_in_it(stripe: Synthesized) -> None:
    for alarm in alarms(stripe):
        runbook, _, subject = name_of(stripe, alarm).partition(".")
        assert not subject or f"`{subject}`" in pages()[runbook], f"{runbook}.md says nothing of {subject}"


def test_every_command_of_aws_in_a_runbook_exists_with_its_options() -> None:
    session = botocore.session.get_session()
    seen = 0
    for page, (_, service, operation, *options) in commands("aws"):
        model = session.get_service_model("stepfunctions" if service == "stepfunctions" else service)
        operations = {xform_name(name, "-"): name for name in model.operation_names}
        assert operation in operations, f"{page}: aws {service} {operation}"
        shape = model.operation_model(operations[operation]).input_shape
        known = {xform_name(name, "-") for name in (shape.members if shape else {})} | {"query", "output"}
        given = {option[2:] for option in options if option.startswith("--")}
        assert given <= known, f"{page}: aws {service} {operation} has no {given - known}"
        seen += 1
    assert seen > 20


def test_every_command_of_duebook_in_a_runbook_exists_with_its_options() -> None:
    app = pytest.importorskip("duebook_cli.app", reason="the command line is not installed").app
    from typer.main import get_command

    root = get_command(app)
    seen = 0
    for page, (_, *words) in commands("duebook"):
        command = root
        while getattr(command, "commands", None):
            word = words.pop(0)
            assert word in command.commands, f"{page}: duebook has no {word}"  # type: ignore[attr-defined]
            command = command.commands[word]  # type: ignore[attr-defined]
        known = {option for parameter in command.params for option in parameter.opts + parameter.secondary_opts}
        given = {word.partition("=")[0] for word in words if word.startswith("-")}
        assert given <= known, f"{page}: {command.name} has no {given - known}"
        seen += 1
    assert seen > 20


def test_every_call_of_the_client_in_a_runbook_is_one_of_its_methods() -> None:
    from duebook_client import Duebook

    seen = [expression for _, (_, expression, *_) in commands("client")]
    assert seen
    for expression in seen:
        ast.parse(expression, mode="eval")
        for method in re.findall(r"\bclient\.(\w+)\(", expression):
            assert hasattr(Duebook, method), method


def logged() -> tuple[set[str], set[str]]:
    """The messages that handlers log, and the names of what goes with them."""
    messages, fields = set(), {"level", "location", "message", "timestamp", "exception", "exception_name"}
    for path in (SOURCE / "handlers").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("logger."):
                message = node.args[0]
                assert isinstance(message, ast.Constant)
                messages.add(str(message.value))
            if isinstance(node, ast.Dict):
                fields |= {str(key.value) for key in node.keys if isinstance(key, ast.Constant)}
    return messages, fields


def test_every_question_to_the_logs_in_a_runbook_asks_for_what_is_logged() -> None:
    messages, fields = logged()
    seen = 0
    for page, (_, query, *_) in commands("ask"):
        for message in re.findall(r'message (?:=|in \[)\s*((?:"[^"]+"(?:, )?)+)', query):
            for each in re.findall(r'"([^"]+)"', message):
                assert each in messages, f"{page}: nobody logs {each!r}"
        asked = re.findall(r"(?:fields|stats .* by) ([@\w, ]+)", query)
        names = {name.strip() for part in asked for name in part.split(",")}
        assert {name for name in names if not name.startswith("@")} <= fields, f"{page}: {names}"
        seen += 1
    assert seen > 10
