"""The controller's own store of artifacts: found by digest, and by name when somebody put a file there by hand."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import posixpath
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

import platformdirs

from gpuprov.model import Obtain

_BLOCK = 1024 * 1024
_INDEX = "index.json"


@dataclass(frozen=True, kw_only=True)
class Digests:
    """What a file is, in lower-case hex, and its bytes."""

    sha256: str
    md5: str
    size: int

    def fit(self, step: Obtain) -> bool:
        """Say whether this is the file that the step wants. Without a digest nothing is."""
        if step.size and step.size != self.size:
            return False
        return self.sha256 == step.sha256 if step.sha256 else bool(step.md5) and self.md5 == step.md5


def digests(stream: IO[bytes], *, copy: IO[bytes] | None = None) -> Digests:
    """Read a stream to its end, block by block, and digest it; write what was read to ``copy``.

    Raises:
        OSError
    """
    sha256, md5, size = hashlib.sha256(), hashlib.md5(usedforsecurity=False), 0
    while block := stream.read(_BLOCK):
        sha256.update(block)
        md5.update(block)
        size += len(block)
        if copy is not None:
            copy.write(block)
    return Digests(sha256=sha256.hexdigest(), md5=md5.hexdigest(), size=size)


def prefix_sha256(path: Path, size: int) -> str:
    """Return the sha256 of the first ``size`` bytes of a file (of all of it when it is shorter).

    Raises:
        OSError
    """
    found = hashlib.sha256()
    with path.open("rb") as stream:
        while size > 0 and (block := stream.read(min(_BLOCK, size))):
            found.update(block)
            size -= len(block)
    return found.hexdigest()


def default_folder() -> Path:
    """Return where artifacts are kept: ``GPUPROV_CACHE``, else ``artifacts`` in the user's cache folder."""
    given = os.environ.get("GPUPROV_CACHE", "")
    return Path(given).expanduser() if given else Path(platformdirs.user_cache_dir("gpuprov")) / "artifacts"


class Cache:
    """Artifacts on the controller.

    ``sha256/ab/abcdef…`` holds what was added; files that somebody put into the folder itself are found by their
    name. Nothing is used before its digest was verified; a file that has not changed since (size, times, inode) is
    not read again. May be used from several threads and processes at once.

    Args:
        folder: made on the first `add`; see `default_folder`.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder if folder is not None else default_folder()
        # One file wanted by ten hosts is read once.
        self._reading = threading.Lock()

    def find(self, step: Obtain, *, say: Callable[[str], None] = lambda line: None) -> Path | None:
        """Return a file with the step's digest, or None. Reads whole files: not for the event loop.

        A file that should be it and is not, or cannot be read, is named by ``say`` and not used.
        """
        with self._reading:
            index = self._index()
            for path in self._candidates(step, index):
                try:
                    found = self._digests(path, index)
                except OSError as error:
                    say(f"{path} cannot be read, and is not used: {error.strerror or error}")
                    continue
                if found.fit(step):
                    return path
                say(f"{path} is not the file that is wanted, and is not used: {_difference(found, step)}")
        return None

    def add(self, path: Path) -> str:
        """Copy a file into the cache, and return its sha256.

        Raises:
            OSError: it cannot be read, or the cache not be written; nothing is left behind then.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self.folder, prefix=".add-")
        try:
            with os.fdopen(handle, "wb") as temp, path.open("rb") as stream:
                found = digests(stream, copy=temp)
                temp.flush()
                os.fsync(temp.fileno())
            place = self._place(found.sha256)
            place.parent.mkdir(parents=True, exist_ok=True)
            Path(name).replace(place)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        with self._reading:
            index = self._index()
            index[str(place)] = {**asdict(found), "stamp": _stamp(place)}
            self._write_index(index)
        return found.sha256

    def _place(self, sha256: str) -> Path:
        return self.folder / "sha256" / sha256[:2] / sha256

    def _candidates(self, step: Obtain, index: dict[str, dict[str, object]]) -> Iterator[Path]:
        """Yield each file that may be it, once: by digest, by what its md5 was, by name."""
        places = [self._place(step.sha256)] if step.sha256 else []
        if step.md5 and not step.sha256:
            places += [Path(path) for path, entry in index.items() if entry.get("md5") == step.md5]
        names = [posixpath.basename(step.path)]
        names += [unquote(posixpath.basename(urlsplit(url).path)) for url in step.sources]
        places += [self.folder / name for name in names if _is_name(name)]
        for path in dict.fromkeys(places):
            if path.is_file():
                yield path

    def _digests(self, path: Path, index: dict[str, dict[str, object]]) -> Digests:
        stamp = _stamp(path)
        entry = index.get(str(path), {})
        sha256, md5, size = entry.get("sha256"), entry.get("md5"), entry.get("size")
        if entry.get("stamp") == stamp and isinstance(sha256, str) and isinstance(md5, str) and isinstance(size, int):
            return Digests(sha256=sha256, md5=md5, size=size)
        with path.open("rb") as stream:
            found = digests(stream)
        # Changed while it was read: what was digested is not what is there.
        if _stamp(path) == stamp:
            index[str(path)] = {**asdict(found), "stamp": stamp}
            with contextlib.suppress(OSError):
                self._write_index(index)
        return found

    def _index(self) -> dict[str, dict[str, object]]:
        """What is known of files from earlier; a lost or broken index costs reading them again."""
        try:
            known = json.loads((self.folder / _INDEX).read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(known, dict):
            return {}
        return {path: entry for path, entry in known.items() if isinstance(entry, dict)}

    def _write_index(self, index: dict[str, dict[str, object]]) -> None:
        kept = {path: entry for path, entry in index.items() if Path(path).exists()}
        handle, name = tempfile.mkstemp(dir=self.folder, prefix=".index-")
        try:
            with os.fdopen(handle, "w") as stream:
                json.dump(kept, stream, indent=1, sort_keys=True)
            Path(name).replace(self.folder / _INDEX)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise


def _stamp(path: Path) -> list[int]:
    seen = path.stat()
    return [seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino]


def _is_name(name: str) -> bool:
    return name not in ("", ".", "..", _INDEX) and "/" not in name and "\0" not in name


def _difference(found: Digests, step: Obtain) -> str:
    if step.size and step.size != found.size:
        return f"it has {found.size} bytes, wanted {step.size}"
    if step.sha256:
        return f"it has sha256 {found.sha256}, wanted {step.sha256}"
    return f"it has md5 {found.md5}, wanted {step.md5}"
