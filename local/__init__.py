"""The embedded AWS: the real CDK app on a local emulator, with time that travels.

`EmbeddedAws` starts MiniStack as a process group of its own, `deploy` runs the
real CDK CLI against it, and `Clock` moves its time. Nothing in the product
knows about this package.
"""

import sys
from pathlib import Path

_CLIENT = str(Path(__file__).resolve().parent.parent / "client")
if _CLIENT not in sys.path:  # the typed client is a project of its own and is not installed here
    sys.path.append(_CLIENT)
