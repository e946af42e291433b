"""A real OpenSSH sshd on loopback, with its own configuration, keys and, where asked for, users."""

from __future__ import annotations

import asyncio
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from tests.transport.server import Guest


def sshd_binary() -> str:
    """Return the sshd program; installed when it is missing and that can be done."""
    for name in ("sshd", "sudo"):
        if shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
            package = {"sshd": "openssh-server", "sudo": "sudo"}[name]
            if os.geteuid() != 0 or shutil.which("apt-get") is None:
                raise RuntimeError(f"these tests need OpenSSH's server and sudo: install {package} (as root)")
            for words in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", package]):
                subprocess.run(
                    words,
                    check=True,
                    timeout=300,
                    capture_output=True,
                    env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                )
    if os.geteuid() != 0:
        raise RuntimeError("these tests start an sshd and make users: run them as root")
    found = shutil.which("sshd", path="/usr/sbin:/usr/bin:/sbin:/bin")
    assert found is not None
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    return found


@dataclass(kw_only=True)
class Sshd:
    """A running sshd. ``host_key`` is public."""

    port: int
    pid: int
    host_key: asyncssh.SSHKey
    folder: Path

    def known_line(self) -> str:
        return f"[127.0.0.1]:{self.port} {self.host_key.export_public_key().decode().strip()}\n"

    def sessions(self) -> list[int]:
        """The pids of sshd's own processes for connections: its children and theirs that are sshd too."""
        parents: dict[int, tuple[int, str]] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                text = stat.read_text()
            except OSError:
                continue
            name = text[text.index("(") + 1 : text.rindex(")")]
            parents[int(stat.parent.name)] = (int(text[text.rindex(")") + 2 :].split()[1]), name)
        found, new = set[int](), {self.pid}
        while new:
            new = {
                pid for pid, (parent, name) in parents.items() if parent in new | found and name.startswith("sshd")
            } - found
            found |= new
        return sorted(found)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def running_sshd(folder: Path, guest: Guest, *, config: str = "") -> Iterator[Sshd]:
    """Run an sshd that lets the guest's key in as any user, and stop it afterwards."""
    binary = sshd_binary()
    folder.mkdir(parents=True, exist_ok=True)
    host_key = asyncssh.generate_private_key("ssh-ed25519")
    host_key.write_private_key(str(folder / "host"))
    (folder / "host").chmod(0o600)
    # sshd reads it as the user who logs in, who cannot look into root's folders: a command prints it instead.
    keys = folder / "authorized_keys"
    keys.write_bytes(guest.key.export_public_key())
    port = _free_port()
    (folder / "config").write_text(
        f"""
        Port {port}
        ListenAddress 127.0.0.1
        HostKey {folder}/host
        AuthorizedKeysFile {folder}/authorized_keys
        StrictModes no
        PermitRootLogin yes
        PasswordAuthentication no
        KbdInteractiveAuthentication no
        UsePAM no
        PidFile none
        {config}
        """
    )
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [binary, "-D", "-e", "-f", str(folder / "config")], stderr=log, stdin=subprocess.DEVNULL
        )
    sshd = Sshd(port=port, pid=process.pid, host_key=host_key, folder=folder)
    try:
        _await_banner(sshd, process)
        yield sshd
    finally:
        for pid in sshd.sessions():
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue
        process.kill()
        process.wait()


def _await_banner(sshd: Sshd, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 10
    while time.monotonic() < until and process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", sshd.port), timeout=1) as line:
                if line.recv(4) == b"SSH-":
                    return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"sshd did not start: {(sshd.folder / 'log').read_text()}")


@contextmanager
def user(home: Path, *, sudoers: str = "") -> Iterator[str]:
    """Make a user of a name of its own for the while, with a line for sudoers where one is given."""
    name = f"gpuprov-{secrets.token_hex(4)}"
    home.mkdir(parents=True, exist_ok=True)
    subprocess.run(["useradd", "-M", "-d", str(home), "-s", "/bin/bash", name], check=True, capture_output=True)
    rules = Path(f"/etc/sudoers.d/{name}")
    try:
        subprocess.run(["chown", "-R", name, str(home)], check=True)
        # An account without a password counts as locked unless it says that it has none by design.
        subprocess.run(["usermod", "-p", "*", name], check=True, capture_output=True)
        if sudoers:
            rules.write_text(f"{name} {sudoers}\n")
            rules.chmod(0o440)
        yield name
    finally:
        rules.unlink(missing_ok=True)
        uid = pwd.getpwnam(name).pw_uid
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if process.stat().st_uid == uid:
                    os.kill(int(process.name), signal.SIGKILL)
        subprocess.run(["userdel", "-f", name], check=False, capture_output=True)


async def until(condition: Callable[[], object], seconds: float = 5.0) -> None:
    """Wait until it says yes; what it asks (the process table, files) tells nobody by itself."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
