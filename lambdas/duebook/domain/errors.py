"""Every error of Duebook, with one root. A class's docstring is its message where none is given."""

from typing import Any


class DuebookError(Exception):
    """Something went wrong."""

    code = "error"

    def __init__(self, message: str = "", **details: Any) -> None:
        super().__init__(message or (self.__class__.__doc__ or "").strip().splitlines()[0])
        self.details = details


class InvalidRequest(DuebookError):
    """The request is not valid. `details` has `field`; `code` is machine-readable."""

    def __init__(self, code: str, field: str, message: str, **details: Any) -> None:
        super().__init__(message, field=field, **details)
        self.code = code


class NotFound(DuebookError):
    """There is no such thing."""

    code = "not_found"


class Refused(DuebookError):
    """The booking's state does not allow it. `details` has the current `state`."""

    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(message, **details)
        self.code = code


class VersionConflict(DuebookError):
    """Someone else changed the booking at the same time, again and again; try once more."""

    code = "version_conflict"


class NewerRow(DuebookError):
    """A newer release of Duebook wrote this: it waits for code that can read it."""

    code = "newer_row"


class Permanent(DuebookError):
    """Trying again cannot help; a person has to look."""

    code = "permanent"


class ConditionFailed(DuebookError):
    """A condition of the write did not hold. `details` has `failed`: the positions of those writes."""

    code = "condition_failed"


class AwsFailure(DuebookError):
    """AWS answered with an error. `details` has its `aws_code`."""

    code = "aws_failure"


class Throttled(AwsFailure):
    """AWS asks to slow down."""

    code = "throttled"


class Contention(AwsFailure):
    """Another transaction holds the same rows."""

    code = "contention"


class ScheduleConflict(AwsFailure):
    """The schedule is being changed at this moment."""

    code = "schedule_conflict"


class QuotaExceeded(AwsFailure):
    """The account's quota of schedules is used up."""

    code = "quota_exceeded"
