"""Every error of the client, with one root. What botocore raises about the event queue stays botocore's."""


class DuebookError(Exception):
    """Something went wrong between this program and Duebook."""


class BadArgument(DuebookError, ValueError):
    """The call is wrong, found before anything was sent. `field` names the argument."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


class NoCredentials(DuebookError):
    """The session has no AWS credentials to sign with, or could not refresh them."""


class BadAnswer(DuebookError):
    """The answer has not the shape that the contract promises."""


class BadEvent(DuebookError):
    """A message is no event of Duebook, or one of a schema this client does not know."""


class DuebookApiError(DuebookError):
    """The service refused, failed or did not answer.

    `status`: the HTTP status, None when nothing was answered; `code`: machine-readable; `field`: what is wrong in the
    request; `state`: the booking's, where that is the reason; `attempts`: how often the request was sent.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int | None = None,
        field: str | None = None,
        state: str | None = None,
        attempts: int = 1,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.field = field
        self.state = state
        self.attempts = attempts

    def __str__(self) -> str:
        where = "".join(f", {name} {value}" for name, value in (("field", self.field), ("state", self.state)) if value)
        return f"{self.message} ({self.status or 'no answer'} {self.code}{where})"


class Invalid(DuebookApiError):
    """400, 413, 415, 422: the request itself is wrong; `field` says where. The same again fails again."""


class Forbidden(DuebookApiError):
    """401, 403: the credentials are not valid, or may not call this route."""


class NotFound(DuebookApiError):
    """404: there is no such booking, job or payment."""


class NotManaged(NotFound):
    """The id only holds own jobs: it has no lifecycle to show. Its jobs and history can be read."""


class Conflict(DuebookApiError):
    """409: the booking's `state`, or a revision already seen, does not allow it."""


class Throttled(DuebookApiError):
    """429, still after the retries."""


class Unavailable(DuebookApiError):
    """5xx, or no answer at all, still after the retries. Whether the request took effect is not known; repeating the
    same call with the same `idempotency_key` is safe."""


def error_class(status: int) -> type[DuebookApiError]:
    """The class for an HTTP status of 400 or more."""
    match status:
        case 400 | 413 | 415 | 422:
            return Invalid
        case 401 | 403:
            return Forbidden
        case 404:
            return NotFound
        case 409:
            return Conflict
        case 429:
            return Throttled
    return Unavailable if status >= 500 else DuebookApiError
