"""Claims against what must never be touched, judged on the plan, before the first step. Pure."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpuprov.facts import Facts, Service
from gpuprov.model import Claims, Id, is_below


@dataclass(frozen=True, kw_only=True)
class Protected:
    """Something that no claim may reach.

    Attributes:
        pattern: a path, under which everything is meant too, or a glob of paths (``*`` stays within one name).
        what: what it is, in words.
        instead: the way that is allowed.
        except_below: folders under it that are free.
    """

    pattern: str
    what: str
    instead: str
    except_below: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A claim that the guard will not let pass."""

    id: Id
    claim: str
    protected: Protected

    @property
    def words(self) -> str:
        """What is wrong and what to do instead, without whose claim it is."""
        instead = f" ({self.protected.instead})" if self.protected.instead else ""
        return f"would touch {self.claim}: {self.protected.what}{instead}"

    def __str__(self) -> str:
        return f"{self.id} {self.words}"


_ENV = "install into an environment of its own (role conda_env)"

PATHS: tuple[Protected, ...] = (
    Protected(pattern="/usr/lib/python*", what="the distribution's Python packages", instead=_ENV),
    Protected(pattern="/lib/python*", what="the distribution's Python packages", instead=_ENV),
    Protected(pattern="/usr/local/lib/python*", what="packages of the system's Python", instead=_ENV),
    Protected(pattern="/usr/bin/python*", what="the distribution's Python", instead=_ENV),
    Protected(pattern="/usr/local/bin/python*", what="the image's Python", instead=_ENV),
    Protected(pattern="/usr/bin/pip*", what="the system's pip", instead=_ENV),
    Protected(pattern="/usr/local/bin/pip*", what="the image's pip", instead=_ENV),
    Protected(
        pattern="/usr/local/cuda",
        what="the image's default CUDA",
        instead="install side by side under /usr/local/cuda-X.Y and switch with cuda-use",
    ),
    Protected(
        pattern="/etc/alternatives",
        what="the alternatives that others chose",
        instead="name the wanted program by its own path, as CC and CXX do",
    ),
    Protected(
        pattern="/etc/ld.so.conf",
        what="the linker's search path of every program",
        instead="set LD_LIBRARY_PATH for the program that needs it",
    ),
    Protected(
        pattern="/etc/ld.so.conf.d",
        what="the linker's search path of every program",
        instead="set LD_LIBRARY_PATH for the program that needs it",
    ),
    Protected(pattern="/etc/ld.so.cache", what="the linker's cache", instead="leave it to ldconfig and the packages"),
    Protected(pattern="/etc/ssh", what="the SSH server, the only way in", instead="ask the provider"),
    Protected(pattern="/usr/sbin/sshd", what="the SSH server, the only way in", instead="ask the provider"),
    Protected(pattern="/root/.ssh", what="the keys that let you in", instead="use the provider's console"),
    Protected(pattern="/home/*/.ssh", what="the keys that let you in", instead="use the provider's console"),
    Protected(pattern="/usr/local/nvidia", what="the provider's driver mount", instead="ask the provider"),
    Protected(pattern="/usr/lib/*/libcuda.so*", what="the driver's library", instead="ask the provider"),
    Protected(pattern="/usr/lib/*/libnvidia-*", what="the driver's library", instead="ask the provider"),
    Protected(pattern="/proc", what="the kernel", instead=""),
    Protected(pattern="/sys", what="the kernel", instead=""),
    Protected(pattern="/dev", what="devices", instead=""),
)
"""Paths that are protected on every host; what a host adds is found by `on_host`."""

PATTERNS: tuple[str, ...] = tuple(one.pattern for one in PATHS)
"""Their patterns, which a shell understands too."""

SERVICES = ("ssh*", "jupyter*", "*-jupyter*", "tensorboard*", "supervisor*", "nvidia-*")
"""Patterns of services that are never started, stopped or restarted."""


def on_host(facts: Facts) -> tuple[Protected, ...]:
    """Return what this host adds to `PATHS`: toolkits that are not ours, each conda base."""
    found: list[Protected] = []
    for toolkit in facts.toolkits or ():
        if not toolkit.ours or toolkit.link:
            what = "a link to a CUDA toolkit" if toolkit.link else "a CUDA toolkit that gpuprov did not make"
            found.append(
                Protected(
                    pattern=toolkit.path,
                    what=what,
                    instead="leave it and install another beside it",
                )
            )
    bases = {conda.path for conda in facts.conda or ()}
    found += [_base(path, "conda's base environment") for path in sorted(bases)]
    for service in facts.services or ():
        what = f"what the running {service.kind} is made of"
        for prefix in sorted(_prefixes(service)):
            # A service that runs from conda's base does not run from the environments below it
            if prefix in bases:
                found.append(_base(prefix, what))
            else:
                found.append(Protected(pattern=prefix, what=what, instead="leave it as it is"))
    return tuple(found)


def _base(path: str, what: str) -> Protected:
    return Protected(
        pattern=path,
        what=what,
        instead="make an environment of its own (role conda_env)",
        except_below=(f"{path}/envs", f"{path}/pkgs"),
    )


def _prefixes(service: Service) -> set[str]:
    """Return the folders of the environments that a service runs from; the system's own are in `PATHS`."""
    programs = {word for word in (service.exe, *service.argv[:2]) if word.startswith("/")}
    prefixes = {posixpath.dirname(posixpath.dirname(posixpath.normpath(program))) for program in programs}
    return {prefix for prefix in prefixes if prefix not in ("/", "/usr", "/usr/local")}


def judge(
    claims: Mapping[Id, Claims], protected: Iterable[Protected], apt: Iterable[str], services: Iterable[str] = SERVICES
) -> tuple[Refusal, ...]:
    """Return what is refused, each claim of a node once. ``apt`` and ``services`` are patterns of what is protected."""
    protected, apt, services = tuple(protected), tuple(apt), tuple(services)
    refusals = []
    for id_, claim in claims.items():
        for path in sorted(claim.paths):
            # One thing may be protected for several reasons: the first says enough
            if touched := reached(path, protected):
                refusals.append(Refusal(id=id_, claim=path, protected=touched))
        for package in sorted(claim.apt):
            name = package.partition(":")[0]
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in apt):
                thing = Protected(pattern=name, what="a protected package", instead="leave it to the provider's image")
                refusals.append(Refusal(id=id_, claim=f"package {package}", protected=thing))
        for service in sorted(claim.services):
            if any(fnmatch.fnmatchcase(service, pattern) for pattern in services):
                thing = Protected(pattern=service, what="a protected service", instead="leave it running")
                refusals.append(Refusal(id=id_, claim=f"service {service}", protected=thing))
    return tuple(refusals)


def reached(path: str, protected: Iterable[Protected]) -> Protected | None:
    """Return what would be touched by writing at or under an absolute path; None: nothing."""
    return next((one for one in protected if _reaches(path, one)), None)


def _reaches(path: str, protected: Protected) -> bool:
    """Say whether writing ``path`` touches the protected thing: it, something under it, or a folder that holds it."""
    if any(is_below(path, free) or path == free for free in protected.except_below):
        return False
    pattern = protected.pattern.split("/")
    parts = path.split("/")
    depth = min(len(pattern), len(parts))
    if not all(fnmatch.fnmatchcase(a, b) for a, b in zip(parts[:depth], pattern[:depth], strict=True)):
        return False
    # A folder above a protected thing may be made or have its mode changed by a claim of its own; only what is
    # at or under the thing reaches it.
    return len(parts) >= len(pattern) and posixpath.isabs(path)
