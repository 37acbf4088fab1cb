"""What becomes of everything that holds state when its stack goes, or when it leaves the template: decided, each."""

import pytest

from tests.infrastructure.template import Synthesized

WHEN_DELETED = {
    # type: in an environment that is not kept, in one that is
    "AWS::DynamoDB::Table": ("Delete", "Retain"),  # the truth
    "AWS::Events::EventBus": ("Delete", "RetainExceptOnCreate"),  # others may have rules on it
    "AWS::Logs::LogGroup": ("Delete", "Retain"),  # who did what
    "AWS::SQS::Queue": ("Delete", "RetainExceptOnCreate"),  # events not yet read, dead letters
    "AWS::Scheduler::ScheduleGroup": ("Delete", "Delete"),  # a projection of the rows: reconcile makes it again
    "AWS::StepFunctions::StateMachine": ("Retain", "Retain"),  # deleting it ends the disputes that wait
}
HOLDS_NOTHING = {
    "AWS::ApiGatewayV2::Api",
    "AWS::ApiGatewayV2::Integration",
    "AWS::ApiGatewayV2::Route",
    "AWS::ApiGatewayV2::Stage",
    "AWS::CDK::Metadata",
    "AWS::CloudWatch::Alarm",
    "AWS::CloudWatch::CompositeAlarm",
    "AWS::CloudWatch::Dashboard",
    "AWS::Events::Rule",
    "AWS::IAM::ManagedPolicy",
    "AWS::IAM::Policy",
    "AWS::IAM::Role",
    "AWS::Lambda::Alias",
    "AWS::Lambda::EventSourceMapping",
    "AWS::Lambda::Function",
    "AWS::Lambda::Permission",
    "AWS::Lambda::Version",
    "AWS::SNS::Subscription",
    "AWS::SNS::Topic",
    "AWS::SNS::TopicPolicy",
    "AWS::SQS::QueuePolicy",
}
"""Types that a later deployment makes again as they were. Secrets are the deployer's own: the stacks only name them."""


def test_every_type_of_resource_is_known_to_hold_state_or_not(everywhere: Synthesized) -> None:
    used = {resource["Type"] for template in everywhere.templates for resource in template.body["Resources"].values()}
    assert used - WHEN_DELETED.keys() - HOLDS_NOTHING == set()


@pytest.mark.parametrize("kind", WHEN_DELETED)
def test_what_holds_state_is_kept_or_deleted_as_its_environment_says(everywhere: Synthesized, kind: str) -> None:
    wanted = WHEN_DELETED[kind][everywhere.environment.keep]
    found = everywhere.of_type(kind)
    assert found
    assert {name: resource.get("DeletionPolicy", "Delete") for name, resource in found.items()} == dict.fromkeys(
        found, wanted
    )


@pytest.mark.parametrize("kind", WHEN_DELETED)
def test_what_is_kept_is_kept_too_when_an_update_replaces_it(everywhere: Synthesized, kind: str) -> None:
    wanted = "Delete" if WHEN_DELETED[kind][everywhere.environment.keep] == "Delete" else "Retain"
    replaced = {resource.get("UpdateReplacePolicy", "Delete") for resource in everywhere.of_type(kind).values()}
    assert replaced == {wanted}
