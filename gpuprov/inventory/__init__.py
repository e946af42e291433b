"""Hosts, groups and patterns."""

from __future__ import annotations
