"""Objects as Stripe's API answers them: every field that its published OpenAPI requires, and those Duebook reads.

Sources: docs.stripe.com/api/transfers/object, /api/transfer_reversals/object, /api/refunds/object,
/api/charges/object, /api/balance/balance_object, /api/disputes/object, /api/events/object, /api/pagination.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Object = dict[str, Any]
API_VERSION = "2026-09-30.dahlia"


def charge(id: str, amount: int, currency: str, created: int, **more: Any) -> Object:
    return {
        "id": id,
        "object": "charge",
        "amount": amount,
        "amount_captured": amount,
        "amount_refunded": 0,
        "application": None,
        "application_fee": None,
        "application_fee_amount": None,
        "balance_transaction": _transaction(id),
        "billing_details": {"address": None, "email": None, "name": None, "phone": None, "tax_id": None},
        "captured": True,
        "created": created,
        "currency": currency,
        "customer": None,
        "description": None,
        "disputed": False,
        "failure_code": None,
        "failure_message": None,
        "fraud_details": {},
        "livemode": False,
        "metadata": {},
        "paid": True,
        "payment_intent": f"pi_{id.removeprefix('ch_')}",
        "payment_method": None,
        "payment_method_details": None,
        "receipt_email": None,
        "receipt_url": None,
        "refunded": False,
        "source_transfer": None,
        "status": "succeeded",
        "transfer_data": None,
        "transfer_group": None,
    } | more


def transfer(id: str, amount: int, currency: str, created: int, **more: Any) -> Object:
    return {
        "id": id,
        "object": "transfer",
        "amount": amount,
        "amount_reversed": 0,
        "balance_transaction": _transaction(id),
        "created": created,
        "currency": currency,
        "description": None,
        "destination": None,
        "destination_payment": f"py_{id.removeprefix('tr_')}",
        "livemode": False,
        "metadata": {},
        "reversals": listed([], f"/v1/transfers/{id}/reversals") | {"total_count": 0},
        "reversed": False,
        "source_transaction": None,
        "source_type": "card",
        "transfer_group": None,
    } | more


def reversal(id: str, amount: int, currency: str, created: int, **more: Any) -> Object:
    return {
        "id": id,
        "object": "transfer_reversal",
        "amount": amount,
        "balance_transaction": _transaction(id),
        "created": created,
        "currency": currency,
        "destination_payment_refund": f"pyr_{id.removeprefix('trr_')}",
        "metadata": {},
        "source_refund": None,
        "transfer": None,
    } | more


def refund(id: str, amount: int, currency: str, created: int, **more: Any) -> Object:
    return {
        "id": id,
        "object": "refund",
        "amount": amount,
        "balance_transaction": _transaction(id),
        "charge": None,
        "created": created,
        "currency": currency,
        "destination_details": {"type": "card", "card": {"type": "refund"}},
        "metadata": {},
        "payment_intent": None,
        "reason": None,
        "receipt_number": None,
        "source_transfer_reversal": None,
        "status": "succeeded",
        "transfer_reversal": None,
    } | more


def dispute(id: str, amount: int, currency: str, created: int, **more: Any) -> Object:
    return {
        "id": id,
        "object": "dispute",
        "amount": amount,
        "balance_transactions": [],
        "charge": None,
        "created": created,
        "currency": currency,
        "enhanced_eligibility_types": [],
        "evidence": {},
        "evidence_details": {"due_by": None, "has_evidence": False, "past_due": False, "submission_count": 0},
        "is_charge_refundable": False,
        "livemode": False,
        "metadata": {},
        "payment_intent": None,
        "reason": "fraudulent",
        "status": "needs_response",
    } | more


def balance(available: Mapping[str, int]) -> Object:
    rows = [{"amount": amount, "currency": currency} for currency, amount in sorted(available.items())]
    return {"object": "balance", "available": rows, "livemode": False, "pending": []}


def balance_transaction(id: str, type: str, amount: int, currency: str, created: int, source: str) -> Object:
    return {
        "id": id,
        "object": "balance_transaction",
        "amount": amount,
        "available_on": created,
        "balance_type": "payments",
        "created": created,
        "currency": currency,
        "description": None,
        "exchange_rate": None,
        "fee": 0,
        "fee_details": [],
        "net": amount,
        "reporting_category": type,
        "source": source,
        "status": "available",
        "type": type,
    }


def event(id: str, type: str, subject: Object, created: int) -> Object:
    return {
        "id": id,
        "object": "event",
        "api_version": API_VERSION,
        "created": created,
        "data": {"object": subject},
        "livemode": False,
        "pending_webhooks": 1,
        "request": {"id": None, "idempotency_key": None},
        "type": type,
    }


def listed(data: Sequence[Object], url: str, has_more: bool = False) -> Object:
    return {"object": "list", "data": list(data), "has_more": has_more, "url": url}


def error(type: str, message: str, code: str | None = None, param: str | None = None) -> Object:
    """docs.stripe.com/api/errors: absent fields are left out."""
    told: Object = {"message": message, "type": type}
    if code:
        told |= {"code": code, "doc_url": f"https://stripe.com/docs/error-codes/{code.replace('_', '-')}"}
    if param:
        told["param"] = param
    return {"error": told}


def _transaction(id: str) -> str:
    return f"txn_{id.split('_', 1)[1]}"
