"""Stripe's signed events: authentic, recent and readable, or refused."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol

import stripe

from duebook.domain.errors import InvalidRequest

TOLERANCE = timedelta(minutes=5)
"""How old a signature may be, against replays (docs.stripe.com/webhooks, "Preventing replay attacks")."""
REFRESH_EVERY = timedelta(minutes=1)
"""Anybody can send a bad signature, so no more than one in this time makes the secret be read again."""


class Secret(Protocol):
    """Where the signing secret is."""

    def value(self) -> str:
        """As last read."""

    def fresh(self) -> str:
        """Read now."""


class StripeEvents:
    """What Stripe posts, checked by Stripe's library.

    While a signing secret is rolled, Stripe signs with the old and the new one for up to 24 hours
    (docs.stripe.com/webhooks, "Roll endpoint signing secrets"); one that was replaced at once is read again here.
    """

    def __init__(self, secret: Secret, clock: Callable[[], datetime]) -> None:
        self._secret = secret
        self._clock = clock
        self._refreshed_at: datetime | None = None

    def read(self, body: str, signature: str | None) -> Mapping[str, Any]:
        """The event. Raises `InvalidRequest`: `bad_signature` (also when it is too old) or `bad_event`."""
        kept = self._secret.value()
        try:
            return _event(body, signature, kept)
        except stripe.SignatureVerificationError:
            fresh = self._fresh(kept) if signature else kept
            if fresh == kept:
                raise _bad_signature() from None
        try:
            return _event(body, signature, fresh)
        except stripe.SignatureVerificationError:
            raise _bad_signature() from None

    def _fresh(self, kept: str) -> str:
        now = self._clock()
        if self._refreshed_at is not None and now - self._refreshed_at < REFRESH_EVERY:
            return kept
        self._refreshed_at = now
        return self._secret.fresh()


def _event(body: str, signature: str | None, secret: str) -> Mapping[str, Any]:
    try:
        event = stripe.Webhook.construct_event(body, signature, secret, tolerance=int(TOLERANCE.total_seconds()))
        plain: Mapping[str, Any] = event.to_dict()
    except (ValueError, TypeError, AttributeError):
        raise InvalidRequest("bad_event", "body", "the body is signed, but no event") from None
    return plain


def _bad_signature() -> InvalidRequest:
    return InvalidRequest("bad_signature", "Stripe-Signature", "the signature is missing, wrong or too old")
