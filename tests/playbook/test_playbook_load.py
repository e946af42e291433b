"""Playbooks: the three forms of a role entry, and every mistake of a file at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprov.errors import InputError
from gpuprov.playbook import Playbook, load_playbook
from gpuprov.yaml_text import plain


def load(tmp_path: Path, text: str) -> Playbook:
    file = tmp_path / "p.yaml"
    file.write_text(text)
    return load_playbook(file)


def problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        load(tmp_path, text)
    return [str(problem).replace(f"{tmp_path}/", "") for problem in caught.value.problems]


FULL = """\
- name: Legacy stack
  hosts: train:!here
  vars: {cuda: 11.10, list: [a, {b: c}]}
  tags: [x, "y, z"]
  when: facts.os.id == "debian"
  roles:
    - cuda_toolkit: {version: "{{ cuda }}"}
    - role: flash_attention
      with: {env: torch113}
      tags: fa
      when: yes
    - driver
    - other:
- hosts: [a, b]
  roles: []
"""


def test_a_full_playbook(tmp_path: Path) -> None:
    playbook = load(tmp_path, FULL)
    assert playbook.path == tmp_path / "p.yaml"
    first, second = playbook.plays
    assert (first.name, first.hosts) == ("Legacy stack", "train:!here")
    assert first.tags == {"x", "y", "z"}
    assert {name: plain(node) for name, node in first.vars.items()} == {"cuda": "11.10", "list": ["a", {"b": "c"}]}
    assert first.when is not None
    assert first.when.text == 'facts.os.id == "debian"'
    assert (first.when.position.line, first.hosts_position.line) == (5, 2)
    assert [entry.role for entry in first.roles] == ["cuda_toolkit", "flash_attention", "driver", "other"]
    assert [plain(entry.params) for entry in first.roles] == [{"version": "{{ cuda }}"}, {"env": "torch113"}, {}, {}]
    assert [entry.position.line for entry in first.roles] == [7, 8, 12, 13]
    flash = first.roles[1]
    assert flash.tags == {"fa"}
    assert flash.when is not None
    assert flash.when.evaluate({}) is True
    assert (second.name, second.hosts, second.roles, second.when) == ("a,b", "a,b", (), None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "p.yaml:1:1: the playbook holds no play (write '- hosts: all'"),
        ("[]", "p.yaml:1:1: the playbook holds no play"),
        ("hosts: all", "p.yaml:1:1: a playbook is a list of plays, not a mapping (write '- hosts: all'"),
        ("- all", "p.yaml:1:3: a play is a mapping, not 'all'"),
        ("- {hosts: all}", "p.yaml:1:3: the play has no 'roles'"),
        ("- {roles: []}", "p.yaml:1:3: the play has no 'hosts'"),
        ("- {hosts: all, rolls: []}", "p.yaml:1:16: 'rolls' is not a key of a play (did you mean 'roles'?)"),
        ("- {hosts: all, roles: [], tasks: []}", "(there are no tasks; what is to be done is a role)"),
        ("- {hosts: all, roles: [], gather_facts: no}", "(leave it out: facts are always read, in one trip)"),
        ("- {hosts: all, roles: [], become: yes}",
         "p.yaml:1:27: 'become' is not a key of a play (say 'become: auto' or 'become: never' in the inventory)"),
        ("- {hosts: all, roles: [], serial: 2}", "; -f N bounds how many are worked on at a time)"),
        ("- {hosts: all, roles: [], import_playbook: x}", "(put its plays into this file, or run one after the other)"),
        ("- {hosts: all, roles: [], zzz: 2}", "is not a key of a play (its keys are name, hosts, vars, tags, when"),
        ("- {hosts: all, roles: [{role: x, become: yes}]}",
         "'become' is not a key of a role in long form (say 'become: auto' or"),
        ("- {hosts: , roles: []}", "hosts names no host"),
        ("- {hosts: [], roles: []}", "p.yaml:1:11: hosts names no host"),
        ("- {hosts: {a: b}, roles: []}", "p.yaml:1:11: hosts must be a list, not a mapping"),
        ("- {hosts: '{{ x }}', roles: []}", "p.yaml:1:11: hosts cannot be a template"),
        ("- {hosts: all, roles: x}", "p.yaml:1:23: roles must be a list, not 'x'"),
        ("- {hosts: all, roles: [[]]}", "p.yaml:1:24: a role is a name or a mapping, not a list"),
        ("- {hosts: all, roles: [~]}", "p.yaml:1:24: a role is a name or a mapping, not nothing"),
        ("- {hosts: all, roles: [{}]}", "p.yaml:1:24: a role is a name or a mapping, not a mapping"),
        ("- {hosts: all, roles: [../x]}", "p.yaml:1:24: a role's name is made of letters"),
        ("- {hosts: all, roles: [{x: mouse=no}]}", "not 'mouse=no' (write {mouse: \"no\"})"),
        ("- {hosts: all, roles: [{x: a=1 b=x}]}", '(write {a: "1", b: "x"})'),
        ("- {hosts: all, roles: [{x: [1]}]}", "p.yaml:1:28: the parameters of 'x' must be a mapping, not a list"),
        ("- {hosts: all, roles: [{x: {}, version: 1}]}", "(indent the parameters below 'x')"),
        ("- {hosts: all, roles: [{x: {}, tags: [a]}]}", "(write 'role: x' with 'with', 'tags' and 'when' beside it)"),
        ("- {hosts: all, roles: [{role: x, version: 1}]}", "(a parameter goes under 'with': with: {version: …})"),
        ("- {hosts: all, roles: [{role: x, vars: {}}]}", "(the parameters go under 'with')"),
        ("- {hosts: all, roles: [{role: x, wehn: y}]}",
         "'wehn' is not a key of a role in long form (did you mean 'when'?)"),
        ("- {hosts: all, roles: [{role: [x]}]}", "role must be a name, not a list"),
        ("- {hosts: all, roles: [], tags: [a b]}", "a tag is made of letters, digits, '_', '.' and '-', not 'a b'"),
        ("- {hosts: all, roles: [], tags: {a: b}}", "tags must be a list, not a mapping"),
        ("- {hosts: all, roles: [], when: '{{ x }}'}", "a condition is an expression already (leave out {{ }}"),
        ("- {hosts: all, roles: [], when: a b}", "there is more than one expression"),
        ("- {hosts: all, roles: [], when: a ==}", "p.yaml:1:33: the template is wrong:"),
        ("- {hosts: all, roles: [], when: [a, b]}", "when must be text, not a list"),
        ("- {hosts: all, roles: [], vars: {host: x}}", "no variable can be called 'host'"),
        ("- {hosts: all, roles: [], vars: {x: '{{ y'}}", "p.yaml:1:37: the template is wrong:"),
        ("- {hosts: all, roles: [x: {y: '{{ y|upperr }}'}]}", "No filter named 'upperr' (did you mean 'upper'?)"),
        ("- hosts: all\n  roles: []\n  vars:\n    x: |\n      one\n      {{ 1 + }}\n",
         "p.yaml:6:1: the template is wrong:"),
    ],
)  # fmt: skip
def test_mistakes(tmp_path: Path, text: str, expected: str) -> None:
    assert any(expected in problem for problem in problems(tmp_path, text)), problems(tmp_path, text)


def test_all_mistakes_come_at_once_and_in_order(tmp_path: Path) -> None:
    text = (
        "- nmae: x\n  hosts: all\n  vars: {a: '{{', b-c: 1}\n  roles:\n    - x: {y: '{{ 1 + }}'}\n"
        "    - role: y\n      when: a b\n- 7\n"
    )
    places = [problem.split(": ")[0] for problem in problems(tmp_path, text)]
    assert places == ["p.yaml:1:3", "p.yaml:3:13", "p.yaml:3:19", "p.yaml:5:14", "p.yaml:7:13", "p.yaml:8:3"]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        load_playbook(tmp_path / "none.yaml")
