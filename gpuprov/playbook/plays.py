"""A playbook: plays, each with hosts and the roles that they get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpuprov import yaml_text
from gpuprov.errors import Position, Problem
from gpuprov.playbook.templating import Expression
from gpuprov.yaml_text import Node


@dataclass(frozen=True, kw_only=True)
class RoleEntry:
    """One role in a play, with its parameters as written.

    Attributes:
        params: an empty mapping when there are none.
        tags: its own; those of the play apply as well.
        when: None: always.
        unread: which of ``params`` and ``tags`` hold mistakes, so that not all of them is known.
    """

    role: str
    params: yaml_text.Mapping
    tags: frozenset[str] = frozenset()
    when: Expression | None = None
    unread: frozenset[str] = frozenset()
    position: Position = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class Play:
    """Some hosts and the roles that they get.

    Attributes:
        name: the pattern in ``hosts`` when none was given.
        hosts: a pattern, see `gpuprov.inventory.patterns`; it stands at ``hosts_position``.
        unread: which of ``hosts``, ``vars``, ``tags`` and ``roles`` hold mistakes, so that not all of them is known.
    """

    name: str
    hosts: str
    vars: Mapping[str, Node] = field(default_factory=dict)
    roles: tuple[RoleEntry, ...] = ()
    tags: frozenset[str] = frozenset()
    when: Expression | None = None
    unread: frozenset[str] = frozenset()
    position: Position = field(compare=False)
    hosts_position: Position = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class Playbook:
    """The plays of one file, in order.

    Attributes:
        problems: what is wrong in the file; none in one that is run.
        whole: everything in the list is a play that could be read, be it with mistakes.
    """

    path: Path
    plays: tuple[Play, ...]
    problems: tuple[Problem, ...] = ()
    whole: bool = True

    @property
    def tags_known(self) -> bool:
        """Whether no tag is missing on account of a mistake."""
        unread = [play.unread for play in self.plays] + [entry.unread for play in self.plays for entry in play.roles]
        return self.whole and not any(parts & {"tags", "roles"} for parts in unread)
