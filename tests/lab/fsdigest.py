"""A digest of a host's whole file system, and what differs between two of them."""

import fnmatch
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tests.lab.hosts import Host

# What is no file system of the host's own.
NOT_DISK = ("/proc", "/sys", "/dev")

# What logins, and the protected programs at each start, write by themselves.
VOLATILE = (
    "/run/motd.dynamic*",
    "/run/utmp",
    "/run/sshd.pid",
    "/var/log/lab",
    "/var/log/lastlog",
    "/var/log/wtmp",
    "/var/log/btmp",
    "/tmp/tensorboard_data_server_*",
    "/tmp/.tensorboard-info",
    "/root/.local/share/jupyter/runtime",
)

# Runs inside, from standard input, in isolated mode: it imports nothing of the host's packages,
# writes nothing, and opens files so that their access time stays.
_SCRIPT = r"""
import hashlib, json, os, re, stat, sys
skip, read = re.compile(sys.argv[1]).match, sys.argv[2] == "content"
kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link", stat.S_IFIFO: "fifo",
         stat.S_IFSOCK: "socket", stat.S_IFCHR: "char", stat.S_IFBLK: "block"}
out = sys.stdout
def row(path):
    s = os.lstat(path)
    kind, content = kinds[stat.S_IFMT(s.st_mode)], ""
    if kind == "link":
        content = os.readlink(path)
    elif kind == "file" and read:
        flags = os.O_RDONLY | os.O_NOATIME
        try:
            fd = os.open(path, flags)
        except PermissionError:
            fd = os.open(path, os.O_RDONLY)
        with open(fd, "rb", buffering=0) as f:
            content = hashlib.file_digest(f, "sha256").hexdigest() if s.st_size else ""
    size = s.st_size if kind == "file" else 0
    fields = [path, kind, stat.S_IMODE(s.st_mode), s.st_uid, s.st_gid, size, s.st_mtime_ns, s.st_ctime_ns, content]
    out.write(json.dumps(fields) + "\n")
    return kind
todo = ["/"]
while todo:
    folder = todo.pop()
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, PermissionError):
        continue
    for name in names:
        path = os.path.join(folder, name)
        if not skip(path):
            try:
                if row(path) == "dir":
                    todo.append(path)
            except FileNotFoundError:
                pass
out.write("end\n")
"""


@dataclass(frozen=True)
class Entry:
    """One path: its kind, owner, mode, size and content (SHA-256, or a link's target; of a file maybe not read)."""

    kind: str
    mode: int
    uid: int
    gid: int
    size: int
    content: str
    mtime_ns: int = field(compare=False)
    ctime_ns: int = field(compare=False)


Snapshot = dict[str, Entry]


@dataclass(frozen=True)
class Difference:
    """Paths that came, went or changed; false when there is none."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def outside(self, *allowed: str) -> "Difference":
        """What is neither one of these paths nor below one; glob patterns are understood."""
        beyond = re.compile(_pattern(allowed)).match if allowed else lambda _: None
        return Difference(
            *(tuple(p for p in group if not beyond(p)) for group in (self.added, self.removed, self.changed))
        )


def _pattern(paths: Sequence[str]) -> str:
    """A regular expression for these paths and all below them."""
    each = (fnmatch.translate(path).removesuffix(r"\Z").removesuffix(r"\z") for path in paths)
    return "|".join(f"(?:{one})(?:/.*)?\\Z" for one in each)


def snapshot(host: Host, exclude: Sequence[str] = VOLATILE, *, content: bool = True) -> Snapshot:
    """Read everything but /proc, /sys, /dev and `exclude` (glob patterns, with all below them).

    Without `content` files are not read, which is enough for `written`.
    """
    pattern = _pattern((*NOT_DISK, *exclude)).replace("'", "'\\''")
    done = host.exec(
        f"/usr/bin/python3 -I -S -B - '{pattern}' {'content' if content else 'times'}", stdin=_SCRIPT, timeout=300
    )
    lines = done.stdout.splitlines()
    if not lines or lines[-1] != "end":
        raise RuntimeError(f"{host.name}: the file system could not be read to its end: {done.stderr}")
    rows = (json.loads(line) for line in lines[:-1])
    return {
        path: Entry(kind, mode, uid, gid, size, text, mtime, ctime)
        for path, kind, mode, uid, gid, size, mtime, ctime, text in rows
    }


def digest(shot: Snapshot) -> str:
    """One number for a whole snapshot; times do not count."""
    total = hashlib.sha256()
    for path in sorted(shot):
        e = shot[path]
        total.update(json.dumps([path, e.kind, e.mode, e.uid, e.gid, e.size, e.content]).encode())
    return total.hexdigest()


def diff(before: Snapshot, after: Snapshot) -> Difference:
    """What changed; what was written anew with the same content does not count."""
    return _compared(before, after, lambda a, b: a != b)


def written(before: Snapshot, after: Snapshot) -> Difference:
    """What changed or was written, whether or not it is different now; for folders, what came and went in them.

    The inode's change time tells: no program can set it, so that a file written and given its former time shows. What
    is in files is not compared; one or both of the snapshots may have been taken without it.
    """

    def differs(a: Entry, b: Entry) -> bool:
        if a.kind == b.kind == "file":
            return (replace(a, content=""), a.mtime_ns, a.ctime_ns) != (replace(b, content=""), b.mtime_ns, b.ctime_ns)
        return a != b

    return _compared(before, after, differs)


def _compared(before: Snapshot, after: Snapshot, differs: Callable[[Entry, Entry], bool]) -> Difference:
    return Difference(
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        changed=tuple(sorted(p for p in before.keys() & after.keys() if differs(before[p], after[p]))),
    )
