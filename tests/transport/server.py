"""An ssh server of our own in this process: it runs real shells, and misbehaves on demand."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import asyncssh

from gpuprov.secret import Secret
from gpuprov.transport.target import SshTarget


@dataclass(kw_only=True)
class Behaviour:
    """How the server treats its guests; may be changed while it runs."""

    keys: tuple[asyncssh.SSHKey, ...] = ()
    password: str | None = None
    sessions: int | None = None
    """Sessions open at once on one connection; None: any number."""
    before: str = ""
    """Shell text that the login shell runs first: what an rc file does."""
    banner: str = ""
    auth_pause: float = 0.0
    log: list[str] = field(default_factory=list)


class Server(asyncssh.SSHServer):
    """One connection's server side."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.open = 0

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self.conn = conn
        self.place.connections.append(conn)
        self.place.accepted += 1

    async def begin_auth(self, username: str) -> bool:
        if self.place.behaviour.banner:
            self.conn.send_auth_banner(self.place.behaviour.banner)
        await asyncio.sleep(self.place.behaviour.auth_pause)
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        self.place.behaviour.log.append("publickey")
        return key.public_data in [known.public_data for known in self.place.behaviour.keys]

    def password_auth_supported(self) -> bool:
        return self.place.behaviour.password is not None

    def validate_password(self, username: str, password: str) -> bool:
        self.place.behaviour.log.append("password")
        return password == self.place.behaviour.password

    def session_requested(self) -> ShellSession:
        limit = self.place.behaviour.sessions
        if limit is not None and self.open >= limit:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, "open failed")
        self.open += 1
        return ShellSession(self)


class ShellSession(asyncssh.SSHServerSession[bytes], asyncio.SubprocessProtocol):
    """One exec request: a real shell, its pipes tied to the channel as sshd ties them."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.early: list[bytes] = []
        self.counted = True
        self.pipes = {1, 2}
        self.process: asyncio.SubprocessTransport | None = None

    def connection_made(self, chan: object) -> None:
        if isinstance(chan, asyncssh.SSHServerChannel):
            self.channel: asyncssh.SSHServerChannel[bytes] = chan
        else:
            self.process = cast(asyncio.SubprocessTransport, chan)
            for data in self.early:
                self.data_received(data, None)

    def exec_requested(self, command: str) -> bool:
        behaviour = self.server.place.behaviour
        behaviour.log.append("exec")
        self.starting = asyncio.ensure_future(self._start(f"{behaviour.before}\n{command}"))
        return True

    async def _start(self, command: str) -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.subprocess_exec(lambda: self, "/bin/sh", "-c", command, start_new_session=True)
        self.server.place.processes.append(transport)

    def _pipe(self, number: int) -> Any:
        return self.process.get_pipe_transport(number) if self.process is not None else None

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        if self.process is None:
            self.early.append(data)
        else:
            self._pipe(0).write(data)

    def eof_received(self) -> bool:
        if self._pipe(0) is not None:
            self._pipe(0).write_eof()
        return True

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        if not self.channel.is_closing():
            self.channel.write(cast(bytes, data), None if fd == 1 else asyncssh.EXTENDED_DATA_STDERR)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self.pipes.discard(fd)
        self.process_exited()

    def process_exited(self) -> None:
        status = self.process.get_returncode() if self.process is not None else None
        if not self.pipes and status is not None and not self.channel.is_closing():
            self.channel.exit(status if status >= 0 else 128 - status)

    def pause_writing(self) -> None:
        for number in self.pipes:
            self._pipe(number).pause_reading()

    def resume_writing(self) -> None:
        for number in self.pipes:
            self._pipe(number).resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        # Called for the channel, and again for the process once its pipes are closed.
        if self.counted and self.channel.is_closing():
            self.counted = False
            self.server.open -= 1
        if self.process is not None and self.channel.is_closing():
            for number in (0, 1, 2):
                self._pipe(number).close()


@dataclass(kw_only=True)
class Place:
    """A running server."""

    port: int = 0
    host_key: asyncssh.SSHKey
    behaviour: Behaviour
    accepted: int = 0
    connections: list[asyncssh.SSHServerConnection] = field(default_factory=list)
    processes: list[asyncio.SubprocessTransport] = field(default_factory=list)

    def cut(self) -> None:
        """Let every connection die without a word, as a pulled plug does to the server."""
        for connection in self.connections:
            connection.abort()
        self.connections.clear()


@asynccontextmanager
async def serving(
    behaviour: Behaviour, *, host_key: asyncssh.SSHKey | None = None, port: int = 0
) -> AsyncIterator[Place]:
    """Run a server on loopback."""
    key = host_key or asyncssh.generate_private_key("ssh-ed25519")
    place = Place(host_key=key, behaviour=behaviour)
    listener = await asyncssh.create_server(
        lambda: Server(place), "127.0.0.1", port, server_host_keys=[key], encoding=None, line_editor=False
    )
    place.port = listener.get_port()
    try:
        yield place
    finally:
        place.cut()
        listener.close()
        await listener.wait_closed()
        for process in place.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.get_pid(), signal.SIGKILL)
            process.close()
        await asyncio.sleep(0)


@dataclass(kw_only=True)
class Guest:
    """A user's own files: a key, a known_hosts file and an empty ssh config."""

    folder: Path
    key: asyncssh.SSHKey

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    def knows(self, place: Place, key: asyncssh.SSHKey | None = None) -> None:
        """Write the host's key (or another) down as known."""
        public = (key or place.host_key).export_public_key().decode().strip()
        with self.known_hosts.open("a") as file:
            file.write(f"[127.0.0.1]:{place.port} {public}\n")

    def target(
        self,
        port: int,
        *,
        address: str = "127.0.0.1",
        password: Secret | Callable[[], Secret] | None = None,
        keys: bool = True,
        host_key: str | None = None,
        accept_new: bool = False,
        timeout: float = 5.0,
        jump: SshTarget | str | None = None,
        user: str = "root",
        become: bool = True,
    ) -> SshTarget:
        return SshTarget(
            name="gpu1",
            address=address,
            port=port,
            user=user,
            keys=(self.folder / "id",) if keys else (),
            password=password,
            known_hosts=(self.known_hosts,),
            host_key=host_key,
            accept_new=accept_new,
            connect_timeout=timeout,
            config=(),
            jump=jump,
            become="auto" if become else "never",
        )


def new_guest(folder: Path) -> Guest:
    """Make a key and the files."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(str(folder / "id"))
    (folder / "id").chmod(0o600)
    return Guest(folder=folder, key=key)
