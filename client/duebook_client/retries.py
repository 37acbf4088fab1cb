"""When a request is sent again: a decision with its reason, made from values alone."""

from dataclasses import dataclass

TRANSIENT = frozenset({429, 502, 503, 504})
"""Statuses that say nothing about the request itself."""
VERSION_CONFLICT = "version_conflict"
"""The one 409 that may pass on another try: others changed the booking at the same time, again and again."""


@dataclass(frozen=True, slots=True)
class Again:
    """Send it again `after` seconds."""

    after: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """At most `attempts` sends; waits between 0 and `first` × 2^n seconds, `longest` at most (full jitter)."""

    attempts: int = 4
    first: float = 0.2
    longest: float = 5.0

    def decide(
        self,
        *,
        attempt: int,
        repeatable: bool,
        jitter: float,
        status: int | None = None,
        code: str | None = None,
        retry_after: float | None = None,
    ) -> Again | None:
        """Whether to send again after the `attempt`-th send (from 1) failed; None: give up.

        `status` None: the connection failed or timed out. `repeatable`: the request may take effect twice without harm
        (GET, PUT and DELETE; POST with an Idempotency-Key). `jitter`: 0 to 1. `retry_after`: what the service asked
        for in seconds, honoured up to `longest`.
        """
        if attempt >= self.attempts or not repeatable:
            return None
        if status is None:
            reason = "no answer"
        elif status in TRANSIENT:
            reason = f"status {status}"
        elif status == 409 and code == VERSION_CONFLICT:
            reason = VERSION_CONFLICT
        else:
            return None
        wait = min(self.longest, self.first * 2.0 ** min(attempt - 1, 30)) * jitter
        return Again(max(wait, min(retry_after or 0.0, self.longest)), reason)
