"""Deploy the CDK app to an embedded AWS with the real CDK CLI.

The CLI and Node come from npm and PyPI into `.cache/` and `.venv`; neither a
global installation nor an AWS account is needed.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from local.emulator import ACCOUNT, CACHE, REGION, ROOT, EmbeddedAws
from local.processes import end_group

CDK_VERSION = "2.1148.1"

_CLI_HOME = CACHE / "cdk-cli"
_NODE_BIN = Path(sys.executable).parent
_TAIL_LINES = 40
_TOOLKIT = "CDKToolkit"
_SHOWN = ("✨  Synthesis", "✅", "❌")

Outputs = dict[str, dict[str, str]]


class DeployError(RuntimeError):
    """The CDK CLI failed. The message ends with the tail of what it printed."""


def deploy(
    aws: EmbeddedAws,
    *,
    context: Mapping[str, str] | None = None,
    stacks: Sequence[str] | None = None,
    app: Path = ROOT,
    quiet: bool = False,
) -> Outputs:
    """Bootstrap if needed and deploy; the outputs by stack name.

    `stacks=None` deploys all. `context` is passed on as `-c key=value`, after
    `env=local`. `app` is the folder that holds `cdk.json`. Progress goes to
    standard error unless `quiet`. The CLI lives at the emulator's time, because
    it waits for stack events by their time.
    """
    cdk = _Cdk(aws=aws, quiet=quiet)
    settings = {"env": "local", **(context or {})}
    options = [part for item in settings.items() for part in ("-c", "=".join(item))]
    if not _is_bootstrapped(aws):
        cdk.say("Preparing the account (cdk bootstrap) ...")
        cdk.run("bootstrap", f"aws://{ACCOUNT}/{REGION}", app=aws.home)
    outputs = aws.home / "outputs.json"
    cdk.say("Synthesizing and deploying (cdk deploy) ...")
    cdk.run(
        "deploy",
        *(stacks or ["--all"]),
        *options,
        "--require-approval=never",
        "--method=direct",
        "--asset-parallelism=true",
        "--concurrency=4",
        "--progress=events",
        f"--outputs-file={outputs}",
        app=app,
    )
    found: Outputs = json.loads(outputs.read_text(encoding="utf-8"))
    return found


def cdk_cli() -> list[str]:
    """The command that runs the pinned CDK CLI, installed at first use."""
    return [str(_NODE_BIN / "node"), str(npm_package("aws-cdk", CDK_VERSION, home=_CLI_HOME) / "bin" / "cdk")]


def npm_package(name: str, version: str, *, home: Path) -> Path:
    """The folder of an npm package, installed into `home` at first use."""
    folder = home / "node_modules" / name
    if _version(folder) != version:
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        print(f"Installing {name} {version} into {home.name} ...", file=sys.stderr)
        _checked(
            [
                str(_NODE_BIN / "npm"),
                "install",
                "--no-audit",
                "--no-fund",
                "--no-package-lock",
                "--ignore-scripts",
                f"--prefix={home}",
                f"{name}@{version}",
            ],
            cwd=home,
            env=node_environment(),
            quiet=True,
        )
    return folder


def node_environment() -> dict[str, str]:
    """The caller's environment with the venv's Node first, and every cache inside the project's.

    For whatever runs the CDK CLI or synthesizes; AWS settings are left out.
    """
    temporary = CACHE / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return {
        **own,
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "CDK_HOME": str(CACHE / "cdk-home"),
        "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(CACHE / "jsii"),
        "NODE_COMPILE_CACHE": str(CACHE / "node"),
        "PATH": os.pathsep.join([str(_NODE_BIN), own.get("PATH", os.defpath)]),
        "TMPDIR": str(temporary),
        "npm_config_cache": str(CACHE / "npm"),
        "npm_config_update_notifier": "false",
    }


class _Cdk:
    def __init__(self, *, aws: EmbeddedAws, quiet: bool) -> None:
        self._command = cdk_cli()
        self._quiet = quiet
        self._output = aws.home / "cdk.out"
        self._environment = {
            **node_environment(),
            **aws.env,
            **aws.clock.environment(),
            "CDK_DEFAULT_ACCOUNT": ACCOUNT,
            "CDK_DEFAULT_REGION": REGION,
        }

    def say(self, what: str) -> None:
        if not self._quiet:
            print(what, file=sys.stderr, flush=True)

    def run(self, *arguments: str, app: Path) -> None:
        fixed = ["--no-notices", "--no-version-reporting", "--ci"]
        _checked(
            [*self._command, *arguments, f"--output={self._output}", *fixed],
            cwd=app,
            env=self._environment,
            quiet=self._quiet,
        )


def _checked(command: Sequence[str], *, cwd: Path, env: Mapping[str, str], quiet: bool) -> None:
    """Run, showing progress; DeployError with the tail of the output if it fails."""
    lines: list[str] = []
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    with process.stdout:
        try:
            for raw in process.stdout:
                line = raw.decode(errors="replace")
                lines.append(line)
                if not quiet and line.strip().startswith(_SHOWN):
                    print(f"  {line.strip()}", file=sys.stderr)
            process.wait()
        finally:
            end_group(process)
    if process.returncode != 0:
        tail = "".join(lines[-_TAIL_LINES:])
        raise DeployError(f"{' '.join(command[1:4])} failed ({process.returncode})\n{tail}")


def _is_bootstrapped(aws: EmbeddedAws) -> bool:
    stacks = aws.session().client("cloudformation").list_stacks()["StackSummaries"]
    return any(stack["StackName"] == _TOOLKIT for stack in stacks)


def _version(package: Path) -> str | None:
    manifest = package / "package.json"
    if not manifest.exists():
        return None
    version: str = json.loads(manifest.read_text(encoding="utf-8"))["version"]
    return version
