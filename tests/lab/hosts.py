"""One host of the lab: how to reach it, and what a test may do to it from outside."""

import os
import re
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.lab.engine import LabError, docker

# The banner scripts of both shapes are silent for whoever sends this; see README.md.
QUIET = "LC_LAB_QUIET=1"


@dataclass(frozen=True)
class Shape:
    """What is protected on a kind of host, and where it answers inside the host."""

    name: str
    jupyter_url: str
    tensorboard_url: str
    service_python: str
    interpreters: dict[str, str]


SHAPES = {
    "a": Shape(
        name="a",
        jupyter_url="http://127.0.0.1:8888/jupyter/api",
        tensorboard_url="http://127.0.0.1:6006/",
        service_python="/root/miniconda3/bin/python",
        interpreters={"base": "/root/miniconda3/bin/python", "system": "/usr/bin/python3"},
    ),
    "b": Shape(
        name="b",
        jupyter_url="http://127.0.0.1:8888/api",
        tensorboard_url="http://127.0.0.1:16006/",
        service_python="/usr/bin/python3",
        interpreters={"system": "/usr/bin/python3"},
    ),
}


def wait_until(check: Callable[[], bool], what: str, timeout: float, pause: float = 0.1) -> None:
    """Wait for something to become true; LabError at the deadline."""
    deadline = time.monotonic() + timeout
    while not check():
        if time.monotonic() > deadline:
            raise LabError(f"{what} within {timeout:.0f} s")
        time.sleep(pause)


def ssh_banner(address: str, port: int) -> bool:
    """Whether sshd itself answers: a published port accepts before sshd listens."""
    try:
        with socket.create_connection((address, port), timeout=1) as line:
            return line.recv(4) == b"SSH-"
    except OSError:
        return False


@dataclass
class Host:
    """A running container with sshd.  `address` and `port` are what a client on this machine uses."""

    name: str
    container: str
    shape: Shape
    address: str
    port: int
    key: Path
    folder: Path
    known_hosts: Path = field(init=False)

    def __post_init__(self) -> None:
        self.known_hosts = self.folder / "known_hosts"

    # Commands

    def exec(
        self, script: str, *, user: str = "root", stdin: str | None = None, timeout: float = 60, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell script inside, past sshd: works while the line is cut."""
        done = subprocess.run(
            ["docker", "exec", "-i", "-w", "/", "-u", user, self.container, "sh", "-c", script],
            input="" if stdin is None else stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode:
            raise LabError(f"{self.name}: {script}: exit status {done.returncode}: {done.stderr or done.stdout}")
        return done

    def ssh(
        self, script: str, *, user: str = "root", quiet: bool = True, stdin: str | None = None, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run a script by OpenSSH; `quiet=False` lets the banner of the platform through, as any tool sees it."""
        extra = ["-o", f"SetEnv={QUIET}"] if quiet else []
        return subprocess.run(
            ["ssh", "-F", str(self.ssh_config()), *extra, "-l", user, self.name, script],
            input="" if stdin is None else stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def testinfra(self, user: str = "root") -> Any:
        """A testinfra host over OpenSSH, without the banner and without a connection that is kept."""
        import testinfra

        return testinfra.get_host(
            f"ssh://{user}@{self.name}",
            ssh_config=str(self.ssh_config()),
            ssh_extra_args=f"-o SetEnv={QUIET}",
            controlpersist=0,
        )

    # Files for clients

    def ssh_config(self) -> Path:
        """A client configuration that knows this host by its name."""
        path = self.folder / f"{self.name}-{self.port}.ssh_config"
        if not path.exists():
            path.write_text(
                f"Host {self.name}\n"
                f"  HostName {self.address}\n  Port {self.port}\n  User root\n"
                f"  IdentityFile {self.key}\n  IdentitiesOnly yes\n  BatchMode yes\n"
                f"  UserKnownHostsFile {self.known_hosts}\n  GlobalKnownHostsFile /dev/null\n"
                "  StrictHostKeyChecking yes\n  ConnectTimeout 10\n  LogLevel ERROR\n"
            )
        return path

    def pin_host_keys(self) -> None:
        """Write the host's own public keys, read past the network, to known_hosts."""
        keys = self.exec("cat /etc/ssh/ssh_host_*_key.pub").stdout.splitlines()
        where = self.address if self.port == 22 else f"[{self.address}]:{self.port}"
        old = self.known_hosts.read_text().splitlines() if self.known_hosts.exists() else []
        kept = [line for line in old if line.split(" ", 1)[0] != where]
        new = [f"{where} {' '.join(key.split()[:2])}" for key in keys]
        fresh = self.known_hosts.with_suffix(".new")
        fresh.write_text("\n".join(kept + new) + "\n")
        fresh.replace(self.known_hosts)

    def at(self, address: str, port: int) -> "Host":
        """The same host by another address (a delayed link), with its keys pinned there too."""
        other = replace(self, name=f"{self.name}-{address.replace('.', '-')}", address=address, port=port)
        other.pin_host_keys()
        return other

    # State

    def wait_ssh(self, timeout: float = 30) -> None:
        """Wait for the `SSH-` banner."""
        wait_until(lambda: ssh_banner(self.address, self.port), f"{self.name}: no SSH banner", timeout, 0.05)

    def wait_services(self, timeout: float = 60) -> None:
        """Wait until Jupyter and TensorBoard answer."""
        from tests.lab.prober import take_sample

        wait_until(lambda: take_sample(self).green, f"{self.name}: its programs do not all answer", timeout, 0.3)

    def pid(self) -> int:
        """Process id of the host's first process, on this machine."""
        return int(docker("inspect", "-f", "{{.State.Pid}}", self.container))

    def set_gpu(self, **settings: str | int) -> None:
        """Choose card, driver or failure: keys of /etc/lab/gpu.conf, such as MODE="hang", COUNT=2."""
        for key, value in settings.items():
            if not re.fullmatch(r"[A-Z0-9_]+", key) or "'" in str(value):
                raise ValueError(f"not a setting of the card: {key}={value}")
        self.exec("lab-gpu " + " ".join(f"'{key}={value}'" for key, value in settings.items()))

    def mount_driver_proc(self) -> bool:
        """Show /proc/driver/nvidia/version inside, where this process may (root, local engine)."""
        if os.geteuid() != 0:
            return False
        inside = ["nsenter", "-t", str(self.pid()), "-m"]
        script = "mount -t tmpfs -o mode=755 driver /proc/driver && mkdir /proc/driver/nvidia && lab-gpu --proc"
        return subprocess.run([*inside, "sh", "-c", script], capture_output=True, check=False).returncode == 0

    def kill(self) -> None:
        """Power cut: every process dies at once, the disk stays."""
        docker("kill", self.container)

    def start(self, timeout: float = 30) -> None:
        """Boot after `kill`; programs come back as at first start, the address is the same."""
        docker("start", self.container)
        self.mount_driver_proc()
        self.wait_ssh(timeout)

    def freeze(self) -> None:
        """Stop all processes; the kernel still acknowledges packets."""
        docker("pause", self.container)

    def thaw(self) -> None:
        """Let the processes go on."""
        docker("unpause", self.container)

    def remove(self) -> None:
        """Remove the container for good."""
        docker("rm", "-f", "-v", self.container)
