"""A host, and the inventory that holds all of them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gpuprov.errors import InputError, Position, Problem
from gpuprov.inventory.patterns import match, unknown_names
from gpuprov.model import Paths
from gpuprov.secret import Secret
from gpuprov.yaml_text import Node

Connection = Literal["ssh", "local"]
Become = Literal["auto", "never"]


@dataclass(frozen=True, kw_only=True)
class PasswordSource:
    """Where a password comes from; never the password. Exactly one of env, file and command is set."""

    env: str = ""
    file: Path | None = None
    command: tuple[str, ...] = ()
    position: Position = field(compare=False)

    def read(self, *, deadline: float = 30.0) -> Secret:
        """Return the password: the variable, or the first line of the file or of what the command prints.

        Blocks for as long as the command runs, at most ``deadline`` seconds.

        Raises:
            InputError: there is none, or it cannot be had. What the command printed is not told.
        """
        try:
            text = self._content(deadline)
        except subprocess.TimeoutExpired:
            raise self._wrong(f"gave no password in {deadline:g} s") from None
        except subprocess.CalledProcessError as error:
            raise self._wrong(f"ended with status {error.returncode}") from None
        except OSError as error:
            raise self._wrong(f"cannot be read: {error.strerror}") from None
        lines = text.splitlines()
        if not lines or not lines[0]:
            if self.env:
                state = "is empty" if self.env in os.environ else "is not set"
                raise self._wrong(f"holds no password: it {state}", f"set it where gpuprov runs: export {self.env}=…")
            raise self._wrong("holds no password", "its first line is the password")
        return Secret(lines[0])

    def _content(self, deadline: float) -> bytes:
        if self.env:
            return os.environb.get(self.env.encode(), b"")
        if self.file is not None:
            return self.file.read_bytes()
        return subprocess.run(
            self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=deadline, check=True
        ).stdout

    def _wrong(self, message: str, hint: str = "") -> InputError:
        if self.env:
            source = f"the environment variable {self.env!r}"
        elif self.file is not None:
            source = f"the file {str(self.file)!r}"
        else:
            source = f"the command {self.command[0]!r}"
        return InputError(Problem(f"{source}, which is to give the password, {message}", self.position, hint))


@dataclass(frozen=True, kw_only=True)
class Host:
    """One host, with everything that defaults, groups and its own entry say about it.

    Attributes:
        address: host name or IP; the name when none was given.
        port, user, key, known_hosts: None when unset, so that the ssh config decides.
        jump: the name of another inventory host, or ``[user@]host[:port]``.
        host_key: the only fingerprint that is accepted, ``SHA256:…``.
        gpu: the card expected, for instances started without it.
        become: ``auto`` uses passwordless sudo where the user is not root.
        groups: all groups it is in, those that hold its groups included: outermost first, as they were merged.
        vars: as written; values may hold templates.
        written: where a setting stands that a message may have to name: ``key``, ``paths.cache``.
    """

    name: str
    address: str
    port: int | None = None
    user: str | None = None
    key: Path | None = None
    password: PasswordSource | None = None
    jump: str | None = None
    connection: Connection = "ssh"
    known_hosts: Path | None = None
    host_key: str | None = None
    gpu: str | None = None
    become: Become = "auto"
    groups: tuple[str, ...] = ()
    vars: Mapping[str, Node] = field(default_factory=dict)
    paths: Paths = field(default_factory=Paths)
    written: Mapping[str, Position] = field(default_factory=dict, compare=False)
    position: Position = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """All hosts by name, in the order of the files, and the hosts of every group.

    Attributes:
        problems: what is wrong in its files; none in one that is used.
        names_known: all names of hosts and groups could be read.
        vars_known: so could all variables, and who is in which group.
    """

    hosts: Mapping[str, Host]
    groups: Mapping[str, tuple[str, ...]]
    problems: tuple[Problem, ...] = ()
    names_known: bool = True
    vars_known: bool = True

    def select(self, pattern: str, position: Position | None = None) -> tuple[Host, ...]:
        """Return the hosts that a pattern names, in inventory order. See `gpuprov.inventory.patterns`.

        ``position`` says where the pattern is written.

        Raises:
            InputError: a name in it is unknown, or it matches no host.
        """
        chosen = match(pattern, tuple(self.hosts), self.groups, position)
        return tuple(self.hosts[name] for name in chosen)

    def pattern_problems(self, pattern: str, position: Position | None = None) -> tuple[Problem, ...]:
        """Return what is wrong with a pattern, as far as that can be said of an inventory with mistakes."""
        if not self.names_known:
            return ()
        if not self.vars_known:
            return unknown_names(pattern, tuple(self.hosts), self.groups, position)
        try:
            self.select(pattern, position)
        except InputError as error:
            return error.problems
        return ()
