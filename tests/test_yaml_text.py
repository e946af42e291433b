"""YAML read as text: what is kept as typed, what is refused and where, and that no input tracebacks."""

from __future__ import annotations

import os
import re
import socket
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprov import text_file, yaml_text
from gpuprov.errors import InputError, Position
from gpuprov.yaml_text import Mapping, Scalar, Sequence, describe, is_null, load, loads, nearest, plain, scalars

BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


TAG = "is not known here (every value is text here; there are no custom tags)"


def within(position: Position | None, text: str) -> bool:
    """Say whether a position names a character of the text, or the end of one of its lines."""
    lines = BREAK.split(text.removeprefix("\ufeff"))
    return (
        position is not None
        and 1 <= position.line <= len(lines)
        and 1 <= position.column <= (len(lines[position.line - 1]) + 1)
    )


def problems(text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        loads(text, "f")
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("loader", ["CSafeLoader", "SafeLoader"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 12.10", {"a": "12.10"}),
        ("a: yes\nb: NO\nc: 0x1F\nd: 1e3\ne: 2024-01-01\nf: 0o17",
         {"a": "yes", "b": "NO", "c": "0x1F", "d": "1e3", "e": "2024-01-01", "f": "0o17"}),
        ("a: '11.7'", {"a": "11.7"}),
        ("a: !!str 1", {"a": "1"}),
        ("a: !!int '1'", {"a": "1"}),
        ("- 1\n- [2, {x: y}]", ["1", ["2", {"x": "y"}]]),
        ("a: &x {b: 1}\nc: *x", {"a": {"b": "1"}, "c": {"b": "1"}}),
        ("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}", {"a": {"b": "1", "c": "2"}, "d": {"c": "3", "b": "1"}}),
        ("d: {<<: [{a: 1}, {a: 2, b: 2}]}", {"d": {"a": "1", "b": "2"}}),
        ("a: |\n  x\n   y\n", {"a": "x\n y\n"}),
        ("12.10: a", {"12.10": "a"}),
        ("text", "text"),
        ("\ufeffa: 1", {"a": "1"}),
        ("a: \U0001f600", {"a": "\U0001f600"}),
        ("---\na: 1\n...\n", {"a": "1"}),
    ],
)  # fmt: skip
def test_scalars_stay_as_typed(text: str, expected: object, loader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_text, "_LOADER", getattr(yaml, loader))
    node = loads(text, "f")
    assert node is not None
    assert plain(node) == expected


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n...\n", "\ufeff"])
def test_nothing_is_none_or_null(text: str) -> None:
    node = loads(text, "f")
    assert node is None or is_null(node)


@pytest.mark.parametrize("loader", ["CSafeLoader", "SafeLoader"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: 2\na: 3", ["f:3:1: the key 'a' stands twice (also in f:1:1)"]),
        ("a: 1\na: 2\nc: {d: 1, d: 2}",
         ["f:2:1: the key 'a' stands twice (also in f:1:1)", "f:3:11: the key 'd' stands twice (also in f:3:5)"]),
        ("a: {{ b }}", ['f:1:4: a key must be text, not a mapping (a value with {{ }} must be quoted: "{{ name }}")']),
        ("? [a]\n: b", ["f:1:3: a key must be text, not a list"]),
        ("a: &a [*a]", ["f:1:8: the alias '*a' stands inside what it names"]),
        ("a: &here 1\nb: *her", ["f:2:4: no anchor '&her' stands before this alias (did you mean 'here'?)"]),
        ("a: !vault x", ["f:1:4: the tag '!vault' " + TAG]),
        ("a: !!python/object:os.system x", ["f:1:4: the tag '!!python/object:os.system' " + TAG]),
        ("a: !!str [x]", ["f:1:4: the tag '!!str' " + TAG]),
        ("a: 1\n---\nb: 2", ["f:2:1: a second document ('---') begins here; one is expected"]),
        ("a: x\0y", ["f:1:5: the character U+0000 cannot stand in YAML"]),
        ("a:\n  \ud800", ["f:2:3: the character U+D800 cannot stand in YAML"]),
        ("a: {<<: 3}", ["f:1:5: '<<' merges mappings, not '3'"]),
    ],
)  # fmt: skip
def test_mistakes_name_their_place(
    text: str, expected: list[str], loader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yaml_text, "_LOADER", getattr(yaml, loader))
    assert problems(text) == expected


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a:\n\t- b", "indent with spaces, not tabs"),
        ("a: {{ b }}/c", 'a value with {{ }} must be quoted: "{{ name }}"'),
        ("a: b: c", "quote a value that holds ': ', and indent keys of one mapping alike"),
    ],
)
def test_broken_syntax_has_a_hint(text: str, hint: str) -> None:
    problem = problems(text)[-1]
    assert "this is not YAML" in problem
    assert hint in problem


BRACKET = "the '{}' that opens in line {}, column {} is not closed"


@pytest.mark.parametrize("loader", ["SafeLoader", "CSafeLoader"])
@pytest.mark.parametrize(
    ("text", "starts", "hint"),
    [
        ('a: 1\nb: "foo\nc: 1\nd: 2\n', "f:2:4: this is not YAML: the quote that opens here is never closed", ""),
        ("- a\n- 'x\n- b\n", "f:2:3: this is not YAML: the quote that opens here is never closed", ""),
        ('a: "foo\nb: "bar"\nc: 2\n', "f:2:5:", "the quote that opens in line 1, column 4 closes only here"),
        ('a: {p: "/x}\nb: "y"\n', "f:2:5:", "the quote that opens in line 1, column 8 closes only here"),
        ("a:\n  b: 'it's'\n", "f:2:10:", "write '' within single quotes"),
        ("a: [1, 2\nb: 3\n", "f:2:", BRACKET.format("[", 1, 4)),
        ("a:\n  b: {x: 1\n", "f:", BRACKET.format("{", 2, 6)),
        ("a: [\n", "f:", BRACKET.format("[", 1, 4)),
        ("a: {x: [1, 2}\n", "f:1:13:", BRACKET.format("[", 1, 8)),
    ],
)
def test_what_is_not_closed_is_named_where_it_opens(
    text: str, starts: str, hint: str, loader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yaml_text, "_LOADER", getattr(yaml, loader))
    problem = problems(text)[-1]
    assert problem.startswith(starts)
    assert hint in problem


def laughs(levels: int) -> str:
    return "\n".join(
        f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9) if i else 'x'}]" for i in range(levels)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (laughs(30), "more than 100000 values"),
        ("[" * 100_000, "nest"),
        ("\n".join(" " * i + f"k{i}:" for i in range(200)), "deeper than 50"),
        ("a0: &a0 [x]\n" + "\n".join(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 80)), "deeper than 50"),
    ],
)
def test_what_would_explode_is_refused_quickly(text: str, says: str) -> None:
    begun = time.monotonic()
    assert says in problems(text)[0]
    assert time.monotonic() - begun < 5


def test_positions_and_quoting() -> None:
    node = loads("a: 1\nb:\n  - 'null'\n  - null\n  - |\n    ~\n  - !!str\n", "f")
    assert isinstance(node, Mapping)
    assert node.keys() == ("a", "b")
    assert node.get("c") is None
    items = node.get("b")
    assert isinstance(items, Sequence)
    assert [str(item.position) for item in items.items] == ["f:3:5", "f:4:5", "f:5:5", "f:7:5"]
    assert [is_null(item) for item in items.items] == [False, True, False, False]
    assert [item.literal for item in items.items if isinstance(item, Scalar)] == [False, False, True, False]


def test_an_alias_keeps_the_place_of_its_anchor() -> None:
    node = loads("a: &x hello\nb: *x", "f")
    assert node is not None
    assert [scalar.position.line for scalar in scalars(node)] == [1, 1]


@pytest.mark.parametrize(
    ("text", "words"), [("[]", "a list"), ("{}", "a mapping"), ("~", "nothing"), ("'~'", "'~'"), ("x" * 99, "...'")]
)
def test_describe(text: str, words: str) -> None:
    node = loads(text, "f")
    assert node is not None
    assert describe(node).endswith(words)


@pytest.mark.parametrize(
    ("word", "candidates", "hint"),
    [
        ("adress", ["address", "user"], "did you mean 'address'?"),
        ("PORT", ["port"], "did you mean 'port'?"),
        ("zzz", ["address"], ""),
        ("x", [], ""),
    ],
)
def test_nearest(word: str, candidates: list[str], hint: str) -> None:
    assert nearest(word, candidates) == hint


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(InputError, match=rf"{file}:2:4: the byte 0xff is not UTF-8"):
        load(file)
    with pytest.raises(InputError, match=r"cannot read .*: No such file"):
        load(tmp_path / "missing.yaml")
    with pytest.raises(InputError, match=r"cannot read .*: Is a directory"):
        load(tmp_path)
    with pytest.raises(InputError, match="cannot read"):
        load(Path("a\0b"))
    file.write_bytes(b"x" * (text_file.MAX_BYTES + 1))
    with pytest.raises(InputError, match="larger than"):
        load(file)


@pytest.mark.parametrize("what", ["a pipe", "a device", "a socket"])
def test_what_would_be_waited_for_is_refused_at_once(tmp_path: Path, what: str) -> None:
    file = tmp_path / "f.yaml"
    if what == "a pipe":
        os.mkfifo(file)
    elif what == "a device":
        file.symlink_to("/dev/zero")
    else:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(file))
    with pytest.raises(InputError, match=f"^cannot read '{file}': it is {what}, not a file$"):
        load(file)


def test_a_pipe_that_is_open_already_is_read() -> None:
    # what <(command) of a shell gives
    reading, writing = os.pipe()
    try:
        os.write(writing, b"a: 1\n")
        os.close(writing)
        node = load(Path(f"/dev/fd/{reading}"))
    finally:
        os.close(reading)
    assert node is not None
    assert plain(node) == {"a": "1"}


ANY_TEXT = st.text(st.characters(codec=None), max_size=200)
YAML_LIKE = st.lists(
    st.sampled_from(
        ["a", "b", ": ", ":", "- ", "\n", "  ", " ", "[", "]", "{", "}", ",", "&a ", "*a", "!!str ", "!x ", "<<: ", "'",
         '"', "|\n", ">-\n", "#", "? ", "---\n", "...\n", "%YAML 1.1\n", "\t", "~", "\u2028", "\x85", "\r", "{{ x }}",
         "\\"]
    ),
    max_size=40,
).map("".join)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.one_of(ANY_TEXT, YAML_LIKE))
def test_any_text_gives_a_node_or_problems_within_it(text: str) -> None:
    try:
        node = loads(text, "f")
    except InputError as error:
        assert error.problems
        for problem in error.problems:
            assert within(problem.position, text), (problem, text)
    else:
        if node is not None:
            plain(node)
            assert within(node.position, text)
            assert all(within(scalar.position, text) for scalar in scalars(node))


@settings(max_examples=200, deadline=None)
@given(content=st.one_of(st.binary(max_size=200), YAML_LIKE.map(str.encode)))
def test_any_bytes_give_a_node_or_problems(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(content)
    try:
        load(file)
    except InputError as error:
        text = content.decode(errors="replace")
        for problem in error.problems:
            assert within(problem.position, text), (problem, content)
