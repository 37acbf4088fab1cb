"""A deployment in the middle of everything: new code, another policy, while bookings wait, fire, pay, are disputed."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from duebook_client import DuebookError, Policy
from local.deploy import deploy
from local.emulator import ROOT
from local.story import adds_up
from local.world import World
from tests.end_to_end.conftest import CHEF, CUSTOMER, PRICE, Book, whole_minute

SECOND = timedelta(seconds=1)
QUICK = Policy(complete_after=SECOND, dispute_within=SECOND)
"""Everything about a booking happens within seconds, while the deployment runs."""
MOST = 5
APP = ("app.py", "cdk.json", "lambdas", "stacks", "statemachines")


class Traffic(threading.Thread):
    """A marketplace that does not pause for a deployment: bookings that end at once, each with a job of its own, and
    each made when the one before it is paid out, however slow the machine."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(daemon=True)
        self.bookings: list[str] = []
        self.errors: list[DuebookError] = []
        self._world, self._name = world, name
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.is_set() and len(self.bookings) < MOST:
            booking_id = f"{self._name}-{len(self.bookings)}"
            self.bookings.append(booking_id)
            try:
                self._book(booking_id)
                while self._world.client.booking(booking_id).state != "paid_out" and not self._over.wait(0.3):
                    pass
            except DuebookError as error:
                self.errors.append(error)

    def _book(self, booking_id: str) -> None:
        client, ends = self._world.client, self._world.now() + SECOND
        client.put_booking(
            booking_id,
            customer_id="customer-1",
            chef_id="chef-1",
            event_start=ends - timedelta(hours=4),
            event_end=ends,
            price_minor=PRICE,
            currency="EUR",
            policy=QUICK,
            state="paid",
            paid_at=ends - timedelta(days=1),
            captured_minor=PRICE,
            charge_ref=f"charge-{booking_id}",
        )
        client.put_job(booking_id, "thank", ends, payload={"say": booking_id})

    def end(self) -> None:
        self._over.set()
        self.join(60)


@contextmanager
def traffic(world: World, name: str) -> Iterator[Traffic]:
    running = Traffic(world, name)
    running.start()
    try:
        yield running
    finally:
        running.end()


@pytest.fixture
def next_release(tmp_path: Path) -> Path:
    """The app as it is, with a change in what is uploaded, so that every function gets a new version."""
    for name in APP:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "lambdas" / "duebook" / "release.txt").write_text("next\n", encoding="utf-8")
    return tmp_path


def versions(world: World) -> dict[str, str]:
    """Function → the version that its alias stands at."""
    functions: Any = world.aws.session().client("lambda")
    return {
        name: functions.get_alias(FunctionName=name, Name="live")["FunctionVersion"]
        for name in (each["FunctionName"] for each in functions.list_functions()["Functions"])
        if name.startswith("Duebook-")
    }


def moved_aliases(world: World) -> list[str]:
    """The aliases in the order in which the last deployment updated them."""
    cloudformation: Any = world.aws.session().client("cloudformation")
    pages = cloudformation.get_paginator("describe_stack_events").paginate(StackName="Duebook-local-App")
    events = [event for page in pages for event in page["StackEvents"]]
    done = [
        (event["Timestamp"], -position, event["LogicalResourceId"])
        for position, event in enumerate(events)
        if event["ResourceType"] == "AWS::Lambda::Alias" and event["ResourceStatus"] == "UPDATE_COMPLETE"
    ]
    return [name for _, _, name in sorted(done)]


def test_what_waits_fires_pays_or_is_disputed_while_new_code_is_deployed_happens_once(
    world: World, book: Book, booking_id: str, next_release: Path
) -> None:
    """Twice: to the next release with another policy, and back, as a rollback would."""
    client = world.client
    disputed, reminded = f"{booking_id}-disputed", f"{booking_id}-reminded"
    book(booking_id)
    book(disputed)
    due = whole_minute(world.now() + timedelta(minutes=10))
    client.put_job(reminded, "remind", due, payload={"made": "before"})
    client.open_dispute(
        disputed, actor=CUSTOMER, claimed_minor=30_000, reason="a course was missing", text="No dessert was served."
    )
    world.settle()
    before = versions(world)

    with traffic(world, f"{booking_id}-to") as to:
        deploy(world.aws, context={"policy": '{"fee_bps": 500}'}, app=next_release, quiet=True)
    order = moved_aliases(world)
    since = book(f"{booking_id}-since")
    with traffic(world, f"{booking_id}-back") as back:
        deploy(world.aws, quiet=True)

    assert {name for name, version in versions(world).items() if version == before[name]} == set()
    assert order[-1].startswith("FunctionsApiAlias"), order
    assert to.errors == back.errors == []
    assert min(len(to.bookings), len(back.bookings)) >= 2

    client.reply(f"{disputed}.d1", "concede", actor=CHEF)
    world.reach(due)
    (event,) = world.inbox.of(reminded, "job.due")
    assert (event.due, event.payload) == (due, {"made": "before"})
    assert client.dispute(f"{disputed}.d1").status == "settled"
    for paid_out in (*to.bookings, *back.bookings):
        booking = client.booking(paid_out)
        assert booking.state == "paid_out", paid_out
        assert [(payment.status, payment.attempt) for payment in booking.payments] == [("done", 1)]
        assert adds_up(booking)
        types = [entry.type for entry in client.history(paid_out)]
        assert {types.count(name) for name in ("job.due", "booking.event_closed", "booking.paid_out")} == {1}, types
        assert [event.payload for event in world.inbox.of(paid_out, "job.due")] == [{"say": paid_out}]
        assert client.jobs(paid_out) == []
    made_under = [client.booking(name).policy.fee_bps for name in (booking_id, since.booking_id)]
    assert made_under == [1_000, 500], "a booking keeps the policy that it was made under"
    assert world.reconcile().differences == 0
    for waiting in (booking_id, since.booking_id):
        client.cancel(waiting, actor=CUSTOMER)
    world.settle()
