"""Stripe beside the embedded AWS: the stand-in, the two secrets that functions read, and its events, posted signed."""

import json
import secrets
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from stripe import WebhookSignature

from local.emulator import EmbeddedAws
from local.stripe_fake import StripeFake
from local.stripe_fake.server import API_KEY
from local.stripe_fake.shapes import event as event_of

WEBHOOK = "/webhooks/stripe"
_KEY, _SIGNING = "duebook/local/stripe-key", "duebook/local/stripe-webhook"


class LocalStripe:
    """The stand-in at the embedded AWS's time. `with` serves it and puts its secrets into Secrets Manager."""

    def __init__(self, aws: EmbeddedAws) -> None:
        self.fake = StripeFake(clock=aws.clock.now)
        self.signing_secret = f"whsec_{secrets.token_hex(16)}"
        self._aws = aws
        self._made = 0
        self.url = ""
        """The API's base URL, once it is deployed."""

    @property
    def context(self) -> Mapping[str, str]:
        """The settings to deploy with."""
        return {
            "payments": "stripe",
            "stripe_secret": _KEY,
            "stripe_webhook_secret": _SIGNING,
            "stripe_api_base": self.fake.url,
        }

    def __enter__(self) -> Self:
        manager: Any = self._aws.session().client("secretsmanager")
        manager.create_secret(Name=_KEY, SecretString=API_KEY)
        manager.create_secret(Name=_SIGNING, SecretString=self.signing_secret)
        self.fake.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.fake.close()

    def event(self, type: str, subject: Mapping[str, Any]) -> dict[str, Any]:
        """An event with an id of its own."""
        self._made += 1
        created = int(self._aws.clock.now().timestamp())
        return event_of(f"evt_local_{self._made:06d}", type, dict(subject), created)

    def post(
        self, event: Mapping[str, Any] | str, *, secret: str | None = None, signed_at: datetime | None = None
    ) -> int:
        """Post an event to the webhook; the status it is answered with."""
        body = event if isinstance(event, str) else json.dumps(event)
        at = int((signed_at or self._aws.clock.now()).timestamp())
        signature = WebhookSignature.generate_signature_header(body, secret or self.signing_secret, at)
        return self.send(body, {"Stripe-Signature": signature})

    def send(self, body: str, headers: Mapping[str, str]) -> int:
        """Post anything to the webhook, as anybody could."""
        request = urllib.request.Request(
            self.url + WEBHOOK,
            data=body.encode(),
            headers={"Content-Type": "application/json; charset=utf-8", **headers},
            method="POST",
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=60) as answer:
                status: int = answer.status
        except urllib.error.HTTPError as refused:
            with refused:
                status = refused.code
        return status

    def tell(self, type: str, subject: Mapping[str, Any]) -> int:
        """Something happened at Stripe: post it; the status."""
        return self.post(self.event(type, subject))

    def capture(self, booking_id: str, charge_ref: str, amount: int, currency: str) -> int:
        """A customer paid for a booking: the charge, and its event."""
        charge = self.charged(booking_id, charge_ref, amount, currency)
        return self.tell("charge.succeeded", charge)

    def charged(self, booking_id: str, charge_ref: str, amount: int, currency: str) -> dict[str, Any]:
        """A charge of which nobody tells."""
        return self.fake.state.charged(charge_ref, amount, currency, metadata={"booking_id": booking_id})

    def moved(self) -> Counter[str]:
        """How often Stripe moved money for each of our payments, by their references."""
        state = self.fake.state
        made = [*state.transfers.values(), *state.refunds.values(), *state.reversals.values()]
        return Counter(one["metadata"]["reference"] for one in made if one["metadata"].get("reference"))
