"""What runs on what: tables with a source on every row (TOML), and typed look-ups over them."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any


def table(name: str) -> dict[str, Any]:
    """Return the table ``NAME.toml`` of this package as plain data, read anew: keep what you make of it."""
    return tomllib.loads(resources.files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))
