"""Durations, sizes and counts in few words."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from gpuprov.report.visible import visible


def elapsed(seconds: float) -> str:
    """Return a duration: ``0.4s``, ``12s``, ``1m 05s``, ``2h 03m``; ``?`` for what is no number."""
    if not math.isfinite(seconds):
        return "?"
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02d}m"


def size(count: int) -> str:
    """Return a number of bytes: ``512 B``, ``1.5 MiB``."""
    if count < 1024:
        return f"{max(0, count)} B"
    value = float(min(count, 1 << 80)) / 1024
    units = ["KiB", "MiB", "GiB", "TiB"]
    while value >= 1023.95 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.1f} {units[0]}"


def progress(done: int, total: int, unit: str) -> str:
    """Return how far a step is: ``[37/92]``, ``1.2 of 3.4 GiB``, ``1.2 GiB`` when the total is not known."""
    if unit == "items":
        return f"[{done}/{total}]" if total > 0 else f"[{done}]"
    if total <= 0:
        return size(done)
    amount, of = size(done), size(total)
    return f"{amount.split()[0] if amount.split()[1] == of.split()[1] else amount} of {of}"


def counted(count: int, noun: str) -> str:
    """Return ``1 host``, ``2 hosts``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def clock(at: float) -> str:
    """Return the local time of day of seconds since the epoch."""
    try:
        return time.strftime("%H:%M:%S", time.localtime(at))
    except (OverflowError, ValueError, OSError):
        return "--:--:--"


VERDICTS: Mapping[str, str] = {
    "change": "to change",
    "same": "as wanted",
    "recheck": "checked again",
    "blocked": "blocked",
    "not-selected": "not selected",
}
OUTCOMES: Mapping[str, str] = {
    "changed": "changed",
    "failed": "failed",
    "unseen": "unseen",
    "skipped": "skipped",
    "same": "as wanted",
    "not-selected": "not selected",
}
_ORDER = ("change", "changed", "failed", "unseen", "blocked", "skipped", "same", "recheck", "not-selected")


def tally(counts: Mapping[str, int], *, also: str = "") -> str:
    """Return counts of verdicts or outcomes in words: ``3 to change, 12 as wanted``.

    Zero counts are left out, but for ``also``. Words we do not know are shown as they came.
    """
    words = {**OUTCOMES, **VERDICTS}
    order = [*_ORDER, *(name for name in counts if name not in words)]
    parts = [
        f"{counts.get(name, 0)} {words.get(name) or visible(name)}"
        for name in order
        if counts.get(name, 0) or name == also
    ]
    return ", ".join(parts)
