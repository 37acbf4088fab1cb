"""Words for what the service names shortly."""

import re
from datetime import UTC, datetime
from typing import Final

JOBS: Final = {
    "reject_request": "rejects the request if the chef stays silent",
    "cancel_unpaid": "lets the booking expire if it is not paid",
    "close_event": "closes the event",
    "complete_order": "completes the order",
    "release_payment": "decides the payout to the chef",
    "pay": "moves the money",
    "watch_dispute": "looks after the dispute",
    "own": "tells the marketplace: a job of its own",
}
"""By kind; also the choices of the Due page."""
STATES: Final = {
    "requested": "The chef has to accept.",
    "accepted": "The customer has to pay.",
    "paid": "Paid; the event is to come.",
    "event_closed": "The event is over.",
    "completed": "Completed; the time for disputes runs.",
    "paying": "The payout is on its way.",
    "paid_out": "The chef has been paid.",
    "rejected": "Rejected.",
    "expired": "Expired: it was not paid in time.",
    "cancelled": "Cancelled.",
}
VERDICTS: Final = {
    "acts": "It would act now",
    "waits": "It waits for its instant",
    "blocked": "It is blocked",
    "absent": "There is no such job now",
}
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_GONE = re.compile(rf"it is (?P<how>done|over): (?P<type>\S+) at (?P<at>{_INSTANT.pattern}), (?P<reason>.*)", re.DOTALL)
"""Of explain: the last thing that the job did."""
_PAY = re.compile(r"pay_[1-9][0-9]{0,5}")
_DISPUTE = re.compile(r"(?P<booking>[0-9A-Za-z_-]{1,39})\.d[1-9][0-9]{0,5}")
_PAYMENT = re.compile(r"(?P<booking>[0-9A-Za-z_-]{1,39})\.p(?P<number>[1-9][0-9]{0,5})")


def what(job: str) -> str:
    """What a job does, in a few words."""
    return JOBS["pay"] if _PAY.fullmatch(job) else JOBS.get(job, JOBS["own"])


def day(at: datetime) -> str:
    """`Sat 14 Nov 2026`."""
    return f"{at.astimezone(UTC):%a %d %b %Y}"


def clock(at: datetime) -> str:
    """`17:00`, with seconds where there are any."""
    utc = at.astimezone(UTC)
    return f"{utc:%H:%M:%S}" if utc.second else f"{utc:%H:%M}"


def when(at: datetime) -> str:
    """`Sat 14 Nov 2026, 17:00 UTC`."""
    return f"{day(at)}, {clock(at)} UTC"


def told(text: str) -> str:
    """A sentence of the service, its instants as `when` has them."""
    return _INSTANT.sub(lambda found: when(datetime.fromisoformat(found[0])), text)


def verdict(name: str, reason: str) -> tuple[str, str]:
    """Title and text of an explanation's verdict. What the history says of a job that is gone is no lack of it."""
    title, text = VERDICTS.get(name, name), told(reason)
    gone = _GONE.fullmatch(reason) if name == "absent" else None
    if gone is None:
        return title, text
    done = gone["how"] == "done" or gone["type"] == "job.due"
    return "Done" if done else "It is over", f"{event(gone['type'])} {told(gone['at'])}: {told(gone['reason'])}"


def event(type_: str) -> str:
    """`booking.event_closed` → `event closed`."""
    return type_.rpartition(".")[2].replace("_", " ")


def job_of_payment(payment_id: str) -> tuple[str, str] | None:
    """Booking and job of a payment's id."""
    match = _PAYMENT.fullmatch(payment_id)
    return (match["booking"], f"pay_{match['number']}") if match else None


def booking_of_dispute(dispute_id: str) -> str | None:
    match = _DISPUTE.fullmatch(dispute_id)
    return match["booking"] if match else None
