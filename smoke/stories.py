"""The end-to-end stories on deadlines of minutes, played through the API and heard by events.

Scheduler's precision is a minute (EventBridge Scheduler user guide, "Schedule types"), so nothing here is shorter than
that, and the longest story takes about eight. Prices are a few units: where the marketplace itself is asked to pay, it
should see at a glance that nobody is owed anything.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from duebook_client import Actor, Booking, CancellationTier, NotFound, Policy
from local.story import adds_up
from smoke.deployment import Deployment
from smoke.runner import Check, Failed, Partly, Steps, Wait

PRICE, CURRENCY = 1_000, "EUR"
CHEF, CUSTOMER = Actor("chef", "smoke-chef"), Actor("customer", "smoke-customer")
MINUTE = timedelta(minutes=1)
SOON = 2 * MINUTE
"""For what takes seconds: the stream, a queue, a function that was cold."""
AFTER = 4 * MINUTE
"""From an instant to its effect: Scheduler's minute, and what takes seconds; or the sweeper's round, if that is who
woke it."""
POLICY = Policy(
    accept_within=10 * MINUTE,
    pay_within=10 * MINUTE,
    complete_after=MINUTE,
    dispute_within=MINUTE,
    fee_bps=1_000,
    cancellation=(CancellationTier(timedelta(days=1), 5_000),),
    reply_within=2 * MINUTE,
    remind_after=MINUTE,
    offer_within=2 * MINUTE,
    review_within=10 * MINUTE,
    silence="refund",
)


def stories(deployment: Deployment) -> list[Check]:
    """All but the last, which compares what they left."""
    told: Mapping[str, Callable[[Deployment], Steps]] = {
        "schedules only: put, moved, deleted, fired": schedules_only,
        "lifecycle: booked, moved, completed, paid out": lifecycle,
        "deadlines: not accepted, not paid": deadlines,
        "cancelled: half refunded, the rest paid out": cancelled,
        "dispute that the chef concedes": conceded,
        "dispute that the chef does not answer": silent,
    }
    return [Check(name=name, begin=_bound(story, deployment)) for name, story in told.items()]


def reconciled(deployment: Deployment) -> Check:
    """What every story left, and everything else, compared."""
    return Check(name="reconcile: 0 differences", begin=lambda: _reconcile(deployment))


def _bound(story: Callable[[Deployment], Steps], deployment: Deployment) -> Callable[[], Steps]:
    return lambda: story(deployment)


# --- the stories ---------------------------------------------------------------------------------------------------


def schedules_only(d: Deployment) -> Steps:
    booking_id = d.id("schedules")
    first, second = d.in_minutes(2), d.in_minutes(3)
    d.client.put_job(booking_id, "remind", first, payload={"draft": True}, revision=1)
    d.client.put_job(booking_id, "forget", first, payload={"draft": True})
    yield _until(
        d,
        "both jobs have their schedules",
        lambda: [d.schedule_of(booking_id, job) for job in ("remind", "forget")] == [first, first],
        by=first,
    )
    d.client.put_job(booking_id, "remind", second, payload={"say": "smoke"}, revision=2)
    d.client.delete_job(booking_id, "forget")
    yield _until(
        d,
        "one schedule is moved and the other deleted",
        lambda: [d.schedule_of(booking_id, job) for job in ("remind", "forget")] == [second, None],
        by=first,
    )
    yield _heard(d, booking_id, "job.due", by=second + AFTER)
    fired = d.inbox.of(booking_id, "job.due")
    right = [(event.job, event.due, event.payload) for event in fired] == [("remind", second, {"say": "smoke"})]
    _expect(
        right and fired[0].at >= second, "the moved job fires once, with its payload, not before its instant", fired
    )
    yield _until(d, "nothing is left", lambda: _is_over(d, booking_id, "remind", "forget"), by=second + AFTER + SOON)
    return f"fired {_late(fired[0].at, second)} after its instant, with its payload"


def lifecycle(d: Deployment) -> Steps:
    booking_id = d.id("lifecycle")
    starts = d.in_minutes(1)
    _book(d, booking_id, starts=starts, ends=starts + MINUTE)
    d.client.accept(booking_id, actor=CHEF)
    d.client.pay(booking_id, captured_minor=PRICE, charge_ref=f"{booking_id}-charge")
    moved = d.client.move(booking_id, event_start=starts + MINUTE, event_end=starts + 2 * MINUTE, actor=CUSTOMER)
    ends = starts + 2 * MINUTE
    _expect(moved.event_end.instant == ends, "the event moves", moved.event_end)
    due = {"close_event": ends, "complete_order": ends + MINUTE, "release_payment": ends + 2 * MINUTE}
    found = {job.job: job.run_at for job in d.client.jobs(booking_id)}
    _expect(found == due, "its jobs move with it", found)
    timed = ("booking.event_closed", "booking.completed", "booking.payout_decided")
    for type_, at in zip(timed, due.values(), strict=True):
        yield _heard(d, booking_id, type_, by=at + AFTER)
    instants = [event.due for event in d.inbox.of(booking_id, *timed)]
    _expect(instants == list(due.values()), "each step is due at its planned instant", instants)
    late = max(event.at - event.due for event in d.inbox.of(booking_id, *timed) if event.due is not None)
    yield from _money(d, booking_id, [("payout", PRICE * 9 // 10)])
    yield _heard(d, booking_id, "booking.paid_out", by=d.now() + SOON)
    yield _until(d, "nothing is left", lambda: _is_over(d, booking_id, *due), by=d.now() + SOON)
    return f"paid out; each step at its instant, {late.total_seconds():.0f} s late at most"


def deadlines(d: Deployment) -> Steps:
    unaccepted, unpaid = d.id("unaccepted"), d.id("unpaid")
    starts = d.in_minutes(60)
    for booking_id in (unaccepted, unpaid):
        _book(d, booking_id, starts=starts, policy=replace(POLICY, accept_within=SOON, pay_within=SOON))
    d.client.accept(unpaid, actor=CHEF)
    deadline = d.now() + SOON
    yield _heard(d, unaccepted, "booking.rejected", by=deadline + AFTER)
    yield _heard(d, unpaid, "booking.expired", by=deadline + AFTER)
    for booking_id, job in ((unaccepted, "reject_request"), (unpaid, "cancel_unpaid")):
        yield _until(d, "nothing is left", _over(d, booking_id, job), by=deadline + AFTER + SOON)
    return "rejected and expired, each at its deadline"


def cancelled(d: Deployment) -> Steps:
    booking_id = d.id("cancelled")
    _book(d, booking_id, starts=d.in_minutes(3 * 24 * 60), paid=True)
    d.client.cancel(booking_id, actor=CUSTOMER, reason="the party is off")
    half = PRICE // 2
    yield from _money(d, booking_id, [("refund", half), ("payout", half * 9 // 10)])
    built_in = ("close_event", "complete_order", "release_payment")
    yield _until(d, "nothing is left", lambda: _is_over(d, booking_id, *built_in), by=d.now() + SOON)
    _adds_up(d, booking_id)
    return "refunded by the policy's tier, the rest paid out, no job and no schedule left"


def conceded(d: Deployment) -> Steps:
    booking_id = d.id("conceded")
    released = _disputed(d, booking_id, claim=400)
    yield _heard(d, booking_id, "dispute.chef_asked", by=d.now() + SOON)
    jobs = {job.job for job in d.client.jobs(booking_id)}
    _expect("release_payment" not in jobs, "the dispute freezes the payout", jobs)
    began = d.now()
    d.client.reply(f"{booking_id}.d1", "concede", actor=CHEF)
    yield _heard(d, booking_id, "dispute.settled", by=began + SOON)
    settled = d.inbox.of(booking_id, "dispute.settled")[0].at - began
    return (yield from _settled(d, booking_id, 400, released)) + f", {settled.total_seconds():.0f} s after the answer"


def silent(d: Deployment) -> Steps:
    booking_id = d.id("silent")
    released = _disputed(d, booking_id, claim=600)
    yield _heard(d, booking_id, "dispute.chef_asked", by=d.now() + SOON)
    deadline = d.client.dispute(f"{booking_id}.d1").deadline
    _expect(deadline is not None, "the chef has a deadline", deadline)
    assert deadline is not None
    yield _heard(d, booking_id, "dispute.chef_reminded", by=deadline)
    yield _heard(d, booking_id, "dispute.decided", by=deadline + AFTER)
    decided = d.inbox.of(booking_id, "dispute.decided")[0]
    _expect(decided.at >= deadline, "nobody decides for the silent before the deadline", decided)
    return (yield from _settled(d, booking_id, 600, released)) + f", {_late(decided.at, deadline)} after the deadline"


def _reconcile(d: Deployment) -> Steps:
    """Twice if need be: what others change at this moment may look like a difference, and is none the second time."""
    counts = []
    for _ in range(2):
        begun = d.now().replace(microsecond=0)
        d.client.start_reconcile()
        yield _until(d, "reconcile ends", lambda begun=begun: _reconciled_since(d, begun), by=d.now() + 10 * MINUTE)  # type: ignore[misc]
        report = d.client.reconcile_report()
        counts.append(report.differences)
        if report.differences == 0:
            others = f" (at first {counts[0]}, put right)" if len(counts) > 1 else ""
            return f"{report.jobs_checked} jobs and {report.bookings_checked} bookings compared{others}"
    raise Failed(f"differences: {counts[0]}, and again {counts[1]}: {report.raw.get('examples')}")


# --- what they share -----------------------------------------------------------------------------------------------


def _book(
    d: Deployment,
    booking_id: str,
    *,
    starts: datetime,
    ends: datetime | None = None,
    paid: bool = False,
    policy: Policy = POLICY,
) -> Booking:
    return d.client.put_booking(
        booking_id,
        customer_id=CUSTOMER.id or "",
        chef_id=CHEF.id or "",
        event_start=starts,
        event_end=ends or starts + 60 * MINUTE,
        price_minor=PRICE,
        currency=CURRENCY,
        policy=policy,
        state="paid" if paid else None,
        paid_at=min(d.now(), starts) if paid else None,
        captured_minor=PRICE if paid else None,
        charge_ref=f"{booking_id}-charge" if paid else None,
    )


def _disputed(d: Deployment, booking_id: str, *, claim: int) -> datetime:
    """A paid booking whose event is over, disputed by the customer; the payout's ordinary instant."""
    ends = d.in_minutes(-2)
    within = 5 * MINUTE
    policy = replace(POLICY, dispute_within=within)
    _book(d, booking_id, starts=ends - 60 * MINUTE, ends=ends, paid=True, policy=policy)
    d.client.open_dispute(
        booking_id, actor=CUSTOMER, claimed_minor=claim, reason="a course was missing", text="The dessert was missing."
    )
    return ends + MINUTE + within


def _settled(d: Deployment, booking_id: str, refund: int, released: datetime) -> Generator[Wait, None, str]:
    """The refund moves at once, the rest at the payout's ordinary instant, and nothing is left."""
    yield _heard(d, booking_id, "dispute.settled", by=d.now() + AFTER)
    yield _heard(d, booking_id, "booking.payout_decided", by=max(d.now(), released) + AFTER)
    at = d.inbox.of(booking_id, "booking.payout_decided")[0].at
    _expect(at >= released, "nobody is paid before the ordinary instant", at)
    yield from _money(d, booking_id, [("refund", refund), ("payout", (PRICE - refund) * 9 // 10)])
    yield _until(d, "nothing is left", lambda: _is_over(d, booking_id, "watch_dispute"), by=d.now() + SOON)
    _adds_up(d, booking_id)
    return "refunded, and the rest paid at its ordinary instant"


def _money(d: Deployment, booking_id: str, wanted: Sequence[tuple[str, int]]) -> Generator[Wait, None, None]:
    """Exactly these payments, each done once: by the service, or by us where the marketplace is asked to pay."""

    def moved() -> bool:
        d.inbox.read()
        payments = d.client.payments(booking_id)
        for payment in payments:
            asked = [
                event
                for event in d.inbox.of(booking_id, "payment.requested")
                if event.data["payment_id"] == payment.payment_id
            ]
            if payment.status == "unknown" and asked:
                _expect(
                    asked[-1].data["key"] == payment.idempotency_key
                    and asked[-1].data["amount_minor"] == payment.amount_minor,
                    "the event asks for what the payment says",
                    asked,
                )
                d.client.payment_result(payment.payment_id, status="done", provider_ref=f"{payment.payment_id}-smoke")
        stuck = d.inbox.of(booking_id, "payment.parked", "payment.failed")
        if stuck:
            raise Partly(
                f"decided, and not moved ({payments[-1].reason}): a provider needs real charges and accounts for that"
            )
        return len(payments) == len(wanted) and {payment.status for payment in payments} == {"done"}

    yield _until(d, "the money moves", moved, by=d.now() + AFTER)
    found = [(payment.kind, payment.amount_minor) for payment in d.client.payments(booking_id)]
    _expect(found == list(wanted), "exactly these payments", found)
    attempts = {payment.attempt for payment in d.client.payments(booking_id)}
    _expect(attempts == {1}, "each was sent once", attempts)


def _until(d: Deployment, what: str, condition: Callable[[], bool], *, by: datetime) -> Wait:
    return Wait(what=what, until=condition, by=by)


def _heard(d: Deployment, booking_id: str, type_: str, *, by: datetime) -> Wait:
    def heard() -> bool:
        if not d.inbox.of(booking_id, type_):
            d.inbox.read()
        return bool(d.inbox.of(booking_id, type_))

    return _until(d, f"{type_} of {booking_id}", heard, by=by)


def _expect(holds: bool, what: str, found: object) -> None:
    if not holds:
        raise Failed(f"it does not hold that {what}; found {found}")


def _is_over(d: Deployment, booking_id: str, *jobs: str) -> bool:
    """No job is left, and no schedule of these."""
    return not d.client.jobs(booking_id) and not any(d.schedule_of(booking_id, job) for job in jobs)


def _over(d: Deployment, booking_id: str, job: str) -> Callable[[], bool]:
    return lambda: _is_over(d, booking_id, job)


def _adds_up(d: Deployment, booking_id: str) -> None:
    booking = d.client.booking(booking_id)
    _expect(adds_up(booking), "captured = refunded + paid out + fee", booking)


def _reconciled_since(d: Deployment, begun: datetime) -> bool:
    try:
        report = d.client.reconcile_report()
    except NotFound:
        return False
    return report.is_done and report.started_at >= begun


def _late(at: datetime, due: datetime) -> str:
    return f"{(at - due).total_seconds():.0f} s"
