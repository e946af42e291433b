"""Whatever stands in an inventory, loading it gives a value, or problems with places in the file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprov.errors import InputError, Position
from gpuprov.inventory import load_inventory, read_inventory
from gpuprov.inventory.settings import GROUP_KEYS, HOST_KEYS

BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
ATOMS = [
    "",
    "a",
    "b",
    "all",
    "0",
    "22",
    "-x",
    "~/k",
    "/p",
    "a@b:1",
    "ssh",
    "auto",
    "{{ x",
    "é",
    "\n",
    "~",
    "null",
    "a b",
]
KEYS = ["defaults", "hosts", "groups", "all", *HOST_KEYS, *GROUP_KEYS, "env", "file", "command", "envs", "ansible_host"]

LEAVES: st.SearchStrategy[Any] = st.one_of(st.sampled_from(ATOMS), st.none(), st.integers(), st.booleans())
TREES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from([*KEYS, *ATOMS]), inner, max_size=4)
    ),
    max_leaves=12,
)
SETTINGS = st.dictionaries(st.sampled_from([*HOST_KEYS, *GROUP_KEYS]), TREES, max_size=4)
NAMES = st.sampled_from(["a", "b", "c", "all", "a b"])
INVENTORIES = st.fixed_dictionaries(
    {},
    optional={
        "defaults": SETTINGS,
        "hosts": st.dictionaries(NAMES, st.one_of(SETTINGS, TREES), max_size=3),
        "groups": st.dictionaries(NAMES, st.one_of(SETTINGS, TREES), max_size=3),
    },
)


def within(position: Position | None, text: str) -> bool:
    lines = BREAK.split(text.removeprefix("\ufeff"))
    return (
        position is not None
        and 1 <= position.line <= len(lines)
        and 1 <= position.column <= len(lines[position.line - 1]) + 1
    )


def check(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    try:
        inventory = load_inventory([file])
    except InputError as error:
        assert error.problems
        for problem in error.problems:
            assert within(problem.position, content.decode(errors="replace")), (problem, content)
        read_inventory([file]).pattern_problems("a:!two,~x")
    else:
        assert inventory.hosts


@settings(max_examples=300, deadline=None)
@given(st.one_of(TREES, INVENTORIES))
def test_nearly_valid(tmp_path_factory: pytest.TempPathFactory, tree: Any) -> None:
    check(tmp_path_factory.getbasetemp() / "nearly.yaml", yaml.safe_dump(tree, allow_unicode=True).encode())


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(max_size=100), st.text(max_size=100).map(str.encode)))
def test_anything(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    check(tmp_path_factory.getbasetemp() / "anything.yaml", content)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40))
def test_any_comma_form(words: str) -> None:
    try:
        assert load_inventory([words + ","]).hosts
    except InputError as error:
        assert error.problems
