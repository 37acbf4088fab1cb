"""`POST /webhooks/stripe`, the one route that anybody can call: nothing happens before Stripe's signature is checked.

The log names an event and what came of it, never what it holds.
"""

import base64
import json
from typing import Any

from duebook import wiring
from duebook.domain.errors import DuebookError, InvalidRequest
from duebook.handlers.support import count, logger, metrics
from duebook.service.webhook import handle

LARGEST_EVENT = 256 * 1024
"""Bytes of a body; Stripe's events about money have a few thousand."""


@metrics.log_metrics
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """API Gateway HTTP API event (payload 2.0) → 200 when it is dealt with; anything else makes Stripe send it again.

    400: no signature of Stripe's, an old one, or no event. 409: the booking does not allow it (now). 413: too large.
    503: AWS failed, or the booking kept changing.
    """
    try:
        body = _text(event)
        told = wiring.stripe_events().read(body, event.get("headers", {}).get("stripe-signature"))
        handled = handle(wiring.bookings(), told)
    except InvalidRequest as error:
        logger.warning("webhook refused", extra={"code": error.code})
        count("WebhooksRefused")
        return _answer(413 if error.code == "body_too_large" else 400, error.code)
    except DuebookError as error:
        logger.exception("webhook failed", extra={"code": error.code})
        return _answer(503, error.code)
    said = {"event": told["id"], "type": told["type"], "verdict": handled.verdict, "reason": handled.reason}
    if handled.verdict == "refused":
        logger.error("event refused", extra=said)
        count("WebhookEventsRefused")
    else:
        logger.info("event", extra=said)
    return _answer(409 if handled.again else 200, handled.verdict)


def _text(event: dict[str, Any]) -> str:
    body = str(event.get("body") or "")
    if len(body) > LARGEST_EVENT * 4 // 3 + 4:
        raise _too_large()
    try:
        raw = base64.b64decode(body, validate=True) if event.get("isBase64Encoded") else body.encode()
        text = raw.decode()
    except ValueError:
        raise InvalidRequest("bad_event", "body", "the body is no text in UTF-8") from None
    if len(raw) > LARGEST_EVENT:
        raise _too_large()
    return text


def _too_large() -> InvalidRequest:
    return InvalidRequest("body_too_large", "body", f"an event has at most {LARGEST_EVENT} bytes")


def _answer(status: int, said: str) -> dict[str, Any]:
    return {
        "statusCode": status,
        "headers": {"Content-Type": "application/json"},
        "body": json.dumps({"said": said}, separators=(",", ":")),
    }
