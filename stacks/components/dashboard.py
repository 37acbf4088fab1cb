"""The dashboard: one page, laid out by the questions that people ask."""

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from stacks.app_stack import AppStack
from stacks.components.alarms import HOUR, MAXIMUM, MINUTE, SUM, Alarms, metric
from stacks.data_stack import DataStack
from stacks.environments import Environment

FULL, HALF, THIRD = 24, 12, 8


class ServiceDashboard(Construct):
    """`duebook-<environment>` in CloudWatch. What alarms is shown with everything beside it that explains it."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        environment: Environment,
        data: DataStack,
        service: AppStack,
        alarms: Alarms,
    ) -> None:
        super().__init__(scope, id)
        self._alarms = alarms
        self._data = data
        self._service = service
        self.dashboard = cloudwatch.Dashboard(
            self, "Dashboard", dashboard_name=environment.service, default_interval=Duration.hours(12)
        )
        self.dashboard.add_widgets(
            cloudwatch.AlarmStatusWidget(title="Alarms (runbooks: docs/runbooks)", alarms=alarms.all, width=FULL)
        )
        self._ask("Is anything late?", self._late())
        self._ask("Is anything stuck?", self._stuck())
        self._ask("Is money moving, once?", self._money())
        self._ask("Are disputes answered?", self._disputes())
        self._ask("Do customers of the API notice?", self._callers())
        self._ask("What does it cost, and how much is scheduled?", self._usage())

    def _ask(self, question: str, answers: Sequence[cloudwatch.IWidget]) -> None:
        self.dashboard.add_widgets(cloudwatch.TextWidget(markdown=f"# {question}", width=FULL, height=1))
        self.dashboard.add_widgets(*answers)

    def _late(self) -> list[cloudwatch.IWidget]:
        queues = [self._data.lifecycle, self._data.payments, self._data.projection, self._data.events.default]
        group = {"ScheduleGroup": self._service.scheduling.group.schedule_group_name}
        return [
            _graph("Oldest overdue job, s", self._own("OldestOverdueJob", MAXIMUM), width=THIRD),
            _graph(
                "Oldest message, s",
                *(self._queue(queue.queue.queue_name, "ApproximateAgeOfOldestMessage", MAXIMUM) for queue in queues),
                width=THIRD,
            ),
            _graph(
                "Made up by the sweeper",
                self._own("JobsSwept", SUM),
                self._own("EventsRepublished", SUM),
                self._own("ProjectionsPutOff", SUM),
                width=THIRD,
            ),
            _graph(
                "Scheduler",
                *(
                    metric("AWS/Scheduler", name, group, statistic=SUM, period=5 * MINUTE)
                    for name in (
                        "InvocationAttemptCount",
                        "TargetErrorCount",
                        "InvocationDroppedCount",
                        "InvocationThrottleCount",
                    )
                ),
            ),
            _graph(
                "Stream, ms behind",
                *(
                    self._function(function.function.function_name, "IteratorAge", MAXIMUM)
                    for function in (self._service.functions.projector, self._service.functions.publisher)
                ),
            ),
        ]

    def _stuck(self) -> list[cloudwatch.IWidget]:
        kinds = ("dead", "needs_attention", "held")
        ends = [
            self._data.projection.dead_letters,
            self._data.events.default.dead_letters,
            self._data.lifecycle.dead_letters,
            self._data.payments.dead_letters,
            self._data.undelivered,
            self._data.stream_failures,
            self._data.parked,
        ]
        return [
            _graph("Rows that wait for a person", *(self._own("AttentionRows", MAXIMUM, kind=k) for k in kinds)),
            _graph("The oldest of them, s", *(self._own("OldestAttention", MAXIMUM, kind=k) for k in kinds)),
            _graph(
                "Rounds that failed",
                *(
                    self._own(name, SUM)
                    for name in ("JobsRetried", "JobsDead", "PoisonMessages", "DeadLettersIgnored", "EventsStuck")
                ),
            ),
            _graph(
                "Messages where messages end",
                *(self._queue(queue.queue_name, "ApproximateNumberOfMessagesVisible", MAXIMUM) for queue in ends),
            ),
        ]

    def _money(self) -> list[cloudwatch.IWidget]:
        return [
            _graph("Longest unknown payment, s", self._own("UnknownPaymentAge", MAXIMUM), width=THIRD),
            _graph(
                "Differences",
                self._own("PaymentMismatch", SUM),
                self._own("LedgerDifferences", SUM),
                self._own("LedgerCloseFailed", SUM),
                width=THIRD,
            ),
            _graph(
                "Calls of the payments worker",
                *(
                    self._function(self._service.functions.payments_worker.function.function_name, name, SUM)
                    for name in ("Invocations", "Errors")
                ),
                width=THIRD,
            ),
        ]

    def _disputes(self) -> list[cloudwatch.IWidget]:
        machine = {"StateMachineArn": self._service.functions.machine.machine.state_machine_arn}
        return [
            _graph(
                "Executions",
                *(
                    metric("AWS/States", f"Executions{name}", machine, statistic=SUM, period=5 * MINUTE)
                    for name in ("Started", "Succeeded", "Failed", "TimedOut", "Aborted")
                ),
                width=THIRD,
            ),
            _graph("In review", self._own("AttentionRows", MAXIMUM, kind="in_review"), width=THIRD),
            _graph("Oldest in review, s", self._own("OldestAttention", MAXIMUM, kind="in_review"), width=THIRD),
        ]

    def _callers(self) -> list[cloudwatch.IWidget]:
        api = {"ApiId": self._service.http.api.api_id}
        return [
            _graph(
                "Answers",
                *(
                    metric("AWS/ApiGateway", name, api, statistic=SUM, period=5 * MINUTE)
                    for name in ("Count", "4xx", "5xx")
                ),
                width=THIRD,
            ),
            _graph(
                "Latency, ms",
                *(
                    metric("AWS/ApiGateway", "Latency", api, statistic=percentile, period=5 * MINUTE)
                    for percentile in ("p50", "p95", "p99")
                ),
                width=THIRD,
            ),
            _graph(
                "Throttled functions",
                *(
                    self._function(function.function.function_name, "Throttles", SUM)
                    for function in self._service.functions.each
                ),
                width=THIRD,
            ),
        ]

    def _usage(self) -> list[cloudwatch.IWidget]:
        table = {"TableName": self._data.storage.table.table_name}
        return [
            _graph(
                "Schedules that stand (each reconcile pass)", self._own("Schedules", MAXIMUM, period=HOUR), width=THIRD
            ),
            _graph(
                "Invocations an hour",
                *(
                    self._function(function.function.function_name, "Invocations", SUM, period=HOUR)
                    for function in self._service.functions.each
                ),
                width=THIRD,
            ),
            _graph(
                "Table, units an hour",
                *(
                    metric("AWS/DynamoDB", name, table, statistic=SUM, period=HOUR)
                    for name in ("ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits")
                ),
                width=THIRD,
            ),
        ]

    def _own(
        self, name: str, statistic: str, *, kind: str | None = None, period: int = 5 * MINUTE
    ) -> cloudwatch.Metric:
        return self._alarms.own(name, statistic=statistic, period=period, kind=kind)

    @staticmethod
    def _queue(queue: str, name: str, statistic: str) -> cloudwatch.Metric:
        return metric("AWS/SQS", name, {"QueueName": queue}, statistic=statistic, period=5 * MINUTE)

    @staticmethod
    def _function(function: str, name: str, statistic: str, *, period: int = 5 * MINUTE) -> cloudwatch.Metric:
        return metric("AWS/Lambda", name, {"FunctionName": function}, statistic=statistic, period=period)


def _graph(title: str, *metrics: cloudwatch.Metric, width: int = HALF) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(
        title=title, left=list(metrics), width=width, left_y_axis=cloudwatch.YAxisProps(min=0)
    )
