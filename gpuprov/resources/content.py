"""The difference between two contents of a file, as a person wants to read it."""

from __future__ import annotations

import difflib
import re

DIFF_LIMIT = 64 * 1024
"""Bytes up to which a content is brought from the host and shown as a unified diff."""

_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def text_of(content: bytes) -> str | None:
    """Return the content as text; None when it is binary (no UTF-8, or it holds a NUL)."""
    if b"\0" in content:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def unified(path: str, before: str | None, after: str) -> str:
    """Return the unified diff of two texts (None: there was no file), empty when they are equal.

    >>> print(unified("/etc/x", "a\\n", "b"), end="")
    --- /etc/x
    +++ /etc/x
    @@ -1 +1 @@
    -a
    +b
    \\ No newline at end of file
    """
    lines = difflib.unified_diff(
        _LINE.findall(before or ""), _LINE.findall(after), "/dev/null" if before is None else path, path
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
