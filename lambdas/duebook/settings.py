"""What a function is told by its environment. Read at the first use, never at import."""

import os

from duebook.domain.errors import DuebookError


class MissingSetting(DuebookError):
    """An environment variable that the function needs is not set."""

    code = "missing_setting"


def setting(name: str) -> str:
    """The value of an environment variable. Raises `MissingSetting` naming it."""
    value = os.environ.get(name)
    if not value:
        raise MissingSetting(f"the environment variable {name} is not set; stacks/ sets it for each function")
    return value
