"""Host output to text that may be shown: decoded leniently, secrets masked. The one place for both."""

from __future__ import annotations

from collections.abc import Iterable

from gpuprov.model import Change, Put, Secret

MASK = "***"
SHORTEST = 4
"""Bytes: a shorter secret is not masked, since it would blot out innocent text and hide nothing."""


class Redactor:
    """Knows the secrets of one host's run."""

    def __init__(self) -> None:
        self._words: set[str] = set()

    def learn(self, change: Change) -> None:
        """Remember the secrets that a change's steps carry."""
        for step in change.steps:
            self._remember(value for value in step.env.values() if isinstance(value, Secret))
            if isinstance(step, Put) and isinstance(step.content, Secret):
                self._remember([step.content])

    def text(self, raw: bytes | str) -> str:
        """Return what a person may see of a host's output."""
        shown = raw.decode(errors="replace") if isinstance(raw, bytes) else raw
        for word in sorted(self._words, key=len, reverse=True):
            shown = shown.replace(word, MASK)
        return shown

    def last_lines(self, raw: bytes, count: int = 20) -> str:
        """Return the last lines of output that are not empty."""
        return "\n".join(self.text(raw).strip().splitlines()[-count:])

    def _remember(self, secrets: Iterable[Secret]) -> None:
        for secret in secrets:
            whole = secret.reveal().decode(errors="replace")
            # A tool may echo one line of a secret file
            self._words |= {part for part in (whole, *whole.splitlines()) if len(part.strip()) >= SHORTEST}
