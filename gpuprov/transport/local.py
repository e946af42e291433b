"""This machine as a host (``connection: local``): the same frames over a local ``sh``."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import cast

from gpuprov.errors import Unreachable
from gpuprov.transport import wire
from gpuprov.transport.duplex import Duplex, Inbox, Outlet
from gpuprov.transport.line import LineConnection

_ENDING = 1.0
"""Seconds for processes that were ended to be gone."""


class LocalConnection(LineConnection):
    """A line to this machine.

    ``shell`` is the POSIX shell that runs everything; ``become`` False: sudo is not tried.
    """

    def __init__(
        self,
        name: str,
        *,
        become: bool = True,
        shell: str = wire.SHELL,
        session_timeout: float = 15.0,
        reconnect_for: float = 600.0,
        grace: float = 5.0,
    ) -> None:
        super().__init__(name, become=become, session_timeout=session_timeout, reconnect_for=reconnect_for, grace=grace)
        self._sh = shell
        self._started: list[LocalDuplex] = []

    async def _process(self, command: str) -> Duplex:
        loop = asyncio.get_running_loop()
        try:
            _, protocol = await loop.subprocess_exec(LocalDuplex, self._sh, "-c", command, start_new_session=True)
        except OSError as error:
            raise Unreachable(f"cannot start {self._sh}: {error.strerror}", phase="session", where=self.host) from None
        self._started = [one for one in self._started if not one.over.is_set()] + [protocol]
        return protocol

    async def close(self) -> None:
        """Close politely, within a bounded time."""
        await super().close()
        # A process that outlived the loop, which may be closed next, would have asyncio complain
        with suppress(TimeoutError):
            async with asyncio.timeout(_ENDING):
                for one in self._started:
                    await one.over.wait()
        self._started.clear()


class LocalDuplex(asyncio.SubprocessProtocol):
    """A local process as a `gpuprov.transport.duplex.Duplex`."""

    lost = ""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        """The process has ended."""
        self._inbox = Inbox(self._pause)
        self._outlet = Outlet()
        self._transport: asyncio.SubprocessTransport | None = None
        self._open_pipes = {1, 2}
        self._received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        """Called by asyncio."""
        self._received += len(data)
        self._inbox.put(fd, data if isinstance(data, bytes) else data.encode())

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Called by asyncio."""
        self._open_pipes.discard(fd)
        if fd == 0:
            self._outlet.resume()
        self._maybe_end()

    def process_exited(self) -> None:
        """Called by asyncio."""
        self.over.set()
        self._outlet.resume()
        self._maybe_end()

    def _maybe_end(self) -> None:
        if self._transport is None or self._transport.get_returncode() is None:
            return
        if not self._open_pipes & {1, 2}:
            self._inbox.end()
        else:
            self._wait_for_quiet(-1)

    def _wait_for_quiet(self, received: int) -> None:
        # A daemon that inherited the pipes keeps them open: then silence after the end of the process is the end.
        if received == self._received and not self._inbox.paused:
            self._inbox.end()
        else:
            asyncio.get_running_loop().call_later(0.2, self._wait_for_quiet, self._received)

    def pause_writing(self) -> None:
        """Called by asyncio."""
        self._outlet.pause()

    def resume_writing(self) -> None:
        """Called by asyncio."""
        self._outlet.resume()

    def _pipe(self, fd: int) -> asyncio.BaseTransport | None:
        return self._transport.get_pipe_transport(fd) if self._transport is not None else None

    def _pause(self, paused: bool) -> None:
        for fd in self._open_pipes & {1, 2}:
            pipe = cast(asyncio.ReadTransport, self._pipe(fd))
            if paused:
                pipe.pause_reading()
            else:
                pipe.resume_reading()

    def write(self, data: bytes) -> None:
        """Queue bytes for stdin."""
        pipe = cast(asyncio.WriteTransport | None, self._pipe(0))
        if pipe is not None and not pipe.is_closing():
            pipe.write(data)

    async def drain(self) -> None:
        """Wait until little is queued."""
        await self._outlet.wait()

    def write_eof(self) -> None:
        """End stdin."""
        pipe = cast(asyncio.WriteTransport | None, self._pipe(0))
        if pipe is not None and not pipe.is_closing():
            pipe.write_eof()

    async def read(self) -> tuple[int, bytes]:
        """Return the oldest chunk."""
        return await self._inbox.get()

    @property
    def status(self) -> int | None:
        """The exit status; negative: ended by that signal."""
        return self._transport.get_returncode() if self._transport is not None else None

    def abandon(self) -> None:
        """Close the pipes and end the shell itself; what it started goes on, as behind a lost line."""
        if self._transport is not None:
            self._transport.close()
