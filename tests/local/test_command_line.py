"""What `python -m local` accepts."""

from datetime import timedelta

import pytest

from duebook_cli.arguments import duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("75d", timedelta(days=75)),
        ("36h", timedelta(hours=36)),
        ("1d12h", timedelta(days=1, hours=12)),
        ("90s", timedelta(seconds=90)),
        ("5m", timedelta(minutes=5)),
    ],
)
def test_a_duration_has_units(text: str, expected: timedelta) -> None:
    assert duration(text) == expected


@pytest.mark.parametrize("text", ["", "75", "d", "-1d", "1w", "1d x"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        duration(text)
