"""The money and what was done with it: the rules that Stripe keeps for separate charges and transfers.

Sources: docs.stripe.com/connect/separate-charges-and-transfers (a transfer with `source_transaction` takes from that
charge, all of them together never more than it; one currency), docs.stripe.com/api/refunds/create (never more than is
left of the charge), docs.stripe.com/api/transfer_reversals/create (never more than is left of the transfer).
"""

import copy
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from local.stripe_fake import shapes
from local.stripe_fake.shapes import Object


class ApiError(Exception):
    """An answer that is no success. `saved`: whether the endpoint had begun, so that the key keeps it."""

    def __init__(
        self, status: int, type: str, message: str, *, code: str | None = None, param: str | None = None,
        saved: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.status = status
        self.body = shapes.error(type, message, code, param)
        self.saved = saved


def invalid(message: str, code: str | None = None, param: str | None = None, *, saved: bool = True) -> ApiError:
    return ApiError(400, "invalid_request_error", message, code=code, param=param, saved=saved)


def missing(kind: str, id: str, param: str) -> ApiError:
    return ApiError(404, "invalid_request_error", f"No such {kind}: '{id}'", code="resource_missing", param=param)


class StripeState:
    """One platform account. `clock`: aware UTC now. `lists_lag`: how long what was made stays out of the lists."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self.clock = clock
        self.lists_lag = timedelta()
        self.charges: dict[str, Object] = {}
        self.transfers: dict[str, Object] = {}
        self.reversals: dict[str, Object] = {}
        self.refunds: dict[str, Object] = {}
        self.disputes: dict[str, Object] = {}
        self.balance_transactions: dict[str, Object] = {}
        self.events: list[Object] = []
        self.accounts: dict[str, bool] = {}
        """Connected account → whether it can take transfers; one that is not here does not exist."""
        self.available: defaultdict[str, int] = defaultdict(int)
        self.refund_status = "succeeded"
        """Of the next refunds; `pending` and `failed` exist too."""
        self._shown_at: dict[str, datetime] = {}
        self._made = 0

    # --- what happens outside the API the product uses ------------------------------------------------------------

    def account(self, id: str, enabled: bool = True) -> str:
        self.accounts[id] = enabled
        return id

    def charged(self, id: str, amount: int, currency: str, **more: Any) -> Object:
        """A customer paid: captured, and on the platform's balance."""
        made = shapes.charge(id, amount, currency.lower(), self._now(), **more)
        self.charges[id] = made
        self.available[made["currency"]] += amount
        self._booked("charge", amount, made)
        self._happened("charge.succeeded", made)
        return made

    def disputed(self, charge: str, amount: int | None = None) -> Object:
        """The customer's bank takes the money back."""
        of = self.charges[charge]
        taken = of["amount"] - of["amount_refunded"] if amount is None else amount
        made = shapes.dispute(
            self._id("dp"), taken, of["currency"], self._now(), charge=charge, payment_intent=of["payment_intent"]
        )
        of["disputed"] = True
        self.disputes[made["id"]] = made
        self.available[of["currency"]] -= taken
        self._happened("charge.dispute.created", made)
        return made

    def refunded_by_hand(self, charge: str, amount: int) -> Object:
        """Somebody pressed the button in the dashboard."""
        return self.refund({"charge": charge, "amount": amount, "metadata": {}})

    # --- endpoints ------------------------------------------------------------------------------------------------

    def transfer(self, wanted: Mapping[str, Any]) -> Object:
        amount, currency, destination = wanted["amount"], wanted["currency"], wanted["destination"]
        if destination not in self.accounts:
            raise invalid(f"No such destination: '{destination}'", "resource_missing", "destination")
        if not self.accounts[destination]:
            raise invalid(
                "Your destination account needs to have at least one of the following capabilities enabled: transfers",
                "insufficient_capabilities_for_transfer",
            )
        source = wanted.get("source_transaction")
        group = wanted.get("transfer_group")
        if source:
            of = self._charge(source, "source_transaction")
            if of["currency"] != currency:
                raise invalid("The source transaction has another currency", param="currency")
            gone = sum(t["amount"] for t in self.transfers.values() if t["source_transaction"] == source)
            if gone + amount > of["amount"]:
                raise invalid(
                    f"Transfers using this transaction as a source must not exceed the source amount of {of['amount']}"
                )
            group = group or of["transfer_group"]
            of["transfer_group"] = of["transfer_group"] or group
        elif self.available[currency] < amount:
            raise invalid("You have insufficient available funds in your Stripe account.", "balance_insufficient")
        made = shapes.transfer(
            self._id("tr"),
            amount,
            currency,
            self._now(),
            destination=destination,
            metadata=dict(wanted.get("metadata") or {}),
            source_transaction=source,
            transfer_group=group,
        )
        self.transfers[made["id"]] = made
        self._booked("transfer", -amount, made)
        self.available[currency] -= amount
        self._happened("transfer.created", made)
        return made

    def reverse(self, id: str, wanted: Mapping[str, Any]) -> Object:
        of = self.transfers.get(id)
        if of is None:
            raise missing("transfer", id, "id")
        left = of["amount"] - of["amount_reversed"]
        amount = wanted.get("amount", left)
        if not left:
            raise invalid(f"Transfer {id} is already fully reversed.", "transfer_already_reversed")
        if amount > left:
            raise invalid(f"Reversal amount ({amount}) is greater than unreversed amount on transfer ({left})")
        made = shapes.reversal(
            self._id("trr"),
            amount,
            of["currency"],
            self._now(),
            transfer=id,
            metadata=dict(wanted.get("metadata") or {}),
        )
        self.reversals[made["id"]] = made
        self._booked("transfer_refund", amount, made)
        of["amount_reversed"] += amount
        of["reversed"] = of["amount_reversed"] == of["amount"]
        inside = of["reversals"]
        inside["data"].insert(0, copy.deepcopy(made))
        inside["total_count"] += 1
        self.available[of["currency"]] += amount
        self._happened("transfer.reversed", of)
        return made

    def refund(self, wanted: Mapping[str, Any]) -> Object:
        charge = wanted["charge"]
        of = self._charge(charge, "charge")
        left = of["amount"] - of["amount_refunded"]
        amount = wanted.get("amount", left)
        if of["disputed"]:
            raise invalid(f"Charge {charge} has been charged back; cannot issue a refund.", "charge_disputed")
        if not left:
            raise invalid(f"Charge {charge} has already been refunded.", "charge_already_refunded")
        if amount > left:
            raise invalid(
                f"Refund amount ({amount}) is greater than unrefunded amount on charge ({left})", None, "amount"
            )
        made = shapes.refund(
            self._id("re"),
            amount,
            of["currency"],
            self._now(),
            charge=charge,
            payment_intent=of["payment_intent"],
            metadata=dict(wanted.get("metadata") or {}),
            status=self.refund_status,
        )
        if made["status"] == "failed":
            made["failure_reason"] = "expired_or_canceled_card"
        else:
            of["amount_refunded"] += amount
            of["refunded"] = of["amount_refunded"] == of["amount"]
            self.available[of["currency"]] -= amount
            self._booked("refund", -amount, made)
        self.refunds[made["id"]] = made
        self._happened("refund.created", made)
        self._happened("charge.refunded", of)
        return made

    def retrieve(self, kind: str, id: str) -> Object:
        found: Object | None = getattr(self, f"{kind}s").get(id)
        if found is None:
            raise missing(kind, id, "id")
        return found

    def list_(self, kind: str, url: str, asked: Mapping[str, Any]) -> Object:
        """Newest first; `asked`: limit, starting_after, created[gte] and [lt], and fields that must be equal.

        What is too new is left out. `expand[0]=data.source` puts the object in the place of its id.
        """
        asked = dict(asked)
        since, until = int(asked.pop("created[gte]", 0)), int(asked.pop("created[lt]", 1 << 60))
        expand = asked.pop("expand[0]", None) == "data.source"
        limit = int(asked.pop("limit", 10))
        if not 1 <= limit <= 100:
            raise invalid("This value must be between 1 and 100.", "parameter_invalid_integer", "limit")
        after = asked.pop("starting_after", None)
        everything: Sequence[Object] = list(reversed(getattr(self, kind).values()))
        seen = [found for found in everything if self._shown_at[found["id"]] <= self.clock()]
        seen = [found for found in seen if since <= found["created"] < until]
        seen = [found for found in seen if all(found.get(name) == value for name, value in asked.items())]
        if after is not None:
            ids = [found["id"] for found in seen]
            if after not in ids:
                raise missing(kind.removesuffix("s"), after, "starting_after")
            seen = seen[ids.index(after) + 1 :]
        page = seen[:limit]
        if expand:
            sources = self._sources()
            page = [found | {"source": sources[found["source"]]} for found in page]
        return shapes.listed(page, url, len(seen) > limit)

    def balance(self) -> Object:
        return shapes.balance(self.available)

    # --- helpers --------------------------------------------------------------------------------------------------

    def hide(self, id: str, lag: timedelta) -> None:
        """Keep one object out of the lists for longer."""
        self._shown_at[id] = self.clock() + lag

    def _booked(self, type: str, amount: int, source: Object) -> None:
        made = shapes.balance_transaction(
            source["balance_transaction"], type, amount, source["currency"], self._now(), source["id"]
        )
        self.balance_transactions[made["id"]] = made
        self._shown_at[made["id"]] = self.clock() + self.lists_lag

    def _sources(self) -> dict[str, Object]:
        return self.charges | self.transfers | self.reversals | self.refunds

    def _charge(self, id: str, param: str) -> Object:
        if id not in self.charges:
            raise missing("charge", id, param)
        return self.charges[id]

    def _id(self, prefix: str) -> str:
        self._made += 1
        made = f"{prefix}_{self._made:024d}"
        self._shown_at[made] = self.clock() + self.lists_lag
        return made

    def _now(self) -> int:
        return int(self.clock().timestamp())

    def _happened(self, type: str, subject: Object) -> None:
        self.events.append(shapes.event(self._id("evt"), type, copy.deepcopy(subject), self._now()))
