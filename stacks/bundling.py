"""What is uploaded for the functions: `lambdas/` and its dependencies, built without Docker.

On AWS the pinned `lambdas/requirements.txt` is installed as wheels for the Lambda platform, once for each content of
that file, into `.cache/`; later synthesis needs no network. boto3 comes with the Lambda runtime and is not installed.
The embedded AWS runs functions in this virtual environment, which holds the same pins: it gets `lambdas/` alone.
"""

import hashlib
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import jsii
from aws_cdk import BundlingOptions, DockerImage, IgnoreMode, ILocalBundling, Stack
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from stacks import ROOT
from stacks.environments import Environment

SOURCE = ROOT / "lambdas"
PYTHON = "3.13"
PLATFORM = "aarch64-manylinux2014"
_REQUIREMENTS = SOURCE / "requirements.txt"
_CACHE = ROOT / ".cache" / "lambda-dependencies"
_LEFT_OUT = ("__pycache__", "*.pyc", ".mypy_cache", ".ruff_cache", "requirements.in")


class BundlingError(RuntimeError):
    """The functions' dependencies are neither in the cache nor could they be fetched."""


def service_code(scope: Construct, *, environment: Environment) -> lambda_.Code:
    """The one asset that all functions share. Raises BundlingError."""
    bundling = None
    if not environment.embedded:
        if Stack.of(scope).bundling_required:
            dependencies()
        bundling = BundlingOptions(image=DockerImage.from_registry("scratch"), local=_LocalBundling())
    return lambda_.Code.from_asset(
        str(SOURCE),
        asset_hash=_content_hash(PYTHON, PLATFORM) if bundling else _content_hash(),
        exclude=[f"**/{name}" for name in _LEFT_OUT],
        ignore_mode=IgnoreMode.GLOB,
        bundling=bundling,
    )


def _content_hash(*context: str) -> str:
    """Of what is uploaded: names and contents in order, nothing of the machine. Computed here because CDK's own way
    keeps a cache in the home directory."""
    digest = hashlib.sha256("\n".join(context).encode())
    for path in sorted(SOURCE.rglob("*")):
        parts = path.relative_to(SOURCE).parts
        if path.is_file() and not any(fnmatch(part, name) for part in parts for name in _LEFT_OUT):
            digest.update(f"\n{'/'.join(parts)}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


@jsii.implements(ILocalBundling)
class _LocalBundling:
    def try_bundle(self, output_dir: str, *_options: Any, **_more: Any) -> bool:
        shutil.copytree(dependencies(), output_dir, dirs_exist_ok=True, ignore=shutil.ignore_patterns("bin"))
        shutil.copytree(SOURCE, output_dir, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        return True


def dependencies() -> Path:
    """The folder with the functions' dependencies for the Lambda platform, fetched if it is not there yet.

    Raises BundlingError with the installer's words.
    """
    wanted = "\n".join((PYTHON, PLATFORM, _REQUIREMENTS.read_text(encoding="utf-8")))
    folder = _CACHE / hashlib.sha256(wanted.encode()).hexdigest()[:16]
    if not folder.exists():
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        _install(partial)
        partial.rename(folder)
    return folder


def _install(target: Path) -> None:
    command = [
        *(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"),
        *(f"--python-version={PYTHON}", f"--python-platform={PLATFORM}"),
        *(f"--requirements={_REQUIREMENTS}", f"--target={target}"),
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise BundlingError(f"the functions' dependencies could not be fetched (once, by `make setup`):\n{run.stderr}")


if __name__ == "__main__":
    print(dependencies().relative_to(ROOT))
