"""A line to this machine that breaks when it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from gpuprov.errors import LineLost
from gpuprov.jobs import JobResult, Jobs, Owner
from gpuprov.model import Id, Job
from gpuprov.secret import Secret
from gpuprov.transport.frame import Frame, FrameResult, Stream
from gpuprov.transport.local import LocalConnection


class Breaking:
    """``breaks`` are taken one for each piece: ``put`` (half of it arrives), ``before`` and ``after`` its frame."""

    def __init__(self, path: str = "") -> None:
        self.inner = LocalConnection("here", become=False, grace=1.0, shell="/bin/sh")
        self.path = path
        self.host = "here"
        self.on_open = ""
        self.exchanges = 0
        self.breaks: list[str] = []
        self.pieces: list[int] = []
        self.on_put: Callable[[], None] = lambda: None
        self._next = ""

    async def open(self) -> None:
        await self.inner.open()

    async def frame(self, frame: Frame) -> FrameResult:
        self.exchanges += 1
        what, self._next = self._next, ""
        if what == "before":
            raise LineLost("cut", begun=False)
        if what == "hang":
            await asyncio.sleep(3600)
        result = await self.inner.frame(frame)
        if what == "after":
            raise LineLost("cut", begun=True)
        return result

    async def put(self, path: str, content: bytes | Secret, *, deadline: float = 600.0) -> None:
        assert isinstance(content, bytes)
        what = self.breaks.pop(0) if self.breaks else ""
        self.on_put()
        if what == "put":
            await self.inner.put(path, content[: len(content) // 2], deadline=deadline)
            raise LineLost("cut", begun=True)
        self.pieces.append(len(content))
        await self.inner.put(path, content, deadline=deadline)
        self._next = what

    async def stream(self, script: str, *, deadline: float | None = None) -> Stream:
        return await self.inner.stream(script, deadline=deadline)

    async def kill(self, group: int, *, grace: float = 5.0) -> bool:
        return await self.inner.kill(group, grace=grace)

    async def close(self) -> None:
        await self.inner.close()


class Runner:
    """Real jobs over a line of their own, and a record of which were run."""

    def __init__(self, connection: LocalConnection, state: Path) -> None:
        owner = Owner(run="20261130-133250-4f1c", host="controller", user="ada", pid=1)
        self.jobs = Jobs(connection, str(state), owner=owner, patience=15.0)
        self.ran: list[tuple[Id, Job]] = []

    async def __call__(self, slot: Id, job: Job, digest: str, on_line: Callable[[str], None]) -> JobResult:
        self.ran.append((slot, job))
        return await self.jobs.run(slot, job, digest=digest, on_line=on_line)
