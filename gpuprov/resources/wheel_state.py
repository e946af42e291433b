"""What an environment has of a compiled wheel: how the look at it (``wheel_look.sh``) and our marker are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from gpuprov.errors import Unseen
from gpuprov.resources.answers import shown

FORMAT = 1
"""The version of the marker's format that is written, and the only one that is read."""

How = Literal["built", "cache", "release wheel"]
Checked = Literal["imported", "pending GPU", "compared with torch on a GPU"]


@dataclass(frozen=True, kw_only=True)
class Marker:
    """What we wrote down of a wheel that we put there.

    Attributes:
        inputs: what it was made for and from, as `gpuprov.resources.wheel.BuiltWheel.inputs`.
        how, checked: where it came from, and how far it was tried.
        files: sha256, size in bytes and mtime in seconds of its shared objects, by their path in the environment.
    """

    name: str
    version: str
    inputs: Mapping[str, str]
    how: How
    checked: Checked
    files: Mapping[str, tuple[str, int, int]]


@dataclass(frozen=True, kw_only=True)
class WheelState:
    """What an environment has of it.

    Attributes:
        versions: those that pip has installed; more than one after an accident.
        torch: version and build of the torch that is there; empty when there is none.
        marker: ours; None when there is none, or none that can be read (``unreadable``).
        damage: the files of the marker that are gone or not as they were.
    """

    versions: tuple[str, ...] = ()
    torch: str = ""
    marker: Marker | None = None
    unreadable: bool = False
    damage: tuple[str, ...] = ()


def parse(data: bytes) -> WheelState | None:
    """Read what ``onhost/wheel_look.sh`` printed. None: it is not there.

    Raises:
        Unseen: it was cut short.
    """
    lines = shown(data).split("\n")
    if "end" not in lines:
        raise Unseen("the look at the environment's packages was cut short")
    versions, seen = [], {}
    torch, cuda, marker, unreadable = "", "", None, False
    for line in lines[: lines.index("end")]:
        word, _, rest = line.partition(" ")
        match word:
            case "dist":
                versions.append(rest.rpartition("-")[2])
            case "torch":
                torch = rest
            case "cuda":
                cuda = rest
            case "file":
                size, _, more = rest.partition(" ")
                mtime, _, more = more.partition(" ")
                sha256, _, path = more.partition(" ")
                seen[path] = (size, mtime, sha256)
            case "marker":
                marker = _marker(rest)
                unreadable = marker is None
    if not versions and marker is None and not unreadable:
        return None
    if torch and "+" not in torch and cuda:
        torch += "+cu" + cuda.replace(".", "")
    damage = tuple(path for path, was in marker.files.items() if not _as_it_was(was, seen.get(path))) if marker else ()
    return WheelState(versions=tuple(versions), torch=torch, marker=marker, unreadable=unreadable, damage=damage)


def _as_it_was(was: tuple[str, int, int], now: tuple[str, str, str] | None) -> bool:
    if now is None:
        return False
    size, mtime, sha256 = now
    if sha256 != "-":
        return (size, sha256) == (str(was[1]), was[0])
    return (size, mtime) == (str(was[1]), str(was[2]))


def _marker(text: str) -> Marker | None:
    try:
        value = json.loads(text, parse_int=lambda digits: int(digits) if len(digits) <= 20 else 0)
        if value["format"] != FORMAT or value["how"] not in get_args(How) or value["checked"] not in get_args(Checked):
            return None
        files = {str(row["path"]): (str(row["sha256"]), int(row["size"]), int(row["mtime"])) for row in value["files"]}
        inputs = {str(name): str(was) for name, was in value["inputs"].items()}
        return Marker(
            name=str(value["name"]),
            version=str(value["version"]),
            inputs=inputs,
            how=value["how"],
            checked=value["checked"],
            files=files,
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
