"""The dispute's transitions on its booking: who may do what, and what it does to the money and the jobs.

Every step is one transaction with one history row, like any other change of the booking. The actor is whom the
marketplace vouches for; here it is checked against the booking's parties and the dispute's state.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from duebook.domain import dispute as rules
from duebook.domain.booking import PAYABLE, Actor, Booking, Engagement, Role, State
from duebook.domain.dispute import IN_REVIEW, Dispute, DisputeStatus, OfferAnswer, Reply
from duebook.domain.errors import InvalidRequest, NotFound, Refused
from duebook.domain.names import WATCH_DISPUTE, dispute_id
from duebook.domain.payment import Payment
from duebook.domain.times import iso
from duebook.domain.transitions import Step, amounts, engaged, engaged_step, refund_payment

Texts = Mapping[str, Any]


# --- the people's acts ---------------------------------------------------------------------------------------------


def open_dispute(
    booking: Booking, claimed: int, texts: Texts, opening_hash: str, actor: Actor, now: datetime
) -> Step | None:
    """The customer disputes a paid order: from this transaction on nobody is paid."""
    engagement = engaged(booking)
    _party(engagement, actor, Role.CUSTOMER)
    known = engagement.dispute
    if known is not None:
        if known.opening_hash == opening_hash:
            return None
        code = "dispute_open" if known.is_open else "dispute_over"
        raise Refused(code, "a booking can be disputed once", state=engagement.state)
    if engagement.state not in PAYABLE:
        raise Refused(
            "not_disputable",
            f"cannot dispute a booking that is {engagement.state}; it must be {', '.join(PAYABLE)}",
            state=engagement.state,
        )
    if claimed > engagement.captured:
        raise InvalidRequest(
            "claim_exceeds_capture", "claimed_minor", f"{claimed} is more than the {engagement.captured} captured"
        )
    opened = Dispute(
        dispute_id=dispute_id(booking.booking_id, 1), opened_at=now, claimed=claimed, opening_hash=opening_hash
    )
    return _tell(booking, opened, "dispute.opened", now, "the customer disputes the order", actor, texts)


def reply(
    booking: Booking, answer: Reply, offered: int | None, texts: Texts, reply_hash: str, actor: Actor, now: datetime
) -> Step | None:
    """The chef concedes, offers a smaller refund, or contests. The first answer stands."""
    engagement, dispute = _disputed(booking)
    _party(engagement, actor, Role.CHEF)
    if dispute.reply is not None:
        _the_same(dispute.reply_hash == reply_hash, "already_replied", dispute)
        return None
    _must_be(dispute, "reply", DisputeStatus.OPENED, DisputeStatus.AWAITING_CHEF)
    _in_time(dispute, now)
    if answer is Reply.OFFER and not 0 < (offered or 0) < dispute.claimed:
        raise InvalidRequest(
            "bad_offer", "offer_minor", f"an offer is more than 0 and less than the {dispute.claimed} claimed"
        )
    after = rules.answered(dispute, answer, offered, reply_hash, engagement.policy, now)
    reasons = {
        Reply.CONCEDE: "the chef concedes the claim",
        Reply.OFFER: "the chef offers a part",
        Reply.CONTEST: "the chef contests: a mediator decides",
    }
    return _tell(booking, after, "dispute.replied", now, reasons[answer], actor, texts)


def answer_offer(booking: Booking, answer: OfferAnswer, actor: Actor, now: datetime) -> Step | None:
    engagement, dispute = _disputed(booking)
    _party(engagement, actor, Role.CUSTOMER)
    if dispute.offer_answer is not None:
        _the_same(dispute.offer_answer is answer, "already_answered", dispute)
        return None
    _must_be(dispute, "answer an offer in", DisputeStatus.AWAITING_CUSTOMER)
    _in_time(dispute, now)
    after = rules.offer_answered(dispute, answer, engagement.policy, now)
    said = "accepts" if answer is OfferAnswer.ACCEPT else "refuses"
    return _tell(booking, after, "dispute.offer_answered", now, f"the customer {said} the offer", actor, {})


def decide(booking: Booking, refund: int, texts: Texts, decision_hash: str, actor: Actor, now: datetime) -> Step | None:
    """A mediator's decision; an appeal is decided by another one than the first."""
    engagement, dispute = _disputed(booking)
    if actor.role is not Role.MEDIATOR or actor.id is None:
        raise Refused("wrong_actor", "a mediator with an id decides", state=dispute.status)
    if dispute.decision_hash == decision_hash:
        return None
    _must_be(dispute, "decide", *IN_REVIEW)
    if refund > engagement.captured:
        raise InvalidRequest(
            "refund_exceeds_capture", "refund_minor", f"{refund} is more than the {engagement.captured} captured"
        )
    if dispute.status is DisputeStatus.IN_APPEAL and actor.id == dispute.mediator_id:
        raise Refused("same_mediator", "an appeal is decided by another mediator than the first", state=dispute.status)
    after = rules.decided(dispute, refund, actor.id, decision_hash, engagement.policy, now)
    return _tell(booking, after, "dispute.decided", now, "the mediator decided", actor, texts)


def appeal(booking: Booking, texts: Texts, appeal_hash: str, actor: Actor, now: datetime) -> Step | None:
    """Either party appeals the first decision within its window."""
    engagement, dispute = _disputed(booking)
    _party(engagement, actor, Role.CUSTOMER, Role.CHEF)
    if dispute.appeal_hash is not None:
        _the_same(dispute.appeal_hash == appeal_hash, "already_appealed", dispute)
        return None
    if dispute.appeal_until is None:
        raise Refused("no_appeal", "this decision cannot be appealed", state=dispute.status)
    _must_be(dispute, "appeal", DisputeStatus.DECIDED)
    if now >= dispute.appeal_until:
        raise Refused("deadline_passed", f"the window ended {iso(dispute.appeal_until)}", state=dispute.status)
    after = rules.appealed(dispute, actor.role.value, appeal_hash, engagement.policy, now)
    return _tell(booking, after, "dispute.appealed", now, f"the {actor.role} appeals the decision", actor, texts)


def withdraw(booking: Booking, actor: Actor, now: datetime) -> Step | None:
    """The customer takes it back before it is decided: the jobs come back as if never disputed."""
    engagement, dispute = _disputed(booking)
    _party(engagement, actor, Role.CUSTOMER)
    if dispute.status is DisputeStatus.WITHDRAWN:
        return None
    _must_be(dispute, "withdraw", *rules.UNDECIDED)
    after = replace(dispute, status=DisputeStatus.WITHDRAWN, deadline=None, needs_attention=False)
    return _tell(booking, after, "dispute.withdrawn", now, "the customer withdraws the dispute", actor, {})


# --- the workflow's looks ------------------------------------------------------------------------------------------


def look(booking: Booking, now: datetime) -> Step | None:
    """What is due in the dispute at `now`: the chef is asked, a deadline has passed. None when nothing is."""
    engagement, dispute = _disputed(booking)
    policy = engagement.policy
    over = dispute.deadline is not None and now >= dispute.deadline
    match dispute.status:
        case DisputeStatus.OPENED:
            asked = rules.ask(dispute, policy, now)
            return _tell(booking, asked, "dispute.chef_asked", now, "the chef is asked to answer")
        case DisputeStatus.AWAITING_CHEF if over:
            silent = rules.silence(dispute, policy, now)
            return _tell(
                booking, silent, "dispute.decided", now, "the chef did not answer in time", due=dispute.deadline
            )
        case DisputeStatus.AWAITING_CUSTOMER if over:
            reviewed = rules.review(dispute, policy, now)
            reason = "the customer did not answer the offer in time: a mediator decides"
            return _tell(booking, reviewed, "dispute.offer_lapsed", now, reason, due=dispute.deadline)
        case DisputeStatus.IN_REVIEW | DisputeStatus.IN_APPEAL if over:
            later = rules.escalate(dispute, policy, now)
            if later.needs_attention:
                reason = "no mediator decided, and escalation is used up: a person has to look"
                return _tell(booking, later, "dispute.needs_attention", now, reason, due=dispute.deadline)
            reason = "the mediator did not decide in time"
            return _tell(booking, later, "dispute.escalated", now, reason, due=dispute.deadline)
        case _:
            return None


def remind(booking: Booking, now: datetime) -> Step | None:
    """The chef is reminded, once."""
    _, dispute = _disputed(booking)
    if dispute.status is not DisputeStatus.AWAITING_CHEF or dispute.reminded:
        return None
    after = replace(dispute, reminded=True)
    return _tell(booking, after, "dispute.chef_reminded", now, "the chef is reminded to answer", due=dispute.remind_at)


def settle(booking: Booking, now: datetime) -> Step | None:
    """Carry the decision out: the refund's intent, and the booking goes on with what is left for the chef.

    A full refund ends the booking; else the payout keeps its ordinary instant, or is due at once if that has passed.
    """
    engagement, dispute = _disputed(booking)
    if dispute.status is DisputeStatus.SETTLED:
        return None
    if not rules.may_settle(dispute, now):
        raise Refused(
            "not_settleable", f"the dispute is {dispute.status}, or may still be appealed", state=dispute.status
        )
    refund = dispute.refund or 0
    after, payments = refund_payment(booking.booking_id, engagement, min(refund, engagement.refundable), now)
    if refund == engagement.captured:
        after = replace(after, state=State.CANCELLED)
    settled = replace(dispute, status=DisputeStatus.SETTLED, deadline=None, needs_attention=False)
    reason = f"settled by {dispute.decided_by}"
    return _tell(
        replace(booking, engagement=after), settled, "dispute.settled", now, reason, payments=payments, before=booking
    )


def resume(booking: Booking, actor: Actor | None, why: str | None, now: datetime) -> Step:
    """A person redrives a dispute whose workflow got stuck. What only a mediator can decide is not redriven."""
    _, dispute = _disputed(booking)
    if not dispute.is_open:
        raise Refused("already_over", f"the dispute is {dispute.status}", state=dispute.status)
    if dispute.status in IN_REVIEW and dispute.deadline is None:
        raise Refused("needs_decision", "a mediator has to decide; the next run starts then", state=dispute.status)
    resumed = rules.resumed(dispute, now)
    return _tell(booking, resumed, "dispute.restarted", now, why or "redriven by a person", actor)


def watch(booking: Booking, is_running: bool, now: datetime) -> Step | None:
    """The second wake-up: a deadline is long over. Start the next run, or look again later, or call for a person."""
    _, dispute = _disputed(booking)
    if dispute.watch_at is None or now < dispute.watch_at:
        return None
    after = rules.watched(dispute, now) if is_running else rules.restarted(dispute, now)
    if after.needs_attention and not dispute.needs_attention:
        return _tell(
            booking, after, "dispute.needs_attention", now, "its workflow does not get on: a person has to look"
        )
    if is_running:
        reason = "its workflow is late: it is nudged, and looked at again later"
        return _tell(booking, after, "dispute.watched", now, reason)
    return _tell(booking, after, "dispute.restarted", now, "its workflow is gone: the next run starts")


# --- shared --------------------------------------------------------------------------------------------------------


def _tell(
    booking: Booking,
    dispute: Dispute,
    type_: str,
    now: datetime,
    reason: str,
    actor: Actor | None = None,
    texts: Texts | None = None,
    *,
    due: datetime | None = None,
    payments: tuple[Payment, ...] = (),
    before: Booking | None = None,
) -> Step:
    known = engaged(booking).dispute
    if actor and known and known.needs_attention and dispute.is_open and dispute.run == known.run:
        dispute = rules.resumed(dispute, now)
    after = replace(engaged(booking), dispute=dispute)
    # A new run is started by the stream: from the job's row, which must change though its instant may be the same.
    renew = frozenset({WATCH_DISPUTE}) if known and known.run != dispute.run else frozenset[str]()
    data = {
        "dispute_id": dispute.dispute_id,
        "status": dispute.status.value,
        "deadline": dispute.deadline and iso(dispute.deadline),
        "claimed_minor": dispute.claimed,
        "offer_minor": dispute.offered,
        "refund_minor": dispute.refund,
        "escalations": dispute.escalations or None,
        **amounts(payments),
    }
    return engaged_step(
        before or booking,
        after,
        type_,
        now,
        reason,
        actor=actor,
        due=due,
        payments=payments,
        data={name: value for name, value in data.items() if value is not None},
        dispute_texts=texts or {},
        renew=renew,
    )


def _disputed(booking: Booking) -> tuple[Engagement, Dispute]:
    engagement = engaged(booking)
    if engagement.dispute is None:
        raise NotFound(f"{booking.booking_id} has no dispute")
    return engagement, engagement.dispute


def _party(engagement: Engagement, actor: Actor, *roles: Role) -> None:
    """The actor is a party to this booking, in the right role."""
    party = {Role.CUSTOMER: engagement.customer_id, Role.CHEF: engagement.chef_id}
    if actor.role not in roles or actor.id is None or actor.id != party[actor.role]:
        raise Refused("wrong_actor", f"only the booking's own {' or '.join(roles)} may", state=engagement.state)


def _must_be(dispute: Dispute, act: str, *statuses: DisputeStatus) -> None:
    if dispute.status not in statuses:
        raise Refused(
            "illegal_transition",
            f"cannot {act} a dispute that is {dispute.status}; it must be {', '.join(statuses)}",
            state=dispute.status,
        )


def _in_time(dispute: Dispute, now: datetime) -> None:
    if dispute.deadline is not None and now >= dispute.deadline:
        raise Refused("deadline_passed", f"the deadline was {iso(dispute.deadline)}", state=dispute.status)


def _the_same(same: bool, code: str, dispute: Dispute) -> None:
    if not same:
        raise Refused(code, "another answer was given first, and it stands", state=dispute.status)
