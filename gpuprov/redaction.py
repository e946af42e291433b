"""Secrets out of what hosts print: the one place that masks them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gpuprov.secret import Secret

MASK = "***"
SHORTEST = 4
"""Characters: what is shorter is left alone, since masking it would blot out innocent text and hide nothing."""


class Redactor:
    """Takes secrets out of text."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._words: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self.learn(secrets)

    @classmethod
    def of_env(cls, env: Mapping[str, str | Secret]) -> Redactor:
        """Know the secrets of a step's environment."""
        return cls(value for value in env.values() if isinstance(value, Secret))

    def learn(self, secrets: Iterable[Secret]) -> None:
        """Know these: a secret of several lines by each of them. What is under four characters is left alone."""
        for secret in secrets:
            text = secret.reveal().decode(errors="replace")
            self._words |= {word for line in text.splitlines() if len(word := line.strip()) >= SHORTEST}
        if self._words:
            longest_first = sorted(self._words, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def __call__(self, line: str) -> str:
        """Return the line with every secret in it replaced by ``***``."""
        return self._pattern.sub(MASK, line) if self._pattern else line
