"""The role conda_env: what it declares, what it knows of torch, and its activation in real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpuprov.errors import InputError
from gpuprov.facts import Conda, Facts, Toolkit
from gpuprov.facts.host import User
from gpuprov.guard.claims import PATHS, judge, on_host
from gpuprov.knowledge import micromamba, numpy_pins
from gpuprov.knowledge import torch as torch_table
from gpuprov.model import Id, Paths, Resource
from gpuprov.resources import Template
from gpuprov.resources.conda_env import CondaEnv
from gpuprov.resources.cuda_toolkit import CudaToolkit, RunfileSource
from gpuprov.resources.pip_package import PipPackage
from gpuprov.resources.torch_pins import TorchPins, torch_pins
from gpuprov.role import SearchPath, bind
from gpuprov.yaml_text import Mapping as TextMapping
from gpuprov.yaml_text import loads

ROLE = SearchPath().find("conda_env")
BASE = "/root/miniconda3"
HOST = Facts(conda=(Conda(path=BASE),), tools={}, arch="x86_64", paths=Paths(state="/var/lib/gpuprov"), toolkits=())
CU117 = "https://download.pytorch.org/whl/cu117"
CU116 = "https://download.pytorch.org/whl/cu116"


def declared(host: Facts = HOST, /, **values: Any) -> list[Resource[Any]]:
    return list(ROLE.declare(host, {"name": "work", "python": "3.10", **values}))


def env_of(host: Facts = HOST, /, **values: Any) -> CondaEnv:
    (env,) = (r for r in declared(host, **values) if isinstance(r, CondaEnv))
    return env


def packages(host: Facts = HOST, /, **values: Any) -> dict[str, tuple[str, str | None]]:
    found = [r for r in declared(host, **values) if isinstance(r, PipPackage)]
    return {r.name: (r.version, r.extra_index) for r in found}


# --- what it declares ---


def test_what_is_declared() -> None:
    found = declared(conda=["gxx=11.4"], pip=["torch==1.13.1", "six==1.16.0"], cuda="/usr/local/cuda-11.7")
    path = f"{BASE}/envs/work"
    assert [r.id for r in found] == [
        f"conda-env:{path}",
        f"pip:{path}/torch",
        f"pip:{path}/six",
        f"pip:{path}/numpy",
        f"directory:{path}/share/gpuprov",
        f"file:{path}/share/gpuprov/activation.sh",
        f"directory:{path}/etc/conda/activate.d",
        f"file:{path}/etc/conda/activate.d/gpuprov.sh",
        f"directory:{path}/etc/conda/deactivate.d",
        f"file:{path}/etc/conda/deactivate.d/gpuprov.sh",
    ]
    claims = {r.id: r.claims() for r in found}
    assert judge(claims, [*PATHS, *on_host(HOST)], ()) == ()
    env = env_of(conda=["gxx=11.4"], channels=["conda-forge"])
    assert (env.packages, env.channels, env.cache) == (("gxx=11.4",), ("conda-forge",), "/var/lib/gpuprov/cache")


@pytest.mark.parametrize(
    ("host", "values", "path"),
    [
        (HOST, {}, f"{BASE}/envs/work"),
        (Facts(conda=(Conda(path=BASE),), paths=Paths(envs="/data/envs")), {}, "/data/envs/work"),
        (Facts(conda=(), user=User(home="/home/gpu")), {}, "/home/gpu/envs/work"),
        (Facts(conda=None), {"name": None, "prefix": "/data/x"}, "/data/x"),
    ],
)
def test_where_it_lies(host: Facts, values: dict[str, Any], path: str) -> None:
    assert env_of(host, **values).path == path


@pytest.mark.parametrize(
    ("host", "values", "words"),
    [
        (HOST, {"prefix": "/x/y"}, "a name or a prefix"),
        (HOST, {"name": None}, "a name or a prefix"),
        (Facts(conda=None), {}, "could not be seen which conda"),
        (HOST, {"name": None, "prefix": BASE}, "is a conda base"),
        (HOST, {"pip": ["six==1", "SIX==2"]}, "pinned twice"),
        (HOST, {"micromamba_url": "https://x"}, "go together"),
        (HOST, {"cuda": "12"}, "a version such as 11.7"),
        (HOST, {"cuda": "/opt/a:b"}, "colon"),
        (HOST, {"cuda": "11.7"}, "no role before this one declared cuda-toolkit:11.7"),
    ],
)
def test_what_cannot_be(host: Facts, values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        declared(host, **values)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("name: base", "never base or root"),
        ("name: ../x", "letters, digits"),
        ("pip: [torch]", "is pinned"),
        ("pip: ['torch>=1.13']", "is pinned"),
        ("pip: ['torch==1.*']", "is pinned"),
        ("pip: ['git+https://x']", "is pinned"),
        ("pip: ['-r x']", "is pinned"),
    ],
)
def test_mistakes_have_their_place(words: str, problem: str) -> None:
    params = loads(f"python: 3.10\n{words}", "p.yaml")
    assert isinstance(params, TextMapping)
    with pytest.raises(InputError, match=problem) as caught:
        bind(ROLE, params, params.entries[0][0].position)
    position = caught.value.problems[0].position
    assert position is not None and position.line == 2


def test_a_version_is_text() -> None:
    params = loads("python: 3.10\nname: work\npip: ['six==1.10 --hash=sha256:" + "0" * 64 + "']", "p.yaml")
    assert isinstance(params, TextMapping)
    found = list(ROLE.declare(HOST, bind(ROLE, params, params.entries[0][0].position)))
    assert isinstance(found[0], CondaEnv) and found[0].python == "3.10"
    assert isinstance(found[1], PipPackage)
    assert (found[1].version, found[1].hashes) == ("1.10", ("sha256:" + "0" * 64,))


@pytest.mark.parametrize(
    ("host", "brought"),
    [
        (HOST, None),
        (Facts(conda=(), tools={"mamba": "/usr/bin/mamba"}), None),
        (Facts(conda=(), tools={}, arch="x86_64"), "micromamba-linux-64"),
        (Facts(conda=(), tools={}, arch="aarch64"), "micromamba-linux-aarch64"),
        (Facts(conda=(), tools={}, arch="riscv64"), None),
    ],
)
def test_a_micromamba_where_there_is_no_conda(host: Facts, brought: str | None) -> None:
    source = env_of(host).micromamba
    assert (source.urls[0].rpartition("/")[2] if source else None) == brought


def test_a_micromamba_of_ones_own() -> None:
    source = env_of(micromamba_url="https://m.example/m", micromamba_sha256="a" * 64).micromamba
    assert source is not None and (source.urls, source.sha256) == (("https://m.example/m",), "a" * 64)


def test_the_tables_agree_with_themselves() -> None:
    rows = micromamba.binaries()
    assert len({row.arch for row in rows}) == len({row.sha256 for row in rows}) == len(rows)
    assert all(len(row.sha256) == 64 and row.url.startswith("https://") and row.version in row.url for row in rows)
    minors = [minor for pin in numpy_pins.pins() for minor in pin.python]
    assert len(set(minors)) == len(minors)
    assert all(pin.version.startswith("1.") for pin in numpy_pins.pins())


# --- the toolkit ---

TOOLKIT = CudaToolkit(
    version="11.7", path="/data/cuda-11.7", source=RunfileSource(name="x.run", urls=("https://x",), md5="0" * 32)
)
SEEN = Toolkit(path="/usr/local/cuda-12.1", real="/usr/local/cuda-12.1", version="12.1", compiler=True)


@pytest.mark.parametrize(
    ("cuda", "toolkit", "torch"),
    [
        (None, "''", ("1.13.1", None)),
        ("11.7", "/data/cuda-11.7", ("1.13.1", None)),
        ("/opt/cuda-11.6", "/opt/cuda-11.6", ("1.13.1+cu116", CU116)),
        ("/opt/mine", "/opt/mine", ("1.13.1", None)),
    ],
)
def test_the_toolkit(cuda: str | None, toolkit: str, torch: tuple[str, str | None]) -> None:
    host = HOST.seen_as(name="h", declared={Id("cuda-toolkit:11.7"): TOOLKIT})
    found = declared(host, cuda=cuda, pip=["torch==1.13.1"])
    (file,) = (r for r in found if isinstance(r, Template) and r.path.endswith("activation.sh"))
    assert f"gpuprov_env_toolkit={toolkit}\n" in str(file.variables) or toolkit == file.variables["toolkit"]
    assert packages(host, cuda=cuda, pip=["torch==1.13.1"])["torch"] == torch


def test_a_toolkit_that_the_host_has() -> None:
    host = Facts(conda=(Conda(path=BASE),), toolkits=(SEEN,))
    (file,) = (r for r in declared(host, cuda="12.1") if isinstance(r, Template) and "activation" in r.path)
    assert file.variables["toolkit"] == "/usr/local/cuda-12.1"


# --- torch ---

PINS: list[tuple[dict[str, str], dict[str, Any], dict[str, str], str | None]] = [
    ({"six": "1"}, {"cuda": "11.7"}, {"six": "1"}, None),
    ({"torch": "1.13.1"}, {}, {"torch": "1.13.1", "numpy": "1.26.4"}, None),
    ({"torch": "1.13.1"}, {"cuda": "11.7"}, {"torch": "1.13.1", "numpy": "1.26.4"}, None),
    ({"torch": "1.13.1"}, {"cuda": "11.6"}, {"torch": "1.13.1+cu116", "numpy": "1.26.4"}, CU116),
    ({"torch": "1.13.1+cu117"}, {"cuda": "11.7"}, {"torch": "1.13.1+cu117", "numpy": "1.26.4"}, CU117),
    ({"torch": "1.13.1+cpu"}, {}, {"torch": "1.13.1+cpu", "numpy": "1.26.4"}, "https://download.pytorch.org/whl/cpu"),
    (
        {"torch": "1.13.1", "torchvision": "0.14.1", "torchaudio": "0.13.1"},
        {"cuda": "11.6"},
        {"torch": "1.13.1+cu116", "torchvision": "0.14.1+cu116", "torchaudio": "0.13.1+cu116", "numpy": "1.26.4"},
        CU116,
    ),
    ({"torch": "1.13.1", "numpy": "1.23.5"}, {}, {"torch": "1.13.1", "numpy": "1.23.5"}, None),
    ({"torch": "1.13.1"}, {"conda": frozenset({"numpy"})}, {"torch": "1.13.1"}, None),
    ({"torch": "1.13.1"}, {"python": "3.8.18"}, {"torch": "1.13.1", "numpy": "1.24.4"}, None),
    ({"torch": "2.3.0"}, {}, {"torch": "2.3.0"}, None),
    ({"torch": "2.3.0", "numpy": "2.1.0"}, {}, {"torch": "2.3.0", "numpy": "2.1.0"}, None),
    ({"torch": "99.0"}, {"cuda": "11.7"}, {"torch": "99.0"}, None),
    ({"torch": "2.7.0"}, {"glibc": "2.36"}, {"torch": "2.7.0"}, None),
]


@pytest.mark.parametrize(("pins", "fields", "versions", "index"), PINS)
def test_what_a_torch_brings(
    pins: dict[str, str], fields: dict[str, Any], versions: dict[str, str], index: str | None
) -> None:
    assert torch_pins(pins, **{"python": "3.10", **fields}) == TorchPins(versions=versions, index=index)


@pytest.mark.parametrize(
    ("pins", "fields", "words"),
    [
        ({"torch": "1.13.1"}, {"python": "3.12"}, "no build for Python 3.12"),
        ({"torch": "1.13.1"}, {"cuda": "12.1"}, "the build of torch 1.13.1 for CUDA '12.1' is not in the tables"),
        ({"torch": "1.13.1+cu118"}, {}, "no build cu118"),
        ({"torch": "1.13.1+cu116"}, {"cuda": "11.7"}, "extensions would not build"),
        ({"torch": "1.13.1+cpu"}, {"cuda": "11.7"}, "no build cpu"),
        ({"torch": "1.13.1", "torchvision": "0.15.1"}, {}, "not made for torch 1.13.1"),
        ({"torch": "1.13.1", "torchvision": "0.14.1+cu116"}, {"cuda": "11.7"}, "different builds"),
        ({"torch": "1.13.1", "numpy": "2.0.0"}, {}, "does not work with numpy 2.0.0"),
        ({"torch": "2.7.0"}, {"glibc": "2.27"}, "needs glibc 2.28, and this host has 2.27"),
    ],
)
def test_what_does_not_fit(pins: dict[str, str], fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        torch_pins(pins, **{"python": "3.10", **fields})
    assert caught.value.problems[0].hint


def test_every_torch_of_the_table_can_be_pinned() -> None:
    for row in torch_table.torches():
        for minor in row.python:
            assert torch_pins({"torch": row.version}, python=minor).versions["torch"] == row.version
            for name in row.builds:
                cuda = torch_table.build(row.version, name).cuda_dotted
                pins = torch_pins({"torch": row.version, "torchvision": row.torchvision}, python=minor, cuda=cuda)
                suffix = "" if name == row.pypi_default else f"+{name}"
                assert pins.versions["torchvision"] == row.torchvision + suffix


def test_an_index_of_ones_own_is_the_only_one() -> None:
    found = [r for r in declared(pip=["torch==1.13.1+cu116"], index="https://i.example/x") if isinstance(r, PipPackage)]
    assert {(r.index, r.extra_index) for r in found} == {("https://i.example/x", None)}


# --- activation ---

SHELLS = {"bash": ["bash"], "dash": ["dash"], "busybox": ["busybox", "sh"], "zsh": ["zsh", "-f"]}

# What conda and micromamba do, in their order: they set PATH before they read a script of the environment that is left
# for good, and after those of one that is left for another (conda/activate.py, build_deactivate and _yield_commands).
CONDA = """
run() { if [ -f "$1" ]; then . "$1"; fi; }
without() { rest=:$PATH:; rest=${rest%%":$1/bin:"*}:${rest#*":$1/bin:"}; rest=${rest#:}; without=${rest%:}; }
enter() { PATH=$1/bin:$PATH; export PATH; CONDA_PREFIX=$1; run "$1/etc/conda/activate.d/gpuprov.sh"; }
leave() { without "$1"; PATH=$without; run "$1/etc/conda/deactivate.d/gpuprov.sh"; unset CONDA_PREFIX; }
# from, to
change() {
  without "$1"; before=${PATH%%"$1/bin"*}
  next=$before$2/bin:${PATH#*"$1/bin:"}
  run "$1/etc/conda/deactivate.d/gpuprov.sh"
  PATH=$next
  run "$2/etc/conda/activate.d/gpuprov.sh"
}
# from, to: conda deactivate in an environment that was entered from another
back() {
  before=${PATH%%"$1/bin"*}
  PATH=$before$2/bin:${PATH#*"$1/bin:"}
  run "$1/etc/conda/deactivate.d/gpuprov.sh"
  run "$2/etc/conda/activate.d/gpuprov.sh"
}
"""


class Shells:
    """Environments and toolkits in a folder, and shells that activate them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for version in ("11.7", "12.1"):
            (folder / f"toolkits/cuda-{version}/bin").mkdir(parents=True)
            (folder / f"toolkits/cuda-{version}/lib64").mkdir()
        self.make("a", "11.7")
        self.make("b", "12.1")
        self.make("plain", None)
        self.make("lost", "9.9")

    def make(self, name: str, version: str | None) -> None:
        prefix = self.folder / name
        cuda = f"{self.folder}/toolkits/cuda-{version}" if version else None
        host = Facts(conda=(), toolkits=(), paths=Paths(state="/s"))
        for resource in ROLE.declare(host, {"prefix": str(prefix), "python": "3.10", "cuda": cuda}):
            if isinstance(resource, Template):
                path = Path(resource.path)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(resource.source.render(resource.variables))

    def run(self, words: list[str], script: str, env: Mapping[str, str] | None = None) -> dict[str, dict[str, str]]:
        """Run a script in which ``DUMP x`` writes the environment down; return what was written."""
        dumps = self.folder / "dumps"
        shutil.rmtree(dumps, ignore_errors=True)
        dumps.mkdir()
        script = script.replace("DUMP ", '/usr/bin/env -0 >"$D"/')
        places = {"A": "a", "B": "b", "P": "plain", "L": "lost", "D": "dumps"}
        given = {name: str(self.folder / place) for name, place in places.items()}
        given |= {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", **(env or {})}
        done = subprocess.run(
            [shutil.which(words[0]) or words[0], *words[1:], "-c", CONDA + script],
            env=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done
        self.said = done.stderr
        return {file.name: _environment(file.read_bytes()) for file in dumps.iterdir()}

    @property
    def toolkits(self) -> str:
        return f"{self.folder}/toolkits"


def _environment(data: bytes) -> dict[str, str]:
    pairs = (os.fsdecode(item).partition("=")[::2] for item in data.split(b"\0") if item)
    return {name: value for name, value in pairs if name not in ("_", "SHLVL", "PWD", "OLDPWD", "CONDA_PREFIX")}


@pytest.fixture(scope="module")
def shells(tmp_path_factory: pytest.TempPathFactory) -> Shells:
    return Shells(tmp_path_factory.mktemp("with a blank, and an 'apostrophe'"))


STARTS: dict[str, dict[str, str]] = {
    "nothing set": {},
    "all empty": {"LD_LIBRARY_PATH": "", "CUDA_HOME": "", "CUDA_PATH": "", "PYTHONNOUSERSITE": ""},
    "another toolkit in use": {
        "PATH": "/usr/local/cuda/bin:/usr/bin:/bin:/usr/local/cuda-12.1/bin",
        "LD_LIBRARY_PATH": "/usr/local/cuda/lib64::/mine:/usr/local/nvidia/lib64",
        "CUDA_HOME": "/usr/local/cuda",
        "CUDA_PATH": "/usr/local/cuda",
    },
    "only toolkits": {"LD_LIBRARY_PATH": "/usr/local/cuda/lib64", "PYTHONNOUSERSITE": "x"},
    "odd characters": {"PATH": "/usr/bin:/bin:/a b:/it's:$(id):*", "LD_LIBRARY_PATH": "/x\n/y:;"},
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("shell", SHELLS)
def test_in_and_out(shells: Shells, shell: str, start: str) -> None:
    options = "set -euf" if start == "odd characters" else "set -eu"
    script = f'{options}\nDUMP 0\nenter "$A"\nDUMP 1\nleave "$A"\nDUMP 2'
    seen = shells.run(SHELLS[shell], script, STARTS[start])
    toolkit = f"{shells.toolkits}/cuda-11.7"
    inside = seen["1"]
    assert inside["PATH"].startswith(f"{toolkit}/bin:{shells.folder}/a/bin:")
    assert "/usr/local/cuda" not in inside["PATH"] + inside.get("LD_LIBRARY_PATH", "")
    assert (inside["CUDA_HOME"], inside["CUDA_PATH"], inside["PYTHONNOUSERSITE"]) == (toolkit, toolkit, "1")
    if start == "another toolkit in use":
        assert inside["LD_LIBRARY_PATH"] == ":/mine:/usr/local/nvidia/lib64"
    if start == "only toolkits":
        assert "LD_LIBRARY_PATH" not in inside
    assert seen["2"] == seen["0"]
    assert shells.said == ""


SEQUENCES = {
    "one from another, and back": 'enter "$A"; change "$A" "$B"; DUMP in; back "$B" "$A"; leave "$A"',
    "stacked": 'enter "$A"; enter "$B"; DUMP in; leave "$B"; leave "$A"',
    "again": 'enter "$B"; change "$B" "$B"; DUMP in; leave "$B"',
    "twice without leaving": 'enter "$B"; run "$B/etc/conda/activate.d/gpuprov.sh"; DUMP in; leave "$B"',
    "to and fro": 'enter "$A"; change "$A" "$B"; change "$B" "$A"; change "$A" "$B"; DUMP in; leave "$B"',
    "by way of one without a toolkit": 'enter "$A"; change "$A" "$P"; change "$P" "$B"; DUMP in; leave "$B"',
}


@pytest.mark.parametrize("start", ["nothing set", "another toolkit in use"])
@pytest.mark.parametrize("case", SEQUENCES)
@pytest.mark.parametrize("shell", SHELLS)
def test_environments_one_after_another(shells: Shells, shell: str, case: str, start: str) -> None:
    seen = shells.run(SHELLS[shell], f"set -eu\nDUMP 0\n{SEQUENCES[case]}\nDUMP 2", STARTS[start])
    toolkit = f"{shells.toolkits}/cuda-12.1"
    assert seen["in"]["CUDA_HOME"] == toolkit
    assert seen["in"]["PATH"].split(":")[:2] == [f"{toolkit}/bin", f"{shells.folder}/b/bin"]
    assert seen["in"]["PATH"].count("/toolkits/") == 1
    assert seen["2"] == seen["0"]


@pytest.mark.parametrize("shell", SHELLS)
def test_what_was_changed_within_stays(shells: Shells, shell: str) -> None:
    script = """set -eu
enter "$A"
PATH=/mine:$PATH:/late LD_LIBRARY_PATH=/mine:${LD_LIBRARY_PATH-} CUDA_PATH=/elsewhere
export LD_LIBRARY_PATH CUDA_PATH
leave "$A"
DUMP 2"""
    start = {"LD_LIBRARY_PATH": "/usr/local/cuda/lib64:/x", "CUDA_HOME": "/usr/local/cuda"}
    after = shells.run(SHELLS[shell], script, start)["2"]
    assert after["PATH"] == "/mine:/usr/bin:/bin:/late"
    assert after["LD_LIBRARY_PATH"].split(":") in (
        ["/mine", "/usr/local/cuda/lib64", "/x"],
        ["/usr/local/cuda/lib64", "/mine", "/x"],
    )
    assert (after["CUDA_HOME"], after["CUDA_PATH"]) == ("/usr/local/cuda", "/elsewhere")


@pytest.mark.parametrize("shell", SHELLS)
def test_in_a_shell_within(shells: Shells, shell: str) -> None:
    """What is needed to undo it travels in the environment."""
    inner = 'set -eu; leave "$A"; DUMP 2'
    words = " ".join(SHELLS[shell])
    script = f'set -eu\nDUMP 0\nenter "$A"\n{words} -c "$CONDA"\'{inner}\''
    seen = shells.run(SHELLS[shell], script, {"CONDA": CONDA})
    assert seen["2"] == seen["0"]


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("shell", SHELLS)
def test_together_with_cuda_use(shells: Shells, tmp_path: Path, shell: str, within: bool) -> None:
    """A toolkit that was chosen before comes back, and one that was chosen within is left behind."""
    switch = tmp_path / "cuda-env"
    library = ROLE.folder.parent / "cuda_switch/files/cuda-switch.sh"
    text = library.read_text()
    switch.write_text(f'gpuprov_cuda_toolkits="{shells.toolkits}"\n{text}\ngpuprov_cuda_env "$@"\n')
    use = f'eval "$(/bin/sh {switch} 12.1)"'
    script = f"""set -eu
DUMP start
{use}
DUMP 0
enter "$A"
DUMP in
{use if within else ":"}
leave "$A"
DUMP 1
eval "$(/bin/sh {switch} none)"
DUMP end"""
    seen = shells.run(SHELLS[shell], script, {"LD_LIBRARY_PATH": "/x"})
    assert seen["in"]["CUDA_HOME"].endswith("cuda-11.7")
    assert seen["1"] == seen["0"]
    assert seen["end"] == seen["start"]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", ["plain", "lost"])
def test_without_a_toolkit(shells: Shells, shell: str, name: str) -> None:
    start = {"LD_LIBRARY_PATH": "/usr/local/cuda/lib64", "CUDA_HOME": "/usr/local/cuda"}
    place = '"$P"' if name == "plain" else '"$L"'
    seen = shells.run(SHELLS[shell], f'set -eu\nE={place}\nDUMP 0\nenter "$E"\nDUMP 1\nleave "$E"\nDUMP 2', start)
    inside = {k: v for k, v in seen["1"].items() if not k.startswith("GPUPROV_")}
    assert inside == {**seen["0"], "PATH": f"{shells.folder}/{name}/bin:/usr/bin:/bin", "PYTHONNOUSERSITE": "1"}
    assert seen["2"] == seen["0"]
    assert ("there is no CUDA toolkit at" in shells.said) is (name == "lost")


def test_the_shell_code_is_clean(shells: Shells) -> None:
    files = [*shells.folder.glob("a/etc/conda/*/*.sh"), shells.folder / "a/share/gpuprov/activation.sh"]
    assert len(files) == 3
    done = subprocess.run(
        ["shellcheck", "--shell=sh", "--exclude=SC2034,SC2154,SC2317", *map(str, files)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout
