"""The functions of the service: what each may do, what it is told, and what starts it."""

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct, IConstruct

from stacks.components.dispute import DisputeMachine
from stacks.components.function import ServiceFunction
from stacks.components.lanes import LIFECYCLE, PAYMENTS, PROJECTION, RECORDING, may_send
from stacks.components.scheduling import Scheduling
from stacks.components.secrets import may_read_secret
from stacks.components.sources import consume_queue, follow_table
from stacks.components.storage import ATTENTION, DAY, DUE
from stacks.data_stack import DataStack
from stacks.environments import Environment

_COMMIT = ("GetItem", "PutItem", "UpdateItem", "DeleteItem")
"""A consistent read, then one transaction of these writes. None of them is a bare condition check."""


class Functions(Construct):
    """All functions, each with a role of its own that can do exactly what its handler does."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        data: DataStack,
        scheduling: Scheduling,
        code: lambda_.Code,
        environment: Environment,
    ) -> None:
        super().__init__(scope, id)
        self._data = data
        self._scheduling = scheduling
        self._code = code
        self._environment = environment
        self._queues = {
            "LIFECYCLE_QUEUE_URL": data.lifecycle.queue.queue_url,
            "PAYMENTS_QUEUE_URL": data.payments.queue.queue_url,
            "PROJECTION_QUEUE_URL": data.projection.queue.queue_url,
        }
        self._schedules = {
            "LIFECYCLE_QUEUE_ARN": data.lifecycle.queue.queue_arn,
            "PAYMENTS_QUEUE_ARN": data.payments.queue.queue_arn,
            "SCHEDULE_DLQ_ARN": scheduling.dead_letters.queue_arn,
            "SCHEDULE_GROUP": scheduling.group.schedule_group_name,
            "SCHEDULE_ROLE_ARN": scheduling.role.role_arn,
        }
        self.dispute = self._dispute()
        self.machine = DisputeMachine(self, "Dispute", function=self.dispute, environment=environment)
        self._workflow = {"DISPUTE_MACHINE_ARN": self.machine.machine.state_machine_arn}
        self.reconciler = self._reconciler()
        self.api = self._api(self.reconciler)
        self.lifecycle_worker = self._lifecycle_worker()
        self.payments_worker = self._payments_worker()
        self.projector = self._projector()
        self.publisher = self._publisher()
        self.recorder = self._recorder()
        self.sweeper = self._sweeper()
        self.stripe_webhook = self._stripe_webhook() if environment.stripe_webhook_secret else None
        self._open_the_doors_last()

    @property
    def each(self) -> list[ServiceFunction]:
        """Every function, in the order they are made."""
        return [child for child in self.node.children if isinstance(child, ServiceFunction)]

    def _open_the_doors_last(self) -> None:
        """What callers reach is deployed after everything that works on what it writes: no request that new code took
        meets a worker, a workflow or a projector that never heard of it. Nothing behind waits for a door, or CDK would
        report the cycle."""
        doors = [door for door in (self.api, self.stripe_webhook) if door is not None]
        behind: list[IConstruct] = [self.machine.machine]
        for child in self.node.children:
            if isinstance(child, ServiceFunction) and child not in doors:
                behind.append(child.alias)
            elif isinstance(child, lambda_.CfnEventSourceMapping):
                behind.append(child)
        for door in doors:
            door.go_live_after(*behind)

    def _api(self, reconciler: ServiceFunction) -> ServiceFunction:
        function = self._function(
            "Api",
            handler="api",
            timeout=29,
            settings={
                "PAYMENTS": self._environment.payments,
                "POLICY": self._environment.policy,
                "RECONCILER_FUNCTION": reconciler.alias.function_arn,
                **self._workflow,
            },
        )
        function.allow(
            self.machine.may_answer(),
            self._data.storage.may(*_COMMIT, "Query"),
            self._data.storage.may_on_index("Query"),
            _may_invoke(reconciler.alias),
        )
        self.machine.let_look(function, "GetExecutionHistory")
        return function

    def _lifecycle_worker(self) -> ServiceFunction:
        function = self._function(
            "LifecycleWorker",
            handler="lifecycle_worker",
            timeout=LIFECYCLE.timeout,
            settings={**self._queues, **self._workflow},
        )
        function.allow(
            self.machine.may_answer(),
            self._data.storage.may(*_COMMIT),
            may_send(self._data.lifecycle.queue, self._data.projection.queue),
        )
        self.machine.let_look(function, "DescribeExecution")
        consume_queue(
            self,
            "LifecycleWakeUps",
            function=function,
            queue=self._data.lifecycle.queue,
            batch=LIFECYCLE.batch,
            concurrency=self._environment.lifecycle_concurrency,
        )
        return function

    def _payments_worker(self) -> ServiceFunction:
        function = self._function(
            "PaymentsWorker",
            handler="payments_worker",
            timeout=PAYMENTS.timeout,
            settings={**self._queues, "PAYMENTS": self._environment.payments},
        )
        self._let_call_stripe(function)
        function.allow(
            self._data.storage.may(*_COMMIT, "ConditionCheckItem"),
            may_send(self._data.payments.queue, self._data.projection.queue),
        )
        if self._environment.payments == "ledger":
            function.allow(self._data.storage.may("Query"))
        consume_queue(
            self,
            "PaymentsWakeUps",
            function=function,
            queue=self._data.payments.queue,
            batch=PAYMENTS.batch,
            concurrency=self._environment.payments_concurrency,
        )
        return function

    def _projector(self) -> ServiceFunction:
        function = self._function(
            "Projector",
            handler="projector",
            timeout=PROJECTION.timeout,
            settings={**self._queues, **self._schedules, **self._workflow},
        )
        function.allow(
            self.machine.may_start(),
            self._data.storage.may("GetItem"),
            may_send(self._data.lifecycle.queue, self._data.payments.queue, self._data.projection.queue),
        )
        self._scheduling.let_write(function)
        follow_table(
            self,
            "JobChanges",
            function=function,
            table=self._data.storage,
            failures=self._data.stream_failures,
            rows="job#",
        )
        consume_queue(
            self,
            "ProjectionRetries",
            function=function,
            queue=self._data.projection.queue,
            batch=PROJECTION.batch,
        )
        return function

    def _dispute(self) -> ServiceFunction:
        """Called by the state machine alone; the machine's construct lets it complete waiting states."""
        function = self._function("DisputeSteps", handler="dispute", timeout=30, settings={})
        function.allow(self._data.storage.may(*_COMMIT, "ConditionCheckItem"))
        return function

    def _publisher(self) -> ServiceFunction:
        function = self._function(
            "Publisher",
            handler="publisher",
            timeout=30,
            settings={"BUS_NAME": self._data.events.bus.event_bus_name},
        )
        function.allow(self._data.storage.may("UpdateItem"), self._data.events.may_publish())
        follow_table(
            self,
            "HistoryRows",
            function=function,
            table=self._data.storage,
            failures=self._data.stream_failures,
            rows="history#",
            now={"attention_pk": "outbox#"},
        )
        return function

    def _recorder(self) -> ServiceFunction:
        function = self._function("Recorder", handler="recorder", timeout=RECORDING.timeout, settings={})
        function.allow(self._data.storage.may("GetItem", "UpdateItem", "PutItem"))
        for name, lane in (("Lifecycle", self._data.lifecycle), ("Payments", self._data.payments)):
            consume_queue(self, f"{name}DeadLetters", function=function, queue=lane.dead_letters, batch=RECORDING.batch)
        return function

    def _sweeper(self) -> ServiceFunction:
        function = self._function(
            "Sweeper",
            handler="sweeper",
            timeout=60,
            settings={**self._queues, "BUS_NAME": self._data.events.bus.event_bus_name},
        )
        function.allow(
            self._data.storage.may("GetItem", "UpdateItem", "PutItem"),
            self._data.storage.may_on_index("Query", indexes=[DUE, ATTENTION]),
            may_send(self._data.lifecycle.queue, self._data.payments.queue),
            self._data.events.may_publish(),
        )
        minutes = Duration.minutes(self._environment.sweep_minutes)
        events.Rule(
            self,
            "SweepRule",
            description="The second wake-up: work whose schedule was lost.",
            schedule=events.Schedule.rate(minutes),
            targets=[targets.LambdaFunction(function.alias, retry_attempts=0, max_event_age=minutes)],
        )
        return function

    def _reconciler(self) -> ServiceFunction:
        """It goes on by invoking itself, up to the rounds that its service counts, and so may call itself."""
        function = self._function(
            "Reconciler",
            handler="reconciler",
            timeout=300,
            calls_itself=True,
            settings={**self._queues, **self._schedules, "PAYMENTS": self._environment.payments},
        )
        self._let_call_stripe(function)
        function.allow(
            self._data.storage.may(*_COMMIT, "Query", "Scan"),
            self._data.storage.may_on_index("Scan", indexes=[DUE]),
            self._data.storage.may_on_index("Query", indexes=[DAY]),
            may_send(self._data.projection.queue),
        )
        self._scheduling.let_compare(function)
        # A policy of its own: in the role's default policy, which the function waits for, it would be a cycle.
        iam.Policy(self, "ReconcilerContinues", roles=[function.role], statements=[_may_invoke(function.alias)])
        events.Rule(
            self,
            "ReconcileRule",
            description="Once a day: compares bookings, jobs and schedules, closes the ledger's day.",
            schedule=events.Schedule.cron(hour="3", minute="17"),
            targets=[targets.LambdaFunction(function.alias)],
        )
        return function

    def _stripe_webhook(self) -> ServiceFunction:
        """The one function that anybody can call: it reads its own secret alone, and no index. It is called for less
        than the 30 s after which the gateway gives up."""
        assert self._environment.stripe_webhook_secret is not None
        function = self._function(
            "StripeWebhook",
            handler="stripe_webhook",
            timeout=20,
            settings={"STRIPE_WEBHOOK_SECRET_ARN": self._environment.stripe_webhook_secret},
        )
        function.allow(self._data.storage.may(*_COMMIT), may_read_secret(self, self._environment.stripe_webhook_secret))
        return function

    def _let_call_stripe(self, function: ServiceFunction) -> None:
        """Tell a function which secret holds Stripe's API key, and let it read that."""
        if self._environment.stripe_secret is not None:
            function.tell("STRIPE_SECRET_ARN", self._environment.stripe_secret)
            function.allow(may_read_secret(self, self._environment.stripe_secret))
        if self._environment.stripe_api_base is not None:
            function.tell("STRIPE_API_BASE", self._environment.stripe_api_base)

    def _function(
        self, id: str, *, handler: str, timeout: int, settings: dict[str, str], calls_itself: bool = False
    ) -> ServiceFunction:
        return ServiceFunction(
            self,
            id,
            handler=handler,
            code=self._code,
            environment=self._environment,
            timeout=timeout,
            calls_itself=calls_itself,
            settings={"TABLE_NAME": self._data.storage.table.table_name, **settings},
        )


def _may_invoke(alias: lambda_.Alias) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[alias.function_arn])
