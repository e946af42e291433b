"""Variables that people set: what they may be called."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpuprov.inventory.reader import Reader
from gpuprov.yaml_text import Node

RESERVED = {
    "facts": "what was read from the host is there",
    "host": "the host's name, address, groups and gpu are there",
}
"""Names that have a meaning of their own in templates, and which."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_JINJA_WORDS = frozenset({"and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "self"})


def name_problem(name: str) -> str:
    """Return why a variable cannot be called so, or nothing."""
    if name in RESERVED:
        return f"no variable can be called {name!r}: {RESERVED[name]}"
    if name.lower() in _JINJA_WORDS:
        return f"no variable can be called {name!r}: it is a word of the template language"
    if not _NAME.fullmatch(name):
        return f"a variable's name is made of letters, digits and '_', not {name[:60]!r}"
    return ""


def read_variables(node: Node, reader: Reader, *, hint: Callable[[str], str] = lambda _: "") -> dict[str, Node]:
    """Read a mapping of variables. ``hint`` says of a name that means nothing here what to write instead."""
    found = {}
    for key, value in reader.entries(node, "vars"):
        if message := name_problem(key.text):
            reader.lost += 1
            fixed = re.sub(r"\W", "_", key.text[:60], flags=re.ASCII)
            reader.wrong(key, message, f"such as {fixed!r}" if not name_problem(fixed) else "")
        elif better := hint(key.text):
            reader.wrong(key, f"the variable {key.text!r} does nothing here", better)
        else:
            found[key.text] = value
    return found
