"""Files that a person wrote, as text with positions."""

from __future__ import annotations

import re
import stat
from pathlib import Path

from gpuprov.errors import InputError, Position, Problem

MAX_BYTES = 4 * 1024 * 1024
"""The largest file that is read, in bytes."""
LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
"""What ends a line in YAML."""
_OPENED = re.compile(r"/dev/stdin|(/dev|/proc/self)/fd/[0-9]+")
"""What the shell has open already: standard input, and ``<(command)``."""
FOLDER = "a folder"
_PIPE = "a pipe"
_KINDS = {
    stat.S_IFDIR: FOLDER,
    stat.S_IFIFO: _PIPE,
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def read_text(path: Path) -> str:
    """Read a UTF-8 file that a person wrote.

    Raises:
        InputError: it is no file, cannot be read, is not UTF-8 or is larger than `MAX_BYTES`.
    """
    try:
        kind = kind_of(path)
        # A pipe that somebody left there would be waited for without end; one that the shell opened has a writer.
        if kind and kind != FOLDER and not (kind == _PIPE and _OPENED.fullmatch(str(path))):
            raise OSError(0, f"it is {kind}, not a file")
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"cannot read {str(path)!r}: {reason}") from None
    if len(content) > MAX_BYTES:
        raise InputError(Problem(f"the file is larger than {MAX_BYTES} bytes", Position(str(path), 1, 1)))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8", errors="replace")
        place = position_at(before, len(before), str(path))
        problem = Problem(f"the byte 0x{error.object[error.start]:02x} is not UTF-8", place, "save the file as UTF-8")
        raise InputError(problem) from None


def kind_of(path: Path) -> str:
    """Return in words what stands at a path that is no file; empty for a file. Raises OSError: nothing can be seen."""
    return _KINDS.get(stat.S_IFMT(path.stat().st_mode), "")


def no_key_file(path: Path) -> str:
    """Return why there is no key file at a path; empty where there is a file."""
    try:
        kind = kind_of(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return f"there is no key file {str(path)!r}"
    except OSError as error:
        return f"the key file {str(path)!r} cannot be seen: {error.strerror}"
    return f"the key file {str(path)!r} is {kind}, not a file" if kind else ""


def position_at(text: str, index: int, file: str) -> Position:
    """Return the line and column of a character of ``text``, lines counted as YAML does."""
    line, start = 1, 0
    for found in LINE_BREAK.finditer(text, 0, index):
        line, start = line + 1, found.end()
    return Position(file, line, index - start + 1)
