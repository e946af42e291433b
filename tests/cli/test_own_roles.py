"""Mistakes in a role of one's own, on this machine as the host: what is wrong, at which line, and exit code 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuprov.cli import main
from gpuprov.shipped import shipped

HEAD = """\
from gpuprov.facts import Facts
from gpuprov.resources import AptPackage, Directory, File, RunfileSource
from gpuprov.role import role


def helper(*things):
    yield from things


@role
def own(host: Facts, *, size: int = 1):
    \"\"\"A role with a mistake.\"\"\"
    """
PLAYS = "- {hosts: all, roles: [own]}\n"
LINE = HEAD.count("\n") + 1


def plan(folder: Path, text: str, capsys: pytest.CaptureFixture[str], plays: str = PLAYS) -> tuple[int, str]:
    (folder / "roles" / "own").mkdir(parents=True)
    (folder / "roles" / "own" / "role.py").write_text(text)
    (folder / "p.yaml").write_text(plays)
    (folder / "h.yaml").write_text("hosts: {here: {connection: local}}\n")
    code = main(["plan", str(folder / "p.yaml"), "-i", str(folder / "h.yaml"), "--json"])
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    errors = [event.get("error", event) for event in events if event["event"] in ("host-ended", "error")]
    (error,) = errors
    place = error.get("where") or f"{error.get('file')}:{error.get('line')}:{error.get('column')}"
    return code, f"{place}: {error['message']}".replace(f"{folder}/", "")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('yield File(path="/x", contents="a")', "File has no field 'contents' (did you mean 'content'?)"),
        ('yield Directory(path="/x", zzz=1)',
         "Directory has no field 'zzz' (its fields are path, mode, owner, group, parents, present, after)"),
        ('yield from helper(File(path="/x", contents="a"))', "File has no field 'contents' (did you mean 'content'?)"),
        ('RunfileSource(url="x"); yield', "RunfileSource has no field 'url' (did you mean 'urls'?)"),
        ('yield File(content="a")', "File needs the field 'path'"),
        ('yield File("/x")', "the fields of File are given by name (such as File(path=…))"),
        ("yield File(path=5)", "File cannot be made of these fields: AttributeError: "),
        ('yield AptPackage(name=["x"])', "AptPackage cannot be made of these fields: TypeError: "),
        ('yield File(path="/x", after=5)', "a field of File is not what it must be: TypeError: "),
        ('yield File(path="/x", after=("/y",))', "after of file:/x holds '/y', which is no resource"),
        ("yield '/x'", "it yields str, which is no resource"),
        ("while True: yield File(path='/x')", "it yields more than 100000 resources"),
    ],
)  # fmt: skip
def test_a_wrong_use_of_a_resource(body: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = plan(tmp_path, HEAD + body + "\n", capsys)
    assert code == 2
    assert f"roles/own/role.py:{LINE}:1: role 'own': {says}" in said
    assert said.startswith("p.yaml:1:24, role own: ")


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        ('yield File(path="x")', 2, "role 'own': path must be absolute, not 'x'"),
        ('raise ValueError("the size must be even"); yield', 2, "role 'own': the size must be even"),
        ("helper(*5); yield", 1, "TypeError"),
        ("yield from File(path='/x')", 1, "TypeError"),
        ("1 / 0; yield", 1, "ZeroDivisionError"),
    ],
)
def test_what_a_roles_own_code_raises(
    body: str, code: int, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    got, said = plan(tmp_path, HEAD + body + "\n", capsys)
    assert got == code
    assert says in said
    assert f"roles/own/role.py:{LINE}:1" in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD + "return []\n", "must be a generator function"),
        (HEAD.replace('"""A role with a mistake."""', "") + "yield\n", "needs a docstring"),
        (HEAD.replace("*, size", "size") + "yield\n", "parameter 'size' must be keyword-only"),
        (HEAD.replace("size: int", "size") + "yield\n", "parameter 'size' needs a type annotation"),
        (HEAD.replace("def own", "def other") + "yield\n", "must define a function 'own'"),
        (HEAD + "yield (\n", "SyntaxError"),
    ],
)
def test_what_is_no_role(text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = plan(tmp_path, text, capsys)
    assert code == 2
    assert says in said
    assert "roles/own/role.py:" in said


def test_values_that_facts_give_are_told_for_all_plays_before_a_role_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plays = """\
- hosts: all
  roles:
    - own
    - own: {size: "{{ facts.os.id }}"}
    - {role: own, when: facts.os.id, with: {}}
- hosts: all
  roles: [own: {size: "{{ facts.os.id }}"}]
"""
    code, said = plan(tmp_path, HEAD + 'raise ValueError("too early"); yield\n', capsys, plays)
    assert code == 2
    assert [place in said for place in ("p.yaml:4:19", "p.yaml:5:25", "p.yaml:7:23")] == [True] * 3
    assert "too early" not in said


@pytest.mark.parametrize(
    ("file", "name", "says"),
    [
        ("roles/r15/tasks/main.yml", "r15", "roles/r15 is an Ansible role, which is none here; docs/roles.md"),
        ("roles/r15/readme", "r15", "roles/r15 is there and lacks role.py; docs/roles.md"),
        ("sub/roles/r15/tasks/main.yml", "r15", "sub/roles/r15 is an Ansible role"),
        ("roles/my-own/role.py", "my-own", "roles/my-own is there, but a role's name must be one"),
        ("roles/r5/role.py", "r15", "did you mean 'r5'?"),
    ],
)
def test_a_role_that_is_not_found(
    file: str, name: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "roles" / "r5").mkdir(parents=True)
    (tmp_path / "roles" / "r5" / "role.py").touch()
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).touch()
    (tmp_path / "sub").mkdir(exist_ok=True)
    (tmp_path / "sub" / "p.yaml").write_text(f"- {{hosts: all, roles: [{name}]}}\n")
    assert main(["plan", str(tmp_path / "sub" / "p.yaml"), "-i", "a,"]) == 2
    (line,) = capsys.readouterr().err.replace(f"{tmp_path}/", "").splitlines()
    assert f"p.yaml:1:24: there is no role {name!r} ({says}" in line


@pytest.mark.parametrize("where", ["roles", "elsewhere"])
def test_all_places_are_named_where_roles_are_looked_for(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / where / "zzqq").mkdir(parents=True)
    (tmp_path / where / "zzqq" / "role.py").touch()
    (tmp_path / "sub" / "playbooks").mkdir(parents=True)
    (tmp_path / "sub" / "playbooks" / "p.yaml").write_text("- {hosts: all, roles: [zzqq]}\n")
    monkeypatch.chdir(tmp_path)
    assert main(["plan", "sub/playbooks/p.yaml", "-i", "a,"]) == 2
    said = capsys.readouterr().err
    places = f"{tmp_path}/sub/playbooks/roles, {tmp_path}/sub/roles, {shipped('roles')}"
    assert f"roles are looked for beside the playbook and beside its folder: {places})" in said
    assert (f"there is one in {tmp_path}/roles, but" in said) == (where == "roles")


def test_all_that_makes_a_function_no_role_is_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "roles" / "own").mkdir(parents=True)
    text = "from gpuprov.role import role\n\n@role\ndef r3(host: 'Nothing', mouse, n=1):\n    return [mouse]\n"
    (tmp_path / "roles" / "own" / "role.py").write_text(text)
    (tmp_path / "p.yaml").write_text(PLAYS)
    assert main(["plan", str(tmp_path / "p.yaml"), "-i", "a,"]) == 2
    said = capsys.readouterr().err.splitlines()
    expected = [
        "this file must define a function 'own'",
        "must be a generator function",
        "needs a docstring",
        "annotation that cannot be read: name 'Nothing'",
        "parameter 'mouse' must be keyword-only",
        "parameter 'mouse' needs a type annotation",
        "parameter 'n' must be keyword-only",
        "parameter 'n' needs a type annotation",
    ]
    assert len(said) == len(expected)
    assert all(any(words in line for line in said) for words in expected), said
    assert all("roles/own/role.py:" in line for line in said)


@pytest.mark.parametrize("how", ["words", "environment", "not"])
@pytest.mark.parametrize(
    ("body", "raised"),
    [
        ("helper(1 / 0); yield", "division by zero"),
        ("helper(int('x')); yield", "invalid literal"),
        ("helper() / 1; yield", "unsupported operand"),
    ],
)
@pytest.mark.parametrize("at_import", [False, True])
def test_the_traceback_of_a_roles_code_is_there_for_who_asks(
    how: str,
    body: str,
    raised: str,
    at_import: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "roles" / "own").mkdir(parents=True)
    wrong = body.split(";")[0]
    text = HEAD + body + "\n" if not at_import else f"def helper(*_): pass\n\n{wrong}\n"
    (tmp_path / "roles" / "own" / "role.py").write_text(text)
    (tmp_path / "p.yaml").write_text(PLAYS)
    (tmp_path / "h.yaml").write_text("hosts: {here: {connection: local}}\n")
    monkeypatch.setenv("GPUPROV_TRACEBACK", "1" if how == "environment" else "")
    options = ["-vvv"] if how == "words" else []
    assert main(["plan", str(tmp_path / "p.yaml"), "-i", str(tmp_path / "h.yaml"), *options]) in (1, 2)
    said = "".join(capsys.readouterr())
    assert raised in said
    assert ("Traceback" in said) == (how != "not")
    assert (wrong in said) == (how != "not")
    assert "engine/declaring.py" not in said, "only the role's own part of the way"


@pytest.mark.parametrize("raised", ["ValueError", "HostFailed"])
@pytest.mark.parametrize("of", ["-e", "inventory"])
def test_a_value_that_the_role_refuses_is_told_with_the_place_where_it_was_set(
    raised: str, of: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "roles" / "own").mkdir(parents=True)
    text = "from gpuprov.errors import HostFailed\n" + HEAD + f'raise {raised}("size is odd"); yield\n'
    (tmp_path / "roles" / "own" / "role.py").write_text(text)
    (tmp_path / "p.yaml").write_text('- hosts: all\n  roles: [own: {size: "{{ wanted }}"}]\n')
    variables = "" if of == "-e" else ", vars: {wanted: 3}"
    (tmp_path / "h.yaml").write_text(f"hosts: {{here: {{connection: local{variables}}}}}\n")
    options = ["-e", "wanted=3"] if of == "-e" else []
    main(["plan", str(tmp_path / "p.yaml"), "-i", str(tmp_path / "h.yaml"), "--json", *options])
    said = capsys.readouterr().out.replace(f"{tmp_path}/", "")
    assert f"size is set at {'-e:1:8' if of == '-e' else 'h.yaml:1:50'}" in said


def test_a_variable_of_e_that_nothing_uses_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "roles" / "own").mkdir(parents=True)
    (tmp_path / "roles" / "own" / "role.py").write_text(HEAD + "yield from ()\n")
    (tmp_path / "p.yaml").write_text(
        '- hosts: all\n  when: maybe | default("yes")\n  vars: {cuda: "1"}\n  roles: [own: {size: "{{ cuda }}"}]\n'
    )
    (tmp_path / "h.yaml").write_text(
        "hosts: {here: {connection: local, vars: {bad: '{{ cudaa', other: '{{ far }}'}}}\n"
    )
    (tmp_path / "more.yaml").write_text("not_here: 1\n")
    words = ["plan", str(tmp_path / "p.yaml"), "-i", str(tmp_path / "h.yaml"), "-e", f"@{tmp_path}/more.yaml", "--json"]
    words += [part for name in ("cudaa=2", "maybe=yes", "far={{ near }}", "near=1") for part in ("-e", name)]
    assert main(words) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    notices = [(event["level"], event["text"]) for event in events if event["event"] == "notice"]
    assert notices == [("warning", "-e:1:7: nothing uses the variable 'cudaa' of -e (did you mean 'cuda'?)")]
