"""Money is whole minor units with one rounding point; the policy is a snapshot that outlives code."""

from datetime import timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.domain.money import Money, share
from duebook.domain.policy import DAY, Policy, Tier
from duebook.service.codec import decode

AMOUNTS = st.integers(min_value=0, max_value=10**15)
BPS = st.integers(min_value=0, max_value=10_000)


@given(AMOUNTS, BPS)
def test_a_share_is_rounded_half_to_even(amount: int, bps: int) -> None:
    exact = Decimal(amount) * bps / 10_000
    assert share(amount, bps) == int(exact.quantize(Decimal(1), rounding=ROUND_HALF_EVEN))
    assert 0 <= share(amount, bps) <= amount


@pytest.mark.parametrize(
    ("amount", "bps", "expected"),
    [(1, 5_000, 0), (3, 5_000, 2), (5, 5_000, 2), (7, 5_000, 4), (5, 1_000, 0), (15, 1_000, 2), (25, 1_000, 2),
     (99, 10_000, 99), (99, 0, 0), (0, 10_000, 0), (10**15 + 1, 5_000, 5 * 10**14)],
)  # fmt: skip
def test_halves_go_to_the_even_neighbour(amount: int, bps: int, expected: int) -> None:
    assert share(amount, bps) == expected


@pytest.mark.parametrize("amount", [-1, 1.0, True, "1", None])
def test_money_is_a_whole_number_from_zero(amount: Any) -> None:
    with pytest.raises(ValueError, match="whole number"):
        Money(amount, "EUR")


@pytest.mark.parametrize("currency", ["eur", "EU", "EURO", "", "EU1"])
def test_a_currency_has_three_capitals(currency: str) -> None:
    with pytest.raises(ValueError, match="ISO 4217"):
        Money(1, currency)


@pytest.mark.parametrize(
    ("left", "refund"),
    [
        (timedelta(days=60), 100_000),
        (timedelta(days=30), 100_000),
        (timedelta(days=30) - timedelta(milliseconds=1), 50_000),
        (timedelta(days=7), 50_000),
        (timedelta(days=7) - timedelta(milliseconds=1), 0),
        (timedelta(), 0),
        (timedelta(days=-1), 0),
    ],
)
def test_a_cancellation_tier_is_reached_exactly_at_its_edge(left: timedelta, refund: int) -> None:
    assert Policy().refund(100_000, left) == refund


def test_the_most_generous_tier_that_is_reached_counts_whatever_their_order() -> None:
    policy = Policy(cancellation=(Tier(before=0, refund_bps=2_500), Tier(before=DAY, refund_bps=1_000)))
    assert policy.refund(1_000, timedelta(days=2)) == 250
    assert policy.refund(1_000, timedelta(hours=1)) == 250
    assert Policy(cancellation=()).refund(1_000, timedelta(days=100)) == 0


@given(AMOUNTS, BPS)
def test_fee_and_remainder_make_the_whole(amount: int, bps: int) -> None:
    fee = Policy(fee_bps=bps).fee(amount)
    assert 0 <= fee <= amount


@pytest.mark.parametrize(
    "overrides",
    [
        {"accept_within": -1},
        {"accept_within": 1.5},
        {"accept_within": True},
        {"accept_within": None},
        {"fee_bps": 10_001},
        {"grace": 5},
        {"cancellation": [{"before": -1, "refund_bps": 1}]},
        {"cancellation": [{"before": 1, "refund_bps": 10_001}]},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(overrides: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="policy"):
        Policy().overridden(overrides)


def test_an_override_leaves_the_rest() -> None:
    policy = Policy().overridden({"fee_bps": 500, "cancellation": [{"before": 60, "refund_bps": 100}]})
    assert policy.fee_bps == 500
    assert policy.cancellation == (Tier(before=60, refund_bps=100),)
    assert policy.accept_within == Policy().accept_within


def test_a_snapshot_is_read_back_and_forgives_what_other_releases_wrote() -> None:
    policy = Policy(fee_bps=333, cancellation=(Tier(before=60, refund_bps=100),))
    stored = policy.as_dict()
    assert decode(Policy, stored) == policy
    del stored["dispute_within"]
    assert decode(Policy, stored | {"from_a_later_release": 1}) == policy
