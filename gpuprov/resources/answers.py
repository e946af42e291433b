"""The lines that answer a probe's asks, cut from what its script printed."""

from __future__ import annotations

from gpuprov.errors import Unseen

ABSENT = b"-"


def split(data: bytes, asks: int) -> tuple[tuple[bytes | None, ...], bytes]:
    """Return one answer for each of ``asks`` (None: absent) and what the script printed after them.

    Raises:
        Unseen: an answer is missing or empty: the look was cut short.
    """
    *lines, rest = data.split(b"\n", asks)
    if len(lines) < asks or b"" in lines:
        raise Unseen("the look at the host was cut short: an answer is missing")
    return tuple(None if line == ABSENT else line for line in lines), rest


def shown(data: bytes) -> str:
    """Return a host's bytes as text that can be shown; what is no UTF-8 is replaced."""
    return data.decode(errors="replace")
