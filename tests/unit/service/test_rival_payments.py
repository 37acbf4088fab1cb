"""Two payments of one booking, or two workers on one payment, at the same moment."""

from duebook.handlers import payments_worker
from tests.unit.builders import DAY, START
from tests.unit.world import Context, World


def wake(world: World, job: str) -> None:
    row = world.jobs()[job]
    body = f'{{"booking_id": "b1", "job": "{job}", "generation": {row["generation"]}}}'
    record = {"messageId": job, "body": body, "messageAttributes": {}}
    assert payments_worker.handler({"Records": [record]}, Context()) == {"batchItemFailures": []}


def outrun_once(world: World, job: str) -> None:
    """Just before the next transaction, another worker does all of `job`."""
    rivals = [job]

    def hook(call: str, when: str) -> None:
        if (call, when) == ("table.transact", "before") and rivals:
            wake(world, rivals.pop())

    world.table._hook = hook


def test_a_payment_that_its_booking_s_other_payment_outran_is_made_all_the_same(world: World) -> None:
    world.paid()
    world.now = START - 10 * DAY
    world.cancel()
    outrun_once(world, "pay_2")
    wake(world, "pay_1")
    assert [payment["status"] for payment in world.payments()] == ["done", "done"]
    assert [payment["attempt"] for payment in world.payments()] == [1, 1]


def test_of_two_workers_on_one_payment_one_moves_the_money(world: World) -> None:
    world.paid()
    world.now = START - 60 * DAY
    world.cancel()
    outrun_once(world, "pay_1")
    wake(world, "pay_1")
    (payment,) = world.payments()
    assert (payment["status"], payment["attempt"]) == ("done", 1)
