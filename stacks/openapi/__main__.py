"""`python -m stacks.openapi`: write the HTTP API's OpenAPI document anew."""

from stacks import ROOT
from stacks.openapi import FILE, text


def main() -> None:
    """Write it; say where."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(text(), encoding="utf-8")
    print(FILE.relative_to(ROOT))


if __name__ == "__main__":
    main()
