"""The template language of playbooks: Jinja expressions, `if`, `for` and `set`, strict, sandboxed and bounded.

Values from people's files are text, as everywhere in gpuprov. Jinja would treat the text ``no`` as true, ``2``
times 3 as ``222`` and ``"22" == 22`` as false, without a word; so `Text` knows yes from no, and what
mixes text with numbers is an error that says how to convert.

Templates come from files that were copied from somewhere: nothing in one may run on without end or fill
the memory. Hence a list of allowed constructs, filters and methods, each of which is bounded.
"""

from __future__ import annotations

import contextlib
import json
import operator
import time
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from contextvars import ContextVar
from typing import Any

from jinja2 import StrictUndefined, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing
from packaging.version import InvalidVersion, Version

from gpuprov.secret import Secret
from gpuprov.yaml_text import nearest

MAX_OUTPUT = 1024 * 1024
"""How long a text may get, in characters."""
MAX_ITEMS = 100_000
"""How many rounds all loops of one rendering may make, and how long a list may get."""
MAX_SECONDS = 2.0
"""How long the loops of one rendering may take."""
MAX_SOURCE = 64 * 1024
"""How long a template may be, in characters."""
_MAX_BITS = 4096

_YES = frozenset({"yes", "true", "on", "1"})
_NO = frozenset({"no", "false", "off", "0", ""})


class Forbidden(Exception):
    """A construct that is not allowed, or a bound that was hit."""


def truth(text: str) -> bool | None:
    """Return what a text says when asked for yes or no; None if it says neither."""
    word = text.strip().lower()
    return True if word in _YES else False if word in _NO else None


class Text(str):
    """Text from a file. It is false where it says no, and refuses to be compared with a number."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __bool__(self) -> bool:
        return truth(self) is not False

    def __eq__(self, other: object) -> bool:
        if isinstance(other, bool):
            return truth(self) is other
        if isinstance(other, int | float):
            raise TypeError(f"the text {self[:40]!r} is compared with the number {other}; {_CONVERT}")
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other


_CONVERT = "values are text: quote the number, or convert with |int or |float"


class _Budget:
    """What one rendering may still spend."""

    def __init__(self) -> None:
        self.rounds = MAX_ITEMS
        self.until = time.monotonic() + MAX_SECONDS

    def spend(self, rounds: int) -> None:
        self.rounds -= rounds
        if self.rounds < 0:
            raise Forbidden(f"loops make more than {MAX_ITEMS} rounds")
        if time.monotonic() > self.until:
            raise Forbidden(f"the loops take longer than {MAX_SECONDS:g} s")


_budget: ContextVar[_Budget | None] = ContextVar("_budget", default=None)


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Within this, loops share one budget. The outermost counts."""
    if _budget.get() is not None:
        yield
        return
    token = _budget.set(_Budget())
    try:
        yield
    finally:
        _budget.reset(token)


def _spend(rounds: int) -> None:
    budget = _budget.get()
    if budget is not None:
        budget.spend(rounds)


def _counted(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        _spend(1)
        yield item


def _range(*bounds: Any) -> range:
    found = range(*(int(bound) if isinstance(bound, str) else bound for bound in bounds))
    if len(found) > MAX_ITEMS:
        raise Forbidden(f"the range has more than {MAX_ITEMS} items")
    _spend(len(found))
    return found


def is_list(value: Any) -> bool:
    """Say whether a value is a list, or becomes one: what lazy filters and the methods of a mapping give."""
    return isinstance(value, list | tuple | range | KeysView | ValuesView | ItemsView) or hasattr(value, "__next__")


def as_text(value: Any) -> str:
    """Return a value as it is put into text.

    Raises:
        TypeError: it has no plain text: a list, a mapping, an object.
    """
    if isinstance(value, str):
        return str(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        _check_number(value)
        return str(value)
    if isinstance(value, float | Version):
        return str(value)
    if isinstance(value, StrictUndefined):
        value._fail_with_undefined_error()
    if is_list(value) or isinstance(value, dict):
        raise TypeError("a list or mapping cannot be put into text; use |join(', ') or |tojson")
    raise TypeError(f"a {type(value).__name__} cannot be put into text")


def _check_number(value: int) -> None:
    if value.bit_length() > _MAX_BITS:
        raise Forbidden("a number gets too large")


def _joined(parts: Iterable[Any], between: Any = "") -> str:
    separator = as_text(between)
    texts: list[str] = []
    length = 0
    for part in parts:
        texts.append(as_text(part))
        length += len(texts[-1]) + len(separator)
        if length > MAX_OUTPUT + len(separator):
            raise Forbidden(f"a text gets longer than {MAX_OUTPUT} characters")
    return separator.join(texts)


def _join(items: Iterable[Any], between: Any = "", attribute: str | None = None) -> str:
    if attribute is not None:
        items = [ENVIRONMENT.getitem(item, attribute) for item in items]
    return _joined(items, between)


def _replace(text: Any, old: Any, new: Any) -> str:
    text, old, new = as_text(text), as_text(old), as_text(new)
    if len(text) + text.count(old) * len(new) > MAX_OUTPUT:
        raise Forbidden(f"a text gets longer than {MAX_OUTPUT} characters")
    return str(text.replace(old, new))


def _tojson(value: Any) -> str:
    _weigh(value, MAX_OUTPUT)
    return json.dumps(value, ensure_ascii=False)


def _weigh(value: Any, left: int) -> int:
    left -= len(value) + 1 if isinstance(value, str) else 1
    if left < 0:
        raise Forbidden(f"a text gets longer than {MAX_OUTPUT} characters")
    for item in (*value.keys(), *value.values()) if isinstance(value, dict) else ():
        left = _weigh(item, left)
    for item in value if isinstance(value, list | tuple) else ():
        left = _weigh(item, left)
    return left


def _int(value: Any, default: Any = missing, base: int = 10) -> Any:
    try:
        return int(value, base) if isinstance(value, str) else int(value)
    except (ValueError, TypeError, OverflowError):
        if default is not missing:
            return default
        raise ValueError(f"{as_text(value)[:40]!r} is not a whole number") from None


def _float(value: Any, default: Any = missing) -> Any:
    try:
        return float(value)
    except (ValueError, TypeError, OverflowError):
        if default is not missing:
            return default
        raise ValueError(f"{as_text(value)[:40]!r} is not a number") from None


def _bool(value: Any) -> bool:
    if not isinstance(value, str):
        return bool(value)
    found = truth(value)
    if found is None:
        raise ValueError(f"{value[:40]!r} is neither yes nor no")
    return found


_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _version(value: Any, other: Any, how: str = "==") -> bool:
    """``cuda is version("11.8", ">=")``: compares as versions and not letter by letter."""
    if how not in _COMPARE:
        raise ValueError(f"{how!r} compares no versions; {', '.join(_COMPARE)} do")
    try:
        return _COMPARE[how](Version(as_text(value)), Version(as_text(other)))
    except InvalidVersion as error:
        raise ValueError(str(error)) from None


class _Undefined(StrictUndefined):
    """Names what is missing, and what it may have been meant to be."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        name, owner = self._undefined_name, self._undefined_obj
        if self._undefined_hint:
            return self._undefined_hint
        if owner is missing:
            return f"there is no variable {name!r}"
        if isinstance(owner, dict):
            known = [str(key) for key in owner]
        else:
            known = [] if isinstance(owner, str | list) else [key for key in dir(owner) if not key.startswith("_")]
        hint = nearest(str(name), known)
        return f"there is no {name!r} in what stands before it" + (f"; {hint}" if hint else "")


_STATEMENTS = (nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Assign)
_EXPRESSIONS = (
    *(nodes.Name, nodes.Const, nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair, nodes.Keyword),
    *(nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.Call, nodes.Filter, nodes.Test),
    *(nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.CondExpr, nodes.Concat),
    *(nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Pow, nodes.Neg, nodes.Pos),
)
_METHODS: Mapping[type, frozenset[str]] = {
    str: frozenset({"count", "endswith", "find", "lower", "lstrip", "removeprefix", "removesuffix", "rsplit", "rstrip"})
    | {"split", "splitlines", "startswith", "strip", "upper"},
    list: frozenset({"count", "index"}),
    tuple: frozenset({"count", "index"}),
    dict: frozenset({"get", "items", "keys", "values"}),
    bytes: frozenset(),
    Secret: frozenset(),
}
_FILTERS = (
    *("abs", "capitalize", "count", "d", "default", "dictsort", "first", "items", "last", "length", "list", "lower"),
    *("map", "max", "min", "reject", "rejectattr", "reverse", "round", "select", "selectattr", "sort", "title", "trim"),
    *("unique", "upper"),
)


class _Code(CodeGenerator):
    """Compiles ``~`` to a bounded join, and computes nothing at compile time."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 - named by Jinja
        self.write("environment.joined((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        if not isinstance(node, nodes.TemplateData):
            raise nodes.Impossible
        return super()._output_child_to_const(node, frame, finalize)


class _Environment(ImmutableSandboxedEnvironment):
    code_generator_class = _Code
    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "**", "%"})
    joined = staticmethod(_joined)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        sides = (left, right)
        if operator == "+" and all(isinstance(side, str) for side in sides):
            return _joined(sides)
        if operator == "+" and all(isinstance(side, list) for side in sides):
            if len(left) + len(right) > MAX_ITEMS:
                raise Forbidden(f"a list gets longer than {MAX_ITEMS} items")
            return left + right
        for side in sides:
            if isinstance(side, StrictUndefined):
                side._fail_with_undefined_error()
            if isinstance(side, str):
                raise TypeError(f"{operator!r} takes numbers, not the text {side[:40]!r}; {_CONVERT}")
            if not isinstance(side, int | float):
                raise TypeError(f"{operator!r} takes numbers, not a {type(side).__name__}")
            if isinstance(side, int):
                _check_number(side)
        if operator == "**" and isinstance(left, int) and left.bit_length() * abs(right) > _MAX_BITS:
            raise Forbidden("a number gets too large")
        return super().call_binop(context, operator, left, right)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        for kind, allowed in _METHODS.items():
            if isinstance(obj, kind):
                return attr in allowed
        return super().is_safe_attribute(obj, attr, value) and not attr.startswith("_")

    def wrap_str_format(self, value: Any) -> None:
        """Let no ``format`` through: its widths are not bounded."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, dict) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def unsafe_undefined(self, obj: Any, attribute: str) -> Any:
        return self.undefined(f"{attribute!r} of a {type(obj).__name__} cannot be used in templates")


def checked(tree: nodes.Template) -> nodes.Template:
    """Return the tree with its loops counted.

    Raises:
        Forbidden: a construct stands in it that is not allowed; says which.
    """
    for node in tree.find_all(nodes.Node):
        if not isinstance(node, _STATEMENTS + _EXPRESSIONS):
            raise Forbidden(
                f"'{type(node).__name__.lower()}' cannot be used here; only if, for, set and expressions can"
            )
        if isinstance(node, nodes.Name) and node.name == "self":
            raise Forbidden("'self' cannot be used here")
        if isinstance(node, nodes.For):
            if node.recursive:
                raise Forbidden("a loop cannot be recursive here")
            node.iter = nodes.Filter(node.iter, "counted", [], [], None, None, lineno=node.iter.lineno)
            node.iter.set_environment(ENVIRONMENT)
    return tree


def _make() -> _Environment:
    environment = _Environment(
        undefined=_Undefined, autoescape=False, keep_trailing_newline=True, optimized=False, finalize=as_text
    )
    environment.globals = {"range": _range}
    environment.filters = {name: environment.filters[name] for name in _FILTERS} | {
        "bool": _bool,
        "counted": _counted,
        "float": _float,
        "int": _int,
        "join": _join,
        "replace": _replace,
        "string": as_text,
        "tojson": _tojson,
    }
    environment.tests["version"] = _version
    return environment


ENVIRONMENT = _make()
