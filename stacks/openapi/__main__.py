"""`python -m stacks.openapi`: write the HTTP API's OpenAPI document and its reference page anew."""

import json

from stacks import ROOT
from stacks.openapi import FILE, reference, text


def main() -> None:
    """Write both; say where."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    written = text()
    for file, content in ((FILE, written), (reference.PAGE, reference.render(json.loads(written)))):
        file.write_text(content, encoding="utf-8")
        print(file.relative_to(ROOT))


if __name__ == "__main__":
    main()
