"""What goes wrong on demand: each fault hits one request."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class Trouble(StrEnum):
    """What the caller meets, and whether the money has moved by then."""

    TIME_OUT_BEFORE = "time_out_before"
    """No effect, and no answer before the caller gives up."""
    TIME_OUT_AFTER = "time_out_after"
    """It took effect and was saved; no answer before the caller gives up."""
    RESET_BEFORE = "reset_before"
    """No effect; the connection is reset."""
    RESET_AFTER = "reset_after"
    """It took effect and was saved; the connection is reset."""
    ERROR_BEFORE = "error_before"
    """No effect; a 500 that is saved under the key."""
    ERROR_AFTER = "error_after"
    """It took effect; the answer is a 500, and that is what is saved under the key."""
    UNAVAILABLE = "unavailable"
    """No effect; a 503 from before the idempotency layer, so nothing is saved."""
    RATE_LIMIT = "rate_limit"
    """No effect; a 429 from before the idempotency layer, so nothing is saved."""
    SLOW = "slow"
    """It takes `by` and is then answered."""
    REFUSED = "refused"
    """A definite 400, saved under the key."""
    CARD = "card"
    """A definite 402, saved under the key."""
    KEY_REFUSED = "key_refused"
    """A 401, whatever the API key; nothing is saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """`on`: only for requests whose `METHOD /path` starts so. `by`: how slow. `lag`: what this request makes shows in
    lists only after that, whatever else is set."""

    trouble: Trouble
    on: str = "POST "
    by: timedelta = timedelta()
    lag: timedelta | None = None
