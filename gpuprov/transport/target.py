"""Where an ssh connection goes, as plain values: quick to import."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gpuprov.errors import InputError, Position
from gpuprov.secret import Secret

_JUMP = re.compile(r"(?:(?P<user>[^@]+)@)?(?P<host>\[[^\]]+\]|[^:\[\]]+)(?::(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True, kw_only=True)
class SshTarget:
    """One host as ssh sees it. What is None or empty is decided by the ssh config, as ``ssh`` itself would.

    Attributes:
        name: the inventory name, for errors.
        address: host name, IP, or an alias of the ssh config.
        keys: private key files; given, only these are offered (through the agent where they are encrypted).
        password: the password, or what gives it; called in a thread, when first needed, so it may block.
        jump: a target, or ``[user@]host[:port]`` words separated by commas as ProxyJump takes them.
        known_hosts: files that are read; the first is the one that ``accept_new`` writes to.
        host_key: the only fingerprint accepted (``SHA256:…``); then no file is read.
        accept_new: a key of a host that no file knows is written down and accepted; a changed one never is.
        become: ``auto`` uses sudo where the user is not root and sudo asks for no password.
        connect_timeout: seconds for each phase: dns, tcp, key exchange, authentication, session.
        config: ssh config files; None: ``~/.ssh/config`` where there is one.
        written: where in the inventory ``key``, ``port`` and ``address`` stand, for errors.
    """

    name: str
    address: str
    port: int | None = None
    user: str | None = None
    keys: tuple[Path, ...] = ()
    password: Secret | Callable[[], Secret] | None = None
    jump: SshTarget | str | None = None
    known_hosts: tuple[Path, ...] = ()
    host_key: str | None = None
    accept_new: bool = False
    become: Literal["auto", "never"] = "auto"
    connect_timeout: float = 15.0
    config: tuple[Path, ...] | None = None
    written: Mapping[str, Position] = field(default_factory=dict, hash=False, compare=False)


def jump_targets(words: str, *, like: SshTarget) -> SshTarget | None:
    """Return the targets that a ProxyJump names, the last of them first reached through the ones before it.

    ``none`` is None. They share known_hosts, accept_new, timeout and config with ``like``; keys and user are the
    config's, as with ssh.

    Raises:
        InputError: a word is no ``[user@]host[:port]``.
    """
    before: SshTarget | None = None
    if words.strip().lower() == "none":
        return None
    for word in (part.strip().removeprefix("ssh://") for part in words.split(",")):
        match = _JUMP.fullmatch(word)
        if match is None:
            raise InputError(f"{like.name}: not a jump host: {word!r}", hint="write it as [user@]host[:port]")
        before = SshTarget(
            name=word,
            address=match["host"].strip("[]"),
            port=int(match["port"]) if match["port"] else None,
            user=match["user"],
            jump=before,
            known_hosts=like.known_hosts,
            accept_new=like.accept_new,
            become="never",
            connect_timeout=like.connect_timeout,
            config=like.config,
        )
    return before
