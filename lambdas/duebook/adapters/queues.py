"""The lanes' SQS queues and the projection queue."""

import json
import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from duebook.adapters import aws
from duebook.domain.errors import AwsFailure, Throttled
from duebook.service.ports import WakeUp

LONGEST_DELAY = 900
"""SQS SendMessage: DelaySeconds is 0 to 900."""
_KINDS: Mapping[str, type[AwsFailure]] = {
    "RequestThrottled": Throttled,
    "ThrottlingException": Throttled,
    "KmsThrottled": Throttled,
    "OverLimit": Throttled,
}


def project_body(booking_id: str, job: str) -> str:
    return json.dumps({"booking_id": booking_id, "job": job}, separators=(",", ":"))


def source_attribute(source: str) -> dict[str, Any]:
    """Who sent it, beside the body: a schedule itself can add no attribute."""
    return {"source": {"DataType": "String", "StringValue": source}}


def delay_seconds(delay: timedelta) -> int:
    """Whole seconds, rounded up: never early. Raises ValueError outside 0 to 15 min."""
    seconds = math.ceil(delay.total_seconds())
    if delay < timedelta() or seconds > LONGEST_DELAY:
        raise ValueError(f"a message can wait 0 to {LONGEST_DELAY} s, not {delay}")
    return seconds


class SqsQueues:
    """`lane_urls`: lane → the URL of its queue. Raises `Throttled` or `AwsFailure`."""

    def __init__(self, client: Any, lane_urls: Mapping[str, str], projection_url: str) -> None:
        self._client = client
        self._lane_urls = lane_urls
        self._projection_url = projection_url

    def wake(self, lane: str, wake_up: WakeUp, *, source: str, delay: timedelta = timedelta()) -> None:
        attributes = source_attribute(source)
        url, seconds = self._lane_urls[lane], delay_seconds(delay)
        self._send(url, wake_up.body, DelaySeconds=seconds, MessageAttributes=attributes)

    def project(self, booking_id: str, job: str) -> None:
        self._send(self._projection_url, project_body(booking_id, job))

    def _send(self, url: str, body: str, **more: Any) -> None:
        aws.call("SQS", _KINDS, lambda: self._client.send_message(QueueUrl=url, MessageBody=body, **more))
