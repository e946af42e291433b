"""Names that nobody defines, found before any host is contacted: for every play and every host in it."""

from __future__ import annotations

import graphlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from gpuprov import yaml_text
from gpuprov.errors import InputError, Position, Problem
from gpuprov.inventory import Host, Inventory
from gpuprov.playbook.plays import Play, Playbook
from gpuprov.playbook.templating import Expression, Reference, names_and_problems
from gpuprov.playbook.variables import HOST_FIELDS, Layers, sure_variables
from gpuprov.yaml_text import Node, in_order, nearest

_DICT_METHODS = frozenset({"get", "items", "keys", "values"})
_SHOWN = 5


def check_names(
    playbook: Playbook,
    inventory: Inventory,
    hosts: Iterable[Host] | None,
    extra: Mapping[str, Node],
    fact_fields: Collection[str],
    *,
    extra_known: bool = True,
) -> list[Problem]:
    """Return every name that is used and not defined, and every variable that needs itself.

    Args:
        playbook: what uses them, directly or through other variables.
        inventory: what the ``hosts`` patterns of the plays are looked up in.
        hosts: those that the run may touch; a play gets those of them that its pattern selects. None: not known.
        extra: the variables of ``-e``.
        fact_fields: the fields of ``facts``; ``os`` takes all below it, ``os.id`` only that.
        extra_known: no variable of ``-e`` is missing on account of a mistake.

    A name that is missing on some hosts only is told once, with these hosts. Where mistakes in the files hide who
    the hosts are, or which variables there are, only what is wrong whatever these are is told.
    """
    problems: list[Problem] = []
    known_facts = [tuple(name.split(".")) for name in fact_fields]
    wanted = None if hosts is None else tuple(hosts)
    uses = _Uses()
    for play in playbook.plays:
        if "hosts" not in play.unread:
            problems += inventory.pattern_problems(play.hosts, play.hosts_position)
        grounds = grounds_of(play, inventory, wanted, extra, extra_known=extra_known)
        found = _Findings()
        for ground in grounds:
            _check_host(ground, _starts(play, uses), uses, known_facts, found)
        problems += uses.problems + found.problems(len(grounds))
    return in_order(problems)


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What a play is judged on: a host and its variables. ``host`` None: whichever they are, with the sure ones."""

    host: Host | None
    variables: Layers


def grounds_of(
    play: Play, inventory: Inventory, hosts: Iterable[Host] | None, extra: Mapping[str, Node], *, extra_known: bool
) -> list[Ground]:
    """Return one ground for each host that a play gets; only one, without a host, where mistakes hide who that is."""
    known = extra_known and inventory.vars_known and not play.unread & {"hosts", "vars"}
    if hosts is None or not known or inventory.pattern_problems(play.hosts):
        return [Ground(host=None, variables=sure_variables(None, play, extra, extra_known=extra_known))]
    wanted = {host.name for host in hosts}
    selected = [host for host in inventory.select(play.hosts) if host.name in wanted]
    return [Ground(host=host, variables=sure_variables(host, play, extra)) for host in selected]


class _Uses:
    """The names that nodes use, each node looked at once. Templates that are wrong give problems."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._seen: dict[int, tuple[Node | Expression, frozenset[Reference]]] = {}

    def of(self, node: Node | Expression) -> frozenset[Reference]:
        if id(node) not in self._seen:
            self._seen[id(node)] = (node, self._names(node))
        return self._seen[id(node)][1]

    def _names(self, node: Node | Expression) -> frozenset[Reference]:
        if isinstance(node, Expression):
            try:
                return node.names()
            except InputError as error:
                self.problems += error.problems
                return frozenset()
        found, problems = names_and_problems(node)
        self.problems += problems
        return found


@dataclass
class _Findings:
    """What is wrong, and for which hosts."""

    hosts: dict[tuple[Position, str], list[str]] = field(default_factory=dict)
    hints: dict[tuple[Position, str], str] = field(default_factory=dict)

    def add(self, host: str, position: Position, message: str, hint: str = "") -> None:
        self.hosts.setdefault((position, message), []).append(host)
        self.hints.setdefault((position, message), hint)

    def problems(self, selected: int) -> list[Problem]:
        return [
            Problem(message + _for_hosts(hosts, selected), position, self.hints[position, message])
            for (position, message), hosts in self.hosts.items()
        ]


def _for_hosts(hosts: list[str], selected: int) -> str:
    if len(hosts) == selected:
        return ""
    more = f" and {len(hosts) - _SHOWN} more" if len(hosts) > _SHOWN else ""
    return f" for {', '.join(hosts[:_SHOWN])}{more}"


def _starts(play: Play, uses: _Uses) -> list[Reference]:
    """Return what the play uses itself."""
    nodes: list[Node | Expression | None] = [play.when, *play.vars.values()]
    for entry in play.roles:
        nodes += [entry.when, entry.params]
    return [reference for node in nodes if node is not None for reference in sorted(uses.of(node), key=_place)]


def _place(reference: Reference) -> tuple[Position, tuple[str, ...]]:
    return reference.position, reference.path


def _check_host(
    ground: Ground, starts: list[Reference], uses: _Uses, known_facts: list[tuple[str, ...]], found: _Findings
) -> None:
    host = ground.host.name if ground.host is not None else ""
    variables = ground.variables.nodes
    graph: dict[str, set[str]] = {}
    checked: set[Reference] = set()
    ahead = list(starts)
    while ahead:
        reference = ahead.pop()
        if reference in checked:
            continue
        checked.add(reference)
        name = reference.name
        wrong = _undefined(reference, ground.variables, known_facts)
        if wrong is not None and not reference.optional:
            found.add(host, reference.position, *wrong)
        if name in variables and name not in graph:
            needed = uses.of(variables[name])
            graph[name] = {other.name for other in needed if other.name in variables}
            ahead += needed
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        loop: list[str] = error.args[1][::-1]
        # The same loop is told the same way, wherever the search came upon it.
        first = loop.index(min(loop))
        loop = [*loop[first:-1], *loop[:first], loop[first]]
        found.add(host, variables[loop[0]].position, f"variables need each other in a loop: {' > '.join(loop)}")


def _undefined(reference: Reference, layers: Layers, known_facts: list[tuple[str, ...]]) -> tuple[str, str] | None:
    """Return what is wrong with a name and a hint, or None if it is defined, or may be."""
    name, *rest = reference.path
    variables = layers.nodes
    if name == "facts":
        if not rest or any(known[: len(rest)] == tuple(rest[: len(known)]) for known in known_facts):
            return None
        known = {".".join(fact[: len(rest)]) for fact in known_facts}
        first = nearest(rest[0], {fact[0] for fact in known_facts})
        return f"there is no fact {'.'.join(rest)!r}", nearest(".".join(rest), known) or first
    if name == "host":
        if not rest or rest[0] in HOST_FIELDS:
            return None
        return f"there is no {rest[0]!r} in 'host'", nearest(rest[0], HOST_FIELDS) or f"it has {', '.join(HOST_FIELDS)}"
    if name not in variables:
        if not layers.whole:
            return None
        return f"there is no variable {name!r}", nearest(name, (*variables, "facts", "host"))
    node: Node | None = variables[name]
    for depth, key in enumerate(rest):
        if not isinstance(node, yaml_text.Mapping) or key in _DICT_METHODS:
            return None
        inner = node.get(key)
        if inner is None:
            return f"there is no {key!r} in {'.'.join((name, *rest[:depth]))!r}", nearest(key, node.keys())
        node = inner
    return None
