"""What can be known to be wrong before any host is contacted: all of it, at once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuprov import guard
from gpuprov.engine.options import Options
from gpuprov.engine.values import Values
from gpuprov.errors import InputError, Problem
from gpuprov.facts import FACT_FIELDS
from gpuprov.inventory import Host, Inventory
from gpuprov.playbook import Expression, Play, Playbook, RoleEntry, all_names, check_names, grounds_of
from gpuprov.role import Role, SearchPath
from gpuprov.role import check_names as check_parameter_names
from gpuprov.yaml_text import Node, in_order, nearest


@dataclass(frozen=True, kw_only=True)
class CheckedEntry:
    """A role entry, its role, and whether the tags asked for it."""

    entry: RoleEntry
    role: Role
    selected: bool


@dataclass(frozen=True, kw_only=True)
class CheckedPlay:
    """A play whose names are all known. ``number`` counts from 1; ``hosts`` are inventory names."""

    number: int
    play: Play
    hosts: frozenset[str]
    entries: tuple[CheckedEntry, ...]

    @property
    def title(self) -> str:
        """What to call it."""
        return self.play.name or f"play {self.number}"


@dataclass(frozen=True, kw_only=True)
class CheckedRun:
    """A playbook that can be run: which hosts, and what shadows what came with gpuprov."""

    playbook: Playbook
    plays: tuple[CheckedPlay, ...]
    hosts: tuple[Host, ...]
    shadowing: tuple[str, ...]
    unused: tuple[Problem, ...] = ()
    """Variables that were typed after ``-e`` and that nothing uses: a name may be misspelt."""


def check_playbook(
    playbook: Playbook, inventory: Inventory, limit: str | None, options: Options, told: Sequence[Problem] = ()
) -> CheckedRun:
    """Return the run that the words and files ask for.

    Args:
        playbook: as it was read, mistakes included.
        inventory: likewise.
        limit: of the hosts of the inventory, only those of this pattern.
        options: what else was asked for.
        told: what is wrong with the variables of ``-e``.

    Raises:
        InputError: every mistake in inventory, playbook, parameters, variables, patterns and tags at once. What
            cannot be judged on account of another mistake is not among them.
    """
    problems = [*told, *inventory.problems, *playbook.problems]
    limited = _limited(inventory, limit, problems)
    search = SearchPath.beside(playbook.path)
    problems += check_names(playbook, inventory, limited, options.extra, FACT_FIELDS, extra_known=not told)
    # Values that fail where a name is wrong already would only say the same again.
    places = {problem.position for problem in problems if problem.position is not None and not problem.as_meant}
    plays: list[CheckedPlay] = []
    trace = ""
    for number, play in enumerate(playbook.plays, 1):
        grounds = grounds_of(play, inventory, limited, options.extra, extra_known=not told)
        values = Values(play, grounds, host_known=not inventory.problems, told=places)
        problems += values.conditions()
        entries = []
        for entry in play.roles:
            try:
                role = search.find(entry.role, entry.position)
            except InputError as error:
                problems += error.problems
                trace += error.trace
                continue
            whole = "params" not in entry.unread
            problems += check_parameter_names(role, entry.params, entry.position, whole=whole)
            problems += values.parameters(role, entry)
            entries.append(CheckedEntry(entry=entry, role=role, selected=_is_selected(play, entry, options)))
        names = frozenset(ground.host.name for ground in grounds if ground.host is not None)
        plays.append(CheckedPlay(number=number, play=play, hosts=names, entries=tuple(entries)))
    hosts = tuple(h for h in inventory.hosts.values() if any(h.name in play.hosts for play in plays))
    problems += _tag_problems(playbook, options)
    if not inventory.problems:
        problems += _twice(hosts)
    # Where mistakes hide which hosts the plays are for, all that the run may touch are judged.
    problems += guard.protected_paths(hosts if inventory.vars_known else limited or ())
    if not hosts and not problems:
        problems.append(Problem(f"no play of {playbook.path} is for a host of {limit!r}"))
    if problems:
        raise InputError(in_order(problems), trace=trace)
    shadowing = sorted({e.role.name for p in plays for e in p.entries if search.shadows_builtin(e.role)})
    return CheckedRun(
        playbook=playbook,
        plays=tuple(plays),
        hosts=hosts,
        shadowing=tuple(shadowing),
        unused=_unused(playbook, hosts, options.extra),
    )


def _unused(playbook: Playbook, hosts: Iterable[Host], extra: Mapping[str, Node]) -> tuple[Problem, ...]:
    """Return the variables typed after ``-e`` that no template uses; those of a file may be meant for other plays."""
    typed = {name: node.position for name, node in extra.items() if node.position.file == "-e"}
    if not typed:
        return ()
    nodes: list[Node | Expression | None] = [*extra.values()]
    for play in playbook.plays:
        nodes += [play.when, *play.vars.values()]
        nodes += [node for entry in play.roles for node in (entry.when, entry.params)]
    nodes += [node for host in hosts for node in host.vars.values()]
    used: set[str] = set()
    for node in nodes:
        if node is None:
            continue
        with contextlib.suppress(InputError):  # a wrong template that nothing uses is no mistake of this run
            used |= all_names(node)
    return tuple(
        Problem(f"nothing uses the variable {name!r} of -e", position, nearest(name, used - {"facts", "host"}))
        for name, position in typed.items()
        if name not in used
    )


def _limited(inventory: Inventory, limit: str | None, problems: list[Problem]) -> tuple[Host, ...] | None:
    """Return the hosts that the run may touch; None where mistakes hide which these are."""
    if limit is None:
        return tuple(inventory.hosts.values())
    wrong = inventory.pattern_problems(limit)
    problems += wrong
    return inventory.select(limit) if inventory.vars_known and not wrong else None


def _is_selected(play: Play, entry: RoleEntry, options: Options) -> bool:
    tags = play.tags | entry.tags
    wanted = not options.tags or bool(tags & options.tags) or "always" in tags
    return wanted and not tags & options.skip_tags


def _twice(hosts: Iterable[Host]) -> list[Problem]:
    """Return who is another one's machine: both at once would take its lock from each other."""
    first: dict[tuple[object, ...], Host] = {}
    problems = []
    for host in hosts:
        there = (host.connection, host.address, host.port or 22, host.jump, host.user, host.paths.state)
        other = first.setdefault(there, host)
        if other is not host and host.connection == "ssh":
            problems.append(
                Problem(
                    f"host {host.name!r} is the machine of {other.name!r}: {host.address}, port {host.port or 22}",
                    host.position,
                    f"leave one of them out, such as with -l '!{host.name}'",
                )
            )
    return problems


def _tag_problems(playbook: Playbook, options: Options) -> list[Problem]:
    known = {tag for play in playbook.plays for tag in play.tags}
    known |= {tag for play in playbook.plays for entry in play.roles for tag in entry.tags}
    if not playbook.tags_known:
        return []
    return [
        Problem(
            f"no play or role of {playbook.path} has the tag {tag!r}",
            hint=nearest(tag, known) or "it has: " + (", ".join(sorted(known)) or "none"),
        )
        for tag in sorted((options.tags | options.skip_tags) - known - {"always"})
    ]
