"""A playbook is found by its path, or among those that came with gpuprov; otherwise it is said what there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprov.cli import main

VERIFY = "did you mean 'playbooks/verify.yaml'?"
ALL = (
    "with gpuprov come playbooks/cuda-side-by-side.yaml, playbooks/legacy-torch113.yaml, "
    "playbooks/torch-current.yaml, playbooks/verify.yaml"
)


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("verify.yaml", VERIFY),
        ("verify", VERIFY),
        ("playbooks/verfy.yaml", VERIFY),
        ("playbooks/verify.yml", VERIFY),
        ("mine/siet.yaml", "did you mean 'mine/site.yaml'?"),
        ("mine/verify.yaml", VERIFY),
        ("nothing-like-it", ALL),
        ("/nowhere/nothing-like-it.yaml", ALL),
    ],
)
def test_a_playbook_that_is_not_there(
    word: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "site.yaml").touch()
    monkeypatch.chdir(tmp_path)
    assert main(["plan", word, "-i", "a,"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    looked = (tmp_path / word).parent
    assert line.startswith(f"there is no playbook {word!r} in {looked}")
    assert line.endswith(f"({hint})")
    assert line.count(" or /") == (1 if word.startswith("playbooks/") else 0), "where else it was looked for"


def test_it_hides_no_mistake_of_the_inventory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hosts.yaml").write_text("hosts: {a: {port: x}}")
    assert main(["apply", str(tmp_path / "no.yaml"), "-i", str(tmp_path / "hosts.yaml"), "-l", "b"]) == 2
    first, second, third = capsys.readouterr().err.splitlines()
    assert "'b'" in first
    assert "no playbook" in second
    assert "hosts.yaml:1:19" in third


@pytest.mark.parametrize("word", ["playbooks/verify.yaml", "playbooks/torch-current.yaml"])
def test_those_that_came_with_it_are_found_from_everywhere(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["plan", word, "-i", "a,", "--list-hosts"])
    assert "no playbook" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["plan", "verify.yaml"], ["no inventory: ", "there is no playbook 'verify.yaml'"]),
        (
            ["apply", "p.yaml", "-e", "x"],
            ["no inventory: ", "'x' sets nothing", "p.yaml:1:25: there is no role 'zzqq'"],
        ),
        (["facts", "-e", "x"], ["no inventory: ", "'x' sets nothing"]),
        (["plan", "playbooks/verify.yaml"], ["no inventory: "]),
    ],
)
def test_a_missing_inventory_hides_no_other_mistake(
    words: list[str],
    says: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUPROV_INVENTORY", raising=False)
    (tmp_path / "p.yaml").write_text("- {hosts: gpu1, roles: [zzqq]}\n")
    assert main(words) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == len(says), said
    assert all(any(part in line for line in said) for part in says), said
