"""What runs: the functions, what wakes them, and the API in front of them."""

from aws_cdk import CfnOutput, IStackSynthesizer, Stack
from constructs import Construct

from stacks.bundling import service_code
from stacks.components.api import ServiceApi
from stacks.components.functions import Functions
from stacks.components.scheduling import Scheduling
from stacks.data_stack import DataStack
from stacks.environments import Environment


class AppStack(Stack):
    """Replaceable: all its state is in the data stack, and schedules are projected from there."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        environment: Environment,
        data: DataStack,
        synthesizer: IStackSynthesizer,
        termination_protection: bool,
    ) -> None:
        super().__init__(
            scope,
            id,
            description=f"Duebook ({environment.name}): functions, schedules, API",
            synthesizer=synthesizer,
            termination_protection=termination_protection,
        )
        scheduling = Scheduling(
            self,
            "Scheduling",
            name=f"duebook-{environment.name}",
            targets=[data.lifecycle.queue, data.payments.queue],
            dead_letters=data.undelivered,
        )
        functions = Functions(
            self,
            "Functions",
            data=data,
            scheduling=scheduling,
            code=service_code(self, environment=environment),
            environment=environment,
        )
        http = ServiceApi(
            self, "Http", function=functions.api, environment=environment, webhook=functions.stripe_webhook
        )
        outputs = {
            "ApiId": http.api.api_id,
            "ApiUrl": http.api.api_endpoint,
            "DisputeExecutionsPolicyArn": functions.machine.readers.managed_policy_arn,
            "DisputeMachineArn": functions.machine.machine.state_machine_arn,
            "ScheduleGroup": scheduling.group.schedule_group_name,
            **{f"{group.capitalize()}PolicyArn": policy.managed_policy_arn for group, policy in http.policies.items()},
        }
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)
