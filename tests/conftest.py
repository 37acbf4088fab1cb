"""What holds for all tests."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slow ones, on the embedded AWS, come last: whatever is wrong shows early."""
    items.sort(key=lambda item: item.get_closest_marker("e2e") is not None)
