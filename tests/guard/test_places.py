"""The inventory's own paths: refused where others' things lie, before a host is contacted where that can be known."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprov.errors import Refused
from gpuprov.facts import Conda, Facts, Toolkit
from gpuprov.guard import PATHS, judge, protected_paths, refuse_paths
from gpuprov.inventory import Host, load_inventory
from gpuprov.model import Paths
from gpuprov.resources import CondaEnv, PipPackage


def host(tmp_path: Path, paths: str) -> Host:
    file = tmp_path / "hosts.yaml"
    file.write_text(f"defaults:\n  paths:\n    {paths}\nhosts: {{h: }}\n")
    return load_inventory([file]).hosts["h"]


@pytest.mark.parametrize("name", ["cache", "envs", "state", "toolkits"])
def test_a_path_that_is_protected_on_every_host_is_a_mistake_of_the_inventory(tmp_path: Path, name: str) -> None:
    (problem,) = protected_paths([host(tmp_path, f"{name}: /etc/ld.so.conf.d/x")])
    assert str(problem.position) == f"{tmp_path}/hosts.yaml:3:{7 + len(name)}"
    assert f"paths.{name} is /etc/ld.so.conf.d/x" in problem.message and "linker's search path" in problem.message
    assert f"give paths.{name} a folder of its own" in problem.hint


def test_a_home_is_protected_whosever_it_is(tmp_path: Path) -> None:
    assert protected_paths([host(tmp_path, "state: ~/.ssh/gpuprov")])
    assert not protected_paths([host(tmp_path, "state: ~/gpuprov")])


@pytest.mark.parametrize("path", ["/etc", "/usr/local", "/data/cache"])
def test_other_paths_are_free(tmp_path: Path, path: str) -> None:
    assert not protected_paths([host(tmp_path, f"cache: {path}")])


def test_what_is_said_of_all_hosts_is_told_once(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_text("defaults: {paths: {cache: /etc/ssh}}\nhosts: {a: , b: }\n")
    assert len(protected_paths(load_inventory([file]).hosts.values())) == 1


FACTS = Facts(
    conda=(Conda(path="/opt/conda"),),
    toolkits=(Toolkit(path="/usr/local/cuda-12.1", real="/usr/local/cuda-12.1", version="12.1"),),
    paths=Paths(cache="/usr/local/cuda-12.1/cache", envs="/opt/conda/envs", state="/opt/conda/state"),
)


@pytest.mark.parametrize(
    ("paths", "says"),
    [
        ("cache: /usr/local/cuda-12.1/cache", "a CUDA toolkit that gpuprov did not make"),
        ("state: /opt/conda/state", "conda's base environment"),
        ("envs: /opt/conda/envs", ""),
        ("toolkits: /usr/local", ""),
    ],
)
def test_what_only_this_host_has_is_refused_with_the_place(tmp_path: Path, paths: str, says: str) -> None:
    if not says:
        refuse_paths(host(tmp_path, paths), FACTS)
        return
    with pytest.raises(Refused) as caught:
        refuse_paths(host(tmp_path, paths), FACTS)
    assert says in caught.value.message and f"{tmp_path}/hosts.yaml:3:" in caught.value.where


def test_packages_claim_the_cache_that_pip_writes() -> None:
    env = CondaEnv(path="/envs/work", python="3.10", cache="/etc/ld.so.conf.d")
    (refusal,) = judge({env.id: PipPackage(env=env, name="six", version="1.16.0").claims()}, PATHS, ())
    assert refusal.claim == "/etc/ld.so.conf.d/pip"
