"""The stand-in installers: built once, kept in the lab's cache under the digest of what they are made of."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.lab.engine import LabError, cache_folder, command

HERE = Path(__file__).resolve().parent
TABLE = HERE.parents[2] / "gpuprov" / "knowledge" / "cuda.toml"
MAKESELF_HEADER = Path("/usr/share/makeself/makeself-header.sh")
UNUSED_DAYS = 7


@dataclass(frozen=True, kw_only=True)
class Runfile:
    """A stand-in installer on this machine; `url` says where a site serves it, once one does.

    Attributes:
        release, toolkit: such as 12.4.1 and 12.4.
        name, url_path: NVIDIA's file name, and NVIDIA's path to it below the download host.
        variant: empty for the usual small one; else a word that keeps its address apart.
        path: the file here. size: bytes. sha256, md5: lower-case hex, of the stand-in, not of NVIDIA's file.
    """

    release: str
    toolkit: str
    name: str
    url_path: str
    variant: str
    path: Path
    size: int
    sha256: str
    md5: str
    url: str = ""


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def release_row(release: str) -> dict[str, Any]:
    """The table's row of a release (12.4.1), or of a toolkit's newest release whose sum is known (12.4)."""
    rows: list[dict[str, Any]] = _table()["runfile"]
    known = [row for row in rows if release == row["toolkit"] and ("sha256" in row or "md5" in row)]
    found = [row for row in rows if release == row["release"]] or known
    if not found:
        raise LabError(f"cuda.toml has no installer of CUDA {release}")
    return found[-1]


def gcc_ceiling(row: dict[str, Any]) -> int:
    """The highest gcc major that a release accepts."""
    toolkit = next(one for one in _table()["toolkit"] if one["version"] == row["toolkit"])
    first = toolkit.get("gcc_max_first_release") if row["release"] == f"{row['toolkit']}.0" else None
    return int(first or toolkit["gcc_max"])


def small(
    release: str, *, pause: float = 0, needs_libxml2: bool = False, padding_mib: int = 8, gcc_max: int | None = None
) -> Runfile:
    """A small installer of any release in cuda.toml: about 300 files, a second to install, compiles nothing.

    pause: seconds that the installer waits in the middle of copying, for faults to happen in
    needs_libxml2: it does not start on a host without libxml2, as NVIDIA's
    padding_mib: size of the file, nearly
    gcc_max: another ceiling for gcc than the release's
    """
    row = release_row(release)
    facts = _facts(row, pause, needs_libxml2, gcc_max)
    usual = (facts, padding_mib) == (_facts(row, 0, False, None), 8)
    variant = "" if usual else f"small-{hashlib.sha256(f'{facts} {padding_mib}'.encode()).hexdigest()[:8]}"
    scripts = ("small.sh", "furnish.sh", "libcudart.c", "cuda-uninstaller.sh")

    def assemble(tree: Path) -> None:
        command(str(HERE / "small.sh"), str(tree), row["release"], str(padding_mib), timeout=300)

    with _cached(row, variant, [*facts, str(padding_mib)], scripts) as folder:
        return _packed(folder, row, variant, facts, assemble)


def whole_117(*, needs_libxml2: bool = True) -> Runfile:
    """The installer of 11.7.1 whose toolkit compiles: with gcc 11; it refuses gcc 12."""
    row = release_row("11.7.1")
    facts = _facts(row, 0, needs_libxml2, None)
    variant = "whole" if needs_libxml2 else "whole-plain"
    scripts = ("fetch.sh", "wheels.txt", "assemble.sh", "furnish.sh", "nvcc-11.7.sh", "cuda-uninstaller.sh")

    def assemble(tree: Path) -> None:
        inputs = command("env", f"PYTHON={sys.executable}", str(HERE / "fetch.sh"), timeout=1800).strip()
        command(str(HERE / "assemble.sh"), str(tree), inputs, timeout=300)

    with _cached(row, variant, facts, scripts) as folder:
        return _packed(folder, row, variant, facts, assemble)


def _facts(row: dict[str, Any], pause: float, needs_libxml2: bool, gcc_max: int | None) -> list[str]:
    """The arguments of make_runfile.sh behind the two paths."""
    ceiling = gcc_max if gcc_max is not None else gcc_ceiling(row)
    return [row["release"], str(ceiling), row.get("driver", "-"), f"{pause:g}", str(int(needs_libxml2))]


@contextmanager
def _cached(row: dict[str, Any], variant: str, words: list[str], scripts: tuple[str, ...]) -> Iterator[Path]:
    """The folder for what these inputs make, locked against other builders."""
    command(str(HERE / "ensure_tools.sh"), timeout=600)
    inputs = hashlib.sha256(json.dumps([row["name"], words]).encode())
    for script in (*scripts, "cuda-installer.sh", "make_runfile.sh", "makeself_header.py"):
        inputs.update((HERE / script).read_bytes())
    inputs.update(MAKESELF_HEADER.read_bytes())
    top = cache_folder() / "cuda" / "runfiles"
    top.mkdir(parents=True, exist_ok=True)
    folder = top / f"{row['release']}{'-' if variant else ''}{variant}-{inputs.hexdigest()[:16]}"
    with (top / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder.mkdir(exist_ok=True)
        os.utime(folder)
        for other in top.iterdir():
            if other.is_dir() and time.time() - other.stat().st_mtime > UNUSED_DAYS * 86400:
                shutil.rmtree(other, ignore_errors=True)
        yield folder


def _packed(
    folder: Path, row: dict[str, Any], variant: str, facts: list[str], assemble: Callable[[Path], None]
) -> Runfile:
    said = folder / "sums.json"
    path = folder / row["name"]
    if not said.exists():
        with tempfile.TemporaryDirectory(dir=folder) as tree:
            assemble(Path(tree))
            command(str(HERE / "make_runfile.sh"), tree, str(path), *facts, timeout=300)
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
            md5 = hashlib.file_digest(file, "md5").hexdigest()
        fresh = said.with_suffix(".new")
        fresh.write_text(json.dumps({"sha256": sha256, "md5": md5, "size": path.stat().st_size}))
        fresh.rename(said)
    return Runfile(
        release=row["release"],
        toolkit=row["toolkit"],
        name=row["name"],
        url_path=row["path"],
        variant=variant,
        path=path,
        **json.loads(said.read_text()),
    )
