"""The cards of a host and their driver. As in `gpuprov.facts.host`: None is not known, empty is known to be none."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuprov.facts.smi import SmiKind
from gpuprov.knowledge import gpus


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU. ``mig``: it is partitioned, so CUDA sees other devices than this one."""

    index: int | None
    name: str
    uuid: str | None = None
    memory_mib: int | None = None
    compute_cap: str | None = None
    bus_id: str | None = None
    mig: bool | None = None

    @property
    def sm(self) -> str | None:
        """The architecture as compilers name it, such as ``sm_89``."""
        return "sm_" + self.compute_cap.replace(".", "") if self.compute_cap else None

    @property
    def arch(self) -> str | None:
        """The architecture's name, such as ``Ada Lovelace``."""
        row = gpus.gpu(self.name)
        names = {row.arch} if row else {member.arch for member in gpus.family(self.name)}
        return names.pop() if len(names) == 1 else None

    @property
    def vgpu(self) -> bool:
        """Whether it is a slice made by a hypervisor (``GRID A100-40C``), whose driver is the hypervisor's affair."""
        return re.search(r"-\d+[ABCQ]$", self.name) is not None


@dataclass(frozen=True, kw_only=True)
class Pci:
    """An NVIDIA device on the PCI bus. ``driver``: the kernel driver that owns it, empty for none."""

    address: str
    class_code: str
    device: str
    driver: str = ""

    @property
    def is_gpu(self) -> bool:
        """Whether it is a display or 3D controller (class 03), and not its audio or USB function or a switch."""
        return self.class_code.startswith("0x03")


@dataclass(frozen=True, kw_only=True)
class Libcuda:
    """One ``libcuda.so.1``. ``real``: the file it leads to; ``cached``: ldconfig knows it; ``empty``: a placeholder."""

    path: str
    real: str
    cached: bool
    empty: bool = False

    @property
    def stub(self) -> bool:
        """Whether it is a toolkit's stand-in for linking, with which nothing runs."""
        return "/stubs/" in self.real

    @property
    def version(self) -> str | None:
        """The driver version in the file's name; not that of the loaded driver (forward compatibility)."""
        found = re.search(r"libcuda\.so\.(\d{3}\.\d+(?:\.\d+)?)$", self.real)
        return found[1] if found else None


@dataclass(frozen=True, kw_only=True)
class Driver:
    """The NVIDIA driver, as the kernel and nvidia-smi tell it.

    Attributes:
        version: of the loaded driver; empty: none is installed.
        module: version of the kernel module; empty: not loaded (always so in WSL).
        flavour: ``open`` or ``closed`` kernel module; empty: not loaded.
        cuda: the highest CUDA version it runs, such as ``12.2``; empty: no driver.
        answer: what came of asking nvidia-smi.
        message: what it printed instead of an answer, shortened.
        smi: path of nvidia-smi; empty: not found.
        lost: bus ids, or what stood there instead, of GPUs that no longer answer.
        devices: the ``/dev/nvidia*`` nodes.
        open_error: what opening ``/dev/nvidiactl`` said; only tried when nvidia-smi failed.
        pci: NVIDIA's devices on the PCI bus; a container may see those of its host.
        libcuda: every ``libcuda.so.1`` found.
    """

    version: str | None = None
    module: str | None = None
    flavour: str | None = None
    cuda: str | None = None
    answer: SmiKind | None = None
    message: str = ""
    smi: str | None = None
    lost: tuple[str, ...] = ()
    devices: tuple[str, ...] | None = None
    open_error: str = ""
    pci: tuple[Pci, ...] | None = None
    libcuda: tuple[Libcuda, ...] | None = None
