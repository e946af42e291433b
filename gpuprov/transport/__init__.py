"""Lines to hosts: frames over one persistent shell."""

from __future__ import annotations
