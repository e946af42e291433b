"""A conda environment with its Python packages, and with the CUDA toolkit that it is built against."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator

from gpuprov.errors import InputError
from gpuprov.facts import Facts
from gpuprov.knowledge import micromamba as micromamba_table
from gpuprov.knowledge.cuda import NotInTable
from gpuprov.model import Resource, normal_path
from gpuprov.quote import quote
from gpuprov.resources import Directory, Template, Templates
from gpuprov.resources.conda_env import CondaEnv, MicromambaSource
from gpuprov.resources.declared_env import new_env_folder
from gpuprov.resources.pip_package import PipPackage
from gpuprov.resources.torch_pins import TorchPins, torch_pins
from gpuprov.role import role
from gpuprov.shipped import shipped

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)(?:\[(?P<extras>[A-Za-z0-9._, -]*)\])?\s*==\s*(?P<version>[^\s;,=*]+)"
)
_CUDA_FOLDER = re.compile(r"cuda-([0-9]{1,2}\.[0-9]{1,2})")


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """One line of ``pip``."""

    name: str
    version: str
    extras: tuple[str, ...] = ()
    hashes: tuple[str, ...] = ()

    @classmethod
    def read(cls, line: str) -> Requirement:
        """Read ``name[extra]==version --hash=sha256:…``.

        Raises:
            ValueError: it is anything else.
        """
        text, *hashes = re.split(r"\s+--hash=", line.strip())
        found = _REQUIREMENT.fullmatch(text.strip())
        try:
            if not found:
                raise InvalidVersion
            Version(found["version"])
        except InvalidVersion:
            raise ValueError(f"a pip package is pinned, as torch==1.13.1 is, not {line!r}") from None
        extras = tuple(filter(None, (extra.strip() for extra in (found["extras"] or "").split(","))))
        return cls(name=found["name"], version=found["version"], extras=extras, hashes=tuple(hashes))


def _env_name(name: str) -> str:
    if not _NAME.fullmatch(name) or name in ("base", "root"):
        raise ValueError(f"an environment's name is letters, digits and _.-, and never base or root: {name!r}")
    return name


def _pinned(line: str) -> str:
    Requirement.read(line)
    return line


EnvName = Annotated[str, AfterValidator(_env_name)]
PipPin = Annotated[str, AfterValidator(_pinned)]

templates = Templates.beside(__file__)


@role
def conda_env(
    host: Facts,
    *,
    name: EnvName | None = None,
    prefix: str | None = None,
    python: str,
    conda: list[str] = [],  # noqa: B006  # a role's defaults are its page, and nobody changes them
    pip: list[PipPin] = [],  # noqa: B006
    index: str | None = None,
    channels: list[str] = [],  # noqa: B006
    cuda: str | None = None,
    micromamba_url: str | None = None,
    micromamba_sha256: str | None = None,
) -> Iterator[Resource[Any]]:
    """Make a conda environment with exactly pinned packages, and activate its CUDA toolkit with it.

    Nothing outside the environment changes: not `base`, not `.condarc`, not the shell's start files.

    Parameters:

    - `name`: the environment's name. It lies in `paths.envs` of the inventory, or else among conda's own environments,
      or in `~/envs` where there is no conda.
    - `prefix`: its absolute path, instead of a name.
    - `python`: `3.10.13`, or `3.10` for the newest of these.
    - `conda`: conda packages, each `name=version` or `name=version=build`.
    - `pip`: Python packages, each `name==version`; `--hash=sha256:…` may follow. For torch the index that has the
      wanted CUDA build is chosen, torchvision and torchaudio are held to it, and numpy stays below 2 where it must.
    - `index`: the URL of a package index, instead of the one that pip is configured for and of torch's own.
    - `channels`: conda channels, instead of those that conda is configured for.
    - `cuda`: the toolkit to compile with: `11.7` as declared by a role before or found on the host, or its path.
    - `micromamba_url`, `micromamba_sha256`: the program to use on a host without conda, instead of the known one.
    """
    path = _prefix(host, name, prefix)
    toolkit, cuda_version = _toolkit(host, cuda) if cuda else ("", None)
    wanted = _requirements(pip)
    pins = torch_pins(
        {name: requirement.version for name, requirement in wanted.items()},
        python=python,
        cuda=cuda_version,
        conda=frozenset(spec.partition("::")[2].partition("=")[0] or spec.partition("=")[0] for spec in conda),
        glibc=host.glibc,
    )
    env = CondaEnv(
        path=path,
        python=python,
        packages=tuple(conda),
        channels=tuple(channels),
        bases=tuple(base.path for base in host.conda or ()),
        micromamba=_micromamba(host, micromamba_url, micromamba_sha256),
        cache=_cache(host),
    )
    yield env
    yield from _packages(env, wanted, pins, index)
    yield from _activation(env, toolkit)


def _prefix(host: Facts, name: str | None, prefix: str | None) -> str:
    if (name is None) == (prefix is None):
        raise InputError("give the environment a name or a prefix, and not both")
    if prefix is not None:
        return normal_path(prefix, what="prefix")
    assert name is not None
    return new_env_folder(host, name)


def _toolkit(host: Facts, cuda: str) -> tuple[str, str | None]:
    """Return the path of a toolkit and its version X.Y; None when that is not known."""
    if cuda.startswith("/"):
        path = normal_path(cuda, what="cuda")
        if ":" in path:
            raise InputError(f"cuda must not hold a colon, which PATH cannot hold either: {path!r}")
        known = [toolkit.version for toolkit in host.toolkits or () if path in (toolkit.path, toolkit.real)]
        named = _CUDA_FOLDER.fullmatch(posixpath.basename(path))
        return path, next(filter(None, known), named[1] if named else None)
    if not re.fullmatch(r"[0-9]{1,2}\.[0-9]{1,2}", cuda):
        raise InputError(f"cuda is a version such as 11.7, or the path of a toolkit, not {cuda!r}")
    # The table of installers that comes with it is for those who want a toolkit.
    from gpuprov.resources.cuda_toolkit import CudaToolkit

    try:
        return host.declared(CudaToolkit, cuda).path, cuda
    except InputError:
        there = [t for t in host.toolkits or () if t.version == cuda and t.compiler and not t.dangling]
        if not there:
            raise
        return min(there, key=lambda toolkit: toolkit.link).path, cuda


def _requirements(pip: list[str]) -> dict[str, Requirement]:
    found: dict[str, Requirement] = {}
    for line in pip:
        requirement = Requirement.read(line)
        normal = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if normal in found:
            raise InputError(f"{normal} is pinned twice among the pip packages")
        found[normal] = requirement
    return found


def _micromamba(host: Facts, url: str | None, sha256: str | None) -> MicromambaSource | None:
    if (url is None) != (sha256 is None):
        raise InputError("micromamba_url and micromamba_sha256 go together: what is run on a host is checked first")
    if url is not None and sha256 is not None:
        return MicromambaSource(urls=(url,), sha256=sha256)
    tools = host.tools or {}
    if host.conda or any(tool in tools for tool in ("micromamba", "mamba", "conda")):
        return None
    try:
        row = micromamba_table.binary(host.arch or "x86_64")
    except NotInTable:
        return None
    return MicromambaSource(urls=(row.url,), sha256=row.sha256)


def _cache(host: Facts) -> str:
    return host.paths.cache or f"{host.paths.state or '/var/lib/gpuprov'}/cache"


def _packages(
    env: CondaEnv, wanted: dict[str, Requirement], pins: TorchPins, index: str | None
) -> Iterator[Resource[Any]]:
    for name, version in pins.versions.items():
        requirement = wanted.get(name, Requirement(name=name, version=version))
        yield PipPackage(
            env=env,
            name=name,
            version=version,
            # One run of pip for all of them: what torch wants of the others is then known when they are chosen.
            index=index,
            extra_index=pins.index if index is None else None,
            hashes=requirement.hashes,
            extras=requirement.extras,
        )


def _activation(env: CondaEnv, toolkit: str) -> Iterator[Resource[Any]]:
    yield Directory(path=f"{env.path}/share/gpuprov", parents=True)
    library = shipped("roles") / "cuda_switch" / "files" / "cuda-switch.sh"
    working = Template(
        path=f"{env.path}/share/gpuprov/activation.sh",
        source=templates("activation.j2"),
        variables={
            "prefix": quote(env.path),
            "toolkit": quote(toolkit),
            "toolkits": quote(posixpath.dirname(toolkit) if toolkit else "/usr/local"),
            "switch": library.read_text(encoding="utf-8"),
            "activation": (Path(__file__).resolve().parent / "files" / "activation.sh").read_text(encoding="utf-8"),
        },
    )
    yield working
    for word in ("activate", "deactivate"):
        folder = f"{env.path}/etc/conda/{word}.d"
        yield Directory(path=folder, parents=True)
        yield Template(
            path=f"{folder}/gpuprov.sh",
            source=templates("hook.j2"),
            variables={"word": word, "library": quote(working.path)},
        )
