"""docs/roles.md says of every resource which fields it has."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from gpuprov import resources
from gpuprov.model import Resource

PAGE = Path(__file__).parents[2] / "docs" / "roles.md"


def row(cls: type[Resource[object]]) -> str:
    common = {field.name for field in dataclasses.fields(Resource)}
    cells = []
    for field in dataclasses.fields(cls):
        if field.init and field.name not in common:
            needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            cells.append(f"**`{field.name}`**" if needed else f"`{field.name}`")
    return f"| `{cls.__name__}` | {', '.join(cells)} |"


def test_every_resource_is_there_with_its_fields() -> None:
    kinds = [getattr(resources, name) for name in resources.__all__]
    rows = [row(kind) for kind in kinds if isinstance(kind, type) and issubclass(kind, Resource)]
    told = [line for line in PAGE.read_text().partition("## Fields")[2].splitlines() if line.startswith("| `")]
    assert sorted(told) == sorted(rows)
