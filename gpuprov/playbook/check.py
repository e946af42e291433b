"""Names that nobody defines, found before any host is contacted: for every play and every host in it."""

from __future__ import annotations

import graphlib
from collections.abc import Collection, Iterable, Mapping, Sequence

from gpuprov import yaml_text
from gpuprov.errors import InputError, Position, Problem
from gpuprov.inventory import Host, Inventory
from gpuprov.playbook.grounds import Ground, grounds_of
from gpuprov.playbook.known import Known
from gpuprov.playbook.plays import Play, Playbook
from gpuprov.playbook.templating import Expression, Reference, names_and_problems
from gpuprov.playbook.variables import HOST_FIELDS, Layers
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

    A name that is missing on some hosts only is told once, with these hosts; not where a condition that can be decided
    already keeps the role from them. Where mistakes in the files hide who
    the hosts are, or which variables there are, only what is wrong whatever these are is told.
    """
    problems: list[Problem] = []
    known_facts = [tuple(name.split(".")) for name in fact_fields]
    wanted = None if hosts is None else tuple(hosts)
    uses = _Uses()
    owners = [host.vars for host in inventory.hosts.values()] + [play.vars for play in playbook.plays]
    anywhere = {*extra, *(name for owned in owners for name in owned)}
    found = _Findings()
    for play in playbook.plays:
        if "hosts" not in play.unread:
            problems += inventory.pattern_problems(play.hosts, play.hosts_position)
        grounds = grounds_of(play, inventory, wanted, extra, extra_known=extra_known)
        found.begin(grounds)
        for ground in grounds:
            known = Known(ground, host_known=not inventory.problems)
            _Judge(play, ground, known, uses, known_facts, anywhere, found).judge()
        problems += uses.problems
    return in_order([*problems, *found.problems()])


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


class _Findings:
    """What is wrong, and for which hosts. What several plays meet at one place is one finding."""

    def __init__(self) -> None:
        self._wrong: dict[tuple[Position, str], dict[str, None]] = {}
        self._maybe: dict[tuple[Position, str], dict[str, None]] = {}
        self._judged: dict[tuple[Position, str], set[str]] = {}
        self._hints: dict[tuple[Position, str], str] = {}
        self._hosts: set[str] = set()

    def begin(self, grounds: Iterable[Ground]) -> None:
        """Go on to the next play."""
        self._hosts = {_name(ground) for ground in grounds}

    def add(self, host: str, position: Position, message: str, hint: str = "", *, sure: bool = True) -> None:
        """Note what is wrong on a host. Not ``sure``: only if it is on every host, for on this one nothing needs it."""
        key = position, message
        (self._wrong if sure else self._maybe).setdefault(key, {})[host] = None
        self._judged.setdefault(key, set()).update(self._hosts)
        self._hints.setdefault(key, hint)

    def problems(self) -> list[Problem]:
        told = dict(self._wrong)
        for key, hosts in self._maybe.items():
            if {*hosts, *told.get(key, ())} == self._judged[key]:
                told[key] = {**hosts, **told.get(key, {})}
        return [
            Problem(
                message + _for_hosts(list(hosts), self._judged[position, message]),
                position,
                self._hints[position, message],
            )
            for (position, message), hosts in told.items()
        ]


def _for_hosts(hosts: list[str], judged: set[str]) -> str:
    if "" in hosts or judged <= set(hosts):
        return ""
    more = f" and {len(hosts) - _SHOWN} more" if len(hosts) > _SHOWN else ""
    return f" for {', '.join(hosts[:_SHOWN])}{more}"


def _name(ground: Ground) -> str:
    return ground.host.name if ground.host is not None else ""


def _place(reference: Reference) -> tuple[Position, tuple[str, ...]]:
    return reference.position, reference.path


class _Judge:
    """The names of one play on one ground.

    A name that is missing is a mistake where something needs it: not where a condition keeps the role from the host,
    and not in the part of a condition or value that the host does not get to. There it is one only if nobody at all
    has the name.
    """

    def __init__(
        self,
        play: Play,
        ground: Ground,
        known: Known,
        uses: _Uses,
        known_facts: list[tuple[str, ...]],
        anywhere: Collection[str],
        found: _Findings,
    ) -> None:
        self._play = play
        self._host = _name(ground)
        self._layers = ground.variables
        self._known = known
        self._uses = uses
        self._facts = known_facts
        self._anywhere = anywhere
        self._found = found

    def judge(self) -> None:
        play = self._play
        values = [value for entry in play.roles for _, value in entry.params.entries]
        conditions = [when for when in (play.when, *(entry.when for entry in play.roles)) if when is not None]
        graph: dict[str, set[str]] = {}
        missing = self._missing([*conditions, *play.vars.values(), *values], graph)
        self._loops(graph)
        if not missing:
            return
        self._part(play.when, ())
        for entry in play.roles:
            self._part(entry.when, (play.when,))
            for _, value in entry.params.entries:
                self._part(value, (play.when, entry.when))
        for value in play.vars.values():
            self._part(value, (play.when,), needed=False)

    def _part(self, node: Node | Expression | None, under: Sequence[Expression | None], *, needed: bool = True) -> None:
        """Judge one condition or value, and what stands behind it, where the conditions ``under`` which it is hold."""
        missing = self._missing([node], {}) if node is not None else []
        if node is None or not missing:
            return
        holds = [self._known.holds(when)[0] for when in under]
        if needed and False not in holds:
            settled = self._known.holds(node)[0] if isinstance(node, Expression) else self._known.value(node)[0]
            needed = settled is None
        open_ones = [when for when, answer in zip(under, holds, strict=True) if answer is None and when is not None]
        guarded = {use.path for when in open_ones for use in self._uses.of(when) if use.tested}
        for reference, message, hint in missing:
            whatever = reference.name in ("facts", "host")
            if not whatever and (False in holds or any(reference.path[: len(path)] == path for path in guarded)):
                continue
            there = reference.name in self._anywhere
            if needed or whatever or not there:
                self._found.add(self._host, reference.position, message, hint)
            elif reference.name in self._layers.nodes:
                self._found.add(self._host, reference.position, message, hint, sure=False)

    def _missing(
        self, nodes: Iterable[Node | Expression | None], graph: dict[str, set[str]]
    ) -> list[tuple[Reference, str, str]]:
        """Return the undefined references of nodes and of the variables behind them; ``graph``: who needs whom."""
        variables = self._layers.nodes
        ahead = [ref for node in nodes if node is not None for ref in sorted(self._uses.of(node), key=_place)]
        checked: set[Reference] = set()
        missing = []
        while ahead:
            reference = ahead.pop()
            if reference in checked:
                continue
            checked.add(reference)
            name = reference.name
            wrong = None if reference.optional else _undefined(reference, self._layers, self._facts)
            if wrong is not None:
                message, hint = wrong
                # Somebody has it: it is no slip of the pen, and a name like it is not meant.
                elsewhere = name in self._anywhere and name not in variables
                missing.append((reference, message, "" if elsewhere else hint))
            if name in variables and name not in graph:
                needed = self._uses.of(variables[name])
                graph[name] = {other.name for other in needed if other.name in variables}
                ahead += needed
        return missing

    def _loops(self, graph: dict[str, set[str]]) -> None:
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as error:
            loop: list[str] = error.args[1][::-1]
            # The same loop is told the same way, wherever the search came upon it.
            first = loop.index(min(loop))
            loop = [*loop[first:-1], *loop[:first], loop[first]]
            place = self._layers.nodes[loop[0]].position
            self._found.add(self._host, place, f"variables need each other in a loop: {' > '.join(loop)}")


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
