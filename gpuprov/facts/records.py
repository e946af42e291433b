"""The lines of ``onhost/facts.sh``: bytes in, records by group out. Any bytes will do; what is broken is named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

GROUPS = {
    group: frozenset(keys.split()) | {"unseen"}
    for group, keys in {
        "mounts": "mount space",
        "identity": "hostname id home shell clock paths",
        "os": "os-release kernel arch libc boot-id pid1-stat uptime pid1 systemd dmi",
        "container": "hint manager cgroup env",
        "resources": "cpus cpus-online cpu-model meminfo limit",
        "tools": "tool gcc python",
        "toolkits": "toolkit",
        "services": "service",
        "conda": "conda env manifest",
        "protected": "link sum dpkg site dist meta",
        "driver": "module device pci-bus pci ldconfig libcuda smi-path smi-query smi-table open",
    }.items()
}
"""The groups in the script's order, and the keys of each: what is cut out of the middle must not add up by chance."""

Record = tuple[str, ...]
"""A key and its values. Bytes that are no UTF-8 stand as ``\\xNN``, so that unequal text stays unequal."""

_ESCAPES = {"\\\\": "\\", "\\t": "\t", "\\n": "\n"}


def _unescape(text: str) -> str:
    return re.sub(r"\\[\\tn]", lambda m: _ESCAPES[m[0]], text) if "\\" in text else text


def _decode(line: bytes) -> Record:
    # after splitting: the replacement for a broken byte must not read as an escape
    return tuple(
        _unescape(part.decode("latin-1")).encode("latin-1").decode("utf-8", errors="backslashreplace")
        for part in line.split(b"\t")
    )


@dataclass(frozen=True, kw_only=True)
class Group:
    """The records of one group, in the host's order. ``unseen`` holds (what, why) pairs."""

    records: tuple[Record, ...] = ()
    unseen: tuple[tuple[str, str], ...] = ()

    def all(self, key: str, values: int) -> Iterator[Record]:
        """Yield the values of each record with this key and at least so many values, cut to that number."""
        for record in self.records:
            if record[0] == key and len(record) > values:
                yield record[1 : values + 1]

    def one(self, key: str) -> str | None:
        """Return the first value of the first record with this key, or None; an empty value counts as None."""
        return next((record[1] or None for record in self.records if record[0] == key and len(record) > 1), None)


@dataclass(frozen=True, kw_only=True)
class Records:
    """What was read. A group that is not in ``groups`` was not read whole; ``broken`` says why, by group."""

    groups: dict[str, Group] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)


def read(stdout: bytes) -> Records:
    """Split the script's output into groups. A group counts only if its end was seen and nothing of it is missing."""
    groups: dict[str, Group] = {}
    broken: dict[str, str] = {}
    pending: list[Record] = []
    for line in stdout.split(b"\n"):
        if not line:
            continue
        record = _decode(line)
        if record[0] != "done" or len(record) != 3 or record[1] not in GROUPS:
            pending.append(record)
            continue
        name, count = record[1], record[2]
        if name in groups or name in broken:
            groups.pop(name, None)
            broken[name] = "it came twice"
        elif not all(r[0] in GROUPS[name] for r in pending):
            broken[name] = "lines of another one stand in it"
        elif count != str(len(pending)):
            broken[name] = f"{len(pending)} of {count[:10]} lines came through"
        else:
            groups[name] = Group(
                records=tuple(r for r in pending if r[0] != "unseen"),
                unseen=tuple((r[1], r[2]) for r in pending if r[0] == "unseen" and len(r) == 3),
            )
        pending = []
    broken |= {name: "the output ended before it" for name in GROUPS if name not in groups and name not in broken}
    return Records(groups=groups, broken=broken)
