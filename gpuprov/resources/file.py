"""A regular file with given content, mode and owner."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from typing import ClassVar

from gpuprov.errors import Unseen
from gpuprov.model import Change, Id, Probe, Put, Resource, Run, normal_path
from gpuprov.quote import command, quote
from gpuprov.resources import answers, content, inode
from gpuprov.resources.inode import Attributes, Inode
from gpuprov.secret import Secret

_SHA256 = re.compile(rb"[0-9a-f]{64}")

# Reads what a diff needs and nothing more; a file that cannot be read has no diff, which is no failure.
_READ = """f={path}
if [ -f "$f" ] && [ ! -L "$f" ] && [ -r "$f" ]; then head -c {limit} <"$f" | base64; fi 2>/dev/null || :
"""


@dataclass(frozen=True, kw_only=True)
class FileState:
    """What stands at the path.

    Attributes:
        sha256: of a regular file, in lower-case hex; empty for anything else and when it was not asked for.
        content: what a diff is made from; None when it is large, secret, unreadable or not a regular file.
    """

    inode: Inode
    sha256: str = ""
    content: bytes | None = None


@dataclass(frozen=True, kw_only=True)
class File(Resource[FileState]):
    """A regular file.

    A link in its place is replaced and never followed; a folder or device there is an error. When only
    mode or owner differ, the content is not written again.

    Attributes:
        content: text is written as UTF-8; a `Secret` is never read back, shown or digested.
        mode: permission bits, such as ``0o640``; by default ``0o644``, and ``0o600`` for a `Secret`.
        owner, group: names or numbers; empty leaves what the file has, or the writer's for a new one.

    Raises:
        ValueError: a field cannot be what it must be.
    """

    kind: ClassVar[str] = "file"

    path: str
    content: str | bytes | Secret = b""
    mode: int | None = None
    owner: str = ""
    group: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", normal_path(self.path))
        if self.path == "/":
            raise ValueError("path must name a file, not the root folder")
        if isinstance(self.content, str):
            try:
                object.__setattr__(self, "content", self.content.encode())
            except UnicodeEncodeError as e:
                raise ValueError(f"content of {self.path} cannot be written as UTF-8: {e.reason}") from None
        elif not isinstance(self.content, bytes | Secret):
            raise ValueError(f"content must be text, bytes or a secret, not {type(self.content).__name__}")
        if self.mode is None:
            # Filled in here: a file that names the usual mode and one that leaves it out are the same
            object.__setattr__(self, "mode", 0o600 if isinstance(self.content, Secret) else 0o644)
        _ = self.attributes

    @property
    def id(self) -> Id:
        """``file:/path``."""
        return Id(f"{self.kind}:{self.path}")

    @property
    def attributes(self) -> Attributes:
        """Its wanted mode and owner."""
        assert self.mode is not None
        return Attributes(mode=self.mode, owner=self.owner, group=self.group)

    @property
    def needs_folder(self) -> bool:
        """A new one needs its folder."""
        return self.present

    def probe(self) -> Probe[FileState]:
        """Stat and sha256, and the small text that a diff is made from."""
        if not self.present:
            return Probe(parse=self._parse, asks=(("stat", self.path),))
        asks = (("stat", self.path), ("sha256sum", self.path))
        script = ""
        if self._diffable() is not None:
            script = _READ.format(path=quote(self.path), limit=content.DIFF_LIMIT + 1)
        return Probe(script=script, parse=self._parse, asks=asks)

    def plan(self, now: FileState | None) -> Change | None:
        """Compare content, mode and owner.

        Raises:
            HostFailed: a folder, device or the like stands at the path.
        """
        if now and not (now.inode.is_file or now.inode.is_link):
            raise inode.in_the_way(self.path, now.inode, wanted="a file" if self.present else "no file or link")
        if not self.present:
            return self._removal(now)
        if now is None or now.inode.is_link:
            return Change(
                action="replace" if now else "create",
                before="a symbolic link" if now else "absent",
                after=f"file {self.attributes.wanted()}",
                why=f"{self.path} is a symbolic link and a file is wanted; what it points to is left alone"
                if now
                else "",
                diff=self._diff(None),
                steps=(self._put(),),
            )
        before, after = self.attributes.differences(now.inode)
        if now.sha256 == self._sha256():
            return self._attributes_change(before, after) if after else None
        words = ("secret content", "other secret content")
        if not isinstance(self.content, Secret):
            words = (f"content {now.sha256[:12]}", f"content {self._sha256()[:12]}")
        return Change(
            action="update",
            before=", ".join(filter(None, (words[0], before))),
            after=", ".join(filter(None, (words[1], after))),
            diff=self._diff(now),
            steps=(self._put(),),
        )

    def _removal(self, now: FileState | None) -> Change | None:
        if now is None:
            return None
        step = Run(title=f"remove {self.path}", script=command("rm", "-f", self.path))
        return Change(action="remove", before=now.inode.noun.removeprefix("a "), after="absent", steps=(step,))

    def _attributes_change(self, before: str, after: str) -> Change:
        step = Run(title=f"set mode and owner of {self.path}", script=self.attributes.script(self.path, "-f"))
        return Change(action="update", before=before, after=after, steps=(step,))

    def _put(self) -> Put:
        assert not isinstance(self.content, str)
        return Put(
            title=f"write {self.path}",
            path=self.path,
            content=self.content,
            mode=self.attributes.mode,
            owner=self.owner,
            group=self.group,
        )

    def _bytes(self) -> bytes:
        assert not isinstance(self.content, str)
        return self.content.reveal() if isinstance(self.content, Secret) else self.content

    def _sha256(self) -> str:
        return hashlib.sha256(self._bytes()).hexdigest()

    def _diffable(self) -> str | None:
        """The wanted text, when a diff of it may be shown."""
        if isinstance(self.content, Secret) or len(self._bytes()) > content.DIFF_LIMIT:
            return None
        return content.text_of(self._bytes())

    def _diff(self, now: FileState | None) -> str:
        if isinstance(self.content, Secret):
            return ""
        after = self._diffable()
        if now is None:
            return content.unified(self.path, None, after) if after is not None else ""
        before = content.text_of(now.content) if now.content is not None else None
        if after is not None and before is not None:
            return content.unified(self.path, before, after)
        binary = content.text_of(self._bytes()) is None or (now.content is not None and before is None)
        digests = f"(sha256 {now.sha256}, wanted {self._sha256()})"
        return f"{'binary content' if binary else 'content'} differs {digests}\n"

    def _parse(self, data: bytes) -> FileState | None:
        (stat, *rest), script = answers.split(data, 2 if self.present else 1)
        if stat is None:
            return None
        found = inode.parse(stat)
        if not (self.present and found.is_file):
            return FileState(inode=found)
        digest = rest[0]
        if digest is None or not _SHA256.fullmatch(digest):
            raise Unseen(f"{self.path} is there and its content could not be read")
        return FileState(inode=found, sha256=digest.decode(), content=self._content(script, digest.decode()))

    def _content(self, printed: bytes, sha256: str) -> bytes | None:
        try:
            read = base64.b64decode(b"".join(printed.split()), validate=True)
        except (binascii.Error, ValueError):
            return None
        # A file that changed between the two looks, or is larger than the limit, has no diff.
        return read if hashlib.sha256(read).hexdigest() == sha256 else None
