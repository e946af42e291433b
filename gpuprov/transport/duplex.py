"""A byte line to one process on a host: bytes in, chunks of stdout and stderr out, bounded on both sides."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

_HIGH = 1024 * 1024
_LOW = 256 * 1024


class Duplex(Protocol):
    """One process on a host, local or through a channel."""

    def write(self, data: bytes) -> None:
        """Queue bytes for stdin. Never blocks; what is written after the end is dropped."""
        ...

    async def drain(self) -> None:
        """Wait until little of what was written is still queued, or the line ended."""
        ...

    def write_eof(self) -> None:
        """End stdin."""
        ...

    async def read(self) -> tuple[int, bytes]:
        """Return ``(1, stdout)`` or ``(2, stderr)`` in the order of arrival; ``(0, b"")`` from the end on."""
        ...

    @property
    def status(self) -> int | None:
        """The exit status; negative: ended by that signal. None: not known, or not yet."""
        ...

    @property
    def lost(self) -> str:
        """Why the connection beneath went away; empty while it lives, and after an orderly end."""
        ...

    def abandon(self) -> None:
        """Let go of the process at once, without waiting for anything. Idempotent."""
        ...


class Inbox:
    """Chunks that arrived and were not yet read. Beyond 1 MiB the sender is ``paused``, so memory stays flat."""

    def __init__(self, pause: Callable[[bool], None]) -> None:
        self._pause = pause
        self._chunks: deque[tuple[int, bytes]] = deque()
        self._size = 0
        self.paused = False
        self._ended = False
        self._news = asyncio.Event()

    def put(self, stream: int, data: bytes) -> None:
        """Take a chunk."""
        self._chunks.append((stream, data))
        self._size += len(data)
        self._news.set()
        if self._size > _HIGH and not self.paused:
            self.paused = True
            self._pause(True)

    def end(self) -> None:
        """Nothing more will come."""
        self._ended = True
        self._news.set()

    async def get(self) -> tuple[int, bytes]:
        """Return the oldest chunk; ``(0, b"")`` at the end."""
        while not self._chunks:
            if self._ended:
                return 0, b""
            self._news.clear()
            await self._news.wait()
        stream, data = self._chunks.popleft()
        self._size -= len(data)
        if self.paused and self._size < _LOW:
            self.paused = False
            if not self._ended:
                self._pause(False)
        return stream, data


class Outlet:
    """Whether the writer may go on."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    def pause(self) -> None:
        """Too much is queued."""
        self._open.clear()

    def resume(self) -> None:
        """Little is queued, or the line ended."""
        self._open.set()

    async def wait(self) -> None:
        """Wait until writing makes sense again."""
        await self._open.wait()
