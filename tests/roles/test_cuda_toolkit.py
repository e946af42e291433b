from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from gpuprov.engine.graph import Declaration, Origin, build
from gpuprov.engine.judging import judge as judge_states
from gpuprov.errors import HostFailed, InputError, Position
from gpuprov.facts import Driver, Facts, Gpu, Toolkit
from gpuprov.guard.claims import PATHS, judge, on_host
from gpuprov.knowledge.cuda import runfile
from gpuprov.model import Blocked, Differs, Id, Obtain, Paths, Resource, Same, Verdict
from gpuprov.resources.cuda_toolkit import CudaToolkit, CudaToolkitState
from gpuprov.resources.driver import DriverCheck
from gpuprov.role import SearchPath, bind
from gpuprov.yaml_text import Mapping, loads

ROLE = SearchPath().find("cuda_toolkit")
ROW = runfile("11.7")
SUM = "c" * 64


def declared(facts: Facts | None = None, /, **values: Any) -> list[Resource[Any]]:
    return list(ROLE.declare(facts or Facts(), values))


def toolkit(facts: Facts | None = None, /, **values: Any) -> CudaToolkit:
    (found,) = declared(facts, **values)
    assert isinstance(found, CudaToolkit)
    return found


def bound(words: str) -> dict[str, object]:
    params = loads(words, "p.yaml")
    assert isinstance(params, Mapping)
    return bind(ROLE, params, Position("p.yaml", 1, 1))


@pytest.mark.parametrize(("version", "release"), [("11.7", "11.7.1"), ("11.7.0", "11.7.0"), ("12.1", "12.1.1")])
def test_the_tables_name_the_file(version: str, release: str) -> None:
    found = toolkit(version=version)
    row = runfile(release)
    assert (found.version, found.release) == (row.toolkit, release)
    assert found.source and found.source.name == row.name and found.source.urls == (row.url,)
    assert (found.source.sha256, found.source.md5) == (row.sha256 or "", row.md5 or "")
    assert found.path == f"/usr/local/cuda-{row.toolkit}"


@pytest.mark.parametrize(
    ("paths", "values", "path", "cache"),
    [
        (Paths(), {}, "/usr/local/cuda-11.7", "/var/lib/gpuprov/cache"),
        (
            Paths(toolkits="/data", state="/root/.local/state/gpuprov"),
            {},
            "/data/cuda-11.7",
            "/root/.local/state/gpuprov/cache",
        ),
        (Paths(cache="/data/cache"), {"path": "/opt//c/"}, "/opt/c", "/data/cache"),
    ],
)
def test_where_it_goes(paths: Paths, values: dict[str, Any], path: str, cache: str) -> None:
    found = toolkit(Facts(paths=paths), version="11.7", **values)
    assert (found.path, found.cache) == (path, cache)


def test_mirrors_keep_the_path_and_come_first() -> None:
    found = toolkit(version="11.7", mirrors=["https://a.invalid/nvidia/", "file:///mnt/b"])
    assert found.source and found.source.urls == (
        f"https://a.invalid/nvidia/{ROW.path}",
        f"file:///mnt/b/{ROW.path}",
        ROW.url,
    )
    assert found.source.sha256 == ROW.sha256


def test_a_place_of_its_own_with_the_file_that_is_known() -> None:
    found = toolkit(version="11.7", url=[f"https://a.invalid/x/{ROW.name}?token=1", "https://b.invalid/y"])
    assert found.source and (found.source.sha256, found.source.name) == (ROW.sha256, ROW.name)
    assert found.release == "11.7.1"


@pytest.mark.parametrize(
    ("values", "release"),
    [
        ({"version": "11.7"}, None),
        ({"version": "11.7.3"}, "11.7.3"),
        ({"version": "13.9"}, None),
    ],
)
def test_another_file(values: dict[str, Any], release: str | None) -> None:
    found = toolkit(**values, url=["https://a.invalid/mine.run"], sha256=SUM, size=7)
    assert found.source and (found.source.name, found.source.sha256, found.source.md5) == ("mine.run", SUM, "")
    assert (found.source.size, found.release) == (7, release)


def test_what_is_given_counts_more_than_the_tables() -> None:
    found = toolkit(version="11.7", sha256=SUM)
    assert found.source and (found.source.sha256, found.source.md5) == (SUM, "")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"version": "11.9"}, "parameter 'version'.*not in the tables"),
        ({"version": "11.9"}, r"tables \(known near it: 11.7.1, 11.8.0, .*; or give url and sha256 of the file\)$"),
        ({"version": "9.0"}, "parameter 'version'.*not in the tables"),
        ({"version": "11.7", "url": ["https://a.invalid/mine.run"]}, "parameter 'sha256'.*missing"),
        ({"version": "11.9", "url": ["https://a.invalid/mine.run"]}, "parameter 'sha256'.*missing"),
        ({"version": "11.7", "url": ["https://a.invalid/"], "sha256": SUM}, "parameter 'url'"),
        (
            {"version": "11.7", "url": ["https://a.invalid/x.run"], "mirrors": ["https://b.invalid"]},
            "parameter 'mirrors'",
        ),
        ({"version": "11.7", "size": -1}, "parameter 'size'"),
        (
            {"version": "12.4", "url": ["https://a.invalid/cuda_11.7.1_515.65.01_linux.run"], "sha256": SUM},
            "cuda_11.7.1_515.65.01_linux.run is the installer of CUDA 11.7.1, and CUDA 12.4 is wanted",
        ),
        (
            {"version": "12.4.1", "url": ["https://a.invalid/cuda_12.4.0_550.54.14_linux.run"], "sha256": SUM},
            "the installer of CUDA 12.4.0, and CUDA 12.4.1 is wanted",
        ),
        (
            {
                "version": "12.4",
                "url": ["https://a.invalid/x.run", "https://a.invalid/cuda_14.0.0_1.run"],
                "md5": "0" * 32,
            },
            "the installer of CUDA 14.0.0, and CUDA 12.4 is wanted",
        ),
        ({"version": "11.7", "path": "cuda"}, "path must be absolute"),
    ],
)
def test_what_cannot_be(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        declared(**values)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("version: '11'", "X.Y or a release"),
        ("version: latest", "X.Y or a release"),
        ("version: 11.7\nurl: ftp://x/y", "no URL"),
        ("version: 11.7\nurl: /root/x.run", "no URL"),
        ("version: 11.7\nsha256: abc", "64 hex digits"),
        ("version: 11.7\nmd5: zz", "32 hex digits"),
        ("version: 11.7\nsize: big", "expected whole number"),
        ("version: 11.7\nmirrors: [x]", "no URL"),
    ],
)
def test_words_that_are_wrong_are_told_where_they_stand(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        bound(text)
    assert caught.value.problems[0].position is not None


def test_words_that_are_right() -> None:
    values = bound(f"version: 11.0\nurl: https://a.invalid/x.run\nsha256: {SUM.upper()}\nrequire_driver: yes")
    assert values == {"version": "11.0", "url": ["https://a.invalid/x.run"], "sha256": SUM, "require_driver": True}


def test_another_architecture() -> None:
    with pytest.raises(HostFailed, match="aarch64"):
        declared(Facts(arch="aarch64"), version="11.7")
    assert declared(Facts(arch="x86_64"), version="11.7")


@pytest.mark.parametrize(("driver", "problem"), [("525.60.13", ""), ("440.33.01", "needs 450.80.02 or newer")])
def test_a_driver_that_is_required(driver: str, problem: str) -> None:
    facts = Facts(driver=Driver(version=driver, answer="ok"), gpus=(Gpu(index=0, name="NVIDIA A100-SXM4-40GB"),))
    check, found = declared(facts, version="11.7", require_driver=True)
    assert isinstance(check, DriverCheck) and isinstance(found, CudaToolkit)
    assert list(found.needs()) == [check]
    assert problem in check.problem and bool(problem) is bool(check.problem)
    assert declared(facts, version="11.7") != [check, found]


def test_the_guard_lets_it_pass() -> None:
    there = Toolkit(path="/usr/local/cuda-12.1", real="/usr/local/cuda-12.1", version="12.1")
    link = Toolkit(path="/usr/local/cuda", real="/usr/local/cuda-12.1", link=True)
    found = toolkit(version="11.7")
    protected = [*PATHS, *on_host(Facts(toolkits=(there, link)))]
    assert judge({found.id: found.claims()}, protected, ()) == ()
    taken = toolkit(version="11.7", path="/usr/local/cuda-12.1")
    assert judge({taken.id: taken.claims()}, protected, ())


THEIRS = CudaToolkitState(kind="other", version="12.1", compiler=True, headers=True, cudart=True)
LACKING = dataclasses.replace(THEIRS, headers=False)
BARE = Facts(arch="x86_64", tools={"apt-get": "/usr/bin/apt-get"})
"""A host without libxml2: what the installer needs is to be installed as well."""


def verdicts(facts: Facts, state: CudaToolkitState | None, **values: Any) -> dict[str, Verdict]:
    origin = Origin(play=1, role="cuda_toolkit")
    graph = build(Declaration(resource=r, origin=origin) for r in declared(facts, version="12.1", **values))
    return {str(id_): verdict for id_, verdict in judge_states(graph, {Id("cuda-toolkit:12.1"): state}).items()}


@pytest.mark.parametrize("path", ["/usr/local/cuda-12.1", "/opt/cuda-12.1"])
@pytest.mark.parametrize("seen", [True, False])
def test_what_somebody_else_put_there_is_judged_at_once(path: str, seen: bool) -> None:
    toolkits = (Toolkit(path=path, real=path, version="12.1", compiler=True),) if seen else ()
    facts = dataclasses.replace(BARE, toolkits=toolkits)
    serves = verdicts(facts, THEIRS, path=path)
    assert serves["cuda-toolkit:12.1"] == Same()
    assert ("apt:libxml2" in serves) is not seen
    lacking = verdicts(facts, LACKING, path=path)["cuda-toolkit:12.1"]
    assert isinstance(lacking, Blocked)
    assert "it is a CUDA toolkit that is not complete: include/cuda_runtime.h missing" in lacking.because


def test_what_the_installer_needs_is_installed_before_it_runs() -> None:
    ours = dataclasses.replace(
        BARE, toolkits=(Toolkit(path="/usr/local/cuda-12.1", real="/usr/local/cuda-12.1", ours=True),)
    )
    for facts in (BARE, ours):
        both = verdicts(facts, None)
        assert list(both) == ["apt:libxml2", "cuda-toolkit:12.1"]
        assert all(isinstance(verdict, Differs) for verdict in both.values())


def test_no_url_is_composed() -> None:
    change = toolkit(version="11.7").plan(None)
    assert change and isinstance(change.steps[0], Obtain)
    assert re.search(r"cuda_11\.7\.1_515\.65\.01_linux\.run$", change.steps[0].sources[0])
