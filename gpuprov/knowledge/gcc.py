"""Host compilers: which gcc a distribution offers, and which of them a CUDA toolkit accepts.

The distributions' own archives only. The tables are in ``gcc.toml`` and ``cuda.toml``, with the source of every row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from gpuprov.knowledge.cuda import numbers, rows, toolkit


@dataclass(frozen=True, kw_only=True)
class Distro:
    """One release of a distribution.

    Attributes:
        id, release: as ``ID`` and ``VERSION_ID`` of /etc/os-release.
        gcc_default: version of the plain gcc package, or its major only.
        gcc_packages: the N for which gcc-N and g++-N exist. gcc_versions: the version seen, by package.
        glibc: version of the C library.
        python3: the system's Python, where it was read.
        complete: False: there may be further gcc-N.
        unsure: why the row is not settled, or empty.
    """

    id: str
    release: str
    codename: str
    gcc_default: str
    gcc_packages: tuple[str, ...]
    gcc_versions: Mapping[str, str]
    glibc: str
    source: tuple[str, ...]
    python3: str | None = None
    complete: bool = True
    note: str = ""
    unsure: str = ""


@dataclass(frozen=True, kw_only=True)
class GlibcLimit:
    """C++ builds with toolkits up to ``cuda_last`` fail on a C library from ``glibc_first`` on."""

    glibc_first: str
    cuda_last: str
    fact: str
    source: tuple[str, ...]
    unsure: str = ""


@dataclass(frozen=True, kw_only=True)
class GccChoice:
    """The compiler to build with.

    Attributes:
        package, cxx_package: such as ``gcc-11`` and ``g++-11``; their commands have the same names.
        version: as seen in the archive; may be the major only.
        is_default: plain ``gcc`` is this one.
        caution: a sentence on known trouble with it, or empty.
    """

    package: str
    cxx_package: str
    version: str
    is_default: bool
    caution: str = ""


@cache
def distros() -> tuple[Distro, ...]:
    """Return all releases of distributions."""
    return rows(Distro, "gcc", "distro")


@cache
def glibc_limits() -> tuple[GlibcLimit, ...]:
    """Return the C libraries that toolkits cannot build on."""
    return rows(GlibcLimit, "cuda", "glibc_limit")


def distro(distro_id: str, release: str) -> Distro | None:
    """Return the distribution that a host says it is, or None. Of Debian, a point release is its major."""
    wanted, version = distro_id.strip().lower(), release.strip()
    if wanted == "debian":
        version = version.partition(".")[0]
    return next((row for row in distros() if (row.id, row.release) == (wanted, version)), None)


def gcc_for(cuda: str, distro_id: str, release: str) -> GccChoice | None:
    """Return the newest gcc of a distribution that a toolkit (X.Y, or a release) accepts; None: see `why_no_gcc`.

    Raises:
        NotInTable: there is no such toolkit.
    """
    nvcc, host = toolkit(cuda), distro(distro_id, release)
    if host is None:
        return None
    limit = nvcc.accepts_gcc(cuda)
    fitting = [n for n in host.gcc_packages if numbers(n)[0] <= limit]
    if not fitting:
        return None
    n = max(fitting, key=numbers)
    cautions = [glibc_conflict(cuda, host.glibc)]
    if nvcc.gcc_quiet and numbers(n)[0] > nvcc.gcc_quiet:
        cautions.insert(0, f"trouble with gcc {n} was reported for CUDA {nvcc.version}: {nvcc.note}")
    default = numbers(host.gcc_default)[: len(numbers(n))] == numbers(n)
    return GccChoice(
        package=f"gcc-{n}",
        cxx_package=f"g++-{n}",
        version=host.gcc_versions.get(f"gcc-{n}", n),
        is_default=default,
        caution="; ".join(filter(None, cautions)),
    )


def why_no_gcc(cuda: str, distro_id: str, release: str) -> str:
    """Say in one sentence why `gcc_for` finds none; empty when it finds one.

    Raises:
        NotInTable: there is no such toolkit.
    """
    if gcc_for(cuda, distro_id, release):
        return ""
    host = distro(distro_id, release)
    if host is None:
        known = ", ".join(f"{row.id} {row.release}" for row in distros())
        return f"the compilers of {distro_id[:40]} {release[:40]} are not in the tables, which have {known}"
    limit, oldest = toolkit(cuda).accepts_gcc(cuda), min(host.gcc_packages, key=numbers)
    more = "" if host.complete else " in the tables, which may lack some"
    return (
        f"CUDA {cuda} accepts gcc up to {limit}, and the oldest that {host.id} {host.release} offers is "
        f"gcc-{oldest}{more}; take a newer CUDA or an older release, or a gcc from conda-forge"
    )


def glibc_conflict(cuda: str, glibc: str) -> str:
    """Say why C++ builds with this toolkit fail on this C library; empty when they do not, as known.

    Raises:
        NotInTable: there is no such toolkit.
    """
    nvcc, library = toolkit(cuda), numbers(glibc.strip())
    if nvcc.glibc_min and library and library < numbers(nvcc.glibc_min):
        return f"CUDA {nvcc.version} needs glibc {nvcc.glibc_min} or newer, not {glibc}"
    for row in glibc_limits():
        if library >= numbers(row.glibc_first) and numbers(nvcc.version) <= numbers(row.cuda_last):
            return f"C++ builds with CUDA up to {row.cuda_last} fail on glibc {row.glibc_first} and newer: {row.fact}"
    return ""
