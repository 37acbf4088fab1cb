"""The console as an operator installs it."""

import subprocess
import sys

from tests.unit.client.test_package import PACKAGE, PROJECT, _declared, _foreign

THROUGH_THE_COMMAND_LINE = {"boto3", "iso4217"}
"""By what it shares: the connection, and words for money."""


def test_the_console_needs_its_extra_and_nothing_else() -> None:
    extra = _declared(PROJECT["optional-dependencies"]["console"])
    assert _foreign(PACKAGE.parent / "duebook_console") | THROUGH_THE_COMMAND_LINE == extra


def test_it_starts_without_what_only_the_command_line_needs() -> None:
    code = "import duebook_console.__main__, sys; print({'typer', 'rich', 'local'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_pages_and_styles_are_in_the_package() -> None:
    here = PACKAGE.parent / "duebook_console"
    assert {path.name for path in (here / "static").iterdir()} == {"console.css", "console.js", "mark.svg"}
    assert (here / "templates" / "base.html").exists()
