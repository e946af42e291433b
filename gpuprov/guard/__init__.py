"""What must never be touched, and the judgement of claims against it."""

from __future__ import annotations

from gpuprov.guard.claims import PATHS, Protected, Refusal, judge, on_host

__all__ = ["PATHS", "Protected", "Refusal", "judge", "on_host"]
