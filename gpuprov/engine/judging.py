"""States to verdicts: what is the same, what differs, what must be looked at again. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuprov.engine.graph import Graph, Node
from gpuprov.engine.rights import Rights
from gpuprov.errors import GpuprovError, HostFailed, Unseen
from gpuprov.model import Blocked, Change, Differs, Id, Recheck, Resource, Same, Verdict

States = Mapping[Id, Any]
"""What each probe saw: a state, None for absent, or an `Unseen` error as a value."""


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What of a host bears on every node.

    Attributes:
        homeless: nodes whose folder is not there.
        rights: what we may do there.
        refused: nodes that the guard will not let change, and why.
    """

    homeless: frozenset[Id] = frozenset()
    rights: Rights = field(default_factory=Rights)
    refused: Mapping[Id, Blocked] = field(default_factory=dict)


def judge(graph: Graph, states: States, circumstances: Circumstances = Circumstances()) -> dict[Id, Verdict]:
    """Return a verdict for every node, whether it is selected or not.

    An unselected node's verdict says what would be due.
    """
    verdicts: dict[Id, Verdict] = {}
    for node in graph.values():
        verdicts[node.id] = _verdict(node, graph, states, verdicts, circumstances)
    return verdicts


def changes(verdict: Verdict) -> bool:
    """Say whether the node changes, or may."""
    return isinstance(verdict, Differs | Recheck)


def may_change(verdicts: Mapping[Id, Verdict], graph: Graph) -> bool:
    """Say whether any selected node differs, or may."""
    return any(changes(verdicts[node.id]) for node in graph.values() if node.selected)


def provisional(verdict: Verdict) -> Change | None:
    """Return the change that is due as things stand."""
    match verdict:
        case Differs(change):
            return change
        case Recheck(now=change):
            return change
    return None


def plan_of(node: Node, state: Any) -> Change | None:
    """Return the change due for a state.

    Raises:
        HostFailed: the state forbids it, or the resource's own code failed (named as such).
    """
    if isinstance(state, Unseen):
        raise state
    try:
        return node.resource.plan(state)
    except GpuprovError:
        raise
    except Exception as error:
        raise HostFailed(
            f"{type(node.resource).__name__}.plan failed: {type(error).__name__}: {error}",
            where=node.id,
            hint="this is a bug in the resource, not in your playbook",
        ) from error


def _verdict(
    node: Node, graph: Graph, states: States, verdicts: Mapping[Id, Verdict], circumstances: Circumstances
) -> Verdict:
    if node.id in circumstances.refused:
        return circumstances.refused[node.id]
    for need in sorted(node.needs):
        verdict = verdicts[need]
        if isinstance(verdict, Blocked):
            return Blocked(f"needs {need}, which is blocked")
        if node.selected and not graph[need].selected and changes(verdict):
            return Blocked(f"needs {need}, which is not in place and not selected by the tags")
    state, container = states.get(node.id), None
    if node.container is not None:
        container = verdicts[node.container]
        change = provisional(container)
        if change is not None and change.action in ("create", "replace"):
            # It stands in what is only about to be made: whatever was seen there will be gone.
            return _planned_from_absent(node, container, circumstances)
        if change is not None and change.action == "remove" and node.resource.present:
            return Blocked(f"stands in {node.container}, which is about to be removed")
    changing = tuple(
        sorted(
            need
            for need in node.needs
            if changes(verdicts[need]) and _bears(node.resource, graph[need].resource, state)
        )
    )
    try:
        change = plan_of(node, state)
        if change is not None:
            _check_home(node, change, circumstances)
    except HostFailed as error:
        if changing:
            return Recheck(changing, None)
        return _blocked(error)
    if refused := _without_rights(node, change, circumstances):
        return refused
    if changing:
        return Recheck(changing, change)
    return Differs(change) if change else Same()


def _bears(resource: Resource[Any], need: Resource[Any], state: Any) -> bool:
    return isinstance(state, Unseen) or resource.bears(need, state)


def _check_home(node: Node, change: Change, circumstances: Circumstances) -> None:
    """Raise HostFailed for a change that needs a folder which is not there as things are."""
    if change.action == "create" and node.id in circumstances.homeless:
        raise HostFailed(
            f"its folder {posixpath.dirname(node.resource.place or '')} is not there",
            hint="declare a Directory for it, or name in `after` what brings it",
        )


def _without_rights(node: Node, change: Change | None, circumstances: Circumstances) -> Blocked | None:
    """Return why a change cannot be made by whom we are: nothing that changes before it gives more rights."""
    if change is None:
        return None
    try:
        circumstances.rights.check(node.resource, change)
    except HostFailed as error:
        return _blocked(error)
    return None


def _blocked(error: HostFailed) -> Blocked:
    return Blocked(error.message, unseen=isinstance(error, Unseen), output=error.output, hint=error.hint)


def _planned_from_absent(node: Node, container: Verdict, circumstances: Circumstances) -> Verdict:
    try:
        change = plan_of(node, None)
    except HostFailed as error:
        return _blocked(error)
    if refused := _without_rights(node, change, circumstances):
        return refused
    if isinstance(container, Recheck):
        return Recheck(container.after, change)
    return Differs(change) if change else Same()
