"""flash-attn releases: what they need to build, which cards they run on, and their ready wheels.

The tables are in ``flash_attn.toml``, with the source of every row; each is read once, at the first look-up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from gpuprov.knowledge.cuda import NotInTable, Verdict, numbers, rows, tables
from gpuprov.knowledge.gcc import distros
from gpuprov.knowledge.torch import code_for, runs_code


@dataclass(frozen=True, kw_only=True)
class FlashAttn:
    """One release. A row may say nothing but that it is on PyPI (then ``unsure``).

    Attributes:
        min_nvcc: the lowest nvcc X.Y that its setup.py accepts; None: not known.
        archs: targets it compiles, binary code only, as far as nvcc is new enough (see `targets`).
        archs_selectable: the variable FLASH_ATTN_CUDA_ARCHS narrows them; TORCH_CUDA_ARCH_LIST never does.
        env: the environment variables that its setup.py reads.
        max_jobs_auto: it computes MAX_JOBS itself when unset, from memory that in a container may be the host's.
        nvcc_threads: threads of each nvcc, settable by NVCC_THREADS where ``nvcc_threads_settable``.
        build_needs: Python packages that must be there before (no build isolation). run_needs: those it imports.
        auto_download: it tries a ready wheel first; FLASH_ATTENTION_FORCE_BUILD=TRUE forbids that.
        wheel_torch, wheel_python, wheel_cxx11abi: the wheels planned by its publish workflow, not a file listing.
        wheel_built_with_cuda, wheel_cu_label: by which toolkit, and as what they are named, in the same order.
        wheel_built_on: the image that they were built on.
        unsure: why the row is not settled, or empty.
    """

    version: str
    on_pypi: bool
    source: tuple[str, ...]
    min_nvcc: str | None = None
    readme_min_cuda: str | None = None
    readme_min_torch: str | None = None
    python_min: str | None = None
    archs: tuple[str, ...] = ()
    arch_90_needs_nvcc: str | None = None
    arch_100_120_needs_nvcc: str | None = None
    archs_selectable: bool = False
    env: tuple[str, ...] = ()
    max_jobs_auto: bool = False
    nvcc_threads: int | None = None
    nvcc_threads_settable: bool = False
    build_needs: tuple[str, ...] = ()
    run_needs: tuple[str, ...] = ()
    auto_download: bool = False
    wheel_torch: tuple[str, ...] = ()
    wheel_built_with_cuda: tuple[str, ...] = ()
    wheel_cu_label: tuple[str, ...] = ()
    wheel_python: tuple[str, ...] = ()
    wheel_cxx11abi: tuple[str, ...] = ()
    wheel_built_on: str | None = None
    note: str = ""
    unsure: str = ""


@dataclass(frozen=True, kw_only=True)
class WheelLabel:
    """How the CUDA part of a wheel's name follows from torch's CUDA, for the releases ``first`` to ``last``."""

    first: str
    match: Literal["exact", "major"]
    source: tuple[str, ...]
    last: str | None = None
    takes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """A ready wheel that the project planned; whether it is there, only the download tells.

    Attributes:
        name, url: of the file.
        nvcc: the toolkit release that compiled it: `supports` with it says on which cards it runs.
        glibc: C library of the image it was built on: on an older one it may fail at import, though pip takes it.
    """

    name: str
    url: str
    nvcc: str
    glibc: str


@cache
def flash_attns() -> tuple[FlashAttn, ...]:
    """Return all releases, oldest first."""
    return rows(FlashAttn, "flash_attn", "release")


@cache
def wheel_labels() -> tuple[WheelLabel, ...]:
    """Return the naming rules of wheels, oldest first."""
    return rows(WheelLabel, "flash_attn", "wheel_label")


def flash_attn(version: str) -> FlashAttn:
    """Return a release, by its exact version.

    Raises:
        NotInTable: there is none.
    """
    return flash_attns()[_place(version)]


def _place(version: str) -> int:
    versions = [row.version for row in flash_attns()]
    if version.strip() not in versions:
        raise NotInTable("flash-attn", version.strip(), versions)
    return versions.index(version.strip())


def targets(version: str, nvcc: str) -> tuple[str, ...]:
    """Return the targets that a release compiles with an nvcc X.Y: one that is too old for a target leaves it out.

    Raises:
        NotInTable: there is no such release.
    """
    release, have = flash_attn(version), numbers(nvcc)
    needs = {"90": release.arch_90_needs_nvcc, "100": release.arch_100_120_needs_nvcc}
    needs["120"] = needs["100"]
    return tuple(arch for arch in release.archs if have >= numbers(needs.get(arch) or release.min_nvcc or ""))


def supports(version: str, compute_cap: str, nvcc: str) -> Verdict:
    """Say whether a release, compiled by an nvcc X.Y, runs on a card, and what would do when it does not.

    Raises:
        NotInTable: there is no such release.
    """
    release = flash_attn(version)
    if release.min_nvcc is None:
        because = f"what flash-attn {release.version} compiles is not known: {release.unsure}"
        return Verdict(fits=False, how="unknown", because=because)
    if not numbers(nvcc):
        return Verdict(fits=False, how="unreadable", because=f"{nvcc[:40]!r} is no nvcc version such as 11.8")
    if numbers(nvcc) < numbers(release.min_nvcc):
        because = f"flash-attn {release.version} needs nvcc {release.min_nvcc} or newer, not {nvcc}"
        return Verdict(fits=False, how="too-old", because=because, needs=release.min_nvcc)
    what = f"flash-attn {release.version} compiled by nvcc {nvcc}"
    verdict = runs_code(what, compute_cap, targets(version, nvcc))
    if verdict.how != "no-code":
        return verdict
    for needed in filter(None, (release.arch_90_needs_nvcc, release.arch_100_120_needs_nvcc)):
        if code_for(compute_cap, targets(version, needed)):
            because = f"{verdict.because}; nvcc {needed} or newer compiles for it"
            return Verdict(fits=False, how="no-code", because=because, needs=needed)
    others = [row.version for row in flash_attns() if row.on_pypi and code_for(compute_cap, row.archs)]
    do = f"; the releases that can go from {others[0]} to {others[-1]}" if others else "; no release does"
    return Verdict(fits=False, how="no-code", because=verdict.because + do)


def wheel(version: str, *, torch: str, torch_cuda: str, cxx11_abi: bool, python: str) -> Wheel | None:
    """Return the ready wheel planned for a torch (``2.6.0``), its CUDA (``12.4``) and ABI, and a Python (``3.11``).

    None when none was planned for that. The name is no proof: some wheels were built with the other ABI than they
    say, so only an import tells.

    Raises:
        NotInTable: there is no such release.
    """
    release = flash_attn(version)
    label = _label(release, torch_cuda)
    minor = ".".join(map(str, numbers(torch.partition("+")[0])[:2]))
    abi = str(cxx11_abi).upper()
    planned = (
        minor in {".".join(made_for.split(".")[:2]) for made_for in release.wheel_torch}
        and python in release.wheel_python
        and abi in release.wheel_cxx11abi
    )
    if label is None or not planned:
        return None
    tag = "cp" + python.replace(".", "")
    name = f"flash_attn-{release.version}+{label}torch{minor}cxx11abi{abi}-{tag}-{tag}-linux_x86_64.whl"
    download = tables("flash_attn")["download"]
    url = str(download["base_url"]) + str(download["wheel_path"]).format(version=release.version, name=name)
    built_on, _, number = (release.wheel_built_on or "").partition("-")
    glibc = next((row.glibc for row in distros() if (row.id, row.release) == (built_on, number)), "")
    nvcc = release.wheel_built_with_cuda[release.wheel_cu_label.index(label)]
    return Wheel(name=name, url=url, nvcc=nvcc, glibc=glibc)


def _label(release: FlashAttn, torch_cuda: str) -> str | None:
    place = _place(release.version)
    for rule in wheel_labels():
        if _place(rule.first) <= place <= (_place(rule.last) if rule.last else place):
            exact = rule.takes.get(torch_cuda, "cu" + torch_cuda.replace(".", ""))
            major = f"cu{torch_cuda.partition('.')[0]}"
            fits = [label for label in release.wheel_cu_label if label == exact]
            if rule.match == "major":
                fits = [label for label in release.wheel_cu_label if label.startswith(major)]
            return fits[0] if fits else None
    return None


def max_jobs(*, cores: int, memory_gib: float) -> int:
    """Return how many files may be compiled at the same time: half the cores, and 9 GiB each.

    ``memory_gib`` is what the build may use: of a container its limit, less what others need.
    """
    return max(1, min(cores // 2, int(memory_gib // tables("flash_attn")["memory"]["gib_per_job"])))
