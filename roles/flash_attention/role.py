"""flash-attention, or a package built like it, against the torch of a conda environment."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version
from pydantic import AfterValidator

from gpuprov.errors import HostFailed, InputError
from gpuprov.facts import Facts
from gpuprov.knowledge import flash_attn, gcc, gpus
from gpuprov.knowledge import torch as torches
from gpuprov.knowledge.cuda import numbers, tables
from gpuprov.knowledge.cuda import toolkit as compilers
from gpuprov.model import Resource
from gpuprov.resources import AptPackage
from gpuprov.resources.conda_env import CondaEnv
from gpuprov.resources.cuda_toolkit import CudaToolkit
from gpuprov.resources.declared_env import EnvRef, declared_env
from gpuprov.resources.pip_package import PipPackage
from gpuprov.resources.wheel import Abi, BuiltWheel, ReleaseWheel, Sdist, jobs_for
from gpuprov.role import role

FLASH_ATTN = "flash-attn"
GIB_PER_JOB = 4.0
"""GiB that one file of a release before 2 takes to compile; later ones have their own figure in the tables."""


def _match(pattern: str, words: str) -> Any:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text.strip()):
            raise ValueError(f"must be {words}, not {text!r}")
        return text.strip()

    return AfterValidator(check)


Digest = Annotated[str, _match(r"[0-9a-fA-F]{64}", "64 hex digits"), AfterValidator(str.lower)]
Url = Annotated[str, _match(r"(https?|file)://[^\s]+", "a URL that begins with https://, http:// or file://")]
CudaVersion = Annotated[str, _match(r"[0-9]{1,2}\.[0-9]{1,2}", "X.Y, such as 11.7")]
GccNumber = Annotated[str, _match(r"[0-9]{1,2}(\.[0-9]{1,2})?", "the number of a gcc-N, such as 11")]
Count = Annotated[int, AfterValidator(lambda n: n if n > 0 else _refuse("must be 1 or more"))]
Gib = Annotated[float, AfterValidator(lambda n: n if 0 < n < 1e6 else _refuse("must be a number of GiB above 0"))]


def _refuse(words: str) -> Any:
    raise ValueError(words)


@role
def flash_attention(
    host: Facts,
    *,
    env: EnvRef,
    version: str,
    cuda: CudaVersion | None = None,
    package: str = FLASH_ATTN,
    module: str = "flash_attn",
    sdist_url: Url | None = None,
    sdist_sha256: Digest | None = None,
    wheel_url: Url | None = None,
    wheel_sha256: Digest | None = None,
    max_jobs: Count | None = None,
    gib_per_job: Gib | None = None,
    gcc: GccNumber | None = None,
    cxx11_abi: bool | None = None,
) -> Iterator[Resource[Any]]:
    """Build flash-attention against the torch of a conda env, with the gcc that its CUDA accepts.

    The environment, its torch and the CUDA toolkit come from roles before this one (`cuda_toolkit`, `conda_env`). What
    was built is kept on the host, and another environment with the same torch only installs it.

    Parameters:

    - `env`: the environment's name, or its path.
    - `version`: the release, such as `1.0.9`.
    - `cuda`: the toolkit to build with; it must be torch's CUDA, and may be left out.
    - `package`, `module`: another package that is built in the same way, and what is imported of it.
    - `sdist_url`, `sdist_sha256`: its source. Left out: the sum from the tables, and the host's own pip index.
    - `wheel_url`, `wheel_sha256`: a ready wheel to try first. If it does not load, it is built.
    - `max_jobs`: how many files are compiled at the same time; left out: what cores and memory allow.
    - `gib_per_job`: the memory that one of them takes, in GiB.
    - `gcc`: the N of the distribution's gcc-N; left out: the newest that this CUDA accepts.
    - `cxx11_abi`: torch's C++ ABI, where the tables do not have it right (a torch from conda-forge).
    """
    place = declared_env(host, env)
    torch = _torch(host, place)
    build = _build(torch)
    toolkit = _toolkit(host, package, torch, build, cuda)
    cards = _cards(host)
    if package == FLASH_ATTN:
        _check_release(version, build.cuda_dotted, cards)
    number = _gcc(host, toolkit, torch, gcc)
    abi = Abi(
        python=place.minor,
        torch=f"{torch.version.partition('+')[0]}+{build.cuda}",
        cuda=build.cuda_dotted,
        cxx11_abi=build.cxx11_abi if cxx11_abi is None else cxx11_abi,
        gcc=number,
        glibc=host.glibc or _unknown("its C library"),
        archs=_archs(package, version, build, cards, _aims(host)),
        machine=host.arch or "x86_64",
    )
    source = _source(package, version, sdist_url, sdist_sha256)
    release = _release(host, package, version, abi, wheel_url, wheel_sha256)

    tools: list[Resource[Any]] = [AptPackage(name=f"gcc-{number}"), AptPackage(name=f"g++-{number}")]
    tools += _python_tools(host, place, torch, package, version)
    yield from tools
    yield BuiltWheel(
        name=package,
        version=version,
        module=module,
        env=place,
        torch=torch,
        toolkit=toolkit,
        tools=tuple(tools),
        abi=abi,
        source=source,
        release=release,
        cache=host.paths.cache or posixpath.join(host.paths.state or "/var/lib/gpuprov", "cache"),
        jobs=max_jobs or _jobs(host, package, version, gib_per_job),
        settings=_settings(package, version, abi, build),
        check=(Path(__file__).resolve().parent / "files" / "check.py").read_text(encoding="utf-8"),
    )


# --- what it is built for --------------------------------------------------------------------


def _torch(host: Facts, env: CondaEnv) -> PipPackage:
    try:
        return host.declared(PipPackage, f"{env.path}/torch")
    except InputError as error:
        raise InputError(
            f"no role before this one declared a torch in {env.path}",
            hint="pin torch among the pip packages of conda_env",
        ) from error


def _build(torch: PipPackage) -> torches.Build:
    """Return the CUDA build that a pinned torch is: by its label, its index, or as PyPI serves it."""
    version, _, label = torch.version.partition("+")
    indexes = [index for index in (torch.index, torch.extra_index) if index]
    named = [name for index in indexes if (name := posixpath.basename(urlsplit(index).path.rstrip("/")))]
    label = label or next((name for name in named if re.fullmatch(r"cu[0-9]+|cpu", name)), "")
    if label and not label.startswith("cu"):
        raise InputError(
            f"torch {torch.version} is no build for CUDA, so that nothing can be compiled for a GPU against it"
        )
    return torches.build(version, label or torches.torch(version).pypi_default)


def _toolkit(host: Facts, package: str, torch: PipPackage, build: torches.Build, cuda: str | None) -> CudaToolkit:
    wanted = build.cuda_dotted
    if cuda not in (None, wanted):
        raise InputError(
            f"role 'flash_attention', parameter 'cuda': torch {torch.version} is built with CUDA {wanted}, so that "
            f"{package} cannot be compiled with {cuda}",
            hint=f"declare cuda_toolkit with version {wanted} and leave cuda out, or pin a torch for {cuda}",
        )
    try:
        return host.declared(CudaToolkit, wanted)
    except InputError as error:
        raise InputError(
            f"{package} is compiled with the CUDA of torch {torch.version}, which is {wanted}, and no role before this "
            "one declared that toolkit",
            hint=f"put the role cuda_toolkit with version {wanted} before it (a toolkit that is there already serves)",
        ) from error


def _cards(host: Facts) -> tuple[str, ...]:
    """Return the compute capabilities of the cards that are there, or that were rented; empty: not known."""
    there = {gpu.compute_cap for gpu in host.gpus or () if gpu.compute_cap}
    return _sorted(there or _rented(host))


def _aims(host: Facts) -> tuple[str, ...]:
    """Return the compute capabilities that code is made for; empty: for all.

    Only what the inventory says narrows them. Otherwise an instance that was started without its card for once, or gets
    another one, would have it built again.
    """
    return _sorted({*_rented(host), *_cards(host)}) if _rented(host) else ()


def _rented(host: Facts) -> set[str]:
    return {gpus.compute_capability(host.expected_gpu or "") or ""} - {""}


def _sorted(capabilities: set[str]) -> tuple[str, ...]:
    return tuple(sorted(capabilities, key=lambda cap: numbers(cap)))


def _check_release(version: str, cuda: str, cards: tuple[str, ...]) -> None:
    release = flash_attn.flash_attn(version)
    if release.min_nvcc and numbers(cuda) < numbers(release.min_nvcc):
        raise InputError(f"flash-attn {version} needs CUDA {release.min_nvcc} or newer, and torch is for {cuda}")
    for card in cards:
        verdict = flash_attn.supports(version, card, cuda)
        if not verdict and verdict.how in ("no-code", "too-old"):
            raise HostFailed(verdict.because, hint="choose another release, or rent another card")


def _gcc(host: Facts, toolkit: CudaToolkit, torch: PipPackage, wanted: str | None) -> str:
    cuda = toolkit.release or toolkit.version
    conflict = gcc.glibc_conflict(cuda, host.glibc or "")
    if conflict:
        raise HostFailed(conflict, hint="take an image with an older distribution, or a newer CUDA with its torch")
    if wanted is None:
        if host.os.id is None:
            _unknown("which distribution it is")
        choice = gcc.gcc_for(cuda, host.os.id or "", host.os.version or "")
        if choice is None:
            raise HostFailed(gcc.why_no_gcc(cuda, host.os.id or "", host.os.version or ""))
        wanted = choice.package.removeprefix("gcc-")
    limit = compilers(cuda).accepts_gcc(cuda)
    if numbers(wanted)[0] > limit:
        raise InputError(
            f"role 'flash_attention', parameter 'gcc': CUDA {cuda} accepts gcc up to {limit}, not {wanted}"
        )
    refused = torches.gcc_refused(torch.version, toolkit.version, wanted)
    if refused:
        raise HostFailed(refused, hint="name another by the parameter gcc")
    return wanted


def _unknown(what: str) -> Any:
    raise HostFailed(f"this host did not tell {what}, so that it is not known what can be compiled on it")


def _archs(
    package: str, version: str, build: torches.Build, cards: tuple[str, ...], aims: tuple[str, ...]
) -> tuple[str, ...]:
    if package != FLASH_ATTN:
        compiled = _compiled(build)
        for card in cards:
            if torches.code_for(card, compiled) is None:
                nvcc = f"the nvcc of CUDA {build.cuda_dotted}"
                raise HostFailed(f"{nvcc} compiles nothing that a card of capability {card} runs")
        return _used(aims, compiled) if aims else ()
    targets = flash_attn.targets(version, build.cuda_dotted)
    return _used(aims, targets) if aims and flash_attn.flash_attn(version).archs_selectable else targets


def _used(aims: tuple[str, ...], targets: tuple[str, ...]) -> tuple[str, ...]:
    codes = {torches.code_for(aim, targets) for aim in aims}
    return tuple(target for target in targets if f"sm_{target}" in codes)


def _compiled(build: torches.Build) -> tuple[str, ...]:
    """The targets that torch itself has code for and its nvcc can compile."""
    known = compilers(build.cuda_dotted).sm
    return tuple(arch for arch in build.sass if arch in known and arch.isdecimal())


# --- what it is made from --------------------------------------------------------------------


def _source(package: str, version: str, url: str | None, sha256: str | None) -> Sdist:
    if sha256 is None:
        rows = tables("flash_attn_sources")["sdist"] if package == FLASH_ATTN and url is None else ()
        sha256 = next((row["sha256"] for row in rows if row["version"] == version), None)
    if sha256 is None:
        raise InputError(
            "role 'flash_attention', parameter 'sdist_sha256': it is missing, and the tables know no sum of the source "
            f"of {package} {version}" + (f" at {url}" if url else ""),
            hint="what is built on a host is checked first",
        )
    return Sdist(sha256=sha256, urls=(url,) if url else ())


def _release(
    host: Facts, package: str, version: str, abi: Abi, url: str | None, sha256: str | None
) -> ReleaseWheel | None:
    """Return the ready wheel; None where none is named, or this host (its C library, its processor) cannot use it."""
    if url is None and sha256 is None:
        return None
    if url is None or sha256 is None:
        raise InputError("role 'flash_attention': wheel_url and wheel_sha256 go together")
    name = unquote(posixpath.basename(urlsplit(url).path))
    try:
        project, found, _, tags = parse_wheel_filename(name)
    except InvalidWheelFilename as error:
        raise InputError(f"role 'flash_attention', parameter 'wheel_url': {name!r} is no wheel") from error
    trouble = [f"it is {project}"] if project != canonicalize_name(package) else []
    if Version(found.public) != Version(version):
        trouble.append(f"it is release {found.public}")
    if not any(_python_fits(tag.interpreter, tag.abi, abi) for tag in tags):
        trouble.append(f"it is for Python {'/'.join(sorted({tag.interpreter for tag in tags}))}, not {abi.python}")
    trouble += _label_trouble(found.local or "", abi)
    if trouble:
        raise InputError(
            f"role 'flash_attention', parameter 'wheel_url': {name} does not fit: {'; '.join(trouble)}",
            hint="leave it out, and it is built",
        )
    platforms = {tag.platform for tag in tags}
    if not any(_platform_fits(platform, abi) for platform in platforms) or _too_new(package, version, abi):
        return None
    return ReleaseWheel(name=name, urls=(url,), sha256=sha256)


def _python_fits(interpreter: str, python_abi: str, abi: Abi) -> bool:
    found = re.fullmatch(r"cp3([0-9]+)", interpreter)
    minor = int(abi.python.removeprefix("3."))
    if not found:
        return interpreter == "py3"
    return int(found[1]) == minor or (python_abi == "abi3" and int(found[1]) < minor)


def _label_trouble(label: str, abi: Abi) -> list[str]:
    """What a wheel's own label (``cu12torch2.6cxx11abifalse``) says against it; one of another form says nothing."""
    found = re.fullmatch(r"cu([0-9]+)torch([0-9]+\.[0-9]+)cxx11abi(true|false)", label)
    if not found:
        return []
    cuda, torch, cxx11 = found.groups()
    trouble = []
    if not abi.cuda.replace(".", "").startswith(cuda[:2]):
        trouble.append(f"it is for CUDA {cuda[:2]}, not {abi.cuda}")
    if numbers(torch) != numbers(abi.torch.partition("+")[0])[:2]:
        trouble.append(f"it is for torch {torch}, not {abi.torch}")
    if (cxx11 == "true") != abi.cxx11_abi:
        trouble.append(f"it is for the C++11 ABI {cxx11}, not {str(abi.cxx11_abi).lower()}")
    return trouble


def _platform_fits(platform: str, abi: Abi) -> bool:
    if platform in ("any", f"linux_{abi.machine}"):
        return True
    many = re.fullmatch(r"manylinux_([0-9]+)_([0-9]+)_(.+)", platform)
    if many:
        return many[3] == abi.machine and (int(many[1]), int(many[2])) <= numbers(abi.glibc)
    return platform.startswith("manylinux") and platform.endswith(f"_{abi.machine}")


def _too_new(package: str, version: str, abi: Abi) -> bool:
    """Whether the project built its wheels on a newer C library, which their names do not say."""
    if package != FLASH_ATTN:
        return False
    torch = abi.torch.partition("+")[0]
    planned = flash_attn.wheel(version, torch=torch, torch_cuda=abi.cuda, cxx11_abi=abi.cxx11_abi, python=abi.python)
    return bool(planned and planned.glibc and numbers(planned.glibc) > numbers(abi.glibc))


# --- how it is built -------------------------------------------------------------------------


def _python_tools(host: Facts, env: CondaEnv, torch: PipPackage, package: str, version: str) -> Iterator[PipPackage]:
    """Yield the packages that the build and the result import: those declared already, else in the tables' version."""
    needed = {"ninja", "packaging", "setuptools", "wheel"}
    if package == FLASH_ATTN:
        release = flash_attn.flash_attn(version)
        needed.update(release.build_needs, release.run_needs)
    for row in tables("extension_build")["tool"]:
        name = row["name"]
        if name not in needed:
            continue
        try:
            yield host.declared(PipPackage, f"{env.path}/{name}")
        except InputError:
            # From where torch comes from, so that pip runs once for all of them
            yield PipPackage(
                env=env, name=name, version=row["version"], index=torch.index, extra_index=torch.extra_index
            )


def _jobs(host: Facts, package: str, version: str, gib_per_job: float | None) -> int:
    cores, memory = host.cpu.usable, host.memory.usable
    if gib_per_job is None and package == FLASH_ATTN and Version(version) >= Version("2") and cores and memory:
        return flash_attn.max_jobs(cores=cores, memory_gib=memory / 2**30)
    return jobs_for(cores=cores, memory=memory, gib_per_job=gib_per_job or GIB_PER_JOB)


def _settings(package: str, version: str, abi: Abi, build: torches.Build) -> dict[str, str]:
    settings = {"FLASH_ATTENTION_FORCE_BUILD": "TRUE"}
    if package != FLASH_ATTN:
        # Of itself torch compiles for the cards that it sees, and stops when it sees none
        archs = abi.archs or _compiled(build)
        settings["TORCH_CUDA_ARCH_LIST"] = ";".join(f"{arch[:-1]}.{arch[-1]}" for arch in archs)
    elif flash_attn.flash_attn(version).archs_selectable:
        settings["FLASH_ATTN_CUDA_ARCHS"] = ";".join(abi.archs)
    return settings
