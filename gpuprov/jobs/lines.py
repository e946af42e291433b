"""From the bytes of a log to lines of text: split, cut, decoded. Secrets are then taken out by `gpuprov.redaction`."""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST = 64 * 1024
"""A line's bytes beyond this many are counted and thrown away."""

_BREAK = re.compile(rb"[\r\n]")


class LineSplitter:
    """Cut a stream of bytes into lines; what it holds back is bounded.

    A newline, a carriage return (a progress bar drawing itself anew) or both together end a line. A carriage
    return after nothing ends none.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._held = bytearray()
        self._cut = 0
        self._after_return = False

    def feed(self, data: bytes) -> Iterator[str]:
        """Yield the lines that these bytes complete."""
        start = 0
        for found in _BREAK.finditer(data):
            self._hold(data, start, found.start())
            empty = found.start() == start and not self._held
            is_return = found.group() == b"\r"
            swallowed = empty and (is_return or self._after_return)
            self._after_return = is_return
            start = found.end()
            if not swallowed:
                yield self._take()
        if start < len(data):
            self._hold(data, start, len(data))
            self._after_return = False

    def finish(self) -> Iterator[str]:
        """Yield the last line when nothing ended it."""
        if self._held:
            yield self._take()

    def _hold(self, data: bytes, start: int, end: int) -> None:
        if end > start:
            room = max(0, self._longest - len(self._held))
            self._held += data[start : min(end, start + room)]
            self._cut += max(0, end - start - room)

    def _take(self) -> str:
        line = self._held.decode(errors="replace")
        if self._cut:
            line += f" … [{self._cut} more bytes]"
        self._held.clear()
        self._cut = 0
        return line
