"""`make smoke` on the embedded AWS, by a caller who may do what its own policy says and nothing more."""

import json
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from duebook_cli.connect import Connection, connect
from duebook_client import Duebook
from local.emulator import REGION
from local.world import World
from smoke import permissions, probes
from smoke.__main__ import main, smoke
from smoke.deployment import Deployment


@pytest.fixture(scope="module")
def deployment(world: World) -> Iterator[Deployment]:
    """Paid by the marketplace, as an account's default is, and called by a user with the least policy."""
    with connect("local", port=world.aws.port) as connection, world.paying("external"):
        policy = permissions.policy(Deployment(connection))
        iam: Any = connection.session.client("iam")
        iam.create_user(UserName="smoke")
        iam.put_user_policy(UserName="smoke", PolicyName="smoke", PolicyDocument=json.dumps(policy))
        key = iam.create_access_key(UserName="smoke")["AccessKey"]
        session = world.aws.session(access_key=key["AccessKeyId"], secret_key=key["SecretAccessKey"])
        client = Duebook(connection.url, region=REGION, session=session)
        as_user: Connection = replace(connection, session=session, client=client)
        yield Deployment(as_user)
        client.close()
        iam.delete_access_key(UserName="smoke", AccessKeyId=key["AccessKeyId"])
        iam.delete_user_policy(UserName="smoke", PolicyName="smoke")
        iam.delete_user(UserName="smoke")


@pytest.fixture(scope="module")
def told(deployment: Deployment) -> tuple[bool, str]:
    page = StringIO()
    holds = smoke(deployment, Console(file=page, width=400))
    return holds, page.getvalue()


def test_every_story_holds(told: tuple[bool, str]) -> None:
    holds, text = told
    assert holds, text
    assert "7 of 7 stories hold" in text
    assert "partly" not in text


def test_every_open_question_is_answered_beside_what_the_design_assumes(told: tuple[bool, str]) -> None:
    _, text = told
    for probe in (probes.NEW_ROLE, *probes.PROBES):
        assert probe.fact in text
        assert probe.assumes in text
    assert "could not be asked" not in text, text
    assert "every field came back as it was sent" in text


def test_it_leaves_nothing_behind_but_the_history_of_its_bookings(
    world: World, deployment: Deployment, told: tuple[bool, str]
) -> None:
    aws: Any = world.aws.session().client
    assert told[0]
    assert not [name for name in world.schedules() if deployment.name in name]
    assert not [q for q in aws("sqs").list_queues().get("QueueUrls", []) if deployment.prefix in q]
    assert not [g for g in aws("scheduler").list_schedule_groups()["ScheduleGroups"] if deployment.name in g["Name"]]
    assert not [role for role in aws("iam").list_roles()["Roles"] if deployment.name in role["RoleName"]]
    bus = deployment.outputs["BusName"]
    assert not [r for r in aws("events").list_rules(EventBusName=bus)["Rules"] if deployment.name in r["Name"]]
    assert [world.client.jobs(booking_id) for booking_id in deployment.bookings] == [[]] * len(deployment.bookings)


@pytest.mark.parametrize("arguments", [["--env", "prod"], ["--env", "prod", "--confirm", "yes"], ["--env", "staging"]])
def test_another_environment_than_dev_is_left_alone_until_its_name_is_said_again(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert f"CONFIRM={arguments[1]}" in capsys.readouterr().err
