"""What a condition or the tags leave out is told: at -v and in JSON, and where nothing at all is left to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuprov.cli import main

ROLE = '''\
from gpuprov.resources import Command
from gpuprov.role import role


@role
def own(host, *, name: str = "a"):
    """One thing that is as wanted."""
    yield Command(name=name, look="echo x", want="x", script="true")
'''
NEVER = "facts.os.id == 'no-such-os'"


def say(folder: Path, plays: str, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    (folder / "roles" / "own").mkdir(parents=True)
    (folder / "roles" / "own" / "role.py").write_text(ROLE)
    (folder / "p.yaml").write_text(plays)
    (folder / "h.yaml").write_text("hosts: {here: {connection: local}}\n")
    assert main(["plan", str(folder / "p.yaml"), "-i", str(folder / "h.yaml"), *options]) == 0
    return capsys.readouterr().out


ONE = f"""\
- hosts: all
  roles:
    - own
    - {{role: own, when: "{NEVER}", with: {{name: b}}}}
"""
ALL = f"""\
- name: first
  hosts: all
  roles: [{{role: own, when: "{NEVER}"}}]
- name: second
  hosts: all
  when: "{NEVER}"
  roles: [own]
"""


def test_a_role_left_out_is_told_at_v(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = say(tmp_path, ONE, capsys, "-v")
    assert f"here info        role own is left out by its when: {NEVER}" in said


def test_it_is_told_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [json.loads(line) for line in say(tmp_path, ONE, capsys, "--json").splitlines()]
    (notice,) = [event for event in events if event["event"] == "notice"]
    assert notice["host"] == "here"
    assert notice["text"] == f"role own is left out by its when: {NEVER}"


def test_where_something_is_left_nothing_is_added_to_the_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "left out" not in say(tmp_path, ONE, capsys)


def test_where_conditions_leave_nothing_it_is_said_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = say(tmp_path, ALL, capsys)
    assert "here  nothing to change\n" in said
    assert f"first: role own is left out by its when: {NEVER}" in said
    assert f"second: all of play 'second' is left out by its when: {NEVER}" in " ".join(said.split())


@pytest.mark.parametrize("options", [["-t", "x"], ["--skip-tags", "y"]])
def test_where_tags_leave_nothing_it_is_said_why(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plays = "- hosts: all\n  tags: y\n  roles: [own]\n- {hosts: all, tags: x, roles: []}\n"
    said = say(tmp_path, plays, capsys, *options)
    assert "here  nothing to change\n" in said
    assert "the tags asked for leave out all that it declares" in said
