"""What the simulation found in the product: each kind of fault, once, by its smallest story."""

from datetime import timedelta
from typing import Any

from duebook.adapters.memory import MemoryQueues, MemorySchedules, MemoryTable
from duebook.domain.errors import Throttled
from duebook.domain.policy import Policy
from duebook.service.bookings import Bookings
from duebook.service.commands import Commands
from duebook.service.reconcile import Report, reconcile
from simulation.run import simulate
from simulation.settings import Settings
from tests.unit.builders import AUGUST


def test_one_throttled_call_ends_a_round_of_reconcile_and_not_the_run() -> None:
    """A pass makes thousands of calls; one refusal began it all over, so a large marketplace's pass never ended."""
    refusals: list[str] = []

    def hook(call: str, when: Any) -> None:
        if call == "schedules.get" and when == "before" and len(refusals) < 1:
            refusals.append(call)
            raise Throttled

    table = MemoryTable(lambda: AUGUST)
    bookings = Bookings(table, lambda: AUGUST)
    schedules, queues = MemorySchedules(lambda: AUGUST, hook=hook), MemoryQueues(lambda: AUGUST)
    job = {"run_at": (AUGUST + timedelta(days=30)).isoformat()}
    Commands(bookings, Policy()).put_job("b1", "note", job)
    first = reconcile(bookings, schedules, queues, Report(run="r", started_at=AUGUST), lambda: True)
    assert (first.phase, first.wrong_schedules, refusals) == ("jobs", 0, ["schedules.get"])
    second = reconcile(bookings, schedules, queues, first, lambda: True)
    assert (second.phase, second.wrong_schedules, second.rounds) == ("done", 1, 2)


def test_job_rows_go_in_one_order_whatever_the_hash_seed() -> None:
    """Rows to delete came from a set, so the same change wrote its stream records in another order in each process."""
    table = MemoryTable(lambda: AUGUST)
    bookings = Bookings(table, lambda: AUGUST)
    commands = Commands(bookings, Policy())
    body = {
        "customer_id": "c",
        "chef_id": "ch",
        "event_start": (AUGUST + timedelta(days=9)).isoformat(),
        "price_minor": 100,
        "currency": "EUR",
    }
    commands.put_booking("b1", body)
    for number in range(6):
        commands.put_job("b1", f"own_{number}", {"anchor": "event_start", "offset": -60 * number - 60})
    before = len(table.stream)
    commands.cancel("b1", {"actor": {"role": "chef"}}, None)
    gone = [change.sk for change in table.stream.changes(before) if change.new is None]
    assert gone == sorted(gone)
    assert len(gone) == 7


def test_a_failure_that_comes_again_is_not_taken_for_the_answer_to_a_later_request() -> None:
    """EventBridge delivered `payment.requested` twice; the second answer, "failed", met the person's retry, whose money
    then moved unrecorded, and the next retry would have paid again."""
    found = Settings(seed=3, bookings=300, days=365, faults=5.0, reconcile_days=7, only_bookings=("b000242",))
    result = simulate(found)
    assert (result.violation, result.bookings, result.types["payment.retried"]) == (None, 1, 1)
