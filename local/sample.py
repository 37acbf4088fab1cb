"""A small marketplace to look at: bookings in every state, two disputes, held and blocked payouts, one dead letter.

`python -m local sample` puts it into a running embedded AWS, as `make local` does; all of it relative to the present.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from duebook_client import Actor, DeadLetter, Duebook
from local.emulator import ROOT, EmbeddedAws, EmulatorError

CHEF, CUSTOMER = Actor("chef", "chef-1"), Actor("customer", "customer-1")
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
DEAD = ("order-77", "send_menu")
"""Booking id and job of the dead letter."""
DIED_OF = "every attempt of a round failed: the sample broke it on purpose, and it is whole again"
_LAMBDAS = str(ROOT / "lambdas")
_COMING = 40
"""Paid bookings whose events are spread over the next three months."""
_DUE_AFTER = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What was put there. `dead_letter`: waits to be explained and redriven."""

    bookings: int
    disputes: int
    dead_letter: DeadLetter


class Sample:
    """The marketplace, at the present of one embedded AWS. Every call may be repeated."""

    def __init__(self, client: Duebook, now: datetime) -> None:
        self._client = client
        self._now = now.replace(second=0, microsecond=0)
        self._count = 0

    def bookings(self) -> int:
        """Bookings in every state; how many."""
        for name, number in self._names("wedding", _COMING):
            begins = self._now + number * timedelta(days=90) / _COMING + timedelta(hours=number % 5)
            self._paid(name, begins, 40_000 + 7_900 * (number % 23), "CHF" if number % 9 == 0 else "EUR")
        for name, number in self._names("dinner", 3):
            self._requested(name, self._now + (20 + number) * DAY)
        for name, number in self._names("party", 3):
            self._requested(name, self._now + (30 + number) * DAY)
            self._client.accept(name, actor=CHEF)
        for name, number in self._names("brunch", 3):
            self._paid(name, self._now - (2 + number) * DAY, 52_000, "EUR")
        self._paid("picnic-1", self._now + 12 * DAY, 61_000, "EUR")
        self._client.cancel("picnic-1", actor=CUSTOMER, reason="the weather")
        self._client.put_job("wedding-3", "send_menu", anchor="event_start", offset=-3 * DAY, payload={"mail": "menu"})
        self._client.put_job("wedding-3", "ask_for_review", anchor="event_end", offset=DAY, payload={"mail": "review"})
        return self._count

    def held(self) -> None:
        """A payout that was imported on hold, and one whose chef is switched off at the provider."""
        self._paid("import-1", self._now - 3 * DAY, 88_000, "EUR", hold_payout=True)
        self._client.put_chef("chef-9", enabled=False)
        self._paid("banquet-1", self._now - 3 * DAY, 120_000, "EUR", chef_id="chef-9")

    def disputes(self) -> int:
        """One that waits for the chef, one that a mediator has to decide; how many."""
        for name in ("gala-1", "gala-2"):
            self._paid(name, self._now - 6 * HOUR, 240_000, "EUR")
            self._client.open_dispute(
                name,
                actor=CUSTOMER,
                claimed_minor=96_000,
                reason="two courses were missing",
                text="Neither the dessert nor the cheese was served.",
                evidence=["photo-1", "menu-7"],
            )
        return 2

    def contest(self) -> None:
        """The chef of the second dispute answers, once they were asked."""
        self._client.reply("gala-2.d1", "contest", actor=CHEF, text="Both were served; the guests had left.")

    def _names(self, kind: str, count: int) -> Iterator[tuple[str, int]]:
        yield from ((f"{kind}-{number}", number) for number in range(1, count + 1))

    def _requested(self, booking_id: str, begins: datetime) -> None:
        self._client.put_booking(
            booking_id,
            customer_id="customer-1",
            chef_id="chef-1",
            event_start=begins,
            price_minor=48_000,
            currency="EUR",
        )
        self._count += 1

    def _paid(self, booking_id: str, begins: datetime, price: int, currency: str, **more: Any) -> None:
        given: dict[str, Any] = {
            "customer_id": "customer-1",
            "chef_id": "chef-1",
            "event_start": begins,
            "event_end": begins + 4 * HOUR,
            "price_minor": price,
            "currency": currency,
            "state": "paid",
            "paid_at": min(begins, self._now) - DAY,
            "captured_minor": price,
            "charge_ref": f"charge-{booking_id}",
        }
        self._client.put_booking(booking_id, **{**given, **more})
        self._count += 1


def make(aws: EmbeddedAws, client: Duebook, table: str, tell: Callable[[str], None] = lambda what: None) -> Made:
    """Put the marketplace there. `table`: the table's name, for what nobody can do through the API: break a job."""
    sample = Sample(client, aws.clock.now())
    tell("A sample marketplace: bookings ...")
    bookings = sample.bookings()
    sample.held()
    tell("... disputes ...")
    disputes = sample.disputes()
    aws.settle()
    sample.contest()
    tell("... and a dead letter.")
    return Made(bookings=bookings, disputes=disputes, dead_letter=dead_letter(aws, client, table))


def outputs_of(aws: EmbeddedAws) -> dict[str, str]:
    """The outputs of what is deployed there. Raises EmulatorError where nothing is."""
    stacks = aws.session().client("cloudformation").describe_stacks()["Stacks"]
    found = {each["OutputKey"]: each["OutputValue"] for stack in stacks for each in stack.get("Outputs", ())}
    if "ApiUrl" not in found:
        raise EmulatorError(f"Duebook is not deployed on port {aws.port}")
    return found


def dead_letter(aws: EmbeddedAws, client: Duebook, table: str, booking_id: str = DEAD[0]) -> DeadLetter:
    """A job that the recorder gave up, as after an outage of over a day, and that is due where time travels.

    Written behind the service's back, by its own code: a real death takes a day of failures.
    """
    if _LAMBDAS not in sys.path:
        sys.path.append(_LAMBDAS)
    from duebook.adapters.table import DynamoTable
    from duebook.service import rows

    job = DEAD[1]
    client.put_job(booking_id, job, run_at=aws.clock.now() + _DUE_AFTER, payload={"mail": "menu"})
    aws.settle()
    service_table = DynamoTable(aws.session().client("dynamodb"), table)
    row = service_table.get(booking_id, f"{rows.JOB_PREFIX}{job}")
    assert row is not None
    service_table.write(rows.job_dead(row, aws.clock.now(), DIED_OF, attempts=9))
    aws.settle()
    if aws.clock.travels:
        aws.travel_by(_DUE_AFTER)
    return next(letter for letter in client.dead_letters() if letter.booking_id == booking_id)
