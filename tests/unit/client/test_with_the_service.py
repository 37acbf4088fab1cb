"""Client and service speak the same contract: every call here ends in the real API handler."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duebook.service import summary
from duebook.service.rows import job_dead
from duebook_client import (
    Actor,
    BadArgument,
    Booking,
    Conflict,
    Duebook,
    Event,
    Invalid,
    Local,
    NoAnswer,
    NotFound,
    NotManaged,
)
from tests.unit.client.fakes import REGION, URL, FixedSession
from tests.unit.client.in_process import InProcessService, in_process_service

AT = datetime(2026, 11, 12, 9, tzinfo=UTC)
WEDDING = Local("2026-11-14T18:00:00", "Europe/Berlin")
DAY = timedelta(days=1)
CHEF = Actor("chef", "ch-1")
CUSTOMER = Actor("customer", "c-1")


@pytest.fixture
def service() -> Iterator[InProcessService]:
    with in_process_service() as service:
        yield service


@pytest.fixture
def due(service: InProcessService) -> Duebook:
    return Duebook(URL, region=REGION, session=FixedSession(), transport=service, sleep=lambda _: None)


def _book(due: Duebook, booking_id: str = "b1", **changes: Any) -> Booking:
    given: dict[str, Any] = {
        "customer_id": "c-1",
        "chef_id": "ch-1",
        "event_start": WEDDING,
        "price_minor": 50_000,
        "currency": "EUR",
    }
    return due.put_booking(booking_id, **{**given, **changes})


def _paid(due: Duebook) -> Booking:
    _book(due)
    due.accept("b1", actor=CHEF)
    return due.pay("b1", captured_minor=50_000, charge_ref="ch_1")


def test_an_own_job_is_put_moved_listed_and_removed(due: Duebook) -> None:
    made = due.put_job("order-1", "remind_guest", AT, payload={"mail": 4}, revision=1)
    assert made.applied
    assert made.current is not None
    assert made.current.run_at == AT
    assert due.put_job("order-1", "remind_guest", AT + DAY, payload={"mail": 4}, revision=2).applied
    assert [job.run_at for job in due.jobs("order-1")] == [AT + DAY]
    assert [job.booking_id for job in due.due(AT, AT + 2 * DAY)] == ["order-1"]
    assert due.delete_job("order-1", "remind_guest", revision=3).applied
    assert due.jobs("order-1") == []


def test_a_late_revision_changes_nothing_and_the_same_one_with_another_body_is_refused(due: Duebook) -> None:
    due.put_job("order-1", "remind_guest", AT, revision=2)
    late = due.put_job("order-1", "remind_guest", AT + DAY, revision=1)
    assert not late.applied
    assert late.current is not None
    assert late.current.run_at == AT
    with pytest.raises(Conflict) as raised:
        due.put_job("order-1", "remind_guest", AT + DAY, revision=2)
    assert raised.value.code == "revision_conflict"
    due.delete_job("order-1", "remind_guest", revision=3)
    gone = due.put_job("order-1", "remind_guest", AT, revision=2)
    assert (gone.applied, gone.current) == (False, None)


def test_a_job_comes_back_as_an_event_with_its_payload(service: InProcessService, due: Duebook) -> None:
    due.put_job("order-1", "remind_guest", AT, payload={"mail": [4, None]})
    service.move_to(AT + DAY)
    put, fired = (Event.from_eventbridge(event) for event in service.events())
    assert (put.type, fired.type) == ("job.set", "job.due")
    assert (fired.booking_id, fired.job, fired.due, fired.payload) == (
        "order-1",
        "remind_guest",
        AT,
        {"mail": [4, None]},
    )
    assert fired.version > put.version


def test_an_id_with_own_jobs_only_is_not_managed_but_has_a_history(due: Duebook) -> None:
    due.put_job("order-1", "remind_guest", AT)
    with pytest.raises(NotManaged):
        due.booking("order-1")
    assert [entry.type for entry in due.history("order-1")] == ["job.set"]


def test_a_booking_goes_from_request_to_payout(service: InProcessService, due: Duebook) -> None:
    booking = _book(due)
    assert (booking.state, booking.event_start.zone) == ("requested", "Europe/Berlin")
    assert due.accept("b1", actor=CHEF).state == "accepted"
    assert due.pay("b1", captured_minor=50_000, charge_ref="ch_1").state == "paid"
    assert {job.job for job in due.jobs("b1")} == {"close_event", "complete_order", "release_payment"}
    moved = due.move("b1", event_start=Local("2026-12-12T18:00:00", "Europe/Berlin"), actor=CHEF, reason="snow")
    assert moved.event_start.instant == datetime(2026, 12, 12, 17, tzinfo=UTC)
    service.move_to(datetime(2026, 12, 14, 1, tzinfo=UTC))
    assert due.booking("b1").state == "paying"
    (payout,) = due.payments("b1")
    assert (payout.kind, payout.amount_minor, payout.status) == ("payout", 45_000, "unknown")
    asked = [Event.from_eventbridge(event) for event in service.events()][-1]
    assert (asked.type, asked.data["payment_id"]) == ("payment.requested", payout.payment_id)
    done = due.payment_result(payout.payment_id, status="done", provider_ref="tr_1")
    assert (done.status, done.provider_ref, done.applied) == ("done", "tr_1", True)
    assert due.payment_result(payout.payment_id, status="done", provider_ref="tr_1").applied is False
    assert due.payment(payout.payment_id).status == "done"
    assert due.booking("b1").state == "paid_out"
    types = [entry.type for entry in due.history("b1", page_size=2)]
    assert types[0] == "booking.requested"
    assert "booking.paid_out" in types


def test_a_customer_who_cancels_gets_the_tiers_refund(due: Duebook) -> None:
    _paid(due)
    cancelled = due.cancel("b1", actor=CUSTOMER, reason="ill")
    assert (cancelled.state, cancelled.refunded_minor) == ("cancelled", 50_000)
    assert [payment.kind for payment in cancelled.payments] == ["refund"]


def test_a_command_whose_answer_got_lost_takes_effect_once(service: InProcessService, due: Duebook) -> None:
    _book(due)
    service.lost = [NoAnswer("reset"), NoAnswer("reset")]
    assert due.accept("b1", actor=CHEF).state == "accepted"
    assert [entry.type for entry in due.history("b1")] == ["booking.requested", "booking.accepted"]
    service.lost = [NoAnswer("reset")]
    due.put_job("b1", "remind_guest", AT, payload=1, revision=1)
    service.lost = [NoAnswer("reset")]
    due.delete_job("b1", "remind_guest", revision=2)
    assert [entry.type for entry in due.history("b1")][2:] == ["job.set", "job.removed"]


def test_the_idempotency_key_is_kept_on_the_history(due: Duebook) -> None:
    _book(due)
    due.accept("b1", actor=CHEF, idempotency_key="order-17:accept")
    assert [entry.idempotency_key for entry in due.history("b1")][-1] == "order-17:accept"


def test_refusals_tell_code_field_and_state(due: Duebook) -> None:
    _book(due)
    with pytest.raises(Conflict) as illegal:
        due.pay("b1", captured_minor=50_000, charge_ref="ch_1")
    assert illegal.value.state == "requested"
    with pytest.raises(NotFound):
        due.accept("b2")
    with pytest.raises(Invalid) as gap:
        _book(due, "b2", event_start=Local("2027-03-28T02:30:00", "Europe/Berlin"))
    assert (gap.value.code, gap.value.field, gap.value.status) == ("inside_dst_gap", "event_start", 422)
    with pytest.raises(Conflict) as built_in:
        due.put_job("b1", "close_event", AT)
    assert built_in.value.code == "built_in_job"


def test_the_service_refuses_what_the_client_would_never_send(due: Duebook) -> None:
    with pytest.raises(Invalid) as naive:
        due.call("PUT", "/bookings/b1/jobs/remind_guest", body={"run_at": "2026-11-12T09:00:00"})
    assert (naive.value.code, naive.value.field) == ("naive_time", "run_at")
    with pytest.raises(Invalid) as unknown:
        due.call("PUT", "/bookings/b1/jobs/remind_guest", body={"run_at": "2026-11-12T09:00:00Z", "mood": 1})
    assert unknown.value.field == "mood"


def test_pending_work_is_paged_in_order(due: Duebook) -> None:
    for number in range(7):
        due.put_job(f"order-{number}", "remind_guest", AT + number * timedelta(hours=9))
    found = [job.booking_id for job in due.due(AT, AT + 7 * DAY, job="remind_guest", page_size=2)]
    assert found == [f"order-{number}" for number in range(7)]
    assert [job.booking_id for job in due.due(AT, AT + 7 * DAY, job="own", page_size=3)] == found


def test_a_job_is_woken_by_hand(due: Duebook) -> None:
    due.put_job("order-1", "remind_guest", AT)
    before = due.jobs("order-1")[0].generation
    assert due.redrive("order-1", "remind_guest", actor=Actor("operator", "op-1"), reason="look").generation > before
    assert list(due.dead_letters()) == []


def test_a_dead_job_that_is_due_is_done_by_the_redrive_itself(service: InProcessService, due: Duebook) -> None:
    due.put_job("order-1", "remind_guest", AT)
    row = service.bookings.job_row("order-1", "remind_guest")
    assert row is not None
    service.table.write(job_dead(row, AT, "its payload was too large"))
    service.now = AT
    done = due.redrive("order-1", "remind_guest", reason="made it smaller")
    assert (done.status, done.run_at) == ("done", AT)
    assert due.jobs("order-1") == []
    assert list(due.dead_letters()) == []


def test_without_a_reconcile_run_there_is_no_report(due: Duebook) -> None:
    with pytest.raises(NotFound):
        due.reconcile_report()


def test_a_job_is_explained_with_what_would_happen_and_what_comes_next(due: Duebook, service: InProcessService) -> None:
    _paid(due)
    told = due.explain("b1", "release_payment")
    assert (told.state, told.verdict, told.steps, told.next_job) == ("paid", "waits", (), "close_event")
    assert told.row == next(job for job in due.jobs("b1") if job.job == "release_payment")
    service.now = told.next_run_at or service.now
    told = due.explain("b1", "close_event")
    assert (told.verdict, told.at, told.next_job) == ("acts", service.now, "complete_order")
    (step,) = told.steps
    assert (step.type, step.reason, step.at) == ("booking.event_closed", "the event has ended", service.now)
    assert due.booking("b1").state == "paid"
    absent = due.explain("b1", "survey")
    assert (absent.verdict, absent.row) == ("absent", None)
    with pytest.raises(NotFound):
        due.explain("nobody", "survey")


def test_an_imported_payout_is_held_and_listed_until_it_is_released(due: Duebook, service: InProcessService) -> None:
    taken = _book(
        due, state="completed", paid_at=service.now, captured_minor=50_000, charge_ref="ch_1", hold_payout=True
    )
    assert taken.payout_held
    service.move_to(datetime(2026, 12, 1, tzinfo=UTC))
    assert due.booking("b1").state == "completed"
    assert due.explain("b1", "release_payment").verdict == "blocked"
    assert [(letter.kind, letter.booking_id) for letter in due.dead_letters(kind="held")] == [("held", "b1")]
    assert list(due.dead_letters()) == []
    released = due.release_payout("b1", actor=Actor("operator"), reason="checked")
    assert (released.applied, released.payout_held) == (True, False)
    assert due.release_payout("b1").applied is False
    assert list(due.dead_letters(kind="held")) == []
    service.move_by(timedelta(seconds=1))
    assert due.booking("b1").state == "paying"


def test_a_summary_is_one_whole_however_many_requests_it_takes(
    due: Duebook, service: InProcessService, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        due.put_job(f"order-{number}", "remind_guest", AT + number % 2 * DAY)
    whole = due.jobs_summary(AT - DAY, AT + 3 * DAY)
    assert [(each.day, each.job, each.count) for each in whole] == [
        (AT.date(), "own", 3),
        ((AT + DAY).date(), "own", 3),
    ]
    monkeypatch.setattr(summary, "PAGE", 1)
    monkeypatch.setattr(summary, "MOST_ROWS", 2)
    sent = len(service.sent)
    assert due.jobs_summary(AT - DAY, AT + 3 * DAY) == whole
    assert len(service.sent) - sent > 2
    assert due.jobs_summary(AT - DAY, AT + 3 * DAY, job="release_payment") == []
    with pytest.raises(BadArgument):
        due.jobs_summary(AT, AT + 367 * DAY)
