"""One template, compiled once: what it uses, and what it comes to. Knows nothing of files and places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType

from jinja2 import Template, TemplateSyntaxError, Undefined, meta, nodes
from jinja2.parser import Parser

from gpuprov.playbook.sandbox import ENVIRONMENT, MAX_OUTPUT, MAX_SOURCE, Forbidden, bounded, checked
from gpuprov.yaml_text import nearest


class Mistake(Exception):
    """A template is wrong, or comes to nothing. ``line`` counts from 1 within the template."""

    def __init__(self, message: str, line: int = 1, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.hint = hint


@dataclass(frozen=True)
class Use:
    """A place where a template uses a name that it does not set, with the attributes written after it.

    Attributes:
        line: counts from 1 within the template.
        optional: the template can do without it.
        tested: the template asks whether it is there.
    """

    path: tuple[str, ...]
    line: int
    optional: bool
    tested: bool


@dataclass(frozen=True)
class Compiled:
    """A template that is ready to run.

    Attributes:
        template: where ``single``, it leaves the value in ``result``; otherwise it prints text.
        single: it is exactly one expression.
        variable: the name, when it is nothing but a variable.
    """

    template: Template
    single: bool
    variable: str
    uses: tuple[Use, ...]


def is_template(text: str) -> bool:
    """Say whether there is anything in a text for the template language."""
    return "{{" in text or "{%" in text or "{#" in text


@lru_cache(maxsize=4096)
def compile_template(source: str, *, expression: bool = False) -> Compiled:
    """Compile text with ``{{ }}`` in it, or with ``expression`` a bare expression.

    Raises:
        Mistake: the syntax is wrong, or it uses what is not allowed.
    """
    if len(source) > MAX_SOURCE:
        raise Mistake(f"the template is longer than {MAX_SOURCE} characters")
    try:
        tree = checked(_expression(source) if expression else ENVIRONMENT.parse(source))
        only = _only_expression(tree)
        uses = tuple(_uses(tree))
        if only is not None:
            result = nodes.Assign(nodes.Name("result", "store", lineno=1), only, lineno=only.lineno)
            tree = nodes.Template([result], lineno=1)
            tree.set_environment(ENVIRONMENT)
        template = ENVIRONMENT.from_string(tree)
    except TemplateSyntaxError as error:
        raise Mistake(_said(error.message or "it is wrong"), error.lineno, _syntax_hint(error.message or "")) from None
    except Forbidden as error:
        raise Mistake(str(error)) from None
    except (RecursionError, MemoryError, SyntaxError):
        raise Mistake("the template nests too deeply") from None
    variable = only.name if isinstance(only, nodes.Name) and uses else ""
    return Compiled(template, only is not None, variable, uses)


def evaluate(compiled: Compiled, values: Mapping[str, object]) -> object:
    """Return the text, or the value of a single expression. ``values`` holds what it uses.

    Raises:
        Mistake: a name is missing, a type is wrong or a bound is hit.
    """
    template = compiled.template
    context = template.new_context(dict(values))
    parts: list[str] = []
    length = 0
    try:
        with bounded():
            for part in template.root_render_func(context):
                parts.append(part)
                length += len(part)
                if length > MAX_OUTPUT:
                    raise Forbidden(f"a text gets longer than {MAX_OUTPUT} characters")
        if not compiled.single:
            return "".join(parts)
        result: object = context.vars["result"]
        if isinstance(result, Undefined):
            str(result)  # says what is missing
        return result
    except Exception as error:
        # Whatever people's expressions make Python raise is their mistake, and is told as such.
        raise Mistake(_said(str(error) or type(error).__name__), _line(template, error.__traceback__)) from None


def _expression(source: str) -> nodes.Template:
    parser = Parser(ENVIRONMENT, source, state="variable")
    expression = parser.parse_expression()
    if not parser.stream.eos:
        raise TemplateSyntaxError("there is more than one expression", parser.stream.current.lineno)
    tree = nodes.Template([nodes.Output([expression], lineno=1)], lineno=1)
    tree.set_environment(ENVIRONMENT)
    return tree


def _only_expression(tree: nodes.Template) -> nodes.Expr | None:
    match tree.body:
        case [nodes.Output(nodes=[nodes.Expr() as only])] if not isinstance(only, nodes.TemplateData):
            return only
    return None


def _uses(tree: nodes.Template) -> Iterator[Use]:
    """Yield each use of a name that is not set within, and whether the template can do without it."""
    undeclared = meta.find_undeclared_variables(tree)
    tested: set[tuple[str, ...]] = set()
    optional: set[tuple[str, ...]] = set()
    for test in tree.find_all(nodes.Test):
        if test.name in ("defined", "undefined") and (path := _path(test.node)):
            tested.add(path)
    for filtered in tree.find_all(nodes.Filter):
        if filtered.name in ("default", "d") and (path := _path(filtered.node)):
            optional.add(path)
    inner: set[int] = set()
    for node in tree.find_all((nodes.Getattr, nodes.Getitem, nodes.Name)):
        if id(node) in inner:
            continue
        path = _path(node)
        if not path:
            continue
        below: nodes.Node = node
        while isinstance(below, nodes.Getattr | nodes.Getitem):
            below = below.node
            inner.add(id(below))
        if path[0] in undeclared:
            asked = any(path[: len(other)] == other for other in tested)
            yield Use(path, node.lineno, asked or any(path[: len(other)] == other for other in optional), asked)


def _path(node: nodes.Node | None) -> tuple[str, ...]:
    """Return ``a.b["c"]`` as its names; nothing if it does not begin with a name that is read."""
    names: list[str] = []
    while isinstance(node, nodes.Getattr | nodes.Getitem):
        if isinstance(node, nodes.Getattr):
            names.append(node.attr)
        elif isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            names.append(node.arg.value)
        else:
            return ()
        node = node.node
    if not isinstance(node, nodes.Name) or node.ctx != "load":
        return ()
    return (node.name, *reversed(names))


def _said(message: str) -> str:
    message = message.replace("\n", " ").rstrip(".")
    return message if len(message) <= 300 else message[:297] + "..."


def _syntax_hint(message: str) -> str:
    if message.startswith("No filter named "):
        return (
            nearest(message.split("'")[1], ENVIRONMENT.filters) or f"there are {', '.join(sorted(ENVIRONMENT.filters))}"
        )
    if message.startswith("No test named "):
        return nearest(message.split("'")[1], ENVIRONMENT.tests)
    return ""


def _line(template: Template, trace: TracebackType | None) -> int:
    """Return the line of the template at which an exception arose."""
    line = 1
    while trace is not None:
        if trace.tb_frame.f_code is template.root_render_func.__code__:
            line = template.get_corresponding_lineno(trace.tb_lineno)
        trace = trace.tb_next
    return line
