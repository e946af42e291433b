"""A symbolic link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpuprov.errors import Unseen
from gpuprov.model import Change, Id, Probe, Resource, Run, normal_path
from gpuprov.onhost import script
from gpuprov.quote import command, quote
from gpuprov.resources import answers, inode
from gpuprov.resources.inode import Inode


@dataclass(frozen=True, kw_only=True)
class SymlinkState:
    """What stands at the path; ``target`` is empty unless it is a link."""

    inode: Inode
    target: str = ""


@dataclass(frozen=True, kw_only=True)
class Symlink(Resource[SymlinkState]):
    """A symbolic link, made and replaced atomically, never followed.

    Attributes:
        target: where it points, absolute or relative to its folder; it need not exist.
        force: replace a regular file in its place. Anything else there is an error and stays.

    Raises:
        ValueError: a field cannot be what it must be.
    """

    kind: ClassVar[str] = "symlink"

    path: str
    target: str = ""
    force: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", normal_path(self.path))
        if self.path == "/":
            raise ValueError("path must name a link, not the root folder")
        if self.present and not self.target:
            raise ValueError(f"target of {self.path} is missing")
        if "\0" in self.target or "\n" in self.target:
            raise ValueError(f"target must not hold a NUL or a newline: {self.target!r}")

    @property
    def id(self) -> Id:
        """``symlink:/path``."""
        return Id(f"{self.kind}:{self.path}")

    @property
    def needs_folder(self) -> bool:
        """A new one needs its folder."""
        return self.present

    def probe(self) -> Probe[SymlinkState]:
        """Stat and readlink."""
        return Probe(parse=self._parse, asks=(("stat", self.path), ("readlink", self.path)))

    def plan(self, now: SymlinkState | None) -> Change | None:
        """Compare the target.

        Raises:
            HostFailed: something else stands at the path.
        """
        if now and not now.inode.is_link and not (self.present and self.force and now.inode.is_file):
            raise inode.in_the_way(self.path, now.inode, wanted="a link" if self.present else "no link")
        if not self.present:
            return self._removal(now)
        if now and now.inode.is_link and now.target == self.target:
            return None
        before = "absent" if now is None else f"-> {now.target}" if now.inode.is_link else "a file"
        return Change(
            action="create" if now is None else "update" if now.inode.is_link else "replace",
            before=before,
            after=f"-> {self.target}",
            why="" if now is None or now.inode.is_link else f"{self.path} is a file and force is set",
            steps=(Run(title=f"link {self.path} to {self.target}", script=self._script()),),
        )

    def _removal(self, now: SymlinkState | None) -> Change | None:
        if now is None:
            return None
        path, changed = quote(self.path), command("echo", f"{self.path} is no longer a link")
        guard = f"if [ -e {path} ] && [ ! -L {path} ]; then {changed} >&2; exit 1; fi"
        step = Run(title=f"remove link {self.path}", script=f"{guard}\n{command('rm', '-f', self.path)}")
        return Change(action="remove", before=f"-> {now.target}", after="absent", steps=(step,))

    def _script(self) -> str:
        words = {"gp_path": self.path, "gp_target": self.target, "gp_force": "yes" if self.force else ""}
        return "".join(f"{name}={quote(value)}\n" for name, value in words.items()) + script("symlink")

    def _parse(self, data: bytes) -> SymlinkState | None:
        (stat, target), _ = answers.split(data, 2)
        if stat is None:
            return None
        found = inode.parse(stat)
        if not found.is_link:
            return SymlinkState(inode=found)
        if target is None:
            # A link may point to a file named "-", which the answer cannot be told from "absent".
            raise Unseen(f"{self.path} is a link and where it points could not be read")
        return SymlinkState(inode=found, target=answers.shown(target))
