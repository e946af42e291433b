"""A slow line to a host: an IP link of its own with a delay, so that the TCP handshake is late too.

Two TUN devices, one here and one in the host's network namespace, and a thread that carries each
packet from one to the other `one_way_ms` later.  What runs over it is the kernel's own TCP, so
resent segments, windows and time-outs are real.  Needs root and /dev/net/tun; no netem.
"""

import ctypes
import fcntl
import os
import random
import select
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.engine import command
from tests.lab.hosts import Host

_TUNSETIFF = 0x400454CA
_IFF_TUN_NO_PI = 0x1001
_CLONE_NEWNET = 0x40000000


def _open_tun(name: str, netns: str | None = None) -> int:
    """A TUN device in this thread's network namespace or, by way of a thread, in another."""
    got: list[int | OSError] = []

    def open_it() -> None:
        try:
            if netns:
                libc = ctypes.CDLL(None, use_errno=True)
                with Path(netns).open() as ns:
                    if libc.setns(ns.fileno(), _CLONE_NEWNET):
                        raise OSError(ctypes.get_errno(), f"setns {netns}")
            fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN_NO_PI))
            got.append(fd)
        except OSError as error:
            got.append(error)

    # The namespace is a property of the thread, which ends here; the device stays where it was made.
    thread = threading.Thread(target=open_it)
    thread.start()
    thread.join()
    if isinstance(got[0], OSError):
        raise got[0]
    return got[0]


class Link:
    """A running link.  `one_way_ms`, `cut` and `lose_every` may be changed while it carries traffic."""

    def __init__(self, here: int, there: int, one_way_ms: float) -> None:
        self.one_way_ms = one_way_ms
        self.cut = False
        self.lose_every = 0
        self.carried = 0
        self._ends = (here, there)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._carry, name="lab-link", daemon=True)
        self._thread.start()

    def _carry(self) -> None:
        here, there = self._ends
        under_way: deque[tuple[float, int, bytes]] = deque()
        while not self._stop.is_set():
            now = time.monotonic()
            while under_way and under_way[0][0] <= now:
                _, end, packet = under_way.popleft()
                try:
                    os.write(end, packet)
                except OSError:
                    continue  # the far end is gone or full: a packet is lost, as on any line
            wait = min(0.2, under_way[0][0] - now) if under_way else 0.2
            ready, _, _ = select.select([here, there], [], [], max(0.0, wait))
            for end in ready:
                for _ in range(64):
                    try:
                        packet = os.read(end, 65536)
                    except OSError:
                        break
                    self.carried += 1
                    if self.cut or (self.lose_every and self.carried % self.lose_every == 0):
                        continue
                    due = time.monotonic() + self.one_way_ms / 1000
                    under_way.append((due, there if end == here else here, packet))

    def close(self) -> None:
        """Take the link away; connections over it hang, as when a cable is pulled."""
        self._stop.set()
        self._thread.join()
        for end in self._ends:
            os.close(end)


@contextmanager
def delayed_link(host: Host, one_way_ms: float) -> Iterator[tuple[Host, Link]]:
    """Give (the host by the address at the far end of the link, the link)."""
    pid = host.pid()
    taken = command("ip", "-o", "-4", "addr")
    while True:
        third, fourth = random.randrange(256), 4 * random.randrange(64)
        net = f"10.214.{third}"
        if f"{net}.{fourth + 1}/" not in taken:
            break
    name = f"lab{third}x{fourth}"
    near, far = f"{net}.{fourth + 1}", f"{net}.{fourth + 2}"
    here = _open_tun(name)
    there = _open_tun(name, f"/proc/{pid}/ns/net")
    for prefix, address in (((), near), (("nsenter", "-t", str(pid), "-n"), far)):
        command(*prefix, "ip", "addr", "add", f"{address}/30", "dev", name)
        command(*prefix, "ip", "link", "set", name, "up")
    link = Link(here, there, one_way_ms)
    try:
        yield host.at(far, 22), link
    finally:
        link.close()
