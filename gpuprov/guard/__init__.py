"""What must never be touched, and the judgement of claims against it."""

from __future__ import annotations

from gpuprov.guard.claims import PATHS, PATTERNS, Protected, Refusal, judge, on_host, reached
from gpuprov.guard.places import protected_paths, refuse_paths
from gpuprov.guard.proof import damage

__all__ = [
    "PATHS",
    "PATTERNS",
    "Protected",
    "Refusal",
    "damage",
    "judge",
    "on_host",
    "protected_paths",
    "reached",
    "refuse_paths",
]
