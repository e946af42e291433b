"""The wheel by itself: installed in a clean venv, with the roles and playbooks that came inside it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.e2e.command import hosts_of, write_inventory
from tests.lab.fixtures import StartHost

ROOT = Path(__file__).parent.parent


def run(*words: str | Path, cwd: Path) -> str:
    done = subprocess.run(list(map(str, words)), cwd=cwd, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, ROOT, cwd=folder)
    (found,) = folder.glob("gpuprov-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of a venv that holds the wheel and what it requires, and nothing else."""
    folder = tmp_path_factory.mktemp("clean")
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    run(folder / "venv/bin/pip", "install", "-q", "--disable-pip-version-check", wheel, cwd=folder)
    return folder / "venv/bin/gpuprov"


def test_what_is_inside(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "gpuprov/py.typed" in names and "gpuprov/onhost/facts.sh" in names
    for folder in ("roles", "playbooks"):
        shipped = {n.removeprefix("gpuprov/_shipped/") for n in names if n.startswith(f"gpuprov/_shipped/{folder}/")}
        tracked = run("git", "ls-files", folder, cwd=ROOT).split()
        assert set(tracked) - shipped == set()
    assert not [n for n in names if n.startswith(("tests/", "roles/", "playbooks/"))]


def test_it_plans_with_built_in_roles_from_another_folder(
    installed: Path, fresh_host: StartHost, tmp_path: Path
) -> None:
    host = fresh_host("b", services=False)
    write_inventory(tmp_path / "hosts.yaml", hosts_of(host))
    (tmp_path / "play.yaml").write_text("- hosts: all\n  roles:\n    - cuda_switch\n")
    out = run(installed, "plan", "play.yaml", "-i", "hosts.yaml", cwd=tmp_path)
    assert "cuda_switch" in out and "/usr/local/bin/cuda-env" in out


def test_playbooks_that_came_with_it_are_found_by_their_names(
    installed: Path, fresh_host: StartHost, tmp_path: Path
) -> None:
    host = fresh_host("b", services=False)
    write_inventory(tmp_path / "hosts.yaml", hosts_of(host))
    out = run(installed, "plan", "playbooks/cuda-side-by-side.yaml", "-i", "hosts.yaml", cwd=tmp_path)
    assert "cuda-toolkit:11.7" in out
    words = ("plan", "playbooks/legacy-torch113.yaml", "-i", "hosts.yaml")
    whole = run(installed, *words, cwd=tmp_path)
    without = run(installed, *words, "-e", "flash_attn=", cwd=tmp_path)
    assert "wheel:/root/envs/torch113/flash-attn" in whole
    assert "flash-attn" not in without and "flash_attention" not in without
    assert "check:torch:/root/envs/torch113" in without, "what is left is tried as before"
