"""The proof afterwards: what must not change is compared with what it was. Pure."""

from __future__ import annotations

from gpuprov.facts import Difference, Facts, compare_protected

_MAY_APPEAR = ("apt:", "python:", "conda:", "service:")
"""Kinds of protected things of which a new one hurts nobody: what was there before is as it was."""
_LINKS_THAT_MAY_APPEAR = frozenset(
    f"link:/etc/alternatives/{name}" for name in ("cc", "c++", "gcc", "g++", "c89", "c99", "cpp")
)
"""Made by the first compiler that a host gets."""


def damage(before: Facts, after: Facts) -> tuple[Difference, ...]:
    """Return what of the protected has changed or gone, or appeared where nothing may.

    What could be seen only once says nothing either way, and is left out.
    """
    return tuple(
        difference
        for difference in compare_protected(before.protected, after.protected)
        if difference.kind in ("changed", "gone") or (difference.kind == "appeared" and not _may_appear(difference.key))
    )


def _may_appear(key: str) -> bool:
    return key.startswith(_MAY_APPEAR) or key in _LINKS_THAT_MAY_APPEAR
