"""From inventory files to hosts: everything said of a host laid over each other, and every reference checked.

Like Ansible: defaults < outer group < inner group (by name among equals) < host < ``-e``. Of several
files the later wins.
"""

from __future__ import annotations

import dataclasses
import graphlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gpuprov.errors import InputError, Position, Problem
from gpuprov.inventory.files import GroupEntry, HostEntry, Source, all_words, files_of, named_hosts, read_file
from gpuprov.inventory.hosts import Host, Inventory
from gpuprov.inventory.reader import Reader
from gpuprov.inventory.settings import Settings, endpoint
from gpuprov.model import Paths
from gpuprov.yaml_text import Node, Scalar, in_order, nearest

_LOOPS_TOLD = 10


def load_inventory(paths: Sequence[str | Path], extra: Mapping[str, Node] | None = None) -> Inventory:
    """Read and merge inventories.

    Args:
        paths: files, folders (their ``*.yaml`` and ``*.yml`` by name), or ``host1,host2,`` as text.
        extra: variables of ``-e``, which win over those of every host.

    Raises:
        InputError: with all mistakes of all files at once.
    """
    inventory = read_inventory(paths, extra)
    if inventory.problems:
        raise InputError(inventory.problems)
    return inventory


def read_inventory(paths: Sequence[str | Path], extra: Mapping[str, Node] | None = None) -> Inventory:
    """Read and merge inventories as `load_inventory` does, with all mistakes in ``problems`` of the answer.

    What holds mistakes is there as far as it could be read, so that what refers to it can be judged as well.
    """
    reader = Reader()
    sources: list[Source] = []
    whole = True
    for path in paths:
        if isinstance(path, str) and "," in path:
            sources.append(named_hosts(path, reader))
            continue
        try:
            files = files_of(Path(path))
        except InputError as error:
            reader.problems += error.problems
            whole = False
            continue
        for file in files:
            source = read_file(file, reader)
            whole = whole and source is not None
            sources += [source] if source is not None else []
    if not whole or not sources:
        # References cannot be judged while part of what they may name is missing.
        none = Problem("no inventory is given", hint="name one with -i")
        problems = tuple(in_order(reader.problems or [none]))
        return Inventory(hosts={}, groups={}, problems=problems, names_known=False, vars_known=False)
    merged = _Merged(sources, reader)
    inventory, related = merged.inventory(extra or {})
    named = bool(inventory.hosts) and all(source.named for source in sources)
    return dataclasses.replace(
        inventory,
        problems=tuple(in_order(reader.problems)),
        names_known=named,
        vars_known=named and related and not reader.lost,
    )


class _Merged:
    """All that the sources say, by name. Mistakes go to ``reader``."""

    def __init__(self, sources: Sequence[Source], reader: Reader) -> None:
        self._reader = reader
        self._start = sources[0].start
        self._defaults = Settings()
        self._hosts: dict[str, list[HostEntry]] = {}
        self._groups: dict[str, list[GroupEntry]] = {}
        for source in sources:
            self._defaults = source.defaults.over(self._defaults)
            for host in source.hosts:
                self._hosts.setdefault(host.name.text, []).append(host)
            for group in source.groups:
                self._groups.setdefault(group.name.text, []).append(group)

    def inventory(self, extra: Mapping[str, Node]) -> tuple[Inventory, bool]:
        """Return the inventory, and whether all that hosts and groups say of each other is right."""
        before = len(self._reader.problems)
        if not self._hosts and not self._reader.problems:
            self._reader.wrong(self._start, "the inventory holds no host", "add: hosts: {NAME: {address: IP}}")
        for name in self._hosts.keys() & self._groups.keys():
            self._reader.wrong(self._groups[name][0].name, f"{name!r} is the name of a host and of a group")
        parents = self._parents()
        depths = self._depths(parents)
        direct = self._direct_groups()
        hosts: dict[str, Host] = {}
        members: dict[str, list[str]] = {name: [] for name in self._groups}
        group_settings = {name: _layered(entry.settings for entry in entries) for name, entries in self._groups.items()}
        jumps: dict[str, Scalar] = {}
        for name, entries in self._hosts.items():
            groups = sorted(_closure(direct.get(name, ()), parents), key=lambda group: (depths.get(group, 0), group))
            for group in groups:
                members[group].append(name)
            own = _layered(entry.settings for entry in entries)
            said = own.over(_layered((self._defaults, *(group_settings[group] for group in groups))))
            jump = said.jump
            if jump is not None and jump.text == name and own.jump is None:
                jump = None  # said of all, so of the bastion too
            if jump is not None:
                jumps[name] = jump
            hosts[name] = _host(name, said, jump, groups, extra, entries[0].name.position)
        related = len(self._reader.problems) == before
        self._check_jumps(jumps)
        return Inventory(hosts=hosts, groups={name: tuple(found) for name, found in members.items()}), related

    def _parents(self) -> dict[str, dict[str, Scalar]]:
        """Return the parents of each group, and where each names it."""
        parents: dict[str, dict[str, Scalar]] = {name: {} for name in self._groups}
        for entries in self._groups.values():
            for entry, child in all_words(entries, "children"):
                if child.text in parents:
                    parents[child.text][entry.name.text] = child
                else:
                    hint = nearest(child.text, self._groups)
                    if child.text in self._hosts:
                        hint = "it is a host, and goes under 'hosts'"
                    self._reader.wrong(child, f"no group is called {child.text!r}", hint)
        return parents

    def _depths(self, parents: Mapping[str, dict[str, Scalar]]) -> dict[str, int]:
        """Return how many groups stand above each group. Loops are told, and cut in ``parents``."""
        for _ in range(_LOOPS_TOLD):
            try:
                order = tuple(graphlib.TopologicalSorter(parents).static_order())
            except graphlib.CycleError as error:
                loop: list[str] = error.args[1]
                # The loop is told from parent to child, each standing before the one that it is a parent of.
                parent, child = loop[-2], loop[-1]
                place = parents[child].pop(parent)
                self._reader.wrong(place, f"groups hold each other in a loop: {' > '.join(loop)}")
                continue
            depths: dict[str, int] = {}
            for group in order:
                depths[group] = max((depths[parent] + 1 for parent in parents[group]), default=0)
            return depths
        return {}

    def _direct_groups(self) -> dict[str, set[str]]:
        direct: dict[str, set[str]] = {}
        for entries in self._groups.values():
            for entry, host in all_words(entries, "hosts"):
                if host.text in self._hosts:
                    direct.setdefault(host.text, set()).add(entry.name.text)
                else:
                    hint = nearest(host.text, self._hosts) or "describe it under the file's own 'hosts'"
                    if host.text in self._groups:
                        hint = "it is a group, and goes under 'children'"
                    self._reader.wrong(host, f"no host is called {host.text!r}", hint)
        for name, found in self._hosts.items():
            for group in (group for entry in found for group in entry.groups):
                if group.text in self._groups:
                    direct.setdefault(name, set()).add(group.text)
                else:
                    hint = nearest(group.text, self._groups) or "declare it: groups: {" + group.text[:60] + ": }"
                    self._reader.wrong(group, f"no group is called {group.text!r}", hint)
        return direct

    def _check_jumps(self, jumps: Mapping[str, Scalar]) -> None:
        told: set[Position] = set()
        settled: set[str] = set()
        for name, jump in jumps.items():
            text = jump.text
            if text not in self._hosts and jump.position not in told:
                found = endpoint(text)
                if found is None or not any(char in text for char in "@.:"):
                    told.add(jump.position)
                    hint = nearest(text, self._hosts) or "write a host of the inventory, or user@host:port"
                    self._reader.wrong(jump, f"no host is called {text!r} to jump over", hint)
            way = [name]
            while way[-1] in jumps and way[-1] not in settled:
                settled.add(way[-1])
                way.append(jumps[way[-1]].text)
                if way[-1] in way[:-1]:
                    self._reader.wrong(jumps[way[-2]], f"hosts jump over each other in a loop: {' > '.join(way)}")


def _layered(layers: Iterable[Settings]) -> Settings:
    result = Settings()
    for layer in layers:
        result = layer.over(result)
    return result


def _closure(groups: Iterable[str], parents: Mapping[str, Mapping[str, Scalar]]) -> set[str]:
    """Return the groups and all that stand above them."""
    found: set[str] = set()
    ahead = list(groups)
    while ahead:
        group = ahead.pop()
        if group not in found:
            found.add(group)
            ahead += parents[group]
    return found


def _host(
    name: str, said: Settings, jump: Scalar | None, groups: Sequence[str], extra: Mapping[str, Node], place: Position
) -> Host:
    return Host(
        name=name,
        address=said.address or name,
        port=said.port,
        user=said.user,
        key=said.key,
        password=said.password,
        jump=jump.text if jump is not None else None,
        connection=said.connection or "ssh",
        known_hosts=said.known_hosts,
        host_key=said.host_key,
        gpu=said.gpu,
        become=said.become or "auto",
        groups=tuple(groups),
        vars={**said.vars, **extra},
        paths=Paths(**said.paths),
        written=said.written,
        position=place,
    )
