"""Plays and role entries, as people write them."""

from __future__ import annotations
