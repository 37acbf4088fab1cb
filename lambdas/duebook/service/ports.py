"""What the services ask of the outside world. Each port has an AWS adapter and an in-memory twin.

Errors are the domain's own (`duebook.domain.errors`); an adapter translates every AWS error it meets.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Protocol

from duebook.domain.payment import Movement, Outcome, Payment

Item = dict[str, Any]
"""One row: `pk`, `sk` and attributes of str, int, bool, None, list or dict; never a float."""


@dataclass(frozen=True, slots=True, kw_only=True)
class If:
    """A condition on the row that is written: all parts must hold.

    `absent`: no such row. `exists`: there is one. `equals`: these attributes have these values
    (None also matches a missing attribute).
    """

    absent: bool = False
    exists: bool = False
    equals: Mapping[str, Any] = field(default_factory=dict)


ALWAYS = If()


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Replace the whole row."""

    item: Item
    condition: If = ALWAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Set and remove attributes, leaving the others; makes the row if it is not there."""

    pk: str
    sk: str
    set: Mapping[str, Any] = field(default_factory=dict)
    remove: Sequence[str] = ()
    condition: If = ALWAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Remove the row; removing what is not there is fine unless the condition says otherwise."""

    pk: str
    sk: str
    condition: If = ALWAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Write nothing, but fail the transaction unless the condition holds."""

    pk: str
    sk: str
    condition: If


Write = Put | Update | Delete | Check


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a query, in key order. `after` is None when nothing is left; `scanned` counts rows read."""

    items: Sequence[Item]
    after: Item | None
    scanned: int


class Table(Protocol):
    """The one table: partition key `pk`, sort key `sk`, sparse indexes `due`, `attention` and `day`.

    Index keys are the attributes `<index>_pk` and `<index>_sk`; a row without them is not in the index.
    """

    def get(self, pk: str, sk: str) -> Item | None:
        """One consistent read."""

    def write(self, *writes: Write) -> None:
        """All or nothing; one write alone is sent as a plain request.

        Raises `ConditionFailed` (with the positions that failed) when a condition does not hold, and
        `Contention` after bounded retries when another transaction held a row.
        """

    def query(
        self, pk: str, prefix: str, *, after: Item | None = None, limit: int = 100, newest_first: bool = False
    ) -> Page:
        """Rows of one partition whose sort key starts with `prefix`; consistent."""

    def query_index(
        self, index: str, pk: str, *, low: str = "", high: str = "\uffff", after: Item | None = None, limit: int = 100
    ) -> Page:
        """Rows of one index partition with low <= sort key <= high, in order; eventually consistent.

        The index projects every attribute but an own job's `payload` and a history row's `data`.
        """

    def scan(
        self, *, index: str | None = None, sk: str | None = None, after: Item | None = None, limit: int = 500
    ) -> Page:
        """A page of every row of the table (or of a sparse index); with `sk`, only rows with that sort key."""


def every(table: Table, day_partition: str) -> Iterator[Item]:
    """All rows of one partition of the `day` index, page by page."""
    after: Item | None = None
    while True:
        page = table.query_index("day", day_partition, after=after, limit=500)
        yield from page.items
        after = page.after
        if after is None:
            return


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeUp:
    """'Look at this booking': carries no instruction, so an old one can do no harm."""

    booking_id: str
    job: str
    generation: int

    @property
    def body(self) -> str:
        """The message that says it, whoever sends it: exactly where to look, as compact JSON."""
        said = {"booking_id": self.booking_id, "job": self.job, "generation": self.generation}
        return json.dumps(said, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRequest:
    """One one-shot schedule: at `at` (aware UTC, a whole minute) send `wake_up` to the queue of `lane`."""

    name: str
    at: datetime
    lane: str
    wake_up: WakeUp


class Schedules(Protocol):
    """EventBridge Scheduler's group. Raises `Throttled`, `ScheduleConflict`, `QuotaExceeded` or `AwsFailure`."""

    def create(self, request: ScheduleRequest) -> bool:
        """False when a schedule of that name exists already."""

    def replace(self, request: ScheduleRequest) -> bool:
        """Replace every field of the schedule of that name; False when there is none."""

    def delete(self, name: str) -> bool:
        """False when there was none."""

    def get(self, name: str) -> ScheduleRequest | None:
        """The schedule as it stands; None when there is none."""

    def names(self, after: str | None) -> tuple[Sequence[str], str | None]:
        """A page (at most 100) of the group's schedule names, and the token of the next page or None."""


class Queues(Protocol):
    """The lanes' SQS queues and the projection queue."""

    def wake(self, lane: str, wake_up: WakeUp, *, source: str, delay: timedelta = timedelta()) -> None:
        """Send a wake-up after `delay` (0 to 15 min). `source` (queue or sweep) is a message attribute."""

    def project(self, booking_id: str, job: str) -> None:
        """Ask for one job's schedule to be made right."""


class Bus(Protocol):
    """The EventBridge bus."""

    def publish(self, events: Sequence[Mapping[str, Any]]) -> Sequence[str | None]:
        """Put event envelopes (each with `type` and `id`); per event None if the bus accepted it, else the error code.

        Any number; sent in batches within PutEvents' limits (10 entries, 256 KB).
        """


class Manner(Protocol):
    """How a provider is paid through, as far as it decides what is done with a payment."""

    @property
    def by_event(self) -> bool:
        """True when the provider is asked by our event and answers through the API (no call, no look-up)."""

    @property
    def needs_account(self) -> bool:
        """True when a payout needs the chef's connected account (`payment.account`)."""


class PaymentProvider(Manner, Protocol):
    """Who moves money. No method raises for an answer of the provider: an `Outcome` says what is known."""

    def send(self, payment: Payment, now: datetime) -> Outcome:
        """Transfer a payout, refund a charge or reverse the transfer `of_ref`, with the key `payment.key`."""

    def find(self, payment: Payment, now: datetime) -> Outcome | None:
        """Look the payment up by its reference; None when the provider surely has none.

        `Mismatched` when it has the reference with another amount, currency, destination or charge.
        """

    def movements(self, day: date) -> Sequence[Movement] | None:
        """What it moved on that UTC day for references of ours; None when it cannot be asked."""


class SignedEvents(Protocol):
    """What the payment provider posts to its webhook."""

    def read(self, body: str, signature: str | None) -> Mapping[str, Any]:
        """The event, once its signature is verified. Raises `InvalidRequest`."""


class Workflow(Protocol):
    """The dispute's Step Functions state machine; an execution is named `<dispute_id>-<run>`."""

    def start(self, dispute_id: str, run: int) -> bool:
        """Start that run, or find it running; False when it ran within the last 90 days and has ended."""

    def is_running(self, dispute_id: str, run: int) -> bool:
        """Whether that run waits or works now."""

    def succeed(self, token: str) -> bool:
        """Complete the state that waits with this token; False when it does not wait any more."""

    def events(self, dispute_id: str, run: int) -> Sequence[Mapping[str, Any]] | None:
        """What the execution did, in plain words: `{at, text}` in order; None when AWS does not have it (any more)."""

    def console_url(self, dispute_id: str, run: int) -> str:
        """Where an operator sees the execution in the AWS console."""
