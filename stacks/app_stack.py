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
        self.scheduling = Scheduling(
            self,
            "Scheduling",
            name=environment.service,
            targets=[data.lifecycle.queue, data.payments.queue],
            dead_letters=data.undelivered,
        )
        self.functions = Functions(
            self,
            "Functions",
            data=data,
            scheduling=self.scheduling,
            code=service_code(self, environment=environment),
            environment=environment,
        )
        self.http = ServiceApi(
            self, "Http", function=self.functions.api, environment=environment, webhook=self.functions.stripe_webhook
        )
        outputs = {
            "ApiId": self.http.api.api_id,
            "ApiUrl": self.http.api.api_endpoint,
            "DisputeExecutionsPolicyArn": self.functions.machine.readers.managed_policy_arn,
            "DisputeMachineArn": self.functions.machine.machine.state_machine_arn,
            "ScheduleGroup": self.scheduling.group.schedule_group_name,
            **{
                f"{group.capitalize()}PolicyArn": policy.managed_policy_arn
                for group, policy in self.http.policies.items()
            },
        }
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)
