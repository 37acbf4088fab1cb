"""The story that the demo tells and the end-to-end tests check: August to December, in six scenes.

Each `Statement` is checked exactly once, through the typed client and the events alone. Where time travels the story is
told on its real dates; where it does not, on deadlines of seconds.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Protocol

from duebook_client import Actor, Booking, CancellationTier, Event, HistoryEntry, Job, Local, Payment, Policy, TimeIn
from local import dispute_story
from local.world import WakeUp, World, schedule_instant

ZONE = "Europe/Berlin"
BEGINS = datetime(2026, 8, 1, 8, 0, tzinfo=UTC)
"""The demo's first instant; with it the wedding is on 14 November and moves to 12 December."""
PRICE, CURRENCY = 240_000, "EUR"
_SOON = timedelta(seconds=60)
"""What is due within this goes to its queue at once and has no schedule."""
_QUIET_WITHIN = timedelta(seconds=120)
"""More than the whole minute that Scheduler rounds to, and the time that work takes on a busy machine."""
_SWEPT_AFTER = timedelta(minutes=4)
"""The sweeper's grace of 2 minutes, its round of 1 minute, and a minute to spare."""


_RESTORED_IN_TIME = timedelta(minutes=5, seconds=30)
"""After that: time to reconcile, and more than the minute below which a job needs no schedule."""
_SWEEP_EVERY = timedelta(minutes=1)


class Statement(StrEnum):
    """What must hold for the story to be true."""

    REMINDER_PUT = "The reminder is pending, with one schedule at its instant."
    REMINDER_MOVED = "Put again, it is moved: one job, and no schedule at the old instant."
    REMINDER_DELETED = "The other reminder is deleted: no job, no schedule."
    NOTHING_AT_THE_OLD_INSTANT = "At the old instant nothing happens."
    REMINDER_FIRED = "At the new instant its event arrives, once, with its payload."
    DELETED_NEVER_FIRED = "The deleted reminder never fires."

    PAID = "Two weddings are booked for the same evening, accepted and paid."
    WEEK_LISTED = "The wedding week's pending work is listed in order."
    MOVED = "One wedding moves; its jobs move along, the caller's own anchored one too."
    ONE_SCHEDULE_EACH = "Every pending job has exactly one schedule, at its new instant."
    REJECTED = "The request that nobody accepted is rejected at its deadline."
    EXPIRED = "The booking that nobody paid expires at its deadline."
    TIERED_REFUND = "Cancelled 10 days before by the customer: half comes back, the chef gets the rest less the fee."
    CANCELLED_LEAVES_NOTHING = "The cancelled wedding has no job and no schedule left."

    FIRST_WEDDING = "The first wedding is closed, completed and paid out: in order, each at its instant."
    SECOND_UNTOUCHED = "Until then nothing has happened to the wedding that moved."
    ANCHORED_FIRED = "The own job that moved along arrives at its new instant, with its payload."
    SECOND_WEDDING = "The second wedding is closed, completed and paid out: in order, each at its instant."
    MONEY_ADDS_UP = "For every booking: captured = refunded + paid out + fee."

    NOTHING_MOVED = "Every wake-up twice more, one with an old generation: no booking has changed."
    ONE_TRANSFER = "Every payout and refund was sent exactly once."
    NO_NEW_EVENT = "No event was published by it."

    SCHEDULES_LOST = "All schedules are deleted behind the service's back."
    SWEPT = "What fell due is done all the same, by the sweeper: minutes late, not lost."
    RECONCILED = "Reconcile finds the schedules that are missing, and restores each."
    NO_DIFFERENCE = "A second reconcile finds no difference."
    RESTORED_RUN = "What was restored runs at its instant, by its schedule."

    DISPUTE_FREEZES = "Disputed, a booking has no payout any more, and at the payout's instant nobody is paid."
    DISPUTE_DECIDED = "Argued to the end: the chef's offer is refused, the mediator decides, the money moves once."
    DISPUTE_AT_ONCE = "An answer moves the dispute on within seconds, not at its deadline."
    DISPUTE_SILENT = "A silent chef is reminded, and loses at the deadline."


When = Callable[[datetime, datetime], TimeIn]
"""A time, from the story's beginning and the present."""


class Teller(Protocol):
    """Who hears the story."""

    def tell(self, what: str) -> None:
        """Something that happens."""

    def check(self, statement: Statement, holds: bool, found: object) -> None:
        """Whether a statement holds; `found` says what was seen. May raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How far apart things are. `policy` None: the service's default. Seconds of instants that are asked for are
    rounded up to `round_to`, so that on real dates nothing waits for Scheduler's whole minute."""

    round_to: timedelta

    reminder_in: timedelta
    reminder_moves_by: timedelta
    wedding: When
    moved: When
    other: When
    week: tuple[timedelta, timedelta]
    """Of the listing, about the wedding."""
    own_before: timedelta
    cancel_before: timedelta
    later_in: timedelta
    """From the last scene's beginning to the work that loses its schedule."""
    policy: Policy | None = None


ON_ITS_DATES = Pace(
    round_to=timedelta(minutes=1),
    reminder_in=timedelta(days=2),
    reminder_moves_by=timedelta(days=1),
    wedding=lambda began, now: _evening(began + timedelta(days=105)),
    moved=lambda began, now: _evening(began + timedelta(days=133)),
    other=lambda began, now: _evening(began + timedelta(days=111)),
    week=(timedelta(days=-3), timedelta(days=4)),
    own_before=timedelta(days=14),
    cancel_before=timedelta(days=10),
    later_in=timedelta(hours=2),
)
ON_SECONDS = Pace(
    round_to=timedelta(seconds=1),
    reminder_in=timedelta(seconds=15),
    reminder_moves_by=timedelta(seconds=15),
    wedding=lambda began, now: now + timedelta(seconds=100),
    moved=lambda began, now: now + timedelta(seconds=230),
    other=lambda began, now: now + timedelta(seconds=120),
    week=(timedelta(seconds=-5), timedelta(seconds=30)),
    own_before=timedelta(seconds=10),
    cancel_before=timedelta(seconds=50),
    later_in=timedelta(seconds=75),
    policy=Policy(
        accept_within=timedelta(seconds=20),
        pay_within=timedelta(seconds=12),
        event_length=timedelta(seconds=8),
        complete_after=timedelta(seconds=6),
        dispute_within=timedelta(seconds=8),
        fee_bps=1_000,
        cancellation=(
            CancellationTier(timedelta(seconds=100), 10_000),
            CancellationTier(timedelta(seconds=20), 5_000),
        ),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A line of the last table: something with an instant of its own that happened."""

    booking_id: str
    what: str
    due: datetime
    could: datetime
    """Not before the booking was made, or a dispute about it was over."""
    at: datetime
    woken_by: str

    @property
    def late(self) -> timedelta:
        return self.at - max(self.due, self.could)


class Story:
    """The scenes, to be played in the order of `SCENES`. `name` keeps two stories in one world apart."""

    def __init__(self, world: World, teller: Teller, *, name: str = "") -> None:
        self.world = world
        self.client = world.client
        self.pace = ON_ITS_DATES if world.travels else ON_SECONDS
        self.bookings: list[str] = []
        self._began = world.now()
        self._tell = teller.tell
        self._check = teller.check
        self._name = name

    # --- 1 ---------------------------------------------------------------------------------------------------------

    def schedules_only(self) -> None:
        """Schedules only: a reminder, for a booking that lives elsewhere"""
        booking_id = self._id("elsewhere-4711")
        first = self._now() + self.pace.reminder_in
        second = first + self.pace.reminder_moves_by
        payload = {"template": "menu-reminder", "to": "customer-17"}
        self.client.put_job(booking_id, "remind_menu", first, payload={"draft": True}, revision=1)
        self.client.put_job(booking_id, "remind_florist", first, payload={"template": "florist"})
        self.world.settle()
        self._tell(f"Two reminders are put for {_told(first)}.")
        pending = self._jobs(booking_id)
        self._check(
            Statement.REMINDER_PUT,
            pending["remind_menu"].run_at == first and self._schedules_match(booking_id),
            pending["remind_menu"],
        )

        self.client.put_job(booking_id, "remind_menu", second, payload=payload, revision=2)
        self.client.delete_job(booking_id, "remind_florist")
        self.world.settle()
        self._tell(f"One is moved to {_told(second)}, the other is deleted.")
        pending = self._jobs(booking_id)
        self._check(
            Statement.REMINDER_MOVED,
            pending["remind_menu"].run_at == second and self._schedules_match(booking_id),
            pending,
        )
        gone = "remind_florist" not in pending and "remind_florist" not in self.world.schedules_of(booking_id)
        self._check(Statement.REMINDER_DELETED, gone, pending)

        self._reach(first + self.pace.reminder_moves_by / 2)
        early = self.world.inbox.of(booking_id, "job.due")
        self._check(Statement.NOTHING_AT_THE_OLD_INSTANT, not early, early)
        self._reach(second)
        self._until_quiet(lambda: bool(self.world.inbox.of(booking_id, "job.due")))
        fired = self.world.inbox.of(booking_id, "job.due")
        right = [(event.job, event.due, event.payload) for event in fired] == [("remind_menu", second, payload)]
        self._check(Statement.REMINDER_FIRED, right and fired[0].at >= second, fired)
        others = [event for event in fired if event.job == "remind_florist"]
        self._check(Statement.DELETED_NEVER_FIRED, not others, others)
        self._tell(f"It fired {_late(fired[0])} after its instant.")

    # --- 2 ---------------------------------------------------------------------------------------------------------

    def august(self) -> None:
        """August: weddings are booked, moved, forgotten and cancelled"""
        now = self._now()
        wedding, moved_to = self.pace.wedding(self._began, now), self.pace.moved(self._began, now)
        first, second = self._id("ana-and-ben"), self._id("cleo-and-dan")
        unaccepted, unpaid, cancelled = self._id("eva-and-finn"), self._id("gina-and-hugo"), self._id("ida-and-jan")
        payload = {"ask": "final head count"}
        for booking_id in (first, second):
            self._book(booking_id, wedding)
            self.client.put_job(
                booking_id, "head_count", anchor="event_start", offset=-self.pace.own_before, payload=payload
            )
        self._book(cancelled, self.pace.other(self._began, now))
        for booking_id in (first, second, cancelled):
            self.client.accept(booking_id, actor=Actor("chef", "chef-1"))
            self.world.capture(booking_id, PRICE, CURRENCY, _charge(booking_id))
        ignored = self._book(unaccepted, wedding)
        self._book(unpaid, wedding)
        accepted = self.client.accept(unpaid, actor=Actor("chef", "chef-2"))
        self.world.settle()
        start = self.client.booking(first).event_start.instant
        self._tell(f"Two weddings on {_told(start)}, and three other bookings.")
        states = [self.client.booking(booking_id).state for booking_id in (first, second)]
        self._check(Statement.PAID, states == ["paid", "paid"], states)

        week = [start + side for side in self.pace.week]
        listed = [job for job in self.client.due(week[0], week[1]) if job.booking_id in (first, second)]
        names = ["close_event", "close_event", "complete_order", "complete_order", "release_payment", "release_payment"]
        in_order = [job.run_at for job in listed] == sorted(job.run_at for job in listed)
        self._check(Statement.WEEK_LISTED, [job.job for job in listed] == names and in_order, listed)
        for job in listed:
            self._tell(f"    {_told(job.run_at)}  {job.job:<16} {job.booking_id}")

        before = self._jobs(second)
        booking = self.client.move(second, event_start=moved_to, actor=Actor("customer"), reason="the hall is taken")
        self.world.settle()
        by = booking.event_start.instant - start
        after = self._jobs(second)
        moved = {name: job.run_at + by for name, job in before.items()}
        self._tell(f"{second} moves to {_told(booking.event_start.instant)}.")
        self._check(
            Statement.MOVED, {name: job.run_at for name, job in after.items()} == moved and len(after) == 4, after
        )
        matching = all(self._schedules_match(booking_id) for booking_id in (first, second, cancelled))
        self._check(Statement.ONE_SCHEDULE_EACH, matching, self.world.schedules())

        policy = ignored.policy
        assert policy.accept_within is not None
        assert policy.pay_within is not None
        assert accepted.accepted_at is not None
        deadline, pay_by = ignored.requested_at + policy.accept_within, accepted.accepted_at + policy.pay_within
        self._reach(max(deadline, pay_by))
        self._until_quiet(lambda: bool(self.world.inbox.of(unaccepted, "booking.rejected")))
        for booking_id, type_, at, statement in (
            (unaccepted, "booking.rejected", deadline, Statement.REJECTED),
            (unpaid, "booking.expired", pay_by, Statement.EXPIRED),
        ):
            events = self.world.inbox.of(booking_id, type_)
            on_time = [event.due for event in events] == [at] and self._was_on_time(events[0])
            self._check(statement, on_time and self._is_over(booking_id), events)

        start = self.client.booking(cancelled).event_start.instant
        self._reach(start - self.pace.cancel_before)
        self.client.cancel(cancelled, actor=Actor("customer", "customer-5"), reason="the wedding is off")
        self._until_quiet(lambda: all(payment.status == "done" for payment in self.client.payments(cancelled)))
        booking = self.client.booking(cancelled)
        paid = [(payment.kind, payment.amount_minor, payment.status) for payment in booking.payments]
        half = PRICE // 2
        right = paid == [("refund", half, "done"), ("payout", half * 9 // 10, "done")]
        self._tell(f"On {_told(self._now())} the customer of {cancelled} cancels.")
        self._check(Statement.TIERED_REFUND, right and booking.state == "cancelled", paid)
        self._check(Statement.CANCELLED_LEAVES_NOTHING, self._is_over(cancelled), self.world.schedules_of(cancelled))

    # --- 3 ---------------------------------------------------------------------------------------------------------

    def november_and_december(self) -> None:
        """November and December: the weddings take place, and the chefs are paid"""
        first, second = self._id("ana-and-ben"), self._id("cleo-and-dan")
        untouched = self.client.booking(second).version
        instants = self._instants(first)
        self._reach(instants[-1])
        self._until_quiet(lambda: self.client.booking(first).state == "paid_out")
        self._check(Statement.FIRST_WEDDING, *self._ended_well(first, instants))
        self._check(Statement.SECOND_UNTOUCHED, self.client.booking(second).version == untouched, second)
        self._tell(f"It is {_told(self._now())}: {first} is paid out.")

        own = self._jobs(second)["head_count"].run_at
        instants = self._instants(second)
        self._reach(own)
        self._until_quiet(lambda: bool(self.world.inbox.of(second, "job.due")))
        fired = self.world.inbox.of(second, "job.due")
        right = [(event.due, event.payload) for event in fired] == [(own, {"ask": "final head count"})]
        self._check(Statement.ANCHORED_FIRED, right, fired)
        self._reach(instants[-1])
        self._until_quiet(lambda: self.client.booking(second).state == "paid_out")
        self._check(Statement.SECOND_WEDDING, *self._ended_well(second, instants))
        self._tell(f"It is {_told(self._now())}: {second} is paid out.")
        books = [self.client.booking(booking_id) for booking_id in self.bookings]
        wrong = [booking for booking in books if not adds_up(booking)]
        self._check(Statement.MONEY_ADDS_UP, not wrong, wrong)

    # --- 4 ---------------------------------------------------------------------------------------------------------

    def delivered_again(self) -> None:
        """Every wake-up is delivered twice more, once with an old generation"""
        self.world.inbox.read()
        before, heard = self._versions(), len(self.world.inbox)
        wake_ups = [
            WakeUp(booking_id, entry.cause.job, generation)
            for booking_id in self.bookings
            for entry in self._history(booking_id)
            if entry.cause is not None and entry.cause.job is not None and entry.cause.generation is not None
            for generation in (entry.cause.generation, entry.cause.generation - 1)
        ]
        self._tell(f"{len(wake_ups)} messages for {len(self.bookings)} bookings go into the lanes' queues.")
        self.world.deliver(wake_ups)
        self.world.settle()
        self.world.inbox.read()
        after = self._versions()
        self._check(Statement.NOTHING_MOVED, bool(wake_ups) and after == before, (before, after))
        sent = {payment.payment_id: payment for booking_id in self.bookings for payment in self._payments(booking_id)}
        once = all(payment.status == "done" and (payment.attempt, payment.epoch) == (1, 1) for payment in sent.values())
        tries = [event.data["payment_id"] for event in self.world.inbox if event.type == "payment.attempted"]
        ours = sorted(payment_id for payment_id in tries if payment_id in sent)
        moved = self.world.stripe.moved() if self.world.stripe is not None else None
        agrees = moved is None or all(moved[payment_id] == 1 for payment_id in sent)
        self._check(Statement.ONE_TRANSFER, once and agrees and ours == sorted(sent), (sent, tries, moved))
        self._check(Statement.NO_NEW_EVENT, len(self.world.inbox) == heard, len(self.world.inbox) - heard)

    # --- 5 ---------------------------------------------------------------------------------------------------------

    def schedules_lost(self) -> None:
        """Every schedule is lost"""
        now = self._now()
        due = now + self.pace.later_in
        soon, later, reminded = self._id("kim-and-lee"), self._id("mia-and-noa"), self._id("elsewhere-4712")
        length = timedelta(seconds=self.pace.later_in.total_seconds() // 2)
        for booking_id, ends in ((soon, due), (later, due + _RESTORED_IN_TIME)):
            self._book(booking_id, ends - length, ends=ends, paid=True)
        self.client.put_job(reminded, "remind_cake", due, payload={"cake": "three tiers"})
        self.world.settle()
        lost = self.world.delete_all_schedules()
        self._tell(f"{lost} schedules are deleted; the service is not told.")
        self._check(Statement.SCHEDULES_LOST, lost >= 7 and not self.world.schedules(), lost)

        for minutes in range(_SWEPT_AFTER // _SWEEP_EVERY + 1):
            self._reach(due + minutes * _SWEEP_EVERY)
            if self._entries(soon, "booking.event_closed") and self._entries(reminded, "job.due"):
                break
        done = [*self._entries(soon, "booking.event_closed"), *self._entries(reminded, "job.due")]
        arrived = self.world.inbox.of(reminded, "job.due")
        right = [event.payload for event in arrived] == [{"cake": "three tiers"}]
        by_sweep = len(done) == 2 and all(entry.cause is not None and entry.cause.source == "sweep" for entry in done)
        self._check(Statement.SWEPT, right and by_sweep, done)
        for entry in done:
            self._tell(f"    {entry.type} came {_late(entry)} after its instant.")

        missing = [job for booking_id in (soon, later) for job in self._scheduled(booking_id)]
        report = self.world.reconcile()
        self.world.settle()
        restored = all(self._schedules_match(booking_id) for booking_id in (soon, later))
        self._tell(f"Reconcile checked {report.jobs_checked} jobs and found {report.differences} differences.")
        self._check(
            Statement.RECONCILED, bool(missing) and report.differences >= len(missing) and restored, (report, missing)
        )
        again = self.world.reconcile()
        self._check(Statement.NO_DIFFERENCE, again.differences == 0, again)

        at = self._jobs(later)["close_event"].run_at
        self._reach(schedule_instant(self._jobs(later)["close_event"]))
        self._until_quiet(lambda: bool(self.world.inbox.of(later, "booking.event_closed")))
        closed = self.world.inbox.of(later, "booking.event_closed")
        on_time = [event.due for event in closed] == [at] and self._was_on_time(closed[0])
        self._check(Statement.RESTORED_RUN, on_time, closed)

    # --- 6 ---------------------------------------------------------------------------------------------------------

    def disputed(self) -> None:
        """Disputes: answered, and not at all"""
        argued, silent = dispute_story.play(self.world, self._tell, name=self._name)
        self.bookings += [argued.booking.booking_id, silent.booking.booking_id]
        self._check(
            Statement.DISPUTE_FREEZES,
            "release_payment" in argued.jobs_before
            and argued.jobs_while_open == ("watch_dispute",)
            and argued.payments_while_open == (),
            argued,
        )
        moved = {(payment.kind, payment.amount_minor, payment.status) for payment in argued.booking.payments}
        decided = {("refund", dispute_story.DECISION, "done"), ("payout", 162_000, "done")}
        self._check(Statement.DISPUTE_DECIDED, moved == decided and adds_up(argued.booking), argued.booking)
        self._check(Statement.DISPUTE_AT_ONCE, argued.answered_within < timedelta(seconds=30), argued.answered_within)
        late = silent.decided_at - silent.deadline
        back = {("refund", dispute_story.CLAIM, "done"), ("payout", 129_600, "done")}
        lost = {(payment.kind, payment.amount_minor, payment.status) for payment in silent.booking.payments} == back
        on_time = timedelta() <= late < _QUIET_WITHIN
        self._check(Statement.DISPUTE_SILENT, lost and on_time and adds_up(silent.booking), (silent, late))
        self._tell("The timeline of the dispute that was argued:")
        for line in dispute_story.timeline(argued.history):
            self._tell(f"  {line}")

    # --- the end ---------------------------------------------------------------------------------------------------

    def what_ran(self) -> list[Ran]:
        """Everything that had an instant of its own, by that instant."""
        books = (*self.bookings, self._id("elsewhere-4711"), self._id("elsewhere-4712"))
        ran = [line for booking_id in books for line in _ran(booking_id, self._history(booking_id))]
        return sorted(ran, key=lambda line: (line.due, line.booking_id))

    # --- acting ----------------------------------------------------------------------------------------------------

    def _book(self, booking_id: str, start: TimeIn, *, ends: TimeIn | None = None, paid: bool = False) -> Booking:
        self.bookings.append(booking_id)
        self.world.chef(f"chef-{len(self.bookings)}")
        if paid and self.world.stripe is not None:
            self.world.stripe.charged(booking_id, _charge(booking_id), PRICE, CURRENCY)
        return self.client.put_booking(
            booking_id,
            customer_id=f"customer-{len(self.bookings)}",
            chef_id=f"chef-{len(self.bookings)}",
            event_start=start,
            event_end=ends,
            price_minor=PRICE,
            currency=CURRENCY,
            policy=self.pace.policy,
            state="paid" if paid else None,
            paid_at=self.world.now() if paid else None,
            captured_minor=PRICE if paid else None,
            charge_ref=_charge(booking_id) if paid else None,
        )

    def _reach(self, instant: datetime) -> None:
        """Be where everything due at `instant` is done; a schedule stands at the next whole minute."""
        self.world.reach(_up(instant, self.pace.round_to))

    def _until_quiet(self, condition: Callable[[], bool]) -> None:
        """Wait for what is under way; a condition that never comes true shows in the check that follows."""

        def heard() -> bool:
            self.world.inbox.read()
            return condition()

        self.world.settle()
        self.world.wait(heard, within=_QUIET_WITHIN)
        self.world.settle()
        self.world.inbox.read()

    # --- looking ---------------------------------------------------------------------------------------------------

    def _id(self, name: str) -> str:
        return f"{name}{self._name}"

    def _now(self) -> datetime:
        """The present, rounded up as the pace asks."""
        return _up(self.world.now(), self.pace.round_to)

    def _jobs(self, booking_id: str) -> dict[str, Job]:
        return {job.job: job for job in self.client.jobs(booking_id)}

    def _history(self, booking_id: str) -> list[HistoryEntry]:
        return list(self.client.history(booking_id))

    def _entries(self, booking_id: str, type_: str) -> list[HistoryEntry]:
        return [entry for entry in self._history(booking_id) if entry.type == type_]

    def _payments(self, booking_id: str) -> Sequence[Payment]:
        return self.client.payments(booking_id)

    def _versions(self) -> dict[str, tuple[int, str]]:
        books = [self.client.booking(booking_id) for booking_id in self.bookings]
        return {booking.booking_id: (booking.version, booking.state) for booking in books}

    def _scheduled(self, booking_id: str) -> list[Job]:
        """The pending jobs that are far enough away to need a schedule."""
        near = self.world.now() + _SOON
        return [job for job in self.client.jobs(booking_id) if job.status == "pending" and schedule_instant(job) > near]

    def _schedules_match(self, booking_id: str) -> bool:
        """Whether each pending job has exactly the schedule it needs, and there is no other."""
        needed = {job.job: schedule_instant(job) for job in self._scheduled(booking_id)}
        allowed = {job.job: schedule_instant(job) for job in self.client.jobs(booking_id)}
        found = self.world.schedules_of(booking_id)
        return needed.items() <= found.items() <= allowed.items()

    def _is_over(self, booking_id: str) -> bool:
        return not self.client.jobs(booking_id) and not self.world.schedules_of(booking_id)

    def _was_on_time(self, event: Event) -> bool:
        """Whether it happened at its instant, by its own wake-up and not by the sweeper."""
        (entry,) = [entry for entry in self._history(event.booking_id) if entry.version == event.version]
        assert event.due is not None
        return event.at >= event.due and entry.cause is not None and entry.cause.source in ("schedule", "queue")

    def _instants(self, booking_id: str) -> list[datetime]:
        """When a paid booking's built-in jobs are due, in order."""
        jobs = self._jobs(booking_id)
        return [jobs[name].run_at for name in ("close_event", "complete_order", "release_payment")]

    def _ended_well(self, booking_id: str, instants: Sequence[datetime]) -> tuple[bool, object]:
        timed = ["booking.event_closed", "booking.completed", "booking.payout_decided"]
        events = self.world.inbox.of(booking_id, *timed, "booking.paid_out")
        right = [event.type for event in events] == [*timed, "booking.paid_out"]
        on_time = [event.due for event in events[:3]] == list(instants) and all(map(self._was_on_time, events[:3]))
        payments = [(payment.kind, payment.amount_minor) for payment in self._payments(booking_id)]
        paid = payments == [("payout", PRICE * 9 // 10)]
        return right and on_time and paid and self._is_over(booking_id), (events, payments)


SCENES: tuple[Callable[[Story], None], ...] = (
    Story.schedules_only,
    Story.august,
    Story.november_and_december,
    Story.delivered_again,
    Story.schedules_lost,
    Story.disputed,
)


def title(scene: Callable[[Story], None]) -> str:
    """A scene's own words."""
    return (scene.__doc__ or "").strip()


def _charge(booking_id: str) -> str:
    return f"ch_{booking_id}"


def _ran(booking_id: str, history: Sequence[HistoryEntry]) -> Iterator[Ran]:
    could: datetime | None = None
    for entry in history:
        if entry.due is None:
            could = entry.at
            continue
        yield Ran(
            booking_id=booking_id,
            what=f"{entry.type} ({entry.job})" if entry.type == "job.due" else entry.type,
            due=entry.due,
            could=could or entry.due,
            at=entry.at,
            woken_by=entry.cause.source if entry.cause else "",
        )


def _evening(day: datetime) -> Local:
    return Local(f"{day:%Y-%m-%d}T18:00:00", ZONE)


def _up(instant: datetime, step: timedelta) -> datetime:
    rest = (instant - datetime.min.replace(tzinfo=UTC)) % step
    return instant + (step - rest if rest else rest)


def _told(instant: datetime) -> str:
    return f"{instant:%a %d %b %Y %H:%M:%S} UTC"


def _late(thing: Event | HistoryEntry) -> str:
    assert thing.due is not None
    return f"{(thing.at - thing.due).total_seconds():.1f} s"


def adds_up(booking: Booking) -> bool:
    """Of what was captured; a booking that was never paid has moved nothing."""
    paid_out = sum(payment.amount_minor for payment in booking.payments if payment.kind == "payout")
    refunded = sum(payment.amount_minor for payment in booking.payments if payment.kind == "refund")
    fee: int = booking.raw["fee_minor"]
    return booking.captured_minor == refunded + paid_out + fee and booking.refunded_minor == refunded
