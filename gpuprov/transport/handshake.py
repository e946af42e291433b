"""From a name to an authenticated SSH connection, each phase with a deadline and a name of its own."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import socket
from weakref import WeakKeyDictionary

import asyncssh

from gpuprov.errors import AuthenticationFailed, HostKeyRefused, Unreachable
from gpuprov.secret import Secret
from gpuprov.transport.hostkeys import HostKeyJudge, KnownKeys, lookup
from gpuprov.transport.options import Keepalive, jump_for, keys_tried, known_hosts_files, options_for
from gpuprov.transport.target import SshTarget

_TRIES = 4
"""sshd drops connections at random while many are logging in (MaxStartups), before it has said a word."""


_AT_ONCE = 8
"""Handshakes under way per host name: a gateway that serves many boxes counts all of them together."""

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Semaphore]] = WeakKeyDictionary()


def _turn(host: str) -> asyncio.Semaphore:
    return _turns.setdefault(asyncio.get_running_loop(), {}).setdefault(host, asyncio.Semaphore(_AT_ONCE))


class _Dropped(Unreachable):
    """The server closed the connection before it had said anything: worth another try."""


class _Watch(asyncssh.SSHClient):
    """Notes how far the handshake is, and puts the host's key to the judge."""

    def __init__(self, judge: HostKeyJudge, username: str) -> None:
        self.judge = judge
        self.username = username
        self.connection: asyncssh.SSHClientConnection | None = None
        self.connected = asyncio.Event()
        self.keyed = asyncio.Event()
        self.banner = ""

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self.connection = conn
        self.connected.set()

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        accepted = self.judge.accepts(key)
        if accepted:
            self.keyed.set()
        return accepted

    def begin_auth(self, username: str) -> None:
        # Only now has the server proved that it holds the key.
        if self.judge.settle() is not None and self.connection is not None:
            self.connection.abort()
        self.keyed.set()

    def auth_banner_received(self, msg: str, lang: str) -> None:
        self.banner = (self.banner + msg)[-2048:]


async def connect(
    target: SshTarget, keepalive: Keepalive, *, tunnel: asyncssh.SSHClientConnection | None = None
) -> tuple[asyncssh.SSHClientConnection, ...]:
    """Return the connection to the target, and after it those to its jump hosts, nearest to the target first.

    Raises:
        Unreachable: the phase that failed or took too long, with what to do.
        HostKeyRefused, AuthenticationFailed
        InputError: a key file or the ssh config cannot be used.
    """
    password = target.password
    if password is not None and not isinstance(password, Secret):
        password = await asyncio.to_thread(password)
    options = options_for(target, password, keepalive)
    jump = jump_for(target, options)
    beneath: tuple[asyncssh.SSHClientConnection, ...] = ()
    try:
        if jump is not None:
            try:
                beneath = await connect(jump, keepalive, tunnel=tunnel)
            except Unreachable as error:
                error.message = f"cannot reach {target.address} through the jump host {jump.name}: {error.message}"
                error.where = target.name
                raise
            tunnel = beneath[0]
        for attempt in range(_TRIES):
            try:
                async with _turn(options.host):
                    return (await _once(target, options, tunnel), *beneath)
            except _Dropped as error:
                if attempt == _TRIES - 1:
                    raise Unreachable(error.message, phase=error.phase, where=error.where, hint=error.hint) from None
                await asyncio.sleep(random.uniform(0.2, 0.6) * 2**attempt)
        raise AssertionError("not reached")
    except BaseException:
        for connection in beneath:
            connection.abort()
        raise


async def _once(
    target: SshTarget, options: asyncssh.SSHClientConnectionOptions, tunnel: asyncssh.SSHClientConnection | None
) -> asyncssh.SSHClientConnection:
    host, port = options.host, options.port
    sock: socket.socket | None = None
    if tunnel is None and not options.proxy_command:
        sock = await _tcp(target, host, port, options.family)
    address = sock.getpeername()[0] if sock is not None else ""
    alias = options.host_key_alias
    judge = HostKeyJudge(
        where=target.name,
        host=alias or host,
        # An alias stands for itself, as with ssh: without the port.
        port=asyncssh.DEFAULT_PORT if alias else port,
        files=known_hosts_files(target, options),
        pin=target.host_key,
        accept_new=target.accept_new,
        known=KnownKeys(),
    )
    if target.host_key is None:
        judge.known = lookup(judge.files, judge.host, "" if alias else address, judge.port)
    watch = _Watch(judge, options.username)
    wanted = judge.known.keys or judge.known.elsewhere
    given: dict[str, object] = {"tunnel": tunnel, "sock": sock}
    if wanted and not options.config.get("HostKeyAlgorithms"):
        first = dict.fromkeys(alg.decode() for key in wanted for alg in key.sig_algorithms)
        given["server_host_key_algs"] = "^" + ",".join(first)
    # The trusted keys are left out, so that the judge sees every key and can tell a changed one from a new one.
    known_hosts: tuple[list[asyncssh.SSHKey], ...] = ([], list(judge.known.authorities), list(judge.known.revoked))
    dialling = asyncio.ensure_future(
        asyncssh.connect(
            host, port, options=options, client_factory=lambda: watch, known_hosts=known_hosts, config=None, **given
        )
    )
    try:
        connection = await _watched(target, dialling, watch, tcp_done=sock is not None)
        if watch.judge.refusal is not None:
            raise watch.judge.refusal
        return connection
    except BaseException as error:
        dialling.cancel()
        if watch.connection is not None:
            watch.connection.abort()
        elif sock is not None:
            sock.close()
        if isinstance(error, asyncssh.Error | OSError | ValueError) and not isinstance(error, Unreachable):
            failed = _failed(target, watch, error)
            if isinstance(failed, AuthenticationFailed):
                await _name_keys(failed, target, options)
            raise failed from None
        raise


async def _watched(
    target: SshTarget, dialling: asyncio.Future[asyncssh.SSHClientConnection], watch: _Watch, *, tcp_done: bool
) -> asyncssh.SSHClientConnection:
    limit = target.connect_timeout
    if not await _reached(dialling, watch.connected, limit):
        raise Unreachable(
            f"no connection to {target.address} within {limit:g} s",
            phase="tcp",
            where=target.name,
            hint="" if tcp_done else "the jump host or proxy command brought no connection",
        )
    if not await _reached(dialling, watch.keyed, limit):
        version = watch.connection.get_extra_info("server_version") if watch.connection is not None else None
        if version:
            raise Unreachable(
                f"{target.address} speaks ssh ({version}), but the key exchange was not done within {limit:g} s",
                phase="key-exchange",
                where=target.name,
                hint="the host or the line is overloaded, or large packets are lost (MTU)",
            )
        raise Unreachable(
            f"{target.address} accepts connections, but no ssh server answered within {limit:g} s",
            phase="key-exchange",
            where=target.name,
            hint="the port may be forwarded to a host that is not up yet, or belong to another service",
        )
    if not await _reached(dialling, None, limit):
        raise Unreachable(
            f"authentication at {target.address} was not done within {limit:g} s",
            phase="authentication",
            where=target.name,
            output=watch.banner.strip(),
            hint="the host may be overloaded or waiting for its name service, or the ssh agent for a confirmation",
        )
    return await dialling


async def _reached(
    dialling: asyncio.Future[asyncssh.SSHClientConnection], event: asyncio.Event | None, limit: float
) -> bool:
    """Wait for a stage, or for the end of the whole (which counts as reached), for ``limit`` seconds."""
    waiting: set[asyncio.Future[object]] = {dialling}  # type: ignore[arg-type]  # sets are invariant
    flag = asyncio.ensure_future(event.wait()) if event is not None else None
    if flag is not None:
        waiting.add(flag)  # type: ignore[arg-type]  # a future of bool for one of object: as above
    try:
        done, _ = await asyncio.wait(waiting, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        if flag is not None:
            flag.cancel()


async def _tcp(target: SshTarget, host: str, port: int, family: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    limit = target.connect_timeout
    try:
        async with asyncio.timeout(limit):
            found = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
    except TimeoutError:
        raise Unreachable(
            f"the name {host} was not resolved within {limit:g} s",
            phase="dns",
            where=target.name,
            hint="the name service of this machine does not answer",
        ) from None
    except (OSError, UnicodeError) as error:
        raise Unreachable(
            f"the name {host} cannot be resolved: {getattr(error, 'strerror', None) or error}",
            phase="dns",
            where=target.name,
            hint="check the address in the inventory, or the HostName in the ssh config",
        ) from None
    wrong: OSError | None = None
    refused: OSError | None = None
    try:
        async with asyncio.timeout(limit):
            for number, (kind, style, protocol, _, where) in enumerate(found):
                sock = socket.socket(kind, style, protocol)
                sock.setblocking(False)
                try:
                    # One address that swallows packets must leave time for the others.
                    async with asyncio.timeout(limit / (len(found) - number)):
                        await loop.sock_connect(sock, where)
                    return sock
                except OSError as error:
                    sock.close()
                    wrong = error
                    refused = error if error.errno == errno.ECONNREFUSED else refused
                except BaseException:
                    sock.close()
                    raise
    except TimeoutError:
        wrong = None
    if refused is not None:
        raise Unreachable(
            f"{host} answers, and nothing listens on its port {port} (connection refused)",
            phase="tcp",
            where=target.name,
            hint=f"see whether the port is right{_place(target, 'port')}; a host just started may need a minute",
        )
    if wrong is None or isinstance(wrong, TimeoutError):
        raise Unreachable(
            f"{host} did not answer on port {port} within {limit:g} s",
            phase="tcp",
            where=target.name,
            hint=f"see whether the host is up and its address right{_place(target, 'address')}; a firewall may drop it",
        )
    raise Unreachable(
        f"there is no way to {host}: {os.strerror(wrong.errno) if wrong.errno else wrong}",
        phase="tcp",
        where=target.name,
        hint=f"see whether the address is right{_place(target, 'address')}, the host up, and this machine on the net",
    )


async def _name_keys(
    failed: AuthenticationFailed, target: SshTarget, options: asyncssh.SSHClientConnectionOptions
) -> None:
    """Say which keys were offered, and which could not be for want of a passphrase."""
    words, locked = await keys_tried(target, options)
    sources = [f"the keys {words}"] if words else []
    sources += ["the password of the inventory"] if target.password is not None else []
    failed.message += f"; tried: {' and '.join(sources)}" if sources else "; there was none to try"
    if locked:
        names = " ".join(map(str, locked))
        place = target.written.get("key")
        failed.message += f"; {names} needs a passphrase, and no agent holds it"
        failed.hint = f"give it to the agent: ssh-add {names}" + (f" (key at {place})" if place else "")


def _place(target: SshTarget, setting: str) -> str:
    place = target.written.get(setting)
    return f" ({setting} at {place})" if place else ""


def _failed(target: SshTarget, watch: _Watch, error: Exception) -> Unreachable:
    address, where = target.address, target.name
    said = str(error) or type(error).__name__
    if watch.judge.refusal is not None:
        return watch.judge.refusal
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return HostKeyRefused(f"the host key of {address} was not accepted: {said}", phase="key-exchange", where=where)
    if isinstance(error, asyncssh.PermissionDenied):
        return AuthenticationFailed(
            f"{address} took none of the keys or passwords for the user {watch.username}",
            phase="authentication",
            where=where,
            output=watch.banner.strip(),
            hint="check the user and the key; a new instance may take some minutes until it knows the key",
        )
    if isinstance(error, asyncssh.ChannelOpenError):
        return Unreachable(f"the jump host cannot reach {address}: {said}", phase="tcp", where=where)
    if not watch.connected.is_set():
        return Unreachable(f"cannot connect to {address}: {said}", phase="tcp", where=where)
    if not watch.keyed.is_set():
        version = watch.connection.get_extra_info("server_version") if watch.connection is not None else None
        if isinstance(error, asyncssh.ConnectionLost | ConnectionError) and not version:
            return _Dropped(
                f"{address} closed the connection before an ssh server had answered: {said}",
                phase="key-exchange",
                where=where,
                hint="the server may be limiting new connections (MaxStartups), or still be starting",
            )
        return Unreachable(f"no key exchange with {address}: {said}", phase="key-exchange", where=where)
    return Unreachable(
        f"{address} ended the connection during authentication: {said}",
        phase="authentication",
        where=where,
        output=watch.banner.strip(),
        hint="too many keys may have been offered (MaxAuthTries): name the right one with key",
    )
