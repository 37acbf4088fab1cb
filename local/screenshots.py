"""`python -m local.screenshots`: docs/images/console-*.png, from the sample on a fresh embedded AWS."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from local import sample
from local.console import console
from local.emulator import ROOT
from local.world import World, deployed
from tests import browser

IMAGES = ROOT / "docs" / "images"
BEGINS = datetime(2026, 11, 9, 8, 20, tzinfo=UTC)
WIDTH, HEIGHT = 1120, 900
LARGEST = 150_000
"""Bytes."""


def main() -> int:
    """Make them; the exit status."""
    executable = browser.find()
    if executable is None:
        print(browser.HOW, file=sys.stderr)
        return 1
    with deployed(start_at=BEGINS) as world:
        sample.make(world.aws, world.client, world.outputs["TableName"], print)
        places = _places(world)
        with console(world.aws.port) as address, browser.launched(executable) as launched:
            page = launched.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
            page.goto(address)
            parts = urlsplit(address)
            for name, path in places.items():
                page.goto(f"{parts.scheme}://{parts.netloc}{path}")
                file = IMAGES / f"console-{name}.png"
                page.screenshot(path=file)
                _check(file)
    return 0


def _places(world: World) -> dict[str, str]:
    world.reach(world.now() + timedelta(hours=2))
    return {
        "due": "/due?window=30d",
        "booking": "/bookings/wedding-3",
        "dispute": "/disputes/gala-2.d1",
        "attention": "/attention",
        "explain": f"/bookings/{sample.DEAD[0]}/jobs/{sample.DEAD[1]}",
    }


def _check(file: Path) -> None:
    size = file.stat().st_size
    print(f"{file.relative_to(ROOT)}: {size:,} bytes")
    if size > LARGEST:
        raise SystemExit(f"{file.name} is larger than {LARGEST:,} bytes")


if __name__ == "__main__":
    sys.exit(main())
