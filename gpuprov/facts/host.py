"""The values that describe a host.

Throughout: **None means not known** (then `Facts.unseen` says why), and an **empty value means known not to be
there**: ``driver.version == ""`` is a host without a driver, ``driver.version is None`` one that could not tell.
All text is the host's: untrusted, decoded leniently, to be escaped by whoever shows it.
"""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gpuprov.errors import InputError
from gpuprov.facts.card import Driver, Gpu
from gpuprov.model import Id, Paths, Resource, is_below

R = TypeVar("R", bound=Resource[Any])


@dataclass(frozen=True, kw_only=True)
class Os:
    """The distribution. ``id`` such as ``debian``, ``version`` ``12``, ``codename`` ``bookworm``, ``name`` for people.

    ``like`` holds the ids it takes after (``ID_LIKE``).
    """

    id: str | None = None
    version: str | None = None
    codename: str | None = None
    name: str | None = None
    like: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Boot:
    """Which boot this is: both must be equal, since containers keep the kernel's ``id`` through a restart.

    ``pid1_start`` is in clock ticks after the kernel's start, ``uptime`` in seconds.
    """

    id: str | None = None
    pid1_start: int | None = None
    uptime: float | None = None


@dataclass(frozen=True, kw_only=True)
class User:
    """Whom we are on the host. ``shell`` is the login shell."""

    name: str | None = None
    uid: int | None = None
    home: str | None = None
    shell: str | None = None


@dataclass(frozen=True, kw_only=True)
class Container:
    """``kind`` is ``docker``, ``podman``, ``kubernetes``, ``lxc``, another manager's name, ``unknown``, or empty: none.

    ``hints`` are what that was told from; ``env`` the names (never values) of PID 1's environment, None when
    this user may not read them.
    """

    kind: str | None = None
    hints: tuple[str, ...] = ()
    env: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Cpu:
    """``count`` is what a process may run on; ``limit`` the cores a cgroup grants, None where no limit was seen."""

    count: int | None = None
    limit: float | None = None
    model: str | None = None

    @property
    def usable(self) -> int | None:
        """How many things are worth doing at once: the smaller of both, at least 1."""
        known = [n for n in (self.count, self.limit) if n is not None]
        return max(1, int(min(known))) if known else None


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes. ``limit`` is a cgroup's, None where no limit was seen; ``shm`` the size of ``/dev/shm``."""

    total: int | None = None
    available: int | None = None
    swap: int | None = None
    limit: int | None = None
    shm: int | None = None

    @property
    def usable(self) -> int | None:
        """The smaller of total and limit, in bytes."""
        known = [n for n in (self.total, self.limit) if n is not None]
        return min(known) if known else None


@dataclass(frozen=True, kw_only=True)
class Mount:
    """One mounted file system. Sizes in bytes; None for network mounts, which are never touched."""

    path: str
    device: str
    type: str
    options: tuple[str, ...] = ()
    network: bool = False
    size: int | None = None
    free: int | None = None
    inodes: int | None = None
    inodes_free: int | None = None

    @property
    def noexec(self) -> bool:
        """Whether programs cannot be run from it."""
        return "noexec" in self.options

    @property
    def readonly(self) -> bool:
        """Whether it is mounted read-only."""
        return "ro" in self.options


@dataclass(frozen=True, kw_only=True)
class Gcc:
    """A host compiler. ``name`` as typed (``gcc-11``); ``cxx`` the path of its C++ counterpart, empty for none."""

    name: str
    path: str
    version: str | None = None
    cxx: str = ""


@dataclass(frozen=True, kw_only=True)
class Python:
    """An interpreter on PATH; ``real`` is the path without links, None for a link to nowhere."""

    path: str
    real: str | None = None


@dataclass(frozen=True, kw_only=True)
class Toolkit:
    """A CUDA toolkit folder, or a link to one.

    Attributes:
        path, real: as found, and without links.
        version: ``X.Y``; None when nothing in it tells.
        release: the text that told; some releases put a build date third, so it is not for comparing.
        told_by: ``version.json``, ``version.txt``, ``libcudart``, ``cuda.h`` or ``name``; empty when nothing did.
        nvcc: exact compiler version, if ``version.json`` has it.
        compiler, headers: whether ``bin/nvcc`` and ``include/cuda_runtime.h`` are there.
        link: ``path`` itself is a link; ``dangling``: it leads nowhere.
        ours: it carries our manifest.
    """

    path: str
    real: str
    version: str | None = None
    release: str = ""
    told_by: str = ""
    nvcc: str | None = None
    compiler: bool = False
    headers: bool = False
    link: bool = False
    dangling: bool = False
    ours: bool = False


@dataclass(frozen=True, kw_only=True)
class Conda:
    """A conda installation, that is, its ``base``. ``version`` is conda's own."""

    path: str
    version: str | None = None


@dataclass(frozen=True, kw_only=True)
class Env:
    """A Python environment. ``kind``: ``conda`` or ``venv``; ``python``: its version; ``ours``: it has our manifest."""

    path: str
    kind: str
    python: str | None = None
    ours: bool = False

    @property
    def name(self) -> str:
        """The last part of its path."""
        return posixpath.basename(self.path)


@dataclass(frozen=True, kw_only=True)
class Service:
    """A running process that the provider or the renter relies on.

    ``start`` is in clock ticks after the kernel's start: with the pid it names the process. ``exe`` is empty when
    this user may not see it. In ``argv`` secrets were withheld on the host.
    """

    kind: str
    pid: int
    start: int | None = None
    exe: str = ""
    argv: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a host is. In templates: ``facts.os.id``, ``facts.driver.version``, ``facts.tools['flock']``.

    Attributes:
        name, groups: the inventory's.
        paths: where gpuprov keeps things there, resolved.
        expected_gpu: the GPU model that the inventory says was rented.
        clock: the host's time, in seconds since the epoch.
        init: ``systemd`` or the name of PID 1.
        virtual: the machine's maker and product as the firmware tells them, such as ``QEMU Standard PC``.
        tools: path of each known command that is there; None when that could not be looked at.
        gpus, toolkits, envs …: empty when there are none, None when that could not be looked at.
        protected: what must not change, as flat text; a value ``unseen: reason`` is an open question.
        unseen: what could not be read, each as ``what: why``.
    """

    name: str = ""
    groups: tuple[str, ...] = ()
    paths: Paths = field(default_factory=Paths)
    expected_gpu: str | None = None

    hostname: str | None = None
    user: User = field(default_factory=User)
    clock: int | None = None
    os: Os = field(default_factory=Os)
    arch: str | None = None
    kernel: str | None = None
    glibc: str | None = None
    boot: Boot = field(default_factory=Boot)
    init: str | None = None
    container: Container = field(default_factory=Container)
    virtual: str | None = None
    cpu: Cpu = field(default_factory=Cpu)
    memory: Memory = field(default_factory=Memory)
    mounts: tuple[Mount, ...] | None = None
    tools: Mapping[str, str] | None = None
    gcc: tuple[Gcc, ...] | None = None
    pythons: tuple[Python, ...] | None = None
    driver: Driver = field(default_factory=Driver)
    gpus: tuple[Gpu, ...] | None = None
    toolkits: tuple[Toolkit, ...] | None = None
    conda: tuple[Conda, ...] | None = None
    envs: tuple[Env, ...] | None = None
    services: tuple[Service, ...] | None = None
    protected: Mapping[str, str] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()

    _declared: Mapping[Id, Resource[Any]] = field(default_factory=dict, compare=False, repr=False)

    def seen_as(
        self,
        *,
        name: str,
        groups: tuple[str, ...] = (),
        paths: Paths | None = None,
        expected_gpu: str | None = None,
        declared: Mapping[Id, Resource[Any]] | None = None,
    ) -> Facts:
        """Return the same host as roles see it: with what the inventory says and what was declared so far.

        ``declared`` is kept, not copied, so that a role sees what was declared while it runs. Without
        ``paths`` those that the host resolved stay.
        """
        return dataclasses.replace(
            self,
            name=name,
            groups=groups,
            paths=self.paths if paths is None else paths,
            expected_gpu=expected_gpu,
            _declared={} if declared is None else declared,
        )

    def declared(self, cls: type[R], name: str | None = None) -> R:
        """Return the resource of a class that a role declared before on this host.

        ``name`` is the part of its id after the colon; it may be left out where there is only one.

        Raises:
            InputError: none was declared, or several and no name says which.
        """
        same = {id_: r for id_, r in self._declared.items() if isinstance(r, cls)}
        found = [r for id_, r in same.items() if name is None or id_.partition(":")[2] == name]
        if len(found) == 1:
            return found[0]
        kind = getattr(cls, "kind", cls.__name__)
        wanted = kind if name is None else f"{kind}:{name}"
        others = ", ".join(sorted(same))
        host = f" on {self.name}" if self.name else ""
        if found:
            raise InputError(f"several {kind} were declared{host}: {others}", hint="name the one that is meant")
        raise InputError(
            f"no role before this one declared {wanted}{host}",
            hint=f"declared are: {others}" if others else f"put a role that declares a {cls.__name__} first",
        )

    def mount_of(self, path: str) -> Mount | None:
        """Return the mount that an absolute path lies on by its spelling; None when not known."""
        holding = [m for m in self.mounts or () if m.path in (path, "/") or is_below(path, m.path)]
        # of mounts at one place the last one covers the others
        return max(enumerate(holding), key=lambda item: (len(item[1].path), item[0]))[1] if holding else None


FACT_FIELDS: frozenset[str] = frozenset(f.name for f in dataclasses.fields(Facts) if not f.name.startswith("_"))
"""The top-level names that templates and conditions may use."""
