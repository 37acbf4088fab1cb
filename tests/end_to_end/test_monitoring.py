"""A fault is told where its alarm looks: the functions' own metrics, on the deployed alarms, to the deployed topic.

Only an account proves that CloudWatch reads the embedded metric format, what it does with missing data, and that the
topic's policy lets it in (asserted on the template).
"""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from local.world import World

POISON_FAILS_WITHIN = timedelta(hours=1)
"""Five deliveries, each hidden for six times the function's time-out."""

SETTLED_WITHIN = timedelta(minutes=35)
"""More than two periods of an alarm and a sweep: what other tests left dead or redrove is counted as it is now."""

Hear = Callable[[], list[tuple[str, str]]]


@pytest.fixture
def hear(world: World) -> Iterator[Hear]:
    """Everything that the alarms' topic tells from now on: (alarm, its new state)."""
    session = world.aws.session()
    sqs: Any = session.client("sqs")
    sns: Any = session.client("sns")
    url = sqs.create_queue(QueueName="heard-alarms")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    topic = world.outputs["AlarmTopicArn"]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": letting_in(topic, arn)})
    subscription = sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    heard: list[tuple[str, str]] = []

    def hear() -> list[tuple[str, str]]:
        while found := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            for message in found:
                told = json.loads(json.loads(message["Body"])["Message"])
                heard.append((told["AlarmName"].removeprefix("duebook-local-"), told["NewStateValue"]))
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return heard

    yield hear
    sns.unsubscribe(SubscriptionArn=subscription["SubscriptionArn"])
    sqs.delete_queue(QueueUrl=url)


def test_a_poisoned_message_raises_the_alarms_on_its_metrics_and_the_topic_tells_them(world: World, hear: Hear) -> None:
    world.reach(world.now() + SETTLED_WITHIN)
    poisoned, waiting = sum(values(world, "poison-messages")), values(world, "attention.dead")[-1]
    world.send("Lifecycle", "this is no JSON")
    world.reach(world.now() + POISON_FAILS_WITHIN)
    assert sum(values(world, "poison-messages")) == poisoned + 1
    assert values(world, "attention.dead")[-1] == waiting + 1
    assert alarm(world, "attention.dead")["StateValue"] == "ALARM"
    assert {("poison-messages", "ALARM"), ("attention.dead", "ALARM")} <= set(hear())


def test_the_sweeper_gives_a_sign_of_life_where_its_silence_would_be_noticed(world: World) -> None:
    world.reach(world.now() + timedelta(minutes=5))
    assert values(world, "sweeper-silent")[-1] >= 1
    assert values(world, "overdue")
    assert values(world, "attention-old.needs_attention")


def test_no_metric_of_the_service_has_another_dimension_than_its_deployment_and_a_kind(world: World) -> None:
    cloudwatch: Any = world.aws.session().client("cloudwatch")
    found = [each for page in cloudwatch.get_paginator("list_metrics").paginate() for each in page["Metrics"]]
    own = [{each["Name"]: each["Value"] for each in metric["Dimensions"]} for metric in found if is_own(metric)]
    assert own
    assert {dimensions["service"] for dimensions in own} == {"duebook-local"}
    kinds = {dimensions["kind"] for dimensions in own if set(dimensions) != {"service"}}
    assert kinds <= {"dead", "needs_attention", "in_review", "held"}


def letting_in(topic: str, queue: str) -> str:
    """The policy of a queue that a topic may send to."""
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": queue,
        "Condition": {"ArnEquals": {"aws:SourceArn": topic}},
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def is_own(metric: dict[str, Any]) -> bool:
    return bool(metric["Namespace"] == "Duebook")


def alarm(world: World, name: str) -> dict[str, Any]:
    """A deployed alarm by its name without the deployment's."""
    cloudwatch: Any = world.aws.session().client("cloudwatch")
    [found] = cloudwatch.describe_alarms(AlarmNames=[f"duebook-local-{name}"])["MetricAlarms"]
    return dict(found)


def values(world: World, name: str) -> list[float]:
    """What the metric that an alarm looks at, with its statistic and exactly its dimensions, showed in half a day."""
    watched = alarm(world, name)
    cloudwatch: Any = world.aws.session().client("cloudwatch")
    points = cloudwatch.get_metric_statistics(
        Namespace=watched["Namespace"],
        MetricName=watched["MetricName"],
        Dimensions=watched["Dimensions"],
        Statistics=[watched["Statistic"]],
        Period=watched["Period"],
        StartTime=world.now() - timedelta(hours=12),
        EndTime=world.now() + timedelta(minutes=15),
    )["Datapoints"]
    return [point[watched["Statistic"]] for point in sorted(points, key=lambda point: point["Timestamp"])]
