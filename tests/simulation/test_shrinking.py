"""A planted bug is found, and told by the shortest history."""

from dataclasses import replace
from unittest.mock import patch

from duebook.domain import payment
from duebook.domain.payment import Act
from simulation.report import reproduce, told
from simulation.run import simulate
from simulation.settings import Settings
from simulation.shrink import shrink

FAULTS = ("provider_done_unanswered", "provider_timeout", "wake_up_lost", "crash", "record_repeated", "index_lag")


def test_a_payment_sent_again_under_a_new_key_is_found_and_shrunk() -> None:
    """The bug: after an attempt without an answer the next one uses a new key, as if the first had surely failed."""
    claim = payment.claim

    def careless(known: payment.Payment, act: Act, *given: object) -> payment.Payment:
        claimed = claim(known, act, *given)  # type: ignore[arg-type]
        return replace(claimed, epoch=claimed.attempt)

    with patch("duebook.service.pay.claim", careless):
        settings = Settings(seed=1, bookings=24, days=45, only_faults=FAULTS, faults=6.0, payments="provider")
        found = simulate(settings)
        assert found.violation is not None
        assert found.violation.invariant in ("nothing_is_paid_twice", "no_more_than_captured")
        least = shrink(found, most=40)
        assert least.violation is not None
        assert least.violation.invariant == found.violation.invariant
        assert least.settings.only_bookings is not None
        assert len(least.settings.only_bookings) == 1
        assert set(least.settings.only_faults or ()) == {"provider_done_unanswered"}
        assert "payment.attempted" in told(least.violation)
        assert "only_bookings" in reproduce(least)
        again = simulate(Settings.from_dict(least.settings.as_dict()))
        assert again.violation is not None
        assert again.digest == least.digest


def test_without_the_bug_the_same_scenario_holds() -> None:
    settings = Settings(seed=1, bookings=24, days=45, only_faults=FAULTS, faults=6.0, payments="provider")
    assert simulate(settings).violation is None
