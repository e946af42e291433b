from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.hosts import Host
from tests.store.server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def mirror() -> Iterator[Server]:
    """A second server."""
    made = Server()
    yield made
    made.close()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path / "host")
    yield made
    made.close()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A mount of 2 MiB whose name holds a blank."""
    folder = tmp_path / "small mount"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
