"""The newest numpy below 2 for each Python."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gpuprov.knowledge.cuda import NotInTable, numbers, rows


@dataclass(frozen=True, kw_only=True)
class Pin:
    """One numpy; ``python`` holds the minor versions that it is the newest below 2 for."""

    version: str
    python: tuple[str, ...]
    source: tuple[str, ...]


@cache
def pins() -> tuple[Pin, ...]:
    """Return all rows."""
    return rows(Pin, "numpy_pins", "pin")


def below_2(python: str) -> str:
    """Return the version for a Python, written ``3.10`` or ``3.10.13``.

    Raises:
        NotInTable: there is none.
    """
    for pin in pins():
        if numbers(python)[:2] in [numbers(minor) for minor in pin.python]:
            return pin.version
    raise NotInTable("a numpy below 2 for Python", python, (minor for pin in pins() for minor in pin.python))
