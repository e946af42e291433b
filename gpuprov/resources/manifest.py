"""The manifest of a tree that we made: the mark of completion, the proof that it is ours, and what it should hold.

``manifest.json`` lies in the tree beside ``manifest.files``, a flat listing for quick looks; both are written on the
host (``onhost/manifest_write.sh``) and compared there (``onhost/manifest_look.sh``). Here is how their text is read.
Paths are relative to the tree; bytes of names that are no UTF-8 are surrogate escapes, as in `os.fsdecode`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from gpuprov.errors import Unseen
from gpuprov.onhost import script
from gpuprov.quote import quote
from gpuprov.resources.answers import shown

FORMAT = 1
"""The version of the format that is written, and the only one that is read."""

LISTED = 20
"""How many damaged and how many extra entries a look names; the rest is counted."""

DamageKind = Literal["missing", "truncated", "changed", "mode"]


@dataclass(frozen=True, kw_only=True)
class Head:
    """What a manifest says of its tree.

    Attributes:
        id: of the resource that made it. inputs: digest of what decided its content.
        release: what it is, in a word, such as ``11.7.1``.
        created: seconds since the epoch, by the host's clock.
        listing: sha256 of ``manifest.files``, which names every file's: the digest of the whole tree.
    """

    id: str
    inputs: str
    release: str = ""
    created: int = 0
    listing: str = ""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One file or link. Size in bytes, mtime in whole seconds; a link has only its ``target``."""

    path: str
    size: int = 0
    mtime: int = 0
    mode: int = 0
    sha256: str = ""
    target: str | None = None


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A whole manifest. ``unreadable``: how many of its entries could not be read."""

    head: Head
    entries: tuple[Entry, ...] = ()
    unreadable: int = 0


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a look at a tree found.

    Attributes:
        head: None when there is a manifest that cannot be read: whose tree it is, is then not known.
        damage: kind and path of the first `LISTED` damaged entries. ``mode``: a right to read or run is gone.
        extra: paths of the first `LISTED` entries that the manifest does not know; no damage.
        totals: how many there are of each kind, of ``extra``, and ``unread``: of the right size, with another mtime,
            and too much to read in a quick look.
    """

    head: Head | None
    damage: tuple[tuple[DamageKind, str], ...] = ()
    extra: tuple[str, ...] = ()
    totals: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def damaged(self) -> int:
        """How many entries are damaged."""
        return sum(self.totals.get(kind, 0) for kind in get_args(DamageKind))

    def words(self) -> str:
        """Say what is damaged, with a few examples; empty when nothing is."""
        if not self.damaged:
            return ""
        counts = ", ".join(f"{n} {_WORDS[k]}" for k in get_args(DamageKind) if (n := self.totals.get(k, 0)))
        few = ", ".join(path for _, path in self.damage[:3])
        return f"{counts} ({few}{', …' if self.damaged > 3 else ''})" if few else counts


_WORDS: dict[DamageKind, str] = {
    "missing": "missing",
    "truncated": "cut short",
    "changed": "changed",
    "mode": "no longer readable or executable",
}


def parse(data: bytes) -> Manifest | None:
    """Read a ``manifest.json``; None when it is none of ours. Entries that make no sense are counted, not raised."""
    try:
        # Strict as to JSON, lenient as to bytes
        value = json.loads(data.decode("utf-8", "surrogateescape"), parse_int=_int)
    except (ValueError, RecursionError):
        return None
    head = _head(value)
    if head is None:
        return None
    files = value.get("files")
    raw = files if isinstance(files, list) else []
    entries = tuple(entry for entry in map(_entry, raw) if entry is not None)
    return Manifest(head=head, entries=entries, unreadable=len(raw) - len(entries))


def parse_look(data: bytes) -> Look:
    """Read what ``gp_manifest_look`` printed.

    Raises:
        Unseen: it was cut short.
    """
    lines = shown(data).split("\n")
    if "end" not in lines:
        raise Unseen("the look at a tree's manifest was cut short")
    head: list[str] = []
    damage: list[tuple[DamageKind, str]] = []
    extra: list[str] = []
    totals: Counter[str] = Counter()
    for line in lines[: lines.index("end")]:
        word, _, rest = line.partition(" ")
        kind, _, path = rest.partition(" ")
        match word:
            case "head":
                head.append(rest)
            case "damage" if kind in _WORDS:
                damage.append((kind, unescaped(path)))
            case "extra":
                extra.append(unescaped(rest))
            case "total" if re.fullmatch(r"[0-9]{1,12}", path):
                totals[kind] += int(path)
    return Look(head=_head_of("\n".join(head)), damage=tuple(damage), extra=tuple(extra), totals=dict(totals))


def unescaped(text: str) -> str:
    """Return a path as the scripts write it (inside a JSON string) in its own spelling; as it is when it is none."""
    try:
        value = json.loads(f'"{text}"') if "\\" in text else text
    except ValueError:
        return text
    return value if isinstance(value, str) else text


def writing(head: Mapping[str, str]) -> str:
    """Return sh that defines ``gp_manifest_write`` and sets ``gp_head`` to what it is given of ``id``, ``inputs`` …"""
    lines = "\n".join(f"{json.dumps(key)}: {json.dumps(value)}," for key, value in head.items())
    return f"gp_head={quote(lines)}\n{script('manifest_list')}\n{script('manifest_write')}\n"


def looking(*, deep: bool = False) -> str:
    """Return sh that defines ``gp_manifest_look TREE``; ``deep``: it reads every file."""
    return f"gp_deep={'yes' if deep else ''}\n{script('manifest_list')}\n{script('manifest_look')}\n"


def _int(text: str) -> int:
    return int(text) if len(text) <= 20 else 0


def _head_of(text: str) -> Head | None:
    try:
        return _head(json.loads(text.rstrip().rstrip(",") + "}", parse_int=_int))
    except (ValueError, RecursionError):
        return None


def _head(value: Any) -> Head | None:
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        return None
    texts = {key: value.get(key, "") for key in ("id", "inputs", "release", "listing")}
    created = value.get("created", 0)
    if not all(isinstance(text, str) for text in texts.values()) or not texts["id"]:
        return None
    return Head(created=created if isinstance(created, int) else 0, **texts)


def _entry(value: Any) -> Entry | None:
    if not isinstance(value, dict) or not isinstance(path := value.get("path"), str) or not path:
        return None
    if isinstance(target := value.get("target"), str):
        return Entry(path=path, target=target)
    size, mtime, mode, sha256 = (value.get(key) for key in ("size", "mtime", "mode", "sha256"))
    if not (isinstance(size, int) and isinstance(mtime, int) and isinstance(mode, str) and isinstance(sha256, str)):
        return None
    if not re.fullmatch(r"[0-7]{1,5}", mode) or not re.fullmatch(r"[0-9a-f]{64}", sha256):
        return None
    return Entry(path=path, size=size, mtime=mtime, mode=int(mode, 8), sha256=sha256)
