"""What all tests share: the lab's fixtures, and the mark of tests that need its hosts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

pytest_plugins = ["tests.lab.fixtures", "tests.lab.cuda.fixtures"]


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Mark every test that uses the lab, so that `make test-unit` can leave it out."""
    for item in items:
        if "lab" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.lab)
