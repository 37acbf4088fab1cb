"""An adapter brings no other along: a function's cold start pays only for what it uses."""

import subprocess
import sys
from pathlib import Path

import pytest

LAMBDAS = Path(__file__).parents[2] / "lambdas"
SHOWN = """
import sys
sys.path.insert(0, {root!r})
before = set(sys.modules)
import duebook.adapters.{name}
print(*sorted(set(sys.modules) - before), sep="\\n")
"""


@pytest.mark.parametrize("name", ["table", "schedules", "queues", "bus", "workflow"])
def test_an_adapter_brings_neither_another_adapter_nor_the_sdk_along(name: str) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", SHOWN.format(root=str(LAMBDAS), name=name)], capture_output=True, text=True, check=True
    )
    found = shown.stdout.split()
    ours = {module for module in found if module.startswith("duebook.adapters.")}
    assert ours <= {f"duebook.adapters.{name}", "duebook.adapters.aws"}
    assert not {"boto3", "botocore.session", "decimal", "moto"} & set(found)
