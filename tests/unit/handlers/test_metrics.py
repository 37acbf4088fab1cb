"""The metrics that alarms look at tell what they are said to tell."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from duebook.domain.payment import Act, Done, Failed, Kind, Payment, Uncertain, claim, not_found, record, retry
from duebook.service import rows, sweep
from duebook.service.ports import Put
from tests.unit.builders import AUGUST, END, HOUR, MINUTE
from tests.unit.world import World

DAY = timedelta(days=1)
Told = Callable[[str], list[tuple[str | None, float]]]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    """What was emitted of a metric since the last question: (kind, value)."""

    def of(name: str) -> list[tuple[str | None, float]]:
        found = []
        for line in capsys.readouterr().out.splitlines():
            document: dict[str, Any] = json.loads(line) if '"_aws"' in line else {}
            values = document.get(name, [])
            found += [(document.get("kind"), value) for value in (values if isinstance(values, list) else [values])]
        return found

    return of


def waits(world: World, kind: str, number: int, since: timedelta) -> None:
    world.table.write(
        Put(item={"pk": f"w{number}", "sk": "row", **rows.attention_keys(kind, f"w{number}", world.now - since)})
    )


def test_every_run_of_the_sweeper_counts_what_waits_for_people_by_kind_and_that_nothing_does(
    world: World, told: Told
) -> None:
    world.sweep()
    assert told("AttentionRows") == [("dead", 0), ("needs_attention", 0), ("in_review", 0), ("held", 0)]
    for number in range(5):
        waits(world, rows.DEAD, number, HOUR * number)
    waits(world, rows.DISPUTES_IN_REVIEW, 9, DAY)
    waits(world, rows.AWAITING_CHEF, 10, DAY)
    world.sweep()
    assert told("AttentionRows") == [("dead", 5), ("needs_attention", 0), ("in_review", 1), ("held", 0)]


def test_the_oldest_row_of_each_kind_is_told_in_seconds(world: World, told: Told) -> None:
    for number, hours in enumerate((2, 30, 7)):
        waits(world, rows.DEAD, number, HOUR * hours)
    world.sweep()
    assert told("OldestAttention") == [("dead", 30 * 3600), ("needs_attention", 0), ("in_review", 0), ("held", 0)]


def test_however_much_has_piled_up_looking_costs_one_page_a_shard(world: World, told: Told) -> None:
    many = 2 * rows.ATTENTION_SHARDS * sweep.MOST_COUNTED
    for number in range(many):
        waits(world, rows.DEAD, number, MINUTE)
    asked: list[str] = []
    ask = world.table.query_index

    def counted(index: str, pk: str, **more: Any) -> Any:
        asked.extend([pk] if index == "attention" and not pk.startswith(rows.OUTBOX) else [])
        return ask(index, pk, **more)

    world.table.query_index = counted  # type: ignore[method-assign]
    world.sweep()
    assert len(asked) == len(sweep.FOR_PEOPLE) * rows.ATTENTION_SHARDS
    assert told("AttentionRows")[0] == ("dead", rows.ATTENTION_SHARDS * sweep.MOST_COUNTED)


def test_a_sweep_that_has_no_time_left_gives_its_sign_of_life_and_counts_nothing(world: World, told: Told) -> None:
    world.sweep(left_ms=1)
    assert told("JobsSwept") == [(None, 0)]
    world.sweep(left_ms=1)
    assert told("AttentionRows") == []


def test_a_reconcile_pass_tells_how_many_schedules_stand(world: World, told: Told) -> None:
    world.paid("b1")
    world.deliver()
    standing = len(world.planned())
    told("Schedules")
    world.reconcile()
    assert standing > 0
    assert told("Schedules") == [(None, standing)]


def test_an_open_payment_tells_at_each_attempt_how_long_it_is_unknown(world: World, told: Told) -> None:
    world.use_external_payments()
    world.paid("b1")
    world.travel_to(END + 2 * DAY)
    ages = [age for _, age in told("UnknownPaymentAge")]
    assert ages[0] == 0
    assert ages == sorted(ages)
    world.travel_to(END + 4 * DAY)
    [*_, last] = [age for _, age in told("UnknownPaymentAge")]
    assert last >= DAY.total_seconds()
    assert last + 13 * 3600 > (world.now - END - DAY).total_seconds()


def test_a_payment_that_is_done_at_once_tells_no_age(world: World, told: Told) -> None:
    world.paid("b1")
    world.travel_to(END + 2 * DAY)
    assert world.state("b1") == "paid_out"
    assert told("UnknownPaymentAge") == []


def payment() -> Payment:
    return Payment(
        payment_id="b1.p1",
        booking_id="b1",
        number=1,
        kind=Kind.PAYOUT,
        amount=90_000,
        currency="EUR",
        chef_id="ch-1",
        charge_ref="ch_1",
        created_at=AUGUST,
        next_attempt_at=AUGUST,
    )


def test_a_payment_is_unknown_since_it_was_first_sent_whatever_epochs_follow() -> None:
    sent = claim(payment(), Act.SEND, AUGUST + HOUR)
    again = claim(record(sent, Uncertain("time-out"), AUGUST + HOUR), Act.LOOK_UP, AUGUST + DAY)
    renewed = not_found(again, AUGUST + DAY)
    assert renewed.epoch == 2
    assert renewed.unknown_for(AUGUST + 2 * DAY) == 2 * DAY - HOUR


def test_a_payment_is_unknown_only_between_its_first_sending_and_a_definite_answer() -> None:
    sent = claim(payment(), Act.SEND, AUGUST + HOUR)
    assert payment().unknown_for(AUGUST + DAY) is None
    assert record(sent, Done("tr_1"), AUGUST + DAY).unknown_for(AUGUST + DAY) is None
    failed = record(sent, Failed("closed account"), AUGUST + DAY)
    assert failed.unknown_for(AUGUST + DAY) is None
    tried = retry(failed, AUGUST + 2 * DAY)
    assert tried is not None
    assert claim(tried, Act.SEND, AUGUST + 2 * DAY).unknown_for(AUGUST + 3 * DAY) == DAY


def test_a_payment_that_older_code_left_unknown_counts_from_its_epoch() -> None:
    from dataclasses import replace

    sent = replace(claim(payment(), Act.SEND, AUGUST + HOUR), unknown_since=None)
    assert sent.unknown_for(AUGUST + DAY) == DAY - HOUR
