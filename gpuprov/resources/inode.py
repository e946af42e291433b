"""What stands at a path: its type, mode and owner, and the script that sets the last two right."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from gpuprov.errors import HostFailed, Unseen
from gpuprov.quote import command, quote
from gpuprov.resources.answers import shown

_STAT = re.compile(
    r"(?P<type>[a-z ]+)\|(?P<mode>[0-7]{1,5})\|(?P<uid>[0-9]{1,10})\|(?P<gid>[0-9]{1,10})"
    r"\|(?P<user>[^|]*)\|(?P<group>[^|]*)\|(?P<size>[0-9]{1,20})(?:\|.*)?"
)
_NAME = re.compile(r"[^\s:/|-][^\s:/|]*")

# Written in decimal by mistake, each of these would be a mode that nobody means (0o1204 and the like).
_DECIMAL_SLIPS = frozenset({440, 444, 500, 550, 555, 600, 640, 644, 660, 664, 700, 750, 755, 770, 775, 777, 1777, 2755})


@dataclass(frozen=True, kw_only=True)
class Inode:
    """What ``stat`` says of a path itself, links not followed. ``type`` is GNU stat's ``%F``, ``size`` in bytes."""

    type: str
    mode: int
    uid: int
    gid: int
    user: str
    group: str
    size: int = 0

    @property
    def is_file(self) -> bool:
        """A regular file, empty or not."""
        return self.type in ("regular file", "regular empty file")

    @property
    def is_folder(self) -> bool:
        """A directory."""
        return self.type == "directory"

    @property
    def is_link(self) -> bool:
        """A symbolic link, wherever it points."""
        return self.type == "symbolic link"

    @property
    def noun(self) -> str:
        """Its type in words, with the article: ``a folder``."""
        return "a file" if self.is_file else "a folder" if self.is_folder else f"a {self.type}"


def parse(answer: bytes) -> Inode:
    """Read the answer of the ask ``stat``.

    Raises:
        Unseen: the answer is none.
    """
    found = _STAT.fullmatch(shown(answer))
    if not found:
        raise Unseen(f"the host's stat answered {shown(answer)[:80]!r}, which says nothing about a file")
    return Inode(
        type=found["type"],
        mode=int(found["mode"], 8),
        uid=int(found["uid"]),
        gid=int(found["gid"]),
        user=found["user"],
        group=found["group"],
        size=int(found["size"]),
    )


def in_the_way(path: str, inode: Inode, *, wanted: str) -> HostFailed:
    """Return the error for a thing of another type that is not ours to remove."""
    return HostFailed(
        f"{path} is {inode.noun}, {wanted} is wanted there, and what is in the way is not removed",
        hint=f"look at {path} on the host and move it away, or choose another path",
    )


@dataclass(frozen=True, kw_only=True)
class Attributes:
    """The wanted mode and owner of a path. An empty owner or group is left as it is.

    Raises:
        ValueError: the mode is no mode, or a name cannot be one of a user or group.
    """

    mode: int
    owner: str = ""
    group: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.mode, bool) or not isinstance(self.mode, int) or not 0 <= self.mode <= 0o7777:
            raise ValueError(f"mode must be a number from 0o0000 to 0o7777, not {self.mode!r}")
        if self.mode in _DECIMAL_SLIPS:
            raise ValueError(f"mode {self.mode} is decimal (it would be {self.mode:#o}); write 0o{self.mode}")
        for what, name in (("owner", self.owner), ("group", self.group)):
            if name and not (_NAME.fullmatch(name) and name.isprintable()):
                raise ValueError(f"{what} must be the name or number of a {what}, not {name!r}")

    def wanted(self) -> str:
        """Describe them: ``0644 root:root``."""
        return f"{self.mode:04o}" + (f" {self._names(self.owner, self.group)}" if self.owner or self.group else "")

    def differences(self, inode: Inode) -> tuple[str, str]:
        """Return before and after in words, both empty when the inode is as wanted."""
        before, after = [], []
        if inode.mode != self.mode:
            before.append(f"{inode.mode:04o}")
            after.append(f"{self.mode:04o}")
        owner_is = self._is(self.owner, inode.user, inode.uid)
        group_is = self._is(self.group, inode.group, inode.gid)
        if not (owner_is and group_is):
            user = inode.user if not self.owner.isdecimal() else str(inode.uid)
            group = inode.group if not self.group.isdecimal() else str(inode.gid)
            before.append(self._names("" if owner_is else user, "" if group_is else group))
            after.append(self._names("" if owner_is else self.owner, "" if group_is else self.group))
        return " ".join(before), " ".join(after)

    def script(self, path: str, test: Literal["-f", "-d"]) -> str:
        """Return sh that sets them on a path which must pass ``test`` and be no link: chmod would follow it."""
        word = quote(path)
        changed = command("echo", f"{path} is no longer what it was when it was looked at")
        lines = [f"if [ -L {word} ] || [ ! {test} {word} ]; then {changed} >&2; exit 1; fi"]
        # Owner first: chown clears the set-id bits.
        if self.owner or self.group:
            lines.append(command("chown", "-h", f"{self.owner}:{self.group}".removesuffix(":"), path))
        # Five digits: GNU chmod keeps a folder's set-id bits unless the mode has more than four.
        lines.append(command("chmod", f"{self.mode:05o}", path))
        return "\n".join(lines)

    @staticmethod
    def _is(wanted: str, name: str, number: int) -> bool:
        return not wanted or (int(wanted) == number if wanted.isdecimal() else wanted == name)

    @staticmethod
    def _names(owner: str, group: str) -> str:
        return f"{owner}:{group}" if group else owner
