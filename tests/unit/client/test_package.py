"""The package as a marketplace installs it."""

import ast
import sys
import tomllib
from pathlib import Path

import duebook_client
from duebook_client.client import USER_AGENT

PACKAGE = Path(duebook_client.__file__).parent
PROJECT = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]


def _imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            found.add(node.module.partition(".")[0])
    return found


def test_it_needs_botocore_and_urllib3_and_nothing_else() -> None:
    imported = set().union(*(_imported(path) for path in PACKAGE.glob("*.py")))
    foreign = imported - set(sys.stdlib_module_names) - {"duebook_client"}
    declared = {need.split(">")[0] for need in PROJECT["dependencies"]}
    assert foreign == declared == {"botocore", "urllib3"}


def test_it_tells_type_checkers_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()


def test_it_names_its_version_to_the_service() -> None:
    assert f"duebook-client/{PROJECT['version']}" == USER_AGENT


def test_what_it_offers_is_there() -> None:
    names = duebook_client.__all__
    assert all(hasattr(duebook_client, name) for name in names)
    assert len(set(names)) == len(names)
