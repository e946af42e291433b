"""What conditions and values come to on one ground, as far as that is known before its host is contacted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gpuprov.errors import InputError, Position, Problem
from gpuprov.playbook.grounds import Ground
from gpuprov.playbook.templating import Expression, all_names, render
from gpuprov.playbook.variables import Variables, host_value
from gpuprov.yaml_text import Node, is_known


class Known:
    """What templates see on one ground.

    Args:
        ground: a host and its variables, or what is sure of them.
        host_known: ``host`` in templates is what it will be.
        told: where something is wrong already, so that what depends on it is not known.
    """

    def __init__(self, ground: Ground, *, host_known: bool, told: Collection[Position] = ()) -> None:
        self._nodes = ground.variables.nodes
        self._whole = ground.variables.whole
        self._told = told
        known: Mapping[str, object] = (
            {"host": host_value(ground.host)} if ground.host is not None and host_known else {}
        )
        self._can_see_host = bool(known)
        self._variables = Variables(self._nodes, known)

    def holds(self, when: Expression | None) -> tuple[bool | None, Sequence[Problem]]:
        """Return whether a condition holds, or None where that is not known; and what is wrong with it."""
        if when is None:
            return True, ()
        if not self._is_known(when):
            return None, ()
        try:
            return when.evaluate(self._variables), ()
        except InputError as error:
            return None, error.problems

    def value(self, node: Node) -> tuple[Node | None, Sequence[Problem]]:
        """Return what a value comes to, or None where that is not known; and what is wrong with it."""
        if not self._is_known(node):
            return None, ()
        try:
            return render(node, self._variables), ()
        except InputError as error:
            return None, error.problems

    def _is_known(self, node: Node | Expression) -> bool:
        """Say whether all that a value depends on is known, and right."""
        try:
            used = all_names(node, self._nodes)
        except InputError:
            return False
        values = [self._nodes[name] for name in used if name in self._nodes]
        if not all(is_known(value) for value in (values if isinstance(node, Expression) else [node, *values])):
            return False
        if "facts" in used or ("host" in used and not self._can_see_host):
            return False
        if not self._whole and not used <= {*self._nodes, "host"}:
            return False
        return not any(value.position in self._told for value in values)
