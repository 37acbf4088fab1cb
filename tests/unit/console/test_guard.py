"""Who is let in: the operator's own browser on this machine, and nobody and nothing else."""

import re

import pytest

from duebook_cli.connect import Connection
from duebook_client import Duebook
from duebook_console.app import create_app
from duebook_console.guard import KEY, LARGEST_FORM, TOKEN
from tests.unit.client.fakes import ACCESS_KEY, SECRET_KEY
from tests.unit.client.in_process import InProcessService
from tests.unit.console.conftest import LOCKS, ORIGIN, Browser, TestClient, book

REDRIVE = "/bookings/b1/jobs/close_event/redrive"
PAGES = ("/due", "/bookings", "/bookings/b1", "/bookings/b1/jobs/close_event", "/disputes", "/attention")


def stranger(connection: Connection, base_url: str = ORIGIN) -> TestClient:
    return TestClient(create_app(connection, LOCKS), base_url=base_url, follow_redirects=False)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:9999", "127.0.0.1", "127.0.0.1.evil.example:8123", ""])
def test_a_name_that_was_rebound_to_this_machine_gets_nothing(browser: Browser, host: str) -> None:
    answer = browser.raw.get("/due", headers={"Host": host})
    assert answer.status_code == 421
    assert "Due" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_both_names_of_this_machine_open_it(connection: Connection, host: str) -> None:
    opened = TestClient(create_app(connection, LOCKS), base_url=f"http://{host}:{LOCKS.port}")
    assert opened.get(f"/?{KEY}={LOCKS.key}").status_code == 200


@pytest.mark.parametrize("path", ["/due", "/static/console.js", "/time", f"/due?{KEY}=wrong", f"/due?{KEY}="])
def test_another_user_of_this_machine_gets_nothing_without_the_key(connection: Connection, path: str) -> None:
    answer = stranger(connection).get(path)
    assert answer.status_code == 401
    assert "whole address" in answer.text


def test_the_key_becomes_a_cookie_that_no_script_and_no_other_site_sees_and_leaves_the_address(
    connection: Connection,
) -> None:
    answer = stranger(connection).get(f"/due?window=30d&{KEY}={LOCKS.key}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/due?window=30d")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"duebook_console_{LOCKS.port}={LOCKS.key};")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie


def test_the_key_leads_to_a_page_of_ours_only(connection: Connection) -> None:
    answer = stranger(connection).get(f"//evil.example/due?{KEY}={LOCKS.key}")
    assert answer.headers["location"].startswith("/")
    assert not answer.headers["location"].startswith("//")


@pytest.mark.parametrize(
    "headers",
    [{}, {"Origin": "null"}, {"Origin": "https://evil.example"}, {"Origin": "http://localhost:8123"}],
    ids=["none", "null", "another site", "our other name"],
)
def test_a_form_of_another_page_does_nothing(
    browser: Browser, service: InProcessService, headers: dict[str, str]
) -> None:
    sent = len(service.sent)
    answer = browser.raw.post(REDRIVE, data={TOKEN: LOCKS.token, "reason": "x"}, headers=headers)
    assert answer.status_code == 403
    assert len(service.sent) == sent


@pytest.mark.parametrize("token", ["", "of-another-start", LOCKS.token + "x"])
def test_a_form_without_the_token_of_this_start_does_nothing(
    browser: Browser, service: InProcessService, token: str
) -> None:
    sent = len(service.sent)
    answer = browser.raw.post(REDRIVE, data={TOKEN: token, "reason": "x"}, headers={"Origin": ORIGIN})
    assert answer.status_code == 403
    assert len(service.sent) == sent


@pytest.mark.parametrize(
    ("content", "type_"),
    [
        (b"x=" + b"y" * LARGEST_FORM, "application/x-www-form-urlencoded"),
        (b'{"csrf_token":"the-token"}', "application/json"),
        (b"csrf_token=the-token", "text/plain"),
        (b"\xff\xfe", "application/x-www-form-urlencoded"),
    ],
    ids=["too large", "json", "text", "no text"],
)
def test_what_is_no_form_of_ours_is_refused(browser: Browser, content: bytes, type_: str) -> None:
    answer = browser.raw.post(REDRIVE, content=content, headers={"Origin": ORIGIN, "Content-Type": type_})
    assert answer.status_code in (403, 413)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_refused(browser: Browser, method: str) -> None:
    assert browser.raw.request(method, "/due").status_code == 405


@pytest.mark.parametrize("path", [REDRIVE, "/bookings/b1/release-payout"])
def test_opening_an_address_never_acts(browser: Browser, path: str) -> None:
    assert browser.get(path).status_code == 405


@pytest.mark.parametrize("path", [*PAGES, "/nowhere", "/static/console.css"])
def test_every_answer_forbids_foreign_scripts_frames_and_copies(browser: Browser, path: str) -> None:
    headers = browser.get(path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'"
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize("path", PAGES)
def test_pages_need_no_inline_script_and_load_nothing_from_elsewhere(
    browser: Browser, client: Duebook, path: str
) -> None:
    book(client)
    page = browser.get(path).text
    assert "style=" not in page
    assert re.search(r"\son[a-z]+=", page) is None
    assert re.findall(r"<script(?![^>]*src=\"/static/console\.js\")", page) == []
    assert re.findall(r"(?:src|href|action)=\"(?!/|#)[^\"]*\"", page) == []


@pytest.mark.parametrize("path", PAGES)
def test_no_page_holds_a_credential_or_the_key(browser: Browser, client: Duebook, path: str) -> None:
    book(client)
    page = browser.get(path).text
    assert "<h1>" in page
    for secret in (ACCESS_KEY, SECRET_KEY, LOCKS.key):
        assert secret not in page
