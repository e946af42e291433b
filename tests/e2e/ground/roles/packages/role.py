"""Debian packages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuprov.facts import Facts
from gpuprov.model import Resource
from gpuprov.resources import AptPackage
from gpuprov.role import role


@role
def packages(host: Facts, *, names: list[str]) -> Iterator[Resource[Any]]:
    """Install packages by name."""
    for name in names:
        yield AptPackage(name=name)
