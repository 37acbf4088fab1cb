"""The money fence as a state table: what may be done with a payment, and what the row says before and after."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.domain.payment import (
    ASK_AGAIN,
    KEY_IS_SAFE,
    LEASE,
    LISTS_LAG,
    MOST_ATTEMPTS,
    RETRY_DELAYS,
    Act,
    Asked,
    Done,
    Failed,
    Kind,
    Outcome,
    Payment,
    Status,
    Uncertain,
    claim,
    decide,
    not_found,
    record,
    retry,
)
from tests.unit.builders import AUGUST as T0
from tests.unit.builders import DAY, HOUR, MINUTE, MS


def intent(**changes: Any) -> Payment:
    values: dict[str, Any] = {
        "payment_id": "b1.p1",
        "booking_id": "b1",
        "number": 1,
        "kind": Kind.PAYOUT,
        "amount": 90_000,
        "currency": "EUR",
        "chef_id": "ch-1",
        "charge_ref": "ch_1",
        "created_at": T0,
        "next_attempt_at": T0,
    }
    return Payment(**(values | changes))


CLAIMED = claim(intent(), Act.SEND, T0)
UNCERTAIN = record(CLAIMED, Uncertain("timeout"), T0)
SAVED_ERROR = record(CLAIMED, Uncertain("HTTP 500", saved_error=True), T0)
ASKED = record(CLAIMED, Asked(), T0)
DONE = record(CLAIMED, Done("tr_1"), T0)
FAILED = record(CLAIMED, Failed("account closed"), T0)
STUCK = record(replace(CLAIMED, attempt=MOST_ATTEMPTS), Uncertain("timeout"), T0)
RETRIED = retry(FAILED, T0 + DAY)
assert RETRIED is not None

TABLE: list[tuple[str, Payment, timedelta, Act, timedelta | None]] = [
    ("intent, early",                    intent(),            -MS,              Act.WAIT,    timedelta()),
    ("intent",                           intent(),            timedelta(),      Act.SEND,    None),
    ("intent, a year late",              intent(),            365 * DAY,        Act.SEND,    None),
    ("claimed, lease running",           CLAIMED,             timedelta(),      Act.WAIT,    LEASE),
    ("claimed, lease about to end",      CLAIMED,             LEASE - MS,       Act.WAIT,    LEASE),
    ("claimed, crashed",                 CLAIMED,             LEASE,            Act.SEND,    None),
    ("claimed, crashed, 2 h",            CLAIMED,             2 * HOUR,         Act.SEND,    None),
    ("claimed, crashed, before 23 h",    CLAIMED,             23 * HOUR - MS,   Act.SEND,    None),
    ("claimed, crashed, 23 h",           CLAIMED,             23 * HOUR,        Act.LOOK_UP, None),
    ("claimed, crashed, 24 h",           CLAIMED,             24 * HOUR,        Act.LOOK_UP, None),
    ("claimed, crashed, 30 d",           CLAIMED,             30 * DAY,         Act.LOOK_UP, None),
    ("claimed, crashed, 365 d",          CLAIMED,             365 * DAY,        Act.LOOK_UP, None),
    ("uncertain, not due",               UNCERTAIN,           MINUTE - MS,      Act.WAIT,    MINUTE),
    ("uncertain, due",                   UNCERTAIN,           MINUTE,           Act.SEND,    None),
    ("saved error, lists may lag",       SAVED_ERROR,         MINUTE,           Act.WAIT,    2 * HOUR),
    ("saved error, before 2 h",          SAVED_ERROR,         2 * HOUR - MS,    Act.WAIT,    2 * HOUR),
    ("saved error, 2 h",                 SAVED_ERROR,         2 * HOUR,         Act.LOOK_UP, None),
    ("asked, not due",                   ASKED,               12 * HOUR - MS,   Act.WAIT,    12 * HOUR),
    ("done",                             DONE,                timedelta(),      Act.NOTHING, None),
    ("done, a year later",               DONE,                365 * DAY,        Act.NOTHING, None),
    ("failed",                           FAILED,              timedelta(),      Act.NOTHING, None),
    ("failed, a year later",             FAILED,              365 * DAY,        Act.NOTHING, None),
    ("too many attempts",                STUCK,               365 * DAY,        Act.NOTHING, None),
    ("retried after a failure",          RETRIED,             DAY,              Act.SEND,    None),
    ("retried, too early",               RETRIED,             DAY - MS,         Act.WAIT,    DAY),
]  # fmt: skip


@pytest.mark.parametrize(
    ("payment", "after", "act", "until"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_what_may_be_done_with_a_payment(payment: Payment, after: timedelta, act: Act, until: timedelta | None) -> None:
    decision = decide(payment, T0 + after)
    assert decision.act is act
    assert decision.until == (None if until is None else T0 + until)
    assert decision.reason


BY_EVENT: list[tuple[Payment, timedelta, Act]] = [
    (intent(), timedelta(), Act.SEND),
    (ASKED, 12 * HOUR - MS, Act.WAIT),
    (ASKED, 12 * HOUR, Act.SEND),
    (ASKED, 23 * HOUR, Act.SEND),
    (ASKED, 30 * DAY, Act.SEND),
    (ASKED, 365 * DAY, Act.SEND),
    (SAVED_ERROR, HOUR, Act.SEND),
    (DONE, 365 * DAY, Act.NOTHING),
    (FAILED, 365 * DAY, Act.NOTHING),
    (STUCK, 365 * DAY, Act.NOTHING),
]


@pytest.mark.parametrize(("payment", "after", "act"), BY_EVENT)
def test_the_marketplace_is_asked_again_under_the_same_reference_and_never_looked_up(
    payment: Payment, after: timedelta, act: Act
) -> None:
    assert decide(payment, T0 + after, by_event=True).act is act


def test_the_lookup_waits_for_two_hours_of_quiet_since_the_last_attempt_even_after_23_hours() -> None:
    """The last send under the key was at 22 h 30; at 23 h the lists may not show it yet."""
    late = T0 + timedelta(hours=22, minutes=30)
    payment = record(claim(replace(UNCERTAIN, next_attempt_at=late), Act.SEND, late), Uncertain("timeout"), late)
    due = replace(payment, next_attempt_at=T0 + KEY_IS_SAFE)
    decision = decide(due, T0 + KEY_IS_SAFE)
    assert (decision.act, decision.until) == (Act.WAIT, late + LISTS_LAG)
    assert decide(due, late + LISTS_LAG).act is Act.LOOK_UP


def test_a_claim_says_unknown_with_a_lease_longer_than_any_call_can_take() -> None:
    assert (CLAIMED.status, CLAIMED.attempt, CLAIMED.epoch) == (Status.UNKNOWN, 1, 1)
    assert CLAIMED.lease_until == CLAIMED.next_attempt_at == T0 + LEASE
    assert CLAIMED.epoch_started_at == CLAIMED.attempted_at == T0
    assert timedelta(seconds=60) < LEASE


def test_the_epoch_starts_at_its_first_send_and_not_again() -> None:
    again = claim(UNCERTAIN, Act.SEND, T0 + HOUR)
    assert (again.epoch_started_at, again.attempted_at, again.attempt) == (T0, T0 + HOUR, 2)
    assert again.key == CLAIMED.key == "b1.p1.e1"


def test_one_key_carries_the_same_account_though_the_chef_has_another_one_since() -> None:
    first = claim(intent(), Act.SEND, T0, "acct_1")
    again = claim(first, Act.SEND, T0 + HOUR, "acct_2")
    assert (again.key, again.account) == (first.key, "acct_1")
    assert not_found(again, T0 + DAY, "acct_2").account == "acct_2", "a new key, with what is true now"


def test_a_look_up_is_no_attempt_that_lists_could_lag_behind() -> None:
    looking = claim(UNCERTAIN, Act.LOOK_UP, T0 + DAY)
    assert (looking.attempted_at, looking.epoch_started_at, looking.epoch) == (T0, T0, 1)
    assert looking.lease_until == looking.next_attempt_at == T0 + DAY + LEASE
    assert looking.attempt == 2


def test_what_is_surely_not_there_is_sent_under_a_new_key_with_its_own_23_hours() -> None:
    fresh = not_found(claim(SAVED_ERROR, Act.LOOK_UP, T0 + DAY), T0 + DAY)
    assert (fresh.epoch, fresh.key, fresh.look_up_first) == (2, "b1.p1.e2", False)
    assert fresh.epoch_started_at == fresh.attempted_at == T0 + DAY
    assert decide(fresh, T0 + DAY + LEASE).act is Act.SEND
    assert decide(fresh, T0 + DAY + KEY_IS_SAFE).act is Act.LOOK_UP


@pytest.mark.parametrize(
    ("outcome", "status", "next_in", "attention"),
    [
        (Done("tr_1"), Status.DONE, None, False),
        (Failed("account closed"), Status.FAILED, None, True),
        (Uncertain("timeout"), Status.UNKNOWN, RETRY_DELAYS[0], False),
        (Asked(), Status.UNKNOWN, ASK_AGAIN, False),
    ],
)
def test_an_answer_frees_the_lease_and_plans_what_comes_next(
    outcome: Outcome, status: Status, next_in: timedelta | None, attention: bool
) -> None:
    after = record(CLAIMED, outcome, T0)
    assert (after.status, after.lease_until, after.needs_attention) == (status, None, attention)
    assert after.next_attempt_at == (None if next_in is None else T0 + next_in)


@pytest.mark.parametrize("attempt", range(1, MOST_ATTEMPTS + 1))
def test_the_next_attempt_is_ever_later_and_after_the_last_a_person_has_to_look(attempt: int) -> None:
    after = record(replace(CLAIMED, attempt=attempt), Uncertain("timeout"), T0)
    if attempt == MOST_ATTEMPTS:
        assert (after.next_attempt_at, after.needs_attention) == (None, True)
    else:
        assert after.next_attempt_at == T0 + RETRY_DELAYS[min(attempt, len(RETRY_DELAYS)) - 1]


def test_a_saved_error_is_remembered_until_the_next_epoch() -> None:
    again = record(claim(SAVED_ERROR, Act.SEND, T0 + HOUR), Uncertain("timeout"), T0 + HOUR)
    assert again.look_up_first


def test_the_reason_of_an_uncertain_attempt_is_gone_when_the_money_has_moved() -> None:
    assert record(claim(UNCERTAIN, Act.SEND, T0 + HOUR), Done("tr_1"), T0 + HOUR).reason is None


RETRIES: list[tuple[str, Payment, timedelta, tuple[Status, int, int, timedelta] | None]] = [
    # case                      payment    at         status         epoch attempt next
    ("done",                    DONE,      DAY,       None),
    ("failed: a new epoch",     FAILED,    DAY,       (Status.INTENT, 2, 0, DAY)),
    ("intent",                  intent(),  DAY,       (Status.INTENT, 1, 0, DAY)),
    ("waiting for its delay",   UNCERTAIN, timedelta(), (Status.UNKNOWN, 1, 1, timedelta())),
    ("lease still running",     CLAIMED,   MINUTE,    (Status.UNKNOWN, 1, 1, LEASE)),
    ("lease over",              CLAIMED,   HOUR,      (Status.UNKNOWN, 1, 1, HOUR)),
    ("stuck: counted anew",     STUCK,     DAY,       (Status.UNKNOWN, 1, 0, DAY)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("payment", "after", "expected"), [row[1:] for row in RETRIES], ids=[row[0] for row in RETRIES]
)
def test_a_person_s_retry(
    payment: Payment, after: timedelta, expected: tuple[Status, int, int, timedelta] | None
) -> None:
    found = retry(payment, T0 + after)
    if expected is None:
        assert found is None
        return
    status, epoch, attempt, next_in = expected
    assert found is not None
    assert (found.status, found.epoch, found.attempt) == (status, epoch, attempt)
    assert found.next_attempt_at == T0 + next_in


def test_a_retry_after_30_days_of_uncertainty_looks_up_before_any_key_is_used_again() -> None:
    found = retry(STUCK, T0 + 30 * DAY)
    assert found is not None
    assert decide(found, T0 + 30 * DAY).act is Act.LOOK_UP


def test_a_retry_while_a_saved_error_stands_still_looks_up_first() -> None:
    found = retry(SAVED_ERROR, T0 + 3 * HOUR)
    assert found is not None
    assert decide(found, T0 + 3 * HOUR).act is Act.LOOK_UP


@pytest.mark.parametrize("gap", [timedelta(), HOUR, 23 * HOUR, 24 * HOUR, 30 * DAY, 365 * DAY])
@pytest.mark.parametrize("crash", ["before the call", "after the call"])
def test_a_crash_around_the_call_never_moves_the_money_twice(crash: str, gap: timedelta) -> None:
    """A provider that forgets keys after 24 h; the worker dies once and comes back after `gap`."""
    provider = _Provider()
    now = T0
    claimed = claim(intent(), Act.SEND, now)
    if crash == "after the call":
        provider.send(claimed, now)
    now = max(now + gap, now + LEASE)
    assert _play(claimed, provider, now) == 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["answered", "lost request", "lost answer", "saved 500"]),
            st.timedeltas(min_value=timedelta(), max_value=60 * DAY),
        ),
        max_size=8,
    )
)
def test_whatever_gets_lost_the_money_moves_exactly_once(story: list[tuple[str, timedelta]]) -> None:
    provider = _Provider()
    payment, now = intent(), T0
    for fate, gap in story:
        now += gap
        payment, now = _attempt(payment, provider, now, fate)
    assert _play(payment, provider, now) == 1


class _Provider:
    """Keeps a key with its answer for 24 h; lists what it moved after at most 2 h."""

    def __init__(self) -> None:
        self.keys: dict[str, tuple[datetime, Outcome]] = {}
        self.transfers: list[tuple[datetime, str]] = []

    def send(self, payment: Payment, now: datetime, *, breaks: bool = False) -> Outcome:
        known = self.keys.get(payment.key)
        if known and now - known[0] < DAY:
            return known[1]
        answer: Outcome = Uncertain("HTTP 500", saved_error=True)
        if not breaks:
            self.transfers.append((now, payment.payment_id))
            answer = Done(f"tr_{len(self.transfers)}")
        self.keys[payment.key] = (now, answer)
        return answer

    def find(self, payment: Payment, now: datetime) -> Outcome | None:
        listed = [ref for moved, ref in self.transfers if now - moved >= LISTS_LAG and ref == payment.payment_id]
        return Done("tr_1") if listed else None


def _attempt(payment: Payment, provider: _Provider, now: datetime, fate: str) -> tuple[Payment, datetime]:
    """One wake-up of the worker, waiting as it is told to; `fate` of the call."""
    while (decision := decide(payment, now)).act is Act.WAIT:
        assert decision.until is not None
        assert decision.until > now
        now = decision.until
    if decision.act is Act.NOTHING:
        again = None if payment.status is Status.DONE else retry(payment, now)
        return (again, now) if again else (payment, now)
    payment = claim(payment, decision.act, now)
    if decision.act is Act.LOOK_UP:
        found = provider.find(payment, now)
        if found:
            return record(payment, found, now), now
        payment = not_found(payment, now)
    if fate == "lost request":
        return payment, now
    outcome = provider.send(payment, now, breaks=fate == "saved 500")
    return (payment if fate == "lost answer" else record(payment, outcome, now)), now


def _play(payment: Payment, provider: _Provider, now: datetime) -> int:
    """Let it run undisturbed to its end; how often the money moved."""
    for _ in range(10):
        payment, now = _attempt(payment, provider, now, "answered")
    assert payment.status is Status.DONE
    return len(provider.transfers)
