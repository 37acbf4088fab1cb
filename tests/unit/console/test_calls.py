"""How many calls of the API a page makes: never more than its bound, however much is pending.

Measured for the Due page with 100,000 jobs pending, spread evenly over 90 days:

| window | table | counts by job | payouts per week | all payouts' switch | together |
|---|---|---|---|---|---|
| 24 h, 7 d | 1 | 1 | 2 | 1 | 5 |
| 30 d, 90 d | 1 | 4 | 2 | 1 | 8 |

A count reads some 10,000 rows a call; where four are too few, the page says until when it counted. The test has a tenth
of both, 10,000 jobs and 1,000 rows a call, which makes the same calls; what a listing of 100,000 reads is measured in
tests/integration/test_listing_at_scale.py.
"""

import re
from datetime import timedelta

import pytest

from duebook.domain import names
from duebook.domain.booking import Planned
from duebook.service import rows, summary
from duebook_client import Duebook
from duebook_console.reads import MOST_CALLS, PAGE
from tests.unit.client.in_process import AUGUST, InProcessService
from tests.unit.console.conftest import Browser, book

KINDS = (*names.LIFECYCLE_JOBS, "pay_1", "watch_dispute", "menu")
DAYS = 90
MANY = 10_000
SCALE = 10


@pytest.fixture
def many(service: InProcessService, monkeypatch: pytest.MonkeyPatch) -> InProcessService:
    """10,000 pending jobs of all kinds, spread evenly over 90 days, for counts that read a tenth at a time."""
    monkeypatch.setattr(summary, "MOST_ROWS", summary.MOST_ROWS // SCALE)
    monkeypatch.setattr(summary, "PAGE", summary.PAGE // SCALE)
    step = timedelta(days=DAYS) / MANY
    for number in range(MANY):
        run_at = AUGUST + (number + 1) * step
        service.table.write(
            rows.job_write(f"b{number}", KINDS[number % len(KINDS)], Planned(run_at, 1), AUGUST, {}, ())
        )
        service.table.stream.forget(len(service.table.stream))
    return service


def calls(browser: Browser, service: InProcessService, path: str) -> list[str]:
    """Method and path of every call that a page makes."""
    service.sent.clear()
    browser.last = browser.get(path)
    assert browser.last.status_code == 200
    return [f"{request.method} {re.sub(r'[?].*', '', request.url.split('.com')[1])}" for request in service.sent]


def test_due_makes_a_bounded_number_of_calls_however_many_jobs_are_pending(
    browser: Browser, many: InProcessService
) -> None:
    for window in ("24h", "90d"):
        made = calls(browser, many, f"/due?window={window}")
        assert made.count("GET /jobs") == 1
        assert made.count("GET /jobs/summary") <= 2 * MOST_CALLS
        assert made.count("GET /payouts") == 1
        assert len(made) <= 2 + 2 * MOST_CALLS
    page = browser.last.text
    assert page.count(">Explain</a>") == PAGE
    assert "Counted until" in page
    following = re.search(r'rel="next" href="([^"]+)"', page)
    assert following is not None
    assert calls(browser, many, following[1].replace("&amp;", "&")).count("GET /jobs") == 1


def test_due_stays_within_its_bound_where_next_to_nothing_is_pending(
    browser: Browser, service: InProcessService, client: Duebook
) -> None:
    client.put_job("order-1", "remind", AUGUST + timedelta(days=89))
    for window in ("24h", "7d", "30d", "90d"):
        made = calls(browser, service, f"/due?window={window}")
        assert made.count("GET /jobs") <= MOST_CALLS
        assert made.count("GET /jobs/summary") <= 2 * MOST_CALLS
    assert "order-1" in browser.get("/due?window=90d").text


@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("/bookings", 0),
        ("/bookings/b1", 3),
        ("/bookings/b1/jobs/close_event", 1),
        ("/disputes", 1),
        ("/attention", 5),
        ("/attention?kind=dead", 2),
        ("/static/console.css", 0),
        ("/time", 0),
    ],
)
def test_each_other_page_makes_as_many_calls_as_it_says(
    browser: Browser, service: InProcessService, client: Duebook, path: str, most: int
) -> None:
    book(client)
    assert len(calls(browser, service, path)) == most
