"""What must hold: for each booking that a step touched, after every step; and more of it, once nothing goes wrong.

Written from the product's promises, not from its code: the rows are read as they lie in the table, the history is
replayed by a table of its own, and the money is compared with what the provider moved.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from duebook.adapters.memory import Change
from duebook.domain.booking import jobs_for
from duebook.domain.names import execution_name, parent, schedule_name
from duebook.domain.payment import Kind, Payment
from duebook.domain.times import iso, parse
from duebook.service import rows
from duebook.service.project import request_for, wants_schedule
from duebook.service.rows import read_booking
from simulation.faults import MOST_SKEW
from simulation.promises import Promises, died
from simulation.states import Execution

if TYPE_CHECKING:
    from simulation.cloud import Cloud

Item = dict[str, Any]
OFF = frozenset({"rejected", "expired", "cancelled"})
ENDED = OFF | {"paid_out"}
PAYABLE = frozenset({"paid", "event_closed", "completed"})
OVERDUE = timedelta(hours=3)
"""Once nothing goes wrong, a pending job is not older than the sweeper's and the recorder's longest backoff."""

DEPLOYING = timedelta(minutes=1)
"""An invocation that was under way when other code was deployed still writes by the old."""

TRANSITIONS: Mapping[str, frozenset[tuple[str | None, str | None]]] = {
    "booking.requested": frozenset((None, to) for to in ("requested", "accepted", *PAYABLE)),
    "booking.accepted": frozenset({("requested", "accepted")}),
    "booking.declined": frozenset({("requested", "rejected")}),
    "booking.rejected": frozenset({("requested", "rejected")}),
    "booking.expired": frozenset({("accepted", "expired")}),
    "booking.paid": frozenset({("accepted", "paid")}),
    "booking.capture_refunded": frozenset((state, state) for state in OFF),
    "booking.moved": frozenset((state, state) for state in ("requested", "accepted", "paid")),
    "booking.cancelled": frozenset((state, "cancelled") for state in ("requested", "accepted", *PAYABLE)),
    "booking.event_closed": frozenset({("paid", "event_closed")}),
    "booking.completed": frozenset({("event_closed", "completed")}),
    "booking.payout_decided": frozenset({("completed", "paying")}),
    "booking.paid_out": frozenset({("completed", "paid_out"), ("paying", "paid_out")}),
    "dispute.opened": frozenset((state, state) for state in PAYABLE),
    "dispute.settled": frozenset((state, to) for state in PAYABLE for to in (state, "cancelled")),
}
"""Which state each type of history row leads from and to; any other leaves the state as it is."""
_MAY_END = ("booking.charged_back", "booking.chargeback_closed", "booking.refunded_outside")
"""Money that is gone may leave nothing to pay: paying, then paid out."""


class Broken(BaseException):
    """An invariant does not hold. Nothing in the product may catch it."""

    def __init__(self, invariant: str, booking_id: str, found: str) -> None:
        super().__init__(f"{invariant}: {booking_id}: {found}")
        self.invariant = invariant
        self.booking_id = booking_id
        self.found = found


@dataclass(slots=True)
class Life:
    """What is known of one booking while it is open. `left`: actions still to come."""

    booking_id: str
    left: int = 0
    version: int = 0
    state: str | None = None
    repeated: int | None = None
    """The action that is repeated until it is answered."""
    delivered: set[int] = field(default_factory=set)
    cash: int = 0
    lines: dict[str, int] = field(default_factory=dict)
    touched_at: datetime | None = None
    jobs: bool = False
    derived: bool = False
    money: bool = False
    history: list[Item] = field(default_factory=list)
    at: dict[int, datetime] = field(default_factory=dict)
    """When each version was written."""
    since: datetime | None = None
    """When the job that went last was planned: it could not act before."""
    looked: bool = False
    """Whether its end is being looked for."""


class Invariants:
    """`changed` takes every written row, `stepped` checks what was touched; `lateness` collects timed effects."""

    def __init__(self, cloud: "Cloud") -> None:
        self.cloud = cloud
        self.table = cloud.table
        self.lives: dict[str, Life] = {}
        self.checks: Counter[str] = Counter()
        self.lateness: list[int] = []
        self.worst = 0
        self.states: Counter[str] = Counter()
        self.types: Counter[str] = Counter()
        self.promises = Promises(cloud.settings)
        self._touched: dict[str, Life] = {}

    # --- after every step --------------------------------------------------------------------------------------

    def changed(self, change: Change) -> None:
        if "#" in change.pk:
            return
        life = self.lives.get(change.pk)
        if life is None:
            return
        sk, new = change.sk, change.new
        self._touched[change.pk] = life
        life.touched_at = self.cloud.now
        if sk == rows.BOOKING_SK or sk.startswith(rows.JOB_PREFIX):
            life.derived = life.derived or sk == rows.BOOKING_SK
            life.jobs = life.jobs or life.derived or _moved(change)
            if new is None and change.old is not None and "generation" in change.old:
                life.since = life.at.get(change.old["generation"])
            if sk != rows.BOOKING_SK and new is not None and (found := died(new)):
                raise Broken("an_hour_kills_nothing", change.pk, found)
        elif sk.startswith(rows.HISTORY_PREFIX):
            if change.old is None and new is not None:
                life.history.append(new)
        elif sk.startswith(rows.LEDGER_PREFIX):
            assert new is not None
            if change.old is not None:
                raise Broken("ledger_is_append_only", change.pk, f"{sk} changed")
            self._entry(life, new)
        elif sk.startswith(rows.PAYMENT_PREFIX):
            life.money = True

    def stepped(self) -> None:
        if not self._touched:
            return
        touched, self._touched = self._touched, {}
        for life in touched.values():
            self._check(life)

    def _check(self, life: Life) -> None:
        booking = self.table.look(life.booking_id, rows.BOOKING_SK)
        if booking is None:
            raise Broken("booking_is_kept", life.booking_id, "its row is gone")
        if life.history:
            self._history(life, booking)
        if life.jobs:
            self._jobs(life, booking)
        if life.money:
            self._money(life, booking)

    def _history(self, life: Life, booking: Item) -> None:
        self.checks["state_follows_history"] += 1
        for row in life.history:
            was, state, type_ = life.state, row.get("state"), row["type"]
            if row["version"] != life.version + 1:
                raise Broken("versions_are_whole", life.booking_id, f"{row['version']} follows {life.version}")
            allowed = TRANSITIONS.get(type_)
            ends = type_ in _MAY_END and (was, state) == ("paying", "paid_out")
            if not ends and ((was, state) not in allowed if allowed is not None else was != state):
                raise Broken("state_follows_history", life.booking_id, f"{type_} led from {was} to {state}")
            self.types[type_] += 1
            if broken := self.promises.broken(booking, row):
                raise Broken(broken[0], life.booking_id, broken[1])
            if "due" in row:
                self._timed(life, row)
            life.version, life.state = row["version"], state
            life.at[life.version] = parse(row["at"])
        life.history.clear()
        state = (booking.get("engagement") or {}).get("state")
        if (booking["version"], state) != (life.version, life.state):
            found = f"the booking is {state} at {booking['version']}, its history {life.state} at {life.version}"
            raise Broken("state_follows_history", life.booking_id, found)

    def _timed(self, life: Life, row: Item) -> None:
        late = (parse(row["at"]) - parse(row["due"])).total_seconds()
        if late < 0 and row["type"] != "dispute.chef_reminded":
            raise Broken("nothing_is_early", life.booking_id, f"{row['type']} at {row['at']}, due {row['due']}")
        if life.since is not None:
            late = min(late, (parse(row["at"]) - life.since).total_seconds())
        self.lateness.append(int(max(0.0, late)))
        self.worst = max(self.worst, self.lateness[-1])

    def _jobs(self, life: Life, booking: Item) -> None:
        """Rows are what the booking says, and that is what today's code derives from it (it has just written it)."""
        self.checks["jobs_follow_booking"] += 1
        planned = booking.get("planned", {})
        found = {}
        for row in self.table.seen(life.booking_id, rows.JOB_PREFIX):
            found[row["job"]] = {"run_at": row["run_at"], "generation": row["generation"]}
        if found != planned:
            raise Broken("jobs_follow_booking", life.booking_id, f"rows {found}, booking {planned}")
        deployed = self.cloud.deployed_at
        if life.derived and not (deployed is not None and self.cloud.now - deployed < DEPLOYING):
            wanted = {name: iso(at) for name, at in jobs_for(read_booking(booking)).items()}
            if wanted != {name: job["run_at"] for name, job in planned.items()}:
                raise Broken("jobs_follow_booking", life.booking_id, f"derived {wanted}, written {planned}")
        life.jobs = life.derived = False

    def _entry(self, life: Life, row: Item) -> None:
        self.checks["ledger_is_balanced"] += 1
        if sum(row["lines"].values()) != 0:
            raise Broken("ledger_is_balanced", life.booking_id, f"{row['sk']}: {row['lines']}")
        for account, amount in row["lines"].items():
            life.lines[account] = life.lines.get(account, 0) + amount

    def _money(self, life: Life, booking: Item) -> None:
        """What is done was moved, once, as it stands in the row; and nothing was moved twice."""
        self.checks["nothing_is_paid_twice"] += 1
        life.money = False
        moved = self.cloud.provider.moved.get(life.booking_id, ())
        if len({made.payment_id for made in moved}) != len(moved):
            raise Broken("nothing_is_paid_twice", life.booking_id, f"moved {[(m.payment_id, m.amount) for m in moved]}")
        by_id = {made.payment_id: made for made in moved}
        open_ = booking["engagement"].get("payments", {})
        for row in self.table.seen(life.booking_id, rows.PAYMENT_PREFIX):
            made = by_id.get(row["payment_id"])
            if row["status"] == "done" and (
                made is None
                or (made.ref, made.amount, made.currency, made.kind.value)
                != (row["provider_ref"], row["amount"], row["currency"], row["kind"])
            ):
                raise Broken("done_was_moved", life.booking_id, f"{row['payment_id']} is done, the provider has {made}")
            if made is not None and row["status"] in ("void", "failed", "intent"):
                raise Broken("moved_is_known", life.booking_id, f"{row['payment_id']} is {row['status']}, yet moved")
            brief = str(row["number"]) in open_
            if brief != (row["status"] in ("intent", "unknown")):
                raise Broken("brief_follows_payments", life.booking_id, f"{row['payment_id']} is {row['status']}")

    # --- when money is about to move ---------------------------------------------------------------------------

    def paying(self, payment: Payment) -> None:
        """Called when the provider takes a request: what must hold at that instant."""
        self.checks["payout_is_allowed"] += 1
        row = self.table.look(payment.booking_id, rows.BOOKING_SK)
        assert row is not None
        engagement = row["engagement"]
        dispute = engagement.get("dispute")
        disputed = dispute is not None and dispute["status"] not in ("settled", "withdrawn")
        now = self.cloud.now
        if payment.kind is Kind.PAYOUT:
            if disputed:
                raise Broken("no_payout_while_disputed", payment.booking_id, f"dispute is {dispute['status']}")
            if engagement["state"] not in ("paying", "paid_out", "cancelled"):
                raise Broken("payout_was_decided", payment.booking_id, f"the booking is {engagement['state']}")
            if engagement["state"] != "cancelled":
                policy = engagement["policy"]
                within = timedelta(seconds=policy["complete_after"] + policy["dispute_within"])
                due = parse(engagement["event_end"]["instant"]) + within
                if now < due - MOST_SKEW:
                    raise Broken("no_payout_before_its_time", payment.booking_id, f"it is {iso(now)}, due {iso(due)}")
        paid = sum(
            m.amount for m in self.cloud.provider.moved.get(payment.booking_id, ()) if m.kind is not Kind.REVERSAL
        )
        back = sum(m.amount for m in self.cloud.provider.moved.get(payment.booking_id, ()) if m.kind is Kind.REVERSAL)
        if payment.kind is not Kind.REVERSAL and paid - back + payment.amount > engagement.get("captured", 0):
            raise Broken("no_more_than_captured", payment.booking_id, f"{paid} - {back} + {payment.amount}")
        if payment.kind is Kind.REFUND:
            lost = sum(item["amount"] for item in engagement.get("outside", {}).values() if _took(item))
            given = sum(
                m.amount for m in self.cloud.provider.moved.get(payment.booking_id, ()) if m.kind is Kind.REFUND
            )
            if given + lost + payment.amount > engagement.get("captured", 0):
                found = f"refunded {given}, lost {lost}, and {payment.amount} on top"
                raise Broken("no_more_than_is_left", payment.booking_id, found)

    # --- events ------------------------------------------------------------------------------------------------

    def delivered(self, event: Mapping[str, Any]) -> None:
        life = self.lives.get(event["booking_id"])
        if life is not None:
            life.delivered.add(event["version"])
            if event["version"] > life.version + len(life.history):
                raise Broken("events_follow_history", life.booking_id, f"version {event['version']} is not written")

    # --- when it is over ---------------------------------------------------------------------------------------

    def unfinished(self, life: Life, now: datetime) -> str | None:
        """Why a booking that nobody does anything about any more is not in order; None when it is."""
        booking = self.table.look(life.booking_id, rows.BOOKING_SK)
        if booking is None:
            return None
        return (
            self._undone(life, booking, now)
            or self._unscheduled(life, now)
            or self._undelivered(life)
            or self._unequal(life, booking)
            or self._stuck(life, booking)
        )

    def _undone(self, life: Life, booking: Item, now: datetime) -> str | None:
        for row in self.table.seen(life.booking_id, rows.JOB_PREFIX):
            if row["status"] == rows.PENDING and parse(row["run_at"]) < now - OVERDUE:
                return f"{row['job']} was due {row['run_at']} and is pending, {row['attempts']} failed rounds"
        planned = booking.get("planned", {})
        wanted = {name: iso(at) for name, at in jobs_for(read_booking(booking)).items()}
        if wanted != {name: job["run_at"] for name, job in planned.items()}:
            return f"derived {wanted}, written {planned}"
        return None

    def _unscheduled(self, life: Life, now: datetime) -> str | None:
        requests = self.cloud.schedules.requests
        for row in self.table.seen(life.booking_id, rows.JOB_PREFIX):
            name = schedule_name(life.booking_id, row["job"])
            found = requests.get(name)
            if found is not None and row["status"] == rows.PENDING and found.at < parse(row["run_at"]):
                return f"schedule {name} stands at {iso(found.at)}, before {row['run_at']}"
            if wants_schedule(row, now + timedelta(minutes=2)) and requests.get(name) != request_for(row):
                return f"schedule {name} is {requests.get(name)}, the job {row['run_at']} of {row['generation']}"
        return None

    def _undelivered(self, life: Life) -> str | None:
        missing = sorted(set(range(1, life.version + 1)) - life.delivered)
        return f"events {missing} of {life.version} were not delivered" if missing else None

    def _unequal(self, life: Life, booking: Item) -> str | None:
        """The ledger's cash is what the provider holds for this booking, once no payment is uncertain."""
        engagement = booking.get("engagement")
        if engagement is None or engagement.get("payments"):
            return None
        signs = {Kind.PAYOUT: -1, Kind.REFUND: -1, Kind.REVERSAL: 1}
        cash = engagement.get("captured", 0)
        cash += sum(signs[m.kind] * m.amount for m in self.cloud.provider.moved.get(life.booking_id, ()))
        for item in engagement.get("outside", {}).values():
            gone = item["kind"] in ("chargeback", "refund")
            cash += 0 if item["is_back"] else -item["amount"] if gone else item["amount"]
        if life.lines.get("cash", 0) != cash or sum(life.lines.values()) != 0:
            return f"the ledger has {life.lines}, the provider {cash}"
        return None

    def _stuck(self, life: Life, booking: Item) -> str | None:
        engagement = booking.get("engagement")
        kinds = {row["sk"].partition("#")[0] for row in self.table.seen(life.booking_id) if "attention_pk" in row}
        pending = [row for row in self.table.seen(life.booking_id, rows.JOB_PREFIX) if row["status"] == rows.PENDING]
        if "history" in kinds:
            return "an event is in the outbox"
        if engagement is None or pending or kinds & {"booking", "job", "payment", "dispute"}:
            return None
        dispute = engagement.get("dispute")
        if dispute and dispute["status"] not in ("settled", "withdrawn"):
            return f"its dispute is {dispute['status']}, and nothing moves it on"
        frozen = any(item.get("is_open") for item in engagement.get("outside", {}).values())
        if engagement["state"] not in ENDED and not frozen:
            return f"it is {engagement['state']}, and nothing moves it on"
        if engagement.get("payments"):
            return f"payments {sorted(engagement['payments'])} are open, and nothing moves them on"
        return None

    def orphans(self) -> Sequence[tuple[str, str]]:
        """Schedules and executions behind which nothing stands any more: (booking, what)."""
        found = []
        for name, request in self.cloud.schedules.requests.items():
            row = self.table.look(request.wake_up.booking_id, f"{rows.JOB_PREFIX}{request.wake_up.job}")
            if row is None or row["status"] != rows.PENDING:
                found.append((request.wake_up.booking_id, f"schedule {name} has no pending job"))
        for execution in self.cloud.machine.running():
            dispute_id, run = started_for(execution)
            row = self.table.look(parent(dispute_id), f"{rows.DISPUTE_PREFIX}{dispute_id}")
            open_ = row is not None and row["status"] not in ("settled", "withdrawn")
            if not open_ or (row is not None and row["run"] != run):
                found.append((parent(dispute_id), f"execution {execution_name(dispute_id, run)} is an orphan"))
        return found

    def is_over(self, life: Life) -> bool:
        """Nothing is planned for it any more, and nobody will do anything."""
        if life.left:
            return False
        row = self.table.look(life.booking_id, rows.BOOKING_SK)
        if row is None:
            return True
        engagement = row.get("engagement")
        if row.get("planned") or (engagement and (engagement["state"] not in ENDED or engagement.get("payments"))):
            return False
        return not any("attention_pk" in found for found in self.table.seen(life.booking_id))


def started_for(execution: Execution) -> tuple[str, int]:
    """The dispute and the run."""
    given = execution.events[0]["executionStartedEventDetails"]["input"]
    return given["dispute_id"], given["run"]


def _took(item: Mapping[str, Any]) -> bool:
    """Whether it took of the charge what is not here any more."""
    return item["kind"] in ("chargeback", "refund") and not item.get("is_back") and not item.get("is_open")


def _moved(change: Change) -> bool:
    old, new = change.old, change.new
    return old is None or new is None or (old["generation"], old["run_at"]) != (new["generation"], new["run_at"])
