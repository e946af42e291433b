"""What the transport tests share: a deadline on every test, and the three shells of real hosts."""

from __future__ import annotations

import asyncio
import functools
import inspect
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

LONGEST = 60.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Nothing here may hang: an awaited test that does is an error after a minute."""
    for item in items:
        function = getattr(item, "obj", None)
        here = Path(__file__).parent in item.path.parents
        if here and isinstance(item, pytest.Function) and inspect.iscoroutinefunction(function):
            item.obj = _within(function)


def _within(function: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @functools.wraps(function)
    async def run(*args: Any, **named: Any) -> None:
        async with asyncio.timeout(LONGEST):
            await function(*args, **named)

    return run


@pytest.fixture(scope="session")
def shells(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The path of dash, bash and busybox, each called ``sh``, as hosts call it."""
    folder = tmp_path_factory.mktemp("shells")
    found = {}
    for name in ("dash", "bash", "busybox"):
        real = shutil.which(name)
        assert real is not None, f"install {name}: hosts have it as their sh"
        (folder / name).mkdir()
        (folder / name / "sh").symlink_to(real)
        found[name] = str(folder / name / "sh")
    return found


@pytest.fixture(params=["dash", "bash", "busybox"])
def sh(request: pytest.FixtureRequest, shells: dict[str, str]) -> str:
    """One of the shells after another."""
    return shells[request.param]
