"""From the output of ``onhost/facts.sh`` to `Facts`. Total: any bytes give facts, and what is missing is named."""

from __future__ import annotations

import re
import shlex

from gpuprov.facts.gpu import read_driver
from gpuprov.facts.host import (
    Boot,
    Conda,
    Container,
    Cpu,
    Env,
    Facts,
    Gcc,
    Memory,
    Mount,
    Os,
    Python,
    Service,
    Toolkit,
    User,
)
from gpuprov.facts.protected import read_protected
from gpuprov.facts.records import Group, read
from gpuprov.facts.services import kind_of
from gpuprov.model import Paths

_NO_LIMIT = 1 << 60
"""Bytes from which on a memory limit is none: cgroup v1 writes the largest page-aligned number it has."""


def parse(stdout: bytes) -> Facts:
    """Read what ``onhost/facts.sh`` printed. Never raises; `Facts.unseen` says what could not be read, and why."""
    records = read(stdout)
    groups = records.groups
    empty = Group()
    identity, system = groups.get("identity", empty), groups.get("os", empty)
    tools, conda = groups.get("tools"), groups.get("conda")
    mounts = _mounts(groups["mounts"]) if "mounts" in groups else None
    driver, gpus, driver_unseen = read_driver(groups.get("driver"))
    services = _services(groups.get("services"))
    state, toolkits, envs, cache = next(identity.all("paths", 4), ("", "", "", ""))
    home = identity.one("home") or ""
    unseen = [f"{name}: {why}" for name, why in records.broken.items()]
    unseen += [f"{what}: {why}" for group in groups.values() for what, why in group.unseen]
    unseen += driver_unseen
    return Facts(
        paths=Paths(
            state=state,
            toolkits=_expand(toolkits, home) or Paths().toolkits,
            envs=_expand(envs, home),
            cache=_expand(cache, home),
        ),
        hostname=identity.one("hostname"),
        user=_user(identity),
        clock=_int(identity.one("clock")),
        os=_os(system),
        arch=system.one("arch"),
        kernel=system.one("kernel"),
        glibc=_first(r"(?i)(?:glibc|libc\)|glibc[^)]*\)) (\d{1,3}\.\d{1,3})", system.one("libc")),
        boot=_boot(system),
        init="systemd" if system.one("systemd") else system.one("pid1"),
        container=_container(groups.get("container"), system),
        virtual=" ".join(value for (value,) in system.all("dmi", 1)) or ("" if "os" in groups else None),
        cpu=_cpu(groups.get("resources", empty)),
        memory=_memory(groups.get("resources", empty), mounts),
        mounts=mounts,
        tools=None if tools is None else dict(_two(tools, "tool")),
        gcc=None if tools is None else tuple(_gcc(*values) for values in _four(tools, "gcc")),
        pythons=None if tools is None else tuple(Python(path=p, real=r or None) for p, r in tools.all("python", 2)),
        driver=driver,
        gpus=gpus,
        toolkits=None if (found := groups.get("toolkits")) is None else tuple(map(_toolkit, found.all("toolkit", 8))),
        conda=None if conda is None else tuple(Conda(path=p, version=v or None) for p, v in conda.all("conda", 2)),
        envs=None if conda is None else _envs(conda),
        services=services,
        protected=read_protected(records, services),
        unseen=tuple(dict.fromkeys(unseen)),
    )


def _int(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"-?[0-9]{1,20}", text) else None


def _first(pattern: str, text: str | None) -> str | None:
    found = re.search(pattern, text or "", re.ASCII)
    return found[1] if found else None


def _expand(path: str, home: str) -> str:
    return home.rstrip("/") + path[1:] if path.startswith("~/") else path


def _two(group: Group, key: str) -> list[tuple[str, str]]:
    return [(a, b) for a, b in group.all(key, 2)]


def _four(group: Group, key: str) -> list[tuple[str, str, str, str]]:
    return [(a, b, c, d) for a, b, c, d in group.all(key, 4)]


def _user(group: Group) -> User:
    found = re.match(r"uid=([0-9]{1,10})(?:\(([^)]*)\))?", group.one("id") or "")
    return User(
        name=found[2] if found else None,
        uid=int(found[1]) if found else None,
        home=group.one("home"),
        shell=group.one("shell"),
    )


def _os(group: Group) -> Os:
    values: dict[str, str] = {}
    for (line,) in group.all("os-release", 1):
        key, _, value = line.partition("=")
        try:
            values[key] = " ".join(shlex.split(value))
        except ValueError:
            values[key] = value
    return Os(
        id=values.get("ID"),
        version=values.get("VERSION_ID"),
        codename=values.get("VERSION_CODENAME"),
        name=values.get("PRETTY_NAME"),
        like=tuple(values.get("ID_LIKE", "").split()),
    )


def _boot(group: Group) -> Boot:
    stat = (group.one("pid1-stat") or "").split()
    uptime = _first(r"^([0-9]{1,15}(?:\.[0-9]{1,9})?) ", group.one("uptime"))
    return Boot(
        id=group.one("boot-id"),
        # the 22nd field of stat; here it is counted after the closing bracket of the second
        pid1_start=_int(stat[19]) if len(stat) > 19 else None,
        uptime=float(uptime) if uptime else None,
    )


def _container(group: Group | None, system: Group) -> Container:
    if group is None:
        return Container()
    hints = [value for (value,) in group.all("hint", 1)]
    env = [value for (value,) in group.all("env", 1)]
    managers = [value for (value,) in group.all("manager", 1)]
    cgroups = " ".join(value for (value,) in group.all("cgroup", 1))
    kind = ""
    if "KUBERNETES_SERVICE_HOST" in env or "kubepods" in cgroups:
        kind = "kubernetes"
    elif managers:
        kind = managers[0]
    elif "/.dockerenv" in hints or "/docker" in cgroups:
        kind = "docker"
    elif "/run/.containerenv" in hints or "libpod" in cgroups:
        kind = "podman"
    elif "/dev/lxd/sock" in hints or "/lxc" in cgroups:
        kind = "lxc"
    elif hints:
        kind = "unknown"
    if managers:
        hints.append(f"container={managers[0]}")
    if re.search(r"microsoft|wsl", system.one("kernel") or "", re.IGNORECASE):
        hints.append("wsl kernel")
    return Container(
        kind=kind,
        hints=tuple(dict.fromkeys(hints)),
        env=None if any(what == "environment of PID 1" for what, _ in group.unseen) else tuple(dict.fromkeys(env)),
    )


def _cpu(group: Group) -> Cpu:
    count = _int(group.one("cpus"))
    if count is None and (online := group.one("cpus-online")):
        spans = [re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part) for part in online.split(",")]
        if all(spans):
            count = sum(int(m[2] or m[1]) - int(m[1]) + 1 for m in spans if m)
    limits: list[float] = []
    quotas: dict[str, int] = {}
    for name, folder, value in group.all("limit", 3):
        if name == "cpu.max" and (m := re.fullmatch(r"([0-9]{1,15}) ([0-9]{1,15})", value)) and int(m[2]):
            limits.append(int(m[1]) / int(m[2]))
        elif name == "cpu.cfs_quota_us":
            quotas[folder] = _int(value) or -1
        elif name == "cpu.cfs_period_us" and quotas.get(folder, -1) > 0 and (period := _int(value)) and period > 0:
            limits.append(quotas[folder] / period)
    return Cpu(count=count, limit=min(limits, default=None), model=group.one("cpu-model"))


def _memory(group: Group, mounts: tuple[Mount, ...] | None) -> Memory:
    kib = {name: _int(value) for name, value in group.all("meminfo", 2)}
    limits = [
        limit
        for name, _, value in group.all("limit", 3)
        if name.startswith("memory.") and (limit := _int(value)) is not None and 0 < limit < _NO_LIMIT
    ]

    def size(name: str) -> int | None:
        value = kib.get(name)
        return None if value is None else value * 1024

    return Memory(
        total=size("MemTotal:"),
        available=size("MemAvailable:"),
        swap=size("SwapTotal:"),
        limit=min(limits, default=None),
        shm=next((m.size for m in reversed(mounts or ()) if m.path == "/dev/shm"), None),
    )


def _mounts(group: Group) -> tuple[Mount, ...] | None:
    spaces: dict[str, list[int]] = {}
    for (line,) in group.all("space", 1):
        # free and all blocks, block size, free and all inodes, path; some file systems count no inodes
        if m := re.fullmatch(r"((?:[0-9]{1,20} ){5})(.+)", line, re.DOTALL):
            spaces[m[2]] = [int(n) for n in m[1].split()]
    found = []
    for path, device, kind, options, place in group.all("mount", 5):
        space = spaces.get(path) if place == "local" else None
        counted = space is not None and space[4] > 0
        found.append(
            Mount(
                path=_octal(path),
                device=_octal(device),
                type=kind,
                options=tuple(options.split(",")),
                network=place == "network",
                free=space[0] * space[2] if space else None,
                size=space[1] * space[2] if space else None,
                inodes_free=space[3] if space and counted else None,
                inodes=space[4] if space and counted else None,
            )
        )
    return None if any(what == "mounts" for what, _ in group.unseen) else tuple(found)


def _octal(text: str) -> str:
    """Undo the escapes of ``/proc/mounts``: blank, tab, newline and backslash stand there as three octal digits."""
    return re.sub(r"\\(040|011|012|134)", lambda m: chr(int(m[1], 8)), text)


def _gcc(name: str, path: str, version: str, cxx: str) -> Gcc:
    return Gcc(name=name, path=path, version=_first(r"^(\d[\d.]{0,20})", version), cxx=cxx)


def _toolkit(values: tuple[str, ...]) -> Toolkit:
    path, real, kind, release, nvcc, library, parts, own = values
    told: tuple[tuple[str, str | None], ...] = (
        ("version.txt" if release.startswith("CUDA") else "version.json", _first(r"(\d{1,2}\.\d{1,2})", release)),
        ("libcudart", _first(r"libcudart\.so\.(\d{1,2}\.\d{1,2})", library)),
        ("cuda.h", _header_version(library)),
        ("name", _first(r"/cuda-(\d{1,2}\.\d{1,2})$", real)),
    )
    told_by, version = next(((source, found) for source, found in told if found), ("", None))
    return Toolkit(
        path=path,
        real=real,
        version=version,
        release=release or library,
        told_by=told_by,
        nvcc=nvcc or None,
        compiler="nvcc" in parts,
        headers="headers" in parts,
        link=kind in ("link", "dangling"),
        dangling=kind == "dangling",
        ours=own == "manifest",
    )


def _header_version(line: str) -> str | None:
    number = _first(r"CUDA_VERSION\s+(\d{4,5})\b", line)
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}" if number else None


def _envs(group: Group) -> tuple[Env, ...]:
    ours = {path for (path,) in group.all("manifest", 1)}
    return tuple(
        Env(path=path, kind=kind, python=_first(r"(\d[\w.]{0,20})", version), ours=path in ours)
        for path, kind, version in group.all("env", 3)
    )


def _services(group: Group | None) -> tuple[Service, ...] | None:
    if group is None or any(what == "services" for what, _ in group.unseen):
        return None
    found = []
    for record in group.records:
        if record[0] != "service" or len(record) < 5 or (pid := _int(record[1])) is None:
            continue
        argv = record[4:]
        stat = record[2].split()
        if kind := kind_of(argv):
            start = _int(stat[19]) if len(stat) > 19 else None
            found.append(Service(kind=kind, pid=pid, start=start, exe=record[3], argv=argv))
    return tuple(sorted(found, key=lambda s: (s.kind, s.pid)))
