"""What can be known to be wrong before any host is contacted: all of it, at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuprov.engine.options import Options
from gpuprov.errors import InputError, Problem
from gpuprov.facts import FACT_FIELDS
from gpuprov.inventory import Host, Inventory
from gpuprov.playbook import (
    Play,
    Playbook,
    RoleEntry,
    check_names,
    needs_facts,
    render,
    resolve_variables,
    variables_of,
)
from gpuprov.role import Role, SearchPath, check_value
from gpuprov.role import check_names as check_parameter_names
from gpuprov.yaml_text import Mapping, in_order, nearest


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


def check_playbook(playbook: Playbook, inventory: Inventory, limit: str | None, options: Options) -> CheckedRun:
    """Return the run that the words and files ask for.

    Raises:
        InputError: every mistake in playbook, parameters, variables, patterns and tags at once.
    """
    problems: list[Problem] = []
    limited = set(inventory.hosts) if limit is None else {h.name for h in inventory.select(limit)}
    search = SearchPath.beside(playbook.path)
    plays: list[CheckedPlay] = []
    selected_hosts: set[str] = set()
    for number, play in enumerate(playbook.plays, 1):
        try:
            chosen = [h for h in inventory.select(play.hosts, play.hosts_position) if h.name in limited]
        except InputError:
            chosen = []  # told, with its place, by check_names
        entries = []
        for entry in play.roles:
            try:
                role = search.find(entry.role, entry.position)
            except InputError as error:
                problems += error.problems
                continue
            problems += check_parameter_names(role, entry.params, entry.position)
            problems += _value_problems(role, play, entry.params, chosen, options)
            entries.append(CheckedEntry(entry=entry, role=role, selected=_is_selected(play, entry, options)))
        names = frozenset(h.name for h in chosen)
        selected_hosts |= names
        plays.append(CheckedPlay(number=number, play=play, hosts=names, entries=tuple(entries)))
    hosts = tuple(h for h in inventory.hosts.values() if h.name in selected_hosts)
    problems += check_names(playbook, inventory, hosts, options.extra, FACT_FIELDS)
    problems += _tag_problems(playbook, options)
    problems += _twice(hosts)
    if not hosts and not problems:
        problems.append(Problem(f"no play of {playbook.path} is for a host of {limit!r}"))
    if problems:
        raise InputError(in_order(problems))
    shadowing = sorted({e.role.name for p in plays for e in p.entries if search.shadows_builtin(e.role)})
    return CheckedRun(playbook=playbook, plays=tuple(plays), hosts=hosts, shadowing=tuple(shadowing))


def _value_problems(
    role: Role, play: Play, params: Mapping, hosts: Sequence[Host], options: Options
) -> Iterable[Problem]:
    """Return what is wrong with values that are known already, for any of the hosts."""
    problems: dict[Problem, None] = {}
    for key, node in params.entries:
        for host in hosts:
            try:
                if needs_facts(node, variables_of(host, play, options.extra)):
                    continue
                rendered = render(node, resolve_variables(host, play, options.extra))
            except InputError:
                continue  # an undefined name: found, for all of them, by check_names
            problems.update(dict.fromkeys(check_value(role, key.text, rendered)))
    return problems


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
    return [
        Problem(
            f"no play or role of {playbook.path} has the tag {tag!r}",
            hint=nearest(tag, known) or "it has: " + (", ".join(sorted(known)) or "none"),
        )
        for tag in sorted((options.tags | options.skip_tags) - known - {"always"})
    ]
