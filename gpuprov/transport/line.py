"""A line to a host that survives being cut: what ssh and local connections share.

A subclass opens processes (`_process`); this class keeps one of them as the persistent shell, opens it again when it
was lost, sends again what had not begun, and uses further processes for puts, streams and kills.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TypeVar

from gpuprov.errors import HostKeyRefused, LineLost, StepFailed, Unreachable
from gpuprov.secret import Secret
from gpuprov.transport import wire
from gpuprov.transport.duplex import Duplex
from gpuprov.transport.frame import Frame, FrameResult, Section, SectionResult
from gpuprov.transport.marks import Mark
from gpuprov.transport.shell import Begun, Privilege, Ran, Ready, Shell, ShellEnded, ready, rest_of
from gpuprov.transport.stream import ScriptStream, collect, send

T = TypeVar("T")

_LONGEST_PAUSE = 15.0
_CLOSING = 5.0
_ENDING = 10.0
_BY_ITSELF = 5.0


class SessionRefused(Unreachable):
    """The server allows no further session on this connection."""


class LineConnection:
    """Base of the connections. See `gpuprov.transport.frame.Connection` for what the methods promise.

    Attributes:
        privilege: ``root`` (logged in as root), ``sudo`` (sudo without a password), ``none``; known after `open`.
        privilege_note: why there is none: ``no sudo``, ``password needed``, ``not in sudoers`` …
        one_session: the server allows no second session beside the persistent shell (``MaxSessions 1``).
    """

    def __init__(self, host: str, *, become: bool, session_timeout: float, reconnect_for: float, grace: float) -> None:
        self.host = host
        self.exchanges = 0
        self.privilege: Privilege = "none"
        self.privilege_note = ""
        self.one_session = False
        self.on_open = ""
        self._greeted: Shell | None = None
        self._become = become
        self._sh = wire.SHELL
        self._session_timeout = session_timeout
        self._reconnect_for = reconnect_for
        self._grace = grace
        self._busy = asyncio.Lock()
        self._shell: Shell | None = None
        self._opened = False
        self._beside_us = 0
        """Sessions open beside the persistent shell."""
        self._left: tuple[Begun, float] | None = None
        """What a frame that was cut or cancelled may have left running, and the seconds it may go on by itself."""

    # --- what a subclass gives ---------------------------------------------------------------

    async def _connect(self) -> None:
        """Make sure that there is a live connection. Raises Unreachable."""

    async def _process(self, command: str) -> Duplex:
        """Start a process over the live connection. Raises Unreachable, SessionRefused."""
        raise NotImplementedError

    async def _disconnect(self) -> None:
        """Let go of the connection, within a bounded time."""

    def _another(self) -> LineConnection:
        """Return a second, independent connection to the same host: for hosts that allow one session each."""
        raise NotImplementedError

    # --- opening -----------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect, open the persistent shell, see READY. Raises Unreachable."""
        async with self._busy:
            await self._open()

    async def _open(self) -> Shell:
        if self._shell is None:
            await self._connect()
            try:
                duplex, said = await self._fresh_shell()
            except SessionRefused:
                if not self._opened:
                    raise
                # The shell that was given up still holds the only session: leave it behind with its connection.
                await self._disconnect()
                await self._connect()
                duplex, said = await self._fresh_shell()
            self._shell = Shell(duplex, said, grace=self._grace, shell=self._sh)
            self.privilege, self.privilege_note = said.privilege, said.note
            self._opened = True
        if self._left is not None:
            await self._end_left(self._shell)
        return self._shell

    async def _fresh_shell(self) -> tuple[Duplex, Ready]:
        mark = Mark()
        duplex = await self._process(wire.opening(mark, become=self._become, shell=self._sh))
        try:
            return duplex, await ready(duplex, mark, where=self.host, deadline=self._session_timeout)
        except BaseException:
            duplex.abandon()
            raise

    async def _end_left(self, shell: Shell) -> None:
        assert self._left is not None
        left, wait = self._left
        if left.session:
            script = wire.ending(session=left.session, tag=left.tag, wait=wait, grace=2.0)
            try:
                await self._own_frame(shell, script)
            except ShellEnded as error:
                self._drop()
                raise LineLost(f"the line was lost: {error.why}", begun=False, where=self.host) from None
        self._left = None

    async def _own_frame(self, shell: Shell, script: str) -> tuple[Ran, SectionResult | None]:
        async def overdue(_: Begun) -> None:
            return

        self.exchanges += 1
        frame = Frame(sections=(Section(name="end", script=script),), deadline=_BY_ITSELF + 2 * _ENDING)
        ran = await shell.run(frame, overdue)
        return ran, ran.sections.get("end")

    def _drop(self) -> None:
        if self._shell is not None:
            self._shell.duplex.abandon()
            self._shell = None

    async def _retrying(self, action: Callable[[], Awaitable[T]]) -> T:
        """Do what needs a connection. When there was one before, go on trying with growing pauses."""
        until = time.monotonic() + self._reconnect_for
        pause = 0.0
        while True:
            try:
                return await action()
            except (HostKeyRefused, SessionRefused):
                raise
            except (Unreachable, LineLost):
                if not self._opened or time.monotonic() + pause >= until:
                    raise
            await asyncio.sleep(pause * random.uniform(0.75, 1.0))
            pause = _grown(pause)

    # --- frames ------------------------------------------------------------------------------

    async def frame(self, frame: Frame) -> FrameResult:
        """Run one frame. Raises LineLost, Unreachable, ValueError (see `gpuprov.transport.wire.check`)."""
        wire.check(frame)
        async with self._busy:
            sections: dict[str, SectionResult] = {}
            seconds, stuck, timed_out = 0.0, "", False
            names = {section.name for section in frame.sections}
            rest: Frame | None = frame
            while rest is not None:
                ran = await self._ran(rest)
                sections |= ran.sections
                seconds += ran.seconds
                timed_out = timed_out or ran.timed_out
                if ran.timed_out or (not ran.done and ran.running in names):
                    # Out of time, or its shell alone was killed: what it was running may go on without it
                    stuck = await self._aftermath(ran)
                rest = rest_of(rest, ran)
            return FrameResult(sections=sections, timed_out=timed_out, stuck=stuck, seconds=seconds)

    async def _ran(self, frame: Frame) -> Ran:
        until, pause = 0.0, 0.0
        while True:
            shell = await self._retrying(self._open)
            self.exchanges += 1
            try:
                greeting = self.on_open if shell is not self._greeted else ""
                ran = await shell.run(_greeted(frame, greeting), self._overdue)
                if greeting and (said := ran.sections.get("before")) is not None and said.status == 0:
                    self._greeted = shell
                return ran
            except ShellEnded as error:
                self._drop()
                # A frame whose begin mark was never seen may still have begun: it must not run beside itself.
                self._left = (error.begun or shell.under_way, _BY_ITSELF) if shell.under_way else None
                until = until or time.monotonic() + self._reconnect_for
                if error.begun is not None or time.monotonic() + pause >= until:
                    raise self._cut(error) from None
            except BaseException:
                self._drop()
                self._left = (shell.under_way, 0.0) if shell.under_way else None
                raise
            await asyncio.sleep(pause)
            pause = _grown(pause)

    def _cut(self, error: ShellEnded) -> LineLost:
        begun = error.begun is not None
        what = "while a frame was running" if begun else "before the frame had begun"
        return LineLost(
            f"the line was lost {what}: {error.why}",
            begun=begun,
            where=self.host,
            hint="what had begun may have been done or not: run the same command again, it looks first"
            if begun
            else "",
        )

    async def _overdue(self, begun: Begun) -> None:
        """End a frame that the host's own timer did not end, from elsewhere."""
        with suppress(Unreachable, LineLost):
            async with self._beside() as (duplex, _):
                script = wire.ending(group=begun.group, session=begun.session, tag=begun.tag, grace=2.0)
                await collect(duplex, script, where=self.host, deadline=_ENDING)

    async def _aftermath(self, ran: Ran) -> str:
        """See that nothing of a frame that was cut short is left. Returns what is, in words."""
        script = wire.ending(group=ran.begun.group, session=ran.begun.session, tag=ran.begun.tag, grace=2.0)
        status: int | None = None
        said = b""
        if ran.ended and self._shell is not None:
            try:
                own, result = await self._own_frame(self._shell, script)
            except ShellEnded:
                self._drop()
                return ""
            if own.ended and result is not None and result.status == 0:
                return ""
            said = result.stdout if result is not None else b""
        else:
            with suppress(Unreachable, LineLost):
                async with self._beside() as (duplex, _):
                    status, said, _ = await collect(duplex, script, where=self.host, deadline=_ENDING)
        self._drop()
        with suppress(Unreachable, LineLost):
            await self._open()
        if status == 0:
            return ""
        return _survivors(said) or "the frame did not end, and the host does not say what holds it"

    # --- beside the persistent shell -----------------------------------------------------------

    @asynccontextmanager
    async def _beside(self) -> AsyncIterator[tuple[Duplex, Ready]]:
        """A fresh shell on a process of its own; where only one session is allowed, on a connection of its own."""
        other: LineConnection | None = None
        duplex: Duplex | None = None
        counted = False
        try:
            if not self.one_session:
                with suppress(SessionRefused):
                    duplex, said = await self._second_shell()
                    counted = True
            if duplex is None:
                other = self._another()
                await other._connect()
                duplex, said = await other._fresh_shell()
            yield duplex, said
        finally:
            self._beside_us -= counted
            if duplex is not None:
                duplex.abandon()
            if other is not None:
                await other._disconnect()

    async def _second_shell(self) -> tuple[Duplex, Ready]:
        await self._connect()
        try:
            opened = await self._fresh_shell()
        except SessionRefused:
            # With others of ours beside it the limit is just a low one, and passes when they end.
            self.one_session = self.one_session or (self._shell is not None and not self._beside_us)
            raise
        self._beside_us += 1
        return opened

    async def put(self, path: str, content: bytes | Secret, *, deadline: float = 600.0) -> None:
        """Write raw bytes to ``path``. A new file is readable by its owner only."""
        await self._retrying(self._connect)
        async with self._beside() as (duplex, _):
            data = content.reveal() if isinstance(content, Secret) else content
            await send(duplex, path, data, where=self.host, deadline=deadline)

    async def stream(self, script: str, *, deadline: float | None = None) -> ScriptStream:
        """Run a script on a process of its own. ``deadline`` in seconds: then its process group is ended."""
        if self.one_session:
            raise SessionRefused("the server allows one session only (MaxSessions 1)", phase="session", where=self.host)
        await self._retrying(self._connect)
        duplex, said = await self._second_shell()

        async def end() -> None:
            with suppress(Unreachable, LineLost, StepFailed):
                if said.group > 1:
                    await self.kill(said.group)

        def closed() -> None:
            self._beside_us -= 1

        return ScriptStream(duplex, script, where=self.host, deadline=deadline, end=end, closed=closed)

    async def kill(self, group: int, *, grace: float = 5.0) -> bool:
        """End a process group (TERM, after ``grace`` seconds KILL); True when it is gone.

        Raises:
            ValueError: not a group, or the one in which our own shell lives.
            LineLost, Unreachable
        """
        if group <= 1 or (self._shell is not None and group == self._shell.ready.group):
            raise ValueError(f"not a process group that may be ended: {group}")
        await self._retrying(self._connect)
        async with self._beside() as (duplex, _):
            script = wire.ending(group=group, grace=grace)
            status, _, _ = await collect(duplex, script, where=self.host, deadline=2 * grace + _ENDING)
            return status == 0

    async def close(self) -> None:
        """Close politely, within a bounded time."""
        shell, self._shell = self._shell, None
        left, self._left = self._left, None
        self._opened = False
        try:
            async with asyncio.timeout(_CLOSING):
                if left is not None and left[0].session and not self._lost:
                    with suppress(Unreachable, LineLost):
                        async with self._beside() as (duplex, _):
                            script = wire.ending(session=left[0].session, tag=left[0].tag, grace=1.0)
                            await collect(duplex, script, where=self.host, deadline=_CLOSING)
        except TimeoutError:
            pass
        finally:
            if shell is not None:
                shell.duplex.write_eof()
                shell.duplex.abandon()
            await self._disconnect()

    @property
    def _lost(self) -> bool:
        """There is no live connection."""
        return False


def _greeted(frame: Frame, greeting: str) -> Frame:
    """Return the frame with the greeting ahead of what it has the shell do before; either failing ends it there."""
    if not greeting:
        return frame
    own = f"\n[ $? -eq 0 ] || return 1\n{frame.before}" if frame.before else ""
    return replace(frame, before=greeting + own)


def _grown(pause: float) -> float:
    return min(_LONGEST_PAUSE, pause * 2 or 0.5)


def _survivors(said: bytes) -> str:
    words = []
    for line in said.decode(errors="replace").splitlines():
        pid, state, wchan, name = (*line.split(" ", 3), "", "", "")[:4]
        if pid.isdigit():
            where = f" in {wchan}" if wchan not in ("", "-", "0") else ""
            words.append(f"pid {pid} ({name}) in state {state}{where} outlived SIGKILL")
    return "; ".join(words)
