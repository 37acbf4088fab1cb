"""What calls people: alarms, the topic that they go to, and a dashboard."""

from aws_cdk import CfnOutput, IStackSynthesizer, Stack
from constructs import Construct

from stacks.app_stack import AppStack
from stacks.components import watching
from stacks.components.alarms import Alarms
from stacks.components.dashboard import ServiceDashboard
from stacks.data_stack import DataStack
from stacks.environments import Environment


class MonitoringStack(Stack):
    """Holds no state. What leaves the app or the data stack has to leave here first: its alarms import its name."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        environment: Environment,
        data: DataStack,
        service: AppStack,
        synthesizer: IStackSynthesizer,
        termination_protection: bool,
    ) -> None:
        super().__init__(
            scope,
            id,
            description=f"Duebook ({environment.name}): alarms, dashboard",
            synthesizer=synthesizer,
            termination_protection=termination_protection,
        )
        alarms = Alarms(self, "Alarms", environment=environment)
        watching.lateness(alarms, data=data, environment=environment)
        watching.people(alarms)
        watching.money(alarms)
        watching.schedules(alarms, group=service.scheduling.group, environment=environment)
        watching.dead_letters(alarms, data=data)
        watching.events(alarms)
        watching.disputes(alarms, machine=service.functions.machine.machine)
        watching.functions(alarms, functions=service.functions)
        watching.callers(alarms, api=service.http.api, webhook=service.functions.stripe_webhook)
        dashboard = ServiceDashboard(
            self, "Dashboard", environment=environment, data=data, service=service, alarms=alarms
        )
        CfnOutput(self, "AlarmTopicArn", value=alarms.topic.topic_arn)
        CfnOutput(self, "DashboardName", value=dashboard.dashboard.dashboard_name)
