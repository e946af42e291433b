"""The command line: one module per command."""

from __future__ import annotations
