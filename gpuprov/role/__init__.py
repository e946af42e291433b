"""Roles: generator functions that declare resources."""

from __future__ import annotations
