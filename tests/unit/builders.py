"""A wedding on 14 November, booked in August, and short ways to bring it into any state."""

from datetime import UTC, datetime, timedelta
from typing import Any

from duebook.domain import transitions
from duebook.domain.booking import Actor, Booking, Engagement, OwnJob, Role, State
from duebook.domain.policy import Policy
from duebook.domain.times import Moment, moment
from duebook.domain.transitions import Step

MS = timedelta(milliseconds=1)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

AUGUST = datetime(2026, 8, 1, 10, tzinfo=UTC)
START = datetime(2026, 11, 14, 17, tzinfo=UTC)
END = START + 4 * HOUR
COMPLETE = END + 3 * HOUR
RELEASE = COMPLETE + DAY

CUSTOMER = Actor(Role.CUSTOMER, "c-1")
CHEF = Actor(Role.CHEF, "ch-1")
OPERATOR = Actor(Role.OPERATOR, "op-1")


def utc(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> datetime:
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC)


def at(instant: datetime) -> Moment:
    return moment(instant.isoformat(), "at")


def engagement(**changes: Any) -> Engagement:
    values: dict[str, Any] = {
        "state": State.REQUESTED,
        "customer_id": "c-1",
        "chef_id": "ch-1",
        "event_start": at(START),
        "event_end": at(END),
        "price": 100_000,
        "currency": "EUR",
        "policy": Policy(),
        "requested_at": AUGUST,
        "request_hash": "h0",
    }
    return Engagement(**(values | changes))


def in_state(state: State, **changes: Any) -> Engagement:
    """An engagement as it is taken over in that state."""
    values: dict[str, Any] = {"state": state}
    if state not in (State.REQUESTED, State.REJECTED):
        values["accepted_at"] = AUGUST
    if state not in (State.REQUESTED, State.ACCEPTED, State.REJECTED, State.EXPIRED, State.CANCELLED):
        values |= {"paid_at": AUGUST, "captured": 100_000, "charge_ref": "ch_1"}
    return engagement(**(values | changes))


def booking(state: State = State.REQUESTED, now: datetime = AUGUST, **changes: Any) -> Booking:
    """A managed booking in that state, reached by transitions where it cannot be taken over in it."""
    match state:
        case State.REJECTED:
            return must(transitions.decline(booking(now=now, **changes), CHEF, None, now))
        case State.EXPIRED:
            return must(transitions.advance(booking(State.ACCEPTED, **changes), AUGUST + 12 * HOUR))
        case State.CANCELLED:
            return must(transitions.cancel(booking(State.PAID, **changes), CUSTOMER, None, None, now))
        case State.PAYING:
            return must(transitions.advance(booking(State.COMPLETED, **changes), RELEASE))
        case State.PAID_OUT:
            nothing = booking(State.COMPLETED, **({"captured": 0} | changes))
            return must(transitions.advance(nothing, RELEASE))
        case _:
            return transitions.request(None, "b1", in_state(state, **changes), now).booking


def must(step: Step | None) -> Booking:
    assert step is not None
    return step.booking


def with_job(before: Booking | None, name: str, now: datetime = AUGUST, **job: Any) -> Booking:
    """The booking with an own job; `run_at` for an absolute one."""
    run_at = job.pop("run_at", None)
    payload = job.pop("payload", None)
    offset = job.pop("offset", timedelta())
    wanted = OwnJob(at=at(run_at) if run_at else None, offset=offset, **({"request_hash": f"{name}{run_at}"} | job))
    return must(transitions.set_job(before, before.booking_id if before else "b1", name, wanted, payload, now))


def run_out(before: Booking, now: datetime) -> tuple[Booking, list[Step]]:
    """Apply `advance` until nothing is due."""
    steps = []
    while (step := transitions.advance(before, now)) is not None:
        steps.append(step)
        before = step.booking
    return before, steps
