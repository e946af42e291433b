"""The kinds of thing a host can have: one module per kind."""

from __future__ import annotations
