"""micromamba: where to get the one program that makes conda environments on a host without conda."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gpuprov.knowledge.cuda import NotInTable, rows


@dataclass(frozen=True, kw_only=True)
class Binary:
    """The program for one architecture.

    Attributes:
        arch: as ``uname -m`` names it.
        sha256: of the program, in lower-case hex.
        unsure: why the row is not settled, or empty.
    """

    version: str
    arch: str
    url: str
    sha256: str
    source: tuple[str, ...]
    unsure: str = ""


@cache
def binaries() -> tuple[Binary, ...]:
    """Return all rows."""
    return rows(Binary, "micromamba", "binary")


def binary(arch: str) -> Binary:
    """Return the program for an architecture.

    Raises:
        NotInTable: there is none.
    """
    for row in binaries():
        if row.arch == arch:
            return row
    raise NotInTable("micromamba for", arch, (row.arch for row in binaries()))
