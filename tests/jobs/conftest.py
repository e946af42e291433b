from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from gpuprov.jobs import Jobs
from gpuprov.transport.frame import Connection
from gpuprov.transport.local import LocalConnection
from tests.jobs.hosts import OWNER, Place, kill

Controller = Callable[..., Awaitable[Jobs]]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """A state folder with a name that needs quoting; whatever was started under it is ended."""
    folder = tmp_path / "st ate's"
    yield folder
    marks = []
    for record in folder.glob("jobs/*/*/job"):
        attempt, _, nonce, *_ = record.read_text().split()
        marks.append(f"={record.parents[1].name}/{attempt}/{nonce}\0")
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            text = environ.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if any(mark in text for mark in marks):
            kill(int(environ.parent.name))


@pytest.fixture
def place(state: Path) -> Callable[[str], Place]:
    return lambda slot: Place(state, slot)


@pytest.fixture
async def controller(state: Path) -> AsyncIterator[Controller]:
    """Makes controllers, each with a line of its own."""
    made: list[tuple[Jobs, Connection]] = []

    async def make(wrap: Callable[[Connection], Connection] = lambda inner: inner, *, path: str = "") -> Jobs:
        before = os.environ["PATH"]
        os.environ["PATH"] = path or before
        try:
            shell = f"{path.split(':')[0]}/sh" if path else "/bin/sh"
            connection = wrap(LocalConnection("here", become=False, shell=shell, grace=1.0))
            await connection.open()
        finally:
            os.environ["PATH"] = before
        jobs = Jobs(connection, str(state), owner=OWNER, patience=15.0)
        made.append((jobs, connection))
        return jobs

    yield make
    for jobs, connection in made:
        await jobs.close()
        await connection.close()
