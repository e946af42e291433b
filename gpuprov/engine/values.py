"""What conditions and parameters come to, as far as that is known before any host is contacted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from gpuprov.errors import InputError, Position, Problem
from gpuprov.playbook import Expression, Ground, Play, RoleEntry, Variables, all_names, render
from gpuprov.playbook.variables import host_value
from gpuprov.role import Role, check_value
from gpuprov.yaml_text import Node


class Values:
    """The values of one play, on all the grounds that it is judged on.

    Args:
        play: the play.
        grounds: its hosts with their variables, or what is sure of them.
        host_known: ``host`` in templates is what it will be.
        told: where something is wrong already, so that what depends on it is left alone.
    """

    def __init__(self, play: Play, grounds: Sequence[Ground], *, host_known: bool, told: Collection[Position]) -> None:
        self._play = play
        self._told = set(told)
        self._grounds = [_Seen(ground, host_known, self._told) for ground in grounds]

    def conditions(self) -> Iterator[Problem]:
        """Yield what is wrong with the conditions, on any of the grounds; a role's counts where its play's holds."""
        for seen in self._grounds:
            holds, problems = seen.holds(self._play.when)
            yield from self._once(problems)
            for entry in self._play.roles if holds else ():
                yield from self._once(seen.holds(entry.when)[1])

    def parameters(self, role: Role, entry: RoleEntry) -> Iterator[Problem]:
        """Yield what is wrong with the values of a role's parameters, on any of the grounds.

        Where a condition keeps the role from a host, its templates are not looked at; where it may, one that
        comes to nothing is no mistake yet.
        """
        holding = [(seen, [seen.holds(when)[0] for when in (self._play.when, entry.when)]) for seen in self._grounds]
        for key, node in entry.params.entries:
            try:
                fixed = not all_names(node)
            except InputError:
                continue  # told when the file was read
            if fixed:
                yield from self._fixed(role, key.text, node)
                continue
            for seen, holds in holding:
                if False in holds:
                    continue
                rendered, problems = seen.value(node)
                if rendered is not None:
                    yield from check_value(role, key.text, rendered)
                elif None not in holds:
                    yield from self._once(problems)

    def _fixed(self, role: Role, name: str, node: Node) -> Iterator[Problem]:
        """A value that uses no name is the same for everybody, also where nobody is known."""
        try:
            rendered = render(node, {})
        except InputError as error:
            yield from self._once(error.problems)
            return
        yield from check_value(role, name, rendered)

    def _once(self, problems: Sequence[Problem]) -> list[Problem]:
        """Return what is wrong at places where nothing was yet; on another host it may read a little differently."""
        new = [problem for problem in problems if problem.position not in self._told]
        self._told |= {problem.position for problem in new if problem.position is not None}
        return new


class _Seen:
    """What templates see on one ground."""

    def __init__(self, ground: Ground, host_known: bool, told: Collection[Position]) -> None:
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
        if "facts" in used or ("host" in used and not self._can_see_host):
            return False
        if not self._whole and not used <= {*self._nodes, "host"}:
            return False
        return not any(self._nodes[name].position in self._told for name in used if name in self._nodes)
