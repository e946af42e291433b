"""When to say again what lasts: at once, when it becomes something else, and else ever less often. Pure."""

from __future__ import annotations

from dataclasses import dataclass

FIRST = 30.0
"""Seconds after which something that was said once is said again; each further time after twice as long."""


@dataclass
class Reminder:
    """One thing that people wait for."""

    _what: object = None
    _due: float = 0.0
    _pause: float = 0.0

    def due(self, what: object, now: float) -> bool:
        """Whether to say it now (seconds of any clock that only goes on). ``what``: anything but None."""
        if what == self._what and now < self._due:
            return False
        self._pause = FIRST if what != self._what else 2 * self._pause
        self._what, self._due = what, now + self._pause
        return True
