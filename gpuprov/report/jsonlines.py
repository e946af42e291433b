"""The stream as JSON, one object a line: for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TextIO

from gpuprov.events import VERSION, Event, as_json
from gpuprov.report.layout import silence


class JsonLines:
    """Writes each event as one line and flushes it. Nothing else may write to the same file.

    When the reader of the file went away, the rest is dropped: the run goes on, its work is worth more than
    its log.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.broken = False

    def __call__(self, event: Event) -> None:
        """Write one event."""
        self.write(as_json(event))

    def write(self, value: Mapping[str, Any]) -> None:
        """Write one object. What JSON has no word for is written as its text."""
        if self.broken:
            return
        try:
            # ASCII only: no terminal, locale or lone surrogate can spoil a line.
            self._file.write(json.dumps(value, default=str) + "\n")
            self._file.flush()
        except BrokenPipeError:
            self.broken = True
            silence(self._file)


def stamped(name: str, at: float, **fields: Any) -> dict[str, Any]:
    """Return the shape of an event for what is said outside the stream, such as ``error``."""
    return {"v": VERSION, "event": name, "at": at, **fields}
