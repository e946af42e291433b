"""Variables: who wins, that they may use each other, and what ``-e`` takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprov.errors import InputError
from gpuprov.inventory import load_inventory
from gpuprov.playbook import Variables, load_playbook, parse_extra, render, resolve_variables
from gpuprov.yaml_text import Sequence, loads, plain


def resolve(tmp_path: Path, inventory: str, play: str, extra: list[str], facts: object = None) -> Variables:
    (tmp_path / "i.yaml").write_text(f"hosts: {{h: {{gpu: H100, vars: {{{inventory}}}}}}}")
    (tmp_path / "p.yaml").write_text(f"- {{hosts: all, roles: [], vars: {{{play}}}}}")
    words = parse_extra(extra)
    [host] = load_inventory([tmp_path / "i.yaml"], words).hosts.values()
    return resolve_variables(host, load_playbook(tmp_path / "p.yaml").plays[0], words, facts)


@pytest.mark.parametrize(
    ("inventory", "play", "extra", "expected"),
    [
        ("x: inventory", "", [], "inventory"),
        ("x: inventory", "x: play", [], "play"),
        ("x: inventory", "x: play", ["x=extra"], "extra"),
        ("x: 12.10", "", [], "12.10"),
        ("x: '{{ y }}-{{ host.name }}', y: a", "y: b", [], "b-h"),
        ("x: '{{ y }}', y: [a, '{{ z }}']", "z: '{{ w }}'", ["w=deep"], ["a", "deep"]),
        ("x: {a: '{{ y.b }}'}, y: {b: 1}", "", [], {"a": "1"}),
        ("x: ~", "", [], None),
        ("x: '{{ host.gpu }} {{ host.address }} {{ host.groups | length }}'", "", [], "H100 h 0"),
        ("x: '{{ facts.os }}'", "", [], "debian"),
    ],
)
def test_who_wins_and_what_it_comes_to(
    tmp_path: Path, inventory: str, play: str, extra: list[str], expected: object
) -> None:
    assert resolve(tmp_path, inventory, play, extra, {"os": "debian"})["x"] == expected


def test_a_variable_that_is_a_structure_keeps_the_place_where_it_was_set(tmp_path: Path) -> None:
    variables = resolve(tmp_path, "", "x: [a, b]", [])
    tree = loads("'{{ x }}'", "other")
    assert tree is not None
    found = render(tree, variables)
    assert isinstance(found, Sequence)
    assert found.items[1].position.file == str(tmp_path / "p.yaml")


@pytest.mark.parametrize(
    ("play", "says"),
    [
        ("x: '{{ x }}'", "variables need each other in a loop: x > x"),
        ("x: '{{ y }}', y: '{{ z }}', z: 'a{{ y }}'", "variables need each other in a loop: y > z > y"),
        ("x: '{{ y }}'", "there is no variable 'y'"),
        ("x: '{{ facts.os }}'", "facts are known only after the host was contacted"),
        (
            "x: '{{ v0 }}', " + ", ".join(f"v{i}: '{{{{ v{i + 1} }}}}'" for i in range(300)) + ", v300: a",
            "more than 40 variables need one another in a row",
        ),
        (
            "x: '{{ v0 }}', "
            + ", ".join(f"v{i}: '{{{{ v{i + 1} }}}}{{{{ v{i + 1} }}}}'" for i in range(30))
            + ", v30: aa",
            "a text gets longer than",
        ),
        (
            "x: '{{ v0 }}', "
            + ", ".join(f"v{i}: ['{{{{ v{i + 1} }}}}', '{{{{ v{i + 1} }}}}', '{{{{ v{i + 1} }}}}']" for i in range(30))
            + ", v30: []",
            "the templates in it come to too much",
        ),
    ],
)
def test_what_cannot_be_resolved(tmp_path: Path, play: str, says: str) -> None:
    variables = resolve(tmp_path, "", play, [])
    with pytest.raises(InputError, match=says) as caught:
        variables["x"]
    assert all(problem.position is not None for problem in caught.value.problems)
    with pytest.raises(InputError, match=says):
        variables["x"]


def test_one_broken_variable_does_not_harm_the_others(tmp_path: Path) -> None:
    variables = resolve(tmp_path, "", "x: '{{ x }}', y: fine", [])
    with pytest.raises(InputError):
        variables["x"]
    assert variables["y"] == "fine"
    assert sorted(variables) == ["host", "x", "y"]
    with pytest.raises(KeyError):
        variables["z"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {}),
        (["a=1"], {"a": "1"}),
        (["a=1.10", "b=x=y z"], {"a": "1.10", "b": "x=y z"}),
        (["a="], {"a": ""}),
        (["a=null"], {"a": "null"}),
        (["a=1", "a=2"], {"a": "2"}),
        (['{"a": [1, {"b": 12.10}], "c": "d"}'], {"a": ["1", {"b": "12.10"}], "c": "d"}),
        (["{a: b}"], {"a": "b"}),
        (["@extra.yaml", "b=z"], {"a": "1.0", "b": "z"}),
        (["@empty.yaml"], {}),
    ],
)
def test_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], expected: object) -> None:
    monkeypatch.chdir(tmp_path)
    Path("extra.yaml").write_text("a: 1.0\nb: y\n")
    Path("empty.yaml").write_text("")
    assert {name: plain(node) for name, node in parse_extra(words).items()} == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["a"], ["-e:1:1: 'a' sets nothing (write name=value, @file.yaml or '{\"name\": \"value\"}')"]),
        (["a-b=1"], ["-e:1:1: a variable's name is made of letters, digits and '_', not 'a-b'"]),
        (["facts=1"], ["-e:1:1: no variable can be called 'facts': what was read from the host is there"]),
        (["=1"], ["-e:1:1: a variable's name is made of letters, digits and '_', not ''"]),
        (["a=\udcff"], ["-e:1:1: the value of 'a' is not UTF-8"]),
        (["{a: 1, a: 2}"], ["-e:1:8: the key 'a' stands twice (also in -e:1:2)"]),
        (["{a"], ["-e:1:3: this is not YAML: did not find expected ',' or '}'"]),
        (["@/no/such"], ["cannot read '/no/such': No such file or directory"]),
        (["a", "host=1"], ["-e:1:1: 'a' sets nothing", "-e:1:1: no variable can be called 'host'"]),
    ],
)
def test_extra_that_is_wrong(words: list[str], expected: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        parse_extra(words)
    found = [str(problem) for problem in caught.value.problems]
    assert len(found) == len(expected)
    for problem, beginning in zip(found, expected, strict=True):
        assert problem.startswith(beginning)
