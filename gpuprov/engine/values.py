"""What conditions and parameters come to, as far as that is known before any host is contacted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprov.errors import InputError, Position, Problem
from gpuprov.playbook import Ground, Known, Play, RoleEntry, all_names, render
from gpuprov.role import Role, check_value
from gpuprov.yaml_text import Node


class Values:
    """The values of one play, on all the grounds that it is judged on.

    Args:
        play: the play.
        grounds: its hosts with their variables, or what is sure of them.
        host_known: ``host`` in templates is what it will be.
        told: where something is wrong already, so that what depends on it is left alone; what is found is added.
    """

    def __init__(self, play: Play, grounds: Sequence[Ground], *, host_known: bool, told: set[Position]) -> None:
        self._play = play
        self._told = told
        self._grounds = [Known(ground, host_known=host_known, told=told) for ground in grounds]

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
