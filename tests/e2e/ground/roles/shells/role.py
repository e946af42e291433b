"""A snippet for every shell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuprov.facts import Facts
from gpuprov.model import Resource
from gpuprov.resources import ProfileScript
from gpuprov.role import role


@role
def shells(host: Facts) -> Iterator[Resource[Any]]:
    """Say in every shell where the workspace is."""
    yield ProfileScript(name="ground", content="GROUND=/srv/ground\nexport GROUND\n")
