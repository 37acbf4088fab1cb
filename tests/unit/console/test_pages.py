"""What the pages show, and what their forms do."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any

import pytest

from duebook.service.rows import job_dead
from duebook_cli.connect import Connection
from duebook_client import Duebook
from duebook_console.reads import PAGE
from tests.unit.client.in_process import AUGUST, InProcessService
from tests.unit.console.conftest import CUSTOMER, Browser, ClockStub, SessionStub, book

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
SCRIPT = "<script>alert(1)</script>"


def kill(service: InProcessService, booking_id: str, job: str, reason: str = "it broke") -> None:
    row = service.bookings.job_row(booking_id, job)
    assert row is not None
    service.table.write(job_dead(row, service.now, reason, attempts=9))


def text_of(page: Any) -> str:
    """What a reader sees, roughly."""
    return " ".join(re.sub(r"<[^>]+>", " ", page.text).split())


def test_the_first_page_is_what_is_due(browser: Browser) -> None:
    page = browser.get("/")
    assert page.url.path == "/due"
    assert "Nothing is due within 7d" in page.text


@pytest.mark.parametrize(("window", "shown"), [("24h", ["a"]), ("7d", ["a", "b"]), ("30d", ["a", "b", "c"])])
def test_due_shows_the_jobs_of_the_window_in_order(
    browser: Browser, client: Duebook, window: str, shown: list[str]
) -> None:
    for name, days in (("c", 20), ("a", 0.5), ("b", 5), ("d", 80)):
        client.put_job(f"order-{name}", "remind", AUGUST + days * DAY)
    page = browser.get(f"/due?window={window}").text
    assert re.findall(r'href="/bookings/order-(\w)">', page) == shown


def test_ninety_days_are_read_in_parts_of_what_the_api_takes(browser: Browser, client: Duebook) -> None:
    for days in (1, 40, 80):
        client.put_job(f"order-{days}", "remind", AUGUST + days * DAY)
    page = browser.get("/due?window=90d").text
    assert re.findall(r'href="/bookings/order-(\d+)">', page) == ["1", "40", "80"]


def test_due_is_filtered_by_job_and_paged(browser: Browser, client: Duebook) -> None:
    for number in range(PAGE + 3):
        client.put_job(f"order-{number:03}", "remind", AUGUST + DAY + number * timedelta(minutes=1))
        client.put_job(f"order-{number:03}", "other", AUGUST + DAY)
    seen: list[str] = []
    path: str | None = "/due?window=7d&job=remind"
    while path is not None:
        page = browser.get(path).text
        seen += re.findall(r'href="/bookings/(order-\d+)">', page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        path = following[1].replace("&amp;", "&") if following else None
    assert seen == [f"order-{number:03}" for number in range(PAGE + 3)]


def test_due_counts_by_job_and_draws_the_payouts_per_week_with_the_same_as_a_table(
    browser: Browser, client: Duebook
) -> None:
    book(client)
    book(client, "b2")
    page = browser.get("/due?window=30d")
    assert re.search(r"release_payment</a>.*?<td class=\"number\">2</td>", page.text)
    assert 'role="img"' in page.text
    assert "Payouts per week in EUR: 900.00 EUR in 13 weeks" in page.text
    assert re.search(
        r'<th scope="row">10 Aug 2026</th><td class="number">2</td><td class="number">900.00 EUR</td>', page.text
    )


@pytest.mark.parametrize("query", ["window=1y", "within=30d", "job=No!", "after=nonsense", "after=2026-08-01~x~"])
def test_a_query_that_makes_no_sense_is_told_and_sends_nothing_odd(browser: Browser, query: str) -> None:
    page = browser.get(f"/due?{query}")
    assert "was not understood" in page.text


def test_a_booking_is_one_line_from_its_past_through_now_to_its_future(
    browser: Browser, service: InProcessService, client: Duebook
) -> None:
    book(client)
    service.move_to(datetime(2026, 8, 14, 12, tzinfo=UTC))
    page = browser.get("/bookings/b1")
    marks = re.findall(r'<li class="(\w+)".*?<p class="title">([\w :]+?)\s*<', page.text, re.S)
    assert marks == [
        ("past", "requested"),
        ("past", "accepted"),
        ("past", "paid"),
        ("now", "Now"),
        ("future", "close_event"),
        ("future", "complete_order"),
        ("future", "release_payment"),
    ]
    assert '<li class="now" aria-current="true">' in page.text
    assert 'href="/bookings/b1/jobs/close_event"' in page.text
    service.move_to(datetime(2026, 8, 17, tzinfo=UTC))
    text = text_of(browser.get("/bookings/b1"))
    assert "b1.p1" in text
    assert "payout 450.00 EUR" in text
    assert text.index("event closed") < text.index("Now")


def test_a_booking_is_found_by_its_id(browser: Browser, client: Duebook) -> None:
    book(client)
    assert browser.get("/bookings?id=+b1+").url.path == "/bookings/b1"
    assert browser.get("/bookings?id=b2").status_code == 404
    assert browser.get("/bookings?id=../due").status_code in (400, 404)


def test_an_id_that_only_holds_own_jobs_has_a_line_too(browser: Browser, client: Duebook) -> None:
    client.put_job("order-1", "remind", AUGUST + DAY)
    page = browser.get("/bookings/order-1")
    assert page.status_code == 200
    assert "only holds jobs of your own" in page.text
    assert "remind" in page.text


def test_a_held_payout_is_shown_and_released_with_a_reason(browser: Browser, client: Duebook) -> None:
    client.put_booking(
        "b1",
        customer_id="c-1",
        chef_id="ch-1",
        event_start=AUGUST + DAY,
        price_minor=50_000,
        currency="EUR",
        state="paid",
        paid_at=AUGUST - DAY,
        captured_minor=50_000,
        charge_ref="ch_1",
        hold_payout=True,
    )
    assert "The payout is held" in browser.get("/bookings/b1").text
    page = browser.get("/attention?kind=held").text
    assert "/bookings/b1#held" in page
    assert re.findall(r'<th scope="col">(\w+)</th>', page) == ["Since", "Booking"]
    page = browser.post("/bookings/b1/release-payout", reason="all was checked", idempotency_key="k-1")
    assert "held no longer" in page.text
    assert "The payout is held" not in page.text
    assert "all was checked" in page.text


def test_a_job_is_explained(browser: Browser, service: InProcessService, client: Duebook) -> None:
    book(client)
    text = text_of(browser.get("/bookings/b1/jobs/close_event"))
    assert "It waits for its instant" in text
    assert "it waits until Fri 14 Aug 2026, 20:00 UTC" in text
    service.now = datetime(2026, 8, 14, 21, tzinfo=UTC)
    assert "It would act now" in text_of(browser.get("/bookings/b1/jobs/close_event"))


def test_a_dead_letter_is_explained_redriven_with_a_reason_and_its_result_told(
    browser: Browser, service: InProcessService, client: Duebook
) -> None:
    client.put_job("order-1", "remind", AUGUST + HOUR)
    kill(service, "order-1", "remind", "its queue was gone")
    service.now = AUGUST + 2 * HOUR
    page = browser.get("/attention")
    assert "its queue was gone" in page.text
    assert 'href="/bookings/order-1/jobs/remind#redrive"' in page.text
    page = browser.get("/bookings/order-1/jobs/remind")
    key = re.search(r'name="idempotency_key" value="([^"]+)"', page.text)
    assert key is not None
    done = browser.post("/bookings/order-1/jobs/remind/redrive", reason="the queue is back", idempotency_key=key[1])
    assert "remind of order-1 was due, and is done." in done.text
    assert ">Done</p>" in done.text
    assert "due Sat 01 Aug 2026, 12:00 UTC: " in text_of(done)
    assert "There is no such job now" not in done.text
    assert "its queue was gone" not in browser.get("/attention").text
    assert [entry.type for entry in client.history("order-1")] == ["job.set", "job.due"]


def test_a_redrive_without_a_reason_is_told_and_nothing_is_done(
    browser: Browser, service: InProcessService, client: Duebook
) -> None:
    client.put_job("order-1", "remind", AUGUST + DAY)
    kill(service, "order-1", "remind")
    page = browser.post("/bookings/order-1/jobs/remind/redrive", reason="  ")
    assert "say why" in page.text
    assert client.jobs("order-1")[0].status == "dead"


def test_a_form_that_is_sent_twice_takes_effect_once(
    browser: Browser, service: InProcessService, client: Duebook
) -> None:
    client.put_job("order-1", "remind", AUGUST + DAY)
    kill(service, "order-1", "remind")
    for _ in range(2):
        browser.post("/bookings/order-1/jobs/remind/redrive", reason="fixed", idempotency_key="console-1")
    assert [entry.type for entry in client.history("order-1")] == ["job.set", "job.redriven"]
    assert client.jobs("order-1")[0].status == "pending"


def test_a_notice_is_told_once_and_never_taken_from_the_address(browser: Browser, client: Duebook) -> None:
    client.put_job("order-1", "remind", AUGUST + DAY)
    page = browser.post("/bookings/order-1/jobs/remind/redrive", reason="look")
    assert "is pending again" in page.text
    assert "is pending again" not in browser.get(str(page.url)).text
    assert "is pending again" not in browser.get("/due?told=remind+of+order-1+is+pending+again").text


def test_what_others_wrote_is_shown_as_text_never_as_markup(
    browser: Browser, service: InProcessService, client: Duebook
) -> None:
    book(client)
    client.cancel("b1", actor=CUSTOMER, reason=SCRIPT)
    client.put_job("order-1", "remind", AUGUST + DAY)
    kill(service, "order-1", "remind", SCRIPT)
    for path in ("/bookings/b1", "/attention", "/bookings/order-1", "/bookings/order-1/jobs/remind"):
        page = browser.get(path).text
        assert "&lt;script&gt;alert(1)" in page, path
        assert SCRIPT not in page, path
    for path in (f"/bookings/{SCRIPT}", f"/due?window={SCRIPT}", f"/due?job={SCRIPT}", f"/nowhere{SCRIPT}"):
        assert SCRIPT not in browser.get(path).text


# --- time ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "at"),
    [
        ({"to": "hour"}, AUGUST + HOUR),
        ({"to": "day"}, AUGUST + DAY),
        ({"to": "next"}, AUGUST + 3 * HOUR),
        ({"to": "instant", "instant": "2026-08-05T12:30"}, datetime(2026, 8, 5, 12, 30, tzinfo=UTC)),
    ],
)
def test_time_is_moved_from_every_page_and_comes_back_to_it(
    browser: Browser, service: InProcessService, client: Duebook, fields: dict[str, str], at: datetime
) -> None:
    client.put_job("order-1", "remind", AUGUST + 3 * HOUR)
    page = browser.post("/time", back="/due?window=30d", **fields)
    assert (page.url.path, page.url.query) == ("/due", b"window=30d")
    assert service.now == at
    assert "have passed" in page.text
    for path in ("/due", "/nowhere"):
        assert "have passed" not in browser.get(path).text


@pytest.mark.parametrize(
    "fields",
    [
        {"to": "instant", "instant": "2026-07-01T00:00"},
        {"to": "instant", "instant": "soon"},
        {"to": "instant"},
        {"to": "back"},
        {},
    ],
)
def test_time_never_moves_back_nor_anywhere_unclear(
    browser: Browser, service: InProcessService, fields: dict[str, str]
) -> None:
    page = browser.post("/time", back="/due", **fields)
    assert service.now == AUGUST
    assert "was not understood" in page.text


@pytest.mark.parametrize("back", ["https://evil.example/", "//evil.example", "/\\evil.example", "due"])
def test_after_a_move_only_a_page_of_ours_follows(browser: Browser, back: str) -> None:
    browser.raw.follow_redirects = False
    answer = browser.post("/time", to="hour", back=back)
    assert answer.headers["location"] == "/"


@pytest.mark.parametrize("path", ["/due", "/bookings", "/disputes", "/attention", "/nowhere"])
def test_every_page_of_the_embedded_aws_has_the_time_bar_and_none_of_an_account(
    browser: Browser, deployed: Connection, path: str
) -> None:
    assert 'action="/time"' in browser.get(path).text
    account = Browser(deployed)
    assert 'action="/time"' not in account.get(path).text
    assert account.get("/time").status_code == 404
    assert account.post("/time", to="hour", back="/").status_code == 404


def test_where_time_is_real_the_bar_says_so(connection: Connection, service: InProcessService) -> None:
    clock = ClockStub(service)
    clock.travels = False
    page = Browser(replace(connection, clock=clock)).get("/due").text
    assert "Time is real on this machine" in page
    assert 'action="/time"' not in page


def test_while_time_moves_the_page_tells_it_with_and_without_scripts(
    connection: Connection, service: InProcessService
) -> None:
    arrived = Event()

    class Slow(ClockStub):
        def advance(self, by: timedelta, watch: Callable[[datetime], None] = lambda now: None) -> datetime:
            arrived.wait(10)
            return super().advance(by, watch)

    browser = Browser(replace(connection, clock=Slow(service)))
    page = browser.post("/time", to="day", back="/due")
    assert "Time is moving to Sun 02 Aug 2026, 10:00 UTC" in page.text
    assert '<noscript><meta http-equiv="refresh" content="1"></noscript>' in page.text
    assert browser.get("/time").json()["moving"] is True
    assert "is moving already" in browser.post("/time", to="hour", back="/due").text
    arrived.set()
    while browser.get("/time").json()["moving"]:
        pass
    assert browser.get("/time").json()["now"] == "Sun 02 Aug 2026, 10:00 UTC"
    page = browser.get("/due")
    assert "Moved to Sun 02 Aug 2026, 10:00 UTC: 1 d have passed." in page.text
    assert "http-equiv" not in page.text


# --- disputes and the rest -----------------------------------------------------------------------------------------


def disputed(service: InProcessService, client: Duebook) -> str:
    book(client)
    service.move_to(datetime(2026, 8, 15, tzinfo=UTC))
    dispute = client.open_dispute(
        "b1", actor=CUSTOMER, claimed_minor=20_000, reason="cold soup", text=f"It was cold. {SCRIPT}"
    )
    return dispute.dispute_id


def test_a_dispute_is_shown_with_its_claim_and_where_it_stands(
    browser: Browser, service: InProcessService, client: Duebook
) -> None:
    dispute_id = disputed(service, client)
    page = browser.get(f"/disputes/{dispute_id}")
    assert 'aria-current="step"' in page.text
    text = text_of(page)
    assert "200.00 EUR" in text
    assert "cold soup" in text
    assert SCRIPT not in page.text
    assert f'href="/disputes/{dispute_id}"' in browser.get("/bookings/b1").text
    assert dispute_id in browser.get("/disputes?kind=awaiting_chef").text
    assert "There is none" in browser.get("/disputes?kind=needs_attention").text
    assert browser.get("/disputes?kind=all").status_code == 400


def test_paused_payouts_are_told_where_payouts_are_looked_at(browser: Browser, client: Duebook) -> None:
    client.pause_payouts(reason="the bank is down")
    for path in ("/due", "/attention"):
        assert "All payouts are paused</strong>: the bank is down" in browser.get(path).text


def test_the_status_line_says_which_environment_and_who(browser: Browser, deployed: Connection) -> None:
    assert '<strong class="env">local</strong>' in browser.get("/due").text
    page = Browser(deployed).get("/due").text
    assert '<html lang="en" class="prod">' in page
    assert "Production: prod" in page
    assert "arn:aws:sts::123456789012:assumed-role/operators/ada" in page


def test_whoever_is_nobody_is_told_so_and_the_page_still_opens(connection: Connection, session: SessionStub) -> None:
    session.refusal = "ExpiredToken"
    page = Browser(connection).get("/due")
    assert "nobody: the AWS credentials have expired" in page.text
