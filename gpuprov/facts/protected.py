"""What must not change on a host, as one flat mapping: the guard compares it before and after.

Keys say where a thing is, values what it is: ``link:/usr/local/cuda``, ``file:/etc/ld.so.conf``,
``apt:python3:amd64``, ``python:FOLDER:protobuf``, ``conda:/root/miniconda3:openssl``, ``service:jupyter``.
A value ``unseen: reason`` stands for what could not be looked at; the key ``*`` with such a value says that
the mapping has holes.
"""

from __future__ import annotations

import re

from gpuprov.facts.host import Service
from gpuprov.facts.records import Group, Records

WHOLE = "*"
"""The key that is only there when part of the mapping could not be read."""


def unseen(reason: str) -> str:
    """Return the value that stands for what could not be looked at."""
    return f"unseen: {reason}"


def is_unseen(value: str) -> bool:
    """Say whether a value stands for what could not be looked at."""
    return value.startswith("unseen: ")


def read_protected(records: Records, services: tuple[Service, ...] | None) -> dict[str, str]:
    """Build the mapping from the ``protected`` group and the services."""
    found: dict[str, str] = {}
    if services is None:
        found["service"] = unseen("the running processes could not be read")
    for service in services or ():
        key = f"service:{service.kind}"
        value = f"pid {service.pid} since tick {'?' if service.start is None else service.start}"
        found[key] = f"{found[key]}, {value}" if key in found else value
    group = records.groups.get("protected")
    if group is None:
        found[WHOLE] = unseen(records.broken.get("protected", "it was not read"))
        return found
    found |= {f"link:{path}": target for path, target in group.all("link", 2)}
    found |= {f"file:{path}": digest for digest, path in group.all("sum", 2)}
    for (line,) in group.all("dpkg", 1):
        status, name, version, arch = (line.split("|") + [""] * 4)[:4]
        found[f"apt:{name}:{arch}"] = f"{status.strip()} {version}"
    found |= _packages(group)
    for base, name in group.all("meta", 2):
        package = re.fullmatch(r"(.+)-([^-]+-[^-]+)", name)
        key, value = (package[1], package[2]) if package else (name, "there")
        _join(found, f"conda:{base}:{key}", value)
    found |= {(WHOLE if what == "packages" else what): unseen(why) for what, why in group.unseen}
    return found


def _packages(group: Group) -> dict[str, str]:
    found: dict[str, str] = {}
    folder, due, read = "", 0, 0

    def close() -> None:
        if folder and read != due:
            found[f"python:{folder}"] = unseen(f"{read} of {due} packages could be read")

    for record in group.records:
        if record[0] == "site" and len(record) == 3:
            close()
            folder, due, read = record[1], int(record[2]) if re.fullmatch(r"[0-9]{1,6}", record[2]) else -1, 0
        elif record[0] == "dist" and len(record) == 3:
            read += 1
            name, _, version = re.sub(r"(-py\d[\d.]*)?\.(dist|egg)-info$", "", record[2]).partition("-")
            value = record[1] if is_unseen(record[1]) else f"{version or '?'} {record[1]}"
            _join(found, f"python:{folder}:{name.lower()}", value)
    close()
    return found


def _join(found: dict[str, str], key: str, value: str) -> None:
    """Keep both when there are two: an install that went wrong leaves two versions of one package behind."""
    found[key] = ", ".join(sorted({found[key], value})) if key in found else value
