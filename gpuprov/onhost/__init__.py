"""The scripts that run on hosts: POSIX sh, checked by shellcheck, tried in dash, bash and busybox."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def script(name: str) -> str:
    """Return the text of ``NAME.sh``, without its leading comment block (which is for the reader, not the wire)."""
    text = resources.files(__name__).joinpath(f"{name}.sh").read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    start = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return "".join(lines[start:])
