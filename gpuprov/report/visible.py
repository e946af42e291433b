"""Text from hosts, made safe to show: what could move the cursor, colour, hide or reorder becomes a visible sign."""

from __future__ import annotations

import re
import unicodedata

LINE_LIMIT = 8192
"""The most characters of one line that are shown; a host may print a gigabyte without a newline."""

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Control, format (bidi, zero-width, tags), lone surrogates, private use, line and paragraph separators."""


_CSI = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]")
"""A whole terminal sequence, such as a colour: dropped where only a glimpse of a line is shown."""


def _sign(char: str) -> str:
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    category = unicodedata.category(char)
    if category == "Cs":
        return "�"
    if category in _HIDDEN:
        return f"<{code:02X}>" if code < 0x100 else f"<U+{code:04X}>"
    return char


def visible(text: str, *, limit: int = LINE_LIMIT) -> str:
    """Return ``text`` as one line in which nothing is hidden and nothing acts on a terminal.

    Tabs become blanks, a newline ``␊``, an escape ``␛``, a right-to-left override ``<U+202E>``. Longer than
    ``limit`` characters, it is cut and ends with ``…``.

    >>> visible("a\\x1b[31mb")
    'a␛[31mb'
    """
    cut = len(text) > limit
    if cut:
        text = text[:limit]
    if not text.isprintable():
        text = "".join(map(_sign, text.expandtabs(8)))
    return text + "…" if cut else text


def visible_lines(text: str, *, limit: int = LINE_LIMIT) -> list[str]:
    """Return each line of ``text`` made visible. Line ends are ``\\n`` and ``\\r\\n``; none at the very end counts."""
    if not text:
        return []
    lines = text.removesuffix("\n").split("\n")
    return [visible(line.removesuffix("\r"), limit=limit) for line in lines]


def last_state(line: str, *, limit: int = 400) -> str:
    """Return what a terminal would show last of a line that a progress bar overwrote with carriage returns."""
    parts = [part for part in _CSI.sub("", line[-4 * limit :]).split("\r") if part.strip()]
    return visible(parts[-1].strip(), limit=limit) if parts else ""
