"""Short ways through a dispute: what customer, chef and mediator of a world do, through the commands of the API."""

from collections.abc import Mapping
from typing import Any

from duebook.domain.booking import Booking, Engagement
from duebook.domain.dispute import Dispute
from duebook.service.bookings import Key
from duebook.service.commands import DisputeCommands
from tests.unit.world import World

CLAIM = 40_000
CAPTURED = 100_000
CUSTOMER = {"role": "customer", "id": "c-1"}
CHEF = {"role": "chef", "id": "ch-1"}
MEDIATOR = {"role": "mediator", "id": "m-1"}
OTHER_MEDIATOR = {"role": "mediator", "id": "m-2"}

OPENING: dict[str, Any] = {
    "reason": "two courses were missing",
    "text": "no dessert, no cheese",
    "claimed_minor": CLAIM,
    "actor": CUSTOMER,
}
SOFT: dict[str, Any] = {"appeals": 1}
"""A policy that allows an appeal."""


class People:
    """Each method is one call of the API; it returns whether the call changed anything, or raises what it answers."""

    def __init__(self, world: World, booking_id: str = "b1") -> None:
        self.world = world
        self.booking_id = booking_id
        self.dispute_id = f"{booking_id}.d1"

    @property
    def _commands(self) -> DisputeCommands:
        return DisputeCommands(self.world.disputes)

    def open(self, key: Key | None = None, **changes: Any) -> bool:
        return self.world.commands.open_dispute(self.booking_id, OPENING | changes, key)[1]

    def concede(self, **changes: Any) -> bool:
        return self._reply({"answer": "concede"} | changes)

    def offer(self, amount: int = 15_000, **changes: Any) -> bool:
        return self._reply({"answer": "offer", "offer_minor": amount} | changes)

    def contest(self, **changes: Any) -> bool:
        return self._reply({"answer": "contest", "text": "all courses were served"} | changes)

    def _reply(self, body: Mapping[str, Any]) -> bool:
        return self._commands.reply(self.dispute_id, {"actor": CHEF, **body}, None)[1]

    def accept(self, **changes: Any) -> bool:
        return self._commands.answer_offer(self.dispute_id, {"answer": "accept", "actor": CUSTOMER} | changes, None)[1]

    def refuse(self, **changes: Any) -> bool:
        return self.accept(**({"answer": "refuse"} | changes))

    def decide(self, refund: int = 25_000, **changes: Any) -> bool:
        body = {"refund_minor": refund, "reason": "one course was missing", "actor": MEDIATOR} | changes
        return self._commands.decide(self.dispute_id, body, None)[1]

    def appeal(self, **changes: Any) -> bool:
        body = {"text": "that is wrong", "actor": CUSTOMER} | changes
        return self._commands.appeal(self.dispute_id, body, None)[1]

    def withdraw(self, **changes: Any) -> bool:
        return self._commands.withdraw(self.dispute_id, {"actor": CUSTOMER} | changes, None)[1]

    # --- what can be seen ------------------------------------------------------------------------------------------

    @property
    def booking(self) -> Booking:
        booking = self.world.bookings.load(self.booking_id)
        assert booking is not None
        return booking

    @property
    def engagement(self) -> Engagement:
        engagement = self.booking.engagement
        assert engagement is not None
        return engagement

    @property
    def dispute(self) -> Dispute:
        dispute = self.engagement.dispute
        assert dispute is not None
        return dispute

    def told(self) -> list[str]:
        """The dispute's events, without their prefix."""
        types = self.world.types(self.booking_id)
        return [type_.removeprefix("dispute.") for type_ in types if type_.startswith("dispute.")]

    def money(self) -> dict[str, int]:
        """What has moved, by kind, and the fee: together all that was captured once the booking has ended."""
        moved: dict[str, int] = {}
        for row in self.world.payments(self.booking_id):
            for transfer in self.world.transfers(row["payment_id"]):
                moved[transfer["kind"]] = moved.get(transfer["kind"], 0) + transfer["amount"]
        return moved | {"fee": self.engagement.fee}
