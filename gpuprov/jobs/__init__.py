"""Long steps that live on the host, and the host lock."""

from __future__ import annotations
