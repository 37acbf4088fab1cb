"""The pure parts: a booking's line, a dispute's steps, the payouts' bars, and a journey through time."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from threading import Event
from typing import Any

import pytest

from duebook_client import BadArgument, Dispute, DisputeEntry, Job
from duebook_console import shown
from duebook_console.chart import HEIGHT, WEEKS, WIDTH, charts
from duebook_console.steps import steps
from duebook_console.timeline import line
from duebook_console.travel import Travel

NOW = datetime(2026, 11, 14, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def job(name: str, run_at: datetime, **changes: Any) -> Job:
    made = Job(
        booking_id="b1",
        job=name,
        run_at=run_at,
        wake_at=run_at,
        status="pending",
        attempts=0,
        generation=1,
        lane="lifecycle",
        reason=None,
    )
    return replace(made, **changes)


def test_what_is_overdue_or_dead_stands_after_now_though_its_instant_is_past() -> None:
    jobs = [
        job("later", NOW + DAY),
        job("late", NOW - HOUR, attempts=2),
        job("gone", NOW - DAY, status="dead", reason="it broke"),
    ]
    marks = line([], jobs, NOW)
    assert [(mark.kind, mark.title) for mark in marks] == [
        ("now", "Now"),
        ("dead", "gone"),
        ("overdue", "late"),
        ("future", "later"),
    ]
    assert marks[1].text == "it broke"
    assert marks[2].details == ("due, not done yet", "2 failed rounds")


@pytest.mark.parametrize(
    ("name", "words"),
    [("pay_12", "moves the money"), ("close_event", "closes the event"), ("send_menu", shown.JOBS["own"])],
)
def test_a_job_is_said_in_words(name: str, words: str) -> None:
    assert shown.what(name) == words


def test_ids_lead_to_their_booking() -> None:
    assert shown.job_of_payment("b-1.p3") == ("b-1", "pay_3")
    assert shown.booking_of_dispute("b-1.d1") == "b-1"
    assert shown.job_of_payment("b-1") is None
    assert shown.booking_of_dispute("../x.d1") is None


# --- disputes ------------------------------------------------------------------------------------------------------


def dispute(status: str, **changes: Any) -> Dispute:
    made = Dispute(
        dispute_id="b1.d1",
        booking_id="b1",
        status=status,
        customer_id="c-1",
        chef_id="ch-1",
        currency="EUR",
        claimed_minor=100,
        opened_at=NOW,
        reason="cold",
        text="it was cold",
        evidence=(),
        deadline=None,
        reply=None,
        reply_text=None,
        reply_evidence=(),
        offer_minor=None,
        offer_answer=None,
        escalations=0,
        needs_attention=False,
        refund_minor=None,
        decided_by=None,
        decided_at=None,
        decision_reason=None,
        mediator_id=None,
        appeal_until=None,
        appealed_by=None,
        run=1,
        console_url=None,
    )
    return replace(made, **changes)


def entries(*types: str) -> list[DisputeEntry]:
    return [
        DisputeEntry(
            at=NOW + number * HOUR, text="", source="history", run=None, type=f"dispute.{type_}", due=None, actor=None
        )
        for number, type_ in enumerate(types)
    ]


@pytest.mark.parametrize(
    ("found", "told", "wanted"),
    [
        (dispute("opened"), ["opened"], "now ahead ahead ahead ahead ahead"),
        (dispute("awaiting_chef"), ["opened", "chef_asked"], "done now ahead ahead ahead ahead"),
        (
            dispute("in_review", reply="contest"),
            ["opened", "chef_asked", "replied"],
            "done done skipped now ahead ahead",
        ),
        (
            dispute("in_review", reply="offer", offer_answer="refuse"),
            ["opened", "chef_asked", "replied", "offer_answered"],
            "done done done now ahead ahead",
        ),
        (
            dispute("settled", reply="concede", decided_at=NOW),
            ["opened", "chef_asked", "replied", "settled"],
            "done done skipped skipped done now",
        ),
        (
            dispute("in_appeal", reply="contest", decided_at=NOW),
            ["opened", "chef_asked", "replied", "decided", "appealed"],
            "done done skipped done done now ahead",
        ),
        (dispute("withdrawn"), ["opened", "chef_asked", "withdrawn"], "done done now"),
        (dispute("mystery"), ["opened"], "now ahead ahead ahead ahead ahead"),
    ],
    ids=lambda value: value.status if isinstance(value, Dispute) else "",
)
def test_a_dispute_stands_at_one_step_and_each_other_is_over_not_needed_or_to_come(
    found: Dispute, told: list[str], wanted: str
) -> None:
    assert " ".join(step.state for step in steps(found, entries(*told))) == wanted


def test_a_step_says_when_it_was_reached() -> None:
    found = steps(dispute("in_review", reply="contest"), entries("opened", "chef_asked", "replied"))
    assert [step.at for step in found] == [NOW, NOW + HOUR, None, NOW + 2 * HOUR, None, None]


# --- the chart -----------------------------------------------------------------------------------------------------


def test_payouts_are_summed_by_week_from_monday_and_by_currency() -> None:
    start = date(2026, 11, 14)  # a Saturday
    days = [
        (date(2026, 11, 15), 2, {"EUR": 30_000}),
        (date(2026, 11, 16), 1, {"EUR": 10_000, "JPY": 5_000}),
        (date(2027, 3, 30), 9, {"EUR": 99_999}),
        (date(2026, 11, 20), 4, {}),
    ]
    euro, yen, unknown = charts(days, start)
    assert (unknown.total, unknown.bars[1].amount) == ("4 payouts", "4 payouts")
    assert (euro.currency, euro.total, yen.total) == ("EUR", "400.00 EUR", "5,000 JPY")
    assert [(bar.week.isoformat(), bar.count, bar.amount) for bar in euro.bars[:2]] == [
        ("2026-11-09", 2, "300.00 EUR"),
        ("2026-11-16", 1, "100.00 EUR"),
    ]
    assert len(euro.bars) == WEEKS


def test_every_bar_lies_within_the_drawing_and_is_as_high_as_its_share() -> None:
    (chart,) = charts(
        [(date(2026, 11, 16) + number * DAY, 1, {"EUR": number}) for number in range(80)], date(2026, 11, 16)
    )
    heights = [bar.height for bar in chart.bars]
    assert heights == sorted(heights[:-2]) + heights[-2:]
    for bar in chart.bars:
        assert bar.x >= 0
        assert bar.x + bar.width <= WIDTH
        assert 0 <= bar.y <= bar.y + bar.height <= HEIGHT


@pytest.mark.parametrize(
    ("amount", "currency", "label"),
    [
        *((95_000, "EUR", "950"), (99_960, "EUR", "1.0k"), (123_456, "EUR", "1.2k"), (3_400, "JPY", "3.4k")),
        *((34_000, "JPY", "34k"), (999_960_000, "EUR", "10.0M"), (5_600_000, "KWD", "5.6k")),
    ],
)
def test_a_bar_is_labelled_shortly_in_major_units(amount: int, currency: str, label: str) -> None:
    (chart,) = charts([(date(2026, 11, 16), 1, {currency: amount})], date(2026, 11, 16))
    assert chart.bars[0].label == label


def test_nothing_to_pay_out_is_no_chart() -> None:
    assert charts([], date(2026, 11, 14)) == []


# --- time ----------------------------------------------------------------------------------------------------------


class SlowClock:
    travels = True

    def __init__(self) -> None:
        self.go = Event()
        self.error: Exception | None = None

    def now(self) -> datetime:
        return NOW

    def upcoming(self) -> datetime | None:
        return None

    def advance(self, by: timedelta, watch: Callable[[datetime], None] = lambda now: None) -> datetime:
        watch(NOW)
        self.go.wait(10)
        if self.error:
            raise self.error
        return NOW + by + timedelta(seconds=3)  # the journey itself took them

    def next(self) -> datetime | None:
        return None


def test_one_journey_at_a_time_and_it_says_how_it_ended() -> None:
    clock = SlowClock()
    travel = Travel(clock)
    travel.by(DAY)
    assert travel.journey.moving
    assert travel.journey.goal == NOW + DAY
    with pytest.raises(BadArgument, match="moving already"):
        travel.by(HOUR)
    clock.go.set()
    travel.wait(10)
    assert (travel.journey.moving, travel.journey.failed) == (False, False)
    assert "1 d have passed" in travel.tell().told
    assert travel.tell().told == ""
    travel.to_next()
    travel.wait(10)
    assert travel.journey.told.startswith("Nothing is due")


def test_a_journey_that_fails_says_why_and_frees_the_way() -> None:
    clock = SlowClock()
    clock.error = TimeoutError("still moving after 60 s")
    clock.go.set()
    travel = Travel(clock)
    travel.by(DAY)
    travel.wait(10)
    assert travel.journey.failed
    assert "still moving" in travel.journey.told
    travel.by(HOUR)
    travel.wait(10)


@pytest.mark.parametrize(
    ("verdict", "reason", "told"),
    [
        (
            "absent",
            "it is done: booking.event_closed at 2026-08-14T20:00:00Z, the event is over",
            ("Done", "event closed Fri 14 Aug 2026, 20:00 UTC: the event is over"),
        ),
        (
            "absent",
            "it is over: job.due at 2026-08-14T20:00:05.250Z, its instant came",
            ("Done", "due Fri 14 Aug 2026, 20:00:05 UTC: its instant came"),
        ),
        (
            "absent",
            "it is over: job.removed at 2026-08-14T20:00:00Z, deleted",
            ("It is over", "removed Fri 14 Aug 2026, 20:00 UTC: deleted"),
        ),
        ("absent", "nobody asked for such a job", ("There is no such job now", "nobody asked for such a job")),
        (
            "waits",
            "it waits until 2026-08-14T20:00:00Z",
            ("It waits for its instant", "it waits until Fri 14 Aug 2026, 20:00 UTC"),
        ),
    ],
)
def test_what_a_job_that_is_gone_did_is_told_as_done_and_instants_as_everywhere(
    verdict: str, reason: str, told: tuple[str, str]
) -> None:
    assert shown.verdict(verdict, reason) == told
