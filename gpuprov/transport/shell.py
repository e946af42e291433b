"""The persistent shell: READY, then one frame after another over a byte line.

Not a byte is sent before READY was seen, with one exception: when a shell stays silent, a start-up file of the login
shell may be waiting for a line (a menu, a ``read``). One empty line is then sent now and again; to a shell that was
merely slow it is an empty command.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from gpuprov.errors import Unreachable
from gpuprov.transport import wire
from gpuprov.transport.duplex import Duplex
from gpuprov.transport.frame import Frame, Section, SectionResult
from gpuprov.transport.marks import Cutter, Mark, Side

Privilege = Literal["root", "sudo", "none"]

_NUDGE = 3.0
_SECOND = 5.0
"""Seconds between READY on one stream and on the other."""
KILL_AFTER = 5.0
"""Seconds between TERM and KILL of the host's own ``timeout``."""
BEGIN_WITHIN = 60.0
"""Seconds within which a shell must take up a frame; slow lines get one more for every 4 KiB."""
_SHOWN = 2048
_STRAGGLE = 10.0
_TICK = 0.05
"""The host's uptime is told in hundredths of a second, rounded down."""


@dataclass(frozen=True, kw_only=True)
class Ready:
    """What a host's shell said of itself. ``group`` and ``session`` are 0 where ``/proc`` does not say.

    ``stderr`` is False when a start-up file has sent it elsewhere (``exec 2>/dev/null``): then all of it is lost.
    """

    privilege: Privilege = "none"
    note: str = ""
    group: int = 0
    session: int = 0
    stderr: bool = True


@dataclass(frozen=True, kw_only=True)
class Begun:
    """The frame that is under way: what is needed to end it. ``group`` is 0 when it has none of its own."""

    tag: str
    session: int
    group: int = 0


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What one frame did, as far as it got."""

    begun: Begun
    sections: Mapping[str, SectionResult] = field(default_factory=dict)
    running: str | None = None
    status: int | None = None
    done: bool = False
    ended: bool = True
    timed_out: bool = False
    seconds: float = 0.0


class ShellEnded(Exception):
    """The shell went away. ``begun`` is None when no begin mark had been seen; ``why`` is a sentence."""

    def __init__(self, why: str, begun: Begun | None) -> None:
        super().__init__(why)
        self.why = why
        self.begun = begun


class _Garbled(Exception):
    """The host found another length than was sent; nothing of the frame was run."""


async def ready(duplex: Duplex, mark: Mark, *, where: str, deadline: float) -> Ready:
    """Wait until the process behind ``duplex`` has said READY on both streams.

    Raises:
        Unreachable: phase ``session`` or ``sudo``, with what the host printed instead.
    """
    cutters = {1: Cutter(mark), 2: Cutter(mark)}
    noise = bytearray()
    seen: dict[int, tuple[str, ...]] = {}
    asked_sudo = False
    end = time.monotonic() + deadline
    nudge = time.monotonic() + _NUDGE
    while len(seen) < 2:
        now = time.monotonic()
        if now >= end:
            if 1 in seen:
                break
            raise _not_ready("did not start a shell of ours", where, noise, deadline, asked_sudo)
        if now >= nudge:
            duplex.write(b"\n")
            nudge = now + _NUDGE
        try:
            # Not wait_for: it loses a cancellation that comes together with a result (Python 3.11).
            async with asyncio.timeout(min(end, nudge) - now):
                stream, data = await duplex.read()
        except TimeoutError:
            continue
        if not stream:
            raise _not_ready("ended our shell at once", where, noise, None, asked_sudo, duplex)
        for piece in cutters[stream].feed(data):
            if isinstance(piece, bytes):
                noise += piece
                del noise[_SHOWN:-_SHOWN]
            elif piece[0] == "ready":
                seen[stream] = piece
                end = min(end, time.monotonic() + _SECOND)
            else:
                asked_sudo = True
    return replace(_parsed(seen[1]), stderr=2 in seen)


def _parsed(words: tuple[str, ...]) -> Ready:
    _, privilege, group, session, *why = (*words, "", "", "")
    if privilege not in ("root", "sudo", "none"):
        privilege = "none"
    return Ready(
        privilege=cast(Privilege, privilege),
        note=_sudo_note(" ".join(why).strip()) if privilege == "none" else "",
        group=int(group) if re.fullmatch("[0-9]{1,9}", group) else 0,
        session=int(session) if re.fullmatch("[0-9]{1,9}", session) else 0,
    )


def _sudo_note(why: str) -> str:
    if why == "unasked":
        return "sudo was not tried (become: never)"
    if why == "missing":
        return "no sudo"
    _, _, rest = why.partition("refused ")
    groups, _, said = rest.partition(" : ")
    if "not in the sudoers" in said or "may not run" in said or "not allowed" in said:
        return "not in sudoers"
    if "must have a tty" in said:
        return "sudo wants a terminal (requiretty)"
    if "password" in said:
        # sudo -n answers the same to a user whom it does not know at all, so only the groups tell them apart.
        if {"sudo", "wheel", "admin"} & set(groups.split()):
            return "password needed"
        return "password needed, or not in sudoers (the user is in none of the groups sudo, wheel, admin)"
    return f"sudo refused: {said[:200]}"


def _not_ready(
    what: str, where: str, noise: bytearray, deadline: float | None, asked_sudo: bool, duplex: Duplex | None = None
) -> Unreachable:
    if duplex is not None and duplex.lost:
        return Unreachable(
            f"the connection was lost before a shell had started: {duplex.lost}", phase="session", where=where
        )
    output = noise.decode(errors="replace").strip()
    in_time = f" within {deadline:g} s" if deadline is not None else ""
    status = f" (status {duplex.status})" if duplex is not None and duplex.status is not None else ""
    if asked_sudo:
        return Unreachable(
            f"logged in, but sudo -n did not answer{in_time}{status}",
            phase="sudo",
            where=where,
            output=output,
            hint="try `sudo -n true` there, or set become: never for this host",
        )
    shown = "it printed instead" if output else "it printed nothing"
    return Unreachable(
        f"logged in, but the host {what}{in_time}{status}; {shown}",
        phase="session",
        where=where,
        output=output,
        hint="a start-up file of the login shell (~/.bashrc) may start another program or wait for input, "
        "or the account may be limited to one command",
    )


class Shell:
    """A shell on a host that said READY. One frame at a time.

    ``under_way``: the frame that was sent last, for whoever has to end it.
    """

    def __init__(
        self,
        duplex: Duplex,
        said: Ready,
        *,
        grace: float = 5.0,
        begin_within: float = BEGIN_WITHIN,
        shell: str = wire.SHELL,
    ) -> None:
        self.duplex = duplex
        self.ready = said
        self._grace = grace
        self._begin_within = begin_within
        self._packs = True
        self.under_way: Begun | None = None
        duplex.write(wire.definitions(shell))

    async def run(self, frame: Frame, overdue: Callable[[Begun], Awaitable[None]]) -> Ran:
        """Send a frame and read until both streams have seen its end.

        ``overdue`` is awaited when the deadline has passed and the host's own timer did not end the frame; it is to
        end it from elsewhere. When even that brings no end mark, the result has ``ended=False`` and the shell is to be
        abandoned.

        Raises:
            ShellEnded: the shell or the line went away, or the shell did not take up the frame.
            ValueError: the frame cannot be sent; see `gpuprov.transport.wire.check`.
        """
        try:
            return await self._run(frame, overdue)
        except _Garbled:
            if not self._packs:
                raise ShellEnded("the host's shell received a frame of another length than was sent", None) from None
            self._packs = False
        return await self.run(frame, overdue)

    async def _run(self, frame: Frame, overdue: Callable[[Begun], Awaitable[None]]) -> Ran:
        mark = Mark()
        text = wire.frame_text(frame, mark, pack=self._packs)
        sides = {1: Side(mark=mark), 2: Side(mark=mark)}
        tag = self.under_way = Begun(tag=mark.first, session=self.ready.session)
        self.duplex.write(text)
        limit = wire.host_seconds(frame.deadline) + KILL_AFTER + self._grace
        started = time.monotonic()
        end = started + self._begin_within + len(text) / 4096
        stage = "sent"
        while not (sides[1].over and (sides[2].over or not self.ready.stderr)):
            now = time.monotonic()
            if now >= end:
                begun = self._begun(tag, sides)
                if sides[1].over:
                    break
                if stage == "sent":
                    raise ShellEnded(f"the shell on the host did not take up a frame in {end - started:.0f} s", None)
                if stage == "overdue":
                    return self._result(frame, sides, begun or tag, now - started, ended=False)
                await overdue(begun or tag)
                stage, end = "overdue", time.monotonic() + self._grace
                continue
            try:
                async with asyncio.timeout(end - now):
                    stream, data = await self.duplex.read()
            except TimeoutError:
                continue
            if not stream:
                begun = self._begun(tag, sides)
                if stage == "overdue" and not self.duplex.lost:
                    return self._result(frame, sides, begun or tag, now - started, ended=False)
                raise ShellEnded(self._why(sides), begun)
            before = _progress(sides)
            sides[stream].feed(data)
            self.under_way = self._begun(tag, sides) or tag
            now = time.monotonic()
            if sides[1].over:
                # Its stderr follows at once, unless `before` sent the shell's own elsewhere.
                end = now + _STRAGGLE
            elif _progress(sides) != before and stage != "overdue":
                stage, started, end = "begun", now, now + limit
        if sides[1].garbled or sides[2].garbled:
            raise _Garbled
        return self._result(frame, sides, self._begun(tag, sides) or tag, time.monotonic() - started, ended=True)

    def _begun(self, tag: Begun, sides: Mapping[int, Side]) -> Begun | None:
        for side in sides.values():
            if side.begun is not None:
                group, session, _ = side.begun
                own = group not in (0, session, self.ready.group)
                return replace(tag, session=session or tag.session, group=group if own else 0)
        if any(side.preparing for side in sides.values()):
            # Only the shell itself can be waiting: ending its group ends it too, and with it the frame to come.
            return replace(tag, group=self.ready.group)
        return None

    def _why(self, sides: Mapping[int, Side]) -> str:
        if self.duplex.lost:
            return self.duplex.lost
        said = bytes(sides[2].aside).decode(errors="replace").strip()
        status = self.duplex.status
        how = f"the shell on the host ended (status {status})" if status is not None else "the shell on the host ended"
        return f"{how}: {said.splitlines()[-1]}" if said else how

    def _result(self, frame: Frame, sides: Mapping[int, Side], begun: Begun, elapsed: float, *, ended: bool) -> Ran:
        out, err = sides[1], sides[2]
        names: list[str] = [name for name in ("before", "prelude") if name in out.outputs]
        names += [section.name for section in frame.sections if section.name in out.outputs]
        status, since, until = out.end or (None, 0.0, 0.0)
        seconds = until - since if since and until >= since else elapsed
        ran_out = wire.host_seconds(frame.deadline) - _TICK
        late = not out.done and (not ended or (status in (124, 137, 143) and seconds >= ran_out))
        sections: dict[str, SectionResult] = {}
        for name in names:
            stdout, stderr = out.outputs[name], err.outputs.get(name)
            sections[name] = SectionResult(
                name=name,
                # What ended its frame's shell with it (`kill -9 $$`) has no status of its own.
                status=status if name == out.running and ended and not late else out.statuses.get(name),
                stdout=stdout.value(),
                stderr=stderr.value() if stderr else b"",
                clipped=stdout.dropped + (stderr.dropped if stderr else 0),
            )
        return Ran(
            begun=begun,
            sections=sections,
            running=out.running,
            status=status,
            done=out.done,
            ended=ended,
            timed_out=late,
            seconds=seconds,
        )


def _progress(sides: Mapping[int, Side]) -> tuple[bool, ...]:
    return tuple(flag for side in sides.values() for flag in (side.preparing, side.begun is not None, side.over))


def rest_of(frame: Frame, ran: Ran) -> Frame | None:
    """Return what is still to be run when a section ended the frame's shell (``kill -9 $$``), or None.

    The prelude is evaluated again; ``before`` is not.
    """
    if ran.done or ran.timed_out or not ran.ended:
        return None
    left = tuple(section for section in frame.sections if section.name not in ran.sections)
    began: list[Section] = [section for section in frame.sections if section.name in ran.sections]
    if not left or not began:
        return None
    return replace(frame, sections=left, before="", deadline=max(1.0, frame.deadline - ran.seconds))
