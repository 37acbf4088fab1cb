"""What went wrong, in plain words, and what to do about it."""

from dataclasses import dataclass

from duebook_cli.connect import Connection, NotFoundThere, TimeIsReal, caller
from duebook_client import (
    BadAnswer,
    BadArgument,
    Conflict,
    DuebookApiError,
    DuebookError,
    Forbidden,
    Invalid,
    NoCredentials,
    NotFound,
    NotManaged,
    Throttled,
    Unavailable,
)

_SIGN_IN = (
    "Sign in again (aws sso login) and reload this page. Keys that were in the console's environment stay as they were "
    "when it started: start it again with new ones."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """`status`: of the page that is only this problem. `detail`: as the service or AWS said it."""

    title: str
    what_to_do: str
    detail: str
    status: int


def problem_of(error: Exception, connection: Connection) -> Problem:
    """Of any error that a page can meet. For a refusal AWS is asked who we are: it knows expired credentials."""
    detail = str(error)
    match error:
        case NoCredentials():
            return Problem(title="There are no valid AWS credentials", what_to_do=_SIGN_IN, detail=detail, status=401)
        case Forbidden():
            return _forbidden(detail, connection)
        case NotManaged():
            return Problem(
                title="Duebook does not manage this booking",
                what_to_do="It only holds jobs of your own: look at those.",
                detail=detail,
                status=404,
            )
        case NotFound():
            return Problem(
                title="There is no such thing here",
                what_to_do="Check the id, and that this is the environment you mean: it is named at the top.",
                detail=detail,
                status=404,
            )
        case Conflict():
            return Problem(
                title="It was refused, and nothing was changed",
                what_to_do="Look at the booking as it is now: someone, or time, was quicker.",
                detail=detail,
                status=409,
            )
        case BadArgument() | Invalid():
            return Problem(
                title="This was not understood, and nothing was done",
                what_to_do="Check what was entered.",
                detail=detail,
                status=400,
            )
        case Throttled():
            return Problem(
                title="Too many calls at once",
                what_to_do="Wait a moment and reload this page.",
                detail=detail,
                status=503,
            )
        case Unavailable():
            return Problem(
                title="Duebook did not answer, or failed",
                what_to_do=(
                    "Reload this page: reading changes nothing. An action can be sent again too, from the same page: "
                    "it takes effect once. If it goes on, look at the API function's log."
                    + (" Is the embedded AWS still running?" if connection.clock is not None else "")
                ),
                detail=detail,
                status=502,
            )
        case BadAnswer():
            return Problem(
                title="Duebook's answer was not understood",
                what_to_do="Console and service are of different versions: bring both to the same one.",
                detail=detail,
                status=502,
            )
        case TimeIsReal() | NotFoundThere():
            return Problem(title="It cannot be done here", what_to_do=f"{error}.", detail=detail, status=409)
        case DuebookApiError() | DuebookError():
            return Problem(title="It failed", what_to_do="Reload this page.", detail=detail, status=502)
        case OSError() | TimeoutError():
            return Problem(
                title="The embedded AWS does not answer, or is not done",
                what_to_do="Look whether it still runs (make local), and reload this page.",
                detail=detail,
                status=502,
            )
        case _:
            return Problem(
                title="The console itself failed",
                what_to_do="Reload this page; the terminal it was started in tells more.",
                detail=type(error).__name__,
                status=500,
            )


def _forbidden(detail: str, connection: Connection) -> Problem:
    try:
        who = caller(connection.session)
    except NoCredentials as expired:
        return Problem(title="Your AWS credentials are not valid", what_to_do=_SIGN_IN, detail=str(expired), status=401)
    return Problem(
        title="These credentials may not do this",
        what_to_do=(
            f"You are {who}. Attach the managed policy of this group of routes, an output of the stack "
            "(SchedulesPolicyArn, BookingsPolicyArn, DisputesPolicyArn, PaymentsPolicyArn, OperationsPolicyArn), or "
            "sign in as someone who may."
        ),
        detail=detail,
        status=403,
    )
