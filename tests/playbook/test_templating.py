"""Templates: text stays text, structures stay structures, and nothing runs on without end."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from gpuprov.errors import InputError, Position
from gpuprov.playbook import Expression, names, needs_facts, render
from gpuprov.playbook.sandbox import Text
from gpuprov.secret import Secret
from gpuprov.yaml_text import Node, Scalar, is_null, loads, plain


@dataclass(frozen=True)
class Os:
    id: str = "debian"
    _hidden: str = "x"


@dataclass(frozen=True)
class Facts:
    os: Os = Os()
    gpus: int = 2


HERE = Position("f", 3, 5)
VALUES: dict[str, object] = {
    "cuda": Text("11.10"),
    "no": Text("no"),
    "nothing": None,
    "envs": [Text("a"), Text("b")],
    "torch": {"version": Text("2.1"), "items": Text("x")},
    "facts": Facts(),
    "big": Text("x" * 1_000_000),
    "secret": Secret("hunter2"),
}


def node(text: str) -> Scalar:
    return Scalar(text, HERE, True)


def comes_to(text: str) -> object:
    return plain(render(node(text), VALUES))


def problem(text: str) -> str:
    with pytest.raises(InputError) as caught:
        render(node(text), VALUES)
    [found] = caught.value.problems
    assert found.position == HERE
    return str(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("{ braces }", "{ braces }"),
        ("{{ cuda }}", "11.10"),
        ("cuda-{{ cuda }}", "cuda-11.10"),
        ("{{ envs }}", ["a", "b"]),
        ("{{ envs + ['c'] }}", ["a", "b", "c"]),
        ("{{ torch }}", {"version": "2.1", "items": "x"}),
        ("{{ torch.version }}", "2.1"),
        ("{{ torch.items }}", "x"),
        ("{{ torch['version'] }}", "2.1"),
        ("{{ {'a': [1, true, none]} }}", {"a": ["1", "true", ""]}),
        ("{{ 1 + 2 }}", "3"),
        ("{{ cuda | float * 2 }}", "22.2"),
        ("{{ envs | join('-') }}", "a-b"),
        ("{{ envs | map('upper') }}", ["A", "B"]),
        ("{{ envs | map('upper') | join(',') }}", "A,B"),
        ("{{ torch.keys() }}", ["version", "items"]),
        ("{{ missing | default('x') }}", "x"),
        ("{{ facts.os.none | default('x') }}", "x"),
        ("{{ 'y' if missing is defined else 'n' }}", "n"),
        ("{% if no %}yes{% else %}no{% endif %}", "no"),
        ("{% for env in envs %}{{ loop.index }}{{ env }} {% endfor %}", "1a 2b "),
        ("{% set x = 'a' %}{{ x ~ x }}", "aa"),
        ("{{ facts.os.id }}/{{ facts.gpus }}", "debian/2"),
        ("{{ cuda.split('.') }}", ["11", "10"]),
        ("{{ 'a.b' | replace('.', '/') }}", "a/b"),
        ("{{ envs | tojson }}", '["a", "b"]'),
        ("{{ nothing }}x", "x"),
        ("line\n", "line\n"),
        ("{# a comment #}x\n", "x\n"),
        ("{{ range(3) }}", ["0", "1", "2"]),
        ("{{ '4' | int + 1 }}", "5"),
        ("{{ 'x' | int(7) }}", "7"),
        ("{{ cuda is version('11.8', '>') }}", "true"),
    ],
)
def test_what_templates_come_to(text: str, expected: object) -> None:
    assert comes_to(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{{ cdua }}", "f:3:5: the template is wrong: there is no variable 'cdua' (did you mean 'cuda'?)"),
        ("a {{ cdua }}", "there is no variable 'cdua' (did you mean 'cuda'?)"),
        ("{{ torch.verison }}", "there is no 'verison' in what stands before it; did you mean 'version'?"),
        ("{{ facts.oss }}", "there is no 'oss' in what stands before it; did you mean 'os'?"),
        ("{{ cuda * 3 }}", "'*' takes numbers, not the text '11.10'; values are text"),
        ("{{ cuda + 1 }}", "'+' takes numbers, not the text '11.10'"),
        ("{{ cuda == 11.10 }}", "the text '11.10' is compared with the number 11.1"),
        ("{{ 11 in [cuda] }}", "is compared with the number 11"),
        ("{{ cuda > 11 }}", "not supported between"),
        ("{{ 'x' | int }}", "'x' is not a whole number"),
        ("{{ 'x' | bool }}", "'x' is neither yes nor no"),
        ("x{{ envs }}", "a list or mapping cannot be put into text; use |join"),
        ("{{ envs ~ 'x' }}", "a list or mapping cannot be put into text"),
        ("{{ facts }}", "a Facts cannot be put into text"),
        ("{{ secret }}", "a Secret cannot be put into text"),
        ("x{{ secret }}", "a Secret cannot be put into text"),
        ("{{ secret.reveal().decode() }}", "'reveal' of a Secret cannot be used in templates"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ x", "unexpected end of template"),
        ("{{ }}", "Expected an expression"),
        ("{% nope %}", "Encountered unknown tag 'nope'"),
        ("{% include 'x' %}", "'include' cannot be used here"),
        ("{% macro x() %}{% endmacro %}", "'macro' cannot be used here"),
        ("{{ envs | nope }}", "No filter named 'nope'"),
        ("{{ 'x' is nope }}", "No test named 'nope'"),
        ("{{ cuda is version('x') }}", "Invalid version"),
    ],
)
def test_what_is_wrong_in_templates(text: str, says: str) -> None:
    assert says in problem(text)


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__ }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ facts.__init__.__globals__ }}",
        "{{ facts._hidden }}",
        "{{ facts.os._hidden }}",
        "{{ ''['__class__'] }}",
        "{{ envs.append('x') }}",
        "{{ torch.update({}) }}",
        "{{ ('x' | list).sort() }}",
        "{{ '{:>9}'.format(1) }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{{ envs | map(attribute='__class__') | list }}",
        "{{ self }}",
        "{{ self._TemplateReference__context }}",
        "{{ range.__call__ }}",
        "{{ cycler }}",
        "{{ lipsum() }}",
        "{% import 'os' as os %}",
        "{% for x in envs recursive %}{{ loop(envs) }}{% endfor %}",
    ],
)
def test_templates_reach_nothing_but_values(text: str) -> None:
    assert problem(text)
    assert VALUES["envs"] == ["a", "b"]


@pytest.mark.parametrize(
    "text",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{{ range(99999) | list | length }}{% endfor %}",
        "{% for a in range(50000) %}{{ big | upper | length }}{% endfor %}",
        "{{ range(10 ** 9) | list }}",
        "{{ range(200000) }}",
        "{{ 'x' * 10 ** 9 }}",
        "{{ [1] * 10 ** 9 }}",
        "{{ 10 ** (10 ** 10) }}",
        "{{ 2 ** (2 ** (2 ** (2 ** (2 ** 2)))) }}",
        "{{ '%9999999999d' % 1 }}",
        "{{ '%9999999999d' | format(1) }}",
        "{{ 'x' | center(10 ** 9) }}",
        "{{ 'x'.ljust(10 ** 9) }}",
        "{{ 'x' | indent(10 ** 9) }}",
        "{{ big ~ big }}",
        "{{ big + big }}",
        "{{ big }}{{ big }}",
        "{{ big | replace('x', big) }}",
        "{{ [big, big] | join(big) }}",
        "{{ (range(90000) | list + range(90000) | list) | length }}",
        "{{ [[big, big], [big, big]] | tojson }}",
        "{% set a = big ~ big ~ big ~ big %}{% set b = a ~ a %}{{ b | length }}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ " + "not " * 5000 + "1 }}",
        "{{ envs" + ".a" * 5000 + " }}",
        "{{ " + "[" * 300 + "]" * 300 + " }}",
        "{{ 1 }}" + "x" * 100_000,
        "{{ [" + "big, " * 12_000 + "] }}",
    ],
)
def test_nothing_runs_on_without_end(text: str) -> None:
    begun = time.monotonic()
    assert "the template" in problem(text)
    assert time.monotonic() - begun < 20


def test_places_and_flags_are_kept() -> None:
    tree = loads("a: 1\nb: ['{{ cuda }}', '{{ nothing }}', 'x{{ cuda }}']\nc: {d: '{{ envs }}'}\n", "f")
    assert tree is not None
    rendered = render(tree, VALUES)
    assert plain(rendered) == {"a": "1", "b": ["11.10", "", "x11.10"], "c": {"d": ["a", "b"]}}

    def places(some: Node) -> list[str]:
        if isinstance(some, Scalar):
            return [str(some.position)]
        inner = some.items if hasattr(some, "items") else [value for _, value in some.entries]
        return [place for child in inner for place in places(child)]

    assert places(rendered) == ["f:1:4", "f:2:5", "f:2:19", "f:2:36", "f:3:8", "f:3:8"]
    nulls = render(node("{{ nothing }}"), VALUES), render(node("{{ '' }}"), VALUES)
    assert [is_null(found) for found in nulls] == [True, False]


def test_all_problems_of_a_node_come_at_once() -> None:
    tree = loads("a: '{{ x1 }}'\nb: |\n  one\n  {{ cuda }}\n  {{ x2 }}\nc: '{{ 1 + }}'\n", "f")
    assert tree is not None
    with pytest.raises(InputError) as caught:
        render(tree, VALUES)
    assert [str(found.position) for found in caught.value.problems] == ["f:1:4", "f:5:1", "f:6:4"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ a.b.c }}", {("a", "b", "c")}),
        ("{{ a['b'].c }}", {("a", "b", "c")}),
        ("{{ a['b'].c[0].d }}", {("a", "b", "c")}),
        ("{{ a[b] }}", {("a",), ("b",)}),
        ("{{ a | default(b) }}", {("b",), ("a?",)}),
        ("{{ a.b | d('x') ~ a.c }}", {("a", "b?"), ("a", "c")}),
        ("{% if a is defined %}{{ a.b }}{% endif %}{{ c }}", {("a?",), ("a", "b?"), ("c",)}),
        ("{% for x in xs %}{{ x }}{{ loop.index }}{{ y }}{% endfor %}", {("xs",), ("y",)}),
        ("{% set x = 1 %}{{ x }}", set()),
        ("{{ range(n) }}", {("n",)}),
        ("no template", set()),
    ],
)
def test_names(text: str, expected: set[tuple[str, ...]]) -> None:
    found = {
        (*reference.path[:-1], reference.path[-1] + ("?" if reference.optional else ""))
        for reference in names(node(text))
    }
    assert found == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", True),
        ("no", False),
        ("not no", True),
        ("'yes'", True),
        ("cuda == '11.10'", True),
        ("'a' in envs and facts.os.id == 'debian'", True),
        ("facts.gpus > 4", False),
        ("missing is defined", False),
        ("no == false", True),
        ("cuda is version('9.0', '<')", False),
    ],
)
def test_conditions(text: str, expected: bool) -> None:
    assert Expression(text, HERE).evaluate(VALUES) is expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cuda", "the condition must come to true or false, not '11.10'"),
        ("envs", "the condition must come to true or false, not a list"),
        ("1", "the condition must come to true or false, not 1"),
        ("cdua", "there is no variable 'cdua' (did you mean 'cuda'?)"),
        ("cdua == 'x'", "there is no variable 'cdua' (did you mean 'cuda'?)"),
        ("{{ cuda }}", "a condition is an expression already"),
        ("a b", "there is more than one expression"),
        ("", "the template is wrong"),
        ("'x' * 10 ** 9", "'*' takes numbers"),
    ],
)
def test_conditions_that_are_wrong(text: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        Expression(text, HERE).evaluate(VALUES)
    assert says in str(caught.value)
    assert str(caught.value).startswith("f:3:5: ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", False),
        ("{{ cuda }}", False),
        ("{{ facts.os.id }}", True),
        ("{{ a }}", True),
        ("{{ c }}", False),
        ("{{ loop1 }}", False),
    ],
)
def test_needs_facts_directly_or_through_variables(text: str, expected: bool) -> None:
    variables = {"a": node("{{ b }}"), "b": node("{{ facts.os }}"), "c": node("x"), "loop1": node("{{ loop1 }}")}
    assert needs_facts(node(text), variables) is expected


def test_needs_facts_of_a_condition() -> None:
    assert needs_facts(Expression("facts.os.id == 'debian'", HERE))
    assert not needs_facts(Expression("cuda == 'x'", HERE))
