"""The scripts that bring a wheel into an environment, really run: with a real pip, and a real compiler."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuprov.causes import own_mark
from gpuprov.model import Job
from gpuprov.resources import Directory
from gpuprov.resources.wheel import ReleaseWheel, Sdist

from .host import SHELLS
from .wheel_ground import Ground, make_env


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_env(tmp_path_factory.mktemp("template") / "env")


@pytest.fixture
def ground(tmp_path: Path, template: Path) -> Ground:
    return Ground.make(tmp_path, template)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Ground:
    """A host on which it was built; not to be changed."""
    ground = Ground.make(tmp_path_factory.mktemp("built"), template)
    done = ground.apply(ground.wheel())
    assert done.returncode == 0, done.stdout
    return ground


@pytest.fixture
def again(tmp_path: Path, template: Path, built: Ground) -> Ground:
    """Another host that has the same cache."""
    ground = Ground.make(tmp_path, template)
    shutil.copytree(built.cache, ground.cache)
    return ground


def marker(ground: Ground) -> dict[str, Any]:
    return dict(json.loads(Path(ground.wheel().marker).read_text()))


def imported(ground: Ground) -> bool:
    words = [str(ground.prefix / "bin/python"), "-I", "-c", "import mini_attn"]
    return subprocess.run(words, capture_output=True, timeout=60).returncode == 0


@pytest.mark.parametrize("shell", SHELLS)
def test_it_is_built_and_installed(tmp_path: Path, template: Path, shell: str) -> None:
    ground = Ground.make(tmp_path, template, shell)
    hostile = {
        "PIP_TARGET": str(tmp_path / "elsewhere"),
        "PIP_REQUIRE_VIRTUALENV": "1",
        "PIP_CONSTRAINT": "/nowhere",
        "PYTHONPATH": "/nowhere",
        "PYTHONHOME": "/nowhere",
        "CFLAGS": "--nonsense",
        "CC": "false",
        "FLASH_ATTN_LOCAL_VERSION": "x",
        "LD_LIBRARY_PATH": "/usr/local/cuda/lib64:/usr/local/nvidia/lib64:/usr/local/cuda-12.1/extras/CUPTI/lib64",
        "CUDA_HOME": "/usr/local/cuda",
    }
    wheel = ground.wheel()
    done = ground.apply(wheel, **hostile)
    assert done.returncode == 0, done.stdout
    assert "[1/2] compiling ext.c" in done.stdout
    assert "pending GPU: torch sees no GPU" in done.stdout
    assert ground.plan(wheel) is None
    assert ground.plan(wheel, deep=True) is None
    assert imported(ground)
    assert not (tmp_path / "elsewhere").exists()

    env = ground.built_with()
    toolkit = str(tmp_path / "cuda-11.7")
    assert {
        "CC": "gcc-11",
        "CXX": "g++-11",
        "CUDAHOSTCXX": "g++-11",
        "NVCC_PREPEND_FLAGS": "-ccbin g++-11",
        "CUDA_HOME": toolkit,
        "CUDA_PATH": toolkit,
        "MAX_JOBS": "3",
        "FLASH_ATTENTION_FORCE_BUILD": "TRUE",
        "PYTHONNOUSERSITE": "1",
        "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64",
    }.items() <= env.items()
    assert env["PATH"].split(":")[:3] == [f"{tmp_path}/work/bin", f"{toolkit}/bin", f"{ground.prefix}/bin"]
    assert not {"PYTHONPATH", "PYTHONHOME", "CFLAGS", "FLASH_ATTN_LOCAL_VERSION", "PIP_TARGET"} & env.keys()

    said = marker(ground)
    assert (said["how"], said["checked"]) == ("built", "pending GPU")
    assert said["inputs"] == wheel.inputs
    assert [Path(row["path"]).name for row in said["files"]] == ["_ext.so"]
    assert sorted(p.name for p in (ground.cache / "wheels").iterdir()) == [wheel.key]


# --- before ----------------------------------------------------------------------------------


Spoil = Callable[[Ground], object]


def without(name: str) -> Spoil:
    return lambda ground: (ground.folder / name).unlink()


def lacking(name: str) -> Spoil:
    return lambda ground: (ground.site / name).rename(ground.site / "gone")


def says(name: str, text: str) -> Spoil:
    return lambda ground: ground.program(name, text)


def breaks(name: str, text: str) -> Spoil:
    return lambda ground: (ground.site / name).write_text(text)


CHECKS: dict[str, tuple[Spoil, dict[str, Any], str]] = {
    "no gcc": (without("bin/gcc-11"), {}, "gcc-11 is not on this host: install the package gcc-11"),
    "no g++": (without("bin/g++-11"), {}, "g++-11 is not on this host: install the package g++-11"),
    "no nvcc": (without("cuda-11.7/bin/nvcc"), {}, "nvcc is missing: there is no "),
    "nvcc does not run": (says("cuda-11.7/bin/nvcc", "echo oh no; exit 3"), {}, "bin/nvcc does not run: oh no"),
    "another nvcc": (
        says("cuda-11.7/bin/nvcc", "echo 'Cuda compilation tools, release 12.1, V12.1.105'"),
        {},
        "bin/nvcc is of CUDA 12.1, and torch 1.13.1+cu117 was built with CUDA 11.7",
    ),
    "nvcc does not tell": (says("cuda-11.7/bin/nvcc", "echo hello"), {}, "is of CUDA (it does not say)"),
    "no ninja": (says("bin/ninja", "exit 1"), {}, "ninja is missing in "),
    "no packaging": (lacking("packaging.py"), {}, "which mini-attn is built with, is missing"),
    "no wheel": (lacking("wheel.py"), {}, "which mini-attn is built with, is missing"),
    "no torch": (lacking("torch"), {}, "torch of {prefix}, which mini-attn is built with, is missing"),
    "torch is broken": (
        breaks("torch/__init__.py", "raise OSError('libcudart.so.11.0: cannot open shared object file')"),
        {},
        "cannot be imported: OSError: libcudart.so.11.0: cannot open",
    ),
    "setuptools too new": (
        breaks(
            "torch/utils/cpp_extension.py", "raise ImportError(\"cannot import name 'packaging' from 'pkg_resources'\")"
        ),
        {},
        "known cause: setuptools 70 and newer no longer has what this torch imports",
    ),
    "another torch": (
        breaks("torch/version.py", "__version__ = '2.0.1'\ncuda = '11.8'\n"),
        {},
        "the torch of {prefix} is 2.0.1+cu118, and mini-attn is to be for 1.13.1+cu117",
    ),
    "torch for the CPU": (
        breaks("torch/version.py", "__version__ = '1.13.1'\ncuda = None\n"),
        {},
        "is 1.13.1+cpu, and",
    ),
    "another ABI": (lambda ground: None, {"abi": {"cxx11_abi": True}}, "_GLIBCXX_USE_CXX11_ABI=False, and mini-attn"),
    "another Python": (lambda ground: None, {"abi": {"python": "3.7"}}, "and the wheel is for Python 3.7"),
    "no environment": (lambda ground: shutil.rmtree(ground.prefix), {}, "there is no environment with a Python at "),
}


@pytest.mark.parametrize("case", CHECKS)
def test_what_is_missing_is_said_before_anything_is_built(ground: Ground, case: str) -> None:
    spoil, fields, words = CHECKS[case]
    spoil(ground)
    done = ground.apply(ground.wheel(**fields))
    assert done.returncode == 12, done.stdout
    assert words.replace("{prefix}", str(ground.prefix)) in done.stdout
    assert "Traceback" not in done.stdout
    assert not ground.built_with()
    assert not ground.cache.exists()


def test_a_source_that_is_not_the_pinned_one(ground: Ground) -> None:
    done = ground.apply(ground.wheel(source=Sdist(sha256="0" * 64)))
    assert done.returncode == 15, done.stdout
    assert "known cause: the file is not the one that is pinned" in done.stdout
    assert not ground.built_with()


def test_a_source_that_the_index_lacks(ground: Ground) -> None:
    (ground.folder / "index" / "mini_attn-0.1.tar.gz").unlink()
    done = ground.apply(ground.wheel())
    assert done.returncode == 15, done.stdout
    assert "known cause: the package index that pip uses on this host does not have it" in done.stdout


# --- while it is built -----------------------------------------------------------------------

# Output of a build; what is lifted out of it, and the cause.
FAILURES: dict[str, tuple[str, str, str]] = {
    "gcc too new": (
        "[3/9] nvcc -c a.cu\nFAILED: a.o\n"
        "/usr/local/cuda-11.7/include/crt/host_config.h:132:2: error: #error -- unsupported GNU version! gcc versions "
        "later than 11 are not supported!\nninja: build stopped: subcommand failed.",
        "host_config.h:132:2: error: #error -- unsupported GNU version!",
        "the host compiler is newer than this nvcc accepts",
    ),
    "torch refuses the gcc": (
        '  "ERROR: Can not execute `setup.py` since setuptools is not available in "\n'
        "  RuntimeError: The current installed version of g++-12 (12.2.0) is greater than the maximum required version "
        "by CUDA 11.7 (11.5.0).",
        "the first errors:\n  RuntimeError: The current installed version of g++-12",
        "the host compiler is newer than this nvcc accepts",
    ),
    "memory": (
        "c++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.",
        "c++: fatal error: Killed signal terminated program cc1plus",
        "a lower max_jobs needs less",
    ),
    "memory of cudafe++": (
        "nvcc error   : 'cicc' died due to signal 9 (Kill signal)",
        "'cicc' died due to signal 9",
        "max_jobs",
    ),
    "space": (
        "fatal error: error writing to /tmp/x.s: No space left on device",
        "No space left on device",
        "the disk is full",
    ),
    "target": (
        "nvcc fatal   : Unsupported gpu architecture 'compute_90'",
        "nvcc fatal   : Unsupported gpu architecture 'compute_90'",
        "this nvcc is too old, or too new, for an sm_ target",
    ),
    "glibc 2.41": (
        "/usr/include/x86_64-linux-gnu/bits/mathcalls.h(79): error: exception specification is incompatible with that "
        'of previous function "cospi" (declared at line 2601)',
        "mathcalls.h(79): error: exception specification",
        "glibc 2.41 and newer",
    ),
    "another CUDA": (
        "    raise RuntimeError(CUDA_MISMATCH_MESSAGE)\nRuntimeError: \n  The detected CUDA version (12.1) mismatches "
        "the version that was used to compile\n  PyTorch (11.7).",
        "RuntimeError:",
        "declare the toolkit of torch's CUDA",
    ),
    "unknown, many": (
        "a.cu(1): error: one\na.cu(2): error: two\na.cu(3): error: three\na.cu(4): error: four",
        "error: three",
        "",
    ),
    "what pip says after it is left out": (
        "a.cu(1): error: one\nerror: subprocess-exited-with-error\nERROR: Failed building wheel for flash-attn",
        "a.cu(1): error: one\n",
        "",
    ),
    "nothing to see": ("it went wrong", "the last lines:\n  it went wrong", ""),
}


@pytest.mark.parametrize("case", FAILURES)
def test_the_first_errors_and_their_cause(tmp_path: Path, case: str) -> None:
    output, lifted, cause = FAILURES[case]
    ground = Ground(folder=tmp_path, shell=sorted(SHELLS)[len(case) % len(SHELLS)])
    change = ground.wheel().plan(None)
    assert change is not None
    job = change.steps[-1]
    assert isinstance(job, Job)
    # The script without its last part, which does the work
    text = job.script[: job.script.rindex("\ngp_check_env\nif gp_cached")]
    (tmp_path / "log").write_text(output + "\n")
    done = ground.run(f"{text}\ngp_tell {tmp_path}/log\n")
    assert done.returncode == 0, done.stdout
    assert lifted in done.stdout
    assert "four" not in done.stdout and "subprocess" not in done.stdout and "Failed building" not in done.stdout
    assert ("known cause: " in done.stdout) == bool(cause)
    assert cause in done.stdout


def test_a_build_that_fails_leaves_nothing(ground: Ground) -> None:
    done = ground.apply(ground.wheel(mode="syntax"))
    assert done.returncode == 13, done.stdout
    tail = done.stdout[done.stdout.index("the first errors:") :]
    assert "forty_two" in tail.splitlines()[1]
    mark = own_mark(done.stdout.splitlines()[0])
    assert mark and tail.splitlines()[-1] == f"{mark}stopped: mini-attn 0.1 could not be built"
    assert not (ground.cache / "wheels").exists()
    assert not imported(ground)


def test_what_was_built_and_does_not_load_is_taken_out(ground: Ground) -> None:
    done = ground.apply(ground.wheel(mode="undefined"))
    assert done.returncode == 14, done.stdout
    assert "undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs" in done.stdout
    assert "known cause: it was built with the old C++ ABI" in done.stdout
    assert "mini-attn 0.1 was built, and does not work" in done.stdout
    assert not imported(ground)
    assert not Path(ground.wheel().marker).exists()


# --- the cache, and the project's own wheel --------------------------------------------------


def test_a_second_environment_only_installs(again: Ground) -> None:
    for name in ("bin/gcc-11", "bin/ninja", "cuda-11.7/bin/nvcc"):
        (again.folder / name).unlink()
    done = again.apply(again.wheel())
    assert done.returncode == 0, done.stdout
    assert not again.built_with()
    assert marker(again)["how"] == "cache"
    assert again.plan(again.wheel()) is None


def test_a_damaged_wheel_in_the_cache_is_built_anew(again: Ground) -> None:
    (kept,) = (again.cache / "wheels" / again.wheel().key).glob("*.whl")
    kept.write_bytes(kept.read_bytes()[:-1])
    done = again.apply(again.wheel())
    assert done.returncode == 0, done.stdout
    assert "is damaged, and is not used" in done.stdout
    assert marker(again)["how"] == "built"
    assert "fetching" not in done.stdout, "the source is kept too"


def release(ground: Ground, built: Ground, spoil: Callable[[bytes], bytes]) -> ReleaseWheel:
    (kept,) = (built.cache / "wheels" / built.wheel().key).glob("*.whl")
    (ground.folder / "index" / kept.name).write_bytes(spoil(kept.read_bytes()))
    return ReleaseWheel(name=kept.name, urls=(f"https://example.org/{kept.name}",), sha256="0" * 64)


def test_the_projects_own_wheel(ground: Ground, built: Ground) -> None:
    wheel = ground.wheel(release=release(ground, built, lambda data: data))
    done = ground.apply(wheel)
    assert done.returncode == 0, done.stdout
    assert not ground.built_with()
    assert marker(ground)["how"] == "release wheel"
    assert ground.plan(wheel) is None
    assert ground.plan(replace(wheel, release=None)) is None, "where it came from is no part of what it is"
    assert (ground.cache / "wheels" / wheel.key).is_dir(), "it serves the next environment"


def test_a_wheel_of_the_project_that_does_not_load_is_followed_by_a_build(ground: Ground, built: Ground) -> None:
    # Stored, not compressed, so that the shared object's own bytes can be spoilt
    wheel = ground.wheel(release=release(ground, built, lambda data: data.replace(b"\x7fELF", b"\x7fFLE", 1)))
    done = ground.apply(wheel)
    assert done.returncode == 0, done.stdout
    assert "the project's own wheel does not serve here, so that it is built" in done.stdout
    assert marker(ground)["how"] == "built"
    assert ground.plan(wheel) is None


# --- with a GPU ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "status", "words", "checked"),
    [
        (["gpu"], 0, "", "compared with torch on a GPU"),
        (
            ["gpu", "busy"],
            0,
            "pending GPU: the GPU cannot be used: CUDA error: all CUDA-capable devices are busy",
            "pending GPU",
        ),
    ],
)
def test_numbers(again: Ground, files: list[str], status: int, words: str, checked: str) -> None:
    for name in files:
        (again.site / "torch" / name).write_text("")
    done = again.apply(again.wheel())
    assert done.returncode == status, done.stdout
    assert words in done.stdout
    assert marker(again)["checked"] == checked


def test_wrong_numbers_are_a_failure(ground: Ground) -> None:
    (ground.site / "torch" / "gpu").write_text("")
    done = ground.apply(ground.wheel(mode="wrong"))
    assert done.returncode == 14, done.stdout
    assert "AssertionError: 41 is not 42" in done.stdout
    assert not Path(ground.wheel().marker).exists()


# --- afterwards ------------------------------------------------------------------------------


def test_what_happens_to_it_is_seen(again: Ground) -> None:
    wheel = again.wheel()
    assert again.apply(wheel).returncode == 0
    path = again.site / "mini_attn" / "_ext.so"
    was, times = path.read_bytes(), (path.stat().st_atime, path.stat().st_mtime)

    os.utime(path, (1, 1))
    assert again.plan(wheel) is None, "a copy has another time"
    path.write_bytes(was[:-1] + b"x")
    os.utime(path, (2, 2))
    assert "_ext.so is gone or changed" in why(again)
    os.utime(path, times)
    assert again.plan(wheel) is None, "size and time are as they were: a quick look does not read it"
    assert again.plan(wheel, deep=True) is not None
    path.unlink()
    assert "_ext.so is gone or changed" in why(again)
    path.write_bytes(was)
    os.utime(path, times)
    assert again.plan(wheel, deep=True) is None

    version = again.site / "torch" / "version.py"
    version.write_text("__version__ = '1.13.1+cu116'\ncuda = '11.6'\n")
    assert "torch there is 1.13.1+cu116 by now" in why(again)
    version.write_text("__version__ = '1.13.1+cu117'\ncuda = '11.7'\n")

    Path(wheel.marker).write_text("{")
    assert "cannot be read" in why(again)
    Path(wheel.marker).unlink()
    assert "gpuprov did not put it there" in why(again)
    assert again.apply(wheel).returncode == 0
    assert again.plan(wheel) is None


def why(ground: Ground) -> str:
    change = ground.plan(ground.wheel())
    assert change is not None
    return change.why


def test_it_is_taken_out(again: Ground) -> None:
    wheel = again.wheel()
    assert again.apply(wheel).returncode == 0
    gone = replace(wheel, present=False)
    done = again.apply(gone)
    assert done.returncode == 0, done.stdout
    assert again.plan(gone) is None
    assert not imported(again)


def test_an_environment_that_is_not_there(tmp_path: Path) -> None:
    ground = Ground(folder=tmp_path)
    change = ground.plan(ground.wheel())
    assert change is not None and change.before == "absent"
    assert ground.plan(ground.wheel(env=Directory(path="/proc/self/fd"))) is not None
