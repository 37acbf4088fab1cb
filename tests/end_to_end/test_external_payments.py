"""The marketplace pays itself: it is asked by event, answers through the API, and looks at what went wrong."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from duebook_client import Conflict
from local.world import World
from tests.end_to_end.conftest import CUSTOMER, PRICE, Book, only_payment


@pytest.fixture(scope="module", autouse=True)
def _external(world: World) -> Iterator[None]:
    with world.paying("external"):
        yield


def test_the_marketplace_is_asked_to_pay_by_event_and_its_answer_ends_it(
    world: World, book: Book, booking_id: str
) -> None:
    book(booking_id, starts_in=timedelta(days=1))
    world.reach({job.job: job for job in world.client.jobs(booking_id)}["release_payment"].run_at)
    payment = only_payment(world, booking_id)
    assert (payment.status, world.client.booking(booking_id).state) == ("unknown", "paying")
    (asked,) = world.inbox.of(booking_id, "payment.requested")
    assert asked.data["payment_id"] == payment.payment_id
    assert asked.data["amount_minor"] == PRICE * 9 // 10
    assert asked.data["key"] == payment.idempotency_key

    world.reach(world.now() + timedelta(hours=12, minutes=1))
    asked_again = world.inbox.of(booking_id, "payment.requested")
    assert [event.data["key"] for event in asked_again] == [payment.idempotency_key] * 2

    answered = world.client.payment_result(payment.payment_id, status="done", provider_ref="bank-77")
    assert (answered.applied, answered.status, answered.provider_ref) == (True, "done", "bank-77")
    assert world.client.payment_result(payment.payment_id, status="done", provider_ref="bank-77").applied is False
    with pytest.raises(Conflict) as refused:
        world.client.payment_result(payment.payment_id, status="failed", reason="no, it bounced")
    assert refused.value.code == "already_answered"
    world.settle()
    world.inbox.read()
    assert world.client.booking(booking_id).state == "paid_out"
    assert world.client.jobs(booking_id) == []
    assert len(world.inbox.of(booking_id, "booking.paid_out")) == 1


def test_a_payment_that_failed_waits_for_a_person_and_goes_on_under_a_new_key(
    world: World, book: Book, booking_id: str
) -> None:
    book(booking_id, starts_in=timedelta(days=60))
    world.client.cancel(booking_id, actor=CUSTOMER)
    world.settle()
    payment = only_payment(world, booking_id)
    assert (payment.kind, payment.amount_minor, payment.status) == ("refund", PRICE, "unknown")
    world.client.payment_result(payment.payment_id, status="failed", reason="account closed")
    world.settle()
    assert payment.payment_id in [letter.payment_id for letter in world.client.dead_letters(kind="needs_attention")]

    world.client.redrive(booking_id, f"pay_{payment.payment_id.rpartition('p')[2]}", reason="new account")
    world.settle()
    world.inbox.read()
    again = only_payment(world, booking_id)
    assert (again.status, again.epoch) == ("unknown", 2)
    assert again.idempotency_key != payment.idempotency_key
    world.client.payment_result(payment.payment_id, status="done", provider_ref="bank-78")
    assert payment.payment_id not in [letter.payment_id for letter in world.client.dead_letters(kind="needs_attention")]
    types = [event.type for event in world.inbox.of(booking_id)]
    assert types.count("payment.requested") == 2
    assert types.count("payment.failed") == 1


def test_a_job_that_can_never_succeed_is_a_dead_letter_until_a_person_redrives_it(
    world: World, book: Book, booking_id: str
) -> None:
    book(booking_id, starts_in=timedelta(days=60))
    world.client.cancel(booking_id, actor=CUSTOMER)
    world.settle()
    payment = only_payment(world, booking_id)
    key = {"pk": booking_id, "sk": f"payment#{payment.payment_id}"}
    row = world.table().get_item(Key=key)["Item"]
    world.table().delete_item(Key=key)
    world.reach(world.now() + timedelta(hours=12, minutes=1))
    (job,) = world.client.jobs(booking_id)
    assert (job.job, job.status) == ("pay_1", "dead")
    dead = [letter for letter in world.client.dead_letters() if letter.booking_id == booking_id]
    assert [(letter.job, letter.reason) for letter in dead] == [("pay_1", job.reason)]
    assert job.reason is not None
    assert "missing" in job.reason

    world.table().put_item(Item=row)
    redriven = world.client.redrive(booking_id, "pay_1", reason="the row is back")
    assert (redriven.status, redriven.generation > job.generation) == ("pending", True)
    world.settle()
    world.inbox.read()
    assert len(world.inbox.of(booking_id, "payment.requested")) == 2
    assert [letter for letter in world.client.dead_letters() if letter.booking_id == booking_id] == []
    world.client.payment_result(payment.payment_id, status="done", provider_ref="bank-79")
    assert world.client.jobs(booking_id) == []
