"""EventBridge Scheduler behind the `Schedules` port.

Sources: the Scheduler API reference and user guide. `UpdateSchedule` replaces everything: what is left out becomes its
default (ActionAfterCompletion NONE, no dead-letter queue, group `default`), so one function builds every request.
"""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from duebook.adapters import aws
from duebook.domain.errors import AwsFailure, QuotaExceeded, ScheduleConflict, Throttled
from duebook.service.ports import ScheduleRequest, WakeUp

T = TypeVar("T")

MOST_RETRIES = 185
LONGEST_RETRY_SECONDS = 86_400
"""Scheduler's own upper bounds: it tries for a day, then the message goes to its dead-letter queue."""
ROLE_PAUSES = (0.5, 2.0)
"""Seconds to wait after a refusal that may be of a role too new to be known; each is waited once in a process."""
_NAME = re.compile(r"[0-9a-zA-Z_.-]{1,64}")
_AT = "at(%Y-%m-%dT%H:%M:%S)"
_NOT_OURS = -1
"""The generation of a schedule that is not what one function would build: it equals no job's."""


class _Missing(AwsFailure):
    """There is no such schedule, or no such group."""

    code = "schedule_missing"


class _Refused(AwsFailure):
    """Scheduler does not take the request, or cannot assume the role yet."""

    code = "schedule_refused"


_KINDS: Mapping[str, type[AwsFailure]] = {
    "ConflictException": ScheduleConflict,
    "ResourceNotFoundException": _Missing,
    "ServiceQuotaExceededException": QuotaExceeded,
    "ThrottlingException": Throttled,
    "TooManyRequestsException": Throttled,
    "ValidationException": _Refused,
}


def check_request(request: ScheduleRequest) -> None:
    """Raises ValueError for what AWS would refuse, or read otherwise than it is meant.

    A name has 1 to 64 of `[0-9a-zA-Z-_.]`, which the SDK does not check. `at` takes no offset, and seconds may fire
    early within their minute (undocumented), so an instant is an aware whole minute.
    """
    if not _NAME.fullmatch(request.name):
        raise ValueError(f"{request.name!r} is no schedule name: 1 to 64 of 0-9 a-z A-Z - _ .")
    if request.at.utcoffset() is None or request.at.second or request.at.microsecond:
        raise ValueError(f"{request.at} is not an aware whole minute")


class EventBridgeSchedules:
    """One schedule group. `queue_arns`: lane → the ARN of its queue. `sleep` in seconds.

    A role made seconds ago may be refused once (ValidationException): that is tried again, but only so often in a
    process that a request which is really wrong cannot hold up a batch.
    """

    def __init__(
        self,
        client: Any,
        group: str,
        role_arn: str,
        dlq_arn: str,
        queue_arns: Mapping[str, str],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._group = group
        self._role_arn = role_arn
        self._dlq_arn = dlq_arn
        self._queue_arns = queue_arns
        self._sleep = sleep
        self._pauses = list(ROLE_PAUSES)

    def create(self, request: ScheduleRequest) -> bool:
        parameters = self._parameters(request)
        try:
            self._patiently(lambda: self._client.create_schedule(**parameters))
        except ScheduleConflict:
            return False
        return True

    def replace(self, request: ScheduleRequest) -> bool:
        parameters = self._parameters(request)
        return self._found(lambda: self._patiently(lambda: self._client.update_schedule(**parameters))) is not None

    def delete(self, name: str) -> bool:
        return self._found(lambda: self._call(lambda: self._client.delete_schedule(**self._named(name)))) is not None

    def get(self, name: str) -> ScheduleRequest | None:
        """A schedule of which any field is not what it should be has generation -1, so that it equals no request."""
        answer = self._found(lambda: self._call(lambda: self._client.get_schedule(**self._named(name))))
        if answer is None:
            return None
        lanes = {arn: lane for lane, arn in self._queue_arns.items()}
        try:
            wanted = json.loads(answer["Target"]["Input"])
            found = ScheduleRequest(
                name=name,
                at=datetime.strptime(answer["ScheduleExpression"], _AT).replace(tzinfo=UTC),
                lane=lanes[answer["Target"]["Arn"]],
                wake_up=WakeUp(booking_id=wanted["booking_id"], job=wanted["job"], generation=wanted["generation"]),
            )
            if _holds(answer, self._parameters(found)):
                return found
        except (ValueError, KeyError, TypeError):
            pass
        wake_up = WakeUp(booking_id="", job="", generation=_NOT_OURS)
        return ScheduleRequest(name=name, at=datetime.min.replace(tzinfo=UTC), lane="", wake_up=wake_up)

    def names(self, after: str | None) -> tuple[Sequence[str], str | None]:
        more = {"NextToken": after} if after else {}
        answer = self._call(lambda: self._client.list_schedules(GroupName=self._group, MaxResults=100, **more))
        return [schedule["Name"] for schedule in answer["Schedules"]], answer.get("NextToken")

    def _named(self, name: str) -> dict[str, str]:
        return {"Name": name, "GroupName": self._group}

    def _parameters(self, request: ScheduleRequest) -> dict[str, Any]:
        """Every field, for create and update alike. Raises as `check_request` does."""
        check_request(request)
        return {
            **self._named(request.name),
            "ScheduleExpression": request.at.astimezone(UTC).strftime(_AT),
            "ScheduleExpressionTimezone": "UTC",
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "ActionAfterCompletion": "DELETE",
            "State": "ENABLED",
            "Target": {
                "Arn": self._queue_arns[request.lane],
                "RoleArn": self._role_arn,
                "Input": request.wake_up.body,
                "RetryPolicy": {
                    "MaximumRetryAttempts": MOST_RETRIES,
                    "MaximumEventAgeInSeconds": LONGEST_RETRY_SECONDS,
                },
                "DeadLetterConfig": {"Arn": self._dlq_arn},
            },
        }

    def _patiently(self, request: Callable[[], T]) -> T:
        while True:
            try:
                return self._call(request)
            except _Refused:
                if not self._pauses:
                    raise
                self._sleep(self._pauses.pop(0))

    def _found(self, request: Callable[[], T]) -> T | None:
        try:
            return request()
        except _Missing:
            return None

    def _call(self, request: Callable[[], T]) -> T:
        return aws.call("Scheduler", _KINDS, request)


def _holds(answer: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether every wanted field is so; AWS's answer has others besides."""
    return all(
        _holds(answer.get(name, {}), value) if isinstance(value, Mapping) else answer.get(name) == value
        for name, value in wanted.items()
    )
