"""What every `PaymentProvider` that we bring does; the ledger over both tables."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from duebook.adapters.memory import MemoryTable
from duebook.adapters.payments import ExternalPayments, LedgerPayments
from duebook.domain.payment import Asked, Done, Kind, Payment
from duebook.service.ports import PaymentProvider, Table
from tests.integration.tables import BOTH, now, on_dynamodb

NOW = datetime(2026, 11, 16, tzinfo=UTC)
PAYOUT = Payment(
    payment_id="b1.p1",
    booking_id="b1",
    number=1,
    kind=Kind.PAYOUT,
    amount=85_000,
    currency="EUR",
    chef_id="ch-1",
    charge_ref="ch_1",
    created_at=NOW,
    next_attempt_at=NOW,
)


@pytest.fixture(params=BOTH)
def table(request: pytest.FixtureRequest, fresh: Callable[[str], str]) -> Table:
    if request.param == "in memory":
        return MemoryTable(now)
    return on_dynamodb(request.getfixturevalue("client"), fresh("duebook"))


@pytest.fixture
def ledger(table: Table) -> PaymentProvider:
    return LedgerPayments(table)


def test_the_external_provider_is_only_asked_and_never_looked_up() -> None:
    external: PaymentProvider = ExternalPayments()
    assert external.by_event
    assert external.send(PAYOUT, NOW) == Asked()
    assert external.find(PAYOUT, NOW) is None


def test_the_ledger_moves_money_when_it_is_called(ledger: PaymentProvider, table: Table) -> None:
    assert not ledger.by_event
    assert isinstance(ledger.send(PAYOUT, NOW), Done)
    (row,) = table.query("transfers#b1.p1", "").items
    assert (row["kind"], row["amount"], row["currency"], row["at"]) == (
        "payout",
        85_000,
        "EUR",
        "2026-11-16T00:00:00.000Z",
    )


def test_the_same_key_again_moves_nothing_more_and_answers_the_same(ledger: PaymentProvider, table: Table) -> None:
    first = ledger.send(PAYOUT, NOW)
    assert ledger.send(PAYOUT, NOW + timedelta(days=30)) == first
    assert len(table.query("transfers#b1.p1", "").items) == 1


def test_another_key_moves_it_once_more_as_any_provider_would(ledger: PaymentProvider, table: Table) -> None:
    first = ledger.send(PAYOUT, NOW)
    assert ledger.send(replace(PAYOUT, epoch=2), NOW) != first
    assert len(table.query("transfers#b1.p1", "").items) == 2


def test_a_payment_is_found_by_its_reference_whatever_its_key(ledger: PaymentProvider) -> None:
    assert ledger.find(PAYOUT, NOW) is None
    sent = ledger.send(PAYOUT, NOW)
    assert ledger.find(replace(PAYOUT, epoch=2), NOW) == sent
    assert ledger.find(replace(PAYOUT, payment_id="b1.p2"), NOW) is None
