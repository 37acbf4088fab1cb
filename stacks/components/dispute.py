"""The dispute's state machine: `statemachines/dispute.asl.json`, waiting on behalf of one function."""

from aws_cdk import ArnFormat, CfnResource, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from stacks import ROOT
from stacks.components.findings import ANY_RESOURCE, accept, wildcard_in
from stacks.components.function import ServiceFunction, log_group
from stacks.environments import Environment

DEFINITION = ROOT / "statemachines" / "dispute.asl.json"


class DisputeMachine(Construct):
    """A Standard workflow that may invoke exactly one alias.

    It is retained and never renamed, because deleting a state machine ends its executions at their next transition
    (Step Functions, DeleteStateMachine), and a dispute that waits must outlive any deploy. Its log tells executions
    that failed, without their data: task tokens are in the parameters. Level ERROR would tell every silent chef too.
    """

    def __init__(self, scope: Construct, id: str, *, function: ServiceFunction, environment: Environment) -> None:
        super().__init__(scope, id)
        log = log_group(self, "Logs", environment=environment)
        self.machine = sfn.StateMachine(
            self,
            "Machine",
            comment=f"Duebook's disputes ({environment.name})",
            state_machine_type=sfn.StateMachineType.STANDARD,
            definition_body=sfn.DefinitionBody.from_string(DEFINITION.read_text(encoding="utf-8")),
            definition_substitutions={"DisputeFunction": function.alias.function_arn},
            tracing_enabled=True,
            logs=sfn.LogOptions(destination=log, level=sfn.LogLevel.FATAL, include_execution_data=False),
            removal_policy=RemovalPolicy.RETAIN,
        )
        # cfn-lint knows a timeout as a number only; in JSONata it is an expression (Step Functions guide, "JSONata").
        _template(self.machine).add_metadata("cfn-lint", {"config": {"ignore_checks": ["E3601"]}})
        self.machine.add_to_role_policy(
            iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[function.alias.function_arn])
        )
        # A policy of its own: in the role's default policy, which the function waits for, it would be a cycle.
        iam.Policy(self, "Answers", roles=[function.role], statements=[self.may_answer()])
        self.readers = self._readers()
        accept(self, ANY_RESOURCE, reason="X-Ray and the delivery of logs know no resource.")
        accept(self, "AwsSolutions-SF1", reason="Failed executions are logged; the rest is in the execution's history.")

    def may_start(self) -> iam.PolicyStatement:
        return iam.PolicyStatement(actions=["states:StartExecution"], resources=[self.machine.state_machine_arn])

    def may_answer(self) -> iam.PolicyStatement:
        """Complete a waiting state. The token decides which; only this machine's are taken."""
        return iam.PolicyStatement(actions=["states:SendTaskSuccess"], resources=[self.machine.state_machine_arn])

    def let_look(self, function: ServiceFunction, action: str) -> None:
        """Read about executions. `GetExecutionHistory` shows its caller every parameter, task tokens included."""
        executions = self._executions()
        function.allow(iam.PolicyStatement(actions=[f"states:{action}"], resources=[executions]))
        accept(function, wildcard_in(self, executions), reason="Any execution of this one machine.")

    def _readers(self) -> iam.ManagedPolicy:
        """For operators who follow a timeline's link into the console."""
        executions = self._executions()
        policy = iam.ManagedPolicy(
            self,
            "Readers",
            description="Reads executions of Duebook's disputes in the console. GetExecutionHistory reveals the "
            "parameters of every step, and so the task tokens: whoever also may call SendTaskSuccess can end a wait "
            "with one. What follows is still decided by the dispute's row.",
            statements=[
                iam.PolicyStatement(
                    actions=["states:DescribeStateMachine", "states:ListExecutions"],
                    resources=[self.machine.state_machine_arn],
                ),
                iam.PolicyStatement(
                    actions=["states:DescribeExecution", "states:GetExecutionHistory"], resources=[executions]
                ),
            ],
        )
        accept(policy, wildcard_in(self, executions), reason="Any execution of this one machine.")
        return policy

    def _executions(self) -> str:
        return Stack.of(self).format_arn(
            service="states",
            resource="execution",
            resource_name=f"{self.machine.state_machine_name}:*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )


def _template(machine: sfn.StateMachine) -> CfnResource:
    """The machine as it stands in the template."""
    resource = machine.node.default_child
    assert isinstance(resource, CfnResource)
    return resource
