"""A CUDA toolkit beside others, installed from NVIDIA's .run file without its side effects."""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args
from urllib.parse import urlsplit

from gpuprov.digest import digest
from gpuprov.errors import HostFailed, Unseen
from gpuprov.knowledge import cuda
from gpuprov.model import Action, Change, Claims, Id, Job, Obtain, Probe, Resource, Step, normal_path
from gpuprov.onhost import script
from gpuprov.quote import quote
from gpuprov.resources import manifest
from gpuprov.resources.answers import shown
from gpuprov.resources.driver import DriverCheck

LOG = "/tmp/cuda-installer.log"
"""Where NVIDIA's installer writes its log when it is not root, whatever it is told."""

DEADLINE = 2 * 3600.0
"""Seconds for unpacking and installing: the largest files are 6 GB, and rented disks may be slow."""

_VERSION = re.compile(r"[0-9]{1,2}\.[0-9]{1,2}")
_RELEASE = re.compile(r"[0-9]{1,2}\.[0-9]{1,2}(\.[0-9]{1,4})?")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
# Measured with archives that were cut or had bytes flipped.
_CORRUPT = tuple(
    (f"gzip: stdin: {text}", "truncated or corrupt download") for text in ("unexpected end of file", "crc error")
)
_MADE, _TMP = "/@made@", "/@tmp@"

StateKind = Literal["empty", "dangling", "file", "ours", "other"]


@dataclass(frozen=True, kw_only=True)
class RunfileSource:
    """The file that a toolkit is installed from.

    Attributes:
        name: of the file, as it lies in the cache.
        urls: tried in order.
        sha256, md5: in lower-case hex; one of them is needed.
        size: bytes; 0 when not known.

    Raises:
        ValueError: a field cannot be what it must be.
    """

    name: str
    urls: tuple[str, ...]
    sha256: str = ""
    md5: str = ""
    size: int = 0

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name of the installer must be a plain file name, not {self.name!r}")
        if isinstance(self.urls, str) or not self.urls:
            raise ValueError(f"urls of {self.name} must be a tuple of at least one URL")
        for what, length in (("sha256", 64), ("md5", 32)):
            value = getattr(self, what)
            if value and not re.fullmatch(rf"[0-9a-f]{{{length}}}", value):
                raise ValueError(f"{what} of {self.name} must be {length} lower-case hex digits, not {value!r}")
        if not (self.sha256 or self.md5):
            raise ValueError(f"sha256 or md5 of {self.name} is missing: what is run on a host is checked first")
        if self.size < 0:
            raise ValueError(f"size of {self.name} must be a number of bytes")


@dataclass(frozen=True, kw_only=True)
class CudaToolkitState:
    """What stands at the path.

    Attributes:
        kind: ``ours``: it has a manifest; ``other``: a folder without one; ``empty`` folder; a link that leads nowhere
            (``dangling``); a ``file``.
        link: target, when the path itself is a link.
        look: what its manifest says, and what is damaged, of ``ours``.
        version: ``X.Y`` and release as the folder tells them, of ``other``; empty when it does not.
        compiler, headers, cudart: whether these are there and lead somewhere, of ``other``.
    """

    kind: StateKind
    link: str = ""
    look: manifest.Look | None = None
    version: str = ""
    release: str = ""
    compiler: bool = False
    headers: bool = False
    cudart: bool = False

    @property
    def is_toolkit(self) -> bool:
        """Whether it holds anything of a toolkit."""
        return self.compiler or self.headers or self.cudart

    @property
    def complete(self) -> bool:
        """Whether one can compile with it."""
        return self.compiler and self.headers and self.cudart

    @property
    def lacks(self) -> str:
        """What a complete toolkit has and it has not, in words."""
        parts = {"bin/nvcc": self.compiler, "include/cuda_runtime.h": self.headers, "lib64/libcudart.so": self.cudart}
        return ", ".join(name for name, there in parts.items() if not there)


@dataclass(frozen=True, kw_only=True)
class CudaToolkit(Resource[CudaToolkitState]):
    """A CUDA toolkit in a folder of its own. Nothing else of the host changes: no driver, no link, no linker path.

    A toolkit that somebody else put at the path serves when it is complete and of the version; anything else that is
    not ours is an error and stays. With ``present=False`` only what we made is removed; what others put into it stays.

    Attributes:
        version: ``11.7``; its identity.
        release: ``11.7.1``; None: whatever the source holds.
        path: ``/usr/local/cuda-X.Y`` when left out.
        source: needed unless it is to be absent.
        cache: the folder on the host that the .run file is kept in.
        driver: a check of the driver that must hold first.
        libraries: what the installer itself needs to start.

    Raises:
        ValueError: a field cannot be what it must be.
    """

    kind: ClassVar[str] = "cuda-toolkit"
    holds: ClassVar[bool] = True

    version: str
    release: str | None = None
    path: str = ""
    source: RunfileSource | None = None
    cache: str = "/var/lib/gpuprov/cache"
    driver: DriverCheck | None = None
    libraries: tuple[Resource[Any], ...] = ()

    def __post_init__(self) -> None:
        if not _VERSION.fullmatch(self.version):
            raise ValueError(f"version of a CUDA toolkit is X.Y, such as 11.7, not {self.version!r}")
        if self.release is not None and (
            not _RELEASE.fullmatch(self.release) or not f"{self.release}.".startswith(f"{self.version}.")
        ):
            raise ValueError(f"release must be one of CUDA {self.version}, such as {self.version}.1: {self.release!r}")
        if self.present and self.source is None:
            raise ValueError(f"source of CUDA {self.version} is missing")
        if self.present:
            assert self.source is not None
            wanted = self.release or self.version
            for name in (self.source.name, *(posixpath.basename(urlsplit(url).path) for url in self.source.urls)):
                if not cuda.is_file_of(name, wanted):
                    said = cuda.release_of_file(name)
                    raise ValueError(f"source is {name}, of CUDA {said}, and CUDA {wanted} is wanted")
            # Whether a command line is known for it is told where it is declared, not where it is installed.
            cuda.installer_arguments(self.release or self.version, _MADE, _TMP)
        object.__setattr__(self, "path", normal_path(self.path or f"/usr/local/cuda-{self.version}"))
        object.__setattr__(self, "cache", normal_path(self.cache, what="cache"))
        if posixpath.dirname(self.path) == self.path or self.path.count("/") < 2:
            raise ValueError(f"path must be a folder below another one, not {self.path}")

    @property
    def id(self) -> Id:
        """``cuda-toolkit:X.Y``."""
        return Id(f"{self.kind}:{self.version}")

    @property
    def inputs(self) -> str:
        """Digest of what decides the content: the release, and the file's sum."""
        source = self.source
        return digest({"release": self.release or self.version, "sum": (source.sha256 or source.md5) if source else ""})

    @property
    def run_path(self) -> str:
        """Where the .run file lies on the host."""
        return posixpath.join(self.cache, self.source.name) if self.source else ""

    def probe(self) -> Probe[CudaToolkitState]:
        """What stands at the path; of ours, every file's size and time against the manifest. Deep: every file's sum."""
        return Probe(script=self._look(deep=False), parse=_parse, deep=self._look(deep=True))

    def plan(self, now: CudaToolkitState | None) -> Change | None:
        """Compare.

        Raises:
            HostFailed: something stands at the path that is not ours and does not serve.
        """
        if now is None:
            return self._install("create", "absent") if self.present else None
        if now.kind == "ours" and not now.link:
            return self._plan_ours(now)
        return self._plan_other(now)

    def bears(self, need: Resource[Any], now: CudaToolkitState | None) -> bool:
        """What the installer needs alters nothing of what stands at the path, least of all what others put there."""
        return all(need.id != library.id for library in self.libraries)

    def claims(self) -> Claims:
        """The tree, and the folder of the cache: its files are not backed up, and stay when the installer fails."""
        return Claims(paths=frozenset({self.path, self.cache} if self.present else {self.path}))

    # --- plans ------------------------------------------------------------------------------

    def _plan_ours(self, now: CudaToolkitState) -> Change | None:
        assert now.look is not None
        head = now.look.head
        if head is None:
            raise self._in_the_way("its manifest.json cannot be read, so that it is not known whose it is")
        if head.id != self.id:
            raise self._in_the_way(f"gpuprov made it as {head.id}")
        before = f"CUDA {head.release or self.version}"
        damage = now.look.words()
        if not self.present:
            return self._remove(before)
        if damage:
            return self._install(
                "replace", f"{before}, damaged", f"{now.look.damaged} of its files are not whole: {damage}"
            )
        if head.inputs != self.inputs:
            return self._install("replace", before, "it was made from another release or another file")
        return None

    def _plan_other(self, now: CudaToolkitState) -> Change | None:
        if not self.present:
            if now.kind == "empty" or (now.kind == "other" and not now.is_toolkit):
                return None
            raise HostFailed(
                f"{self.path} is not what gpuprov made, and is not removed",
                hint=f"look at {self.path} on the host, and remove it there if nobody needs it",
            )
        match now.kind:
            case "ours" if now.look and now.look.head and now.look.head.id == self.id and not now.look.damaged:
                return None  # ours, and somebody moved it and left a link
            case "empty" if not now.link:
                return self._install("create", "an empty folder")
            case "other" if now.complete and now.version == self.version:
                return None
            case "other" if now.is_toolkit and now.version not in ("", self.version):
                raise self._in_the_way(f"it holds CUDA {now.version}")
            case "other" if now.complete:
                raise self._in_the_way("it is a CUDA toolkit whose version cannot be told")
            case "other" if now.is_toolkit:
                raise self._in_the_way(f"it is a CUDA toolkit that is not complete: {now.lacks} missing")
            case "dangling":
                raise self._in_the_way(f"it is a link to {now.link}, which is not there")
            case "file":
                raise self._in_the_way("it is no folder")
        raise self._in_the_way(f"it is a link to {now.link}" if now.link else "it holds something else than CUDA")

    def _in_the_way(self, why: str) -> HostFailed:
        return HostFailed(
            f"{self.path} is not replaced: {why}; give CUDA {self.version} another path",
            hint=f"look at {self.path} on the host and move it away, or set `path` to another folder",
        )

    # --- steps ------------------------------------------------------------------------------

    def _install(self, action: Action, before: str, why: str = "") -> Change:
        source = self.source
        assert source is not None
        name = self.release or self.version
        obtain = Obtain(
            title=f"obtain {source.name}",
            key=f"cuda-runfile:{name}",
            path=self.run_path,
            sources=source.urls,
            sha256=source.sha256,
            md5=source.md5,
            size=source.size,
        )
        job = Job(
            title=f"install CUDA {name} to {self.path}",
            script=self._install_script(source),
            own_words=True,
            deadline=DEADLINE,
            locks=frozenset({self.kind}),
        )
        steps: tuple[Step, ...] = (obtain, job)
        return Change(action=action, before=before, after=f"CUDA {name} at {self.path}", why=why, steps=steps)

    def _remove(self, before: str) -> Change:
        parts = ("job_head", "manifest_ours", "manifest_list", "manifest_look", "cuda_stage", "cuda_remove")
        job = Job(
            title=f"remove CUDA {self.version} from {self.path}",
            script=self._variables() + "\n".join(map(script, parts)),
            own_words=True,
            locks=frozenset({self.kind}),
        )
        return Change(action="remove", before=before, after="absent", steps=(job,))

    def _variables(self, **more: str) -> str:
        words = {
            "gp_path": self.path,
            "gp_version": self.version,
            "gp_own": f'"id": {json.dumps(self.id)},',
            "gp_log": LOG,
            **more,
        }
        return "".join(f"{name}={quote(value)}\n" for name, value in words.items())

    def _install_script(self, source: RunfileSource) -> str:
        name = self.release or self.version
        arguments = " ".join(map(quote, cuda.installer_arguments(name, _MADE, _TMP)))
        # What only the host knows is put in by its own shell.
        arguments = arguments.replace(_MADE, '"$gp_made"').replace(_TMP, '"$gp_tmp"')
        variables = self._variables(gp_run=self.run_path, gp_size=str(source.size), gp_known=known_failures())
        head = {"id": self.id, "inputs": self.inputs, "release": name}
        parts = ("job_head", "manifest_ours", "manifest_look", "cuda_stage", "cuda_outside", "cuda_install")
        return (
            variables
            + f'gp_arguments() {{ "$@" {arguments}; }}\n'
            + manifest.writing(head)
            + "\n".join(map(script, parts))
        )

    def _look(self, *, deep: bool) -> str:
        return f"gp_path={quote(self.path)}\n{manifest.looking(deep=deep)}{script('cuda_look')}"


def known_failures() -> str:
    """Return what ``onhost/cuda_install.sh`` knows of failures: a text, a tab and its cause on each line."""
    rows = cuda.tables("cuda")["installer_failure"]
    known = [(text, row["cause"]) for row in rows for text in row["text"]] + list(_CORRUPT)
    # The one that says most first: a damaged archive makes tar fail as well, and every failure to unpack ends alike.
    known.sort(key=lambda row: (not row[0].startswith("gzip: stdin"), -len(row[0])))
    return "\n".join(f"{text}\t{cause}" for text, cause in known)


def _parse(data: bytes) -> CudaToolkitState | None:
    text = shown(data)
    said = dict(line.partition(" ")[::2] for line in text.split("\n") if not line.startswith(("damage ", "extra ")))
    kind, link = said.get("state"), said.get("link", "")
    if kind == "absent":
        return None
    if kind not in get_args(StateKind):
        raise Unseen("the look at the toolkit's folder was cut short")
    if kind == "ours":
        return CudaToolkitState(kind="ours", link=link, look=manifest.parse_look(data))
    release = said.get("version", "")[:40]
    version = _VERSION.match(release)
    return CudaToolkitState(
        kind=kind,  # type: ignore[arg-type]  # it is one of the literals
        link=link,
        version=version[0] if version else "",
        release=release,
        compiler="compiler" in said,
        headers="headers" in said,
        cudart="cudart" in said,
    )
