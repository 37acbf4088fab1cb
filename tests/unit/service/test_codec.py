"""Rows outlive code: every stored type is read back as it was, and reading forgives what other releases wrote."""

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duebook.adapters.table import from_image, to_image
from duebook.domain.booking import (
    Actor,
    Booking,
    Engagement,
    OpenPayment,
    OwnJob,
    PastJob,
    Planned,
    Role,
    State,
)
from duebook.domain.dispute import Dispute
from duebook.domain.payment import Payment
from duebook.domain.policy import Policy, Silence, Tier
from duebook.domain.times import Moment, iso, parse
from duebook.service.codec import decode, encode
from duebook.service.reconcile import Report
from duebook.service.rows import Cause, booking_row, payment_row, read_booking, read_payment
from tests.unit.builders import AUGUST, DAY, booking, with_job
from tests.unit.domain.test_payment_fence import CLAIMED, DONE, FAILED, SAVED_ERROR, intent

INSTANTS = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC)).map(  # noqa: DTZ001
    lambda instant: parse(iso(instant))
)
SECONDS = st.integers(-(10**9), 10**9).map(lambda seconds: timedelta(seconds=seconds))
WHOLE = st.integers(0, 10**12)
TEXT = st.text(max_size=20)
MOMENTS = st.builds(Moment, INSTANTS, TEXT, TEXT)
NAMES = st.from_regex(r"[a-z0-9_]{1,24}", fullmatch=True)
POLICIES = st.builds(
    Policy,
    accept_within=WHOLE,
    event_length=WHOLE,
    fee_bps=st.integers(0, 10_000),
    cancellation=st.lists(st.builds(Tier, before=WHOLE, refund_bps=st.integers(0, 10_000)), max_size=3).map(tuple),
    silence=st.sampled_from(Silence),
)

KNOWN: dict[Any, st.SearchStrategy[Any]] = {datetime: INSTANTS, timedelta: SECONDS, int: WHOLE, str: TEXT}
for hint, strategy in (*KNOWN.items(), (Moment, MOMENTS), (Policy, POLICIES)):
    st.register_type_strategy(hint, strategy)


def _by_hints(as_type: Any, **given_: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Any value of the type: every field drawn by its hint, unless given."""
    hints = get_type_hints(as_type)
    drawn = {field.name: st.from_type(hints[field.name]) for field in fields(as_type)}
    return st.builds(as_type, **(drawn | given_))


ENGAGEMENTS = _by_hints(
    Engagement,
    payments=st.dictionaries(st.integers(1, 9), _by_hints(OpenPayment), max_size=3),
    dispute=st.none() | _by_hints(Dispute),
)
BOOKINGS = _by_hints(
    Booking,
    engagement=st.none() | ENGAGEMENTS,
    own=st.dictionaries(NAMES, _by_hints(OwnJob), max_size=3),
    past=st.dictionaries(NAMES, _by_hints(PastJob), max_size=3),
    planned=st.dictionaries(NAMES, _by_hints(Planned), max_size=3),
)
STORED = {
    "booking": (Booking, BOOKINGS),
    "payment": (Payment, _by_hints(Payment)),
    "dispute": (Dispute, _by_hints(Dispute)),
    "cause": (Cause, _by_hints(Cause)),
    "actor": (Actor, _by_hints(Actor)),
    "report": (Report, _by_hints(Report, examples=st.lists(TEXT, max_size=3).map(tuple))),
}


@pytest.mark.parametrize("name", STORED)
@settings(max_examples=10)
@given(data=st.data())
def test_every_stored_type_is_read_back_as_it_was_written(name: str, data: st.DataObject) -> None:
    as_type, values = STORED[name]
    value = data.draw(values)
    assert decode(as_type, from_image(to_image(encode(value)))) == value


@pytest.mark.parametrize("state", State)
def test_a_booking_s_row_is_the_whole_booking(state: State) -> None:
    value = with_job(booking(state), "tax", run_at=AUGUST + DAY, keep_on_cancel=True)
    assert read_booking(from_image(to_image(booking_row(value)))) == value


@pytest.mark.parametrize("payment", [intent(), CLAIMED, SAVED_ERROR, DONE, FAILED])
def test_a_payment_s_row_is_the_whole_payment(payment: Payment) -> None:
    row = payment_row(payment, AUGUST)
    assert read_payment(from_image(to_image(row))) == payment
    assert ("attention_pk" in row) == payment.needs_attention


def test_a_field_of_a_later_release_is_ignored_at_every_depth() -> None:
    value = with_job(booking(State.PAID), "menu", run_at=AUGUST + DAY)
    row = booking_row(value)
    row["shiny"] = 1
    row["engagement"]["shiny"] = {"deep": [1]}
    row["engagement"]["policy"]["shiny"] = 1
    row["own"]["menu"]["shiny"] = "x"
    assert read_booking(row) == value


def test_a_field_that_an_older_release_did_not_write_takes_its_default() -> None:
    value = with_job(booking(State.PAID), "menu", run_at=AUGUST + DAY)
    row = booking_row(value)
    for name in ("past", "schema", "has_jobs"):
        del row[name]
    for name in ("payments", "payments_made", "refunded", "paid_out", "fee"):
        del row["engagement"][name]
    for name in ("keep_on_cancel", "offset"):
        del row["own"]["menu"][name]
    for name in ("reply_within", "silence", "appeals"):
        del row["engagement"]["policy"][name]
    assert read_booking(row) == value


def test_a_row_without_what_decides_is_not_guessed_at() -> None:
    row = booking_row(booking(State.PAID))
    del row["engagement"]["state"]
    with pytest.raises(KeyError, match="state"):
        read_booking(row)
    with pytest.raises(ValueError, match="melted"):
        read_booking(booking_row(booking()) | {"engagement": {"state": "melted"}})


def test_equal_policies_are_read_into_one_and_only_equal_ones() -> None:
    row = encode(Policy(appeals=1))
    assert decode(Policy, row) is decode(Policy, dict(row))
    assert decode(Policy, row | {"escalations": 3}).escalations == 3
    with pytest.raises(ValueError, match="appeals"):
        decode(Policy, row | {"appeals": True})


@pytest.mark.parametrize("value", [1.5, b"bytes", {1, 2}, object()])
def test_what_has_no_place_in_a_row_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="cannot store"):
        encode(value)


def test_durations_are_seconds_and_nothing_is_none() -> None:
    assert encode(OwnJob(offset=-2 * DAY)) == {"offset": -172_800, "keep_on_cancel": False, "request_hash": ""}
    assert encode(Actor(Role.CHEF)) == {"role": "chef"}
