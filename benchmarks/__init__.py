"""What the functions cost: cold imports, memory, time, AWS calls, rows read. Run by `make bench`; nothing is kept."""

import sys
from pathlib import Path

_LAMBDAS = str(Path(__file__).resolve().parent.parent / "lambdas")
if _LAMBDAS not in sys.path:
    sys.path.append(_LAMBDAS)
