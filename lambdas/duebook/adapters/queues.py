"""The lanes' SQS queues and the projection queue."""

import json
import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from botocore.exceptions import ClientError

from duebook.domain.errors import AwsFailure, Throttled
from duebook.service.ports import WakeUp

LONGEST_DELAY = 900
"""SQS SendMessage: DelaySeconds is 0 to 900."""


class SqsQueues:
    """`lane_urls`: lane → the URL of its queue."""

    def __init__(self, client: Any, lane_urls: Mapping[str, str], projection_url: str) -> None:
        self._client = client
        self._lane_urls = lane_urls
        self._projection_url = projection_url

    def wake(self, lane: str, wake_up: WakeUp, *, source: str, delay: timedelta = timedelta()) -> None:
        body = {"booking_id": wake_up.booking_id, "job": wake_up.job, "generation": wake_up.generation}
        seconds = min(LONGEST_DELAY, math.ceil(max(delay, timedelta()).total_seconds()))
        attributes = {"source": {"DataType": "String", "StringValue": source}}
        self._send(self._lane_urls[lane], body, DelaySeconds=seconds, MessageAttributes=attributes)

    def project(self, booking_id: str, job: str) -> None:
        self._send(self._projection_url, {"booking_id": booking_id, "job": job})

    def _send(self, url: str, body: Mapping[str, Any], **more: Any) -> None:
        try:
            self._client.send_message(QueueUrl=url, MessageBody=json.dumps(body, separators=(",", ":")), **more)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            kind = Throttled if "Throttl" in code else AwsFailure
            raise kind(f"SQS answered {code}", aws_code=code) from error
