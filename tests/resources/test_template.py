from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuprov.errors import InputError
from gpuprov.resources import Directory, File, Template, Templates
from gpuprov.secret import Secret

from .host import Host


@pytest.fixture
def templates(tmp_path: Path) -> Templates:
    folder = tmp_path / "role" / "templates"
    folder.mkdir(parents=True)
    (tmp_path / "role" / "role.py").write_text("")
    (tmp_path / "role" / "private").write_text("not a template")
    for name, text in {
        "plain": "a = {{ a }}\n",
        "no newline": "{{ a }}",
        "markup": "{{ a }}",
        "undefined": "one\ntwo\n{{ a }}{{ nowhere }}\n",
        "attribute": "\n{{ a.nowhere }}\n",
        "syntax": "one\n{% if %}\n",
        "division": "one\n{{ 1 // 0 }}\n",
        "includes": "x {% include 'sub/part' %}",
        "includes nothing": "one\n{% include 'nothing' %}",
        "sub/part": "part {{ a }}\n{{ b }}",
        "latin": "",
        "tests": "{{ 'yes' if a is defined else 'no' }}",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "latin").write_bytes(b"\xe4")
    return Templates.beside(str(tmp_path / "role" / "role.py"))


RENDERED: dict[str, tuple[dict[str, object], str]] = {
    "plain": ({"a": 1}, "a = 1\n"),
    "no newline": ({"a": "x\n"}, "x\n"),
    "markup": ({"a": "<&'\">"}, "<&'\">"),
    "includes": ({"a": 1, "b": 2}, "x part 1\n2"),
    "sub/part": ({"a": 1, "b": 2}, "part 1\n2"),
    "tests": ({}, "no"),
}


@pytest.mark.parametrize("name", RENDERED)
def test_rendered(templates: Templates, name: str) -> None:
    variables, expected = RENDERED[name]
    assert Template(path="/f", source=templates(name), variables=variables).rendered == expected


FAILS: dict[str, tuple[dict[str, object], str, str]] = {
    "undefined": ({"a": 1}, "templates/undefined:3:", "'nowhere' is undefined"),
    "attribute": ({"a": 1}, "templates/attribute:2:", "nowhere"),
    "syntax": ({}, "templates/syntax:2:", "Expected an expression"),
    "division": ({}, "templates/division:2:", "ZeroDivisionError"),
    "includes": ({"a": 1}, "templates/sub/part:2:", "'b' is undefined"),
    "includes nothing": ({}, "templates/includes nothing:2:", "no template 'nothing'"),
    "latin": ({}, "templates/latin:", "UnicodeDecodeError"),
    "plain": ({"a": Secret("hunter2")}, "templates/plain:", "'a' holds a secret"),
    "markup": ({"a": {"deep": [Secret("hunter2")]}}, "templates/markup:", "'a' holds a secret"),
}


@pytest.mark.parametrize("name", FAILS)
def test_fails_with_file_and_line(templates: Templates, name: str) -> None:
    variables, place, words = FAILS[name]
    with pytest.raises(InputError) as caught:
        Template(path="/f", source=templates(name), variables=variables)
    assert place in str(caught.value)
    assert words in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_secret_inside_an_object_fails_too(templates: Templates) -> None:
    file = File(path="/x", content=Secret("hunter2"))
    (Path(templates.folder) / "object").write_text("{{ a.content }}")
    with pytest.raises(InputError, match="secret"):
        Template(path="/f", source=templates("object"), variables={"a": file})


@pytest.mark.parametrize("name", ["nothing", "", "..", "../private", "/etc/passwd", "sub", "sub/../../private"])
def test_missing(templates: Templates, name: str) -> None:
    with pytest.raises(InputError) as caught:
        templates(name)
    assert repr(name) in str(caught.value)
    assert "plain" in str(caught.value)


def test_no_folder_at_all(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no template"):
        Templates.beside(str(tmp_path / "role.py"))("x")


def test_it_is_the_file_that_it_amounts_to(templates: Templates) -> None:
    fields: dict[str, Any] = {"path": "/etc//x", "mode": 0o600, "owner": "me", "group": "us"}
    template = Template(source=templates("plain"), variables={"a": 1}, **fields)
    file = File(content="a = 1\n", **fields)
    assert template.id == file.id
    assert template.desired() == file.desired()
    assert template.claims() == file.claims()
    assert template.plan(None) == file.plan(None)
    assert template.probe().asks == file.probe().asks
    assert hash(template) == hash(Template(source=templates("plain"), variables={"a": 1}, **fields))


def test_fields_are_checked(templates: Templates) -> None:
    with pytest.raises(ValueError, match="0o644"):
        Template(path="/f", source=templates("plain"), variables={"a": 1}, mode=644)
    with pytest.raises(ValueError, match="absolute"):
        Template(path="f", source=templates("plain"), variables={"a": 1})


def test_resources_among_the_variables_are_needed(templates: Templates) -> None:
    one, two = Directory(path="/a"), Directory(path="/b")
    template = Template(path="/f", source=templates("plain"), variables={"a": one, "b": [two], "c": "x"})
    assert list(template.needs()) == [one, two]


def test_absent_needs_no_variables(templates: Templates) -> None:
    template = Template(path="/f", source=templates("undefined"), present=False)
    assert template.plan(None) is None


def test_on_a_host(host: Host, templates: Templates, tmp_path: Path) -> None:
    path = tmp_path / "f"
    host.converge(Template(path=str(path), source=templates("plain"), variables={"a": 1}))
    assert path.read_text() == "a = 1\n"
    change = host.converge(Template(path=str(path), source=templates("plain"), variables={"a": 2}))
    assert change
    assert "-a = 1\n+a = 2\n" in change.diff
