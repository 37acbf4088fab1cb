"""The ledger: whatever happens to a booking's money, every entry balances and the identity holds at every instant."""

from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duebook.domain import dispute_steps, ledger, outside, transitions
from duebook.domain.booking import Booking, State
from duebook.domain.errors import InvalidRequest, NotFound, Refused
from duebook.domain.ledger import CASH, CHEF_PAYABLE, FEE, HELD, RECEIVABLE, REFUNDS, Entry, entries_for, totals
from duebook.domain.money import shown, split
from duebook.domain.payment import (
    Act,
    Done,
    Failed,
    Kind,
    Mismatched,
    Outcome,
    Payment,
    Status,
    Uncertain,
    claim,
    record,
    retry,
)
from duebook.domain.policy import Policy
from duebook.domain.transitions import Step
from tests.unit.builders import AUGUST, CUSTOMER, DAY, END, HOUR, OPERATOR, RELEASE, booking, in_state

Move = tuple[str, int]


class Life:
    """A booking, its payment rows and its ledger, as the service writes them; the provider's cash beside them."""

    def __init__(self, start: Booking) -> None:
        self.booking = start
        self.now: datetime = AUGUST
        self.rows: dict[int, Payment] = {}
        self.entries = list(entries_for(None, start.engagement, ())) if start.engagement else []
        self.transferred = dict.fromkeys(Kind, 0)
        self.provider_cash = start.engagement.captured if start.engagement else 0

    def take(self, step: Step | None, cash: int = 0) -> None:
        """`cash`: what the provider's balance changes by, beside our own payments."""
        if step is None:
            return
        self.provider_cash += cash
        before, after = self.booking.engagement, step.booking.engagement
        assert after is not None
        self.entries += entries_for(before, after, step.payments)
        for payment in step.payments:
            if payment.status is Status.DONE:
                self.transferred[payment.kind] += payment.amount
                self.provider_cash += payment.amount if payment.kind is Kind.REVERSAL else -payment.amount
            self.rows[payment.number] = payment
        self.booking = step.booking
        self.check()

    def check(self) -> None:
        e = self.booking.engagement
        assert e is not None
        sums = totals(entry.lines for entry in self.entries)
        assert all(sum(entry.lines.values()) == 0 for entry in self.entries)
        assert sums[CASH] == self.provider_cash
        assert sums[HELD] == -ledger.held(e)
        assert sums[FEE] == -e.fee
        assert sums[RECEIVABLE] == e.receivable
        unmoved = {
            kind: sum(p.amount for p in self.rows.values() if p.kind is kind and p.status is not Status.DONE)
            for kind in Kind
        }
        assert -sums[CHEF_PAYABLE] == unmoved[Kind.PAYOUT]
        assert -sums[REFUNDS] == unmoved[Kind.REFUND]
        refunded, net = e.refunded + e.gone, e.paid_out - e.reversed
        assert e.captured == refunded + net + e.fee + ledger.held(e) - e.receivable
        if e.is_settled and not e.is_frozen:
            assert ledger.held(e) == 0
            assert e.paid_out - e.reclaimed == transitions.chefs_share(e)
        if e.gone == 0 and not e.outside:
            assert ledger.held(e) >= 0
            assert self.transferred[Kind.PAYOUT] <= e.captured

    def due(self) -> None:
        while (step := transitions.advance(self.booking, self.now)) is not None:
            self.take(step)

    def play(self, move: Move) -> None:
        name, number = move
        self.now += HOUR
        self.due()
        b, now, rows = self.booking, self.now, list(self.rows.values())
        open_rows = [p for p in rows if p.is_open]
        try:
            match name:
                case "pass":
                    self.now = max(self.now, END) + number % 9 * DAY
                    self.due()
                case "pay":
                    if b.engagement and b.engagement.charge_ref is None:
                        self.take(transitions.pay(b, number, "ch_1", now, now), number)
                case "cancel":
                    self.take(transitions.cancel(b, OPERATOR, number if number % 2 else None, None, now))
                case "dispute":
                    self.take(dispute_steps.open_dispute(b, max(1, number), {}, "h", CUSTOMER, now))
                case "withdraw":
                    self.take(dispute_steps.withdraw(b, CUSTOMER, now))
                case "look":
                    self.now += 30 * DAY
                    self.take(dispute_steps.look(b, self.now))
                case "settle":
                    self.take(dispute_steps.settle(b, now))
                case "attempt" if open_rows:
                    sent = claim(open_rows[number % len(open_rows)], Act.SEND, now)
                    self.take(transitions.payment_step(b, sent, "payment.attempted", now, ""))
                case "answer" if open_rows:
                    answers: list[Outcome] = [Done("tr"), Done("tr"), Failed("no"), Uncertain("?")]
                    sent = claim(open_rows[number % len(open_rows)], Act.SEND, now)
                    answered = record(sent, answers[number % len(answers)], now)
                    self.take(transitions.payment_step(b, answered, "payment.done", now, ""))
                case "retry" if rows:
                    again = retry(rows[number % len(rows)], now)
                    self.take(transitions.payment_step(b, again, "payment.retried", now, "") if again else None)
                case "chargeback":
                    step = outside.charged_back(b, f"dp_{number % 3}", number, "fraud", rows, now)
                    self.take(step, -number)
                case "hand":
                    self.take(outside.refunded_outside(b, f"re_{number % 3}", number, rows, now), -number)
                case "failed by hand":
                    item = b.engagement.outside.get(f"re_{number % 3}") if b.engagement else None
                    step = outside.refund_outside_failed(b, f"re_{number % 3}", rows, now)
                    self.take(step, item.amount if item else 0)
                case "won" | "lost":
                    ref = f"dp_{number % 3}"
                    item = b.engagement.outside.get(ref) if b.engagement else None
                    if item is not None:
                        step = outside.chargeback_closed(b, ref, item.amount, name == "won", rows, now)
                        self.take(step, item.amount if name == "won" else 0)
                case "came back" if rows:
                    payment = rows[number % len(rows)]
                    back = min(payment.amount, number)
                    step = outside.came_back(b, payment, f"back{number % 5}", back, "failed", rows, now)
                    self.take(step, back)
        except (Refused, InvalidRequest, NotFound):
            pass


NAMES = (
    "pass", "pay", "cancel", "dispute", "withdraw", "look", "settle", "attempt", "answer", "answer", "retry",
    "chargeback", "hand", "failed by hand", "won", "lost", "came back",
)  # fmt: skip
MOVES = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 100_000)), max_size=25)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([State.ACCEPTED, State.PAID, State.COMPLETED]), st.integers(0, 10_000), MOVES)
def test_the_identity_holds_at_every_instant_of_any_life(state: State, fee_bps: int, moves: list[Move]) -> None:
    life = Life(booking(state, policy=Policy(fee_bps=fee_bps)))
    for move in moves:
        life.play(move)


def _paid_out() -> Life:
    life = Life(booking(State.COMPLETED))
    life.now = RELEASE
    life.due()
    done = record(claim(life.rows[1], Act.SEND, life.now), Done("tr_1"), life.now)
    life.take(transitions.payment_step(life.booking, done, "payment.done", life.now, ""))
    return life


OUTSIDE = st.sampled_from(("chargeback", "hand", "failed by hand", "won", "lost", "came back", "answer", "retry"))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(OUTSIDE, st.integers(0, 60_000)), max_size=15))
def test_the_identity_holds_whatever_happens_after_the_payout(moves: list[Move]) -> None:
    life = _paid_out()
    for move in moves:
        life.play(move)


def _lines(life: Life) -> list[tuple[str, dict[str, int]]]:
    return [(entry.what, dict(entry.lines)) for entry in life.entries]


def test_the_story_of_a_payout_in_entries() -> None:
    assert _lines(_paid_out()) == [
        ("decision", {CASH: 100_000, HELD: -100_000}),
        ("decision", {HELD: 100_000, CHEF_PAYABLE: -90_000, FEE: -10_000}),
        ("payout", {CHEF_PAYABLE: 90_000, CASH: -90_000}),
    ]


def test_a_chargeback_after_the_payout_is_a_receivable_until_the_reversal_is_done() -> None:
    life = _paid_out()
    life.take(outside.charged_back(life.booking, "dp_1", 50_000, "fraud", list(life.rows.values()), life.now), -50_000)
    assert _lines(life)[3] == ("decision", {CASH: -50_000, FEE: 5_000, RECEIVABLE: 45_000})
    reversal = life.rows[2]
    assert (reversal.kind, reversal.amount, reversal.status) == (Kind.REVERSAL, 45_000, Status.INTENT)
    done = record(claim(replace(reversal, of_ref="tr_1"), Act.SEND, life.now), Done("trr_1"), life.now)
    life.take(transitions.payment_step(life.booking, done, "payout.reversed", life.now, ""))
    assert _lines(life)[4] == ("reversal", {RECEIVABLE: -45_000, CASH: 45_000})


def test_what_is_reversed_by_hand_counts_against_what_the_chef_owes() -> None:
    life = _paid_out()
    rows = list(life.rows.values())
    life.take(outside.charged_back(life.booking, "dp_1", 50_000, "fraud", rows, life.now), -50_000)
    rows = list(life.rows.values())
    life.take(outside.came_back(life.booking, rows[0], "trr_1", 45_000, "by hand", rows, life.now), 45_000)
    assert _lines(life)[4] == ("decision", {CASH: 45_000, RECEIVABLE: -45_000})
    assert life.rows[2].status is Status.VOID


def test_a_chargeback_before_the_payout_went_makes_the_payout_smaller_once_it_is_lost() -> None:
    life = Life(booking(State.COMPLETED))
    life.now = RELEASE
    life.due()
    rows = list(life.rows.values())
    life.take(outside.charged_back(life.booking, "dp_1", 50_000, "fraud", rows, life.now), -50_000)
    assert (life.rows[1].amount, len(life.rows)) == (90_000, 1)
    life.take(outside.chargeback_closed(life.booking, "dp_1", 50_000, False, list(life.rows.values()), life.now))
    assert (life.rows[1].amount, life.rows[1].status, len(life.rows)) == (45_000, Status.INTENT, 1)


def test_all_charged_back_before_the_payout_went_voids_it() -> None:
    life = Life(booking(State.COMPLETED))
    life.now = RELEASE
    life.due()
    life.take(outside.refunded_outside(life.booking, "re_1", 100_000, list(life.rows.values()), life.now), -100_000)
    assert life.rows[1].status is Status.VOID
    assert life.booking.state is State.PAID_OUT
    assert "pay_1" not in life.booking.planned


def test_a_chargeback_won_after_the_reversal_is_paid_to_the_chef_again() -> None:
    life = _paid_out()
    life.take(outside.charged_back(life.booking, "dp_1", 50_000, "fraud", list(life.rows.values()), life.now), -50_000)
    done = record(claim(replace(life.rows[2], of_ref="tr_1"), Act.SEND, life.now), Done("trr_1"), life.now)
    life.take(transitions.payment_step(life.booking, done, "payout.reversed", life.now, ""))
    rows = list(life.rows.values())
    life.take(outside.chargeback_closed(life.booking, "dp_1", 50_000, True, rows, life.now), 50_000)
    assert (life.rows[3].kind, life.rows[3].amount) == (Kind.PAYOUT, 45_000)


def test_a_chargeback_freezes_the_payout_of_a_completed_booking() -> None:
    before = booking(State.COMPLETED)
    step = outside.charged_back(before, "dp_1", 100_000, "fraud", (), AUGUST)
    assert step is not None
    assert "release_payment" not in step.booking.planned
    assert outside.charged_back(step.booking, "dp_1", 100_000, "fraud", (), AUGUST) is None
    closed = outside.chargeback_closed(step.booking, "dp_1", 100_000, True, (), AUGUST)
    assert closed is not None
    assert closed.booking.planned["release_payment"].run_at == RELEASE


def test_an_entry_that_does_not_balance_is_refused() -> None:
    with pytest.raises(ValueError, match="must balance"):
        Entry(what="decision", currency="EUR", lines={CASH: 1})


def test_what_the_provider_has_with_another_amount_is_never_tried_again() -> None:
    life = _paid_out()
    wrong = record(replace(life.rows[1], status=Status.UNKNOWN), Mismatched("tr_1 moved 1 EUR"), life.now)
    assert wrong.needs_attention
    assert retry(wrong, life.now) is None


@given(st.integers(0, 10**15), st.lists(st.integers(0, 10**6), min_size=1, max_size=20).filter(any))
def test_a_split_loses_nothing_and_no_part_is_off_by_a_unit(amount: int, weights: list[int]) -> None:
    parts = split(amount, weights)
    assert sum(parts) == amount
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part * sum(weights) - amount * weight) < sum(weights)


@pytest.mark.parametrize(
    ("amount", "weights", "parts"),
    [(100, [1, 1, 1], [34, 33, 33]), (5, [1, 3], [1, 4]), (1, [1, 1], [1, 0]), (0, [1], [0]), (7, [0, 1], [0, 7])],
)
def test_the_largest_remainder_gets_the_unit(amount: int, weights: list[int], parts: list[int]) -> None:
    assert split(amount, weights) == parts


@pytest.mark.parametrize("weights", [[], [0], [1, -1]])
def test_there_must_be_something_to_split_by(weights: list[int]) -> None:
    with pytest.raises(ValueError, match="weights"):
        split(1, weights)


@pytest.mark.parametrize(
    ("amount", "exponent", "text"),
    [(1234, 0, "1234"), (1234, 2, "12.34"), (1234, 3, "1.234"), (5, 2, "0.05"), (-5, 3, "-0.005"), (0, 0, "0")],
)
def test_money_is_shown_by_its_exponent(amount: int, exponent: int, text: str) -> None:
    assert shown(amount, exponent) == text


def test_an_engagement_that_is_taken_over_paid_starts_with_its_capture() -> None:
    (entry,) = entries_for(None, in_state(State.PAID), ())
    assert dict(entry.lines) == {CASH: 100_000, HELD: -100_000}
