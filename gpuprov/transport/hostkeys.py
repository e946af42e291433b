"""Host keys: known, pinned, new or changed. Checking is never switched off."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from gpuprov.errors import HostKeyRefused
from gpuprov.quote import command

DEFAULT_FILE = Path("~/.ssh/known_hosts")
_GLOBAL = (Path("/etc/ssh/ssh_known_hosts"), Path("/etc/ssh/ssh_known_hosts2"))


@dataclass(frozen=True, kw_only=True)
class KnownKeys:
    """What the files say about one host and port.

    ``keys`` stand under exactly this host and port. ``elsewhere`` stand under the host without its port: such a key is
    accepted, as ssh does, but another one says nothing against this port (a gateway has one port per box).
    """

    keys: tuple[asyncssh.SSHKey, ...] = ()
    elsewhere: tuple[asyncssh.SSHKey, ...] = ()
    authorities: tuple[asyncssh.SSHKey, ...] = ()
    revoked: tuple[asyncssh.SSHKey, ...] = ()


def lookup(files: tuple[Path, ...], host: str, address: str, port: int) -> KnownKeys:
    """Read what the known_hosts files and the machine's own say. Files that are missing say nothing.

    ``address`` is the IP that is connected to, or empty.
    """
    lines = []
    for file in (*files, *_GLOBAL):
        try:
            text = file.expanduser().read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        # One broken line in a person's file must not hide the others.
        lines += [line for line in text.splitlines() if _is_whole(line)]
    known = asyncssh.import_known_hosts("\n".join(lines))
    names = [host] if address in ("", host) else [host, address]
    exact, plain = _match(known, [_entry(name, port) for name in names]), _match(known, names)
    return KnownKeys(
        keys=exact[0],
        elsewhere=plain[0] if port != asyncssh.DEFAULT_PORT else (),
        authorities=(*exact[1], *plain[1]),
        revoked=(*exact[2], *plain[2]),
    )


def _is_whole(line: str) -> bool:
    try:
        asyncssh.import_known_hosts(line)
    except (ValueError, asyncssh.Error):
        return False
    return True


Keys = tuple[asyncssh.SSHKey, ...]


def _match(known: asyncssh.SSHKnownHosts, entries: list[str]) -> tuple[Keys, Keys, Keys]:
    found: tuple[list[asyncssh.SSHKey], ...] = ([], [], [])
    for entry in entries:
        # The port stands in the name already: given apart, asyncssh would fall back to the name without it.
        for kept, keys in zip(found, known.match(entry, "", None), strict=False):
            kept.extend(key for key in keys if isinstance(key, asyncssh.SSHKey) and key not in kept)
    return tuple(found[0]), tuple(found[1]), tuple(found[2])


def _entry(host: str, port: int) -> str:
    return host if port == asyncssh.DEFAULT_PORT else f"[{host}]:{port}"


@dataclass(kw_only=True)
class HostKeyJudge:
    """Decides about one host's key while it is being connected to.

    ``refusal``: why the key was not accepted, once `accepts` or `settle` has said no.
    """

    where: str
    host: str
    port: int
    files: tuple[Path, ...]
    pin: str | None
    accept_new: bool
    known: KnownKeys
    refusal: HostKeyRefused | None = None
    _new: asyncssh.SSHKey | None = None

    def accepts(self, key: asyncssh.SSHKey) -> bool:
        """Say whether the host may have this key."""
        self.refusal = self._judge(key)
        return self.refusal is None

    def settle(self) -> HostKeyRefused | None:
        """Write a new key down, once the server has proved that it holds it; return why that cannot be done."""
        if self._new is not None:
            self.refusal = self._write_down(self._new)
        return self.refusal

    def _judge(self, key: asyncssh.SSHKey) -> HostKeyRefused | None:
        shown = f"{key.get_fingerprint()} ({key.get_algorithm()})"
        entry = _entry(self.host, self.port)
        if key in self.known.revoked:
            return self._refused(f"the host key of {entry} is marked as revoked: {shown}", "")
        if self.pin is not None:
            if _same(key.get_fingerprint(), self.pin):
                return None
            return self._refused(
                f"the host key of {entry} is not the pinned one: pinned {self.pin}, offered {shown}",
                "if the host was rebuilt, put the new fingerprint into the inventory (host_key)",
            )
        if key in self.known.keys:
            return None
        if self.known.keys:
            old = ", ".join(f"{known.get_fingerprint()} ({known.get_algorithm()})" for known in self.known.keys)
            return self._refused(
                f"the host key of {entry} has changed: known {old}, offered {shown}",
                f"a rebuilt or re-rented host has a new key, and so has a stranger in between; if it is yours, "
                f"forget the old one with `{self._forget(entry)}` and connect again",
            )
        if key in self.known.elsewhere:
            return None
        if not self.accept_new:
            return self._refused(
                f"the host key of {entry} is not known: {shown}",
                "compare it with what the provider shows, then accept it with --accept-new",
            )
        self._new = key
        return None

    def _forget(self, entry: str) -> str:
        file = self.files[0]
        words = ["ssh-keygen"] if file.expanduser() == DEFAULT_FILE.expanduser() else ["ssh-keygen", "-f", str(file)]
        return command(*words, "-R", entry)

    def _write_down(self, key: asyncssh.SSHKey) -> HostKeyRefused | None:
        entry = _entry(self.host, self.port)
        line = f"{entry} {key.export_public_key('openssh').decode().strip()}\n"
        file = self.files[0].expanduser()
        try:
            append(file, line)
        except OSError as error:
            return self._refused(
                f"the host key of {entry} is new ({key.get_fingerprint()}) and cannot be written to {file}: "
                f"{error.strerror}",
                "name a file that can be written with known_hosts",
            )
        return None

    def _refused(self, message: str, hint: str) -> HostKeyRefused:
        return HostKeyRefused(message, phase="key-exchange", where=self.where, hint=hint)


def _same(fingerprint: str, pin: str) -> bool:
    return fingerprint.rstrip("=") == pin.strip().rstrip("=")


def append(file: Path, line: str) -> None:
    """Append one line to a known_hosts file, unless it is there already. Others may be doing the same.

    The file is made readable by its owner only; what a person left without a last newline is completed first.

    Raises:
        OSError
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "rb+", buffering=0) as opened:
        fcntl.flock(handle, fcntl.LOCK_EX)
        content = opened.read()
        if line.encode() in content.splitlines(keepends=True):
            return
        start = b"" if content.endswith(b"\n") or not content else b"\n"
        opened.write(start + line.encode())
