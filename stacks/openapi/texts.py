"""The document's words: what it is about, its groups, parameters and errors."""

from collections.abc import Mapping

SUMMARY = "Work that must happen months from now: schedule it, move it, cancel it, see it, and never pay twice."

DESCRIPTION = """\
Instants are ISO 8601. In a request one needs an offset, or is a local time with its IANA zone; in an answer it is UTC.
Money is whole minor units, durations are whole seconds, shares are basis points.

Each command applies what is due first. The same `PUT` again, or the same command again, changes nothing and answers
200 with `applied` false. A field or a value may be added to an answer: read what you know, ignore the rest.

An error is `{"error": {"code", "message", "field"?, "state"?}}`. What the gateway refuses by itself, above all a
request without a valid signature, is `{"message"}`.

Stripe's webhook is not described here: only Stripe calls it. What is told by events is in `docs/events`.
"""

SERVER = {
    "url": "https://{api}.execute-api.{region}.amazonaws.com",
    "description": "The output ApiUrl of the app stack.",
    "variables": {"api": {"default": "api-id"}, "region": {"default": "eu-west-1"}},
}

SIGV4 = {
    "type": "apiKey",
    "name": "Authorization",
    "in": "header",
    "description": "AWS Signature Version 4 for the service `execute-api`. What a caller may call is said by the "
    "managed policies that the stacks put out, one for each group of routes.",
    "x-amazon-apigateway-authtype": "awsSigv4",
}

GROUPS: Mapping[str, str] = {
    "schedules": "Own jobs of any booking id: at their instant their payload arrives as an event.",
    "bookings": "Managed bookings: from the request over acceptance, payment and moves to the end.",
    "disputes": "A customer disputes a paid order: reply, offer, mediation, appeal. The payout is frozen meanwhile.",
    "payments": "Payouts and refunds, their results, the ledger, and the chefs who are paid.",
    "operations": "For the people who run it: what needs a person, redriving, reconciling, the books, the switch.",
}
"""By the managed policy that grants them."""

PARAMETERS: Mapping[str, str] = {
    "booking_id": "The marketplace's own id of a booking. An opaque one: it is in names and logs.",
    "chef_id": "The marketplace's own id of a chef.",
    "cursor": "Where to go on: the `cursor` of the page before, as it was.",
    "day": "A UTC day.",
    "dispute_id": "The booking's id, a dot, `d` and a number.",
    "from": "The first instant of the window.",
    "job": "The job's name. `pay_<number>` and the built-in names are Duebook's own.",
    "kind": "Which of them.",
    "limit": "The most that a page has.",
    "payment_id": "The booking's id, a dot, `p` and a number.",
    "revision": "The caller's own version of this job: an older one than is known is ignored.",
    "to": "The first instant after the window: at most 31 days after `from`.",
}

IDEMPOTENCY_KEY = (
    "A key of the caller's for this one act. The same act with the same key is done once, whatever happens meanwhile; "
    "a key that comes with another act is refused. Kept for 90 days."
)

ANSWERED = "It is so; `applied`, where there is one, says whether this request made it so."
"""Of each answer that is no error."""

ERRORS: Mapping[str, tuple[str, bool, bool]] = {
    "MalformedBody": ("The body is no JSON, or no text in UTF-8.", True, False),
    "Forbidden": ("The signature is missing or not valid, or the caller may not call this route.", False, True),
    "NotFound": ("There is no such thing, or no such route for an id with other characters.", True, False),
    "Refused": ("The state does not allow it, or it kept changing; `state` is the booking's.", True, False),
    "BodyTooLarge": ("The body is too large.", True, True),
    "NotJson": ("The body is said to be something else than JSON.", True, False),
    "Invalid": ("A parameter or a field is not valid; `field` says which.", True, False),
    "Throttled": ("Too many requests; try again later.", True, True),
    "Failed": ("A bug here: the log has it.", True, True),
    "Unavailable": ("AWS did not do it now; try again. Whether it took effect may be unknown.", True, True),
}
"""Name → what it means, whether the service answers it, whether the gateway does."""
