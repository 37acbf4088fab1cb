"""The HTTP API's routes, by the group in which they are granted; and the one that nobody is granted."""

from collections.abc import Mapping, Sequence

Route = tuple[str, str]
"""Method and path."""

ROUTES: Mapping[str, Sequence[Route]] = {
    "schedules": (
        ("PUT", "/bookings/{booking_id}/jobs/{job}"),
        ("DELETE", "/bookings/{booking_id}/jobs/{job}"),
        ("GET", "/bookings/{booking_id}/jobs"),
        ("GET", "/jobs"),
        ("GET", "/jobs/summary"),
    ),
    "bookings": (
        ("PUT", "/bookings/{booking_id}"),
        ("GET", "/bookings/{booking_id}"),
        ("POST", "/bookings/{booking_id}/accept"),
        ("POST", "/bookings/{booking_id}/decline"),
        ("POST", "/bookings/{booking_id}/pay"),
        ("POST", "/bookings/{booking_id}/move"),
        ("POST", "/bookings/{booking_id}/cancel"),
        ("GET", "/bookings/{booking_id}/history"),
        ("GET", "/bookings/{booking_id}/payments"),
    ),
    "disputes": (
        ("POST", "/bookings/{booking_id}/disputes"),
        ("GET", "/disputes"),
        ("GET", "/disputes/{dispute_id}"),
        ("GET", "/disputes/{dispute_id}/history"),
        ("POST", "/disputes/{dispute_id}/reply"),
        ("POST", "/disputes/{dispute_id}/offer-answer"),
        ("POST", "/disputes/{dispute_id}/decision"),
        ("POST", "/disputes/{dispute_id}/appeal"),
        ("POST", "/disputes/{dispute_id}/withdraw"),
    ),
    "payments": (
        ("GET", "/payments/{payment_id}"),
        ("POST", "/payments/{payment_id}/result"),
        ("POST", "/payments/{payment_id}/retry"),
        ("GET", "/bookings/{booking_id}/ledger"),
        ("PUT", "/chefs/{chef_id}"),
        ("GET", "/chefs/{chef_id}"),
        ("POST", "/chefs/{chef_id}/hold"),
        ("POST", "/chefs/{chef_id}/unhold"),
        ("GET", "/chefs/{chef_id}/parked"),
    ),
    "operations": (
        ("GET", "/dead-letters"),
        ("POST", "/bookings/{booking_id}/release-payout"),
        ("GET", "/bookings/{booking_id}/jobs/{job}/explain"),
        ("POST", "/bookings/{booking_id}/jobs/{job}/redrive"),
        ("POST", "/reconcile"),
        ("GET", "/reconcile"),
        ("GET", "/ledger/trial-balance"),
        ("GET", "/ledger/reconciliation"),
        ("POST", "/payouts/pause"),
        ("POST", "/payouts/resume"),
        ("GET", "/payouts"),
    ),
}

STRIPE_WEBHOOK: Route = ("POST", "/webhooks/stripe")
"""The one route without IAM: Stripe can't sign as an AWS caller, so the function checks Stripe's own signature."""
