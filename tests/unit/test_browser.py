"""Where the browser of the console's tests comes from on a fresh machine."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests import browser

APT, UPDATE, PLAYWRIGHT = "apt-get install", "apt-get update", "playwright install"


class Machine:
    """Runs nothing: notes what would run. `fails`: how many runs of a command fail."""

    def __init__(self, **fails: int) -> None:
        self.fails = {name.replace("_", " "): number for name, number in fails.items()}
        self.ran: list[str] = []

    def run(self, command: Sequence[str], environ: Mapping[str, str]) -> bool:
        line = " ".join(command)
        (kind,) = [name for name in (APT, UPDATE, PLAYWRIGHT) if name in line.replace("apt-get -y", "apt-get")]
        self.ran.append(kind)
        left = self.fails.get(kind.replace("-", " "), 0)
        self.fails[kind.replace("-", " ")] = left - 1
        return left <= 0


def which(*names: str) -> browser.Which:
    return lambda name: f"/usr/bin/{name}" if name in names else None


@pytest.mark.parametrize(
    ("environ", "names", "found"),
    [
        ({}, (), None),
        ({}, ("google-chrome", "chromium"), "/usr/bin/chromium"),
        ({}, ("chromium-browser",), "/usr/bin/chromium-browser"),
        ({browser.VARIABLE: "my-chrome"}, ("my-chrome", "chromium"), "/usr/bin/my-chrome"),
        ({browser.VARIABLE: "gone"}, ("chromium",), None),
    ],
)
def test_it_is_found_by_the_variable_or_on_the_path(
    tmp_path: Path, environ: Mapping[str, str], names: tuple[str, ...], found: str | None
) -> None:
    assert browser.find(environ, which(*names), tmp_path) == found


def test_what_playwright_fetched_is_found_in_the_cache(tmp_path: Path) -> None:
    chrome = tmp_path / "chromium-1234" / "chrome-linux64" / "chrome"
    chrome.parent.mkdir(parents=True)
    chrome.touch()
    assert browser.find({}, which(), tmp_path) == str(chrome)


@pytest.mark.parametrize(
    ("machine", "is_root", "names", "ran"),
    [
        (Machine(), True, ("apt-get",), [APT]),
        (Machine(apt_get_install=1), True, ("apt-get",), [APT, UPDATE, APT]),
        (Machine(apt_get_install=2), True, ("apt-get",), [APT, UPDATE, APT, PLAYWRIGHT]),
        (Machine(apt_get_install=9, apt_get_update=9), True, ("apt-get",), [APT, UPDATE, PLAYWRIGHT]),
        (Machine(), False, ("apt-get",), [PLAYWRIGHT]),
        (Machine(), True, (), [PLAYWRIGHT]),
        (Machine(playwright_install=9), False, (), [PLAYWRIGHT]),
    ],
)
def test_root_on_debian_gets_it_by_apt_and_all_others_by_playwright(
    machine: Machine, is_root: bool, names: tuple[str, ...], ran: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    browser.get(machine.run, is_root=is_root, which=which(*names), environ={})
    assert machine.ran == ran
    assert "Chromium for the console's tests" in capsys.readouterr().out
