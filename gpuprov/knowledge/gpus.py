"""GPU models: from the name that nvidia-smi prints to the architecture that compilers ask for.

Names vary: older drivers leave out "NVIDIA ", resellers and people write "RTX 4090 24GB", and a board of
another memory size is the same chip. Memory is never taken from a name: ask the driver.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from gpuprov.knowledge import table

ForwardCompat = Literal["yes", "no", "listed boards only", "not established"]


@dataclass(frozen=True, kw_only=True)
class GpuRow:
    """One model.

    Attributes:
        name: as nvidia-smi prints it.
        cc: compute capability, such as ``8.9``.
        arch: architecture, such as ``Ada Lovelace``.
        cls: ``datacenter``, ``workstation`` or ``consumer``.
        forward_compat: whether CUDA's forward-compatibility package works on it.
        memory_gib: nominal memory as marketed; None where a name covers several sizes.
        mib_seen: total MiB that nvidia-smi printed in public logs; None where none was seen.
        source: where the row comes from.
        note: a remark, or empty.
        unsure: why the row is not settled, or empty.
    """

    name: str
    cc: str
    arch: str
    cls: Literal["datacenter", "workstation", "consumer"]
    forward_compat: ForwardCompat
    source: tuple[str, ...]
    memory_gib: int | None = None
    mib_seen: int | None = None
    note: str = ""
    unsure: str = ""

    @property
    def sm(self) -> str:
        """The architecture as compilers name it, such as ``sm_89``."""
        return "sm_" + self.cc.replace(".", "")


@cache
def gpus() -> tuple[GpuRow, ...]:
    """Return all models, oldest architecture first."""
    return tuple(
        GpuRow(
            name=row["name"],
            cc=row["cc"],
            arch=row["arch"],
            cls=row["cls"],
            forward_compat=row["forward_compat"],
            source=tuple(row["source"]),
            memory_gib=row.get("memory_gib"),
            mib_seen=row.get("mib_seen"),
            note=row.get("note", ""),
            unsure=row.get("unsure_reason", ""),
        )
        for row in table("gpus")["gpu"]
    )


_MEMORY = re.compile(r"\d+ ?g(i?b)?|\d+ ?mi?b")
_VGPU = re.compile(r"(dx?)?-\d+[abcq]$")  # of the board with more memory: A100D-80C, V100D-32C
# "Quadro" is no such word: without it "RTX 4000" would be the Turing board, and there is an Ada one
_BRANDS = frozenset({"geforce", "tesla", "grid"})


def _words(name: str) -> tuple[str, ...]:
    words = tuple(re.split(r"[\s_-]+", name.strip().lower()))
    return words[1:] if words[:1] == ("nvidia",) else words


def _without_memory(name: str) -> tuple[str, ...]:
    return _words(_MEMORY.sub(" ", " ".join(_words(name))))


def _without_brand(name: str) -> tuple[str, ...]:
    return tuple(word for word in _without_memory(name) if word not in _BRANDS)


def gpu(name: str) -> GpuRow | None:
    """Return the model that a name means, or None when it is not known or could be several.

    Case, blanks, hyphens, a leading "NVIDIA " and a memory size make no difference; a brand ("GeForce") may be
    left out where that leaves one model. A name of a known model with another memory size gives the row of that
    model whose capability it shares.

    >>> gpu("rtx 4090 24GB").cc
    '8.9'
    """
    for spelling in (_words, _without_memory, _without_brand):
        wanted = spelling(name)
        rows = [row for row in gpus() if spelling(row.name) == wanted] if any(wanted) else []
        if rows and len({(row.cc, row.arch, row.cls) for row in rows}) == 1:
            return rows[0]
    return None


def nearest_gpu(name: str) -> GpuRow | None:
    """Return the model whose name is most like this one, for "did you mean"; None when none is like it."""
    for row in family(name):
        return row
    by_name = {" ".join(_without_brand(row.name)): row for row in reversed(gpus())}
    close = difflib.get_close_matches(" ".join(_without_brand(name)), by_name, n=1, cutoff=0.5)
    return by_name[close[0]] if close else None


def family(name: str) -> tuple[GpuRow, ...]:
    """Return the models that a name, a family ("A100") or a vGPU profile ("GRID A100-40C") can stand for.

    They are those whose name begins with its words, brand and memory left out.
    """
    wanted = _without_brand(_VGPU.sub("", name.strip().lower()))
    if not any(wanted):
        return ()
    return tuple(row for row in gpus() if _without_brand(row.name)[: len(wanted)] == wanted)


def compute_capability(name: str) -> str | None:
    """Return the compute capability (``8.0``) if the name settles it: of a model, a family or a vGPU profile."""
    row = gpu(name)
    if row is not None:
        return row.cc
    capabilities = {row.cc for row in family(name)}
    return capabilities.pop() if len(capabilities) == 1 else None


def known(name: str) -> bool:
    """Say whether a name is that of a model, a family or a vGPU profile of the tables."""
    return gpu(name) is not None or bool(family(name))


def is_card(seen: str, promised: str) -> bool:
    """Say whether a card, by the name that the driver tells, may be the one that somebody calls ``promised``.

    A family ("A100") is any of its boards, and so is the name of a data-centre model ("H100") without its board.
    """
    if _without_brand(seen) == _without_brand(promised):
        return True
    wanted, found = gpu(promised), gpu(seen)
    rows = family(promised) if wanted is None or wanted.cls == "datacenter" else (wanted,)
    return bool(set(rows) & set(family(seen) if found is None else (found,)))
