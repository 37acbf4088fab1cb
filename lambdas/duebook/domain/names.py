"""Names and ids: patterns, and how ids are made from their parent's.

Schedule names at AWS are 1 to 64 of `[0-9a-zA-Z-_.]` (EventBridge Scheduler, CreateSchedule); botocore checks neither,
so everything is checked here. Job 24 + hyphen + booking 39 = 64; a job has no hyphen, so no two names can collide.
"""

import re

BOOKING_ID = r"[0-9A-Za-z_-]{1,39}"
JOB_NAME = r"[a-z0-9_]{1,24}"
OPAQUE_ID = r"[0-9A-Za-z_.:@-]{1,64}"
PAYMENT_ID = BOOKING_ID + r"\.p[1-9][0-9]{0,5}"
DISPUTE_ID = BOOKING_ID + r"\.d[1-9][0-9]{0,5}"

LIFECYCLE_JOBS = ("reject_request", "cancel_unpaid", "close_event", "complete_order", "release_payment")
WATCH_DISPUTE = "watch_dispute"
_PAY = re.compile(r"pay_([1-9][0-9]{0,5})")

LIFECYCLE = "lifecycle"
PAYMENTS = "payments"
LANES = (LIFECYCLE, PAYMENTS)


def pay_job(number: int) -> str:
    """The job that wakes payment `number` of a booking."""
    return f"pay_{number}"


def payment_number(job: str) -> int | None:
    """The number in a `pay_<n>` job's name, else None."""
    match = _PAY.fullmatch(job)
    return int(match[1]) if match else None


def payment_id(booking_id: str, number: int) -> str:
    """Child ids carry their parent."""
    return f"{booking_id}.p{number}"


def dispute_id(booking_id: str, number: int) -> str:
    """As `payment_id`."""
    return f"{booking_id}.d{number}"


def execution_name(dispute_id: str, run: int) -> str:
    """The workflow's execution for a run of a dispute. Without the id's dot, because logging to CloudWatch takes 0-9
    A-Z a-z - _ alone (Step Functions API reference, StartExecution); no two can collide, for what follows the booking
    id has a fixed form."""
    return f"{dispute_id.replace('.', '_')}-{run}"


def parent(child_id: str) -> str:
    """The booking a child id (payment, dispute) belongs to; booking ids have no dot."""
    return child_id.partition(".")[0]


def kind(job: str) -> str:
    """A built-in job's name (`pay` for every `pay_<n>`), or `own`: the second part of the due index's partition."""
    if payment_number(job) is not None:
        return "pay"
    return job if is_built_in(job) else "own"


def is_built_in(job: str) -> bool:
    """Whether the name is Duebook's own, so that a caller may not use it (any `pay_<digits>` included)."""
    return job in LIFECYCLE_JOBS or job == WATCH_DISPUTE or re.fullmatch(r"pay_[0-9]*", job) is not None


def lane(job: str) -> str:
    """The queue a job's wake-up goes to: slow calls to a payment provider never hold up deadlines."""
    return PAYMENTS if payment_number(job) is not None else LIFECYCLE


def schedule_name(booking_id: str, job: str) -> str:
    """The one schedule a job can have."""
    return f"{job}-{booking_id}"


def schedule_parts(name: str) -> tuple[str, str] | None:
    """(booking_id, job) of a schedule's name, None for a name that is not ours."""
    match = re.fullmatch(f"({JOB_NAME})-({BOOKING_ID})", name)
    return (match[2], match[1]) if match else None


KINDS = (*LIFECYCLE_JOBS, "pay", WATCH_DISPUTE, "own")
"""Every value of `kind`."""
