"""The variables of one host in one play: who may set them, in which order, and what they come to.

Inventory < play < ``-e``. Variables may use each other; they are rendered when they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuprov import yaml_text
from gpuprov.errors import InputError, Position, Problem
from gpuprov.inventory import Host
from gpuprov.inventory.reader import Reader
from gpuprov.inventory.variables import name_problem, read_variables
from gpuprov.playbook.plays import Play
from gpuprov.playbook.sandbox import Text
from gpuprov.playbook.templating import Values, render
from gpuprov.text_file import read_text
from gpuprov.yaml_text import Node, Scalar, in_order, is_null

HOST_FIELDS = ("name", "address", "groups", "gpu")
"""What templates may ask of ``host``."""
_MAX_CHAIN = 40


def parse_extra(words: Sequence[str]) -> dict[str, Node]:
    """Read the words after ``-e``: ``name=text``, ``@file.yaml`` or ``{"name": …}``. Later ones win.

    All after the first ``=`` is the value, blanks and quotes included.

    Raises:
        InputError: with all mistakes of all words.
    """
    found, problems = read_extra(words)
    if problems:
        raise InputError(problems)
    return found


def read_extra(words: Sequence[str]) -> tuple[dict[str, Node], list[Problem]]:
    """Read the words after ``-e`` as `parse_extra` does; return what could be read, and all mistakes."""
    reader = Reader()
    found: dict[str, Node] = {}
    for word in words:
        try:
            found |= _extra(word, reader)
        except InputError as error:
            reader.problems += error.problems
    return found, in_order(reader.problems)


def _extra(word: str, reader: Reader) -> dict[str, Node]:
    start = Position("-e", 1, 1)
    if word.startswith("@"):
        path = Path(word[1:])
        path = path.expanduser() if word.startswith("@~/") else path
        return _extra_text(read_text(path), str(path), reader)
    if word.lstrip().startswith("{"):
        return _extra_text(word, "-e", reader)
    name, equals, value = word.partition("=")
    name = name.strip()
    if not equals:
        reader.wrong(start, f"{word[:60]!r} sets nothing", 'write name=value, @file.yaml or \'{"name": "value"}\'')
        return {}
    if message := name_problem(name):
        reader.wrong(start, message)
        return {}
    if any("\ud800" <= char <= "\udfff" for char in value):
        reader.wrong(start, f"the value of {name!r} is not UTF-8")
        return {}
    return {name: Scalar(value, Position("-e", 1, word.index("=") + 2), True)}


def _extra_text(text: str, file: str, reader: Reader) -> dict[str, Node]:
    node, slips = yaml_text.read(text, file)
    reader.problems += slips
    return read_variables(node, reader) if node is not None else {}


def variables_of(host: Host, play: Play, extra: Mapping[str, Node]) -> dict[str, Node]:
    """Return all variables as they are written, the strongest of each name."""
    return {**host.vars, **play.vars, **extra}


@dataclass(frozen=True, kw_only=True)
class Layers:
    """The variables that nothing overlays for reasons not known.

    Attributes:
        nodes: as they are written.
        whole: they are all that the host has.
    """

    nodes: Mapping[str, Node]
    whole: bool


def sure_variables(host: Host | None, play: Play, extra: Mapping[str, Node], *, extra_known: bool = True) -> Layers:
    """Return the variables that are sure where a mistake hides part of them: those stronger than what it hides.

    Args:
        host: None where the variables of the inventory are not known.
        play: its ``vars`` may hold a mistake.
        extra: the variables of ``-e``.
        extra_known: none of these is missing on account of a mistake.
    """
    if not extra_known:
        return Layers(nodes={}, whole=False)
    if "vars" in play.unread:
        return Layers(nodes=extra, whole=False)
    if host is None:
        return Layers(nodes={**play.vars, **extra}, whole=False)
    return Layers(nodes=variables_of(host, play, extra), whole=True)


def resolve_variables(
    host: Host, play: Play, extra: Mapping[str, Node] | None = None, facts: object | None = None
) -> Variables:
    """Return what templates see on a host in a play. ``facts`` is None until the host was contacted."""
    known: dict[str, object] = {"host": host_value(host)}
    if facts is not None:
        known["facts"] = facts
    return Variables(variables_of(host, play, extra or {}), known)


def host_value(host: Host) -> dict[str, object]:
    """Return the `HOST_FIELDS` of a host."""
    return {
        "name": Text(host.name),
        "address": Text(host.address),
        "groups": [Text(group) for group in host.groups],
        "gpu": None if host.gpu is None else Text(host.gpu),
    }


class Variables(Values):
    """Variables that are rendered when they are asked for, each once.

    Jinja sees text, lists, dictionaries and None (for null). Asking for one raises `InputError` when its
    templates come to nothing or it needs itself.
    """

    def __init__(self, nodes: Mapping[str, Node], known: Mapping[str, object]) -> None:
        self._nodes = {name: node for name, node in nodes.items() if name not in known}
        self._known = known
        self._rendered: dict[str, Node | InputError] = {}
        self._values: dict[str, object] = {}
        self._busy: list[str] = []

    def __contains__(self, name: object) -> bool:
        return name in self._nodes or name in self._known

    def __iter__(self) -> Iterator[str]:
        yield from self._nodes
        yield from self._known

    def __len__(self) -> int:
        return len(self._nodes) + len(self._known)

    def __getitem__(self, name: str) -> object:
        if name in self._known:
            return self._known[name]
        if name not in self._values:
            self._values[name] = _value(self._render(name))
        return self._values[name]

    def node(self, name: str) -> Node | None:
        """Return a variable rendered, with its place; None for what is no variable of a file."""
        return self._render(name) if name in self._nodes else None

    def _render(self, name: str) -> Node:
        # A failure is kept as well: asked again by all that need it, it would be computed exponentially often.
        if name not in self._rendered:
            try:
                self._rendered[name] = self._render_now(name)
            except InputError as error:
                self._rendered[name] = error
        found = self._rendered[name]
        if isinstance(found, InputError):
            raise InputError(found.problems)
        return found

    def _render_now(self, name: str) -> Node:
        node = self._nodes[name]
        if name in self._busy:
            way = " > ".join([*self._busy[self._busy.index(name) :], name])
            raise InputError(Problem(f"variables need each other in a loop: {way}", node.position))
        if len(self._busy) >= _MAX_CHAIN:
            raise InputError(Problem(f"more than {_MAX_CHAIN} variables need one another in a row", node.position))
        self._busy.append(name)
        try:
            return render(node, self)
        finally:
            self._busy.pop()


def _value(node: Node) -> object:
    if isinstance(node, Scalar):
        return None if is_null(node) else Text(node.text)
    if isinstance(node, yaml_text.Sequence):
        return [_value(item) for item in node.items]
    return {key.text: _value(value) for key, value in node.entries}
