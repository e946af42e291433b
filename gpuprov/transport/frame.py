"""Frames: what is sent to a host's persistent shell in one go, and what comes back.

A frame is a script of known length, evaluated by a fresh ``sh`` under a deadline between a begin and an
end marker on both streams. Its sections are nested scripts with a status and output of their own, so
that one noisy or broken section spoils no other. This module holds the values; ``shell.py`` speaks the
protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gpuprov.secret import Secret

FRAME_DEADLINE = 60.0
"""The most seconds a frame may take on the host; what may take over two seconds is a job."""

CLIP = 64 * 1024
"""Of each section's output this many first and this many last bytes are kept; the rest is counted."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """One script of a frame.

    Attributes:
        name: unique in its frame; letters, digits, ``-`` and ``_``.
        script: POSIX sh; runs in a subshell with stdin from ``/dev/null``, so that ``exit``, a syntax error
            or a changed folder ends with it.
        env: exported in that subshell only; secrets travel here and never in an argv.
    """

    name: str
    script: str
    env: Mapping[str, str | Secret] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What goes to the host in one exchange.

    Attributes:
        sections: run one after another in this order.
        prelude: POSIX sh evaluated once before them, in the same ``sh``: functions and variables for all.
        before: POSIX sh evaluated by the *persistent* shell itself before the frame, in the same exchange;
            comes back as the section ``before``. For what must outlive the frame: descriptors and locks.
            When it ends with another status than 0 nothing else of the frame runs. Never interpolate anything
            unquoted into it: a syntax error there ends the shell.
        deadline: seconds on the host, counted from the begin marker; at most `FRAME_DEADLINE`.
    """

    sections: tuple[Section, ...]
    prelude: str = ""
    before: str = ""
    deadline: float = FRAME_DEADLINE


@dataclass(frozen=True, kw_only=True)
class SectionResult:
    """What one section did. ``status`` is None when it never ended: the deadline passed or the line was lost."""

    name: str
    status: int | None
    stdout: bytes = b""
    stderr: bytes = b""
    clipped: int = 0
    """Bytes of both streams that were counted and thrown away."""


@dataclass(frozen=True, kw_only=True)
class FrameResult:
    """What a frame did. A section that never began has no entry.

    ``timed_out``: the deadline passed; the section with status None was running then. ``stuck``: its processes outlived
    SIGKILL (state, wchan and pid in words), so the shell was abandoned and a new one opened.
    """

    sections: Mapping[str, SectionResult]
    timed_out: bool = False
    stuck: str = ""
    seconds: float = 0.0


class Connection(Protocol):
    """A line to one host that survives being cut.

    Frames of one connection are serialised: one at a time. A frame that had not begun when the line was
    lost is sent again after reconnecting and counts as no try; one that had begun raises `LineLost` with
    ``begun=True`` (after which the connection reconnects by itself on the next call).
    """

    host: str
    """The inventory name, for errors."""

    exchanges: int
    """How many frames were sent so far: round trips."""

    on_open: str
    """POSIX sh that the persistent shell evaluates ahead of the first frame's ``before`` after every (re)opening, and
    again with each frame until it has ended with status 0 once on that shell. It reports in the section ``before``.
    For what the shell must hold while frames run, such as the host's lock: without it nothing of a frame runs."""

    async def open(self) -> None:
        """Connect, authenticate, open the persistent shell, see READY.

        Raises:
            Unreachable: with the phase that failed; never hangs.
        """
        ...

    async def frame(self, frame: Frame) -> FrameResult:
        """Run one frame.

        Raises:
            LineLost, Unreachable
        """
        ...

    async def put(self, path: str, content: bytes | Secret, *, deadline: float = 600.0) -> None:
        """Write raw bytes to ``path`` through a channel of its own (no sftp needed); parent must exist.

        For what is too large for a frame (over 256 KiB). Not atomic: the caller writes a temporary name.

        Raises:
            LineLost, Unreachable, StepFailed
        """
        ...

    async def stream(self, script: str, *, deadline: float | None = None) -> Stream:
        """Run a script on a channel of its own and read its output as it comes (for following jobs, ``exec``).

        Raises:
            LineLost, Unreachable (also when the server allows no further session: phase ``session``)
        """
        ...

    async def kill(self, group: int, *, grace: float = 5.0) -> bool:
        """End a process group from a channel of its own (TERM, then KILL); True when it is gone."""
        ...

    async def close(self) -> None:
        """Close politely, within a bounded time. Idempotent."""
        ...


class Stream(Protocol):
    """A running script on its own channel."""

    async def read(self, limit: int = 65536) -> tuple[int, bytes]:
        """Return ``(1, bytes)`` for stdout or ``(2, bytes)`` for stderr, ``(0, b"")`` at the end.

        Raises:
            LineLost: the connection went away.
        """
        ...

    @property
    def status(self) -> int | None:
        """The exit status once it ended; negative: ended by that signal."""
        ...

    async def close(self) -> None:
        """Stop following: the channel is closed and its process group ended. Idempotent."""
        ...
