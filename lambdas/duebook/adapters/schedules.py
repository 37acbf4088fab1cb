"""EventBridge Scheduler behind the `Schedules` port.

Sources: the Scheduler API reference and user guide. `UpdateSchedule` replaces everything: what is left out becomes its
default (ActionAfterCompletion NONE, no dead-letter queue, group `default`), so one function builds every request.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from duebook.domain.errors import AwsFailure, Permanent, QuotaExceeded, ScheduleConflict, Throttled
from duebook.service.ports import ScheduleRequest, WakeUp

T = TypeVar("T")

MOST_RETRIES = 185
LONGEST_RETRY_SECONDS = 86_400
"""Scheduler's own upper bounds: it tries for a day, then the message goes to its dead-letter queue."""
_NAME = re.compile(r"[0-9a-zA-Z-_.]{1,64}")
_AT = "at(%Y-%m-%dT%H:%M:%S)"
_ERRORS: Mapping[str, type[AwsFailure]] = {
    "ConflictException": ScheduleConflict,
    "ThrottlingException": Throttled,
    "TooManyRequestsException": Throttled,
    "ServiceQuotaExceededException": QuotaExceeded,
}


class EventBridgeSchedules:
    """One schedule group. `queue_arns`: lane → the ARN of its queue."""

    def __init__(self, client: Any, group: str, role_arn: str, dlq_arn: str, queue_arns: Mapping[str, str]) -> None:
        self._client = client
        self._group = group
        self._role_arn = role_arn
        self._dlq_arn = dlq_arn
        self._queue_arns = queue_arns

    def create(self, request: ScheduleRequest) -> bool:
        try:
            self._call(lambda: self._client.create_schedule(**self._parameters(request)))
        except ScheduleConflict:
            return False
        return True

    def replace(self, request: ScheduleRequest) -> bool:
        return self._found(lambda: self._client.update_schedule(**self._parameters(request))) is not None

    def delete(self, name: str) -> bool:
        return self._found(lambda: self._client.delete_schedule(Name=name, GroupName=self._group)) is not None

    def get(self, name: str) -> ScheduleRequest | None:
        answer = self._found(lambda: self._client.get_schedule(Name=name, GroupName=self._group))
        if answer is None:
            return None
        lanes = {arn: lane for lane, arn in self._queue_arns.items()}
        try:
            wanted = json.loads(answer["Target"]["Input"])
            wake_up = WakeUp(booking_id=wanted["booking_id"], job=wanted["job"], generation=wanted["generation"])
            at = datetime.strptime(answer["ScheduleExpression"], _AT).replace(tzinfo=UTC)
        except (ValueError, KeyError, TypeError):
            wake_up, at = WakeUp(booking_id="", job="", generation=-1), datetime.min.replace(tzinfo=UTC)
        return ScheduleRequest(name=name, at=at, lane=lanes.get(answer["Target"]["Arn"], ""), wake_up=wake_up)

    def names(self, after: str | None) -> tuple[Sequence[str], str | None]:
        more = {"NextToken": after} if after else {}
        answer = self._call(lambda: self._client.list_schedules(GroupName=self._group, MaxResults=100, **more))
        return [schedule["Name"] for schedule in answer["Schedules"]], answer.get("NextToken")

    def _parameters(self, request: ScheduleRequest) -> dict[str, Any]:
        """Every field, for create and update alike. Raises ValueError for what AWS would refuse or read otherwise."""
        if not _NAME.fullmatch(request.name):
            raise ValueError(f"{request.name!r} is no schedule name: 1 to 64 of 0-9 a-z A-Z - _ .")
        if request.at.tzinfo is None or request.at.second or request.at.microsecond:
            raise ValueError(f"{request.at} is not an aware whole minute")
        wake_up = request.wake_up
        body = {"booking_id": wake_up.booking_id, "job": wake_up.job, "generation": wake_up.generation}
        return {
            "Name": request.name,
            "GroupName": self._group,
            "ScheduleExpression": request.at.astimezone(UTC).strftime(_AT),
            "ScheduleExpressionTimezone": "UTC",
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "ActionAfterCompletion": "DELETE",
            "State": "ENABLED",
            "Target": {
                "Arn": self._queue_arns[request.lane],
                "RoleArn": self._role_arn,
                "Input": json.dumps(body, separators=(",", ":")),
                "RetryPolicy": {
                    "MaximumRetryAttempts": MOST_RETRIES,
                    "MaximumEventAgeInSeconds": LONGEST_RETRY_SECONDS,
                },
                "DeadLetterConfig": {"Arn": self._dlq_arn},
            },
        }

    def _found(self, call: Callable[[], T]) -> T | None:
        try:
            return self._call(call)
        except _Missing:
            return None

    def _call(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code == "ResourceNotFoundException":
                raise _Missing(aws_code=code) from error
            if code == "ValidationException":
                raise Permanent(f"Scheduler refuses the request: {error.response['Error']['Message']}") from error
            raise _ERRORS.get(code, AwsFailure)(f"Scheduler answered {code}", aws_code=code) from error


class _Missing(AwsFailure):
    """There is no such schedule, or no such group."""

    code = "schedule_missing"
