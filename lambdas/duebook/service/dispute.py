"""The dispute's use cases: what people do to it, and what its workflow asks for.

Whoever answers commits the answer first and THEN reads the token and sends it; the notifier stores its token only on
an unanswered dispute, else it completes the task itself. So a token that is replaced in between loses nothing, and
the check of the row at the deadline is the last net.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from duebook.domain import dispute_steps as steps
from duebook.domain.booking import Booking
from duebook.domain.dispute import IN_REVIEW, Dispute, DisputeStatus, may_settle
from duebook.domain.errors import ConditionFailed, Contention, NotFound, VersionConflict
from duebook.domain.names import WATCH_DISPUTE, parent
from duebook.domain.times import iso, whole_second
from duebook.domain.transitions import Step
from duebook.service import rows
from duebook.service.bookings import MOST_TRIES, Bookings, Key
from duebook.service.ports import Check, If, Put, Queues, WakeUp, Workflow, Write
from duebook.service.rows import Cause
from duebook.service.wake import Woken, wake

API = Cause(source="api")
WORKFLOW = Cause(source="workflow")
MOST_LOOKS = 5
EARLY = timedelta(seconds=2)
"""A wait may end this early (Step Functions cuts milliseconds, clocks differ): the check waits for the deadline."""
TOKEN_IS_KEPT = timedelta(days=400)

_STAGES = {
    "ask": (DisputeStatus.AWAITING_CHEF,),
    "remind": (DisputeStatus.AWAITING_CHEF,),
    "offer": (DisputeStatus.AWAITING_CUSTOMER,),
    "review": IN_REVIEW,
}


@dataclass(frozen=True, slots=True)
class Route:
    """Where the workflow goes: the name of its next state; `until` and `deadline` as ISO instants, else empty."""

    next: str
    until: str = ""
    deadline: str = ""


class Disputes:
    """`sleep` is only used to sit out the last moments before a deadline, 2 s at most."""

    def __init__(self, bookings: Bookings, workflow: Workflow, sleep: Callable[[float], None] = time.sleep) -> None:
        self.bookings = bookings
        self.workflow = workflow
        self._sleep = sleep

    def dispute(self, dispute_id: str) -> tuple[Booking, Dispute]:
        """The booking and its dispute: one consistent read. Raises `NotFound`."""
        return _of(self.bookings.load(parent(dispute_id)), dispute_id)

    def act(
        self, dispute_id: str, decide: Callable[[Booking, datetime], Step | None], key: Key | None = None
    ) -> tuple[Booking, bool]:
        """A person's act: one transaction, then one read of the token, then one send.

        A repeat sends the token again: the first time may have stopped in between. When sending fails, this raises
        `AwsFailure` though the act counts: it is in the row.
        """

        def known(booking: Booking | None, now: datetime) -> Step | None:
            found, _ = _of(booking, dispute_id)
            return decide(found, now)

        booking, applied = self.bookings.change(parent(dispute_id), API, known, key)
        assert booking is not None
        self._wake_workflow(dispute_id)
        return booking, applied

    # --- what the workflow asks for ------------------------------------------------------------------------------

    def look(self, dispute_id: str, run: int) -> Route:
        """Apply what is due in the dispute, and say where the workflow goes."""
        booking, dispute = self.dispute(dispute_id)
        if dispute.run != run:
            return Route("NotForThisRun")
        if dispute.deadline is not None:
            left = dispute.deadline - self.bookings.clock()
            if timedelta() < left <= EARLY:
                self._sleep(left.total_seconds())
        for _ in range(MOST_LOOKS):
            found, changed = self.bookings.change(booking.booking_id, WORKFLOW, self._due)
            booking, dispute = _of(found, dispute_id)
            if not changed:
                break
        return route(dispute, self.bookings.clock())

    def notify(self, dispute_id: str, run: int, stage: str, token: str) -> str:
        """Store the token of a waiting state, only while its answer is missing; else complete the state at once."""
        for _ in range(MOST_TRIES):
            booking, dispute = self.dispute(dispute_id)
            now = self.bookings.clock()
            waits = dispute.deadline is not None and now < dispute.deadline
            if dispute.run != run or dispute.status not in _STAGES[stage] or not waits:
                self.workflow.succeed(token)
                return "nobody is waited for: completed at once"
            put = _token_put(booking.booking_id, dispute_id, run, token, now)
            step = steps.remind(booking, now) if stage == "remind" else None
            try:
                if step:
                    self.bookings.commit(booking, step, WORKFLOW, also=(put,))
                else:
                    unchanged = Check(pk=booking.booking_id, sk=rows.BOOKING_SK, condition=_version(booking))
                    self.bookings.table.write(unchanged, put)
                return f"waiting for an answer to {stage}"
            except (ConditionFailed, Contention):
                continue
        raise VersionConflict(f"{dispute_id} kept changing", booking_id=parent(dispute_id))

    def settle(self, dispute_id: str) -> None:
        """Carry the decision out, once. Raises `Refused` when there is nothing to carry out yet."""
        self.bookings.change(parent(dispute_id), WORKFLOW, lambda b, now: steps.settle(_of(b, dispute_id)[0], now))

    # --- the second wake-up --------------------------------------------------------------------------------------

    def watch(self, queues: Queues, wake_up: WakeUp, source: str) -> Woken:
        """`watch_dispute` is due: the deadline is over and the dispute has not moved on.

        An execution that still waits gets its token once more: an answer's own sending of it may have failed.
        """
        woken = wake(self.bookings, queues, wake_up, source)
        planned = woken.booking.planned.get(WATCH_DISPUTE) if woken.booking else None
        if woken.booking is None or planned is None or planned.run_at > self.bookings.clock():
            return woken
        assert woken.booking.engagement is not None
        assert woken.booking.engagement.dispute is not None
        dispute = woken.booking.engagement.dispute
        running = self.workflow.is_running(dispute.dispute_id, dispute.run)
        if running:
            self._wake_workflow(dispute.dispute_id)
        cause = Cause(source=source, job=wake_up.job, generation=wake_up.generation)

        def decide(booking: Booking | None, now: datetime) -> Step | None:
            found, latest = _of(booking, dispute.dispute_id)
            return steps.watch(found, running, now) if latest.run == dispute.run else None

        booking, _ = self.bookings.change(wake_up.booking_id, cause, decide)
        return Woken(
            booking, f"the workflow's run {dispute.run} is {'late' if running else 'gone'}", woken.transitions + 1
        )

    def start(self, booking_id: str) -> str:
        """Make the execution of the dispute's current run exist: the projection of `watch_dispute`."""
        booking = self.bookings.load(booking_id)
        dispute = booking.engagement.dispute if booking and booking.engagement else None
        if dispute is None or dispute.watch_at is None:
            return "no execution is needed"
        started = self.workflow.start(dispute.dispute_id, dispute.run)
        return f"run {dispute.run} {'is started' if started else 'has ended'}"

    def _due(self, booking: Booking | None, now: datetime) -> Step | None:
        assert booking is not None
        return steps.look(booking, now)

    def _wake_workflow(self, dispute_id: str) -> bool:
        row = self.bookings.table.get(parent(dispute_id), _token_sk(dispute_id))
        return row is not None and self.workflow.succeed(row["token"])


def route(dispute: Dispute, now: datetime) -> Route:
    """The workflow's next state for a dispute as it stands: a new run resumes here."""
    deadline = iso(dispute.deadline) if dispute.deadline else ""
    match dispute.status:
        case DisputeStatus.AWAITING_CHEF:
            remind_at = dispute.remind_at or dispute.deadline
            if dispute.reminded or remind_at is None or now >= remind_at:
                return Route("RemindChef", deadline, deadline)
            return Route("AskChef", iso(remind_at), deadline)
        case DisputeStatus.AWAITING_CUSTOMER:
            return Route("AskCustomer", deadline, deadline)
        case DisputeStatus.IN_REVIEW | DisputeStatus.IN_APPEAL:
            return Route("HumanReview", deadline, deadline) if deadline else Route("NeedsPerson")
        case DisputeStatus.DECIDED:
            if may_settle(dispute, now):
                return Route("Settle")
            # A wait's timestamp is cut to the second (Step Functions guide, "Wait state").
            until = dispute.deadline and iso(whole_second(dispute.deadline))
            return Route("WaitForAppeal", until or "", deadline)
        case DisputeStatus.SETTLED:
            return Route("Settled")
        case DisputeStatus.WITHDRAWN:
            return Route("Withdrawn")
        case DisputeStatus.OPENED:
            return Route("NeedsPerson")


def _of(booking: Booking | None, dispute_id: str) -> tuple[Booking, Dispute]:
    dispute = booking.engagement.dispute if booking and booking.engagement else None
    if booking is None or dispute is None or dispute.dispute_id != dispute_id:
        raise NotFound(f"there is no dispute {dispute_id}")
    return booking, dispute


def _token_sk(dispute_id: str) -> str:
    return f"token#{dispute_id}"


def _token_put(booking_id: str, dispute_id: str, run: int, token: str, now: datetime) -> Write:
    expires = int((now + TOKEN_IS_KEPT).timestamp())
    return Put(item={"pk": booking_id, "sk": _token_sk(dispute_id), "token": token, "run": run, "expires_at": expires})


def _version(booking: Booking) -> If:
    return If(equals={"version": booking.version})


def shown(route_: Route) -> dict[str, Any]:
    """As the workflow reads it: every field there, for an undefined one fails a JSONata expression."""
    return {"next": route_.next, "until": route_.until, "deadline": route_.deadline}
