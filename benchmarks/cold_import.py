"""Cold imports, side by side: each handler with its clients against `import boto3` with the same clients.

A fresh interpreter for each measurement, in interleaved rounds, so that a noisy machine is noisy for both; processor
time is taken, and the fastest round of each counts, because noise only ever adds. Byte code is compiled beforehand.
The handlers look for garbage more seldom than Python does by itself (`duebook.handlers`): some come out below 1.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from local.emulator import CACHE, ROOT

LIMIT = 1.2
ROUNDS = 7
MORE_ROUNDS = 25
"""Measured once more, so many rounds, before a ratio above the limit counts."""

HANDLERS: dict[str, tuple[str, ...]] = {
    "lifecycle_worker": ("dynamodb", "sqs"),
    "payments_worker": ("dynamodb", "sqs"),
    "projector": ("dynamodb", "scheduler", "sqs"),
    "publisher": ("dynamodb", "events"),
    "recorder": ("dynamodb",),
    "sweeper": ("dynamodb", "events", "sqs"),
    "reconciler": ("dynamodb", "lambda", "scheduler", "sqs"),
    "dispute": ("dynamodb", "stepfunctions"),
}
"""The AWS services that each handler talks to."""

_TIMED = """
import time
started = time.process_time()
{work}
print(time.process_time() - started)
"""
_BASELINE = """
import boto3
from botocore.config import Config
config = Config(
    connect_timeout=2, read_timeout=5, retries={{"mode": "standard", "total_max_attempts": 3}}, max_pool_connections=10
)
for service in {services!r}:
    boto3.client(service, config=config)
"""
_HANDLER = """
import duebook.handlers.{handler}
from duebook import wiring
for service in {services!r}:
    wiring.client(service)
"""
_API_ONLY = """
import sys
import duebook.handlers.{handler}
assert "pydantic" not in sys.modules and "aws_lambda_powertools.event_handler" not in sys.modules
print(0)
"""


@dataclass(slots=True)
class Import:
    """Processor seconds of the fastest round."""

    handler: str
    baseline: float = float("inf")
    own: float = float("inf")

    @property
    def ratio(self) -> float:
        return self.own / self.baseline

    @property
    def passes(self) -> bool:
        return self.ratio <= LIMIT


def measure(step: Callable[[str], None]) -> list[Import]:
    """All handlers. `step` is told what is being done, once a round of a handler."""
    found = [Import(handler) for handler in HANDLERS]
    for result in found:
        _run(_API_ONLY.format(handler=result.handler))
        _round(Import(result.handler))
    for number in range(ROUNDS):
        for result in found:
            step(f"{result.handler}, round {number + 1}")
            _round(result)
    for result in found:
        for number in range(0 if result.passes else MORE_ROUNDS):
            step(f"{result.handler}, once more, round {number + 1}")
            _round(result)
    return found


def steps() -> int:
    """How often `measure` says what it does, if nothing is measured once more."""
    return ROUNDS * len(HANDLERS)


def environment(**more: str) -> dict[str, str]:
    """What a child needs: the functions' import root, no account, and byte code kept in the cache."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTHON"))}
    return {
        **kept,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": str(ROOT / "lambdas"),
        "PYTHONPYCACHEPREFIX": str(CACHE / "bench" / "pycache"),
        "POWERTOOLS_METRICS_NAMESPACE": "Duebook",
        "POWERTOOLS_SERVICE_NAME": "duebook",
        **more,
    }


def _round(result: Import) -> None:
    services = HANDLERS[result.handler]
    baseline = _run(_TIMED.format(work=_BASELINE.format(services=services)))
    own = _run(_TIMED.format(work=_HANDLER.format(handler=result.handler, services=services)))
    result.baseline, result.own = min(result.baseline, baseline), min(result.own, own)


def _run(code: str) -> float:
    child = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=120, check=False
    )
    if child.returncode != 0:
        raise RuntimeError(f"a measurement failed:\n{child.stderr}")
    return float(child.stdout)
