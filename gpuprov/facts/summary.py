"""What a host is, at a glance: a few labelled lines for people."""

from __future__ import annotations

from collections import Counter

from gpuprov.facts.card import Gpu
from gpuprov.facts.host import Facts

_UNKNOWN = "not known"


def summary(facts: Facts) -> list[tuple[str, str]]:
    """Return (label, value) lines, most telling first. Values are the host's text: escape them when shown."""
    lines = [
        ("system", _system(facts)),
        ("GPU", _gpus(facts)),
        ("driver", _driver(facts)),
        ("toolkits", _toolkits(facts)),
        ("gcc", _gcc(facts)),
        ("conda", _conda(facts)),
        ("cpu, memory", _machine(facts)),
        ("disk", _disk(facts)),
        ("services", _services(facts)),
    ]
    if facts.unseen:
        lines.append(("unseen", "; ".join(facts.unseen)))
    return lines


def _size(size: int | None) -> str:
    if size is None:
        return _UNKNOWN
    if size < 2**30:
        return f"{size / 2**20:.0f} MiB"
    amount = size / 2**30
    return f"{amount:.0f} GiB" if amount >= 9.95 or amount == int(amount) else f"{amount:.1f} GiB"


def _system(facts: Facts) -> str:
    parts = [facts.os.name or facts.os.id or _UNKNOWN, facts.arch or "", f"glibc {facts.glibc}" if facts.glibc else ""]
    if facts.container.kind:
        parts.append(f"container ({facts.container.kind})")
    elif facts.virtual:
        parts.append(facts.virtual)
    if facts.init:
        parts.append(f"init {facts.init}")
    if facts.user.name:
        parts.append(f"as {facts.user.name}")
    return ", ".join(filter(None, parts))


def _gpu(gpu: Gpu) -> str:
    about = []
    if gpu.memory_mib is not None:
        about.append(f"{round(gpu.memory_mib / 1024)} GiB")
    about += filter(None, [gpu.sm, gpu.arch])
    about += ["MIG"] if gpu.mig else []
    about += ["vGPU"] if gpu.vgpu else []
    return gpu.name + (f" ({', '.join(about)})" if about else "")


def _gpus(facts: Facts) -> str:
    if facts.gpus is None:
        return _UNKNOWN
    if not facts.gpus:
        return "none"
    kinds = Counter(map(_gpu, facts.gpus))
    lost = f"; {len(facts.driver.lost)} lost" if facts.driver.lost else ""
    return ", ".join(f"{count} x {kind}" for kind, count in kinds.items()) + lost


def _driver(facts: Facts) -> str:
    driver = facts.driver
    if driver.version == "":
        return "none"
    text = driver.version or _UNKNOWN
    if driver.cuda:
        text += f" (runs CUDA up to {driver.cuda})"
    if driver.flavour == "open":
        text += ", open kernel module"
    if driver.answer not in ("ok", None):
        text += f"; nvidia-smi: {driver.answer}"
    return text


def _toolkits(facts: Facts) -> str:
    if facts.toolkits is None:
        return _UNKNOWN
    links: dict[str, list[str]] = {}
    for toolkit in facts.toolkits:
        if toolkit.link and not toolkit.dangling:
            links.setdefault(toolkit.real, []).append(toolkit.path)
    shown = []
    for toolkit in facts.toolkits:
        if toolkit.dangling:
            shown.append(f"{toolkit.path} -> nowhere")
        elif not toolkit.link or all(other.path != toolkit.real for other in facts.toolkits):
            about = toolkit.real if toolkit.link else toolkit.path
            notes = ["ours"] * toolkit.ours + [f"{link} -> it" for link in links.get(toolkit.real, [])]
            notes += ["no compiler"] * (not toolkit.compiler)
            shown.append(f"{toolkit.version or 'version not known'} ({', '.join([about, *notes])})")
    return ", ".join(dict.fromkeys(shown)) or "none"


def _gcc(facts: Facts) -> str:
    if facts.gcc is None:
        return _UNKNOWN
    shown = [f"{gcc.version or _UNKNOWN} ({gcc.name}{'' if gcc.cxx else ', no g++'})" for gcc in facts.gcc]
    return ", ".join(shown) or "none"


def _conda(facts: Facts) -> str:
    if facts.conda is None or facts.envs is None:
        return _UNKNOWN
    bases = [f"{base.path} ({base.version})" if base.version else base.path for base in facts.conda]
    envs = [f"{env.name} ({env.python})" if env.python else env.name for env in facts.envs]
    return (", ".join(bases) or "none") + (f"; environments: {', '.join(envs)}" if envs else "")


def _machine(facts: Facts) -> str:
    cpu = f"{facts.cpu.usable} cores" if facts.cpu.usable is not None else f"cores {_UNKNOWN}"
    if facts.cpu.limit is not None and facts.cpu.count is not None and facts.cpu.limit < facts.cpu.count:
        cpu += f" of {facts.cpu.count}"
    shm = f", /dev/shm {_size(facts.memory.shm)}" if facts.memory.shm is not None else ""
    return f"{cpu}, {_size(facts.memory.usable)}{shm}"


def _disk(facts: Facts) -> str:
    if facts.mounts is None:
        return _UNKNOWN
    shown: dict[tuple[str, int | None, int | None], str] = {}
    for mount in facts.mounts:
        if mount.size and (mount.type not in ("tmpfs", "squashfs") or mount.path == "/tmp"):
            note = ", noexec" if mount.noexec else ""
            # one device mounted at several places is one disk
            shown.setdefault(
                (mount.device, mount.size, mount.free),
                f"{mount.path} {_size(mount.free)} free of {_size(mount.size)}{note}",
            )
    network = [mount.path for mount in facts.mounts if mount.network]
    return ", ".join([*shown.values(), *(f"{path} (network)" for path in network)]) or _UNKNOWN


def _services(facts: Facts) -> str:
    if facts.services is None:
        return _UNKNOWN
    kinds = Counter(service.kind for service in facts.services)
    return ", ".join(f"{kind} x {n}" if n > 1 else kind for kind, n in kinds.items()) or "none seen"
