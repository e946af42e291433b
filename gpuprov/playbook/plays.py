"""A playbook: plays, each with hosts and the roles that they get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpuprov import yaml_text
from gpuprov.errors import Position
from gpuprov.playbook.templating import Expression
from gpuprov.yaml_text import Node


@dataclass(frozen=True, kw_only=True)
class RoleEntry:
    """One role in a play, with its parameters as written.

    Attributes:
        params: an empty mapping when there are none.
        tags: its own; those of the play apply as well.
        when: None: always.
    """

    role: str
    params: yaml_text.Mapping
    tags: frozenset[str] = frozenset()
    when: Expression | None = None
    position: Position = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class Play:
    """Some hosts and the roles that they get.

    Attributes:
        name: the pattern in ``hosts`` when none was given.
        hosts: a pattern, see `gpuprov.inventory.patterns`; it stands at ``hosts_position``.
    """

    name: str
    hosts: str
    vars: Mapping[str, Node] = field(default_factory=dict)
    roles: tuple[RoleEntry, ...] = ()
    tags: frozenset[str] = frozenset()
    when: Expression | None = None
    position: Position = field(compare=False)
    hosts_position: Position = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class Playbook:
    """The plays of one file, in order."""

    path: Path
    plays: tuple[Play, ...]
