"""One file a Lambda: it parses, calls one use case and maps the errors.

What an import makes stays, so looking for garbage among it is wasted: with Python's own threshold of 700 objects that
took a sixth of a cold start (`make bench`).
"""

import gc

gc.set_threshold(200_000, 10, 10)
