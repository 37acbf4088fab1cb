"""`python -m simulation`: see `--help`."""

import argparse
import sys
from pathlib import Path

from simulation.run import simulate
from simulation.settings import Settings


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m simulation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bookings", type=int, default=1000)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--faults", default="1")
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--tell", default="")
    given = parser.parse_args()
    settings = Settings(
        seed=given.seed,
        bookings=given.bookings,
        days=given.days,
        faults=float(given.faults),
        tell=frozenset(filter(None, given.tell.split(","))),
    )
    result = simulate(settings)
    v = result.violation
    if v:
        for told in v.history:
            print(told.at, told.what)
        print(v.invariant, v.booking_id, v.at, v.found)
    print(result.bookings, result.seconds, result.digest, result.peak_memory >> 20)
    for name in ("checks", "faults", "actions", "answers", "calls", "states", "types", "wake_ups"):
        print(name, dict(getattr(result, name)))
    return 1 if result.violation else 0


sys.exit(main())
