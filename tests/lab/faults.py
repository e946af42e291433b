"""Faults of a running host, made from outside.  Slow lines are in `link`, power cuts in `hosts`."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.engine import cache_folder, command
from tests.lab.hosts import Host


def _in_network(host: Host, *args: str) -> str:
    """Run this machine's command in the host's network: nothing of it need be in the image."""
    return command("nsenter", "-t", str(host.pid()), "-n", *args)


def cut_line(host: Host) -> None:
    """Drop every packet, silently, as when a cable is pulled.  Programs inside still reach each other."""
    for chain in ("INPUT", "OUTPUT"):
        _in_network(host, "iptables", "-w", "-I", chain, "!", "-i" if chain == "INPUT" else "-o", "lo", "-j", "DROP")


def heal_line(host: Host) -> None:
    """Undo `cut_line` and `refuse_connections`; connections that were open go on after a short cut."""
    for chain in ("INPUT", "OUTPUT"):
        _in_network(host, "iptables", "-w", "-F", chain)


@contextmanager
def line_cut(host: Host) -> Iterator[None]:
    """The line is cut for the length of the block."""
    cut_line(host)
    try:
        yield
    finally:
        heal_line(host)


def refuse_connections(host: Host) -> None:
    """Refuse new SSH connections at once; those open go on."""
    _in_network(
        host, "iptables", "-w", "-I", "INPUT", "-p", "tcp", "--dport", "22", "--syn", "-j", "REJECT",
        "--reject-with", "tcp-reset",
    )  # fmt: skip


def kill_newest_session(host: Host) -> bool:
    """Kill the sshd that serves the newest session; whether there was one.  What it ran goes on."""
    script = (
        "p=$(ps -eo pid,args --sort=start_time | awk '/[s]shd: .*@/ { print $1 }' | tail -n 1); "
        '[ -n "$p" ] && kill -KILL "$p"'
    )
    return host.exec(script, check=False).returncode == 0


def fill_disk(host: Host, path: str, leave_kib: int = 0) -> None:
    """Fill the file system behind a path until so much is left.  For small ones: it writes real blocks."""
    host.exec(
        f"n=$(($(df -Pk '{path}' | awk 'NR == 2 {{ print $4 }}') - {leave_kib})); "
        f"[ $n -le 0 ] || dd if=/dev/zero of='{path}/.lab-fill' bs=1k count=$n 2>/dev/null || true",
        timeout=120,
    )


def free_disk(host: Host, path: str) -> None:
    """Undo `fill_disk`."""
    host.exec(f"rm -f '{path}/.lab-fill'")


@contextmanager
def small_disk(size_mib: int) -> Iterator[Path]:
    """A small ext4 of its own, mounted on this machine: `lab.start(..., volumes=[f"{disk}:/data"])`.

    Unlike a tmpfs it keeps its content over a power cut, and has inodes to run out of.
    """
    handle, image = tempfile.mkstemp(suffix=".ext4", dir=cache_folder())
    os.truncate(handle, size_mib << 20)
    os.close(handle)
    folder = Path(f"{image}.d")
    folder.mkdir()
    try:
        command("mkfs.ext4", "-q", "-F", "-m", "0", image)
        command("mount", "-o", "loop", image, str(folder))
        try:
            yield folder
        finally:
            command("umount", "-l", str(folder))
    finally:
        folder.rmdir()
        Path(image).unlink()
