"""YAML as its author typed it: every scalar is text, and everything knows its place in the file.

YAML's own guessing is what turns ``12.10`` into ``12.1``, ``no`` into ``False`` and ``1e3`` into a
float. Here nothing is guessed: a reader gets text with a position, and whoever knows what is wanted
(a schema, a role's signature) converts it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from gpuprov.errors import InputError, Position, Problem
from gpuprov.text_file import LINE_BREAK, position_at, read_text

MAX_DEPTH = 50
"""How deep collections may nest, aliases followed."""
MAX_NODES = 100_000
"""How many nodes a file may stand for, aliases expanded."""


@dataclass(frozen=True)
class Scalar:
    """One piece of text.

    Attributes:
        quoted: not plain: in quotes, as a block or tagged ``!!str``; so never null.
        literal: a ``|`` block, whose lines stand one for one below ``position``.
        unknown: something stands here, but a mistake that is told hides what it is.
    """

    text: str
    position: Position = field(compare=False)
    quoted: bool = field(default=False, compare=False)
    literal: bool = field(default=False, compare=False)
    unknown: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Sequence:
    """A list of nodes."""

    items: tuple[Node, ...]
    position: Position = field(compare=False)


@dataclass(frozen=True)
class Mapping:
    """Key and value pairs in the order of the file. Keys are scalars, and no two have the same text."""

    entries: tuple[tuple[Scalar, Node], ...]
    position: Position = field(compare=False)

    def get(self, key: str) -> Node | None:
        """Return the value of a key; None when there is no such key."""
        return next((value for name, value in self.entries if name.text == key), None)

    def keys(self) -> tuple[str, ...]:
        """Return the text of the keys."""
        return tuple(name.text for name, _ in self.entries)


Node: TypeAlias = Scalar | Sequence | Mapping
Plain: TypeAlias = "str | list[Plain] | dict[str, Plain]"


def load(path: Path) -> Node | None:
    """Read a YAML file; None when it holds nothing.

    Raises:
        InputError: the file cannot be read, or is not the YAML that `loads` takes.
    """
    return loads(read_text(path), str(path))


def loads(text: str, file: str) -> Node | None:
    """Read YAML text; None when it holds nothing. ``file`` names it in positions.

    Raises:
        InputError: broken syntax, characters that YAML forbids, more than one document, a duplicate
            or non-scalar key, a tag beyond the core schema, an alias that contains itself, or more
            than `MAX_DEPTH` levels or `MAX_NODES` nodes. Every problem has a position.
    """
    node, problems = read(text, file)
    if problems:
        raise InputError(problems)
    return node


def read(text: str, file: str) -> tuple[Node | None, list[Problem]]:
    """Read YAML text as `loads` does, and return as well what is wrong with it and leaves the rest as it was meant.

    That is a key that stands twice, of which the first is read, a value in ``{{ }}`` without quotes, a tag that is not
    known, whose text is kept, and an alias that names nothing: a scalar that is ``unknown``.

    Raises:
        InputError: with these too, where anything else is wrong.
    """
    text = text.removeprefix("\ufeff")
    if bad := _FORBIDDEN.search(text):
        raise InputError(
            Problem(f"the character U+{ord(bad[0]):04X} cannot stand in YAML", position_at(text, bad.start(), file))
        )
    place = _Place(text, file)
    builder = _Builder(place)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.YAMLError as error:
        builder.problems.append(_syntax_problem(error, place, builder))
    except _TooMuch as error:
        builder.problems.append(error.problem)
    if builder.problems:
        raise InputError(in_order((*builder.problems, *builder.slips)))
    return builder.root, in_order(builder.slips)


def plain(node: Node) -> Plain:
    """Return the text, lists and dictionaries without their places."""
    if isinstance(node, Scalar):
        return node.text
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return {key.text: plain(value) for key, value in node.entries}


def is_null(node: Node) -> bool:
    """Say whether a node is YAML's null: nothing, ``~`` or ``null``, unquoted."""
    return isinstance(node, Scalar) and not node.quoted and node.text in _NULLS


def is_known(node: Node) -> bool:
    """Say whether all that stands in a node is known."""
    return not any(scalar.unknown for scalar in scalars(node))


def describe(node: Node) -> str:
    """Return in a few words what was found, for messages that say what was expected."""
    if isinstance(node, Sequence):
        return "a list"
    if isinstance(node, Mapping):
        return "a mapping"
    if is_null(node):
        return "nothing"
    return repr(node.text if len(node.text) <= 60 else node.text[:57] + "...")


def scalars(node: Node) -> Iterator[Scalar]:
    """Yield every scalar that is a value (keys are not), in the order of the file."""
    if isinstance(node, Scalar):
        yield node
    elif isinstance(node, Sequence):
        for item in node.items:
            yield from scalars(item)
    else:
        for _, value in node.entries:
            yield from scalars(value)


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Return each problem once, by file, line and column; those without a place come first.

    Beside one that is ``alone`` nothing else is told of its place.
    """
    start = Position("", 0, 0)
    found = dict.fromkeys(problems)
    unknown = {problem.position for problem in found if problem.alone}
    kept = (problem for problem in found if problem.alone or problem.position not in unknown)
    return sorted(kept, key=lambda problem: (problem.position or start, problem.message))


def closest(word: str, candidates: Iterable[str]) -> str:
    """Return the candidate most like ``word``; empty when none is like it."""
    known = {candidate.lower(): candidate for candidate in sorted(candidates)}
    found = difflib.get_close_matches(word.lower()[:100], list(known), n=1, cutoff=0.6)
    return known[found[0]] if found else ""


def nearest(word: str, candidates: Iterable[str]) -> str:
    """Return the hint ``did you mean 'x'?`` for the candidate most like ``word``; empty when none is like it."""
    found = closest(word, candidates)
    return f"did you mean {found!r}?" if found else ""


_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FORBIDDEN = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_CORE = "tag:yaml.org,2002:"
_SCALAR_TAGS = frozenset(_CORE + name for name in ("str", "int", "float", "bool", "null"))
_BRACES_HINT = 'a value with {{ }} must be quoted: "{{ name }}"'


class _TooMuch(Exception):
    """The file stands for more than will be read; nothing after this place is looked at."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass
class _Anchored:
    node: Node
    size: int
    height: int


@dataclass
class _Open:
    """A collection whose end has not been seen. ``size`` and ``height`` count what it holds, aliases expanded.

    ``flow``: it stands in brackets.
    """

    position: Position
    is_mapping: bool
    anchor: str | None
    flow: bool
    nodes: list[Node] = field(default_factory=list)
    size: int = 1
    height: int = 0


class _Place:
    """Turns the parser's marks into positions. Some point to the line after an unfinished last one."""

    def __init__(self, text: str, file: str) -> None:
        self.lines = LINE_BREAK.split(text)
        self._file = file

    def of(self, mark: Any) -> Position:
        if mark is None:
            return Position(self._file, 1, 1)
        if mark.line >= len(self.lines):
            return Position(self._file, len(self.lines), len(self.lines[-1]) + 1)
        return Position(self._file, mark.line + 1, mark.column + 1)


class _Builder:
    """Turns parse events into nodes with a stack of its own, so that no input can exhaust Python's."""

    def __init__(self, place: _Place) -> None:
        self.root: Node | None = None
        self.problems: list[Problem] = []
        self.slips: list[Problem] = []
        """Mistakes beside which everything reads as it was meant."""
        self.long_quote: tuple[Position, int] | None = None
        """Where the last text in quotes that goes over several lines opened, and the line where it closed."""
        self._place = place
        self._stack: list[_Open] = []
        self._anchors: dict[str, _Anchored | None] = {}
        self._documents = 0

    def take(self, event: yaml.Event) -> None:
        position = self._place.of(event.start_mark)
        match event:
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents == 2:
                    self.problems.append(Problem("a second document ('---') begins here; one is expected", position))
                self._anchors.clear()
            case yaml.ScalarEvent():
                self._check_tag(event.tag, position, _SCALAR_TAGS)
                if event.style in ("'", '"') and (end := self._place.of(event.end_mark).line) > position.line:
                    self.long_quote = position, end
                quoted = event.style not in (None, "") or event.tag in ("!", _CORE + "str")
                self._add(Scalar(event.value, position, quoted, event.style == "|"), 1, 0, event.anchor)
            case yaml.AliasEvent():
                self._add_alias(str(event.anchor), position)
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                is_mapping = isinstance(event, yaml.MappingStartEvent)
                self._check_tag(event.tag, position, frozenset({_CORE + ("map" if is_mapping else "seq")}))
                if len(self._stack) >= MAX_DEPTH:
                    raise _TooMuch(Problem(f"collections nest deeper than {MAX_DEPTH} levels", position))
                if event.anchor:
                    self._anchors[event.anchor] = None
                self._stack.append(_Open(position, is_mapping, event.anchor, bool(event.flow_style)))
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                done = self._stack.pop()
                node = self._mapping(done) if done.is_mapping else Sequence(tuple(done.nodes), done.position)
                self._add(node, done.size, done.height + 1, done.anchor)

    @property
    def open_bracket(self) -> tuple[str, Position] | None:
        """The innermost bracket that is open, and where."""
        inner = self._stack[-1] if self._stack else None
        return ("{" if inner.is_mapping else "[", inner.position) if inner is not None and inner.flow else None

    def _check_tag(self, tag: str | None, position: Position, allowed: frozenset[str]) -> None:
        if tag not in (None, "", "!") and tag not in allowed:
            shown = "!!" + tag.removeprefix(_CORE) if tag.startswith(_CORE) else tag
            hint = "every value is text here; there are no custom tags"
            self.slips.append(Problem(f"the tag {shown!r} is not known here", position, hint, alone=True))

    def _add_alias(self, name: str, position: Position) -> None:
        anchored = self._anchors.get(name)
        if anchored is not None:
            self._add(anchored.node, anchored.size, anchored.height, None, position)
            return
        if name in self._anchors:
            message, hint = f"the alias '*{name}' stands inside what it names", ""
        else:
            message, hint = f"no anchor '&{name}' stands before this alias", nearest(name, self._anchors)
        self.slips.append(Problem(message, position, hint, alone=True))
        self._add(Scalar("", position, quoted=True, unknown=True), 1, 0, None)

    def _add(self, node: Node, size: int, height: int, anchor: str | None, place: Position | None = None) -> None:
        if anchor:
            self._anchors[anchor] = _Anchored(node, size, height)
        if not self._stack:
            if self._documents == 1:
                self.root = node
            return
        parent = self._stack[-1]
        parent.nodes.append(node)
        parent.size += size
        parent.height = max(parent.height, height)
        if parent.size > MAX_NODES:
            raise _TooMuch(Problem(f"the file stands for more than {MAX_NODES} values", place or node.position))
        if len(self._stack) + height > MAX_DEPTH:
            raise _TooMuch(Problem(f"collections nest deeper than {MAX_DEPTH} levels", place or node.position))

    def _mapping(self, done: _Open) -> Mapping | Scalar:
        if (template := _bare_template(done)) is not None:
            key = done.nodes[0]
            message = f"a key must be text, not {describe(key)}"
            self.slips.append(Problem(message, template.position, _BRACES_HINT, as_meant=True))
            return template
        entries: dict[str, tuple[Scalar, Node]] = {}
        merged: list[Mapping] = []
        unknown: list[Scalar] = []
        for key, value in zip(done.nodes[::2], done.nodes[1::2], strict=True):
            if not isinstance(key, Scalar):
                hint = _BRACES_HINT if isinstance(key, Mapping) else ""
                place = done.position if done.flow and key is done.nodes[0] and hint else key.position
                self.problems.append(Problem(f"a key must be text, not {describe(key)}", place, hint))
            elif key.text == "<<" and not key.quoted:
                merged += self._merged(key, value, unknown)
            elif key.text in entries:
                first = entries[key.text][0].position
                self.slips.append(Problem(f"the key {key.text!r} stands twice", key.position, f"also in {first}"))
            else:
                entries[key.text] = (key, value)
        if unknown:
            return unknown[0]  # any key may be in what is to be merged
        for other in merged:
            for key, value in other.entries:
                entries.setdefault(key.text, (key, value))
        return Mapping(tuple(entries.values()), done.position)

    def _merged(self, key: Scalar, value: Node, unknown: list[Scalar]) -> list[Mapping]:
        """Return what ``<<`` merges in: a mapping or a list of them, the first winning. ``unknown`` gets what is so."""
        items = value.items if isinstance(value, Sequence) else (value,)
        for item in items:
            if isinstance(item, Scalar) and item.unknown:
                unknown.append(item)
            elif not isinstance(item, Mapping):
                self.problems.append(Problem(f"'<<' merges mappings, not {describe(item)}", key.position))
        return [item for item in items if isinstance(item, Mapping)]


def _bare_template(done: _Open) -> Scalar | None:
    """Return what ``{{ name }}`` without quotes was meant to be: to YAML it is a mapping whose only key is one."""
    match done.nodes if done.flow else ():
        case [Mapping(((key, value),)), nothing] if is_null(value) and is_null(nothing):
            return Scalar(f"{{{{ {key.text} }}}}", done.position, quoted=True)
    return None


def _syntax_problem(error: yaml.YAMLError, place: _Place, builder: _Builder) -> Problem:
    position = place.of(getattr(error, "problem_mark", None) or getattr(error, "context_mark", None))
    what = str(getattr(error, "problem", None) or "it cannot be read")
    around = place.lines[max(0, position.line - 2) : position.line]
    line = place.lines[position.line - 1]
    bracket, long_quote = builder.open_bracket, builder.long_quote
    if getattr(error, "context", None) == "while scanning a quoted scalar" and "end of stream" in what:
        opened = place.of(getattr(error, "context_mark", None))
        return Problem("this is not YAML: the quote that opens here is never closed", opened)
    hint = ""
    if any(line.lstrip(" ").startswith("\t") for line in around):
        hint = "indent with spaces, not tabs"
    elif any("{{" in line for line in around):
        hint = _BRACES_HINT
    elif "mapping values are not allowed" in what:
        hint = "quote a value that holds ': ', and indent keys of one mapping alike"
    elif long_quote is not None and long_quote[1] == position.line:
        opened = long_quote[0]
        hint = f"the quote that opens in line {opened.line}, column {opened.column} closes only here: is one missing?"
    elif "expected" in what and line[: position.column - 1].rstrip()[-1:] in ("'", '"'):
        hint = "a quote within a text: write '' within single quotes, or \\\" within double ones"
    elif bracket is not None:
        hint = f"the {bracket[0]!r} that opens in line {bracket[1].line}, column {bracket[1].column} is not closed"
    return Problem(f"this is not YAML: {what}", position, hint)
