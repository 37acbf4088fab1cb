"""The console in a real browser, on the embedded AWS: by keyboard alone, without scripts, on a narrow screen."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from duebook_client import Job
from local import sample
from local.console import console
from local.world import World
from tests import browser
from tests.end_to_end.conftest import CUSTOMER, Book, whole_minute

MOST_TABS = 60


class Operator:
    """Someone at the keyboard. `errors`: what the browser complained about."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.base = base
        self.errors: list[str] = []
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def open(self, path: str) -> None:
        self.page.goto(self.base + path)

    def focused(self) -> str:
        """Id, or text, of what has the focus."""
        found: str = self.page.evaluate("document.activeElement.id || document.activeElement.innerText || ''")
        return found.strip()

    def tab_to(self, wanted: str) -> None:
        """Tab until what has this id or name has the focus, as it must be reachable by keyboard."""
        for _ in range(MOST_TABS):
            self.page.keyboard.press("Tab")
            name = self.page.evaluate("document.activeElement.getAttribute('aria-label') || ''")
            if wanted in (self.focused(), name):
                return
        pytest.fail(f"{wanted} is not reached by Tab")

    def press(self, wanted: str) -> None:
        """What leads to another page."""
        self.tab_to(wanted)
        self.enter()

    def enter(self) -> None:
        with self.page.expect_navigation():
            self.page.keyboard.press("Enter")

    def say(self, text: str) -> None:
        self.page.keyboard.type(text)


@pytest.fixture(scope="module")
def address(world: World) -> Iterator[str]:
    with console(world.aws.port) as address:
        yield address


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    executable = browser.find()
    if executable is None:
        pytest.skip(browser.HOW)
    with browser.launched(executable) as launched:
        yield launched


Opened = Callable[..., Operator]


@pytest.fixture(scope="module")
def opened(chromium: Browser, address: str) -> Iterator[Opened]:
    contexts: list[BrowserContext] = []

    def opened(**options: Any) -> Operator:
        contexts.append(chromium.new_context(**options))
        page = contexts[-1].new_page()
        page.set_default_timeout(30_000)
        parts = urlsplit(address)
        operator = Operator(page, f"{parts.scheme}://{parts.netloc}")
        page.goto(address)
        return operator

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def operator(opened: Opened) -> Operator:
    return opened()


def test_time_is_moved_to_the_next_due_job_by_keyboard_alone(world: World, booking_id: str, operator: Operator) -> None:
    run_at = whole_minute(world.now() + timedelta(minutes=5))
    world.client.put_job(booking_id, "remind", run_at)
    world.settle()
    operator.open("/due?window=24h")
    operator.page.keyboard.press("Tab")
    assert operator.focused() == "Skip to the content"
    for _ in range(10):  # other tests' work may come first
        if world.now() >= run_at:
            break
        operator.press("to-next")
        operator.page.wait_for_selector("#journey[data-moving=no]:has-text('have passed')")
        operator.page.wait_for_selector("#to-next:focus")
    assert [entry.type for entry in world.client.history(booking_id)] == ["job.set", "job.due"]
    assert operator.errors == []


def test_a_bookings_timeline_is_found_by_its_id_and_shows_past_now_and_future(
    world: World, book: Book, booking_id: str, operator: Operator
) -> None:
    book(booking_id)
    operator.open("/due")
    operator.press("Booking")
    operator.tab_to("id")
    operator.say(booking_id)
    operator.enter()
    operator.page.wait_for_selector("ol.line")
    kinds = operator.page.eval_on_selector_all("ol.line > li", "marks => marks.map(mark => mark.className)")
    assert kinds == ["past"] * 3 + ["now"] + ["future"] * 3
    operator.press("Explain release_payment")
    operator.page.wait_for_selector(".verdict.waits")
    world.client.cancel(booking_id, actor=CUSTOMER)
    world.settle()


def test_a_dead_letter_is_explained_and_redriven_by_keyboard_alone(
    world: World, booking_id: str, operator: Operator
) -> None:
    letter = sample.dead_letter(world.aws, world.client, world.outputs["TableName"], booking_id)
    operator.open("/attention")
    operator.press(f"Redrive {letter.job} of {booking_id}")
    operator.page.wait_for_selector(".verdict")
    assert letter.reason is not None
    assert letter.reason in operator.page.inner_text("main")
    operator.tab_to("reason")
    operator.say("it is whole again")
    operator.press("Redrive")
    operator.page.wait_for_selector(".success")
    assert operator.page.inner_text(".success") == f"{letter.job} of {booking_id} was due, and is done."
    assert operator.focused().endswith("is done.") or operator.focused() == "notice"
    assert booking_id not in [each.booking_id for each in world.client.dead_letters()]
    assert world.client.jobs(booking_id) == list[Job]()
    world.settle()
    world.inbox.read()
    assert [event.payload for event in world.inbox.of(booking_id, "job.due")] == [{"mail": "menu"}]
    assert operator.errors == []


def test_everything_works_without_scripts(world: World, booking_id: str, opened: Opened) -> None:
    world.client.put_job(booking_id, "remind", world.now() + timedelta(days=3))
    world.settle()
    plain = opened(java_script_enabled=False)
    plain.open(f"/bookings/{booking_id}")
    before = world.now()
    plain.page.click("#to-hour")
    plain.page.wait_for_selector("#journey:has-text('have passed')")
    assert world.now() - before >= timedelta(hours=1)
    assert urlsplit(plain.page.url).path == f"/bookings/{booking_id}"
    plain.page.click("text=Explain")
    plain.page.fill("#reason", "a look")
    plain.page.click("text=Redrive >> nth=-1")
    assert "is pending again" in plain.page.inner_text(".success")
    world.client.delete_job(booking_id, "remind")
    world.settle()


AUDIT = """() => {
  const found = [];
  const complain = (what, element) =>
    found.push(`${what}: ${element ? element.outerHTML.slice(0, 120) : ''}`);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const shown = (element) => element.getClientRects().length > 0 && !element.closest('.hidden, .skip');

  if (!document.documentElement.lang) complain('no language');
  if (!document.title) complain('no title');
  if (all('h1').length !== 1) complain('not one h1');
  for (const landmark of ['header', 'main', 'nav[aria-label]'])
    if (!document.querySelector(landmark)) complain(`no ${landmark}`);
  let level = 0;
  for (const heading of all('h1, h2, h3, h4')) {
    if (+heading.tagName[1] > level + 1 && level) complain('a heading level is left out', heading);
    level = +heading.tagName[1];
  }
  const ids = all('[id]').map((element) => element.id);
  for (const id of ids.filter((id, position) => ids.indexOf(id) !== position)) complain(`id twice: ${id}`);
  for (const name of ['aria-labelledby', 'aria-describedby'])
    for (const element of all(`[${name}]`))
      for (const id of element.getAttribute(name).split(' '))
        if (!document.getElementById(id)) complain(`nothing has the id ${id}`, element);
  const nameOf = (element) => element.getAttribute('aria-label') || element.innerText.trim()
    || (element.labels && [...element.labels].map((label) => label.innerText).join(' ').trim()) || '';
  for (const element of all('a, button, input:not([type=hidden]), select, summary, [tabindex="0"]'))
    if (!nameOf(element)) complain('no name', element);
  for (const table of all('table')) {
    if (!table.caption) complain('no caption', table);
    for (const head of table.querySelectorAll('th')) if (!head.scope) complain('no scope', head);
  }
  for (const image of all('img')) if (!image.hasAttribute('alt')) complain('no alternative', image);
  for (const image of all('svg')) if (!image.querySelector('title')) complain('no alternative', image);
  for (const element of all('[tabindex]')) if (+element.getAttribute('tabindex') > 0) complain('forced order', element);
  if (all('[role=status]').length < 1) complain('nowhere to tell results');

  const parse = (colour) => (colour.match(/[0-9.]+/g) || []).map(Number);
  const backgroundOf = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const [red, green, blue, alpha = 1] = parse(getComputedStyle(at).backgroundColor);
      if (alpha === 1) return [red, green, blue];
      if (alpha > 0) complain('a background that shines through', at);
    }
    return [255, 255, 255];
  };
  const light = (colour) => {
    const [red, green, blue] = colour.slice(0, 3).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  let checked = 0;
  for (const element of all('body *')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !shown(element) || element.disabled || element.closest('noscript')) continue;
    const style = getComputedStyle(element);
    const colour = parse(element.closest('svg') ? style.fill : style.color);
    const ratio = contrast(colour, backgroundOf(element));
    checked += 1;
    if (ratio < 4.5) complain(`contrast ${ratio.toFixed(2)}`, element);
  }
  for (const element of all('input:not([type=hidden]):not([type=radio]), select, button:not(:disabled)')) {
    const style = getComputedStyle(element);
    const ratio = Math.max(contrast(parse(style.borderColor), backgroundOf(element.parentElement)),
      contrast(backgroundOf(element), backgroundOf(element.parentElement)));
    if (ratio < 3) complain(`edge ${ratio.toFixed(2)}`, element);
  }
  if (checked < 15) complain('too little text to be a page');
  return found;
}"""


@pytest.fixture(scope="module")
def places(world: World) -> Iterator[list[str]]:
    """Every kind of page, with something on it."""
    booking_id = "console-tour"
    ended = whole_minute(world.now() - timedelta(hours=5))
    world.client.put_booking(
        booking_id,
        customer_id="customer-1",
        chef_id="chef-1",
        event_start=ended - timedelta(hours=4),
        event_end=ended,
        price_minor=100_000,
        currency="EUR",
        state="paid",
        paid_at=ended - timedelta(days=2),
        captured_minor=100_000,
        charge_ref="charge-console-tour",
    )
    dispute = world.client.open_dispute(
        booking_id, actor=CUSTOMER, claimed_minor=10_000, reason="cold soup", text="It was cold."
    )
    world.settle()
    yield [
        *("/due?window=7d", "/due?window=24h&job=own", "/bookings", f"/bookings/{booking_id}"),
        f"/bookings/{booking_id}/jobs/watch_dispute",
        *("/disputes", f"/disputes/{dispute.dispute_id}", "/attention", "/nowhere", "/bookings/no-such-booking"),
    ]
    world.client.withdraw(dispute.dispute_id, actor=CUSTOMER)
    world.settle()


@dataclass(frozen=True, slots=True)
class Looked:
    """What is wrong with a page in each of its looks, and how wide it is where 360 pixels are all there is."""

    light: list[str]
    dark: list[str]
    width: int


@pytest.fixture(scope="module")
def looked(opened: Opened, places: list[str]) -> dict[str, Looked]:
    looking, found = opened(), {}
    for path in places:
        looking.page.set_viewport_size({"width": 1200, "height": 800})
        looking.page.emulate_media(color_scheme="light")
        looking.open(path)
        light = looking.page.evaluate(AUDIT)
        looking.page.emulate_media(color_scheme="dark")
        dark = looking.page.evaluate(AUDIT)
        looking.page.set_viewport_size({"width": 360, "height": 740})
        found[path] = Looked(light, dark, looking.page.evaluate("document.documentElement.scrollWidth"))
    return found


def test_every_page_has_names_headings_captions_landmarks_and_contrast(looked: dict[str, Looked]) -> None:
    assert {path: look.light for path, look in looked.items() if look.light} == {}


def test_every_page_has_contrast_in_the_dark_too(looked: dict[str, Looked]) -> None:
    assert {path: look.dark for path, look in looked.items() if look.dark} == {}


def test_a_page_fits_a_narrow_screen_without_scrolling_sideways(looked: dict[str, Looked]) -> None:
    assert {path: look.width for path, look in looked.items() if look.width > 360} == {}


def test_the_focus_is_seen_goes_through_the_page_and_leaves_it_again(operator: Operator, places: list[str]) -> None:
    operator.open(places[3])
    order: list[str] = []
    for _ in range(MOST_TABS):
        operator.page.keyboard.press("Tab")
        seen = operator.page.evaluate(
            """() => {
              const at = document.activeElement;
              if (at === document.body) return null;
              const style = getComputedStyle(at);
              return [at.outerHTML.slice(0, 90), style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2];
            }"""
        )
        if seen is None:
            break
        order.append(seen[0])
        assert seen[1], f"the focus is not seen on {seen[0]}"
    else:
        pytest.fail("the focus never leaves the page")
    assert "skip" in order[0]
    assert [name for name in ("Due", "to-next", "Explain") for each in order if re.search(rf"[>\"]{name}[<\"]", each)]
