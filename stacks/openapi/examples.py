"""Example values: of parameters by name, of bodies by the handler's function.

Sent in this order, about the same booking, each body is accepted: they are a story, and a test plays it.
"""

from collections.abc import Mapping
from typing import Any

CUSTOMER = {"role": "customer", "id": "customer-7"}
CHEF = {"role": "chef", "id": "chef-9"}
MEDIATOR = {"role": "mediator", "id": "mediator-1"}
OPERATOR = {"role": "operator", "id": "operator-2"}

PARAMETERS: Mapping[str, Any] = {
    "booking_id": "wedding-77",
    "chef_id": "chef-9",
    "day": "2026-11-18",
    "dispute_id": "wedding-77.d1",
    "from": "2026-11-01T00:00:00Z",
    "Idempotency-Key": "8b0e6f9c",
    "job": "remind_menu",
    "limit": 50,
    "payment_id": "wedding-77.p1",
    "revision": 3,
    "to": "2026-12-01T00:00:00Z",
}

EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "put_booking": {
        "a new request": {
            "customer_id": "customer-7",
            "chef_id": "chef-9",
            "event_start": {"local": "2026-11-14T18:00:00", "zone": "Europe/Berlin"},
            "price_minor": 120_000,
            "currency": "EUR",
            "policy": {"fee_bps": 1_200, "appeals": 1},
        },
        "one that exists elsewhere already": {
            "customer_id": "customer-7",
            "chef_id": "chef-9",
            "event_start": "2026-11-14T18:00:00+01:00",
            "event_end": "2026-11-14T23:00:00+01:00",
            "price_minor": 120_000,
            "currency": "EUR",
            "state": "paid",
            "requested_at": "2026-07-01T08:00:00Z",
            "accepted_at": "2026-07-01T09:30:00Z",
            "paid_at": "2026-07-01T10:00:00Z",
            "captured_minor": 120_000,
            "charge_ref": "ch_3PqX",
        },
    },
    "put_job": {
        "at an instant": {"run_at": "2026-11-07T09:00:00Z", "payload": {"mail": "one week left"}, "revision": 1},
        "tied to the event": {
            "anchor": "event_start",
            "offset": -604_800,
            "payload": {"mail": "one week left"},
            "keep_on_cancel": False,
            "revision": 2,
        },
    },
    "accept": {"by the chef": {"actor": CHEF}},
    "decline": {"by the chef": {"actor": CHEF, "reason": "fully booked"}},
    "pay_booking": {"all of it": {"captured_minor": 120_000, "charge_ref": "ch_3PqX"}},
    "move": {
        "a day later": {
            "event_start": {"local": "2026-11-15T18:00:00", "zone": "Europe/Berlin"},
            "event_end": {"local": "2026-11-15T23:00:00", "zone": "Europe/Berlin"},
            "actor": CUSTOMER,
            "reason": "the venue changed",
        }
    },
    "put_chef": {"with an account": {"account": "acct_1NxW", "enabled": True}},
    "hold": {"for a reason": {"reason": "identity check"}},
    "open_dispute": {
        "a part of the price": {
            "reason": "food was cold",
            "text": "The main course came an hour late, and cold.",
            "claimed_minor": 60_000,
            "evidence": ["upload-881"],
            "actor": CUSTOMER,
        }
    },
    "reply": {
        "an offer": {"answer": "offer", "offer_minor": 20_000, "text": "The oven failed.", "actor": CHEF},
        "contested": {"answer": "contest", "text": "It was served on time.", "evidence": ["upload-902"], "actor": CHEF},
    },
    "answer_offer": {"refused": {"answer": "refuse", "actor": CUSTOMER}},
    "decide": {"a part": {"refund_minor": 30_000, "reason": "Late, but eaten.", "actor": MEDIATOR}},
    "appeal": {"by the chef": {"text": "The delay was the venue's.", "actor": CHEF}},
    "withdraw": {"settled among themselves": {"actor": CUSTOMER}},
    "cancel": {
        "by the customer": {"actor": CUSTOMER, "reason": "no wedding"},
        "with another refund": {"actor": OPERATOR, "refund_minor": 50_000, "reason": "goodwill"},
    },
    "payment_result": {
        "it moved": {"status": "done", "provider_ref": "tr_1MzF"},
        "it never will": {"status": "failed", "reason": "the account is closed", "key": "b1.p1.e1"},
    },
    "retry_payment": {"looked at": {"actor": OPERATOR, "reason": "the account is open again"}},
    "release_payout": {"checked": {"actor": OPERATOR, "reason": "its import was checked"}},
    "redrive": {"looked at": {"actor": OPERATOR, "reason": "fixed in the last release"}},
    "pause": {"for a reason": {"reason": "the bank's maintenance"}},
}
"""Of an operation, title → body; the first one is what most callers send."""
