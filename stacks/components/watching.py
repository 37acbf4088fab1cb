"""What is watched, question by question: which metric, from when on it is wrong, and whether that may wake somebody.

What a customer or a chef would notice pages: work that is late, money that is wrong, an API that fails. What may become
that is a ticket. The names and dimensions of AWS's metrics are documented by each service's guide; the table with the
sources is in `tests/infrastructure/test_monitoring.py`.
"""

from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn

from stacks.components.alarms import HOUR, MAXIMUM, MINUTE, MISSING, SAMPLES, SUM, Alarms, metric
from stacks.components.function import ServiceFunction
from stacks.components.functions import Functions
from stacks.components.lanes import WorkQueue
from stacks.data_stack import DataStack
from stacks.environments import Environment

LATE = 15 * MINUTE
"""A job is woken within two minutes by its schedule, within grace and sweep by the sweeper: later, both have failed."""
LONGEST_DELAY = 15 * MINUTE
"""What a message may be sent ahead of its time (SQS: DelaySeconds)."""
NEAR_TIMEOUT = 0.9
"""Sweeper and reconciler stop themselves at 87 % and 85 % of theirs, in order and by design."""
DAY = 24 * HOUR
ASKED_EVERY = 13
"""Hours in which each open payment has had an attempt (the longest pause is 12)."""


def lateness(alarms: Alarms, *, data: DataStack, environment: Environment) -> None:
    """Is anything late?"""
    sweep = environment.sweep_minutes * MINUTE
    alarms.watch(
        "overdue",
        alarms.own("OldestOverdueJob", statistic=MAXIMUM, period=5 * MINUTE),
        at_least=LATE,
        periods=2,
        of=3,
        page=True,
        why="A job is overdue by 15 minutes in two of three sweeps: neither its schedule nor the sweeper got it done. "
        "No data is no verdict here: sweeper-silent tells that.",
    )
    alarms.watch(
        "sweeper-silent",
        alarms.own("JobsSwept", statistic=SAMPLES, period=sweep),
        below=1,
        periods=3,
        missing=MISSING.BREACHING,
        page=True,
        why="Three runs of the sweeper without a sign of life: it tells a number at the end of each, also when that is "
        "0, so missing data is the fault. Nothing makes up for lost wake-ups now. In ALARM right after the first "
        "deployment, until its first run.",
    )
    alarms.watch(
        "wake-ups-left",
        alarms.own("WakeUpsLeft", statistic=SUM, period=5 * MINUTE),
        at_least=1,
        periods=3,
        of=4,
        why="For over ten minutes workers leave bookings alone that a newer release wrote. A deployment's few minutes "
        "are no fault; a worker that was rolled back is. Only what is left is told, so no data is good.",
    )
    for name, queue in _work_queues(data).items():
        alarms.watch(
            "queue-age",
            _queue(queue.queue, "ApproximateAgeOfOldestMessage", MAXIMUM),
            subject=name,
            at_least=LONGEST_DELAY + queue.work.deliveries * queue.work.visibility.to_seconds(),
            periods=2,
            of=2,
            page=name != "projection",
            why="A message is older than its delay and all its deliveries together may take: nobody works through the "
            "queue. An empty queue tells no age, so no data is good.",
        )


def people(alarms: Alarms) -> None:
    """Is anything stuck until a person acts?"""
    alarms.watch(
        "jobs-dead",
        alarms.own("JobsDead", statistic=SUM, period=5 * MINUTE),
        at_least=1,
        page=True,
        why="A job died: a permanent error, or a day of failing rounds. What it promised will not happen by itself. "
        "Only a death is told, so no data is good; attention.dead stays until it is redriven.",
    )
    alarms.watch(
        "poison-messages",
        alarms.own("PoisonMessages", statistic=SUM, period=5 * MINUTE),
        at_least=1,
        why="A message that is no wake-up reached a lane: somebody else writes to the queue, or a release is wrong. No "
        "job waits for it. Only such a message is told, so no data is good.",
    )
    for kind, many in (("dead", 1), ("needs_attention", 1)):
        alarms.watch(
            "attention",
            alarms.own("AttentionRows", statistic=MAXIMUM, period=15 * MINUTE, kind=kind),
            subject=kind,
            at_least=many,
            missing=MISSING.IGNORE,
            why="Rows wait for a person. A level, not an event: over only when none is left. The sweeper counts at "
            "each run; while it is silent the last word stands.",
        )
    for kind, days in (("dead", 1), ("needs_attention", 1), ("in_review", 2), ("held", 7)):
        alarms.watch(
            "attention-old",
            alarms.own("OldestAttention", statistic=MAXIMUM, period=15 * MINUTE, kind=kind),
            subject=kind,
            at_least=days * DAY,
            missing=MISSING.IGNORE,
            page=kind in ("dead", "needs_attention"),
            why="A row waits for a person for too long: a day for a dead job or a stuck payment; two for a dispute in "
            "review, which decides itself after three; a week for a held payout. While the sweeper is silent the last "
            "word stands.",
        )


def money(alarms: Alarms) -> None:
    """Is money moving, once?"""
    alarms.watch(
        "payment-unknown",
        alarms.own("UnknownPaymentAge", statistic=MAXIMUM, period=HOUR),
        at_least=DAY,
        periods=1,
        of=ASKED_EVERY,
        page=True,
        why="For over a day nobody knows whether a payment moved. Told at each attempt, and attempts are at most 12 h "
        "apart: one in the last 13 hours is enough. No attempt is no open payment, so no data is good.",
    )
    alarms.watch(
        "payment-mismatch",
        alarms.own("PaymentMismatch", statistic=SUM, period=5 * MINUTE),
        at_least=1,
        page=True,
        why="The provider has a payment of ours with another amount, currency or destination. Only that is told, so no "
        "data is good.",
    )
    alarms.watch(
        "ledger-differences",
        alarms.own("LedgerDifferences", statistic=SUM, period=HOUR),
        at_least=1,
        missing=MISSING.IGNORE,
        page=True,
        why="A closed day of the ledger differs from what the provider says. Told once for each closed day: between "
        "two the last word stands.",
    )
    alarms.watch(
        "ledger-not-closed",
        alarms.own("LedgerCloseFailed", statistic=SUM, period=HOUR),
        at_least=1,
        periods=1,
        of=25,
        why="The books of the last days could not be closed or compared. The next daily run tries again; a failure "
        "stays visible until then. Only a failure is told, so no data is good.",
    )


def schedules(alarms: Alarms, *, group: scheduler.IScheduleGroup, environment: Environment) -> None:
    """Do the schedules stand, and is there room for more?"""
    for name, subject, why in (
        ("TargetErrorCount", "target-errors", "A queue refused what Scheduler delivered: permissions or the queue."),
        ("InvocationDroppedCount", "dropped", "Scheduler gave up a delivery after all its retries."),
        ("InvocationThrottleCount", "throttled", "Scheduler delivers late: over 1,000 invocations a second."),
        (
            "InvocationsFailedToBeSentToDeadLetterCount",
            "dead-letter-lost",
            "Scheduler could not even leave a dead letter.",
        ),
    ):
        alarms.watch(
            "scheduler",
            metric(
                "AWS/Scheduler",
                name,
                {"ScheduleGroup": group.schedule_group_name},
                statistic=SUM,
                period=5 * MINUTE,
            ),
            subject=subject,
            at_least=1,
            why=f"{why} The sweeper makes up for it in minutes: a ticket. Scheduler tells only what is not zero, so no "
            "data is good.",
        )
    alarms.watch(
        "reconcile-differences",
        alarms.own("ReconcileDifferences", statistic=SUM, period=HOUR),
        at_least=1,
        missing=MISSING.IGNORE,
        why="The last reconcile pass found levels that differed, and repaired them: something lost them. Told once a "
        "pass, so between two the last word stands.",
    )
    alarms.watch(
        "reconcile-silent",
        alarms.own("ReconcileDifferences", statistic=SAMPLES, period=6 * HOUR),
        below=1,
        periods=5,
        missing=MISSING.BREACHING,
        why="No reconcile pass ended for 30 hours, and one is due every 24: missing data is the fault. In ALARM right "
        "after the first deployment, until the first pass.",
    )
    alarms.watch(
        "schedules-quota",
        alarms.own("Schedules", statistic=MAXIMUM, period=HOUR),
        at_least=environment.schedules_quota * 0.8,
        missing=MISSING.IGNORE,
        why=f"The group holds 80 % of {environment.schedules_quota} schedules, the account's quota. Counted by each "
        "reconcile pass, so between two the last word stands. Raising it takes days; at the quota the sweeper alone "
        "wakes what has no schedule.",
    )


def dead_letters(alarms: Alarms, *, data: DataStack) -> None:
    """Does anything lie where messages end?"""
    for name, lane in (("lifecycle", data.lifecycle), ("payments", data.payments)):
        alarms.watch(
            "dead-letters-unrecorded",
            _queue(lane.dead_letters, "ApproximateNumberOfMessagesVisible", MAXIMUM),
            subject=name,
            at_least=1,
            periods=3,
            page=True,
            why="The recorder leaves dead letters lying for 15 minutes: their jobs are neither retried nor dead. A "
            "queue that nobody used for hours tells nothing, and it is empty: the recorder would use it.",
        )
    for runbook, queue, why in (
        ("projection-dead-letters", data.projection.dead_letters, "A job's schedule could not be made to match."),
        ("events-dead-letters", data.events.default.dead_letters, "An event was not delivered, or not understood."),
        ("undelivered", data.undelivered, "Scheduler could not deliver a wake-up in a day; the sweeper did it since."),
        ("stream-failures", data.stream_failures, "A piece of the table's stream was skipped after six hours."),
        ("parked", data.parked, "A dead letter could not be recorded in a hundred tries."),
    ):
        alarms.watch(
            runbook,
            _queue(queue, "ApproximateNumberOfMessagesVisible", MAXIMUM),
            at_least=1,
            missing=MISSING.IGNORE,
            page=runbook == "events-dead-letters",
            why=f"{why} Nothing reads this queue but a person. After six hours untouched it tells nothing more, so "
            "the last word stands until somebody empties it.",
        )


def events(alarms: Alarms) -> None:
    """Does the marketplace hear of it?"""
    alarms.watch(
        "events-stuck",
        alarms.own("EventsStuck", statistic=SUM, period=5 * MINUTE),
        at_least=1,
        periods=3,
        of=4,
        page=True,
        why="In three sweeps the bus refused events again: the marketplace does not hear of them. Told at each sweep.",
    )


def disputes(alarms: Alarms, *, machine: sfn.StateMachine) -> None:
    """Are disputes answered?"""
    for name, subject in (("Failed", "failed"), ("TimedOut", "timed-out"), ("Aborted", "aborted")):
        alarms.watch(
            "executions",
            metric(
                "AWS/States",
                f"Executions{name}",
                {"StateMachineArn": machine.state_machine_arn},
                statistic=SUM,
                period=5 * MINUTE,
            ),
            subject=subject,
            at_least=1,
            why="A dispute's execution ended other than by its end. The dispute's row stands, and watch_dispute starts "
            "a new run at the next deadline: a ticket. Only an end is told, so no data is good.",
        )


def functions(alarms: Alarms, *, functions: Functions) -> None:
    """Do the functions work?"""
    for function in functions.each:
        timeout = function.function.timeout
        assert timeout is not None
        for runbook, name, statistic, threshold, why in (
            ("function-errors", "Errors", SUM, 1, "An invocation ended in an error or a time-out."),
            ("function-throttles", "Throttles", SUM, 1, "Invocations were refused for want of concurrency."),
            (
                "function-near-timeout",
                "Duration",
                MAXIMUM,
                NEAR_TIMEOUT * timeout.to_milliseconds(),
                f"An invocation took over 90 % of its {timeout.to_seconds():.0f} s.",
            ),
        ):
            alarms.watch(
                runbook,
                _function(function, name, statistic),
                subject=_name(function),
                at_least=threshold,
                why=f"{why} It is repeated by whatever invoked it, and what stays late pages by itself: a ticket. No "
                "invocation, no data: good.",
            )
        if function is not functions.reconciler:
            alarms.watch(
                "recursion-stopped",
                _function(function, "RecursiveInvocationsDropped", SUM),
                subject=_name(function),
                at_least=1,
                page=True,
                why="Lambda took a chain of wake-ups for a loop and dropped one without a trace. No data is good. The "
                "reconciler may go on by itself and is not watched.",
            )
    for function in (functions.projector, functions.publisher):
        alarms.watch(
            "stream-lag",
            _function(function, "IteratorAge", MAXIMUM),
            subject=_name(function),
            at_least=15 * MINUTE * 1000,
            periods=3,
            page=True,
            why="The table's stream is read 15 minutes late or more: schedules or events fall behind, and after 24 "
            "hours records are lost. No record, no data: good.",
        )


def callers(alarms: Alarms, *, api: apigateway.HttpApi, webhook: ServiceFunction | None) -> None:
    """Do customers of the API notice?"""
    alarms.watch(
        "api-errors",
        metric("AWS/ApiGateway", "5xx", {"ApiId": api.api_id}, statistic=SUM, period=5 * MINUTE),
        at_least=5,
        periods=2,
        of=3,
        page=True,
        why="Five answers of 5xx in five minutes, twice in a quarter of an hour: more than a retry hides. No call, no "
        "data: good.",
    )
    if webhook is None:
        return
    alarms.watch(
        "webhooks-refused",
        alarms.own("WebhooksRefused", statistic=SUM, period=15 * MINUTE),
        at_least=10,
        periods=2,
        why="Ten requests to Stripe's webhook were refused in each of two quarters of an hour: the signing secret is "
        "wrong, or somebody is trying. Only refusals are told, so no data is good.",
    )
    alarms.watch(
        "webhook-events-refused",
        alarms.own("WebhookEventsRefused", statistic=SUM, period=5 * MINUTE),
        at_least=1,
        why="Stripe told of money that the booking does not allow for. It sends it again for three days. Only that is "
        "told, so no data is good.",
    )


def _work_queues(data: DataStack) -> dict[str, WorkQueue]:
    return {
        "lifecycle": data.lifecycle,
        "payments": data.payments,
        "projection": data.projection,
        "events": data.events.default,
    }


def _queue(queue: sqs.IQueue, name: str, statistic: str) -> cloudwatch.Metric:
    return metric("AWS/SQS", name, {"QueueName": queue.queue_name}, statistic=statistic, period=5 * MINUTE)


def _function(function: ServiceFunction, name: str, statistic: str) -> cloudwatch.Metric:
    """Of all its versions: what a function does under any alias."""
    return metric(
        "AWS/Lambda",
        name,
        {"FunctionName": function.function.function_name},
        statistic=statistic,
        period=5 * MINUTE,
    )


def _name(function: ServiceFunction) -> str:
    """`StripeWebhook` is `stripe-webhook`."""
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in function.node.id).lstrip("-")
