"""What every handler shares: the logger, the metrics, and SQS batches that fail message by message."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aws_lambda_powertools.logging import Logger
from aws_lambda_powertools.metrics import Metrics, MetricUnit, single_metric

logger = Logger(service="duebook")
NAMESPACE = "Duebook"
# Its dimension `service` is the deployment, from POWERTOOLS_SERVICE_NAME: two of them in one account never mix.
metrics = Metrics(namespace=NAMESPACE)
# Most invocations count nothing, which is no reason for a warning in the log.
warnings.filterwarnings("ignore", message="No application metrics to publish")

Batch = dict[str, list[dict[str, str]]]


def each(
    records: Iterable[Mapping[str, Any]], identifier: Callable[[Mapping[str, Any]], str], act: Callable[[Any], None]
) -> Batch:
    """Act on each record; those that raised are named in the partial batch response, so that only they come again.

    A raise outside would bring the whole batch again, an empty list deletes all (Lambda, ReportBatchItemFailures).
    """
    failed = []
    for record in records:
        key = identifier(record)
        try:
            act(record)
        except Exception as error:
            logger.exception(
                "record failed", extra={"record": key, "code": getattr(error, "code", type(error).__name__)}
            )
            failed.append({"itemIdentifier": key})
    return {"batchItemFailures": failed}


def message_id(record: Mapping[str, Any]) -> str:
    """The identifier of an SQS record."""
    return str(record["messageId"])


def sequence_number(record: Mapping[str, Any]) -> str:
    """The identifier of a DynamoDB stream record."""
    return str(record["dynamodb"]["SequenceNumber"])


def source_of(record: Mapping[str, Any]) -> str:
    """`queue` or `sweep` as the sender says; the schedule itself says nothing."""
    attribute = record.get("messageAttributes", {}).get("source", {})
    return str(attribute.get("stringValue", "schedule"))


def count(name: str, value: float = 1, unit: MetricUnit = MetricUnit.Count, *, kind: str | None = None) -> None:
    """Emit a metric (EMF, in the log), with the dimension `service` and, where it is given, `kind`: no id, no person.

    A metric with a `kind` is a document of its own, for a dimension counts for all metrics of its document.
    """
    if kind is None:
        metrics.add_metric(name=name, unit=unit, value=value)
        return
    with single_metric(name=name, unit=unit, value=value, namespace=NAMESPACE, default_dimensions={"kind": kind}):
        pass
