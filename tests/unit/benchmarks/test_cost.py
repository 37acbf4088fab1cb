"""What a month costs: the arithmetic, where the counts come from, and that no call can be forgotten."""

import json
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import cost
from benchmarks.cost import PRICES, Costs, Prices, UnknownCall, bill, polls
from benchmarks.counting import FLOWS, OWN_JOBS, Played, deployed, less, metered, play
from duebook.adapters.memory import MemoryTable
from duebook.service.ports import Check, Delete, If, Put, Update

NOW = datetime(2026, 8, 1, tzinfo=UTC)
KB = 1024


@pytest.fixture(scope="module")
def prices() -> Prices:
    return Prices.load()


@pytest.fixture(scope="module")
def paid_out() -> Played:
    return play(FLOWS["paid out"], 1)


# --- the bill ------------------------------------------------------------------------------------------------------


def test_a_million_of_a_thing_costs_what_the_price_table_says_from_the_first_on() -> None:
    assert bill({"sqs.requests": 1_000_000}).usd == pytest.approx(0.40), "no free tier is taken off"
    assert bill({"states.transitions": 1_000}).usd == pytest.approx(0.025)
    assert bill({"cloudwatch.alarms": 10, "cloudwatch.dashboards": 1}).usd == pytest.approx(4.0)
    assert bill({}).usd == 0


def test_an_invocation_is_a_request_and_time_and_log_and_trace(prices: Prices) -> None:
    found = {line.unit: line.amount for line in bill({"lambda.payments": 1_000}, prices).lines}
    assert found == {
        "request": 1_000,
        "GB-second, arm64": pytest.approx(1_000 * 0.5 * prices.assumptions["seconds.payments"]),
        "GB of logs taken in": pytest.approx(1_000 * prices.assumptions["log_bytes"] / 1e9),
        "trace recorded": 1_000,
    }


def test_services_are_summed_and_the_dearest_comes_first() -> None:
    found = bill({"dynamodb.read_units": 1e6, "dynamodb.write_units": 1e6, "sqs.send": 1e6, "queues.wake": 1e6})
    assert list(found.services) == ["DynamoDB", "SQS"]
    assert found.services["SQS"] == pytest.approx(0.8)
    assert found.usd == pytest.approx(sum(found.services.values()))


def test_scheduler_is_paid_when_it_fires_and_never_when_it_is_told() -> None:
    assert bill({"schedules.create": 1e6, "schedules.replace": 1e6, "schedules.delete": 1e6}).lines == ()
    assert bill({"scheduler.invocations": 1e6}).usd == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["kinesis.put", "lambda.teleporter", "sqs.purge", "table.get", "nothing"])
def test_a_call_that_nobody_knows_the_price_of_is_refused_by_name(kind: str) -> None:
    with pytest.raises(UnknownCall, match=f"'{kind}'.*prices.json"):
        bill({"sqs.send": 1, kind: 1})


def test_a_month_is_what_is_fixed_and_what_is_made_and_what_is_kept() -> None:
    costs = Costs({"cloudwatch.alarms": 3}, {"sqs.send": 2}, {"dynamodb.storage_gb": 0.5})
    assert costs.month(10, 4) == {"cloudwatch.alarms": 3, "sqs.send": 20, "dynamodb.storage_gb": 2}


def test_an_idle_queue_is_asked_by_five_polls_of_twenty_seconds_all_month(prices: Prices) -> None:
    assert polls(2, prices) == 2 * 5 * 730 * 3600 / 20


def test_every_price_names_its_source_and_the_file_its_region_and_day() -> None:
    raw = json.loads(PRICES.read_text(encoding="utf-8"))
    assert raw["region"] == "eu-west-1"
    assert datetime.fromisoformat(raw["looked_up"]).year >= 2026
    assert all(entry["source"].startswith("https://aws.amazon.com/") for entry in raw["units"].values())
    assert all(entry["why"] for entry in raw["assumptions"].values())


def test_prices_are_edited_in_a_file_of_ones_own(tmp_path: Path) -> None:
    raw = json.loads(PRICES.read_text(encoding="utf-8"))
    raw["units"]["sqs.requests"]["usd"] = 5
    own = tmp_path / "prices.json"
    own.write_text(json.dumps(raw), encoding="utf-8")
    assert bill({"sqs.requests": 1e6}, Prices.load(own)).usd == pytest.approx(5)


# --- units of the table --------------------------------------------------------------------------------------------


def row(sk: str, kb: float, **more: str) -> dict[str, str]:
    return {"pk": "b1", "sk": sk, "text": "x" * int(kb * KB - 40), **more}


def test_a_write_takes_a_unit_a_kilobyte_and_twice_that_in_a_transaction() -> None:
    table = MemoryTable(lambda: NOW)
    units = metered(table)
    table.write(Put(item=row("a", 2.5)))
    assert units["dynamodb.write_units"] == 3
    table.write(Put(item=row("b", 0.5)), Delete(pk="b1", sk="a"), Check(pk="b1", sk="c", condition=If(absent=True)))
    assert units["dynamodb.write_units"] == 3 + 2 * (1 + 3 + 1), "the larger of old and new counts, checks too"


def test_an_index_takes_units_of_its_own_when_what_it_holds_changes() -> None:
    table = MemoryTable(lambda: NOW)
    units = metered(table)
    due = {"due_pk": "2026-08-01#own#0", "due_sk": "2026-08-01T10:00"}
    table.write(Put(item=row("job#a", 0.5, **due)))
    assert units["dynamodb.write_units"] == 2, "the row, and its entry"
    table.write(Update(pk="b1", sk="job#a", set={"text": "y"}))
    assert units["dynamodb.write_units"] == 3, "the index does not hold it"
    table.write(Update(pk="b1", sk="job#a", set={"due_sk": "2026-08-01T11:00"}))
    assert units["dynamodb.write_units"] == 6, "the row, and the entry deleted and put"


def test_a_consistent_read_takes_a_unit_of_four_kilobytes_and_an_index_half_of_that() -> None:
    table = MemoryTable(lambda: NOW)
    for number in range(3):
        table.write(Put(item=row(f"job#{number}", 3, due_pk="p", due_sk=f"{number}")))
    units = metered(table)
    for read, wanted in (
        (lambda: table.get("b1", "job#0"), 1),
        (lambda: table.get("b1", "none"), 1),
        (lambda: table.query("b1", "job#"), 3),
        (lambda: table.query_index("due", "p"), 0.5),
        (lambda: table.scan(sk="job#0"), 3),
    ):
        before = units["dynamodb.read_units"]
        read()
        assert units["dynamodb.read_units"] - before == wanted
    assert [found["sk"] for found in table.scan(sk="job#1").items] == ["job#1"]


# --- the counts ----------------------------------------------------------------------------------------------------


def test_a_bookings_counts_come_from_the_real_handlers_and_its_events_tell_that_it_went_the_whole_way(
    paid_out: Played,
) -> None:
    assert paid_out.types == [
        *("booking.requested", "booking.accepted", "booking.paid"),
        *("booking.event_closed", "booking.completed", "booking.payout_decided", "payment.requested"),
        "booking.paid_out",
    ]
    calls = paid_out.calls
    assert (calls["api.requests"], calls["scheduler.invocations"], calls["bus.publish"]) == (5, 3, 8)
    assert calls["lambda.lifecycle"] == 3, "three wake-ups, each one invocation"
    assert calls["dynamodb.write_units"] > 2 * 8, "eight transactions at least"
    assert bill(calls).usd > 0, "each of them has a price"


def test_a_booking_that_is_kept_costs_storage_and_the_daily_comparison_and_nothing_else(paid_out: Played) -> None:
    two = play(FLOWS["paid out"], 2)
    assert two.stored > paid_out.stored > 0
    assert less(two.month, paid_out.month).keys() == {"dynamodb.read_units"}


def test_the_mix_is_whole() -> None:
    assert sum(flow.share for flow in FLOWS.values()) == pytest.approx(1)
    assert FLOWS["disputed, decided"].share == 0.02
    assert 0 < OWN_JOBS < 1


def test_what_is_deployed_is_counted_from_the_template(prices: Prices) -> None:
    alarm = {"Namespace": "Duebook", "MetricName": "JobsDead", "Dimensions": [{"Name": "service", "Value": "d"}]}
    shown = '{"metrics":[["Duebook","JobsDead","service","d",{"stat":"Sum"}],["Duebook","JobsSwept","service","d"]]}'
    found = deployed(
        [
            {"Type": "AWS::CloudWatch::Alarm", "Properties": alarm},
            {"Type": "AWS::CloudWatch::Alarm", "Properties": {"Namespace": "AWS/SQS", "MetricName": "Age"}},
            {"Type": "AWS::CloudWatch::Dashboard", "Properties": {"DashboardBody": {"Fn::Join": ["", [shown]]}}},
            {"Type": "AWS::Lambda::EventSourceMapping", "Properties": {"BatchSize": 10}},
            {"Type": "AWS::Lambda::EventSourceMapping", "Properties": {"StartingPosition": "TRIM_HORIZON"}},
            {"Type": "AWS::Events::Rule", "Properties": {"ScheduleExpression": "rate(5 minutes)"}},
            {"Type": "AWS::Events::Rule", "Properties": {"ScheduleExpression": "cron(17 3 * * ? *)"}},
        ],
        prices,
    )
    assert (found["cloudwatch.alarms"], found["cloudwatch.metrics"], found["cloudwatch.dashboards"]) == (2, 2, 1)
    assert found["sqs.requests"] == polls(1, prices)
    assert found["lambda.sweeper"] == 730 * 60 / 5
    assert found["dynamodb.read_units"] > 0, "each run asks every shard"


def test_the_tables_show_each_part_and_the_whole(prices: Prices) -> None:
    console = Console(width=120, file=StringIO())
    for table in cost.tables(Costs({"cloudwatch.alarms": 70}, {"sqs.send": 10}, {}), 1_000_000, 12, prices):
        console.print(table)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "1,000,000 bookings, after 12 months" in text
    assert "11.00" in text, "7.00 for the alarms and 4.00 for the messages"
