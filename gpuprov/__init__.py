"""gpuprov: provision and repair rented GPU hosts over SSH."""

from __future__ import annotations

__version__ = "0.1.0"
