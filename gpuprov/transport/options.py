"""What is offered to a host's ssh server: the ssh config, keys and algorithms as asyncssh options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import asyncssh

from gpuprov.errors import InputError, Problem
from gpuprov.secret import Secret
from gpuprov.text_file import no_key_file
from gpuprov.transport.hostkeys import DEFAULT_FILE
from gpuprov.transport.keys import is_encrypted, public_key, tried, why_no_key
from gpuprov.transport.target import SshTarget, jump_targets

# Cheap first, for the sake of a controller that opens hundreds of lines; whatever else is secure stays allowed.
_KEX_FIRST = "^curve25519-sha256,curve25519-sha256@libssh.org"
_CIPHERS_FIRST = "^aes128-gcm@openssh.com,chacha20-poly1305@openssh.com"


@dataclass(kw_only=True)
class Keepalive:
    """How a dead line is noticed: after ``count`` times ``interval`` seconds without an answer."""

    interval: float = 15.0
    count: int = 3


def options_for(
    target: SshTarget, password: Secret | None, keepalive: Keepalive
) -> asyncssh.SSHClientConnectionOptions:
    """Return all options but the address's own.

    Raises:
        InputError: the ssh config or a key file cannot be used.
    """
    given: dict[str, object] = {}
    if target.config is not None:
        given["config"] = [str(file) for file in target.config]
    if target.port is not None:
        given["port"] = target.port
    if target.user is not None:
        given["username"] = target.user
    try:
        bare = asyncssh.SSHClientConnectionOptions(host=target.address, client_keys=None, **given)
        if not bare.config.get("KexAlgorithms"):
            given["kex_algs"] = _KEX_FIRST
        if not bare.config.get("Ciphers"):
            given["encryption_algs"] = _CIPHERS_FIRST
        given |= _credentials(target, password, bare)
        return asyncssh.SSHClientConnectionOptions(
            host=target.address,
            compression_algs=("zlib@openssh.com", "none"),
            gss_host=None,
            gss_kex=False,
            gss_auth=False,
            host_based_auth=False,
            tunnel=None,
            x509_trusted_certs=None,
            agent_forwarding=False,
            env=None,
            send_env=None,
            request_pty=False,
            command=None,
            encoding=None,
            keepalive_interval=keepalive.interval,
            keepalive_count_max=keepalive.count,
            # Our own phase timers are the ones that count, and they say which phase it was.
            connect_timeout=None,
            login_timeout=0,
            **given,
        )
    except InputError:
        raise
    except (ValueError, OSError, asyncssh.Error) as error:
        raise InputError(f"{target.name}: the ssh config or a key cannot be used: {error}") from None


def _credentials(
    target: SshTarget, password: Secret | None, bare: asyncssh.SSHClientConnectionOptions
) -> dict[str, object]:
    """What is offered, and nothing more: each key the server refuses costs a round trip."""
    given: dict[str, object] = {}
    methods = ["publickey"]
    if password is not None:
        given["password"] = password.reveal().decode("utf-8", "surrogateescape")
        methods += ["keyboard-interactive", "password"]
    if not bare.config.get("PreferredAuthentications"):
        given["preferred_auth"] = methods
    files = target.keys or tuple(Path(name) for name in cast(list[str], bare.config.get("IdentityFile", [])))
    files = tuple(file.expanduser() for file in files)
    missing = [file for file in files if no_key_file(file)]
    if target.keys and missing:
        raise InputError(Problem(f"{target.name}: {no_key_file(missing[0])}", target.written.get("key")))
    present = [file for file in files if file not in missing]
    if not target.keys:
        if present:
            given["client_keys"] = [str(file) for file in present]
            given["ignore_encrypted"] = True
        elif files:
            # To asyncssh this means the usual files where they exist, beside the agent's keys.
            given["client_keys"] = []
        return given
    plain = [str(file) for file in present if not _is_encrypted(file, target)]
    locked = [str(file) for file in present if str(file) not in plain]
    if locked:
        given |= {"client_keys": plain + locked, "ignore_encrypted": True}
        # An old PEM file shows its public key to nobody: where none lies beside it, any key of the agent may be its.
        if all(public := [public_key(Path(file)) for file in locked]):
            given["agent_identities"] = public
    else:
        given |= {"client_keys": plain, "agent_path": None}
    return given


def _is_encrypted(file: Path, target: SshTarget) -> bool:
    try:
        asyncssh.read_private_key(str(file))
    except asyncssh.KeyImportError as error:
        if is_encrypted(error):
            return True
        message, hint = why_no_key(file)
        raise InputError(Problem(f"{target.name}: {message}", target.written.get("key"), hint)) from None
    except OSError:
        message, hint = why_no_key(file)
        raise InputError(Problem(f"{target.name}: {message}", target.written.get("key"), hint)) from None
    return False


async def keys_tried(target: SshTarget, options: asyncssh.SSHClientConnectionOptions) -> tuple[str, list[Path]]:
    """Return in words which keys were offered to a server, and the files that need a passphrase and were not."""
    files = [file for file in key_files(target, options) if file.is_file()]
    return await tried(files, agent=not target.keys)


def key_files(target: SshTarget, options: asyncssh.SSHClientConnectionOptions) -> tuple[Path, ...]:
    """Return the private key files that count for a target, whether they are there or not."""
    files = target.keys or tuple(Path(name) for name in cast(list[str], options.config.get("IdentityFile", [])))
    if not files:
        files = tuple(Path("~/.ssh", name) for name in ("id_ed448", "id_ed25519", "id_ecdsa", "id_rsa", "id_dsa"))
    return tuple(file.expanduser() for file in files)


def jump_for(target: SshTarget, options: asyncssh.SSHClientConnectionOptions) -> SshTarget | None:
    """Return the jump host of a target, if it has one: its own, or the ssh config's ProxyJump. Raises InputError."""
    if isinstance(target.jump, SshTarget):
        return target.jump
    words = target.jump if target.jump is not None else cast(str | None, options.config.get("ProxyJump"))
    return jump_targets(words, like=target) if words else None


def known_hosts_files(target: SshTarget, options: asyncssh.SSHClientConnectionOptions) -> tuple[Path, ...]:
    """Return the known_hosts files that count for a target; the first is the one written to."""
    if target.known_hosts:
        return target.known_hosts
    named = cast(list[str] | None, options.config.get("UserKnownHostsFile")) or []
    # `UserKnownHostsFile /dev/null` is how people switch checking off: it is not how it is switched off here.
    return tuple(Path(name) for name in named if name != "/dev/null") or (DEFAULT_FILE,)
