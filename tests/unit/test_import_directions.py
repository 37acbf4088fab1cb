"""Dependencies point inward: handlers → service → domain; adapters do what service asks for; wiring joins them."""

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "lambdas"
PACKAGE = "duebook"
MODULES = sorted((ROOT / PACKAGE).rglob("*.py"))
LAYERS = ("domain", "service", "adapters", "handlers", "wiring", "settings")

MAY_IMPORT = {
    "domain": {"domain"},
    "service": {"domain", "service"},
    "adapters": {"domain", "service", "adapters"},
    "handlers": {"domain", "service", "handlers", "wiring", "settings"},
    "wiring": {"domain", "service", "adapters", "settings"},
    "settings": {"domain"},
}
THIRD_PARTIES = {
    "domain": set[str](),
    "service": set[str](),
    "adapters": {"boto3.dynamodb.types", "botocore", "requests", "stripe"},
    "handlers": {"aws_lambda_powertools"},
    "wiring": {"boto3", "botocore"},
    "settings": set[str](),
}
ONLY_IN_API = {"pydantic", "iso4217", "aws_lambda_powertools.event_handler"}
EXCEPTIONS = {("duebook.handlers.publisher", "duebook.adapters.table")}
"""The stream's images are read by the adapter that knows DynamoDB's types."""

HANDLERS = sorted(
    path.stem if path.stem != "__init__" else path.parent.name
    for path in (ROOT / PACKAGE / "handlers").glob("**/*.py")
    if "def handler(" in path.read_text()
)


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else None


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Every node of the file's syntax tree."""
    return tuple(ast.walk(ast.parse(path.read_text())))


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Every module that is imported anywhere in the file, also inside a function."""
    return frozenset(_imports(nodes_of(path)))


def _imports(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            for alias in node.names:
                child = f"{node.module}.{alias.name}"
                yield child if _path(child) else node.module


def _path(module: str) -> Path | None:
    base = ROOT.joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.exists()), None)


def _is_third_party(module: str) -> bool:
    return module.split(".")[0] not in sys.stdlib_module_names and module.split(".")[0] != PACKAGE


def _within(module: str, allowed: set[str]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in allowed)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_only_what_its_layer_may(path: Path) -> None:
    module = name_of(path)
    layer = layer_of(module)
    if layer is None:
        assert not imports_of(path)
        return
    for imported in imports_of(path):
        if _is_third_party(imported):
            allowed = THIRD_PARTIES[layer] | (ONLY_IN_API if module.startswith("duebook.handlers.api") else set())
            assert _within(imported, allowed), f"{module} imports {imported}"
        elif imported.split(".")[0] == PACKAGE and (module, imported) not in EXCEPTIONS:
            found = layer_of(imported)
            assert found is None or found in MAY_IMPORT[layer], f"{module} imports {imported}"


@pytest.mark.parametrize("path", [path for path in MODULES if layer_of(name_of(path)) == "domain"], ids=name_of)
def test_the_domain_is_pure(path: Path) -> None:
    assert not imports_of(path) & {"os", "random", "secrets", "socket", "time", "uuid", "threading", "subprocess"}
    for node in nodes_of(path):
        if isinstance(node, ast.Attribute):
            assert node.attr not in ("now", "utcnow", "today"), "the clock is an argument"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_the_environment_is_read_by_settings_and_wiring_alone(path: Path) -> None:
    reads = [node.attr for node in nodes_of(path) if isinstance(node, ast.Attribute)]
    if not {"environ", "getenv"}.isdisjoint(reads):
        assert name_of(path) in ("duebook.settings", "duebook.wiring")


@pytest.mark.parametrize("handler", HANDLERS)
def test_pydantic_and_the_event_handler_are_in_the_import_of_the_api_alone(handler: str) -> None:
    seen: set[str] = set()
    waiting = [f"duebook.handlers.{handler}"]
    while waiting:
        module = waiting.pop()
        path = _path(module)
        if module not in seen and path is not None:
            seen.add(module)
            waiting += [imported for imported in imports_of(path) if imported.startswith(f"{PACKAGE}.")]
    third_parties = {imported for module in seen for imported in imports_of(_path(module) or Path())}
    heavy = {imported for imported in third_parties if _within(imported, ONLY_IN_API)}
    assert bool(heavy) == (handler == "api"), heavy


RESERVED = frozenset(
    [
        "name",
        "msg",
        "args",
        "message",
        "asctime",
        "module",
        "filename",
        "lineno",
        "funcName",
        "created",
        "thread",
        "process",
    ]
)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_log_line_uses_a_name_that_python_s_logging_keeps_for_itself(path: Path) -> None:
    """Kind: `extra={"message": ...}` raises KeyError, so the record it stands in fails and comes again and again."""
    for node in nodes_of(path):
        if isinstance(node, ast.keyword) and node.arg == "extra" and isinstance(node.value, ast.Dict):
            keys = {key.value for key in node.value.keys if isinstance(key, ast.Constant)}
            assert not keys & RESERVED


def test_every_handler_is_imported_in_an_empty_environment_without_making_a_client() -> None:
    modules = [f"duebook.handlers.{handler}" for handler in HANDLERS]
    code = f"""
import importlib, sys
sys.path.insert(0, {str(ROOT)!r})
for name in {modules!r}:
    assert callable(importlib.import_module(name).handler), name
from duebook import wiring
cached = {{name: found for name, found in vars(wiring).items() if hasattr(found, "cache_info")}}
made = [name for name, found in cached.items() if found.cache_info().currsize]
assert not made, made
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env={}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == done.stderr == ""


def test_a_missing_setting_is_named_when_it_is_first_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    from duebook.settings import MissingSetting, setting

    monkeypatch.delenv("TABLE_NAME", raising=False)
    with pytest.raises(MissingSetting, match="TABLE_NAME"):
        setting("TABLE_NAME")
