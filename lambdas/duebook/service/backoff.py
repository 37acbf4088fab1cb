"""How long to wait after a failed round before the next one: doubled each time, and bounded."""

from datetime import timedelta

FIRST_BACKOFF = timedelta(minutes=5)
LONGEST_BACKOFF = timedelta(hours=2)


def backoff(failures: int) -> timedelta:
    """After the first failure 5 min, after the second 10, and so on up to 2 h."""
    doubled: int = 2 ** min(failures - 1, 10)
    return min(LONGEST_BACKOFF, FIRST_BACKOFF * doubled)
