"""Declarations to nodes: one node per identity, ordered by references and by paths. Pure."""

from __future__ import annotations

import dataclasses
import graphlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpuprov.errors import InputError, Position, Problem
from gpuprov.model import Id, Resource, is_below


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a declaration came from. ``play`` counts from 1."""

    play: int
    role: str
    position: Position | None = None

    def __str__(self) -> str:
        return f"role {self.role}" + (f" at {self.position}" if self.position else "")


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """A resource that a role declared. ``selected``: its tags were asked for."""

    resource: Resource[Any]
    origin: Origin
    selected: bool = True


@dataclass(frozen=True, kw_only=True)
class Node:
    """One thing that the host should have, with what must be there first.

    Attributes:
        needs: ids of the nodes that come before it.
        container: the node it stands inside; one of ``needs``.
    """

    resource: Resource[Any]
    origin: Origin
    selected: bool
    needs: frozenset[Id]
    container: Id | None

    @property
    def id(self) -> Id:
        """The identity of its resource."""
        return self.resource.id


Graph = Mapping[Id, Node]
"""Nodes by id, in an order in which each comes after all that it needs."""


def build(declarations: Iterable[Declaration]) -> Graph:
    """Return the graph of the declarations.

    Raises:
        InputError: two declarations of one identity contradict each other, or needs form a ring; with all of
            them at once.
    """
    declarations = tuple(declarations)
    everything = tuple(_with_references(declarations, frozenset(d.resource.id for d in declarations)))
    merged, problems = _merge(everything)
    needs = {id_: {need.id for need in d.resource.needs()} for id_, d in merged.items()}
    for id_, extra in _united_needs(everything).items():
        needs[id_] |= extra
    containers = {id_: _explicit_container(d.resource) for id_, d in merged.items()}
    problems += _same_place(merged)
    problems += _path_edges(merged, needs, containers)
    for id_, wanted in needs.items():
        wanted.discard(id_)
    try:
        order = list(graphlib.TopologicalSorter({k: sorted(v) for k, v in needs.items()}).static_order())
    except graphlib.CycleError as error:
        ring = " needs ".join(reversed(error.args[1]))
        raise InputError([*problems, Problem(f"resources need each other in a ring: {ring}")]) from None
    if problems:
        raise InputError(problems)
    # A stable order that keeps the playbook's wherever needs leave it open is what a person expects to read.
    return {
        id_: Node(
            resource=merged[id_].resource,
            origin=merged[id_].origin,
            selected=merged[id_].selected,
            needs=frozenset(needs[id_]),
            container=containers[id_],
        )
        for id_ in _stable(order, list(merged), needs)
    }


def dependents(graph: Graph) -> dict[Id, set[Id]]:
    """Return who needs whom: for each id the ids of the nodes that need it directly."""
    out: dict[Id, set[Id]] = {id_: set() for id_ in graph}
    for node in graph.values():
        for need in node.needs:
            out[need].add(node.id)
    return out


def _with_references(declarations: Iterable[Declaration], explicit: frozenset[Id]) -> Iterator[Declaration]:
    """Yield each declaration after those it refers to: what a role builds only as a field is declared by it too.

    A reference to what some role declares itself does not select it: tags that leave that role out still do.
    """
    for declaration in declarations:
        for need in declaration.resource.needs():
            selected = declaration.selected and need.id not in explicit
            yield from _with_references([dataclasses.replace(declaration, resource=need, selected=selected)], explicit)
        yield declaration


def _united_needs(everything: Iterable[Declaration]) -> dict[Id, set[Id]]:
    united: dict[Id, set[Id]] = {}
    for declaration in everything:
        resource = declaration.resource
        united.setdefault(resource.id, set()).update(need.id for need in resource.needs())
    return united


def _merge(declarations: Iterable[Declaration]) -> tuple[dict[Id, Declaration], list[Problem]]:
    merged: dict[Id, Declaration] = {}
    problems: list[Problem] = []
    for new in declarations:
        id_ = new.resource.id
        old = merged.get(id_)
        if old is None:
            merged[id_] = new
            continue
        one = _unite(old.resource, new.resource)
        if one is None:
            problems.append(
                Problem(
                    f"{id_} is declared twice and differently: {_difference(old.resource, new.resource)}; "
                    f"by {old.origin} and by {new.origin}",
                    new.origin.position,
                )
            )
            continue
        merged[id_] = dataclasses.replace(old, resource=one, selected=old.selected or new.selected)
    return merged, problems


def _unite(old: Resource[Any], new: Resource[Any]) -> Resource[Any] | None:
    if type(old) is type(new):
        if not _differing(old, new):
            return old
        return old.merge(new)
    return None


def _differing(old: Resource[Any], new: Resource[Any]) -> list[str]:
    """Return the names of the fields that differ; a field that holds references in either is left out."""
    mine, theirs = dict(old.desired()), dict(new.desired())
    return [name for name in mine if name in theirs and mine[name] != theirs[name]]


def _difference(old: Resource[Any], new: Resource[Any]) -> str:
    if type(old) is not type(new):
        return f"as {type(old).__name__} and as {type(new).__name__}"
    words = []
    for name in _differing(old, new):
        before, after = _shown(name, getattr(old, name)), _shown(name, getattr(new, name))
        # Long values (file contents) say nothing side by side
        words.append(f"{name} {before} and {after}" if len(before + after) < 100 else name)
    return ", ".join(words)


def _shown(name: str, value: object) -> str:
    """Return a field's value as a role's author would write it."""
    if isinstance(value, bytes):
        try:
            return repr(value.decode())
        except UnicodeDecodeError:
            return f"{len(value)} bytes"
    return f"{value:04o}" if name == "mode" and isinstance(value, int) else repr(value)


def _explicit_container(resource: Resource[Any]) -> Id | None:
    container = resource.container()
    return container.id if container else None


def _same_place(merged: Mapping[Id, Declaration]) -> list[Problem]:
    """Two things of different kinds cannot stand at one path."""
    problems: list[Problem] = []
    seen: dict[str, Declaration] = {}
    for id_, declaration in merged.items():
        place = declaration.resource.place
        if place is None:
            continue
        other = seen.setdefault(place, declaration)
        if other is not declaration:
            problems.append(
                Problem(
                    f"{place} is declared as {other.resource.id} and as {id_}; by {other.origin} and by "
                    f"{declaration.origin}",
                    declaration.origin.position,
                )
            )
    return problems


def contradictions(plays: Iterable[Iterable[Declaration]]) -> list[Problem]:
    """Return where plays contradict each other: each would undo the other's work, on every run."""
    everything = [declaration for declared in plays for declaration in declared]
    merged, problems = _merge(everything)
    return problems + _same_place(merged)


def _path_edges(
    merged: Mapping[Id, Declaration], needs: dict[Id, set[Id]], containers: dict[Id, Id | None]
) -> list[Problem]:
    """Add order by paths: what lies under a declared folder or tree needs it and stands inside it.

    Where both are to go, the order turns round: what is inside goes first.
    """
    holders = {d.resource.place: id_ for id_, d in merged.items() if d.resource.holds and d.resource.place}
    problems = []
    for id_, declaration in merged.items():
        own = declaration.resource.place
        # What a command writes needs its folder too, though the command itself stands nowhere
        paths = declaration.resource.claims().paths | ({own} if own else set())
        for path in sorted(paths):
            above = [folder for folder in holders if is_below(path, folder)]
            for folder in above:
                holder = merged[holders[folder]]
                if holder.resource.present:
                    needs[id_].add(holder.resource.id)
                elif not declaration.resource.present:
                    needs[holder.resource.id].add(id_)
                else:
                    problems.append(
                        Problem(
                            f"{id_} is to stand in {folder}, which is to be removed; "
                            f"by {declaration.origin} and by {holder.origin}",
                            declaration.origin.position,
                        )
                    )
            nearest = max(above, key=len, default=None)
            if path == own and nearest and containers[id_] is None and merged[holders[nearest]].resource.present:
                containers[id_] = holders[nearest]
    return problems


def _stable(order: list[Id], declared: list[Id], needs: Mapping[Id, set[Id]]) -> list[Id]:
    """Return ids in declaration order, each preceded by what it needs and was not yet listed."""
    rank = {id_: i for i, id_ in enumerate(order)}
    out: dict[Id, None] = {}

    def visit(id_: Id) -> None:
        stack = [id_]
        while stack:
            top = stack[-1]
            missing = sorted((n for n in needs[top] if n not in out), key=rank.__getitem__)
            if missing:
                stack.append(missing[-1])
            else:
                out[stack.pop()] = None

    for id_ in declared:
        if id_ not in out:
            visit(id_)
    return list(out)
