"""A CUDA toolkit beside others, without touching the driver or the image's default CUDA."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator

from gpuprov.errors import HostFailed, InputError
from gpuprov.facts import Facts
from gpuprov.knowledge import cuda
from gpuprov.model import Resource, normal_path
from gpuprov.resources.apt import AptPackage
from gpuprov.resources.cuda_toolkit import CudaToolkit, RunfileSource
from gpuprov.resources.driver import check_driver
from gpuprov.role import role


def _version(text: str) -> str:
    if not re.fullmatch(r"[0-9]{1,2}\.[0-9]{1,2}(\.[0-9]{1,4})?", text):
        raise ValueError(f"a CUDA version is X.Y or a release X.Y.Z, such as 11.7 or 11.7.1, not {text!r}")
    return text


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https", "file") or not (parts.netloc or parts.scheme == "file"):
        raise ValueError(f"{text!r} is no URL that begins with https://, http:// or file://")
    return text


def _hex(length: int) -> Any:
    def check(text: str) -> str:
        if not re.fullmatch(rf"[0-9a-fA-F]{{{length}}}", text.strip()):
            raise ValueError(f"must be {length} hex digits")
        return text.strip().lower()

    return AfterValidator(check)


Version = Annotated[str, AfterValidator(_version)]
Url = Annotated[str, AfterValidator(_url)]
Urls = Annotated[list[Url], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]
Sha256 = Annotated[str, _hex(64)]
Md5 = Annotated[str, _hex(32)]


@role
def cuda_toolkit(
    host: Facts,
    *,
    version: Version,
    path: str | None = None,
    url: Urls | None = None,
    sha256: Sha256 | None = None,
    md5: Md5 | None = None,
    size: int | None = None,
    mirrors: Urls | None = None,
    require_driver: bool = False,
) -> Iterator[Resource[Any]]:
    """Install a CUDA toolkit side by side from NVIDIA's `.run` file.

    Only the toolkit's own folder is written: the driver, `/usr/local/cuda`, its alternatives and the linker's search
    path stay exactly as they are. A complete toolkit of the same X.Y that is already at the path serves as it is.

    Parameters:

    - `version`: `11.7` (its newest release that has a checksum), or a release such as `11.7.1`.
    - `path`: the toolkit's folder; `cuda-X.Y` where gpuprov puts toolkits when it is left out (`/usr/local` unless the
      inventory says otherwise).
    - `url`: one or more places to fetch the file from, instead of NVIDIA's; needs `sha256` or `md5` unless the file has
      the name that the tables know.
    - `sha256`, `md5`, `size`: of the file, instead of what the tables say.
    - `mirrors`: servers to try before NVIDIA's, which keep its paths: `https://mirror.example/nvidia/`.
    - `require_driver`: fail when the host's driver cannot run programs of this CUDA. Compiling needs no driver.
    """
    if host.arch not in (None, "x86_64"):
        raise HostFailed(
            f"CUDA {version} cannot be installed: this host is {host.arch}, and the files that are known are for x86_64"
        )
    source, release = _source(version, url, sha256, md5, size, mirrors)
    short = ".".join(version.split(".")[:2])
    toolkit = normal_path(path, what="path") if path else posixpath.join(host.paths.toolkits, f"cuda-{short}")
    state = host.paths.state or "/var/lib/gpuprov"
    check = check_driver(host, cuda=short) if require_driver else None
    if check is not None:
        yield check
    # What others put there serves or is refused: no installer runs
    installs = not any(found.path == toolkit and not found.ours for found in host.toolkits or ())
    # The installer is linked with libxml2.so.2, which bare images lack. Where apt is not, it says so itself.
    libraries = (AptPackage(name="libxml2"),) if installs and "apt-get" in (host.tools or {}) else ()
    yield from libraries
    yield CudaToolkit(
        version=short,
        release=release,
        path=toolkit,
        source=source,
        cache=host.paths.cache or posixpath.join(state, "cache"),
        driver=check,
        libraries=libraries,
    )


def _source(
    version: str,
    url: list[str] | None,
    sha256: str | None,
    md5: str | None,
    size: int | None,
    mirrors: list[str] | None,
) -> tuple[RunfileSource, str | None]:
    """Return what to install from, and the release when it is known."""
    if size is not None and size < 0:
        raise InputError("role 'cuda_toolkit', parameter 'size': it must be a number of bytes")
    if url and mirrors:
        raise InputError(
            "role 'cuda_toolkit', parameter 'mirrors': it has no meaning beside url, whose places are tried alone"
        )
    try:
        row = cuda.runfile(version)
    except cuda.NotInTable as error:
        if not url:
            (problem,) = error.problems
            raise InputError(
                f"role 'cuda_toolkit', parameter 'version': {problem.message}",
                hint=f"{problem.hint}; or give url and sha256 of the file",
            ) from error
        row = None
    name = posixpath.basename(urlsplit(url[0]).path) if url else row.name if row else ""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", name):
        raise InputError(f"role 'cuda_toolkit', parameter 'url': its last part must be the file's name, not {name!r}")
    for other in (posixpath.basename(urlsplit(place).path) for place in url or ()):
        if not cuda.is_file_of(other, version):
            raise InputError(
                f"role 'cuda_toolkit', parameter 'url': {other} is the installer of CUDA "
                f"{cuda.release_of_file(other)}, and CUDA {version} is wanted",
                hint="give url and sha256 of that version's file, or leave them out; the shipped playbooks take them "
                "from cuda_url and cuda_sha256",
            )
    if row is not None and row.name != name:
        row = None  # another file: what the tables know is of theirs
    if row is not None and not (sha256 or md5):
        sha256, md5, size = row.sha256, row.md5, row.size if size is None else size
    if not (sha256 or md5):
        raise InputError(
            "role 'cuda_toolkit', parameter 'sha256': it is missing, and the tables know no sum of "
            f"{name}; give sha256 (or md5): what is run on a host is checked first"
        )
    urls = tuple(url) if url else (*(_mirrored(base, row) for base in mirrors or ()), row.url) if row else ()
    release = row.release if row else version if version.count(".") > 1 else None
    return RunfileSource(name=name, urls=urls, sha256=sha256 or "", md5=md5 or "", size=size or 0), release


def _mirrored(base: str, row: cuda.Runfile | None) -> str:
    assert row is not None  # mirrors stand beside no url, and without a url the file is the tables'
    return f"{base.rstrip('/')}/{row.path}"
