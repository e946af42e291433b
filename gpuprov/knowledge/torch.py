"""torch releases and their CUDA builds: what they carry, what they want beside them, which cards they run on.

All of it is for Linux x86_64. The tables are in ``torch.toml``, with the source of every row; each is read once, at
the first look-up. A build is named as torch does, ``cu117``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from gpuprov.knowledge.cuda import NotInTable, Verdict, numbers, rows, tables


@dataclass(frozen=True, kw_only=True)
class Torch:
    """One release.

    Attributes:
        python: minor versions that have a wheel.
        builds: the CUDA builds published. pypi_default: the one that a plain ``torch==X`` gets.
        torchvision, torchaudio: the versions made for it.
        numpy_lt_2: numpy must stay below 2; no wheel says so itself.
        cxx11_abi, wheel_platform: of the default build (see `Build` for the others).
        glibc_min: the C library that the default build demands; None: less than 2.28.
        conda_channel_package: the project's own conda channel has it.
        unsure: why the row is not settled, or empty.
    """

    version: str
    python: tuple[str, ...]
    builds: tuple[str, ...]
    pypi_default: str
    torchvision: str
    torchaudio: str
    numpy_lt_2: bool
    cxx11_abi: bool
    wheel_platform: str
    conda_channel_package: bool
    source: tuple[str, ...]
    glibc_min: str | None = None
    released: str | None = None
    triton: str | None = None
    pypi_cuda_runtime: str | None = None
    pypi_cuda_toolkit_meta: str | None = None
    note: str = ""
    unsure: str = ""


@dataclass(frozen=True, kw_only=True)
class Build:
    """One CUDA build of a torch X.Y.

    Attributes:
        torch: X.Y. cuda, cuda_dotted: such as ``cu117`` and ``11.7``.
        cudnn: the version it bundles or requires.
        sass: targets with binary code. ptx: targets as PTX; empty: none.
        verified_in_binary: read from the wheel, not from build scripts or a table.
        cxx11_abi: extensions for it must be built with this ABI; it can differ between builds of one release.
        glibc_min: the C library that its wheel demands; None: less than 2.28.
        unsure: why the row is not settled, or empty.
    """

    torch: str
    cuda: str
    cuda_dotted: str
    cudnn: str
    sass: tuple[str, ...]
    ptx: tuple[str, ...]
    verified_in_binary: bool
    cxx11_abi: bool
    source: tuple[str, ...]
    glibc_min: str | None = None
    note: str = ""
    unsure: str = ""


@dataclass(frozen=True, kw_only=True)
class ExtensionGcc:
    """What gcc torch itself refuses when it builds a CUDA extension: above ``upto``, or from ``below`` on."""

    torch_first: str
    torch_last: str
    cuda_first: str
    cuda_last: str
    source: tuple[str, ...]
    upto: str | None = None
    below: str | None = None


@cache
def torches() -> tuple[Torch, ...]:
    """Return all releases, oldest first."""
    return rows(Torch, "torch", "release")


@cache
def builds() -> tuple[Build, ...]:
    """Return all builds, oldest torch first."""
    return rows(Build, "torch", "build")


@cache
def extension_gccs() -> tuple[ExtensionGcc, ...]:
    """Return the compiler limits that torch enforces."""
    return rows(ExtensionGcc, "torch", "extension_gcc")


def torch(version: str) -> Torch:
    """Return a release, or the newest of an X.Y. A local part (``2.6.0+cu124``) makes no difference.

    Raises:
        NotInTable: there is none.
    """
    wanted = version.strip().partition("+")[0]
    for row in reversed(torches()):
        if wanted == row.version or numbers(wanted) == numbers(row.version)[:2]:
            return row
    raise NotInTable("torch", wanted, (row.version for row in torches()))


def build(version: str, cuda: str) -> Build:
    """Return the build of a release for a CUDA, written ``cu117`` or ``11.7``.

    Raises:
        NotInTable: there is no such release, or no such build of it.
    """
    release, wanted = torch(version), cuda.strip().lower()
    name = wanted if wanted.startswith("cu") else "cu" + wanted.replace(".", "")
    if name in release.builds:
        return next(row for row in builds() if row.cuda == name and numbers(row.torch) == numbers(release.version)[:2])
    raise NotInTable(f"the build of torch {release.version} for CUDA", wanted, release.builds)


def index_url(version: str, cuda: str) -> str | None:
    """Return the project's own index that has a build, or None when a plain install from PyPI gets that build.

    Raises:
        NotInTable: there is no such build.
    """
    name, download = build(version, cuda).cuda, tables("torch")["download"]
    if name == torch(version).pypi_default:
        return None
    return str(download["base_url"]) + str(download["index_path"]).format(build=name)


def gcc_refused(version: str, cuda: str, gcc: str) -> str:
    """Say why torch itself would stop the build of a CUDA extension with this gcc; empty: it would not, as known.

    What nvcc accepts is another question: see `gpuprov.knowledge.gcc`.
    """
    release, toolkit, compiler = numbers(version.partition("+")[0]), numbers(cuda)[:2], numbers(gcc)
    for row in extension_gccs():
        known = numbers(row.torch_first) <= release <= numbers(row.torch_last)
        if not (known and numbers(row.cuda_first) <= toolkit <= numbers(row.cuda_last)):
            continue
        if row.upto and compiler > numbers(row.upto):
            return f"torch {version} builds extensions for CUDA {cuda} with gcc up to {row.upto}, not {gcc}"
        if row.below and compiler >= numbers(row.below):
            return f"torch {version} builds extensions for CUDA {cuda} with gcc below {row.below}, not {gcc}"
    return ""


# --- what runs on a card ---------------------------------------------------------------------


def capability(text: str) -> tuple[int, int] | None:
    """Return a compute capability, written ``8.9``, ``89`` or ``sm_89``, as two numbers; None when it is none."""
    found = re.fullmatch(r"(?:sm_|compute_)?([0-9]{1,2})\.?([0-9])", text.strip().lower())
    return (int(found[1]), int(found[2])) if found else None


def code_for(compute_cap: str, sass: Iterable[str], ptx: Iterable[str] = ()) -> str | None:
    """Return the code that a card would run: ``sm_86`` (binary), ``compute_80`` (PTX), or None.

    Binary code runs on the same major with an equal or higher minor; with the suffix ``a`` on that capability only;
    with ``f`` inside its family. PTX runs on everything that is not older (CUDA C++ Programming Guide).
    """
    card = capability(compute_cap)
    if card is None:
        return None
    fits: list[tuple[tuple[int, int], str]] = []
    for target in sass:
        made_for = capability(target.rstrip("af"))
        if made_for and (made_for == card or (made_for[0] == card[0] and made_for < card and target[-1] != "a")):
            fits.append((made_for, f"sm_{target}"))
    if not fits:
        fits = [(c, f"compute_{target}") for target in ptx if (c := capability(target)) and c <= card]
    return max(fits)[1] if fits else None


def runs_code(what: str, compute_cap: str, sass: Iterable[str], ptx: Iterable[str] = ()) -> Verdict:
    """Judge whether a card of this compute capability runs ``what``, which holds code for these targets."""
    sass, ptx = tuple(sass), tuple(ptx)
    if capability(compute_cap) is None:
        because = f"{compute_cap[:40]!r} is no compute capability such as 8.9"
        return Verdict(fits=False, how="unreadable", because=because)
    code = code_for(compute_cap, sass, ptx)
    if code is None:
        held = ", ".join([f"sm_{target}" for target in sass] + [f"compute_{target}" for target in ptx]) or "nothing"
        because = f"{what} has no code that a card of capability {compute_cap} runs: it has {held}"
        return Verdict(fits=False, how="no-code", because=because)
    if code.startswith("sm_"):
        because = f"{what} runs on capability {compute_cap} with its {code} code"
        return Verdict(fits=True, how="binary", because=because)
    because = f"{what} runs on capability {compute_cap} after its {code} PTX is compiled at the first start"
    return Verdict(fits=True, how="ptx", because=because)


def supports(build: Build, compute_cap: str) -> Verdict:
    """Say whether a build runs on a card, and what would do when it does not. Never raises.

    ``ptx`` holds only with a driver that runs the build's CUDA fully, not merely by minor-version compatibility.
    """
    verdict = runs_code(f"torch {build.torch}+{build.cuda}", compute_cap, build.sass, build.ptx)
    if verdict.how != "no-code":
        return verdict
    others = [row for row in builds() if code_for(compute_cap, row.sass, row.ptx)]
    same = [row for row in others if row.torch == build.torch]
    near = same or sorted(others, key=lambda row: _distance(row.torch, build.torch))
    do = f"; torch {near[0].torch}+{near[0].cuda} does" if near else "; no build in the tables does"
    return Verdict(fits=False, how="no-code", because=verdict.because + do)


def _distance(one: str, other: str) -> int:
    versions = [row.torch for row in builds()]
    return abs(versions.index(one) - versions.index(other))
