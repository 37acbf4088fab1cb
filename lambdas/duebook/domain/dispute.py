"""The dispute: who has to answer by when, and what follows from an answer or from silence.

Its row is the truth; the Step Functions execution only waits. Every function takes the dispute and returns the next
one, or None when nothing is due. Deadlines are half-open: an answer counts strictly before its deadline.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from duebook.domain.policy import Policy, Silence

WATCH_GRACE = timedelta(minutes=15)
"""The second wake-up looks this long after a deadline, so that the execution has had its chance."""
MOST_RESTARTS = 5
"""Executions started in vain for one deadline; then a person has to look."""


class DisputeStatus(StrEnum):
    OPENED = "opened"
    AWAITING_CHEF = "awaiting_chef"
    AWAITING_CUSTOMER = "awaiting_customer"
    IN_REVIEW = "in_review"
    DECIDED = "decided"
    IN_APPEAL = "in_appeal"
    SETTLED = "settled"
    WITHDRAWN = "withdrawn"


OPEN = frozenset(DisputeStatus) - {DisputeStatus.SETTLED, DisputeStatus.WITHDRAWN}
IN_REVIEW = (DisputeStatus.IN_REVIEW, DisputeStatus.IN_APPEAL)
UNDECIDED = (
    DisputeStatus.OPENED,
    DisputeStatus.AWAITING_CHEF,
    DisputeStatus.AWAITING_CUSTOMER,
    DisputeStatus.IN_REVIEW,
)


class Reply(StrEnum):
    CONCEDE = "concede"
    OFFER = "offer"
    CONTEST = "contest"


class OfferAnswer(StrEnum):
    ACCEPT = "accept"
    REFUSE = "refuse"


class Decider(StrEnum):
    """By what a dispute was decided."""

    CONCESSION = "concession"
    OFFER = "offer"
    SILENCE = "silence"
    MEDIATOR = "mediator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispute:
    """All that decides about a dispute; its texts and evidence are kept in its row alone. Amounts in minor units.

    `run` numbers its executions. `deadline` is what is waited for now; None: for nobody, or for a person without one.
    """

    dispute_id: str
    opened_at: datetime
    claimed: int
    opening_hash: str
    status: DisputeStatus = DisputeStatus.OPENED
    run: int = 1
    restarts: int = 0
    deadline: datetime | None = None
    remind_at: datetime | None = None
    reminded: bool = False
    reply: Reply | None = None
    reply_hash: str | None = None
    offered: int | None = None
    offer_answer: OfferAnswer | None = None
    escalations: int = 0
    needs_attention: bool = False
    refund: int | None = None
    decided_by: Decider | None = None
    decided_at: datetime | None = None
    mediator_id: str | None = None
    decision_hash: str | None = None
    appeal_until: datetime | None = None
    appeal_hash: str | None = None
    appealed_by: str | None = None
    watch_from: datetime | None = None

    @property
    def is_open(self) -> bool:
        return self.status in OPEN

    @property
    def watch_at(self) -> datetime | None:
        """When the second wake-up looks; None while it waits for a person to look."""
        if not self.is_open or self.needs_attention:
            return None
        anchor = self.deadline or self.decided_at or self.opened_at
        return max(anchor, self.watch_from or anchor) + WATCH_GRACE


def ask(dispute: Dispute, policy: Policy, now: datetime) -> Dispute:
    """The chef is asked for the first time: from now on the reply deadline runs."""
    deadline = now + timedelta(seconds=policy.reply_within)
    remind_at = min(now + timedelta(seconds=policy.remind_after), deadline)
    asked = replace(dispute, status=DisputeStatus.AWAITING_CHEF, deadline=deadline, remind_at=remind_at)
    return _on(asked)


def silence(dispute: Dispute, policy: Policy, now: datetime) -> Dispute:
    """The chef did not answer: the snapshotted rule decides, final at once."""
    refund = dispute.claimed if policy.silence is Silence.REFUND else 0
    return _decided(dispute, refund, Decider.SILENCE, now)


def answered(
    dispute: Dispute, reply: Reply, offered: int | None, reply_hash: str, policy: Policy, now: datetime
) -> Dispute:
    """The chef's answer: a concession ends it, an offer asks the customer, anything contested goes to a mediator."""
    said = _on(replace(dispute, reply=reply, reply_hash=reply_hash, offered=offered))
    match reply:
        case Reply.CONCEDE:
            return _decided(said, dispute.claimed, Decider.CONCESSION, now)
        case Reply.OFFER:
            deadline = now + timedelta(seconds=policy.offer_within)
            return replace(said, status=DisputeStatus.AWAITING_CUSTOMER, deadline=deadline)
        case Reply.CONTEST:
            return review(said, policy, now)


def offer_answered(dispute: Dispute, answer: OfferAnswer, policy: Policy, now: datetime) -> Dispute:
    said = _on(replace(dispute, offer_answer=answer))
    if answer is OfferAnswer.ACCEPT:
        return _decided(said, dispute.offered or 0, Decider.OFFER, now)
    return review(said, policy, now)


def review(dispute: Dispute, policy: Policy, now: datetime) -> Dispute:
    """A mediator has to decide, by a deadline of their own."""
    deadline = now + timedelta(seconds=policy.review_within)
    return _on(replace(dispute, status=DisputeStatus.IN_REVIEW, deadline=deadline))


def escalate(dispute: Dispute, policy: Policy, now: datetime) -> Dispute:
    """The review's deadline was missed: a new one, a bounded number of times, then it waits for a person."""
    if dispute.escalations >= policy.escalations:
        return replace(_on(dispute), deadline=None, needs_attention=True)
    deadline = now + timedelta(seconds=policy.review_within)
    return _on(replace(dispute, escalations=dispute.escalations + 1, deadline=deadline))


def decided(
    dispute: Dispute, refund: int, mediator_id: str, decision_hash: str, policy: Policy, now: datetime
) -> Dispute:
    """A mediator decides. The first decision can be appealed in its window, if the policy allows; a second is final."""
    first = dispute.status is DisputeStatus.IN_REVIEW
    after = replace(
        _decided(dispute, refund, Decider.MEDIATOR, now), mediator_id=mediator_id, decision_hash=decision_hash
    )
    if first and policy.appeals > 0:
        until = now + timedelta(seconds=policy.appeal_within)
        return replace(after, deadline=until, appeal_until=until)
    if not first and dispute.appeal_until is not None and now < dispute.appeal_until:
        return replace(after, deadline=dispute.appeal_until)
    return after


def appealed(dispute: Dispute, by: str, appeal_hash: str, policy: Policy, now: datetime) -> Dispute:
    """Another mediator has to decide. The execution waits out the window, the mediator may be quicker."""
    assert dispute.appeal_until is not None
    deadline = dispute.appeal_until + timedelta(seconds=policy.review_within)
    after = replace(dispute, status=DisputeStatus.IN_APPEAL, appealed_by=by, appeal_hash=appeal_hash, escalations=0)
    return _on(replace(after, deadline=deadline))


def may_settle(dispute: Dispute, now: datetime) -> bool:
    """Decided, with no appeal pending and the window over."""
    over = dispute.appeal_until is None or now >= dispute.appeal_until
    return dispute.status is DisputeStatus.DECIDED and over


def restarted(dispute: Dispute, now: datetime) -> Dispute:
    """The execution is gone: the next run, which resumes where the row stands. Too often in vain: a person."""
    if dispute.restarts >= MOST_RESTARTS:
        return replace(dispute, needs_attention=True, watch_from=now)
    return replace(dispute, run=dispute.run + 1, restarts=dispute.restarts + 1, watch_from=now)


def watched(dispute: Dispute, now: datetime) -> Dispute:
    """The execution still runs though the deadline is over: look again later; too often in vain: a person as well."""
    restarts = dispute.restarts + 1
    return replace(
        dispute, restarts=restarts, watch_from=now, needs_attention=dispute.needs_attention or restarts >= MOST_RESTARTS
    )


def resumed(dispute: Dispute, now: datetime) -> Dispute:
    """A person goes on with a dispute that had stopped: the next run resumes where the row stands."""
    return replace(dispute, run=dispute.run + 1, restarts=0, needs_attention=False, watch_from=now)


def _decided(dispute: Dispute, refund: int, by: Decider, now: datetime) -> Dispute:
    after = replace(dispute, status=DisputeStatus.DECIDED, refund=refund, decided_by=by, decided_at=now, deadline=None)
    return _on(after)


def _on(dispute: Dispute) -> Dispute:
    """It got on: what its second wake-up had counted and called for is over."""
    return replace(dispute, needs_attention=False, watch_from=None, restarts=0)
