"""What a smoke test may do at the least: the policy for whoever runs it."""

from typing import Any

from smoke.deployment import Deployment


def policy(deployment: Deployment) -> dict[str, Any]:
    """An IAM policy for one environment. What is made is named `duebook-<env>-smoke-*`, and no other thing of that
    kind can be touched.

    Whoever may make a role and give it a policy could give it more than it needs: grant `iam:CreateRole` with a
    condition on `iam:PermissionsBoundary` where that matters, and run with BOUNDARY=.
    """
    d = deployment
    env, place = d.connection.env, f"{d.region}:{d.account}"
    ours = f"duebook-{env}-smoke-*"

    def arn(service: str, resource: str, where: str = place) -> str:
        return f"arn:{d.partition}:{service}:{where}:{resource}"

    group = d.outputs["ScheduleGroup"]
    bus = d.outputs["BusName"]
    allowed: list[tuple[list[str], list[str]]] = [
        (["cloudformation:DescribeStacks"], [arn("cloudformation", f"stack/Duebook-{env}-*/*")]),
        (["execute-api:Invoke"], [arn("execute-api", f"{d.outputs['ApiId']}/*")]),
        (["scheduler:GetSchedule"], [arn("scheduler", f"schedule/{group}/*"), arn("scheduler", f"schedule/{ours}/*")]),
        (
            [f"scheduler:{verb}Schedule" for verb in ("Create", "Delete", "Update")],
            [arn("scheduler", f"schedule/{ours}/*")],
        ),
        (
            ["scheduler:CreateScheduleGroup", "scheduler:DeleteScheduleGroup"],
            [arn("scheduler", f"schedule-group/{ours}")],
        ),
        (
            [f"iam:{verb}" for verb in ("CreateRole", "DeleteRole", "PutRolePolicy", "DeleteRolePolicy", "PassRole")],
            [arn("iam", f"role/{ours}", f":{d.account}")],
        ),
        (
            [
                f"sqs:{verb}"
                for verb in (
                    *("CreateQueue", "DeleteQueue", "SetQueueAttributes", "GetQueueAttributes"),
                    *("ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility"),
                )
            ],
            [arn("sqs", ours)],
        ),
        (
            [f"events:{verb}" for verb in ("PutRule", "DeleteRule", "PutTargets", "RemoveTargets")],
            [arn("events", f"rule/{bus}/{ours}")],
        ),
        (["servicequotas:ListServiceQuotas"], ["*"]),
    ]
    return {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": actions, "Resource": resources} for actions, resources in allowed],
    }
