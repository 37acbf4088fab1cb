"""What the command's exit codes mean. Scripts rely on them: a number is never given another meaning."""

from enum import IntEnum

from duebook_cli.connect import NotChosen, NotFoundThere
from duebook_client import (
    BadArgument,
    Conflict,
    DuebookError,
    Forbidden,
    NoCredentials,
    NotFound,
    Throttled,
    Unavailable,
)


class Exit(IntEnum):
    OK = 0
    """Done, or it was so already."""
    FAILED = 1
    """Refused, or it failed in another way than those below. Nothing was changed, unless the message says so."""
    USAGE = 2
    """The command was not understood, nothing was selected (also: no Duebook was chosen, and none runs here), or nobody
    confirmed it. Nothing was sent."""
    NOT_FOUND = 3
    """There is no such booking, job, dispute or payment."""
    CONFLICT = 4
    """The state of the booking (or dispute) does not allow it."""
    PARTLY = 5
    """Some of many were done and others were not; which ones is told. The same command again goes on."""
    NOT_ALLOWED = 6
    """No AWS credentials, expired ones, or ones that may not do this."""
    NOT_REACHED = 7
    """The Duebook that was chosen did not answer, or throttled or failed again and again. The same command again is
    safe."""
    INTERRUPTED = 130
    """Ctrl-C. What was done so far is kept; the same command again goes on."""


class Usage(DuebookError):
    """The command makes no sense as it was given. The message says what to give."""


class Declined(DuebookError):
    """A person was asked, and did not confirm."""


class Failed(DuebookError):
    """It was not done. The message says why, and what to do."""


def exit_of(error: DuebookError) -> Exit:
    """The exit code for an error."""
    match error:
        case Usage() | Declined() | BadArgument() | NotChosen():
            return Exit.USAGE
        case NotFound():
            return Exit.NOT_FOUND
        case Conflict():
            return Exit.CONFLICT
        case NoCredentials() | Forbidden():
            return Exit.NOT_ALLOWED
        case NotFoundThere() | Throttled() | Unavailable():
            return Exit.NOT_REACHED
        case _:
            return Exit.FAILED


def exit_of_many(done: int, errors: list[DuebookError]) -> Exit:
    """The exit code when several things were to be done and some raised: one that failed alone keeps its own code."""
    if not errors:
        return Exit.OK
    if done:
        return Exit.PARTLY
    codes = {exit_of(error) for error in errors}
    return codes.pop() if len(codes) == 1 else Exit.FAILED
