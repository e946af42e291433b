"""Packages installed, damaged and removed by a real pip, from wheels that are made here."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuprov.model import Job
from gpuprov.resources.conda_env import CondaEnv
from gpuprov.resources.pip_package import PipPackage, PipTransaction

from .conda_ground import DEADLINE, MINOR, SHELLS, Ground


def prepared(folder: Path, shell: str = "dash") -> Ground:
    ground = Ground(folder / "a host", shell=SHELLS[shell])
    ground.converge(ground.conda_env())
    for version in ("1.0", "2.0", "1.0+cu117"):
        ground.wheel("Flash_Attn", version)
    ground.wheel("plain", "1.0")
    ground.wheel("needy", "1.0", requires=["plain>=1"])
    return ground


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return prepared(tmp_path)


@pytest.fixture(params=SHELLS)
def any_ground(request: pytest.FixtureRequest, tmp_path: Path) -> Ground:
    return prepared(tmp_path, request.param)


def pip(ground: Ground, name: str = "flash-attn", version: str = "1.0", **fields: Any) -> PipPackage:
    return PipPackage(env=ground.conda_env(), name=name, version=version, **fields)


def site(ground: Ground) -> Path:
    return Path(ground.envs, "work/lib", f"python{MINOR}", "site-packages")


def records(ground: Ground) -> list[str]:
    return sorted(path.name for path in site(ground).glob("*-info") if not path.name.startswith("pip-"))


def test_its_life(any_ground: Ground) -> None:
    ground = any_ground
    # `pip install` is asked once for all that is ready
    ended = ground.converge(pip(ground), pip(ground, "needy"))
    assert "installing 2 packages into" in ended.output
    assert records(ground) == ["Flash_Attn-1.0.dist-info", "needy-1.0.dist-info", "plain-1.0.dist-info"]
    assert ground.imported(ground.conda_env(), "flash_attn") == "1.0"
    ended = ground.converge(PipPackage(env=ground.conda_env(), name="plain", present=False))
    assert "warning: needy 1.0 requires plain, which is not installed." in ended.output
    assert records(ground) == ["Flash_Attn-1.0.dist-info", "needy-1.0.dist-info"]
    assert sorted(os.listdir(ground.conda_env().path)) == ["bin", "conda-meta", "lib", "manifest.json", "pyvenv.cfg"]
    assert not any((ground.folder / "home").iterdir())


# --- damage ---


def no_record(ground: Ground) -> None:
    (site(ground) / "Flash_Attn-1.0.dist-info/RECORD").unlink()


def mixed_up_with_another(ground: Ground) -> None:
    for version in ("2.0", "3.0"):
        shutil.copytree(site(ground) / "Flash_Attn-1.0.dist-info", site(ground) / f"flash_attn-{version}.dist-info")
    (site(ground) / "flash_attn-3.0.dist-info/RECORD").unlink()
    (site(ground) / "flash_attn/__init__.py").write_text("1/0")


DAMAGE = [no_record, mixed_up_with_another]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_damage_is_seen_and_put_right(ground: Ground, damage: Callable[[Ground], None]) -> None:
    ground.converge(pip(ground))
    damage(ground)
    change = ground.plan(pip(ground))
    assert change is not None and change.action == "update" and change.why
    assert "fetching 1 package to be put right" in ground.converge(pip(ground)).output
    assert records(ground) == ["Flash_Attn-1.0.dist-info"]
    assert ground.imported(ground.conda_env(), "flash_attn") == "1.0"


def test_what_cannot_be_had_is_not_taken_out(ground: Ground) -> None:
    ground.converge(pip(ground))
    no_record(ground)
    shutil.rmtree(ground.wheels)
    ended = ground.apply(pip(ground))
    assert ended.status == 1
    assert "nothing was changed" in ended.output
    assert ground.imported(ground.conda_env(), "flash_attn") == "1.0"
    assert records(ground) == ["Flash_Attn-1.0.dist-info"]


def test_the_thorough_look_reads_every_file(ground: Ground) -> None:
    package = pip(ground)
    ground.converge(package)
    deep = package.probe().deep
    assert deep is not None

    def look() -> str:
        done = subprocess.run(
            [*ground.shell, "-c", deep], capture_output=True, env=ground.given(), timeout=DEADLINE, check=True
        )
        change = package.plan(package.probe().parse(done.stdout))
        return change.why if change else ""

    assert look() == ""
    (site(ground) / "flash_attn/__init__.py").unlink()
    assert look() == "its files are not whole: 1 of 7: flash_attn/__init__.py"
    assert ground.plan(package) is None, "the quick look does not read files"


# --- builds of one version ---


def test_a_build_and_no_other(ground: Ground) -> None:
    ground.converge(pip(ground, version="1.0+cu117"))
    assert ground.plan(pip(ground, extra_index="https://i.example/x")) is None
    change = ground.plan(pip(ground))
    assert change is not None and change.before == "1.0+cu117"
    ground.converge(pip(ground))
    assert records(ground) == ["Flash_Attn-1.0.dist-info"]
    ground.converge(pip(ground, version="2.0"))
    assert ground.imported(ground.conda_env(), "flash_attn") == "2.0"


def test_an_index_beside_the_usual_one_and_instead_of_it(ground: Ground) -> None:
    ground.wheel("far", "1.0", folder=ground.folder / "index")
    ground.wheel("flash_attn", "3.0+cu118", folder=ground.folder / "beside")
    index, beside = ground.index(ground.folder / "index"), ground.index(ground.folder / "beside")
    (ground.folder / "pip.conf").write_text("")
    fields = {"index": index, "extra_index": beside}
    ended = ground.converge(pip(ground, "far", **fields), pip(ground, version="3.0+cu118", **fields))
    assert f"Looking in indexes: {index}, {beside}" in ended.output


# --- sums ---


def test_sums_for_all(ground: Ground) -> None:
    sums = {
        name: ground.wheel(name, "2.0", requires=["plain"] if name == "needy" else []) for name in ("needy", "plain")
    }
    right = [pip(ground, name, "2.0", hashes=(f"sha256:{value}",)) for name, value in sums.items()]
    ended = ground.apply(right[0])
    assert ended.status == 1, "what it requires has no sum"
    assert records(ground) == []
    ground.converge(*right)


def test_a_wrong_sum(ground: Ground) -> None:
    ended = ground.apply(pip(ground, hashes=("sha256:" + "0" * 64,)), pip(ground, "plain"))
    assert ended.status == 1
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in ended.output
    assert records(ground) == []


def test_sums_for_some(ground: Ground) -> None:
    ground.wheel("plain", "1.0")
    value = ground.wheel("needy", "1.0", requires=["plain"])
    ground.converge(pip(ground, "needy", hashes=(f"sha256:{value}",)), pip(ground))
    assert records(ground) == ["Flash_Attn-1.0.dist-info", "needy-1.0.dist-info", "plain-1.0.dist-info"]


# --- what would lead pip elsewhere ---


@pytest.mark.parametrize("names", [["PIP_TARGET", "PYTHONPATH", "PYTHONHOME"], ["PIP_PREFIX", "PIP_ROOT"]])
def test_variables_that_lead_elsewhere_do_not_count(ground: Ground, names: list[str]) -> None:
    elsewhere = ground.folder / "elsewhere"
    elsewhere.mkdir()
    ground.converge(pip(ground), env=dict.fromkeys(names, str(elsewhere)))
    assert records(ground) == ["Flash_Attn-1.0.dist-info"]
    assert not any(elsewhere.iterdir())


def test_variables_that_forbid_or_widen_do_not_count(ground: Ground) -> None:
    constraint = ground.folder / "constraint.txt"
    constraint.write_text("flash-attn==2.0\n")
    env = {
        "PIP_USER": "1",
        "PIP_REQUIRE_VIRTUALENV": "1",
        "PIP_CONSTRAINT": str(constraint),
        "PIP_BREAK_SYSTEM_PACKAGES": "1",
        "PIP_NO_DEPS": "1",
        "PIP_DRY_RUN": "1",
        "PYTHONWARNINGS": "error",
    }
    ground.converge(pip(ground), pip(ground, "needy"), env=env)
    assert "plain-1.0.dist-info" in records(ground)


@pytest.mark.parametrize(
    "lines",
    [
        "[global]\ntarget = /x",
        "[install]\nprefix = /x",
        "[install]\nuser = true",
        "[global]\npython = /x",
    ],
)
def test_a_configuration_that_leads_elsewhere_is_refused(ground: Ground, lines: str) -> None:
    with (ground.folder / "pip.conf").open("a") as stream:
        stream.write(f"\n{lines}\n".replace("\n[global]\n", "\n"))
    ended = ground.apply(pip(ground))
    assert ended.status == 13
    assert "refused: pip is configured on this host to install elsewhere" in ended.output
    assert records(ground) == []


def test_one_that_says_no_user_is_fine(ground: Ground) -> None:
    with (ground.folder / "pip.conf").open("a") as stream:
        stream.write("user = false\nrequire-virtualenv = true\n")
    ground.converge(pip(ground))


@pytest.mark.parametrize(
    "line",
    [
        "dry-run = true",
        "no-deps = true",
        "require-hashes = true",
        "force-reinstall = 1",
        "constraint = /nowhere/constraints.txt",
        "requirement = /nowhere/requirements.txt",
        "editable = /nowhere/project",
        "no-binary = :all:",
    ],
)
def test_one_that_would_do_it_otherwise_does_not_count(ground: Ground, line: str) -> None:
    with (ground.folder / "pip.conf").open("a") as stream:
        stream.write(f"\n[install]\n{line}\n")
    ground.converge(pip(ground))


def job(env: CondaEnv) -> Job:
    return PipTransaction(path=env.path, cache=env.cache)(("plain==1.0",))


def test_a_python_of_another_place_is_refused(ground: Ground) -> None:
    env = ground.conda_env()
    other = ground.conda_env("other")
    ground.converge(other)
    for name in ("python", "python3"):
        Path(env.path, "bin", name).unlink()
    os.rename(f"{env.path}/pyvenv.cfg", f"{env.path}/pyvenv.off")
    Path(env.path, "bin/python").symlink_to(f"{other.path}/bin/python")
    # What a link of the whole bin leads to; and, without a pyvenv.cfg, the Python that the link leads to
    ended = ground.run(job(env))
    assert ended.status == 11, ended.output
    assert "refused" in ended.output
    assert records(ground) == []


def test_no_environment_and_no_pip(ground: Ground) -> None:
    ended = ground.run(job(ground.conda_env("nowhere")))
    assert (ended.status, "there is no Python in" in ended.output) == (10, True)
    (site(ground) / "pip").unlink()
    ended = ground.run(job(ground.conda_env()))
    assert (ended.status, "there is no pip in" in ended.output) == (12, True)


def test_a_version_that_is_not_to_be_had(ground: Ground) -> None:
    ended = ground.apply(pip(ground, version="9.9"))
    assert ended.status == 1
    assert "No matching distribution found for flash-attn===9.9" in ended.output
    assert not Path(ground.conda_env().path, ".gpuprov-tmp").exists()
