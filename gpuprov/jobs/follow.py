"""Following: one channel carries the logs of all jobs of a host, and polling by frames stands in where none can be had.

What has been read is counted here, by attempt and byte offset, so a line that drops is taken up where it broke.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from gpuprov.errors import AuthenticationFailed, HostKeyRefused, LineLost, Unreachable
from gpuprov.jobs.lines import LineSplitter
from gpuprov.jobs.records import Chunk, Fate, Garbled, RecordReader
from gpuprov.jobs.slot import Slot
from gpuprov.onhost import script
from gpuprov.quote import quote
from gpuprov.transport.frame import Connection, Frame, Section, Stream

SILENT_LINE = 30.0
"""Seconds without a byte from a follower, which says something every five, after which its line is taken for lost."""

POLL_FIRST, POLL_LONGEST = 1.0, 5.0
"""Seconds between two polls: the first, and the longest when nothing happens."""

_POLL_BYTES = 60_000  # a section keeps its first 64 KiB
_BAD_STREAMS = 3
_CLOSING = 10.0


@dataclass(kw_only=True, eq=False)
class _Watched:
    folder: str
    attempt: int
    on_line: Callable[[str], None]
    done: asyncio.Future[Fate]
    offset: int = 0
    splitter: LineSplitter = field(default_factory=LineSplitter)

    def take(self, chunk: Chunk) -> None:
        """Pass on what is new of a chunk."""
        if chunk.offset > self.offset:
            raise Garbled(f"bytes {self.offset} to {chunk.offset} are missing")
        data = chunk.data[self.offset - chunk.offset :]
        self.offset += len(data)
        self._say(data)

    def end(self, fate: Fate) -> bool:
        """Pass on the last line, and how it ended. False when there is more to read first."""
        if self.offset < fate.size:
            return False
        self._say(None)
        if not self.done.done():
            self.done.set_result(fate)
        return True

    def _say(self, data: bytes | None) -> None:
        lines = self.splitter.finish() if data is None else self.splitter.feed(data)
        try:
            for line in lines:
                if self.done.done():
                    return
                self.on_line(line)
        except Exception as broken:  # the listener's own; it must not end another job's following
            if not self.done.done():
                self.done.set_exception(broken)


class Follower:
    """Follows any number of jobs over one connection.

    Args:
        connection: the host's line.
        prelude: the text that sets ``gp_state`` and defines the functions of ``job_state.sh``.
        patience: seconds without any contact after which the following jobs fail with the line's error.
    """

    def __init__(self, connection: Connection, prelude: str, *, patience: float) -> None:
        self._connection = connection
        self._prelude = prelude
        self._patience = patience
        self._watched: dict[tuple[str, int], list[_Watched]] = {}
        self._pump: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._polling = False
        self._bad_streams = 0
        self._heard = 0.0
        self.name = "-"
        """The follow folder of the channel that is open now, for ``job_start.sh``; ``-`` when there is none."""

    async def follow(self, slot: Slot, attempt: int, on_line: Callable[[str], None], *, told: str) -> Fate:
        """Pass every line of an attempt on, from its first byte, until it ends.

        Args:
            slot, attempt: what to follow.
            on_line: called with each line.
            told: the follow folder (`name`) in which the job was registered when it was started.

        Raises:
            LineLost, Unreachable: no contact for longer than the patience.
        """
        watched = _Watched(
            folder=slot.folder, attempt=attempt, on_line=on_line, done=asyncio.get_running_loop().create_future()
        )
        key = (slot.folder, attempt)
        listeners = self._watched.setdefault(key, [])
        # Registered with another channel or with none; or a second listener, for whom this one is too far on.
        if told == "-" or told != self.name or listeners:
            self._changed.set()
        listeners.append(watched)
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._run())
        try:
            return await watched.done
        finally:
            listeners.remove(watched)
            if not listeners and self._watched.get(key) is listeners:
                del self._watched[key]

    async def close(self) -> None:
        """Stop listening. The jobs go on. Idempotent."""
        pump, self._pump = self._pump, None
        if pump:
            pump.cancel()
            await asyncio.wait([pump], timeout=10)
        self.name = "-"

    # --- the pump --------------------------------------------------------------------------------

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        self._heard = clock()
        pause = 0.2
        try:
            while True:
                heard = self._heard
                try:
                    await (self._poll() if self._polling else self._stream())
                    if not self._watched:
                        return
                except Garbled:
                    self._count_bad()
                except (LineLost, Unreachable) as lost:
                    if not self._watched:
                        return
                    if isinstance(lost, Unreachable) and lost.phase == "session":
                        self._polling = True
                        continue
                    hopeless = isinstance(lost, HostKeyRefused | AuthenticationFailed)
                    if hopeless or clock() - self._heard > self._patience:
                        self._fail(lost)
                        return
                    pause = 0.2 if self._heard > heard else min(pause * 2, 10.0)
                    await asyncio.sleep(pause)
        except Exception as broken:  # must reach those who wait, or they wait for ever
            self._fail(broken)
        finally:
            self.name = "-"

    def _fail(self, error: Exception) -> None:
        for watched in self._all():
            if not watched.done.done():
                watched.done.set_exception(error)

    def _all(self) -> list[_Watched]:
        return [watched for listeners in self._watched.values() for watched in listeners]

    def _count_bad(self) -> None:
        self._bad_streams += 1
        self._polling = self._bad_streams >= _BAD_STREAMS

    def _pass_on(self, record: Chunk | Fate) -> None:
        for watched in tuple(self._watched.get((record.folder, record.attempt), ())):
            if isinstance(record, Chunk):
                watched.take(record)
            elif not watched.end(record):
                self._changed.set()

    # --- over a channel --------------------------------------------------------------------------

    async def _stream(self) -> None:
        name, word = secrets.token_hex(8), secrets.token_hex(12)
        self._changed.clear()
        jobs = "\n".join(
            f"{folder} {attempt} {min(w.offset for w in listeners)}"
            for (folder, attempt), listeners in self._watched.items()
            if listeners
        )
        text = f"{self._prelude}\ngp_follow={name} gp_word={word} gp_jobs={quote(jobs)}\n{script('job_follow')}"
        stream = await self._connection.stream(text)
        try:
            await self._read(stream, name, RecordReader(word))
        finally:
            self.name = "-"
            # On a line that is dead without saying so, closing politely could take as long as reconnecting.
            with contextlib.suppress(TimeoutError, LineLost, Unreachable):
                await asyncio.wait_for(stream.close(), _CLOSING)

    async def _read(self, stream: Stream, name: str, records: RecordReader) -> None:
        loop = asyncio.get_running_loop()
        changed = loop.create_task(self._changed.wait())
        reading: asyncio.Task[tuple[int, bytes]] | None = None
        try:
            while not self._changed.is_set():
                reading = loop.create_task(stream.read())
                await asyncio.wait({reading, changed}, timeout=SILENT_LINE, return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    if changed.done():
                        return
                    raise LineLost(
                        f"nothing was heard for {SILENT_LINE:.0f} s", begun=True, where=self._connection.host
                    )
                kind, data = reading.result()
                if kind == 0:
                    # Ended of its own accord: its folder cannot be made, or somebody ended it.
                    self._count_bad()
                    await asyncio.sleep(0.2)
                    return
                self._heard = loop.time()
                if kind == 1:
                    for record in records.feed(data):
                        self._bad_streams = 0
                        self._pass_on(record)
                    if records.started:
                        self.name = name
        finally:
            for task in (reading, changed):
                if task and not task.done():
                    task.cancel()
                    await asyncio.wait([task], timeout=5)

    # --- by frames -------------------------------------------------------------------------------

    async def _poll(self) -> None:
        interval = POLL_FIRST
        while True:
            self._changed.clear()
            news = await self._poll_once() if self._watched else False
            if news:
                interval = POLL_FIRST
                await asyncio.sleep(0)  # whoever has it all stops listening now
                continue
            try:
                await asyncio.wait_for(self._changed.wait(), interval)
                interval = POLL_FIRST
            except TimeoutError:
                interval = min(interval * 1.3, POLL_LONGEST)

    async def _poll_once(self) -> bool:
        """Ask once for all. True when there was something new."""
        asked = list(self._watched.items())
        sections = tuple(
            Section(
                name=f"job{number}",
                script=f"gp_name={quote(folder)} gp_n={attempt} gp_off={min(w.offset for w in listeners)} "
                f"gp_most={_POLL_BYTES}\n{script('job_poll')}",
            )
            for number, ((folder, attempt), listeners) in enumerate(asked)
        )
        result = await self._connection.frame(Frame(sections=sections, prelude=self._prelude, deadline=20.0))
        self._heard = asyncio.get_running_loop().time()
        news = False
        for section in result.sections.values():
            # Unfinished or clipped: what was read is counted, and the next poll asks for the rest.
            if section.status is None or section.clipped:
                continue
            try:
                for record in RecordReader().feed(section.stdout):
                    news = True
                    self._pass_on(record)
            except Garbled:
                continue
        return news
