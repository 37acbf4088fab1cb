"""Where the console's tests find a Chromium, and `python -m tests.browser`, which gets one where there is none.

Looked for: the variable DUEBOOK_CHROMIUM, the names below on PATH, and what `playwright install chromium` left in
`.cache`. Got by apt-get where this is root on Debian or Ubuntu, else by playwright. Where neither works nothing fails:
those tests are then skipped, and say how to get one.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

VARIABLE = "DUEBOOK_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOW = f"no Chromium: `make browser` gets one, or set {VARIABLE} to the path of yours"
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
_CACHE = Path(__file__).resolve().parent.parent / ".cache" / "playwright"
_PLAYWRIGHTS = ("chromium-*/chrome-linux*/chrome", "chromium-*/chrome-mac*/*.app/Contents/MacOS/*")
_SECONDS = 600
_APT = ("apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium")

Which = Callable[[str], str | None]
Run = Callable[[Sequence[str], Mapping[str, str]], bool]


def find(environ: Mapping[str, str] = os.environ, which: Which = shutil.which, cache: Path = _CACHE) -> str | None:
    """The path of a Chromium; None where there is none."""
    if environ.get(VARIABLE):
        return which(environ[VARIABLE])
    on_path = [found for name in NAMES if (found := which(name))]
    own = [str(path) for pattern in _PLAYWRIGHTS for path in sorted(cache.glob(pattern))]
    return next(iter([*on_path, *own]), None)


def get(run: Run, *, is_root: bool, which: Which = shutil.which, environ: Mapping[str, str] = os.environ) -> None:
    """Try to get one: by apt-get, with fresh lists at the second try, or by playwright."""
    if is_root and which("apt-get"):
        quiet = {**environ, "DEBIAN_FRONTEND": "noninteractive"}
        print("Installing Chromium for the console's tests (apt-get install chromium) ...", flush=True)
        if run(_APT, quiet) or (run(("apt-get", "update", "-qq"), quiet) and run(_APT, quiet)):
            return
    print(f"Fetching Chromium for the console's tests into {_CACHE.parent.name} (playwright install) ...", flush=True)
    run(
        (sys.executable, "-m", "playwright", "install", "chromium"),
        {**environ, "PLAYWRIGHT_BROWSERS_PATH": str(_CACHE)},
    )


@contextmanager
def launched(executable: str) -> Iterator[Browser]:
    """A headless one."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def main() -> int:
    """Always 0: without a browser only its tests are skipped."""
    if find() is None and not os.environ.get(VARIABLE):
        get(_run, is_root=os.geteuid() == 0)
    if find() is None:
        print(f"The console's tests in the browser will be skipped: {HOW}")
    return 0


def _run(command: Sequence[str], environ: Mapping[str, str]) -> bool:
    try:
        done = subprocess.run(command, env=dict(environ), stdout=subprocess.DEVNULL, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(error, file=sys.stderr)
        return False
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
