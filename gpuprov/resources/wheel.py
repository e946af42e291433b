"""A compiled Python package: a wheel that fits exactly one torch, Python, CUDA and C++ ABI, in an environment."""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from gpuprov.digest import canonical, digest
from gpuprov.errors import HostFailed
from gpuprov.knowledge.cuda import tables
from gpuprov.model import Change, Claims, Id, Job, Obtain, Probe, Resource, Step, normal_path
from gpuprov.onhost import script
from gpuprov.quote import quote
from gpuprov.resources.wheel_state import WheelState, parse

DEADLINE = 8 * 3600.0
"""Seconds for a build: without many cores the larger packages take hours."""

SILENCE = 2 * 3600.0
"""Seconds: one file of a large kernel may be compiled for longer than an hour before ninja says that it is done."""

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"[0-9][A-Za-z0-9.!+]*")
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ABI = {
    "python": (r"3\.[0-9]{1,2}", "X.Y, such as 3.10"),
    "torch": (r"[0-9]+(\.[0-9]+)+[A-Za-z0-9.]*\+[a-z0-9.]+", "a version and build, such as 1.13.1+cu117"),
    "cuda": (r"[0-9]{1,2}\.[0-9]{1,2}", "X.Y, such as 11.7"),
    "gcc": (r"[0-9]{1,2}(\.[0-9]{1,2})?", "the number of a gcc-N, such as 11"),
    "glibc": (r"[0-9]+\.[0-9]+(\.[0-9]+)?", "a version, such as 2.36"),
    "machine": (r"[A-Za-z0-9_]+", "an architecture, such as x86_64"),
}


@dataclass(frozen=True, kw_only=True)
class Abi:
    """What a wheel is compiled for. A wheel for one of these values serves no other.

    Attributes:
        python: X.Y. torch: version and build, ``1.13.1+cu117``. cuda: X.Y, torch's and the toolkit's.
        cxx11_abi: torch's C++ ABI (``torch._C._GLIBCXX_USE_CXX11_ABI``).
        archs: the GPU targets that are compiled, such as ``80`` and ``90``; empty: the project's own choice.
        glibc: the host's C library. gcc: N of the ``gcc-N`` that compiles. machine: as ``uname -m``.

    Raises:
        ValueError: a field cannot be what it must be.
    """

    python: str
    torch: str
    cuda: str
    cxx11_abi: bool
    gcc: str
    glibc: str
    archs: tuple[str, ...] = ()
    machine: str = "x86_64"

    def __post_init__(self) -> None:
        for name, (pattern, words) in _ABI.items():
            if not re.fullmatch(pattern, getattr(self, name)):
                raise ValueError(f"{name} of a wheel must be {words}, not {getattr(self, name)!r}")
        for arch in self.archs:
            if not re.fullmatch(r"[0-9]{2,3}[af]?", arch):
                raise ValueError(f"archs of a wheel must be targets such as 80 or 90a, not {arch!r}")


@dataclass(frozen=True, kw_only=True)
class Sdist:
    """A source release: its sum, and where it lies. Without ``urls`` the host's pip fetches it from its own index.

    Raises:
        ValueError: ``sha256`` is none.
    """

    sha256: str
    urls: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _SHA256.fullmatch(self.sha256):
            raise ValueError(f"sha256 of the source must be 64 lower-case hex digits, not {self.sha256!r}")


@dataclass(frozen=True, kw_only=True)
class ReleaseWheel:
    """A ready wheel of the project: its file name, where it lies, and its sum. Only an import shows that it serves.

    Raises:
        ValueError: ``name`` is no wheel's, ``sha256`` is none, or there is no URL.
    """

    name: str
    urls: tuple[str, ...]
    sha256: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_.+!]+(-[A-Za-z0-9_.+!]+){4,5}\.whl", self.name):
            raise ValueError(f"the name of a wheel is NAME-VERSION-PYTHON-ABI-PLATFORM.whl, not {self.name!r}")
        if not _SHA256.fullmatch(self.sha256):
            raise ValueError(f"sha256 of {self.name} must be 64 lower-case hex digits, not {self.sha256!r}")
        if not self.urls:
            raise ValueError(f"there is no URL for {self.name}")


@dataclass(frozen=True, kw_only=True)
class BuiltWheel(Resource[WheelState]):
    """A compiled package in an environment, made for exactly the torch that is there.

    It comes from this host's cache of wheels, else as the project's own wheel, if one is named and loads, else it is
    compiled. The proof is an import, and with a GPU a comparison of numbers. With ``present=False`` only what we put
    there is taken out.

    Attributes:
        name, version, module: of the project, and what is imported to try it.
        env, torch, toolkit: where it stands, what it is built against, what it is built with.
        tools: whatever else must be there first: compilers, build tools.
        abi: what it is for. source: its source release. release: the project's own wheel, tried first.
        cache: the folder on the host that wheels and sources are kept in.
        jobs: how many files are compiled at the same time. No part of what the wheel is.
        settings: environment variables for its setup.py.
        modules: Python modules that its setup.py imports.
        check: Python source that compares its numbers with torch's on a GPU and raises when they differ; it is given
            ``torch`` and ``module``. Empty: an import is all.

    Raises:
        ValueError: a field cannot be what it must be.
    """

    kind: ClassVar[str] = "wheel"
    inside: ClassVar[str | None] = "env"

    name: str
    version: str
    module: str
    env: Resource[Any]
    torch: Resource[Any]
    toolkit: Resource[Any]
    tools: tuple[Resource[Any], ...] = ()
    abi: Abi
    source: Sdist
    release: ReleaseWheel | None = None
    cache: str
    jobs: int = 1
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)
    modules: tuple[str, ...] = ("setuptools", "wheel", "packaging", "torch.utils.cpp_extension")
    check: str = ""

    def __post_init__(self) -> None:
        for what, pattern in (("name", _NAME), ("version", _VERSION), ("module", _MODULE)):
            if not pattern.fullmatch(getattr(self, what)):
                raise ValueError(f"{what} of a wheel cannot be {getattr(self, what)!r}")
        for reference in ("env", "toolkit"):
            if getattr(self, reference).place is None:
                raise ValueError(f"{reference} of {self.name} must be something that stands at a path")
        for module in self.modules:
            if not _MODULE.fullmatch(module):
                raise ValueError(f"modules of {self.name} must be names of Python modules, not {module!r}")
        for variable, value in self.settings.items():
            if not _VARIABLE.fullmatch(variable) or "\0" in value:
                raise ValueError(f"settings of {self.name} must be environment variables, not {variable!r}")
        if self.jobs < 1:
            raise ValueError(f"jobs of {self.name} must be 1 or more, not {self.jobs}")
        object.__setattr__(self, "cache", normal_path(self.cache, what="cache"))

    @property
    def id(self) -> Id:
        """``wheel:/path/of/env/name``."""
        return Id(f"{self.kind}:{self.prefix}/{self.name}")

    @property
    def prefix(self) -> str:
        """The environment's folder."""
        return normal_path(self.env.place or "/", what="env")

    @property
    def marker(self) -> str:
        """The file in the environment that says what we put there."""
        return posixpath.join(self.prefix, ".gpuprov", "wheels", f"{self.name}.json")

    @property
    def inputs(self) -> dict[str, str]:
        """All that decides what the wheel is."""
        abi = self.abi
        return {
            "name": self.name,
            "version": self.version,
            "source": self.source.sha256,
            "python": abi.python,
            "torch": abi.torch,
            "cuda": abi.cuda,
            "cxx11_abi": str(abi.cxx11_abi),
            "archs": " ".join(abi.archs),
            "glibc": abi.glibc,
            "compiler": f"gcc-{abi.gcc}",
            "machine": abi.machine,
        }

    @property
    def key(self) -> str:
        """Digest of `inputs`: the wheel's folder in the cache."""
        return digest(self.inputs)

    def probe(self) -> Probe[WheelState]:
        """What pip has installed, the torch beside it, our marker and its files. Deep: every shared object's sum."""
        return Probe(script=self._look(deep=False), parse=parse, deep=self._look(deep=True))

    def plan(self, now: WheelState | None) -> Change | None:
        """Compare.

        Raises:
            HostFailed: it is to be absent, and is there, but we did not put it there.
        """
        if not self.present:
            return self._removal(now)
        if now is None:
            return Change(action="create", before="absent", after=self._after, steps=self._steps())
        why = self._due(now)
        if not why:
            return None
        found = f"{self.name} {' and '.join(now.versions)}" if now.versions else "its marker alone"
        return Change(action="replace", before=found, after=self._after, why=why, steps=self._steps())

    def claims(self) -> Claims:
        """The environment, the marker in it, and the folders of the cache, whose files are not backed up and stay."""
        here = {self.prefix, self.marker}
        kept = {posixpath.join(self.cache, name) for name in ("wheels", "sdists")}
        return Claims(paths=frozenset(here | kept if self.present else here))

    # --- what is due ------------------------------------------------------------------------

    @property
    def _after(self) -> str:
        return f"{self.name} {self.version} for torch {self.abi.torch} and Python {self.abi.python}"

    def _due(self, now: WheelState) -> str:
        """Why it must be made again, in a sentence; empty when it must not."""
        if not now.versions:
            return "its files are gone"
        if now.versions != (self.version,):
            return f"wanted is {self.version}"
        if now.unreadable:
            return "what gpuprov wrote down of it cannot be read"
        if now.marker is None:
            return "gpuprov did not put it there, so that it is not known for which torch it was built"
        was, wanted = now.marker.inputs, self.inputs
        other = [f"{name} {was.get(name) or 'unknown'}" for name in wanted if not _serves(name, was, wanted)]
        if other:
            return f"it was made for {', '.join(word[:80] for word in other)}"
        if now.torch and now.torch != self.abi.torch:
            return f"torch there is {now.torch[:40]} by now"
        if now.damage:
            return f"{', '.join(now.damage[:3])} {'is' if len(now.damage) == 1 else 'are'} gone or changed"
        return ""

    def _removal(self, now: WheelState | None) -> Change | None:
        if now is None:
            return None
        if now.marker is None and now.versions:
            raise HostFailed(
                f"{self.name} in {self.prefix} is not what gpuprov put there, and is not removed",
                hint=f"remove it there with pip uninstall {self.name}, if nobody needs it",
            )
        text = "\n".join(map(script, ("job_head", "wheel_env", "wheel_remove")))
        job = Job(
            title=f"remove {self.name} from {self.prefix}",
            script=self._variables() + text,
            own_words=True,
            deadline=600.0,
            locks=frozenset({env_lock(self.prefix)}),
        )
        before = f"{self.name} {' and '.join(now.versions) or 'marker'}"
        return Change(action="remove", before=before, after="absent", steps=(job,))

    # --- steps ------------------------------------------------------------------------------

    def _steps(self) -> tuple[Step, ...]:
        obtains = []
        if self.release:
            obtains.append(self._obtain(self.release.name, self._release_path, self.release.urls, self.release.sha256))
        if self.source.urls:
            name = f"the source of {self.name} {self.version}"
            obtains.append(self._obtain(name, self._sdist_path, self.source.urls, self.source.sha256))
        parts = ("job_head", "wheel_env", "wheel_build", "wheel_install", "wheel_make")
        settings = "".join(f"export {name}={quote(value)}; " for name, value in sorted(self.settings.items()))
        job = Job(
            title=f"bring {self.name} {self.version} into {self.prefix}",
            script=f"{self._variables()}gp_settings() {{ {settings}:; }}\n" + "\n".join(map(script, parts)),
            own_words=True,
            deadline=DEADLINE,
            silence=SILENCE,
            # Whoever wants the same wheel for another environment waits, and then finds it in the cache.
            locks=frozenset({env_lock(self.prefix), f"wheel-{self.key[:32]}"}),
        )
        return (*obtains, job)

    def _obtain(self, what: str, path: str, urls: tuple[str, ...], sha256: str) -> Obtain:
        return Obtain(title=f"obtain {what}", key=f"sha256:{sha256}", path=path, sources=urls, sha256=sha256)

    @property
    def _sdist_path(self) -> str:
        return posixpath.join(self.cache, "sdists", self.source.sha256[:16], f"{self._dist}-{self.version}.tar.gz")

    @property
    def _release_path(self) -> str:
        assert self.release is not None
        return posixpath.join(self.cache, "wheels", "release", self.release.sha256[:16], self.release.name)

    @property
    def _dist(self) -> str:
        """The name as wheels and their folders write it (Binary distribution format, escaping)."""
        return re.sub(r"[-_.]+", "_", self.name)

    def _variables(self) -> str:
        abi = self.abi
        words = {
            "gp_prefix": self.prefix,
            "gp_name": self.name,
            "gp_version": self.version,
            "gp_module": self.module,
            "gp_marker": self.marker,
            "gp_tag": abi.python,
            "gp_torch": abi.torch,
            "gp_abi": str(abi.cxx11_abi),
            "gp_cuda": abi.cuda,
            "gp_gcc": abi.gcc,
            "gp_toolkit": normal_path(self.toolkit.place or "/", what="toolkit"),
            "gp_jobs": str(self.jobs),
            "gp_modules": " ".join(self.modules),
            "gp_cache": self.cache,
            "gp_key": self.key,
            "gp_inputs": canonical(self.inputs).decode(),
            "gp_sdist": self._sdist_path,
            "gp_sha256": self.source.sha256,
            "gp_ready": self._release_path if self.release else "",
            "gp_check": self.check,
            "gp_build_known": known_failures("build"),
            "gp_import_known": known_failures("import"),
        }
        return "".join(f"{name}={quote(value)}\n" for name, value in words.items())

    def _look(self, *, deep: bool) -> str:
        words = {"gp_prefix": self.prefix, "gp_dist": self._dist, "gp_marker": self.marker}
        words["gp_deep"] = "yes" if deep else ""
        return "".join(f"{name}={quote(value)}\n" for name, value in words.items()) + script("wheel_look")


def _serves(name: str, was: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    if name != "archs" or name not in was:
        return was.get(name) == wanted[name]
    # Code for more targets than are wanted is no fault; none named are all of them
    return not was[name] or (wanted[name] != "" and set(wanted[name].split()) <= set(was[name].split()))


def env_lock(prefix: str) -> str:
    """Return the name of the lock that runs of pip in an environment hold (see `PipTransaction`)."""
    return f"pip-{digest(prefix)[:16]}"


def jobs_for(*, cores: int | None, memory: int | None, gib_per_job: float = 4.0) -> int:
    """Return how many files may be compiled at the same time, at least 1.

    ``cores`` and ``memory`` (bytes) are what a process may use, of a container its limits (`Cpu.usable`,
    `Memory.usable`); None, not known, counts as one job.

    Raises:
        ValueError: ``gib_per_job`` is no amount.
    """
    if not (gib_per_job > 0 and math.isfinite(gib_per_job)):
        raise ValueError(f"the memory of one job must be a number of GiB above 0, not {gib_per_job}")
    if cores is None or memory is None:
        return 1
    return max(1, min(cores, int(memory / (gib_per_job * 2**30))))


def known_failures(what: Literal["build", "import"]) -> str:
    """Return known failures for `onhost/wheel_env.sh`: a text, a tab and its cause on each line."""
    rows = tables("extension_build")[f"{what}_failure"]
    return "\n".join(f"{text}\t{row['cause']}" for row in rows for text in row["text"])
