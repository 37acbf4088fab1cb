"""Run the stand-in as a process: `python -m local.stripe_fake --port 4570`. Its time is the process's own."""

import argparse

from local.stripe_fake.server import StripeFake


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=4570)
    fake = StripeFake(port=parser.parse_args().port)
    print(fake.url, flush=True)
    fake.serve_here()


if __name__ == "__main__":
    main()
