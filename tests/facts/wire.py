"""Make outputs of the gathering script for tests: groups of records, as the host would print them."""

from __future__ import annotations

from collections.abc import Mapping

from gpuprov.facts.records import GROUPS

Lines = list[tuple[str, ...]]


def escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def output(groups: Mapping[str, Lines], *, leave_out: tuple[str, ...] = ()) -> bytes:
    """All groups, empty unless given."""
    lines: list[str] = []
    for name in GROUPS:
        if name in leave_out:
            continue
        records = groups.get(name, [])
        lines += ["\t".join([record[0], *map(escape, record[1:])]) for record in records]
        lines.append(f"done\t{name}\t{len(records)}")
    return ("\n".join(lines) + "\n").encode("utf-8", errors="surrogateescape")


SMI_FIELDS = "index,name,uuid,memory.total,driver_version,pci.bus_id,compute_cap,mig.mode.current"
PID1 = " S " + " ".join(str(n) for n in range(1, 49))

RENTED: dict[str, Lines] = {
    "mounts": [
        ("mount", "/", "overlay", "overlay", "rw,relatime", "local"),
        ("mount", "/tmp", "tmpfs", "tmpfs", "rw,noexec", "local"),
        ("mount", "/root/autodl-fs", "nas:/x", "nfs4", "rw", "network"),
        ("mount", "/data\\040disk", "/dev/sdb", "ext4", "rw", "local"),
        ("mount", "/dev/shm", "shm", "tmpfs", "rw", "local"),
        ("space", "2621440 7864320 4096 900 1000 /"),
        ("space", "100 100 4096 0 0 /tmp"),
        ("space", "16384 16384 4096 1 1 /dev/shm"),
    ],
    "identity": [
        ("hostname", "autodl-container-1a2b3c4d5e-6f708192"),
        ("id", "uid=0(root) gid=0(root) groups=0(root)"),
        ("home", "/root"),
        ("shell", "/bin/bash"),
        ("clock", "1796000000"),
        ("paths", "/var/lib/gpuprov", "", "~/envs", ""),
    ],
    "os": [
        ("os-release", 'PRETTY_NAME="Ubuntu 22.04.3 LTS"'),
        ("os-release", "ID=ubuntu"),
        ("os-release", "ID_LIKE=debian"),
        ("os-release", 'VERSION_ID="22.04"'),
        ("os-release", "VERSION_CODENAME=jammy"),
        ("kernel", "5.15.0-86-generic"),
        ("arch", "x86_64"),
        ("libc", "glibc 2.35"),
        ("boot-id", "11111111-2222-3333-4444-555555555555"),
        ("pid1-stat", PID1),
        ("uptime", "3600.25 7000.00"),
        ("pid1", "bash"),
        ("dmi", "QEMU"),
        ("dmi", "Standard PC"),
    ],
    "container": [
        ("hint", "/.dockerenv"),
        ("cgroup", "0::/"),
        ("env", "PATH"),
        ("env", "AutoDLContainerUUID"),
    ],
    "resources": [
        ("cpus", "128"),
        ("cpu-model", "AMD EPYC 7543"),
        ("meminfo", "MemTotal:", "528000000"),
        ("meminfo", "MemAvailable:", "400000000"),
        ("meminfo", "SwapTotal:", "0"),
        ("limit", "cpu.max", "/", "1600000 100000"),
        ("limit", "memory.max", "/", "128849018880"),
    ],
    "tools": [
        ("tool", "sh", "/usr/bin/sh"),
        ("tool", "flock", "/usr/bin/flock"),
        ("gcc", "gcc", "/usr/bin/gcc", "11.4.0", "/usr/bin/g++"),
        ("gcc", "gcc-9", "/usr/bin/gcc-9", "9.5.0", ""),
        ("python", "/usr/bin/python3", "/usr/bin/python3.10"),
    ],
    "toolkits": [
        (
            "toolkit",
            "/usr/local/cuda",
            "/usr/local/cuda-12.1",
            "link",
            "12.1.20230222",
            "12.1.66",
            "",
            "nvcc,headers",
            "",
        ),
        (
            "toolkit",
            "/usr/local/cuda-12.1",
            "/usr/local/cuda-12.1",
            "",
            "12.1.20230222",
            "12.1.66",
            "",
            "nvcc,headers",
            "",
        ),
        (
            "toolkit",
            "/usr/local/cuda-11.7",
            "/usr/local/cuda-11.7",
            "",
            "11.7.1",
            "11.7.99",
            "",
            "nvcc,headers",
            "manifest",
        ),
        (
            "toolkit",
            "/usr/local/cuda-10.1",
            "/usr/local/cuda-10.1",
            "",
            "CUDA Version 10.1.243",
            "",
            "",
            "nvcc,headers",
            "",
        ),
        (
            "toolkit",
            "/usr/local/cuda-13.0",
            "/usr/local/cuda-13.0",
            "",
            "",
            "",
            "#define CUDA_VERSION 13000",
            ",headers",
            "",
        ),
        ("toolkit", "/usr/local/cuda-9", "/opt/gone", "dangling", "", "", "", "", ""),
    ],
    "services": [
        (
            "service",
            "812",
            PID1,
            "/root/miniconda3/bin/python3.10",
            "/root/miniconda3/bin/python",
            "/root/miniconda3/bin/jupyter-lab",
            "--IdentityProvider.token=(withheld)",
        ),
        ("service", "90", PID1, "", "sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups"),
        ("service", "91", PID1, "/usr/bin/vim", "vim", "jupyter.md"),
    ],
    "conda": [
        ("conda", "/root/miniconda3", "23.5.2"),
        ("env", "/root/miniconda3/envs/train", "conda", "3.10.13"),
        ("env", "/venv/main", "venv", " 3.12.3"),
        ("manifest", "/root/miniconda3/envs/train"),
    ],
    "protected": [
        ("link", "/usr/local/cuda", "/usr/local/cuda-12.1"),
        ("sum", "ab" * 32, "/etc/ld.so.conf"),
        ("dpkg", "ii |python3|3.10.6-1~22.04|amd64"),
        ("dpkg", "hi |libprotobuf23|3.12.4-1ubuntu7|amd64"),
        ("site", "/usr/lib/python3/dist-packages", "2"),
        ("dist", "0123456789abcdef", "protobuf-4.25.3.dist-info"),
        ("dist", "fedcba9876543210", "PyYAML-6.0-py3.10.egg-info"),
        ("meta", "/root/miniconda3", "ca-certificates-2023.05.30-h06a4308_0"),
    ],
    "driver": [
        ("module", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19\nGCC version: gcc 12"),
        ("device", "/dev/nvidia0"),
        ("device", "/dev/nvidiactl"),
        ("pci-bus", "yes"),
        ("pci", "0000:01:00.0", "0x030000", "0x2786", "nvidia"),
        ("pci", "0000:01:00.1", "0x040300", "0x22bc", "snd_hda_intel"),
        ("ldconfig", "yes"),
        (
            "libcuda",
            "/lib/x86_64-linux-gnu/libcuda.so.1",
            "/usr/lib/x86_64-linux-gnu/libcuda.so.535.104.05",
            "cached",
        ),
        ("smi-path", "/usr/bin/nvidia-smi"),
        (
            "smi-query",
            "0",
            SMI_FIELDS,
            "0, NVIDIA GeForce RTX 4070, GPU-1, 12282, 535.104.05, 00000000:01:00.0, 8.9, [N/A]",
        ),
        ("smi-table", "0", "| NVIDIA-SMI 535.104.05    Driver Version: 535.104.05   CUDA Version: 12.2     |"),
    ],
}
"""A rented container with one GPU, three toolkits and a Jupyter of conda's base."""


def rented(**groups: Lines) -> bytes:
    """The rented container with some groups replaced."""
    return output({**RENTED, **groups})


def driver(*records: tuple[str, ...]) -> Lines:
    """Its driver group with the records of the same keys replaced."""
    keys = {record[0] for record in records}
    return [record for record in RENTED["driver"] if record[0] not in keys] + list(records)
