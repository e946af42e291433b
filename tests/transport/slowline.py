"""A TCP proxy in this process: delays, cuts and stalls a line, and counts what goes over it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Line:
    """``rtt`` in seconds. Bytes keep their spacing, so throughput is not lowered by the delay.

    The TCP handshake of a real line is imitated: the server sees the connection after one and a half round trips, not
    after half of one.
    """

    target: int
    address: str = "127.0.0.1"
    rtt: float = 0.0
    port: int = 0
    flowing: asyncio.Event = field(default_factory=asyncio.Event)
    """Cleared: the line is open and nothing comes through, which is what a dead network looks like."""
    turns: int = 0
    """How often we spoke after the host had: round trips, however slow the machine is."""
    to_host: int = 0
    to_us: int = 0
    _ours: bool = False
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted = time.monotonic()
        opening = 1.5 * self.rtt
        await asyncio.sleep(opening)
        try:
            far_reader, far_writer = await asyncio.open_connection(self.address, self.target)
        except OSError:
            writer.close()
            return
        self.writers += [writer, far_writer]
        with suppress(asyncio.CancelledError):
            await asyncio.gather(
                self._pipe(reader, far_writer, accepted + opening, up=True),
                self._pipe(far_reader, writer, 0.0, up=False),
            )

    async def _pipe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: float, *, up: bool
    ) -> None:
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def pull() -> None:
            data = b"-"
            while data:
                try:
                    data = await reader.read(65536)
                except ConnectionError:
                    data = b""
                if up and data and not self._ours:
                    self._ours = True
                    self.turns += 1
                await queue.put((max(first, time.monotonic() + self.rtt / 2), data))

        pulling = asyncio.ensure_future(pull())
        try:
            while True:
                due, data = await queue.get()
                await asyncio.sleep(due - time.monotonic())
                await self.flowing.wait()
                if not data:
                    writer.close()
                    return
                if up:
                    self.to_host += len(data)
                else:
                    self.to_us += len(data)
                    self._ours = False
                writer.write(data)
        finally:
            pulling.cancel()

    def cut(self) -> None:
        """Reset every connection."""
        for writer in self.writers:
            writer.transport.abort()
        self.writers.clear()


@asynccontextmanager
async def slow_line(target: int, *, rtt: float = 0.0, address: str = "127.0.0.1") -> AsyncIterator[Line]:
    """Run the proxy on loopback."""
    line = Line(target=target, rtt=rtt, address=address)
    line.flowing.set()
    server = await asyncio.start_server(line.serve, "127.0.0.1", 0)
    line.port = server.sockets[0].getsockname()[1]
    try:
        yield line
    finally:
        line.cut()
        server.close()
