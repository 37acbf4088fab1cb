"""A dispute as its steps: which are over, where it stands now, which were not needed and which may come."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from duebook_client import Dispute, DisputeEntry

_ORDER = ("opened", "awaiting_chef", "awaiting_customer", "in_review", "decided", "in_appeal", "settled")
_WORDS = {
    "opened": ("Opened", "The customer claims; nobody is paid from now on."),
    "awaiting_chef": ("The chef answers", "Concede, offer a part, or contest."),
    "awaiting_customer": ("The customer answers the offer", "Accept or refuse."),
    "in_review": ("A mediator looks at it", "And decides what the customer gets back."),
    "decided": ("Decided", "What the customer gets back is known."),
    "in_appeal": ("Another mediator looks at it", "A party appealed the decision."),
    "settled": ("Settled", "The refund is on its way, and the chef is paid what is left."),
    "withdrawn": ("Withdrawn", "The customer took it back: as if it had never been."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DisputeStep:
    """`state`: done, now, skipped (not needed) or ahead. `at`: when it was reached, if it was."""

    name: str
    title: str
    text: str
    state: str
    at: datetime | None


def steps(dispute: Dispute, entries: Iterable[DisputeEntry]) -> list[DisputeStep]:
    """In order. A withdrawal ends it wherever it stood; an appeal is a step only where there is one."""
    first: dict[str, datetime] = {}
    for entry in entries:
        if entry.type and entry.at and entry.type not in first:
            first[entry.type] = entry.at
    reached = {
        "opened": dispute.opened_at,
        "awaiting_chef": first.get("dispute.chef_asked"),
        "awaiting_customer": first.get("dispute.replied") if dispute.reply == "offer" else None,
        "in_review": _reviewed(dispute, first),
        "decided": dispute.decided_at,
        "in_appeal": first.get("dispute.appealed"),
        "settled": first.get("dispute.settled"),
        "withdrawn": first.get("dispute.withdrawn"),
    }
    order = [name for name in _ORDER if name != "in_appeal" or reached[name] or dispute.status == name]
    if dispute.status == "withdrawn":
        order = [name for name in order if reached[name]] + ["withdrawn"]
    here = order.index(dispute.status) if dispute.status in order else 0
    found = []
    for position, name in enumerate(order):
        if position == here:
            state = "now"
        elif position > here:
            state = "ahead"
        else:
            state = "done" if reached[name] else "skipped"
        title, text = _WORDS[name]
        at = reached[name] if position <= here else None
        found.append(DisputeStep(name=name, title=title, text=text, state=state, at=at))
    return found


def _reviewed(dispute: Dispute, first: dict[str, datetime]) -> datetime | None:
    if dispute.reply == "contest":
        return first.get("dispute.replied")
    if dispute.offer_answer == "refuse":
        return first.get("dispute.offer_answered")
    return first.get("dispute.offer_lapsed")
