"""What nvidia-smi says: text and exit status in, values out. It lies in many ways; each has a name here.

The text is asked before the status: "No devices were found" was seen with 0 and with 6, and a table may follow
a line about a card that fell off the bus.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

SmiKind = Literal[
    "ok",
    "not-found",  # no such command
    "timed-out",  # it hung
    "driver-not-loaded",  # the kernel module is missing, or another driver owns the cards
    "version-mismatch",  # the libraries were changed under a loaded module
    "nvml-missing",  # nvidia-smi is there, the driver's library is not
    "nvml-unknown",  # a container that lost its devices, or a vGPU without a licence
    "no-devices",  # the driver works, no GPU does or none was granted
    "gpu-lost",  # at least one GPU no longer answers; others may be listed
    "permission",  # may not be run, or may not open the devices
    "bad-field",  # asked an older one for what it does not know
    "in-use",  # a reset was refused
    "unreadable",  # anything else
]

_TEXTS: tuple[tuple[str, SmiKind], ...] = (
    ("driver/library version mismatch", "version-mismatch"),
    ("couldn't communicate with the nvidia driver", "driver-not-loaded"),
    ("initialize nvml: driver not loaded", "driver-not-loaded"),
    ("couldn't find libnvidia-ml", "nvml-missing"),
    ("nvml shared library not found", "nvml-missing"),
    ("initialize nvml: unknown error", "nvml-unknown"),
    ("initialize nvml: insufficient permissions", "permission"),
    ("gpu access blocked by the operating system", "permission"),
    ("unable to determine the device handle", "gpu-lost"),
    ("gpu is lost", "gpu-lost"),
    ("is not a valid field to query", "bad-field"),
    ("could not be reset", "in-use"),
    ("no devices were found", "no-devices"),
    ("permission denied", "permission"),
    ("command not found", "not-found"),
)
# exit statuses as nvidia-smi's manual lists them, with the shell's own
_STATUSES: dict[int, SmiKind] = {
    4: "permission",
    6: "no-devices",
    9: "driver-not-loaded",
    12: "nvml-missing",
    15: "gpu-lost",
    126: "permission",
    127: "not-found",
    124: "timed-out",
    137: "timed-out",
}


def classify(text: str, status: int | None) -> SmiKind:
    """Say what an output of nvidia-smi means, rows aside. ``status`` None: it was ended because it hung."""
    if status is None:
        return "timed-out"
    flat = " ".join(text.lower().split())  # sentences are wrapped at the terminal's width
    for words, kind in _TEXTS:
        if words in flat:
            return kind
    return _STATUSES.get(status, "ok" if status == 0 else "unreadable")


_BUS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]"
_LOST = re.compile(
    rf"unable to determine the device handle for gpu\s*"
    rf"(?:(?P<bus>{_BUS})|(?P<index>\d{{1,3}})\s*:\s*(?P<bus_too>{_BUS})?)?",
    re.IGNORECASE,
)


def lost_gpus(text: str) -> tuple[str, ...]:
    """Return bus ids (or ``GPU N`` where the line has none) of cards that nvidia-smi could not reach.

    >>> lost_gpus("Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error")
    ('0000:34:00.0',)
    """
    found = (
        m["bus"] or m["bus_too"] or (f"GPU {m['index']}" if m["index"] else "GPU")
        for m in _LOST.finditer(" ".join(text.split()))
    )
    return tuple(dict.fromkeys(found))


def number(text: str) -> float | None:
    """Return a figure without its unit; None for ``N/A``, ``[Not Supported]`` and the like."""
    found = re.fullmatch(r"\s*(-?\d{1,15}(?:\.\d+)?)\s*(?:%|MiB|W|MHz|C)?\s*", text, re.ASCII)
    return float(found[1]) if found else None


def rows(text: str, fields: tuple[str, ...]) -> list[dict[str, str]]:
    """Return the rows of a csv answer, by field. Lines with another number of columns, and a header, are left out."""
    found = []
    for line in text.splitlines():
        values = [value.strip() for value in line.split(",")]
        if len(values) == len(fields) and not values[0].startswith(fields[0]) and all(values):
            found.append(dict(zip(fields, values, strict=True)))
    return found


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """A GPU in the table. ``name`` may be cut off; ``mig`` None where the layout has no such column."""

    index: int
    name: str
    bus_id: str
    memory_mib: int | None = None
    mig: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """What plain nvidia-smi shows.

    ``driver`` is the driver's version, not nvidia-smi's own (they differ in WSL); ``cuda`` the highest CUDA it
    runs, None for ``N/A`` and ``ERR!`` (the latter: a stub libcuda is found first, see ``stub``).
    """

    driver: str | None = None
    cuda: str | None = None
    stub: bool = False
    gpus: tuple[TableRow, ...] = ()


_HEADER = re.compile(r"(?:Driver|KMD) Version:\s*([0-9.]+)(?:.*?CUDA (?:\w+ )?Version:\s*([0-9]+\.[0-9]+|ERR!|N/A))?")
_FIRST = re.compile(
    r"\|\s+(\d{1,3})\s+(\S.*?)\s+(?:On|Off|N/A)?\s*\|\s+([0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-9A-F])\s"
)
_USED = re.compile(r"\d+MiB\s*/\s*(\d{1,9})MiB")


def table(text: str) -> Table:
    """Read the table of plain nvidia-smi: both layouts, of drivers before and from 550 on. Rows of MIG are no GPUs."""
    header = _HEADER.search(text)
    found: list[TableRow] = []
    lines = text.splitlines()
    for number_, line in enumerate(lines):
        first = _FIRST.match(line)
        if not first:
            continue
        second, third = [*lines[number_ + 1 : number_ + 3], "", ""][:2]
        used = _USED.search(second)
        mig = re.search(r"\|\s*(Enabled|Disabled|N/A)\s*\|\s*$", third)
        found.append(
            TableRow(
                index=int(first[1]),
                name=first[2],
                bus_id=first[3],
                memory_mib=int(used[1]) if used else None,
                mig=mig[1] == "Enabled" if mig and mig[1] != "N/A" else None,
            )
        )
    cuda = header[2] if header else None
    return Table(
        driver=header[1] if header else None,
        cuda=cuda if cuda and cuda[0].isdigit() else None,
        stub=cuda == "ERR!",
        gpus=tuple(found),
    )


@dataclass(frozen=True, kw_only=True)
class Module:
    """The loaded kernel module. ``flavour`` is ``open`` or ``closed``."""

    version: str
    flavour: Literal["open", "closed"]


def module(text: str) -> Module | None:
    """Read ``/proc/driver/nvidia/version``. Its GCC line is the compiler of the module, not of the host."""
    found = re.search(r"NVRM version:.*?(Open )?Kernel Module(?: for \S+)?\s+(\d{3}\.\d+(?:\.\d+)?)", text, re.ASCII)
    return Module(version=found[2], flavour="open" if found[1] else "closed") if found else None


@dataclass(frozen=True, kw_only=True)
class Xid:
    """An error that the driver wrote to the kernel log. ``bus_id`` as written there, often without the function."""

    code: int
    bus_id: str


def xids(log: str) -> tuple[Xid, ...]:
    """Return the Xid errors of a kernel log, in its order, whatever stands before them on the line."""
    found = re.finditer(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{1,20})\): (\d{1,4})\b", log, re.ASCII)
    return tuple(Xid(code=int(m[2]), bus_id=m[1]) for m in found)
