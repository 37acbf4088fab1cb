"""A caller's own jobs: revisions, late and repeated requests, limits, anchors."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from duebook.domain import transitions
from duebook.domain.booking import MOST_OWN_JOBS, MOST_PAST_JOBS, Booking, OwnJob, PastJob, State, jobs_for
from duebook.domain.errors import InvalidRequest, Refused
from duebook.domain.times import HORIZON
from duebook.domain.transitions import LATE_REQUEST, advance, remove_job, set_job
from tests.unit.builders import (
    AUGUST,
    DAY,
    END,
    HOUR,
    MS,
    OPERATOR,
    SECOND,
    START,
    at,
    booking,
    must,
    run_out,
    with_job,
)

RUN_AT = START - 7 * DAY


def put(
    before: Booking | None, body: str = "a", revision: int | None = None, run_at: datetime = RUN_AT
) -> Booking | None:
    """PUT of the job `remind`; `body` stands for its hash. None when nothing changes."""
    wanted = OwnJob(at=at(run_at), revision=revision, request_hash=body)
    step = set_job(before, "b1", "remind", wanted, f'"{body}"', AUGUST)
    return step.booking if step else None


def delete(before: Booking | None, revision: int | None = None) -> Booking | None:
    step = remove_job(before, "b1", "remind", revision, AUGUST)
    return step.booking if step else None


def made(body: str = "a", revision: int | None = None) -> Booking:
    found = put(None, body, revision)
    assert found is not None
    return found


def gone(revision: int | None = None, before: Booking | None = None) -> Booking:
    found = delete(before or made("a", 5), revision)
    assert found is not None
    return found


def fired(revision: int | None = None, body: str = "a") -> Booking:
    return must(advance(made(body, revision), RUN_AT))


def test_an_own_job_needs_no_booking_of_ours() -> None:
    step = set_job(None, "b1", "remind", OwnJob(at=at(RUN_AT), request_hash="a"), '{"x":1}', AUGUST)
    assert step is not None
    assert (step.type, step.job, step.payload, step.booking.state) == ("job.set", "remind", '{"x":1}', None)
    assert jobs_for(step.booking) == {"remind": RUN_AT}


def test_putting_it_again_replaces_instant_and_generation() -> None:
    moved = put(made("a"), "b", run_at=RUN_AT + DAY)
    assert moved is not None
    assert moved.planned["remind"].run_at == RUN_AT + DAY
    assert moved.planned["remind"].generation == moved.version == 2


def test_a_new_payload_at_the_same_instant_is_a_new_generation_too() -> None:
    changed = put(made("a"), "b")
    assert changed is not None
    assert changed.planned["remind"].generation == 2


PUTS: list[tuple[str, Any, str, int | None, str]] = [
    # case                              known                body  revision  result
    ("same again",                      lambda: made("a"),        "a", None, "nothing"),
    ("other body",                      lambda: made("a"),        "b", None, "applied"),
    ("lower revision",                  lambda: made("a", 5),     "b", 4,    "nothing"),
    ("equal revision, same body",       lambda: made("a", 5),     "a", 5,    "nothing"),
    ("equal revision, other body",      lambda: made("a", 5),     "b", 5,    "refused"),
    ("higher revision",                 lambda: made("a", 5),     "b", 6,    "applied"),
    ("higher revision, same body",      lambda: made("a", 5),     "a", 6,    "applied"),
    ("a revision after none",           lambda: made("a"),        "b", 1,    "applied"),
    ("none after a revision",           lambda: made("a", 5),     "b", None, "applied"),
    ("late repeat after it fired",      lambda: fired(),          "a", None, "nothing"),
    ("another after it fired",          lambda: fired(),          "b", None, "applied"),
    ("lower after it fired",            lambda: fired(5),         "b", 4,    "nothing"),
    ("repeat after it fired",           lambda: fired(5),         "a", 5,    "nothing"),
    ("higher after it fired",           lambda: fired(5),         "b", 6,    "applied"),
    ("lower after its removal",         lambda: gone(7),          "b", 6,    "nothing"),
    ("equal after its removal",         lambda: gone(7),          "b", 7,    "refused"),
    ("higher after its removal",        lambda: gone(7),          "b", 8,    "applied"),
    ("lower after a removal without",   lambda: gone(None),       "b", 4,    "nothing"),
    ("repeat after a removal without",  lambda: gone(None),       "a", 5,    "nothing"),
    ("higher after a removal without",  lambda: gone(None),       "b", 6,    "applied"),
    ("none after a removal",            lambda: gone(7),          "b", None, "applied"),
    ("same after both without",         lambda: gone(None, made("a")), "a", None, "applied"),
    ("late after an early removal",     lambda: delete(None, 3),  "a", 2,    "nothing"),
    ("newer than an early removal",     lambda: delete(None, 3),  "a", 4,    "applied"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("known", "body", "revision", "result"), [row[1:] for row in PUTS], ids=[row[0] for row in PUTS]
)
def test_a_put_is_applied_ignored_or_refused_by_revision_and_body(
    known: Any, body: str, revision: int | None, result: str
) -> None:
    before = known()
    if result == "refused":
        with pytest.raises(Refused) as refused:
            put(before, body, revision)
        assert refused.value.code == "revision_conflict"
        return
    after = put(before, body, revision)
    assert (after is None) == (result == "nothing")
    if after:
        assert after.planned["remind"].generation == after.version > before.version
        assert "remind" not in after.past


DELETES: list[tuple[str, Any, int | None, str]] = [
    ("never there",                     lambda: None,             None, "nothing"),
    ("never there, to be remembered",   lambda: None,             3,    "applied"),
    ("plain",                           lambda: made("a"),        None, "applied"),
    ("without a revision",              lambda: made("a", 5),     None, "applied"),
    ("lower",                           lambda: made("a", 5),     4,    "nothing"),
    ("equal",                           lambda: made("a", 5),     5,    "refused"),
    ("higher",                          lambda: made("a", 5),     6,    "applied"),
    ("a revision after none",           lambda: made("a"),        1,    "applied"),
    ("again",                           lambda: gone(7),          7,    "nothing"),
    ("again without",                   lambda: gone(7),          None, "nothing"),
    ("after it fired",                  lambda: fired(5),         6,    "applied"),
    ("after it fired, without",         lambda: fired(5),         None, "nothing"),
    ("after it fired, lower",           lambda: fired(5),         4,    "nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("known", "revision", "result"), [row[1:] for row in DELETES], ids=[row[0] for row in DELETES])
def test_a_delete_is_applied_ignored_or_refused_by_revision(known: Any, revision: int | None, result: str) -> None:
    before = known()
    if result == "refused":
        with pytest.raises(Refused) as refused:
            delete(before, revision)
        assert refused.value.code == "revision_conflict"
        return
    after = delete(before, revision)
    assert (after is None) == (result == "nothing")
    if after:
        assert (after.own, after.planned) == ({}, {})


def test_what_has_fired_or_was_removed_is_remembered_boundedly_the_newest_longest() -> None:
    before: Booking | None = None
    for number in range(MOST_PAST_JOBS + 3):
        step = remove_job(before, "b1", f"j{number}", 1, AUGUST)
        before = must(step)
    assert before is not None
    assert len(before.past) == MOST_PAST_JOBS
    assert "j2" not in before.past
    assert before.past["j52"] == PastJob(revision=1, request_hash="")


def full() -> Booking:
    before = with_job(None, "j0", run_at=RUN_AT)
    for number in range(1, MOST_OWN_JOBS):
        before = with_job(before, f"j{number}", run_at=RUN_AT)
    return before


def test_a_booking_has_at_most_25_own_jobs_and_moving_one_of_them_is_still_possible() -> None:
    with pytest.raises(Refused) as refused:
        with_job(full(), "one_more", run_at=RUN_AT)
    assert refused.value.code == "too_many_jobs"
    assert with_job(full(), "j3", run_at=RUN_AT + DAY).planned["j3"].run_at == RUN_AT + DAY


def test_a_job_that_is_gone_makes_room() -> None:
    assert len(with_job(must(remove_job(full(), "b1", "j0", None, AUGUST)), "one_more", run_at=RUN_AT).own) == 25


def test_twenty_five_own_jobs_due_at_once_all_fire() -> None:
    after, steps = run_out(full(), RUN_AT)
    assert len(steps) == 25
    assert after.planned == {}
    assert {step.fires for step in steps} == {f"j{n}" for n in range(25)}


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("state", [State.REJECTED, State.EXPIRED, State.CANCELLED])
def test_a_booking_that_is_off_takes_only_jobs_that_are_kept(state: State, keep: bool) -> None:
    if keep:
        assert with_job(booking(state), "claim", run_at=RUN_AT, keep_on_cancel=True).planned["claim"].run_at == RUN_AT
        return
    with pytest.raises(Refused) as refused:
        with_job(booking(state), "claim", run_at=RUN_AT)
    assert (refused.value.code, refused.value.details["state"]) == ("booking_is_off", state)


def test_a_job_of_a_booking_that_went_off_never_fires() -> None:
    before = with_job(booking(), "menu", run_at=RUN_AT)
    off = must(transitions.decline(before, None, None, AUGUST))
    assert jobs_for(off) == {}
    assert advance(off, RUN_AT + DAY) is None


def test_an_anchored_job_without_a_managed_booking_is_refused() -> None:
    for before in (None, with_job(None, "other", run_at=RUN_AT)):
        with pytest.raises(InvalidRequest) as refused:
            with_job(before, "menu", anchor="event_start")
        assert (refused.value.code, refused.value.details["field"]) == ("no_event", "anchor")


@pytest.mark.parametrize(
    ("anchor", "offset", "run_at"),
    [("event_start", -DAY, START - DAY), ("event_start", timedelta(), START), ("event_end", HOUR, END + HOUR)],
)
def test_an_anchored_job_is_due_at_its_offset_from_the_event(anchor: str, offset: timedelta, run_at: datetime) -> None:
    assert with_job(booking(), "menu", anchor=anchor, offset=offset).planned["menu"].run_at == run_at


@pytest.mark.parametrize(
    ("run_at", "code"),
    [
        (AUGUST - LATE_REQUEST, None),
        (AUGUST - LATE_REQUEST - SECOND, "past_run_at"),
        (AUGUST, None),
        (AUGUST + HORIZON, None),
        (AUGUST + HORIZON + SECOND, "beyond_horizon"),
    ],
)
def test_an_own_job_may_be_a_day_late_and_five_years_ahead(run_at: datetime, code: str | None) -> None:
    if code is None:
        assert with_job(None, "remind", run_at=run_at).planned["remind"].run_at == run_at
        return
    with pytest.raises(InvalidRequest) as refused:
        with_job(None, "remind", run_at=run_at)
    assert (refused.value.code, refused.value.details["field"]) == (code, "run_at")


def test_an_own_job_is_due_exactly_at_its_instant_and_says_which_payload_goes_out() -> None:
    before = with_job(None, "remind", run_at=RUN_AT)
    assert advance(before, RUN_AT - MS) is None
    step = advance(before, RUN_AT + HOUR)
    assert step is not None
    assert (step.type, step.fires, step.due, step.at) == ("job.due", "remind", RUN_AT, RUN_AT + HOUR)
    assert (step.booking.own, step.booking.planned) == ({}, {})


def test_a_redriven_own_job_keeps_its_instant() -> None:
    before = with_job(None, "remind", run_at=RUN_AT)
    after = transitions.redrive(before, "remind", OPERATOR, "look again", AUGUST)
    assert (after.booking.planned["remind"].run_at, after.booking.planned["remind"].generation) == (RUN_AT, 2)
    assert after.reason == "look again"
