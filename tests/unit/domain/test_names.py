"""Names and ids: what fits where, and that no two can collide."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from duebook.domain import names

JOBS = st.from_regex(names.JOB_NAME, fullmatch=True)
BOOKINGS = st.from_regex(names.BOOKING_ID, fullmatch=True)


@given(JOBS, BOOKINGS)
def test_a_schedule_name_fits_what_scheduler_allows_and_is_read_back(job: str, booking_id: str) -> None:
    name = names.schedule_name(booking_id, job)
    assert re.fullmatch(r"[0-9a-zA-Z-_.]{1,64}", name)
    assert names.schedule_parts(name) == (booking_id, job)


@given(JOBS, BOOKINGS, JOBS, BOOKINGS)
def test_no_two_jobs_share_a_schedule_name(job: str, booking_id: str, other_job: str, other_id: str) -> None:
    assume((job, booking_id) != (other_job, other_id))
    assert names.schedule_name(booking_id, job) != names.schedule_name(other_id, other_job)


def test_hyphens_and_underscores_in_an_id_never_make_two_names_one() -> None:
    assert names.schedule_name("b-c", "a") != names.schedule_name("c", "a_b")
    assert names.schedule_parts("a-b-c") == ("b-c", "a")
    assert names.schedule_parts("a--b") == ("-b", "a")


def test_the_longest_names_fit_exactly() -> None:
    assert len(names.schedule_name("b" * 39, "j" * 24)) == 64


NUMBERS = st.integers(1, 999_999)


@given(BOOKINGS, NUMBERS, NUMBERS)
def test_an_executions_name_is_one_that_is_logged(booking_id: str, number: int, run: int) -> None:
    """Step Functions takes a dot, but logs only executions named of 0-9 A-Z a-z - _, at most 80 (StartExecution)."""
    assert re.fullmatch(r"[0-9A-Za-z_-]{1,80}", names.execution_name(names.dispute_id(booking_id, number), run))


@given(st.tuples(BOOKINGS, NUMBERS, NUMBERS), st.tuples(BOOKINGS, NUMBERS, NUMBERS))
def test_no_two_runs_share_an_executions_name(one: tuple[str, int, int], other: tuple[str, int, int]) -> None:
    assume(one != other)
    first, second = (names.execution_name(names.dispute_id(id_, number), run) for id_, number, run in (one, other))
    assert first != second


def test_an_id_that_looks_like_a_disputes_name_stays_its_own() -> None:
    assert names.execution_name("b1.d1", 2) == "b1_d1-2"
    assert names.execution_name("b1_d1.d1", 2) == "b1_d1_d1-2"
    assert names.execution_name("b1_d1-2.d1", 1) == "b1_d1-2_d1-1"


@pytest.mark.parametrize("name", ["", "nohyphen", "-b1", "job-", "JOB-b1", "job-b.1", "a b-c", f"{'j' * 25}-b1"])
def test_a_schedule_that_is_not_ours_has_no_parts(name: str) -> None:
    assert names.schedule_parts(name) is None


@pytest.mark.parametrize(
    ("job", "built_in", "kind", "lane"),
    [
        ("reject_request", True, "reject_request", "lifecycle"),
        ("cancel_unpaid", True, "cancel_unpaid", "lifecycle"),
        ("close_event", True, "close_event", "lifecycle"),
        ("complete_order", True, "complete_order", "lifecycle"),
        ("release_payment", True, "release_payment", "lifecycle"),
        ("watch_dispute", True, "watch_dispute", "lifecycle"),
        ("pay_1", True, "pay", "payments"),
        ("pay_999999", True, "pay", "payments"),
        ("pay_", True, "pay_", "lifecycle"),
        ("pay_0", True, "pay_0", "lifecycle"),
        ("pay_01", True, "pay_01", "lifecycle"),
        ("pay_me", False, "own", "lifecycle"),
        ("pay", False, "own", "lifecycle"),
        ("prepay_1", False, "own", "lifecycle"),
        ("remind_chef", False, "own", "lifecycle"),
    ],
)
def test_each_job_has_its_kind_and_its_lane(job: str, built_in: bool, kind: str, lane: str) -> None:
    assert names.is_built_in(job) is built_in
    assert names.lane(job) == lane
    if not built_in or names.payment_number(job) or not job.startswith("pay_"):
        assert names.kind(job) == kind
        assert kind in names.KINDS


@given(st.integers(min_value=1, max_value=999_999), BOOKINGS)
def test_a_payment_id_carries_its_booking(number: int, booking_id: str) -> None:
    payment_id = names.payment_id(booking_id, number)
    assert re.fullmatch(names.PAYMENT_ID, payment_id)
    assert names.parent(payment_id) == booking_id
    assert names.payment_number(names.pay_job(number)) == number


@pytest.mark.parametrize("bad", ["", "b" * 40, "a b", "a.b", "a#b", "a/b", "ä", "b1\n"])
def test_a_booking_id_outside_the_pattern_is_none(bad: str) -> None:
    assert re.fullmatch(names.BOOKING_ID, bad) is None


@pytest.mark.parametrize("bad", ["", "j" * 25, "Job", "a-b", "a b", "a.b", "a#b", "ä", "job\n"])
def test_a_job_name_outside_the_pattern_is_none(bad: str) -> None:
    assert re.fullmatch(names.JOB_NAME, bad) is None
