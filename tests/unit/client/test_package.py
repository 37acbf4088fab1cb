"""The distribution as a marketplace and an operator install it."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import duebook_client
from duebook_client.client import USER_AGENT

PACKAGE = Path(duebook_client.__file__).parent
SETTINGS = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]
OURS = {"duebook_client", "duebook_cli", "duebook_console"}


def _imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            found.add(node.module.partition(".")[0])
    return found


def _foreign(package: Path) -> set[str]:
    imported = set().union(*(_imported(path) for path in package.rglob("*.py")))
    return imported - set(sys.stdlib_module_names) - OURS


def _declared(needs: list[str]) -> set[str]:
    return {re.split("[<>=]", need)[0] for need in needs}


def test_it_needs_botocore_and_urllib3_and_nothing_else() -> None:
    assert _foreign(PACKAGE) == _declared(PROJECT["dependencies"]) == {"botocore", "urllib3"}


def test_the_command_line_needs_its_extra_and_only_in_a_checkout_the_embedded_aws() -> None:
    extra = _declared(PROJECT["optional-dependencies"]["cli"])
    assert _foreign(PACKAGE.parent / "duebook_cli") == extra | {"botocore", "local"}


def test_the_three_packages_are_one_distribution_with_one_command() -> None:
    assert set(SETTINGS["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == OURS
    assert PROJECT["scripts"] == {"duebook": "duebook_cli.main:main"}


def test_what_is_installed_is_what_is_tested(tmp_path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", "import duebook_cli, duebook_client; print(duebook_client.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert Path(shown.stdout.strip()) == PACKAGE / "__init__.py"


def test_it_tells_type_checkers_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()


def test_it_names_its_version_to_the_service() -> None:
    assert f"duebook-client/{PROJECT['version']}" == USER_AGENT


def test_what_it_offers_is_there() -> None:
    names = duebook_client.__all__
    assert all(hasattr(duebook_client, name) for name in names)
    assert len(set(names)) == len(names)
