"""Commands as the marketplace repeats them: the same request, keys, revisions, races."""

from collections.abc import Callable
from typing import Any

import pytest

from duebook.domain.errors import Contention, InvalidRequest, NotFound, Refused, VersionConflict
from duebook.domain.payment import Done, Failed, Status
from duebook.service import pay
from duebook.service.bookings import MOST_TRIES, Key
from duebook.service.commands import canonical_hash
from tests.unit.builders import AUGUST, DAY, END, HOUR, RELEASE, START
from tests.unit.world import PAID, WEDDING, World


def key(value: str = "k1", request: str = "h1") -> Key:
    return Key(value=value, request_hash=request)


# --- the same request again ----------------------------------------------------------------------------------------


def test_the_same_booking_again_is_fine_whatever_has_happened_since(world: World) -> None:
    world.paid()
    world.travel_to(RELEASE + DAY)
    booking, applied = world.commands.put_booking("b1", dict(reversed(WEDDING.items())))
    assert (booking.state, applied) == ("paid_out", False)


def test_a_repeat_is_compared_before_any_check_of_clock_settings_or_zones(world: World) -> None:
    """Years later the event is past and the default policy is another: it is still the same request."""
    body = WEDDING | {"event_start": {"local": "2026-11-14T18:00:00", "zone": "Europe/Berlin"}, "event_end": None}
    world.commands.put_booking("b1", body)
    world.now = START + 10 * 365 * DAY
    assert world.commands.put_booking("b1", body)[1] is False


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        ({}, {"price_minor": 1}, "already_exists"),
        ({}, {"revision": 1}, "already_exists"),
        ({"revision": 5}, {"revision": 5, "price_minor": 1}, "revision_conflict"),
        ({"revision": 5}, {"revision": 6, "price_minor": 1}, "already_exists"),
        ({"revision": 5}, {"revision": 4, "price_minor": 1}, None),
    ],
)
def test_another_request_for_the_same_booking_is_refused_unless_it_is_an_older_one(
    world: World, first: dict[str, Any], second: dict[str, Any], code: str | None
) -> None:
    world.book(**first)
    if code is None:
        assert world.commands.put_booking("b1", WEDDING | second)[1] is False
        return
    with pytest.raises(Refused) as refused:
        world.book(**second)
    assert refused.value.code == code


def test_the_canonical_hash_knows_no_order_and_no_white_space() -> None:
    assert canonical_hash({"a": 1, "b": {"c": "ä", "d": 2}}) == canonical_hash({"b": {"d": 2, "c": "ä"}, "a": 1})
    assert canonical_hash({"a": 1}) != canonical_hash({"a": "1"})


# --- idempotency keys ----------------------------------------------------------------------------------------------


def test_a_key_is_kept_on_the_history_row_of_what_it_did(world: World) -> None:
    world.book()
    world.commands.accept("b1", {}, key())
    assert [row.get("idempotency_key") for row in world.history()] == [None, "k1"]


def test_a_replayed_key_does_nothing_even_where_the_command_could_apply_again(world: World) -> None:
    """A move, moved back, and then the first move's retry arrives."""
    world.book()
    there, back = {"event_start": "2026-12-12T18:00:00+01:00"}, {"event_start": "2026-11-14T18:00:00+01:00"}
    world.commands.move("b1", there, key("k1"))
    world.commands.move("b1", back, key("k2"))
    booking, applied = world.commands.move("b1", there, key("k1"))
    assert applied is False
    assert booking.engagement is not None
    assert booking.engagement.event_start.instant == START


def test_a_key_that_came_with_another_request_is_refused(world: World) -> None:
    world.book()
    world.commands.accept("b1", {}, key("k1", "h1"))
    with pytest.raises(InvalidRequest) as refused:
        world.commands.pay("b1", PAID, key("k1", "h2"))
    assert (refused.value.code, refused.value.details["field"]) == ("idempotency_key_reused", "Idempotency-Key")
    assert world.state() == "accepted"


def test_one_key_serves_two_bookings(world: World) -> None:
    for booking_id in ("b1", "b2"):
        world.book(booking_id)
        assert world.commands.accept(booking_id, {}, key())[1] is True


def test_a_key_is_forgotten_after_its_time_to_live(world: World) -> None:
    world.paid()
    world.put_job("x", run_at=START)
    world.cancel(role="operator", key=key())
    assert world.table.get("b1", "key#k1") is not None
    world.now += 91 * DAY
    world.table.expire()
    assert world.table.get("b1", "key#k1") is None


def test_two_requests_with_one_key_at_the_same_time_apply_once(world: World) -> None:
    world.book()
    race(world, lambda: world.commands.accept("b1", {}, key()))
    assert world.commands.accept("b1", {}, key())[1] is False
    assert [row["type"] for row in world.history()] == ["booking.requested", "booking.accepted"]


# --- races ---------------------------------------------------------------------------------------------------------


def race(world: World, *others: Callable[[], Any]) -> None:
    """Before each of the next writes, someone else's command is committed."""
    write, waiting = world.table.write, list(others)

    def outrun(*writes: Any) -> None:
        if waiting:
            other = waiting.pop(0)
            world.table.write = write  # type: ignore[method-assign]
            other()
            world.table.write = outrun  # type: ignore[method-assign]
        write(*writes)

    world.table.write = outrun  # type: ignore[method-assign]


def test_a_command_that_is_outrun_is_decided_again_on_the_new_booking(world: World) -> None:
    world.book()
    race(world, lambda: world.commands.accept("b1", {}, None))
    with pytest.raises(Refused) as refused:
        world.commands.decline("b1", {}, None)
    assert refused.value.details["state"] == "accepted"


def test_two_first_requests_for_one_booking_make_one(world: World) -> None:
    race(world, lambda: world.book())
    assert world.commands.put_booking("b1", WEDDING)[1] is False
    assert len(world.history()) == 1


def test_a_version_conflict_ends_after_bounded_tries(world: World) -> None:
    world.book()
    race(world, *[lambda n=n: world.put_job(f"j{n}", run_at=START) for n in range(MOST_TRIES)])
    with pytest.raises(VersionConflict):
        world.commands.accept("b1", {}, None)
    assert world.state() == "requested"
    assert world.commands.accept("b1", {}, None)[1] is True


def test_contention_counts_as_being_outrun(world: World) -> None:
    world.book()
    write, failures = world.table.write, [Contention(), Contention()]

    def busy(*writes: Any) -> None:
        if failures:
            raise failures.pop()
        write(*writes)

    world.table.write = busy  # type: ignore[method-assign]
    assert world.commands.accept("b1", {}, None)[1] is True


def test_what_is_due_is_committed_even_if_the_command_is_then_refused(world: World) -> None:
    world.book()
    world.now = AUGUST + 24 * HOUR
    with pytest.raises(Refused) as refused:
        world.commands.accept("b1", {}, None)
    assert refused.value.details["state"] == "rejected"
    assert world.state() == "rejected"


# --- commands on what is not there ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        lambda w: w.commands.accept("b9", {}, None),
        lambda w: w.commands.decline("b9", {}, None),
        lambda w: w.commands.pay("b9", PAID, None),
        lambda w: w.commands.move("b9", {"event_start": "2026-12-12T18:00:00Z"}, None),
        lambda w: w.cancel("b9"),
        lambda w: w.commands.redrive("b9", "close_event", {}, None),
        lambda w: w.commands.delete_job("b9", "menu", None),
        lambda w: pay.result(w.bookings, w.provider, "b9.p1", Done("tr")),
    ],
)
def test_a_command_on_an_unknown_booking_finds_nothing_and_leaves_nothing(
    world: World, command: Callable[[World], Any]
) -> None:
    world.use_external_payments()
    with pytest.raises(NotFound):
        command(world)
    assert len(world.table.stream) == 0


def test_a_delete_with_a_revision_is_remembered_for_a_put_that_is_late(world: World) -> None:
    assert world.commands.delete_job("order-7", "menu", 5) is True
    assert world.put_job("menu", "order-7", run_at=START, revision=4) == {"booking_id": "order-7", "job": "menu"}
    assert world.put_job("menu", "order-7", run_at=START, revision=6)["status"] == "pending"


@pytest.mark.parametrize("job", ["reject_request", "close_event", "release_payment", "watch_dispute", "pay_1", "pay_0"])
def test_a_built_in_job_s_name_is_not_the_caller_s(world: World, job: str) -> None:
    for act in (lambda: world.put_job(job, run_at=START), lambda: world.commands.delete_job("b1", job, None)):
        with pytest.raises(Refused) as refused:
            act()
        assert refused.value.code == "built_in_job"


def test_putting_a_job_without_a_payload_takes_the_old_payload_away(world: World) -> None:
    world.put_job("menu", run_at=END, payload={"old": True})
    world.put_job("menu", run_at=END + DAY)
    world.travel_to(END + 2 * DAY)
    assert "payload" not in world.events()[-1]["data"]


@pytest.mark.parametrize("payload", [None, 0, "", [], {}, False, {"ä": ["😀\0", 1.5, -0.0, 1e30, 2**63 - 1, -(2**63)]}])
def test_any_json_is_a_payload_and_arrives_as_it_was_given(world: World, payload: Any) -> None:
    world.put_job("menu", run_at=END, payload=payload)
    world.travel_to(END)
    assert world.events()[-1]["data"]["payload"] == payload


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (2**63, "number_too_large"),
        ({"deep": [-(2**63) - 1]}, "number_too_large"),
        (10**30, "number_too_large"),
        ("\ud800", "not_text"),
        ([{"half \udfff": 1}], "not_text"),
        ("\ufffe", "not_text"),
        ({"\uffff": None}, "not_text"),
    ],
)
def test_a_payload_that_no_event_could_carry_is_refused_when_it_is_given(world: World, payload: Any, code: str) -> None:
    """Not months later, when its job is due: EventBridge takes 64 bits, SQS no surrogate, U+FFFE or U+FFFF."""
    with pytest.raises(InvalidRequest) as refused:
        world.put_job("menu", run_at=END, payload=payload)
    assert (refused.value.code, refused.value.details["field"]) == (code, "payload")
    assert world.jobs() == {}


# --- taking over ---------------------------------------------------------------------------------------------------

TAKEN: dict[str, Any] = {"state": "paid", "paid_at": "2026-07-01T00:00:00Z", "captured_minor": 1, "charge_ref": "ch"}


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"state": "paid"}, "missing", "captured_minor"),
        (TAKEN | {"charge_ref": None}, "missing", "charge_ref"),
        (TAKEN | {"paid_at": None}, "missing", "paid_at"),
        (TAKEN | {"state": "accepted"}, "not_paid", "state"),
        ({"charge_ref": "ch"}, "not_paid", "state"),
        ({"accepted_at": "2026-07-01T00:00:00Z"}, "not_accepted", "accepted_at"),
        ({"requested_at": "2026-08-01T10:05:01Z"}, "in_the_future", "requested_at"),
        ({"state": "accepted", "accepted_at": "2026-08-02T00:00:00Z"}, "in_the_future", "accepted_at"),
        (TAKEN | {"paid_at": "2026-08-02T00:00:00Z"}, "in_the_future", "paid_at"),
        ({"policy": {"fee_bps": 10_001}}, "bad_policy", "policy"),
        ({"policy": {"accept_within": 366 * 86_400 + 1}}, "bad_policy", "policy.accept_within"),
        ({"event_start": "9999-12-31T23:00:00Z", "event_end": None}, "out_of_range", "event_start"),
    ],
)
def test_a_take_over_that_makes_no_sense_is_refused_with_its_field(
    world: World, changes: dict[str, Any], code: str, field: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        world.book(**changes)
    assert (refused.value.code, refused.value.details["field"]) == (code, field)


def test_a_booking_that_was_paid_elsewhere_goes_on_here(world: World) -> None:
    world.book("b1", **TAKEN | {"captured_minor": 100_000, "accepted_at": "2026-06-30T00:00:00Z"})
    world.travel_to(RELEASE + HOUR)
    assert world.state() == "paid_out"
    assert [row["amount"] for row in world.transfers("b1.p1")] == [90_000]


def test_a_request_that_is_a_thousand_years_old_can_be_read_back(world: World) -> None:
    """Kind: a year of three digits, which no row could be read back with."""
    world.book(requested_at="0999-01-01T00:00:00Z")
    world.deliver()
    assert world.state() == "rejected"


def test_overrides_of_the_policy_are_kept_with_the_booking(world: World) -> None:
    world.paid(policy={"fee_bps": 0, "complete_after": 0, "dispute_within": 0, "cancellation": None})
    world.travel_to(END)
    assert world.state() == "paid_out"
    assert [row["amount"] for row in world.transfers("b1.p1")] == [100_000]


# --- answers of the marketplace ------------------------------------------------------------------------------------


def asked(world: World) -> None:
    world.use_external_payments()
    world.paid()
    world.travel_to(RELEASE)


def answer(world: World, outcome: Done | Failed, key: str | None = None) -> bool:
    return pay.result(world.bookings, world.provider, "b1.p1", outcome, key)[1]


def test_an_answer_ends_the_payment_and_the_same_again_is_fine(world: World) -> None:
    asked(world)
    assert answer(world, Done("tr_1")) is True
    assert world.state() == "paid_out"
    assert answer(world, Done("tr_1")) is False
    for other in (Done("tr_2"), Failed("no")):
        with pytest.raises(Refused) as refused:
            answer(world, other)
        assert refused.value.code == "already_answered"


def test_a_failure_waits_for_a_person_whose_retry_asks_under_a_new_key(world: World) -> None:
    asked(world)
    assert answer(world, Failed("account closed")) is True
    assert answer(world, Failed("account closed")) is False
    assert (world.state(), world.jobs()) == ("paying", {})
    assert [row["payment_id"] for row in world.attention("needs_attention")] == ["b1.p1"]
    world.commands.redrive("b1", "pay_1", {"actor": {"role": "operator"}}, None)
    with pytest.raises(Refused) as refused:
        answer(world, Failed("account closed"))
    assert refused.value.code == "not_requested"
    world.deliver()
    assert world.events()[-1]["data"]["key"] == "b1.p1.e2"
    assert answer(world, Done("tr_1")) is True
    with pytest.raises(Refused) as refused:
        world.commands.redrive("b1", "pay_1", {}, None)
    assert refused.value.code == "already_done"


def refused_once(world: World, *, asked_again: bool) -> None:
    asked(world)
    answer(world, Failed("account closed"), "b1.p1.e1")
    world.commands.redrive("b1", "pay_1", {"actor": {"role": "operator"}}, None)
    if asked_again:
        world.deliver()


def test_a_failure_of_an_earlier_request_that_comes_again_does_not_end_the_one_that_runs(world: World) -> None:
    """A repeated event is answered a second time; taken for the new request's, a person would pay twice."""
    refused_once(world, asked_again=True)
    assert answer(world, Failed("account closed"), "b1.p1.e1") is False
    with pytest.raises(Refused) as refused:
        answer(world, Failed("account closed"))
    assert (refused.value.code, refused.value.details["key"]) == ("which_request", "b1.p1.e2")
    assert world.bookings.payment("b1.p1").status is Status.UNKNOWN
    assert answer(world, Failed("still closed"), "b1.p1.e2") is True


@pytest.mark.parametrize("asked_again", [False, True])
@pytest.mark.parametrize("key", [None, "b1.p1.e1"])
def test_money_that_moved_is_recorded_whichever_request_moved_it(
    world: World, asked_again: bool, key: str | None
) -> None:
    refused_once(world, asked_again=asked_again)
    assert answer(world, Done("tr_1"), key) is True
    assert (world.state(), world.jobs()) == ("paid_out", {})
    assert answer(world, Failed("account closed"), "b1.p1.e1") is False


def test_money_that_moved_after_all_is_recorded_over_a_failure(world: World) -> None:
    asked(world)
    answer(world, Failed("no answer from the bank"))
    assert answer(world, Done("tr_1"), "b1.p1.e1") is True
    assert (world.state(), list(world.attention("needs_attention"))) == ("paid_out", [])


def test_an_answer_to_a_request_that_was_not_made_yet_is_refused(world: World) -> None:
    refused_once(world, asked_again=False)
    with pytest.raises(Refused) as refused:
        answer(world, Done("tr_1"), "b1.p1.e2")
    assert refused.value.code == "not_requested"


@pytest.mark.parametrize(
    "key", ["b1.p1.e2", "b1.p2.e1", "b1.p1.e0", "b1.p1.e01", "b1.p1.e", "b1.p1", "b1.p1.e1.e1", "b1.p1.e²"]
)
def test_an_answer_under_a_key_that_was_never_given_is_refused(world: World, key: str) -> None:
    asked(world)
    with pytest.raises(Refused) as refused:
        answer(world, Done("tr_1"), key)
    assert refused.value.code == "not_requested"


def test_an_answer_to_what_a_provider_answers_itself_is_refused(world: World) -> None:
    world.paid()
    world.travel_to(RELEASE - HOUR)
    with pytest.raises(Refused) as refused:
        answer(world, Done("tr_1"))
    assert refused.value.code == "answered_by_provider"


def test_from_the_intent_on_the_money_can_neither_be_cancelled_nor_decided_again(world: World) -> None:
    asked(world)
    with pytest.raises(Refused) as refused:
        world.cancel(role="operator")
    assert refused.value.details["state"] == "paying"
