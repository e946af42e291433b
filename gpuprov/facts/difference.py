"""What differs between two looks at hosts: drift, snapshot, and the guard's proof."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gpuprov.facts.host import Facts
from gpuprov.facts.protected import WHOLE, is_unseen


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One thing that is not the same.

    ``kind`` is ``changed``, ``appeared``, ``gone``, or ``unseen``: one of both looks could not see it, so nothing
    is proven either way. ``before`` or ``after`` is empty for what is not there.
    """

    key: str
    kind: Literal["changed", "appeared", "gone", "unseen"]
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        match self.kind:
            case "appeared":
                return f"{self.key}: new: {self.after}"
            case "gone":
                return f"{self.key}: gone; it was {self.before}"
            case "unseen":
                before, after = self.before or "not there", self.after or "not there"
                return f"{self.key}: cannot be compared: {before} before, {after} after"
            case _:
                return f"{self.key}: {self.before} became {self.after}"


def compare_protected(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Difference, ...]:
    """Compare two looks at what must not change, sorted by key.

    What neither look could see is no difference: this user cannot see it, and so did not change it. What only
    one of them could see is, of kind ``unseen``. Where a mapping has holes, a key it lacks counts as unseen.
    """
    found = []
    holes = WHOLE in before, WHOLE in after
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old == new or (old is not None and new is not None and is_unseen(old) and is_unseen(new)):
            continue
        if any(value is not None and is_unseen(value) for value in (old, new)):
            kind: Literal["changed", "appeared", "gone", "unseen"] = "unseen"
        elif old is None:
            kind = "unseen" if holes[0] else "appeared"
        elif new is None:
            kind = "unseen" if holes[1] else "gone"
        else:
            kind = "changed"
        found.append(Difference(key=key, kind=kind, before=old or "", after=new or ""))
    return tuple(found)


def to_json(facts: Facts) -> dict[str, Any]:
    """Return the facts as JSON-ready data: null for what is not known."""
    return {f.name: _plain(getattr(facts, f.name)) for f in dataclasses.fields(facts) if not f.name.startswith("_")}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


_IDENTITY = {
    "mounts": "path",
    "gpus": "index",
    "toolkits": "path",
    "conda": "path",
    "envs": "path",
    "gcc": "name",
    "pythons": "path",
    "pci": "address",
    "libcuda": "path",
    "services": "kind",
}
_PASSING = frozenset({"clock", "name", "groups", "expected_gpu", "paths", "unseen", "protected"})
_PASSING_BELOW = frozenset(
    {"boot.uptime", "memory.available", "mounts.free", "mounts.inodes_free", "services.pid", "services.start"}
)


def compare(a: Facts, b: Facts) -> tuple[Difference, ...]:
    """Compare two hosts, or one host at two times; sorted by key.

    Keys are paths of fields, such as ``driver.version`` or ``toolkits./usr/local/cuda.version``. Left out is
    what passes by itself (clock, uptime, free space, pids) and what the inventory says. What is not
    known on one side only is of kind ``unseen``. `Facts.protected` is compared with it, each key after ``protected.``.
    """
    old, new = _flat(a), _flat(b)
    missing_old, missing_new = _unknown(old), _unknown(new)
    found = []
    for key in old.keys() | new.keys():
        before, after = old.get(key, ""), new.get(key, "")
        if before == after:
            continue
        hidden = before is None or after is None or key.startswith((*missing_old, *missing_new))
        if hidden:
            if key.startswith(missing_old) and key.startswith(missing_new):
                continue
            kind: Literal["changed", "appeared", "gone", "unseen"] = "unseen"
        else:
            kind = "appeared" if before == "" else "gone" if after == "" else "changed"
        known = ["not known" if value is None else value for value in (before, after)]
        found.append(Difference(key=key, kind=kind, before=known[0], after=known[1]))
    found += [
        dataclasses.replace(difference, key=f"protected.{difference.key}")
        for difference in compare_protected(a.protected, b.protected)
    ]
    return tuple(sorted(found, key=lambda difference: difference.key))


def _unknown(flat: Mapping[str, str | None]) -> tuple[str, ...]:
    return tuple(f"{key}." for key, value in flat.items() if value is None)


def _flat(facts: Facts) -> dict[str, str | None]:
    found: dict[str, str | None] = {}

    def walk(key: str, shape: str, value: Any) -> None:
        if shape in _PASSING_BELOW:
            return
        if isinstance(value, dict):
            for name, inner in value.items():
                walk(f"{key}.{name}", f"{shape}.{name}", inner)
        elif isinstance(value, list) and all(isinstance(item, dict) for item in value):
            identity = _IDENTITY.get(shape.rpartition(".")[2], "")
            for number, item in enumerate(value):
                name = str(item.get(identity, number))
                twin = f"{key}.{name}"
                walk(twin if f"{twin}.{identity}" not in found else f"{twin}#{number}", shape, item)
        elif isinstance(value, list):
            found[key] = " ".join(map(str, value))
        else:
            found[key] = None if value is None else "" if value == "" else str(value)

    for name, value in to_json(facts).items():
        if name not in _PASSING:
            walk(name, name, value)
    return found
