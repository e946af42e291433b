"""What must never be touched, and the judgement of claims against it."""

from __future__ import annotations
