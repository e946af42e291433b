"""Readers of the event stream."""

from __future__ import annotations
