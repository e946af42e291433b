"""Whatever stands in a playbook, loading and rendering it gives a value, or problems with places in the file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprov.engine import Options, check_playbook
from gpuprov.errors import InputError, Position
from gpuprov.inventory import Inventory, load_inventory
from gpuprov.playbook import check_names, load_playbook, parse_extra, read_playbook, render, resolve_variables

BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
ROLE = '''
from gpuprov.facts import Facts
from gpuprov.role import role

@role
def r(host: Facts, *, x: int, y: list[str] | None = None):
    """A role."""
    yield from ()
'''
KEYS = ["name", "hosts", "vars", "tags", "when", "roles", "role", "with", "x", "y", "facts", "tasks", "a-b"]
TEMPLATE = st.lists(
    st.sampled_from(
        [
            *(
                "{{ ",
                " }}",
                "{% ",
                " %}",
                "{# ",
                " #}",
                "x",
                "y",
                "facts",
                "host",
                ".",
                "[0]",
                "['a']",
                "(",
                ")",
                " | ",
            ),
            *(
                "default",
                "join",
                "upper",
                "int",
                "for x in y",
                "if x",
                "endfor",
                "endif",
                "set x = y",
                " ~ ",
                " + ",
                "*",
            ),
            *("1", "'a'", "\n", " == ", " is defined", "range(3)", " not ", "none", ".__class__", ".items()", "{", "}"),
        ]
    ),
    max_size=10,
).map("".join)
LEAVES: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(["all", "a", "b", "", "~", "x y", "é"]), st.none(), st.integers(), TEMPLATE
)
TREES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)),
    max_leaves=10,
)
PARAMS = st.dictionaries(st.sampled_from(["x", "y", "z"]), TREES, max_size=3)
ROLES = st.one_of(
    st.just("r"),
    st.fixed_dictionaries({"r": PARAMS}),
    st.fixed_dictionaries({"role": st.just("r")}, optional={"with": PARAMS, "tags": TREES, "when": TEMPLATE}),
    TREES,
)
PLAYS = st.fixed_dictionaries(
    {"hosts": st.sampled_from(["all", "a", "nope", "all:!a"]), "roles": st.lists(ROLES, max_size=3)},
    optional={"name": LEAVES, "vars": PARAMS, "tags": TREES, "when": TEMPLATE},
)


def within(position: Position | None, text: str) -> bool:
    lines = BREAK.split(text.removeprefix("\ufeff"))
    return (
        position is not None
        and 1 <= position.line <= len(lines)
        and 1 <= position.column <= len(lines[position.line - 1]) + 1
    )


def check_whole(file: Path, inventory: Inventory, text: str) -> None:
    """All that is checked before a run, whatever is wrong already."""
    role = file.parent / "roles" / "r" / "role.py"
    if not role.exists():
        role.parent.mkdir(parents=True)
        role.write_text(ROLE)
    try:
        check_playbook(read_playbook(file), inventory, None, Options())
    except InputError as error:
        assert error.problems
        assert len(set(error.problems)) == len(error.problems)
        for problem in error.problems:
            assert within(problem.position, text), (problem, text)


def check(folder: Path, content: bytes) -> None:
    file = folder / "any" / "p.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    text = content.decode(errors="replace")
    inventory = load_inventory(["a,b,"])
    check_whole(file, inventory, text)
    try:
        playbook = load_playbook(file)
    except InputError as error:
        assert error.problems
        for problem in error.problems:
            assert within(problem.position, text), (problem, content)
        return
    for problem in check_names(playbook, inventory, inventory.hosts.values(), {}, ("os",)):
        assert within(problem.position, text), (problem, content)
    for play in playbook.plays:
        variables = resolve_variables(inventory.hosts["a"], play, {}, {"os": {"id": "debian"}})
        for entry in play.roles:
            try:
                if entry.when is not None:
                    entry.when.evaluate(variables)
                render(entry.params, variables)
            except InputError as error:
                for problem in error.problems:
                    assert within(problem.position, text), (problem, content)


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.lists(PLAYS, max_size=2), TREES), st.booleans())
def test_nearly_valid(tmp_path_factory: pytest.TempPathFactory, tree: Any, blocks: bool) -> None:
    text = yaml.safe_dump(tree, allow_unicode=True, default_style="|" if blocks else None)
    check(tmp_path_factory.getbasetemp(), text.encode())


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(max_size=100), st.text(max_size=100).map(str.encode)))
def test_anything(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    check(tmp_path_factory.getbasetemp(), content)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.one_of(st.text(max_size=30), TEMPLATE.map("x={}".format), TEMPLATE.map("{{x: {}}}".format)), max_size=3)
)
def test_any_extra(words: list[str]) -> None:
    try:
        parse_extra(words)
    except InputError as error:
        assert error.problems
