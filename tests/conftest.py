"""What all tests share: the lab's fixtures, and the mark of tests that need its hosts."""

from __future__ import annotations

import faulthandler

import pytest

pytest_plugins = ["tests.lab.fixtures", "tests.lab.cuda.fixtures"]


LONGEST = ("tests/e2e/test_legacy", "tests/e2e/test_cuda", "tests/e2e/", "tests/transport/", "tests/jobs/")
"""What takes longest begins first, so that at the end not one worker works alone."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses the lab, for `make test-unit` to leave out; put the longest first; give the slow ones time."""
    ranks = {item: next((n for n, name in enumerate(LONGEST) if item.nodeid.startswith(name)), 99) for item in items}
    items.sort(key=ranks.__getitem__)
    for item in items:
        if "lab" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.lab)
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.timeout(2 * 60 * 60))


def pytest_sessionfinish() -> None:
    """What hangs after the last test is told with its stacks and ended, in each process of the run."""
    faulthandler.dump_traceback_later(180, exit=True, file=2)
