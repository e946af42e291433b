"""Environments made, damaged, replaced and removed on this machine, with a stand-in for conda."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuprov.causes import own_mark
from gpuprov.errors import HostFailed
from gpuprov.model import Job
from gpuprov.resources import manifest
from gpuprov.resources.conda_env import CondaEnv, MicromambaSource

from .conda_ground import MINOR, PYTHON, SHELLS, Ground


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path / "a host")


@pytest.fixture(params=SHELLS)
def any_ground(request: pytest.FixtureRequest, tmp_path: Path) -> Ground:
    return Ground(tmp_path / "a host", shell=SHELLS[request.param])


def left(ground: Ground) -> list[str]:
    return sorted(os.listdir(ground.envs))


def job_of(ground: Ground, env: CondaEnv) -> Job:
    change = ground.plan(env)
    assert change is not None
    step = change.steps[-1]
    assert isinstance(step, Job)
    return step


# --- the whole life, in every shell ---


def test_its_life(any_ground: Ground) -> None:
    ground, env = any_ground, any_ground.conda_env(packages=("gxx=12.1",), channels=("main", "/a channel"[:2]))
    first = ground.converge(env)
    assert f"done: {env.path}, Python {PYTHON}" in first.output
    assert ground.calls == [
        f"create -y -p {env.path} --no-default-packages --override-channels -c main -c /a python={MINOR} gxx==12.1 pip"
    ]
    head = manifest.parse(Path(env.path, "manifest.json").read_bytes())
    assert head is not None
    assert (head.head.id, head.head.inputs, head.head.release) == (env.id, env.inputs, f"python {PYTHON}")
    whole = json.loads(Path(env.path, "manifest.json").read_text())
    assert whole["records"] == ["pip-1.0-py_0", f"python-{PYTHON}-h1_0"]
    assert whole["explicit"] == [
        "https://c.example/noarch/pip-1.conda#sha256:abcd",
        "https://c.example/linux-64/python-1.conda#0123",
    ]
    assert whole["tool"].strip() == "conda 23.11.0"

    other = ground.conda_env(packages=("gxx=12.2",))
    change = ground.plan(other)
    assert change is not None and change.action == "replace"
    Path(env.path, "of-the-former").touch()
    assert "moved the former" in ground.converge(other).output
    assert not Path(env.path, "of-the-former").exists()
    assert left(ground) == ["work"]

    gone = ground.conda_env(present=False)
    ground.converge(gone)
    assert left(ground) == []
    assert ground.plan(gone) is None


def test_a_job_that_is_done_has_nothing_to_do(ground: Ground) -> None:
    env = ground.conda_env()
    job = job_of(ground, env)
    assert ground.run(job).status == 0
    again = ground.run(job)
    announced, _, said = again.output.partition("\n")
    assert own_mark(announced)
    assert (again.status, said) == (0, f"nothing to do: {env.path} is as wanted\n")
    assert len(ground.calls) == 1


# --- which tool ---


@pytest.mark.parametrize(
    ("tools", "wanted"),
    [
        (["bin/conda", "bin/micromamba", "bin/mamba"], "bin/micromamba"),
        (["bin/conda", "bin/mamba"], "bin/mamba"),
        (["base/bin/conda"], "base/bin/conda"),
        (["base/bin/conda", "base/bin/mamba"], "base/bin/mamba"),
        (["bin/conda", "base/bin/micromamba"], "bin/conda"),
        (["base/condabin/conda"], "base/condabin/conda"),
    ],
)
def test_which_tool(ground: Ground, tools: list[str], wanted: str) -> None:
    (ground.folder / "bin/conda").unlink()
    for tool in tools:
        ground.tool(Path(tool).name, str(Path(tool).parent))
    env = ground.conda_env(bases=(str(ground.folder / "base"),))
    seen = ground.look(env)
    assert seen is not None and seen.tool == str(ground.folder / wanted)
    assert f"with {ground.folder / wanted}" in ground.converge(env).output
    assert ("--no-default-packages" in ground.calls[0]) is ("micromamba" not in wanted)


def test_a_tool_that_is_named_is_the_one(ground: Ground) -> None:
    named = ground.tool("conda", "opt/x/bin")
    assert f"with {named}" in ground.converge(ground.conda_env(tool=str(named))).output
    with pytest.raises(HostFailed, match="gone is not there"):
        ground.plan(ground.conda_env("other", tool=f"{ground.folder}/gone"))


def test_a_micromamba_that_was_brought(ground: Ground) -> None:
    (ground.folder / "bin/conda").unlink()
    env = ground.conda_env(micromamba=MicromambaSource(urls=("https://m.example/m",), sha256="0" * 64))
    job = job_of(ground, env)
    assert ground.run(job).status == 12
    brought = ground.tool("micromamba-000000000000", "cache")
    brought.chmod(0o644)
    ended = ground.run(job)
    assert ended.status == 0, ended.output
    assert ground.calls[0].endswith(f"-r {ground.folder}/cache/micromamba python={MINOR} pip")
    assert ground.plan(env) is None


def test_an_explicit_list(ground: Ground) -> None:
    lines = (f"https://c.example/linux-64/python-{PYTHON}-h1_0.conda#{'a' * 32}", f"file:///x/b-1-0.tar.bz2#{'b' * 64}")
    ground.converge(ground.conda_env(explicit=lines))
    assert (ground.folder / "fake/explicit").read_text() == "@EXPLICIT\n" + "\n".join(lines) + "\n"
    assert f"python={MINOR}" not in ground.calls[0]


def test_the_surroundings_do_not_reach_conda(ground: Ground) -> None:
    given = {"PYTHONPATH": "/x", "PYTHONHOME": "/x", "CONDA_PREFIX": "/x", "CONDA_SHLVL": "1", "CI": "true"}
    ground.converge(ground.conda_env(), env={**given, "HTTPS_PROXY": "http://p", "CONDA_PLUGINS_AUTO_ACCEPT_TOS": "no"})
    seen = dict(line.partition("=")[::2] for line in (ground.folder / "fake/env").read_text().splitlines())
    assert not set(given) & set(seen)
    assert seen["HTTPS_PROXY"] == "http://p"
    assert seen["CONDA_PKGS_DIRS"] == f"{ground.folder}/cache/conda-pkgs"
    assert seen["CONDA_PLUGINS_AUTO_ACCEPT_TOS"] == "no"
    assert not any((ground.folder / "home").iterdir()), "no start file, no .condarc"


# --- what goes wrong ---


@pytest.mark.parametrize(
    ("how", "status", "words"),
    [
        ("tos", 13, "gpuprov accepts none for anybody"),
        ("missing", 14, "not to be had from these channels"),
        ("odd", 1, "create ended with status 7"),
        ("middle", 1, "create ended with status 1"),
    ],
)
def test_a_failure_leaves_nothing(any_ground: Ground, how: str, status: int, words: str) -> None:
    ground, env = any_ground, any_ground.conda_env()
    ended = ground.apply(env, env={"FAKE_FAIL": how})
    assert ended.status == status
    assert words in ended.output
    assert left(ground) == []


def test_it_is_tidied_up_although_nothing_can_be_written_any_more(any_ground: Ground) -> None:
    ended = any_ground.apply(any_ground.conda_env(), env={"FAKE_FAIL": "nowork"})
    assert ended.status != 0
    assert left(any_ground) == []


def test_a_failure_gives_the_former_back(any_ground: Ground) -> None:
    ground, env = any_ground, any_ground.conda_env()
    ground.converge(env)
    Path(env.path, "of-the-former").touch()
    ended = ground.apply(ground.conda_env(packages=("a=1",)), env={"FAKE_FAIL": "middle"})
    assert ended.status == 1
    assert "put back the former" in ended.output
    assert Path(env.path, "of-the-former").exists()
    assert left(ground) == ["work"]
    assert ground.plan(env) is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("former", [False, True])
def test_cut_off_in_the_middle(any_ground: Ground, number: signal.Signals, former: bool) -> None:
    ground, env = any_ground, any_ground.conda_env()
    if former:
        ground.converge(ground.conda_env(packages=("a=1",)))
        Path(env.path, "of-the-former").touch()
    process = ground.start(job_of(ground, env), {"FAKE_FAIL": "hang"})
    end = time.monotonic() + 20
    while not (ground.folder / "fake/hangs").exists():
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.02)
    while len(Path(ground.envs, ".gpuprov-work.making").read_text().split("\n")) < 3:
        assert time.monotonic() < end, "the mark never named the folder"
        time.sleep(0.02)
    # Not by its device, which has another number once the host was started again
    named = Path(ground.envs, ".gpuprov-work.making").read_text().split("\n")[1]
    assert named.split(":")[0] == str(Path(env.path).stat().st_ino)
    half_made = ground.look(env)
    assert half_made is not None and half_made.kind == "conda"
    os.killpg(process.pid, number)
    process.communicate(timeout=20)
    if number == signal.SIGTERM:
        assert left(ground) == (["work"] if former else [])
        assert Path(env.path, "of-the-former").exists() is former
    else:
        assert ".gpuprov-work.making" in left(ground)
    ended = ground.converge(env)
    if number == signal.SIGKILL:
        assert "which is half-made" in ended.output
        assert ("put back the former" in ended.output) is former
    assert left(ground) == ["work"]


def test_what_somebody_made_after_an_attempt_was_cut_off_is_his(any_ground: Ground) -> None:
    """The mark names the folder that the dead attempt made; another folder at the path has nothing to do with it."""
    ground, env = any_ground, any_ground.conda_env()
    job = job_of(ground, env)
    Path(env.path, "conda-meta").mkdir(parents=True)
    Path(env.path, "my-work").touch()
    for mark in (f"{env.path}\n", f"{env.path}\n1:1\n"):
        Path(ground.envs, ".gpuprov-work.making").write_text(mark)
        with pytest.raises(HostFailed, match="left alone"):
            ground.plan(env)
        assert ground.run(job).status != 0
        assert Path(env.path, "my-work").exists()


def test_cut_off_after_the_last_act(ground: Ground) -> None:
    """The manifest is there, and what was to be cleared away is too: nothing is made again."""
    env = ground.conda_env()
    ground.converge(env)
    Path(ground.envs, ".gpuprov-work.making").write_text(env.path)
    shutil.copytree(env.path, f"{ground.envs}/.gpuprov-work.former", symlinks=True)
    Path(ground.envs, ".gpuprov-work.removed").mkdir()
    change = ground.plan(env)
    assert change is not None and change.action == "update"
    ground.converge(env)
    assert left(ground) == ["work"]
    assert len(ground.calls) == 1


def test_a_removal_that_was_cut_off(ground: Ground) -> None:
    env = ground.conda_env(present=False)
    Path(ground.envs, ".gpuprov-work.removed/x").mkdir(parents=True)
    ground.converge(env)
    assert left(ground) == []


def test_another_python_than_was_asked_for(ground: Ground) -> None:
    ended = ground.apply(ground.conda_env(python="3.6"))
    assert ended.status == 16
    assert f"Python {PYTHON} was put into {ground.envs}/work, and 3.6 is wanted" in ended.output
    assert left(ground) == []


def test_a_tool_that_does_not_work(ground: Ground) -> None:
    (ground.folder / "bin/conda").write_text("#!/bin/sh\necho broken; exit 1\n")
    ended = ground.apply(ground.conda_env())
    assert (ended.status, "does not work: broken" in ended.output) == (12, True)


# --- whose it is ---


def conda_base(path: Path) -> None:
    (path / "conda-meta").mkdir(parents=True)
    (path / "condabin").mkdir()


def conda_base_of_micromamba(path: Path) -> None:
    (path / "conda-meta").mkdir(parents=True)
    (path / "pkgs").mkdir()


def foreign_env(path: Path) -> None:
    (path / "conda-meta").mkdir(parents=True)


def venv(path: Path) -> None:
    path.mkdir()
    (path / "pyvenv.cfg").touch()


def hidden(path: Path) -> None:
    path.mkdir()
    (path / ".notes").touch()


def file(path: Path) -> None:
    path.touch()


def link(path: Path) -> None:
    (path.parent / "elsewhere").mkdir()
    path.symlink_to("elsewhere")


def dangling(path: Path) -> None:
    path.symlink_to("nowhere")


FOREIGN = [conda_base, conda_base_of_micromamba, foreign_env, venv, hidden, file, link, dangling]


@pytest.mark.parametrize("make", FOREIGN, ids=lambda make: make.__name__)
def test_what_is_not_ours_is_left_alone(any_ground: Ground, make: Callable[[Path], None]) -> None:
    ground, env = any_ground, any_ground.conda_env()
    create, remove = job_of(ground, env), None
    make(Path(env.path))
    before = sorted(map(str, ground.folder.glob("envs/**/*")))
    for present in (True, False):
        with pytest.raises(HostFailed, match=r"is left alone|is not removed"):
            ground.plan(ground.conda_env(present=present))
    # A job that was planned before it came says the same.
    remove = ground.conda_env(present=False)._remove("x").steps[0]
    assert isinstance(remove, Job)
    for job in (create, remove):
        ended = ground.run(job)
        assert ended.status in (10, 11)
        assert "left alone" in ended.output
    assert sorted(map(str, ground.folder.glob("envs/**/*"))) == before
    assert ground.calls == []


def test_an_environment_is_not_replaced_by_the_tool_in_it(ground: Ground) -> None:
    env = ground.conda_env()
    ground.converge(env)
    tool = ground.tool("conda", "envs/work/bin")
    ended = ground.apply(ground.conda_env(packages=("a=1",), tool=str(tool)))
    assert ended.status == 11
    assert f"is where {tool} comes from" in ended.output
    assert ground.plan(env) is None


def test_an_environment_that_was_copied_here(ground: Ground) -> None:
    ground.converge(ground.conda_env("first"))
    shutil.copytree(f"{ground.envs}/first", f"{ground.envs}/work", symlinks=True)
    with pytest.raises(HostFailed, match=r"gpuprov made it as conda-env:.*/first"):
        ground.plan(ground.conda_env())


def test_an_empty_folder_is_free(any_ground: Ground) -> None:
    env = any_ground.conda_env()
    Path(env.path).mkdir()
    any_ground.converge(env)


# --- damage ---


def no_python(env: Path) -> None:
    (env / "bin/python").unlink()


def python_to_nowhere(env: Path) -> None:
    (env / "bin/python3").unlink()
    (env / "bin/python3").symlink_to("/nowhere/python3")


def python_that_is_a_folder(env: Path) -> None:
    (env / "bin/python").unlink()
    (env / "bin/python").mkdir()


def python_that_cannot_be_run(env: Path) -> None:
    (env / "bin/python").unlink()
    (env / "bin/python").write_text("")


def python_of_another_place(env: Path) -> None:
    (env / "bin/python").unlink()
    (env / "bin/python").symlink_to(shutil.copy("/bin/true", env / "bin/another"))


def a_record_is_gone(env: Path) -> None:
    next((env / "conda-meta").glob("python-*.json")).unlink()


def another_python(env: Path) -> None:
    record = next((env / "conda-meta").glob("python-*.json"))
    record.rename(record.with_name("python-3.99.0-h1_0.json"))


def the_packages_are_gone(env: Path) -> None:
    shutil.rmtree(env / "lib")


def half_a_manifest(env: Path) -> None:
    text = (env / "manifest.json").read_text()
    (env / "manifest.json").write_text(text[: text.index('"records"') + 30])


DAMAGE = [
    (no_python, "1 missing (bin/python)"),
    (python_to_nowhere, "1 missing (bin/python)"),
    (python_that_is_a_folder, "1 missing (bin/python)"),
    (python_that_cannot_be_run, "1 no longer readable or executable (bin/python)"),
    (python_of_another_place, "1 changed (bin/python)"),
    (a_record_is_gone, "1 missing (conda-meta/python-"),
    (another_python, "1 missing (conda-meta/python-"),
    (the_packages_are_gone, "1 missing (lib/python3/site-packages)"),
    (half_a_manifest, "1 cut short (manifest.json)"),
]


@pytest.mark.parametrize(("damage", "words"), DAMAGE, ids=lambda value: getattr(value, "__name__", ""))
def test_damage_is_seen_and_put_right(any_ground: Ground, damage: Callable[[Path], None], words: str) -> None:
    ground, env = any_ground, any_ground.conda_env()
    ground.converge(env)
    damage(Path(env.path))
    change = ground.plan(env)
    assert change is not None
    assert change.action == "replace"
    assert change.why.startswith(words)
    ground.converge(env)
    assert left(ground) == ["work"]


def test_what_is_put_into_it_is_no_damage(ground: Ground) -> None:
    env = ground.conda_env()
    ground.converge(env)
    Path(env.path, "conda-meta/more-1-0.json").write_text("{}")
    Path(env.path, "lib", f"python{MINOR}", "site-packages/more.py").touch()
    assert ground.plan(env) is None
