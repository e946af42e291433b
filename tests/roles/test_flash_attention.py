from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import pytest

from gpuprov.engine.graph import Declaration, Origin, build
from gpuprov.errors import GpuprovError, HostFailed, InputError, Position
from gpuprov.facts import Conda, Cpu, Facts, Gpu, Memory, Os, User
from gpuprov.model import Id, Paths, Resource
from gpuprov.resources import AptPackage
from gpuprov.resources.conda_env import CondaEnv
from gpuprov.resources.cuda_toolkit import CudaToolkit, RunfileSource
from gpuprov.resources.pip_package import PipPackage
from gpuprov.resources.wheel import BuiltWheel
from gpuprov.role import SearchPath, bind
from gpuprov.yaml_text import Mapping, loads

ROLE = SearchPath().find("flash_attention")
SUM = "7c7e29ce25c6135f7291d39d8ce96481b6de0dc14e85eae73d1e5b6258d43ed9"
GIB = 2**30

DEBIAN = Facts(
    paths=Paths(cache="/var/lib/gpuprov/cache"),
    os=Os(id="debian", version="12"),
    arch="x86_64",
    glibc="2.36",
    cpu=Cpu(count=16),
    memory=Memory(total=64 * GIB),
    gpus=(Gpu(index=0, name="NVIDIA GeForce RTX 4090", compute_cap="8.9"),),
    conda=(Conda(path="/root/miniconda3"),),
    user=User(name="root", home="/root"),
)


def env(path: str = "/root/miniconda3/envs/flash", python: str = "3.10.13") -> CondaEnv:
    return CondaEnv(path=path, python=python)


def toolkit(version: str = "11.7") -> CudaToolkit:
    source = RunfileSource(name="cuda.run", urls=("https://example.org/cuda.run",), sha256="0" * 64)
    return CudaToolkit(version=version, source=source)


def before(torch: str = "1.13.1", cuda: str = "11.7", *more: Resource[Any], **fields: Any) -> list[Resource[Any]]:
    """What the roles before declared."""
    place = env()
    return [toolkit(cuda), place, PipPackage(env=place, name="torch", version=torch, **fields), *more]


def declare(
    facts: Facts = DEBIAN, earlier: list[Resource[Any]] | None = None, **values: Any
) -> dict[str, Resource[Any]]:
    declared = {resource.id: resource for resource in (before() if earlier is None else earlier)}
    seen = facts.seen_as(name="h", paths=facts.paths, expected_gpu=facts.expected_gpu, declared=declared)
    values = {"env": "flash", "version": "1.0.9", **values}
    return {resource.id: resource for resource in ROLE.declare(seen, values)}


def wheel(facts: Facts = DEBIAN, earlier: list[Resource[Any]] | None = None, **values: Any) -> BuiltWheel:
    found = declare(facts, earlier, **values)
    (only,) = [resource for resource in found.values() if isinstance(resource, BuiltWheel)]
    return only


def facts(**fields: Any) -> Facts:
    return dataclasses.replace(DEBIAN, **fields)


def test_what_is_declared() -> None:
    place = "/root/miniconda3/envs/flash"
    assert {id_: type(resource) for id_, resource in declare().items()} == {
        "apt:gcc-11": AptPackage,
        "apt:g++-11": AptPackage,
        f"pip:{place}/ninja": PipPackage,
        f"pip:{place}/packaging": PipPackage,
        f"pip:{place}/setuptools": PipPackage,
        f"pip:{place}/wheel": PipPackage,
        f"pip:{place}/einops": PipPackage,
        f"wheel:{place}/flash-attn": BuiltWheel,
    }


def test_the_wheel() -> None:
    found = wheel()
    assert (found.abi.python, found.abi.torch, found.abi.cuda) == ("3.10", "1.13.1+cu117", "11.7")
    assert (found.abi.cxx11_abi, found.abi.archs, found.abi.gcc) == (False, ("75", "80"), "11")
    assert (found.abi.glibc, found.abi.machine) == ("2.36", "x86_64")
    assert found.source.sha256 == SUM and not found.source.urls and found.release is None
    assert found.settings == {"FLASH_ATTENTION_FORCE_BUILD": "TRUE"}, "no release before 2.7.3 lets targets be chosen"
    assert found.cache == "/var/lib/gpuprov/cache"
    assert "flash_attn_unpadded_func" in found.check


def test_it_comes_after_all_that_it_needs() -> None:
    origin = Origin(play=1, role="r", position=Position("p.yaml", 1, 1))
    everything = [*before(), *declare().values()]
    graph = build(Declaration(resource=resource, origin=origin, selected=True) for resource in everything)
    needs = graph[Id("wheel:/root/miniconda3/envs/flash/flash-attn")].needs
    assert {"cuda-toolkit:11.7", "apt:gcc-11", "apt:g++-11", "conda-env:/root/miniconda3/envs/flash"} <= needs
    assert {f"pip:/root/miniconda3/envs/flash/{name}" for name in ("torch", "ninja", "setuptools")} <= needs


COMPILERS: dict[str, tuple[str, str, str, str]] = {
    "debian 12": ("debian", "12", "11.7", "11"),
    "debian 12, a point release": ("debian", "12.5", "11.7", "11"),
    "debian 12 with 12.1": ("debian", "12", "12.1", "12"),
    "debian 11": ("debian", "11", "11.7", "10"),
    "ubuntu 22.04": ("ubuntu", "22.04", "11.7", "11"),
    "ubuntu 20.04": ("ubuntu", "20.04", "11.7", "10"),
}
TORCH_OF = {"11.7": ("1.13.1", "1.0.9"), "12.1": ("2.1.2", "2.7.4.post1")}


@pytest.mark.parametrize("case", COMPILERS)
def test_the_compiler_of_the_distribution(case: str) -> None:
    id_, release, cuda, number = COMPILERS[case]
    torch, version = TORCH_OF[cuda]
    found = declare(facts(os=Os(id=id_, version=release)), before(torch, cuda), version=version)
    assert {f"apt:gcc-{number}", f"apt:g++-{number}"} <= found.keys()


BUILDS: dict[str, tuple[str, dict[str, Any], str, bool]] = {
    "as PyPI serves it": ("1.13.1", {}, "1.13.1+cu117", False),
    "by its label": ("1.13.1+cu117", {}, "1.13.1+cu117", False),
    "by its index": ("2.0.1", {"extra_index": "https://download.example.org/whl/cu117"}, "2.0.1+cu117", False),
    "by its index, with a slash": ("2.0.1", {"index": "https://example.org/whl/cu117/"}, "2.0.1+cu117", False),
}


@pytest.mark.parametrize("case", BUILDS)
def test_which_torch_it_is(case: str) -> None:
    torch, fields, build_, abi = BUILDS[case]
    found = wheel(earlier=before(torch, "11.7", **fields))
    assert (found.abi.torch, found.abi.cxx11_abi) == (build_, abi)


def test_the_abi_can_be_said() -> None:
    assert wheel(cxx11_abi=True).abi.cxx11_abi is True


JOBS: dict[str, tuple[dict[str, Any], str, dict[str, Any], int]] = {
    "four GiB each": ({}, "1.0.9", {}, 16),
    "memory decides": ({"memory": Memory(total=880 * GIB, limit=12 * GIB)}, "1.0.9", {}, 3),
    "cores decide": ({"cpu": Cpu(count=96, limit=2.5)}, "1.0.9", {}, 2),
    "not known": ({"memory": Memory()}, "1.0.9", {}, 1),
    "said": ({}, "1.0.9", {"max_jobs": 5}, 5),
    "memory of a job said": ({}, "1.0.9", {"gib_per_job": 16.0}, 4),
}


@pytest.mark.parametrize("case", JOBS)
def test_jobs(case: str) -> None:
    fields, version, values, jobs = JOBS[case]
    assert wheel(facts(**fields), version=version, **values).jobs == jobs


def test_jobs_of_a_later_release() -> None:
    found = wheel(earlier=before("2.1.2", "12.1"), version="2.7.4.post1")
    assert found.jobs == 7, "half the cores, and 9 GiB each"


H100 = (Gpu(index=0, name="NVIDIA H100", compute_cap="9.0"),)

# The card that is there, and the one that the inventory names; the targets of a release that lets them be chosen.
TARGETS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing known": ({"gpus": ()}, "80;90"),
    "a card, and nothing rented": ({}, "80;90"),
    "rented, and not there": ({"gpus": None, "expected_gpu": "RTX 4090"}, "80"),
    "rented, and there": ({"expected_gpu": "RTX 4090"}, "80"),
    "rented, and another is there": ({"gpus": H100, "expected_gpu": "RTX 4090"}, "80;90"),
    "rented, and nobody's": ({"expected_gpu": "nobody's card"}, "80;90"),
}


@pytest.mark.parametrize("case", TARGETS)
def test_targets(case: str) -> None:
    fields, targets = TARGETS[case]
    found = wheel(facts(**fields), before("2.1.2", "12.1"), version="2.7.4.post1")
    assert found.settings["FLASH_ATTN_CUDA_ARCHS"] == targets
    assert ";".join(found.abi.archs) == targets


def test_what_was_declared_already_is_used() -> None:
    place = env()
    ninja = PipPackage(env=place, name="ninja", version="1.10.2")
    found = declare(earlier=before("1.13.1", "11.7", ninja))
    assert found[ninja.id] is ninja


def test_tools_come_from_where_torch_comes_from() -> None:
    index = "https://download.example.org/whl/cu117"
    found = declare(earlier=before("1.13.1", "11.7", extra_index=index))
    ninja = found["pip:/root/miniconda3/envs/flash/ninja"]
    assert isinstance(ninja, PipPackage) and ninja.extra_index == index


MINI: dict[str, Any] = {"package": "mini-attn", "module": "mini_attn", "version": "0.1.0", "sdist_sha256": "a" * 64}


def test_another_package() -> None:
    found = wheel(facts(expected_gpu="RTX 4090"), **MINI)
    assert (found.name, found.module, found.source.sha256) == ("mini-attn", "mini_attn", "a" * 64)
    assert found.settings["TORCH_CUDA_ARCH_LIST"] == "8.6", "this nvcc does not know 8.9, which runs that too"
    assert found.abi.archs == ("86",)
    blind = wheel(**MINI)
    assert "8.0" in blind.settings["TORCH_CUDA_ARCH_LIST"].split(";"), "torch could not tell without a card"
    assert blind.abi.archs == ()


def test_another_package_on_a_card_that_this_nvcc_does_not_know() -> None:
    card = (Gpu(index=0, name="NVIDIA B200", compute_cap="10.0"),)
    with pytest.raises(HostFailed, match=r"nvcc of CUDA 11\.7 compiles nothing that a card of capability 10\.0 runs"):
        wheel(facts(gpus=card), **MINI)


ENVS = ["flash", "/root/miniconda3/envs/flash", "/root/miniconda3/envs//flash/"]


@pytest.mark.parametrize("name", ENVS)
def test_the_environment_by_name_or_path(name: str) -> None:
    assert wheel(env=name).prefix == "/root/miniconda3/envs/flash"


def test_an_environment_in_the_inventorys_folder() -> None:
    place = env("/data/envs/flash")
    earlier: list[Resource[Any]] = [toolkit(), place, PipPackage(env=place, name="torch", version="1.13.1")]
    assert wheel(facts(paths=Paths(envs="/data/envs", cache="/c")), earlier).prefix == "/data/envs/flash"
    assert wheel(earlier=earlier, env="/data/envs/flash").prefix == "/data/envs/flash"


RELEASE = "flash_attn-2.7.4.post1+cu12torch2.1cxx11abiFALSE-cp310-cp310-linux_x86_64.whl"


def ready(name: str, facts_: Facts = DEBIAN, sha256: str | None = "b" * 64) -> BuiltWheel:
    url = f"https://example.org/{name.replace('+', '%2B')}"
    return wheel(facts_, before("2.1.2", "12.1"), version="2.7.4.post1", wheel_url=url, wheel_sha256=sha256)


def test_a_ready_wheel() -> None:
    release = ready(RELEASE).release
    assert release is not None
    assert (release.name, release.sha256) == (RELEASE, "b" * 64)


UNFIT: dict[str, tuple[str, str]] = {
    "torch": (RELEASE.replace("torch2.1", "torch2.2"), "it is for torch 2.2, not 2.1.2"),
    "CUDA": (RELEASE.replace("cu12", "cu11"), "it is for CUDA 11, not 12.1"),
    "ABI": (RELEASE.replace("FALSE", "TRUE"), "it is for the C\\+\\+11 ABI true, not false"),
    "Python": (RELEASE.replace("cp310", "cp39"), "it is for Python cp39, not 3.10"),
    "release": (RELEASE.replace("2.7.4.post1", "2.7.3"), "it is release 2.7.3"),
    "package": (RELEASE.replace("flash_attn", "flash_attn_3"), "it is flash-attn-3"),
    "no wheel": ("flash-attn.tar.gz", "is no wheel"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_a_ready_wheel_that_does_not_fit(case: str) -> None:
    name, words = UNFIT[case]
    with pytest.raises(InputError, match=words):
        ready(name)


def test_a_ready_wheel_that_this_host_cannot_load_is_left_out() -> None:
    assert ready(RELEASE.replace("linux_x86_64", "linux_aarch64")).release is None
    assert ready(RELEASE.replace("linux_x86_64", "manylinux_2_38_x86_64")).release is None
    assert ready(RELEASE.replace("linux_x86_64", "manylinux_2_28_x86_64")).release is not None


def test_a_wheel_built_on_a_newer_distribution_is_left_out() -> None:
    name = "flash_attn-2.8.3+cu12torch2.4cxx11abiFALSE-cp310-cp310-linux_x86_64.whl"
    values = {"version": "2.8.3", "wheel_url": f"https://example.org/{name}", "wheel_sha256": "b" * 64}
    old = facts(glibc="2.31", os=Os(id="debian", version="11"))
    earlier = before("2.4.1+cu121", "12.1")
    assert wheel(old, earlier, **values).release is None, "its name does not say that it needs glibc 2.32"
    assert wheel(DEBIAN, earlier, **values).release is not None


# What is given; the error, and its words.
REFUSED: dict[str, tuple[dict[str, Any], type[GpuprovError], str]] = {
    "no env": ({"env": "other"}, InputError, "declared conda-env:/root/envs/other"),
    "no torch": ({"earlier": [toolkit(), env()]}, InputError, "no role before this one declared a torch in /root"),
    "no toolkit": ({"earlier": before()[1:]}, InputError, "put the role cuda_toolkit with version 11.7 before it"),
    "another toolkit": ({"earlier": before("1.13.1", "12.1")}, InputError, "which is 11.7, and no role before"),
    "torch for another CUDA": (
        {"cuda": "12.1"},
        InputError,
        "torch 1.13.1 is built with CUDA 11.7, so that flash-attn cannot be compiled with 12.1",
    ),
    "torch for the CPU": ({"earlier": before("1.13.1+cpu")}, InputError, "is no build for CUDA"),
    "torch unknown": ({"earlier": before("1.99.0")}, InputError, "1.99.0"),
    "release unknown": ({"version": "9.9"}, InputError, "'9.9' is not in the tables"),
    "no sum": ({"version": "1.0.7"}, InputError, "know no sum of the source of flash-attn 1.0.7"),
    "another source without a sum": (
        {"sdist_url": "https://example.org/f.tar.gz"},
        InputError,
        "know no sum of the source of flash-attn 1.0.9 at https://example.org/f.tar.gz",
    ),
    "another package without a sum": ({"package": "mini-attn"}, InputError, "know no sum of the source of mini-attn"),
    "a wheel without a sum": ({"wheel_url": "https://example.org/a.whl"}, InputError, "go together"),
    "gcc too new": ({"gcc": "12"}, InputError, "CUDA 11.7 accepts gcc up to 11, not 12"),
    "no gcc old enough": (
        {"facts": facts(os=Os(id="debian", version="13"))},
        HostFailed,
        "CUDA 11.7 accepts gcc up to 11, and the oldest that debian 13 offers",
    ),
    "distribution unknown": ({"facts": facts(os=Os())}, HostFailed, "did not tell which distribution"),
    "another distribution": ({"facts": facts(os=Os(id="slackware", version="15"))}, HostFailed, "slackware 15"),
    "C library unknown": ({"facts": facts(glibc=None)}, HostFailed, "did not tell its C library"),
    "C library too new": ({"facts": facts(glibc="2.41")}, HostFailed, "fail on glibc 2.41"),
    "card too old": (
        {"facts": facts(gpus=(Gpu(index=0, name="Tesla V100", compute_cap="7.0"),))},
        HostFailed,
        "has no code that a card of capability 7.0 runs",
    ),
    "card too new": (
        {"facts": facts(gpus=(Gpu(index=0, name="NVIDIA H100", compute_cap="9.0"),))},
        HostFailed,
        "nvcc 11.8 or newer compiles for it",
    ),
    "one of two cards": (
        {
            "facts": facts(
                gpus=(
                    Gpu(index=0, name="NVIDIA A100", compute_cap="8.0"),
                    Gpu(index=1, name="Tesla V100", compute_cap="7.0"),
                )
            )
        },
        HostFailed,
        "capability 7.0",
    ),
    "the card that was rented": (
        {"facts": facts(gpus=(), expected_gpu="H100")},
        HostFailed,
        "capability 9.0",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    values, error, words = REFUSED[case]
    values = dict(values)
    with pytest.raises(error) as caught:
        declare(values.pop("facts", DEBIAN), values.pop("earlier", None), **values)
    assert words in f"{caught.value} {caught.value.hint}"


def test_an_instance_without_its_card_is_provisioned_all_the_same() -> None:
    assert wheel(facts(gpus=None, expected_gpu="RTX 4090")).abi.archs == ("75", "80")
    assert wheel(facts(gpus=None, expected_gpu="nobody's card")).abi.archs == ("75", "80")


WORDS: dict[str, tuple[str, str]] = {
    "cuda": ("cuda: cu117", "must be X.Y, such as 11.7"),
    "gcc": ("gcc: gcc-11", "must be the number of a gcc-N"),
    "max_jobs": ("max_jobs: 0", "must be 1 or more"),
    "gib_per_job": ("gib_per_job: -1", "must be a number of GiB above 0"),
    "sdist_sha256": ("sdist_sha256: abc", "must be 64 hex digits"),
    "wheel_url": ("wheel_url: example.org/a.whl", "must be a URL"),
}


@pytest.mark.parametrize("case", WORDS)
def test_words_that_cannot_be(case: str) -> None:
    line, words = WORDS[case]
    params = loads(f"env: flash\nversion: 1.0.9\n{line}\n", "p.yaml")
    assert isinstance(params, Mapping)
    with pytest.raises(InputError, match=words) as caught:
        bind(ROLE, params, Position("p.yaml", 1, 1))
    assert caught.value.problems[0].position == Position("p.yaml", 3, len(case) + 3)


CHECK_STAGE = """
import sys, types
class Tensor:
    def __init__(self, value): self.value = value
    def float(self): return self
    def reshape(self, *shape): return self
    def softmax(self, dim): return self
    def __truediv__(self, other): return self
    def __sub__(self, other): return Tensor(self.value - other.value)
    def abs(self): return Tensor(abs(self.value))
    def max(self): return self
    def item(self): return self.value
torch = types.SimpleNamespace(manual_seed=lambda n: None, float16=1, int32=2, randn=lambda *a, **k: Tensor(1.0),
    arange=lambda *a, **k: Tensor(0), einsum=lambda how, a, b: Tensor(1.0),
    cuda=types.SimpleNamespace(get_device_name=lambda: "Card"))
calls = []
def answer(name, value):
    def call(*a): calls.append((name, len(a))); return Tensor(value)
    return call
kind, value = sys.argv[2], float(sys.argv[3])
module = types.ModuleType("attn")
if kind == "two":
    module.flash_attn_func = answer("flash_attn_func", value)
elif kind == "one":
    inner = types.ModuleType("attn.flash_attn_interface")
    inner.flash_attn_func = answer("the old one", value)
    inner.flash_attn_unpadded_func = answer("unpadded", value)
    sys.modules["attn"], sys.modules["attn.flash_attn_interface"] = module, inner
exec(compile(open(sys.argv[1]).read(), "check.py", "exec"), {"torch": torch, "module": module, "__name__": "check"})
print(calls)
"""


@pytest.mark.parametrize(
    ("kind", "value", "status", "words"),
    [
        ("two", 1.0, 0, "[('flash_attn_func', 3)]"),
        ("one", 1.001, 0, "[('unpadded', 8)]"),
        ("two", 1.1, 1, "its numbers differ from torch's by 0.1"),
        ("two", float("nan"), 1, "its numbers differ from torch's by nan"),
        ("none", 1.0, 0, "attn has no attention that could be compared"),
    ],
)
def test_the_comparison_calls_what_each_release_has(kind: str, value: float, status: int, words: str) -> None:
    check = ROLE.folder / "files" / "check.py"
    done = subprocess.run(
        [sys.executable, "-I", "-c", CHECK_STAGE, str(check), kind, str(value)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, words in done.stdout + done.stderr) == (status, True), done
