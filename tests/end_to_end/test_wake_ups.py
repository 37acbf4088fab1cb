"""Wake-ups that come too often, too early, unreadable or not at all."""

from datetime import timedelta

from duebook_client import DeadLetter
from local.world import WakeUp, World
from tests.end_to_end.conftest import PRICE, Book, whole_minute

HALF_AN_HOUR = timedelta(minutes=30)


def test_three_wake_ups_at_the_payouts_instant_move_the_money_once(world: World, book: Book, booking_id: str) -> None:
    book(booking_id, starts_in=timedelta(days=1))
    release = {job.job: job for job in world.client.jobs(booking_id)}["release_payment"]
    world.reach(release.run_at - timedelta(minutes=10))
    wake_up = WakeUp(booking_id, "release_payment", release.generation)
    world.deliver([wake_up, wake_up, WakeUp(booking_id, "release_payment", 1)], after=timedelta(minutes=10))
    world.reach(release.run_at)
    booking = world.client.booking(booking_id)
    assert booking.state == "paid_out"
    assert [(pay.kind, pay.amount_minor, pay.status, pay.attempt) for pay in booking.payments] == [
        ("payout", PRICE * 9 // 10, "done", 1)
    ]
    types = [event.type for event in world.inbox.of(booking_id)]
    assert types.count("booking.payout_decided") == types.count("payment.attempted") == 1
    assert types.count("booking.paid_out") == 1


def test_a_wake_up_that_comes_early_changes_nothing_and_the_job_still_runs_at_its_instant(
    world: World, booking_id: str
) -> None:
    run_at = whole_minute(world.now() + timedelta(days=3))
    world.client.put_job(booking_id, "remind", run_at, payload=[1, "two", None])
    world.settle()
    (job,) = world.client.jobs(booking_id)
    world.deliver([WakeUp(booking_id, "remind", job.generation)])
    world.settle()
    assert world.client.jobs(booking_id) == [job]
    assert world.schedules_of(booking_id) == {"remind": run_at}
    world.reach(run_at)
    (event,) = world.inbox.of(booking_id, "job.due")
    assert (event.due, event.payload) == (run_at, [1, "two", None])
    assert event.at >= run_at
    assert world.schedules_of(booking_id) == {}


def test_a_wake_up_for_a_job_that_never_was_is_ignored(world: World, booking_id: str) -> None:
    world.client.put_job(booking_id, "remind", world.now() + timedelta(days=3))
    world.settle()
    before = world.client.jobs(booking_id)
    world.deliver([WakeUp(booking_id, "no_such_job", 1), WakeUp("no-such-booking", "pay_1", 1)])
    world.settle()
    assert world.client.jobs(booking_id) == before
    assert [letter for letter in world.client.dead_letters() if letter.job == "no_such_job"] == []
    world.client.delete_job(booking_id, "remind")


def test_a_poison_message_blocks_no_neighbour_and_ends_in_the_attention_index(world: World, booking_id: str) -> None:
    due = whole_minute(world.now() + timedelta(minutes=5))
    world.client.put_job(booking_id, "remind", due)
    world.settle()
    poison = [
        world.send("Lifecycle", "this is no JSON", after=due - world.now()),
        world.send("Lifecycle", '{"booking_id": "b", "job": "close_event", "generation": "one"}'),
        world.send("Payments", "[]"),
    ]
    world.reach(due)
    assert [event.job for event in world.inbox.of(booking_id, "job.due")] == ["remind"]

    world.reach(world.now() + 2 * HALF_AN_HOUR)  # five deliveries, each hidden for six times the function's time-out
    found = {letter.raw.get("message_id"): letter for letter in world.client.dead_letters()}
    assert set(poison) <= set(found)
    for message_id in poison:
        assert _reason(found[message_id]).startswith("not a wake-up")
        assert found[message_id].booking_id is None


def test_a_job_whose_schedule_is_lost_is_swept_and_one_that_is_left_is_repaired(world: World, booking_id: str) -> None:
    soon, later = whole_minute(world.now() + timedelta(hours=1)), whole_minute(world.now() + timedelta(hours=2))
    world.client.put_job(booking_id, "soon", soon)
    world.client.put_job(booking_id, "later", later)
    world.settle()
    world.delete_all_schedules()
    world.reach(soon + timedelta(minutes=4))
    (event,) = world.inbox.of(booking_id, "job.due")
    entry = next(entry for entry in world.client.history(booking_id) if entry.version == event.version)
    assert event.job == "soon"
    assert entry.cause is not None
    assert entry.cause.source == "sweep"
    assert world.reconcile().differences >= 1
    world.settle()
    assert world.schedules_of(booking_id) == {"later": later}
    assert world.reconcile().differences == 0


def _reason(letter: DeadLetter) -> str:
    assert letter.reason is not None
    return letter.reason
