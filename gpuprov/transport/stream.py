"""A script on a process of its own: read as it comes, collected whole, or fed a file."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from gpuprov.causes import full_disk
from gpuprov.errors import LineLost, StepFailed
from gpuprov.transport import wire
from gpuprov.transport.duplex import Duplex
from gpuprov.transport.frame import CLIP
from gpuprov.transport.marks import Clip, Cutter, Mark

_CHUNK = 256 * 1024
_AFTER_KILL = 5.0


class ScriptStream:
    """A running script. See `gpuprov.transport.frame.Stream` for what the methods promise.

    ``end`` ends its process group, ``closed`` is called once when it was let go.

    ``timed_out``: its deadline passed and it was ended.
    """

    def __init__(
        self,
        duplex: Duplex,
        script: str,
        *,
        where: str,
        deadline: float | None,
        end: Callable[[], Awaitable[object]],
        closed: Callable[[], None],
    ) -> None:
        self._duplex = duplex
        self._where = where
        self._end = end
        self._when_closed = closed
        self._closed = False
        self._until = None if deadline is None else time.monotonic() + deadline
        self._rest: tuple[int, bytes] | None = None
        self._over = False
        self.timed_out = False
        duplex.write(wire.aside(script))

    async def read(self, limit: int = 65536) -> tuple[int, bytes]:
        """Return the next bytes of either stream."""
        if self._over:
            return 0, b""
        stream, data = self._rest or await self._next()
        self._rest = None
        if not stream:
            self._over = True
            if self._duplex.lost:
                raise LineLost(f"the line was lost: {self._duplex.lost}", begun=True, where=self._where)
        elif len(data) > limit:
            self._rest = stream, data[limit:]
            data = data[:limit]
        return stream, data

    async def _next(self) -> tuple[int, bytes]:
        while True:
            try:
                async with asyncio.timeout(None if self._until is None else self._until - time.monotonic()):
                    return await self._duplex.read()
            except TimeoutError:
                if self.timed_out:
                    return 0, b""
                self.timed_out = True
                await self._end()
                self._until = time.monotonic() + _AFTER_KILL

    @property
    def status(self) -> int | None:
        """The exit status once it ended; negative: ended by that signal."""
        return self._duplex.status

    async def close(self) -> None:
        """End what still runs, and let go."""
        if not self._over and self._duplex.status is None and not self._duplex.lost:
            self._over = True
            await self._end()
        self._over = True
        self._duplex.abandon()
        if not self._closed:
            self._closed = True
            self._when_closed()


async def collect(duplex: Duplex, script: str, *, where: str, deadline: float) -> tuple[int | None, bytes, bytes]:
    """Run a short script to its end; return status (None: it did not end in time), stdout and stderr, clipped.

    Raises:
        LineLost
    """
    duplex.write(wire.aside(script))
    kept = {1: Clip(CLIP), 2: Clip(CLIP)}
    try:
        async with asyncio.timeout(deadline):
            await _drained(duplex, kept)
    except TimeoutError:
        return None, kept[1].value(), kept[2].value()
    if duplex.lost:
        raise LineLost(f"the line was lost: {duplex.lost}", begun=True, where=where)
    return duplex.status, kept[1].value(), kept[2].value()


async def _drained(duplex: Duplex, kept: dict[int, Clip]) -> None:
    while True:
        stream, data = await duplex.read()
        if not stream:
            return
        kept[stream].add(data)


async def send(duplex: Duplex, path: str, content: bytes, *, where: str, deadline: float) -> None:
    """Write ``content`` to ``path`` and see that the host counts as many bytes.

    Raises:
        StepFailed: the file could not be written whole, or not within the deadline.
        LineLost
    """
    try:
        async with asyncio.timeout(deadline):
            counted, said = await _sent(duplex, path, content)
    except TimeoutError:
        raise StepFailed(f"{path} ({len(content)} bytes) was not written within {deadline:g} s", where=where) from None
    if duplex.lost:
        raise LineLost(f"the line was lost while {path} was being written: {duplex.lost}", begun=True, where=where)
    if duplex.status != 0 or counted.strip() != str(len(content)).encode():
        number = counted.strip().decode(errors="replace")
        wrong = f"the host counts {number} of {len(content)} bytes" if number.isdigit() else "it could not be written"
        output = said.decode(errors="replace").strip()
        full, hint = full_disk(output)
        raise StepFailed(
            f"{path}: {wrong}" + (f": {full}" if full else ""),
            status=duplex.status,
            where=where,
            output=output,
            hint=hint,
        )


async def _sent(duplex: Duplex, path: str, content: bytes) -> tuple[bytes, bytes]:
    # A shell reads its stdin in blocks: what is sent before it has started `cat` would be taken for commands.
    mark = Mark()
    cutter = Cutter(mark)
    duplex.write(wire.receive(path, mark))
    kept = {1: Clip(CLIP), 2: Clip(CLIP)}
    going = False
    while not going:
        stream, data = await duplex.read()
        if not stream:
            return b"", kept[2].value()
        if stream == 2:
            kept[2].add(data)
        else:
            going = any(not isinstance(piece, bytes) for piece in cutter.feed(data))
    reading = asyncio.ensure_future(_drained(duplex, kept))
    try:
        view = memoryview(content)
        for start in range(0, len(view), _CHUNK):
            if reading.done():
                break
            duplex.write(bytes(view[start : start + _CHUNK]))
            await duplex.drain()
        duplex.write_eof()
        await reading
    finally:
        reading.cancel()
    return kept[1].value(), kept[2].value()
