"""Marks in a stream of bytes: how a frame's output is cut into sections. Pure: bytes in, values out."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuprov.transport.frame import CLIP

_LONGEST = 4096
"""A mark's line is short; what claims to be one and does not end is output that looks like it."""

_KEPT_ASIDE = 2048


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A random word in two halves, so that an echo of what was sent (halves apart) never matches what is printed."""

    first: str = field(default_factory=lambda: secrets.token_hex(8))
    second: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def needle(self) -> bytes:
        """What a line of this mark begins with: its own newline first, which is not output."""
        return f"\n{self.first}{self.second} ".encode()


class Cutter:
    """Cuts one stream into output and marks, however its bytes arrive."""

    def __init__(self, mark: Mark) -> None:
        self._needle = mark.needle
        self._held = b""

    def feed(self, data: bytes) -> Iterator[bytes | tuple[str, ...]]:
        """Yield output as bytes and each mark as its words. What may yet become a mark is held back."""
        needle, data, at = self._needle, self._held + data, 0
        self._held = b""
        while True:
            start = data.find(needle, at)
            if start < 0:
                tail = max(data.rfind(b"\n", max(at, len(data) - len(needle) + 1)), at - 1)
                if tail < at or not needle.startswith(data[tail:]):
                    tail = len(data)
                if tail > at:
                    yield data[at:tail]
                self._held = data[tail:]
                return
            if start > at:
                yield data[at:start]
            end = data.find(b"\n", start + len(needle))
            if end < 0 and len(data) - start <= _LONGEST:
                self._held = data[start:]
                return
            if not 0 <= end - start <= _LONGEST:
                yield needle
                at = start + len(needle)
                continue
            yield tuple(data[start + len(needle) : end].decode(errors="replace").split(" "))
            at = end + 1


class Clip:
    """Keeps the first and the last bytes of an output and counts the rest: bounded, however much is printed."""

    def __init__(self, limit: int = CLIP) -> None:
        self._limit = limit
        self._head = bytearray()
        self._tail = bytearray()
        self.dropped = 0

    def add(self, data: bytes) -> None:
        """Take more output."""
        room = self._limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        # Trimmed only when it has doubled: otherwise each small chunk would move the whole tail.
        if len(self._tail) > 2 * self._limit:
            self._trim()

    def _trim(self) -> None:
        over = len(self._tail) - self._limit
        if over > 0:
            self.dropped += over
            del self._tail[:over]

    def value(self) -> bytes:
        """Return what was kept."""
        self._trim()
        return bytes(self._head + self._tail)


@dataclass(kw_only=True)
class Side:
    """One stream of one frame: the output of each section, and how far the stream got."""

    mark: Mark
    outputs: dict[str, Clip] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    running: str | None = None
    begun: tuple[int, int, int] | None = None
    """Process group, session and pid of the frame's shell; zeros where the host does not say."""
    preparing: bool = False
    """The ``before`` part was begun."""
    done: bool = False
    """Every section had its turn."""
    garbled: bool = False
    end: tuple[int, float, float] | None = None
    """Status, and the host's uptime in seconds before and after."""
    aside: bytearray = field(default_factory=bytearray)
    """The last of what was printed outside of sections: what a dying shell says."""

    def __post_init__(self) -> None:
        self._cutter = Cutter(self.mark)

    @property
    def over(self) -> bool:
        """Nothing of this frame follows on this stream."""
        return self.end is not None or self.garbled

    def feed(self, data: bytes) -> None:
        """Take bytes of the stream."""
        for piece in self._cutter.feed(data):
            if not isinstance(piece, bytes):
                self._marked(piece)
            elif self.running is not None:
                self.outputs[self.running].add(piece)
            else:
                self.aside += piece[-_KEPT_ASIDE:]
                del self.aside[:-_KEPT_ASIDE]

    def _marked(self, words: tuple[str, ...]) -> None:
        match words:
            case ("[", name):
                self.running = name
                self.outputs.setdefault(name, Clip())
                self.preparing = self.preparing or name == "before"
            case ("]", name, status) if name == self.running:
                self.running = None
                self.statuses[name] = _number(status)
            case ("begin", group, session, pid):
                self.begun = (_number(group), _number(session), _number(pid))
            case ("done",):
                self.done = True
            case ("garbled",):
                self.garbled = True
            case ("end", status, before, after):
                self.end = (_number(status), _seconds(before), _seconds(after))


def _number(word: str) -> int:
    return int(word) if re.fullmatch(r"[0-9]{1,9}", word) else 0


def _seconds(word: str) -> float:
    return float(word) if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,6})?", word) else 0.0
