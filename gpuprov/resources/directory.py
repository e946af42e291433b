"""A folder with given mode and owner."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import ClassVar

from gpuprov.errors import HostFailed, Unseen
from gpuprov.model import Change, Id, Probe, Resource, Run, normal_path
from gpuprov.quote import command, quote
from gpuprov.resources import answers, inode
from gpuprov.resources.inode import Attributes, Inode

# Globbing is done by the shell itself: no process. Names that begin with two dots are covered by the last pattern.
_LOOK = """d={path}
if [ -d "$d" ] && [ ! -L "$d" ]; then
  for f in "$d"/* "$d"/.[!.]* "$d"/..?*; do
    if [ -e "$f" ] || [ -L "$f" ]; then echo full; exit 0; fi
  done
fi
"""


@dataclass(frozen=True, kw_only=True)
class DirectoryState:
    """What stands at the path. ``full``: it holds something (only looked at when it is to be removed)."""

    inode: Inode
    full: bool = False


@dataclass(frozen=True, kw_only=True)
class Directory(Resource[DirectoryState]):
    """A folder. What is declared below it stands inside it.

    Anything else in its place, a link to a folder included, is an error and stays. With
    ``present=False`` only an empty folder is removed.

    Attributes:
        mode: permission bits, such as ``0o755``.
        owner, group: names or numbers; empty leaves what the folder has, or the writer's for a new one.
        parents: make missing parents as well (mode 0755, the writer's).

    Raises:
        ValueError: a field cannot be what it must be.
    """

    kind: ClassVar[str] = "directory"
    holds: ClassVar[bool] = True

    path: str
    mode: int = 0o755
    owner: str = ""
    group: str = ""
    parents: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", normal_path(self.path))
        if self.path == "/" and not self.present:
            raise ValueError("the root folder cannot be absent")
        _ = self.attributes

    @property
    def id(self) -> Id:
        """``directory:/path``."""
        return Id(f"{self.kind}:{self.path}")

    @property
    def attributes(self) -> Attributes:
        """Its wanted mode and owner."""
        return Attributes(mode=self.mode, owner=self.owner, group=self.group)

    @property
    def needs_folder(self) -> bool:
        """A new one needs its folder, unless missing ones are made as well."""
        return self.present and not self.parents

    def probe(self) -> Probe[DirectoryState]:
        """Stat; and whether it is empty when it is to go."""
        script = "" if self.present else _LOOK.format(path=quote(self.path))
        return Probe(script=script, parse=self._parse, asks=(("stat", self.path),))

    def plan(self, now: DirectoryState | None) -> Change | None:
        """Compare type, mode and owner.

        Raises:
            HostFailed: something else stands at the path, or the folder to be removed is not empty.
        """
        if now and not now.inode.is_folder:
            raise inode.in_the_way(self.path, now.inode, wanted="a folder" if self.present else "no folder")
        if not self.present:
            return self._removal(now)
        if now is None:
            return Change(
                action="create",
                before="absent",
                after=f"folder {self.attributes.wanted()}",
                steps=(Run(title=f"make folder {self.path}", script=self._create()),),
            )
        before, after = self.attributes.differences(now.inode)
        if not after:
            return None
        step = Run(title=f"set mode and owner of {self.path}", script=self.attributes.script(self.path, "-d"))
        return Change(action="update", before=before, after=after, steps=(step,))

    def _removal(self, now: DirectoryState | None) -> Change | None:
        if now is None:
            return None
        if now.full:
            raise HostFailed(
                f"{self.path} is not empty, and only an empty folder is removed",
                hint=f"look at what {self.path} holds on the host; remove it there if nobody needs it",
            )
        script = f"[ ! -e {quote(self.path)} ] || {command('rmdir', self.path)}"
        step = Run(title=f"remove folder {self.path}", script=script)
        return Change(action="remove", before="empty folder", after="absent", steps=(step,))

    def _create(self) -> str:
        path = quote(self.path)
        lines = ["umask 022"]
        if self.parents:
            lines.append(command("mkdir", "-p", posixpath.dirname(self.path)))
        # Made with its mode, so that a private folder is never open for a moment.
        made = command("mkdir", "-m", f"{self.mode:04o}", self.path)
        lines += [f"{{ [ -d {path} ] && [ ! -L {path} ]; }} || {made}", self.attributes.script(self.path, "-d")]
        return "\n".join(lines)

    @staticmethod
    def _parse(data: bytes) -> DirectoryState | None:
        (stat,), script = answers.split(data, 1)
        if stat is None:
            return None
        if script.strip() not in (b"", b"full"):
            raise Unseen("the look into the folder printed something else than it can print")
        return DirectoryState(inode=inode.parse(stat), full=script.strip() == b"full")
