"""A stand-in for Stripe's HTTP API, for tests and the embedded AWS: what a platform with connected accounts uses.

It keeps state: charges, transfers and their reversals, refunds, balance, events, and idempotency keys as Stripe keeps
them. Faults are asked for one by one (`faults.py`). Objects have every field that Stripe's published OpenAPI calls
required (`shapes.py`). It knows no money but its own.
"""

from local.stripe_fake.faults import Fault, Trouble
from local.stripe_fake.server import StripeFake
from local.stripe_fake.state import ApiError, StripeState

__all__ = ["ApiError", "Fault", "StripeFake", "StripeState", "Trouble"]
