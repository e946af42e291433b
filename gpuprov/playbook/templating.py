"""Templates in the values of playbooks: which names they use, and what they come to.

Text in, text out, places kept. A value that is exactly one ``{{ expression }}`` may also become a list
or a mapping.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuprov import yaml_text
from gpuprov.errors import InputError, Position, Problem
from gpuprov.playbook.compiled import Compiled, Mistake, compile_template, evaluate, is_template
from gpuprov.playbook.sandbox import MAX_ITEMS, MAX_OUTPUT, Forbidden, as_text, is_list, truth
from gpuprov.yaml_text import MAX_DEPTH, Node, Scalar, in_order, nearest

_MISSING = re.compile(r"there is no variable '(\w+)'")
_UNTIL_CONTACT = "facts are known only after the host was contacted"
_MAX_WEIGHT = 8 * MAX_OUTPUT
_NODE_WEIGHT = 64


@dataclass(frozen=True)
class Reference:
    """A name that a template uses but does not set.

    Attributes:
        path: the name and the attributes after it, as far as they are written out: ``("facts", "os", "id")``.
        optional: the template says itself what to do without it (``default``, ``is defined``).
        tested: it asks whether it is there (``is defined``).
    """

    path: tuple[str, ...]
    position: Position
    optional: bool = False
    tested: bool = False

    @property
    def name(self) -> str:
        """The variable."""
        return self.path[0]


@dataclass(frozen=True)
class Expression:
    """The text of a Jinja expression, as in ``when``, and where it stands."""

    text: str
    position: Position = field(compare=False)
    literal: bool = field(default=False, compare=False)

    def names(self) -> frozenset[Reference]:
        """Return the names that it uses.

        Raises:
            InputError: it is no expression.
        """
        scalar = self._scalar()
        return _references(_compiled(scalar, expression=True), scalar)

    def evaluate(self, variables: Mapping[str, object]) -> bool:
        """Return whether it holds.

        Raises:
            InputError: it is no expression, uses what is not there, or comes to neither true nor false.
        """
        scalar = self._scalar()
        value = _value(_compiled(scalar, expression=True), scalar, variables)
        answer = truth(value) if isinstance(value, str) else value
        if isinstance(answer, bool):
            return answer
        found = repr(value)[:60] if isinstance(value, str | int | float) else f"a {type(value).__name__}"
        raise InputError(Problem(f"the condition must come to true or false, not {found}", self.position))

    def _scalar(self) -> Scalar:
        return Scalar(self.text, self.position, True, self.literal)


class Values(Mapping[str, object]):
    """What templates see, where a variable can also be had as the node that it is."""

    def node(self, name: str) -> Node | None:
        """Return a variable as a node with its place; None if it is known only as a value."""
        raise NotImplementedError


def names(node: Node) -> frozenset[Reference]:
    """Return the names that the templates in a node use but do not set.

    Raises:
        InputError: templates in it are wrong; all of them at once.
    """
    found, problems = names_and_problems(node)
    if problems:
        raise InputError(problems)
    return found


def names_and_problems(node: Node) -> tuple[frozenset[Reference], list[Problem]]:
    """Return the names that the right templates in a node use but do not set, and what is wrong with the others."""
    found: set[Reference] = set()
    problems: list[Problem] = []
    for scalar in yaml_text.scalars(node):
        if is_template(scalar.text):
            try:
                found |= _references(_compiled(scalar), scalar)
            except InputError as error:
                problems += error.problems
    return frozenset(found), in_order(problems)


def needs_facts(node: Node | Expression, variables: Mapping[str, Node] | None = None) -> bool:
    """Say whether a value is known only after contact: it uses ``facts``, or a variable that does.

    Raises:
        InputError: a template is wrong.
    """
    return "facts" in all_names(node, variables)


def all_names(node: Node | Expression, variables: Mapping[str, Node] | None = None) -> frozenset[str]:
    """Return the names that a value uses, and that the variables among them use.

    Raises:
        InputError: a template is wrong.
    """
    seen: set[str] = set()
    ahead: list[Node | Expression] = [node]
    while ahead:
        current = ahead.pop()
        used = current.names() if isinstance(current, Expression) else names(current)
        for name in {reference.name for reference in used} - seen:
            seen.add(name)
            if variables is not None and name in variables:
                ahead.append(variables[name])
    return frozenset(seen)


def render(node: Node, variables: Mapping[str, object]) -> Node:
    """Return the node with every template replaced by what it comes to.

    Text stays text. A scalar that is exactly one ``{{ expression }}`` becomes the list or mapping that
    it comes to, and null if it comes to ``none``; one that is nothing but a variable of `Values` becomes
    that variable's node, with the place where it was set. Keys are not templates.

    Raises:
        InputError: with every template that comes to nothing.
    """
    problems: list[Problem] = []
    result = _rendered(node, variables, problems)
    if result is not node and not problems and _weight(result, 0) > _MAX_WEIGHT:
        problems.append(Problem("the templates in it come to too much, or nest too deeply", node.position))
    if problems:
        raise InputError(in_order(problems))
    return result


def _rendered(node: Node, variables: Mapping[str, object], problems: list[Problem]) -> Node:
    match node:
        case yaml_text.Sequence():
            items = tuple(_rendered(item, variables, problems) for item in node.items)
            return dataclasses.replace(node, items=items)
        case yaml_text.Mapping():
            entries = tuple((key, _rendered(value, variables, problems)) for key, value in node.entries)
            return dataclasses.replace(node, entries=entries)
    if not is_template(node.text):
        return node
    try:
        compiled = _compiled(node)
        if compiled.variable and isinstance(variables, Values) and compiled.variable in variables:
            known = variables.node(compiled.variable)
            if known is not None:
                return known
        value = _value(compiled, node, variables)
        if not compiled.single:
            return dataclasses.replace(node, text=str(value))
        return _as_node(value, node)
    except InputError as error:
        problems += error.problems
        return node


def _weight(node: Node, depth: int) -> int:
    """Return roughly how many bytes a node stands for, at least when that is not too many; nesting counts as many."""
    if isinstance(node, Scalar):
        return _NODE_WEIGHT + len(node.text)
    if depth >= MAX_DEPTH:
        return _MAX_WEIGHT + 1
    total = _NODE_WEIGHT
    for inner in node.items if isinstance(node, yaml_text.Sequence) else (value for _, value in node.entries):
        total += _weight(inner, depth + 1)
        if total > _MAX_WEIGHT:
            break
    return total


def _compiled(scalar: Scalar, *, expression: bool = False) -> Compiled:
    if expression and is_template(scalar.text):
        raise InputError(Problem("a condition is an expression already", scalar.position, "leave out {{ }} and {% %}"))
    try:
        return compile_template(scalar.text, expression=expression)
    except Mistake as mistake:
        raise InputError(_problem(mistake, scalar)) from None


def _value(compiled: Compiled, scalar: Scalar, variables: Mapping[str, object]) -> object:
    used = sorted({use.path[0] for use in compiled.uses})
    values = {name: variables[name] for name in used if name in variables}
    try:
        return evaluate(compiled, values)
    except Mistake as mistake:
        if missing := _MISSING.search(mistake.message):
            mistake.hint = _UNTIL_CONTACT if missing[1] == "facts" else nearest(missing[1], variables)
        raise InputError(_problem(mistake, scalar)) from None


def _references(compiled: Compiled, scalar: Scalar) -> frozenset[Reference]:
    return frozenset(Reference(use.path, _place(scalar, use.line), use.optional, use.tested) for use in compiled.uses)


def _problem(mistake: Mistake, scalar: Scalar) -> Problem:
    return Problem(f"the template is wrong: {mistake.message}", _place(scalar, mistake.line), mistake.hint)


def _place(scalar: Scalar, line: int) -> Position:
    """Return the place of a line of a template: its own in a ``|`` block, otherwise where the value begins."""
    if not scalar.literal or not 1 <= line <= scalar.text.count("\n") + 1:
        return scalar.position
    return Position(scalar.position.file, scalar.position.line + line, 1)


def _as_node(value: object, scalar: Scalar) -> Node:
    """Return what an expression came to as nodes that stand where the expression does."""
    left = MAX_ITEMS

    def convert(value: object, depth: int) -> Node:
        nonlocal left
        left -= 1 + (len(value) // _NODE_WEIGHT if isinstance(value, str) else 0)
        if left < 0 or depth > MAX_DEPTH:
            raise Forbidden("it comes to too much, or nests too deeply")
        if value is None:
            return Scalar("", scalar.position)
        if isinstance(value, dict):
            entries = {as_text(key): convert(item, depth + 1) for key, item in value.items()}
            keys = (Scalar(key, scalar.position, True) for key in entries)
            return yaml_text.Mapping(tuple(zip(keys, entries.values(), strict=True)), scalar.position)
        if is_list(value):
            items = tuple(convert(item, depth + 1) for item in value)  # type: ignore[attr-defined]  # is_list saw to it
            return yaml_text.Sequence(items, scalar.position)
        return Scalar(as_text(value), scalar.position, True)

    try:
        return convert(value, 0)
    except Exception as error:
        # A lazy filter such as map() computes only here, and raises whatever the expression makes it raise.
        raise InputError(_problem(Mistake(str(error) or type(error).__name__), scalar)) from None
