"""Two disputes on the embedded AWS: one that is argued to a mediator's decision, and one that the chef lets pass.

`play` acts and reports; whoever tells the story prints the timeline and judges what was found.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from duebook_client import Actor, Booking, DisputeEntry, DisputeHistory, Policy
from local.world import World

CUSTOMER, CHEF, MEDIATOR = Actor("customer", "customer-1"), Actor("chef", "chef-1"), Actor("mediator", "mediator-1")
PRICE, CLAIM, OFFER, DECISION = 240_000, 96_000, 30_000, 60_000
ARGUED, SILENT = "dispute-argued", "dispute-silent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How long things take: the event ended `ended` ago, and what is due at an instant is done `slack` later.

    `policy` None: the service's default.
    """

    ended: timedelta
    slack: timedelta
    policy: Policy | None = None


ON_ITS_DATES = Rules(ended=timedelta(hours=1), slack=timedelta(minutes=2))
ON_SECONDS = Rules(
    ended=timedelta(seconds=1),
    slack=timedelta(seconds=5),
    policy=Policy(
        complete_after=timedelta(seconds=6),
        dispute_within=timedelta(seconds=8),
        fee_bps=1_000,
        reply_within=timedelta(seconds=40),
        remind_after=timedelta(seconds=15),
        offer_within=timedelta(seconds=60),
        review_within=timedelta(seconds=120),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Argued:
    """What was found of the first dispute. `while_open`: the jobs, and the payments after the payout's instant."""

    jobs_before: tuple[str, ...]
    jobs_while_open: tuple[str, ...]
    payments_while_open: tuple[str, ...]
    booking: Booking
    history: DisputeHistory
    answered_within: timedelta
    """From the mediator's decision to the settlement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """What was found of the second."""

    booking: Booking
    history: DisputeHistory
    deadline: datetime
    decided_at: datetime


def play(world: World, tell: Callable[[str], None], *, name: str = "") -> tuple[Argued, Silence]:
    """Both disputes, from their opening to the settlement. `name` keeps two stories in one world apart."""
    client, rules = world.client, ON_ITS_DATES if world.travels else ON_SECONDS
    argued, silent = f"{ARGUED}{name}", f"{SILENT}{name}"
    ends = world.now() - rules.ended
    for booking_id in (argued, silent):
        _paid(world, booking_id, ends, rules)
    world.settle()
    before = tuple(sorted(job.job for job in client.jobs(argued)))
    for booking_id in (argued, silent):
        client.open_dispute(
            booking_id,
            actor=CUSTOMER,
            claimed_minor=CLAIM,
            reason="two courses were missing",
            text="Neither the dessert nor the cheese was served.",
            evidence=["photo-1", "menu-7"],
        )
    world.settle()
    tell("Two customers dispute their dinners. Nobody is paid from now on; each chef is asked, with a deadline.")
    while_open = tuple(sorted(job.job for job in client.jobs(argued)))
    asked = client.dispute(f"{silent}.d1")
    assert asked.deadline is not None
    world.reach(datetime.fromisoformat(asked.raw["remind_at"]))
    client.reply(f"{argued}.d1", "offer", actor=CHEF, offer_minor=OFFER, text="the cheese was not ordered")
    world.settle()
    tell(
        "Reminded, one chef offers a part, and the customer refuses it: a mediator has to decide. The other is silent."
    )
    client.answer_offer(f"{argued}.d1", "refuse", actor=CUSTOMER)
    world.settle()
    payout_at = ends + _after(rules)
    world.reach(max(payout_at, asked.deadline) + rules.slack)
    paid = tuple(payment.payment_id for payment in client.payments(argued))
    tell("The payout's ordinary instant passes; the mediator decides, and the money moves once.")
    client.decide(f"{argued}.d1", actor=MEDIATOR, refund_minor=DECISION, reason="one course was missing")
    world.settle()
    decided, settled = (_at(world, argued, type_) for type_ in ("dispute.decided", "dispute.settled"))
    return (
        Argued(
            jobs_before=before,
            jobs_while_open=while_open,
            payments_while_open=paid,
            booking=client.booking(argued),
            history=client.dispute_history(f"{argued}.d1"),
            answered_within=settled - decided,
        ),
        Silence(
            booking=client.booking(silent),
            history=client.dispute_history(f"{silent}.d1"),
            deadline=asked.deadline,
            decided_at=_at(world, silent, "dispute.decided"),
        ),
    )


def timeline(history: DisputeHistory) -> list[str]:
    """A dispute's timeline as lines: when, what, and what of it the workflow did."""
    return [*map(_line, history.entries), f"In the AWS console: {history.console_url}"]


def _line(entry: DisputeEntry) -> str:
    at = f"{entry.at:%a %d %b %H:%M:%S}" if entry.at else " " * 19
    if entry.source == "workflow":
        return f"{at}      workflow, run {entry.run}: {entry.text}"
    data = entry.raw.get("data", {})
    moved = f" ({data['kind']} of {data['amount_minor']:,} {data['currency']}, minor units)" if "kind" in data else ""
    return f"{at}  {entry.text}{moved}"


def _paid(world: World, booking_id: str, ends: datetime, rules: Rules) -> None:
    world.client.put_booking(
        booking_id,
        customer_id="customer-1",
        chef_id="chef-1",
        event_start=ends - timedelta(hours=4),
        event_end=ends,
        price_minor=PRICE,
        currency="EUR",
        policy=rules.policy,
        state="paid",
        paid_at=ends - timedelta(days=1),
        captured_minor=PRICE,
        charge_ref=f"charge-{booking_id}",
    )


def _after(rules: Rules) -> timedelta:
    """From the event's end to the payout's ordinary instant."""
    policy = rules.policy
    if policy is None or policy.complete_after is None or policy.dispute_within is None:
        return timedelta(hours=27)
    return policy.complete_after + policy.dispute_within


def _at(world: World, booking_id: str, type_: str) -> datetime:
    return next(entry.at for entry in world.client.history(booking_id) if entry.type == type_)
