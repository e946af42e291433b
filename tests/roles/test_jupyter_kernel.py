from __future__ import annotations

import dataclasses
import json
from string import Template
from typing import Any

import pytest

from gpuprov.engine.graph import Declaration, Origin, build
from gpuprov.errors import GpuprovError, HostFailed, InputError, Position
from gpuprov.facts import Conda, Container, Facts, Service, User
from gpuprov.guard.claims import PATHS, judge, on_host
from gpuprov.model import Id, Resource
from gpuprov.resources import Directory, File
from gpuprov.resources.conda_env import CondaEnv
from gpuprov.resources.cuda_toolkit import CudaToolkit, RunfileSource
from gpuprov.resources.pip_package import PipPackage
from gpuprov.role import SearchPath, bind
from gpuprov.yaml_text import Mapping, loads

ROLE = SearchPath().find("jupyter_kernel")
PLACE = "/root/miniconda3/envs/flash"
HOST = Facts(
    user=User(name="root", home="/root"),
    conda=(Conda(path="/root/miniconda3"),),
    services=(
        Service(kind="jupyter", pid=7, argv=("/root/miniconda3/bin/python", "/root/miniconda3/bin/jupyter-lab")),
    ),
)


def env(path: str = PLACE) -> CondaEnv:
    return CondaEnv(path=path, python="3.10.13")


def toolkit(version: str = "11.7", path: str = "") -> CudaToolkit:
    source = RunfileSource(name="cuda.run", urls=("https://example.org/cuda.run",), sha256="0" * 64)
    return CudaToolkit(version=version, source=source, path=path)


def declare(facts: Facts = HOST, earlier: list[Resource[Any]] | None = None, **values: Any) -> dict[str, Resource[Any]]:
    given: list[Resource[Any]] = [env(), toolkit()] if earlier is None else earlier
    declared = {resource.id: resource for resource in given}
    seen = facts.seen_as(name="h", declared=declared)
    return {resource.id: resource for resource in ROLE.declare(seen, {"env": "flash", **values})}


def spec(found: dict[str, Resource[Any]]) -> dict[str, Any]:
    (file,) = [resource for resource in found.values() if isinstance(resource, File)]
    assert isinstance(file.content, bytes)
    return dict(json.loads(file.content))


def test_what_is_declared() -> None:
    folder = "/root/.local/share/jupyter/kernels/flash"
    found = declare()
    assert list(found) == [f"pip:{PLACE}/ipykernel", f"directory:{folder}", f"jupyter-kernel:{folder}/kernel.json"]
    assert isinstance(found[f"directory:{folder}"], Directory)
    kernel = found[f"pip:{PLACE}/ipykernel"]
    assert isinstance(kernel, PipPackage) and kernel.version == "6.29.5"


def test_the_kernel() -> None:
    assert spec(declare()) == {
        "argv": [f"{PLACE}/bin/python", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Python 3.10 (flash)",
        "language": "python",
        "metadata": {"debugger": True},
        "env": {
            "PATH": f"{PLACE}/bin:/usr/local/cuda-11.7/bin:${{PATH}}",
            "CUDA_HOME": "/usr/local/cuda-11.7",
            "CUDA_PATH": "/usr/local/cuda-11.7",
        },
    }


def test_jupyter_puts_the_servers_path_in_and_nothing_else() -> None:
    found = spec(declare(earlier=[env("/data/a$b/flash"), toolkit(path="/opt/$HOME/cuda")], env="/data/a$b/flash"))
    seen = {
        name: Template(value).safe_substitute(PATH="/usr/bin", HOME="/root") for name, value in found["env"].items()
    }
    assert seen["PATH"] == "/data/a$b/flash/bin:/opt/$HOME/cuda/bin:/usr/bin"
    assert seen["CUDA_HOME"] == "/opt/$HOME/cuda"


TOOLKITS: dict[str, tuple[list[str], str | None, str | None]] = {
    "the only one": (["11.7"], None, "/usr/local/cuda-11.7"),
    "none": ([], None, None),
    "several, and none named": (["11.7", "12.1"], None, None),
    "several, and one named": (["11.7", "12.1"], "12.1", "/usr/local/cuda-12.1"),
}


@pytest.mark.parametrize("case", TOOLKITS)
def test_which_toolkit(case: str) -> None:
    versions, cuda, path = TOOLKITS[case]
    found = spec(declare(earlier=[env(), *map(toolkit, versions)], cuda=cuda))
    assert found["env"].get("CUDA_HOME") == path
    assert found["env"]["PATH"].startswith(f"{PLACE}/bin:{f'{path}/bin:' if path else ''}$")


FOLDERS: dict[str, tuple[dict[str, Any], str]] = {
    "another home": ({"user_home": "/home/user/"}, "/home/user/.local/share/jupyter/kernels/flash"),
    "the server's folder": ({"data_dir": "/workspace/jupyter"}, "/workspace/jupyter/kernels/flash"),
    "a name": ({"name": "torch-1.13"}, "/root/.local/share/jupyter/kernels/torch-1.13"),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_where_it_lies(case: str) -> None:
    values, folder = FOLDERS[case]
    assert f"jupyter-kernel:{folder}/kernel.json" in declare(**values)


def test_a_folder_that_jupyter_does_not_use_is_not_written() -> None:
    elsewhere = dataclasses.replace(HOST, container=Container(kind="docker", env=("PATH", "JUPYTER_DATA_DIR")))
    with pytest.raises(HostFailed, match="sets JUPYTER_DATA_DIR") as caught:
        declare(elsewhere)
    assert "jupyter --data-dir" in caught.value.hint
    assert declare(elsewhere, data_dir="/srv/jupyter")


def test_it_appears_after_what_it_starts() -> None:
    origin = Origin(play=1, role="r", position=Position("p.yaml", 1, 1))
    graph = build(
        Declaration(resource=resource, origin=origin, selected=True) for resource in [env(), *declare().values()]
    )
    folder = "/root/.local/share/jupyter/kernels/flash"
    needs = graph[Id(f"jupyter-kernel:{folder}/kernel.json")].needs
    assert needs == {f"conda-env:{PLACE}", f"pip:{PLACE}/ipykernel", f"directory:{folder}"}


def test_the_guard_lets_it_pass() -> None:
    claims = {
        resource.id: resource.claims() for resource in declare().values() if isinstance(resource, File | Directory)
    }
    assert judge(claims, [*PATHS, *on_host(HOST)], ()) == ()


def test_a_pinned_ipykernel_is_used() -> None:
    pinned = PipPackage(env=env(), name="ipykernel", version="6.20.1")
    assert declare(earlier=[env(), toolkit(), pinned])[pinned.id] is pinned


REFUSED: dict[str, tuple[dict[str, Any], type[GpuprovError], str]] = {
    "no env": ({"env": "other"}, InputError, "no role before this one declared conda-env:/root/envs/other"),
    "no toolkit": ({"cuda": "12.1"}, InputError, "declared cuda-toolkit:12.1"),
    "the server's own kernel": (
        {"env": "/data/python3", "earlier": [env("/data/python3")]},
        InputError,
        "python3 is the name of the server's own kernel",
    ),
    "a name that Jupyter does not take": (
        {"env": "/data/my env", "earlier": [env("/data/my env")]},
        InputError,
        "letters, digits",
    ),
    "no home": ({"facts": dataclasses.replace(HOST, user=User())}, HostFailed, "did not tell the user's home"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    values, error, words = REFUSED[case]
    values = dict(values)
    with pytest.raises(error) as caught:
        declare(values.pop("facts", HOST), values.pop("earlier", None), **values)
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["python3", "Python", "a b", "..", "a/b"])
def test_a_name_that_cannot_be(name: str) -> None:
    params = loads(f"env: flash\nname: {name}\n", "p.yaml")
    assert isinstance(params, Mapping)
    with pytest.raises(InputError, match="parameter 'name'"):
        bind(ROLE, params, Position("p.yaml", 1, 1))
