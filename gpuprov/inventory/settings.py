"""What may be said of a host: read from ``defaults``, a group or the host itself, and laid over each other."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, cast

from gpuprov.errors import Position
from gpuprov.inventory.hosts import Become, Connection, PasswordSource
from gpuprov.inventory.reader import Reader
from gpuprov.inventory.variables import read_variables
from gpuprov.model import Paths, normal_path
from gpuprov.text_file import no_key_file
from gpuprov.yaml_text import Mapping as TextMapping
from gpuprov.yaml_text import Node, Scalar, describe

COMMON_KEYS = ("user", "port", "key", "password", "jump", "connection", "known_hosts", "gpu", "become", "vars", "paths")
"""What may stand in ``defaults``, in a group and in a host."""
HOST_KEYS = ("address", *COMMON_KEYS, "host_key", "groups")
GROUP_KEYS = ("hosts", "children", *COMMON_KEYS)

_PATH_KEYS = tuple(f.name for f in dataclasses.fields(Paths))
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}=?")
_ADDRESS = re.compile(r"[\w.:%-]+")
_UNPRINTABLE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")

_ANSIBLE = {
    "host": "'address'",
    "ssh_host": "'address'",
    "port": "'port'",
    "ssh_port": "'port'",
    "user": "'user'",
    "ssh_user": "'user'",
    "ssh_private_key_file": "'key'",
    "private_key_file": "'key'",
    "password": "'password: {env: NAME}'",
    "ssh_pass": "'password: {env: NAME}'",
    "ssh_password": "'password: {env: NAME}'",
    "connection": "'connection: ssh' or 'connection: local'",
    "ssh_common_args": "'jump', 'key' or 'known_hosts'",
    "ssh_extra_args": "'jump', 'key' or 'known_hosts'",
    "become": "'become: auto' or 'become: never'",
}
_ANSIBLE_NEEDLESS = {
    "timeout": "give it on the command line: --timeout S",
    "ssh_timeout": "give it on the command line: --timeout S",
    "ssh_retries": "give it on the command line: --reconnect-for S",
    "host_key_checking": "host keys are always checked; that of a new host is taken with --accept-new",
    "ssh_host_key_checking": "host keys are always checked; that of a new host is taken with --accept-new",
    "pipelining": "leave it out: everything goes through one shell",
    "ssh_pipelining": "leave it out: everything goes through one shell",
    "become_exe": "sudo without a password is the only way",
    "become_flags": "sudo without a password is the only way",
    "shell_executable": "leave it out: any POSIX sh will do",
    "become_method": "sudo without a password is the only way",
    "become_user": "it is always root",
    "become_password": "sudo without a password is the only way",
    "become_pass": "sudo without a password is the only way",
    "python_interpreter": "leave it out: nothing on the host needs Python",
    "shell_type": "leave it out: any POSIX sh will do",
}
_OTHER_WORDS = {
    "address": ("host", "hostname", "host_name", "ip", "ip_address", "fqdn", "server"),
    "user": ("username", "login", "remote_user"),
    "key": ("private_key", "private_key_file", "key_file", "identity", "identity_file", "identityfile", "ssh_key"),
    "jump": ("proxy_jump", "proxyjump", "bastion", "gateway"),
    "become": ("sudo",),
    "vars": ("variables",),
}
_MEANT = {word: key for key, words in _OTHER_WORDS.items() for word in words}


def other_word(key: str) -> str:
    """Return what a setting is called here that goes by another word elsewhere; empty for any other key."""
    return _MEANT.get(key.lower(), "")


def other_word_hint(key: str) -> str:
    """Return the hint for such a word; empty for any other key."""
    meant = other_word(key)
    return f"here it is {meant!r}{' of a host' if meant == 'address' else ''}" if meant else ""


def ansible_hint(key: str) -> str:
    """Return what to write instead of one of Ansible's connection variables; empty for any other key."""
    name = key.removeprefix("ansible_")
    if name == key:
        return ""
    if name in _ANSIBLE:
        return f"that is Ansible's; here it is {_ANSIBLE[name]} of the host, a group or 'defaults'"
    return _ANSIBLE_NEEDLESS.get(name, "")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One layer of what is said of a host. None: not said here."""

    address: str | None = None
    port: int | None = None
    user: str | None = None
    key: Path | None = None
    password: PasswordSource | None = None
    jump: Scalar | None = None
    connection: Connection | None = None
    known_hosts: Path | None = None
    host_key: str | None = None
    gpu: str | None = None
    become: Become | None = None
    vars: Mapping[str, Node] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)
    written: Mapping[str, Position] = field(default_factory=dict)

    def over(self, below: Settings) -> Self:
        """Return this laid over ``below``: what is said here wins, vars, paths and places key by key."""
        unsaid = {f.name: getattr(below, f.name) for f in dataclasses.fields(self) if getattr(self, f.name) is None}
        return dataclasses.replace(
            self,
            **unsaid,
            vars={**below.vars, **self.vars},
            paths={**below.paths, **self.paths},
            written={**below.written, **self.written},
        )


def read_settings(fields: Mapping[str, Node], reader: Reader, folder: Path) -> Settings:
    """Read the settings among ``fields``. Relative paths of the controller count from ``folder``."""
    found: dict[str, Any] = {}
    written: dict[str, Position] = {}
    for name, node in fields.items():
        if name in _READERS:
            lost = reader.lost
            found[name] = _READERS[name](node, reader, folder)
            if name != "vars":
                reader.lost = lost  # a setting that was not understood hides nothing that others refer to
            written[name] = node.position
    for name in found.get("paths", ()):
        written[f"paths.{name}"] = _place_within(fields["paths"], name)
    return Settings(**found, written=written)


def _place_within(node: Node, name: str) -> Position:
    value = node.get(name) if isinstance(node, TextMapping) else None
    return (value or node).position


def _address(node: Node, reader: Reader, _: Path) -> str | None:
    text = reader.text(node, "address")
    if text is None:
        return None
    if _ADDRESS.fullmatch(text) and not text.startswith("-"):
        if re.fullmatch(r"[^:]+:\d+", text):
            reader.wrong(node, f"address must be a host name or IP, not {text!r}", "the port goes under 'port'")
            return None
        return text
    hint = "the user goes under 'user'" if "@" in text else ""
    reader.wrong(node, f"address must be a host name or IP, not {describe(node)}", hint)
    return None


def _port(node: Node, reader: Reader, _: Path) -> int | None:
    port = port_number(node.text) if isinstance(node, Scalar) else None
    if port is None:
        reader.wrong(node, f"port must be a number from 1 to 65535, not {describe(node)}")
    return port


@dataclass(frozen=True)
class Endpoint:
    """What ``[user@]host[:port]`` says."""

    address: str
    user: str | None = None
    port: int | None = None


def endpoint(text: str) -> Endpoint | None:
    """Read ``[user@]host[:port]``, an IPv6 address in brackets; None if it is not that."""
    found = re.fullmatch(
        r"(?:(?P<user>.+)@)?(?:\[(?P<six>[0-9A-Fa-f:.%\w]+)\]|(?P<name>[\w.%-]+))(?::(?P<port>.*))?", text
    )
    if not found:
        return None
    address, user = found["six"] or found["name"], found["user"]
    port = port_number(found["port"]) if found["port"] is not None else None
    if address.startswith("-") or (user is not None and not is_user(user)) or (found["port"] is not None and not port):
        return None
    return Endpoint(address, user, port)


def port_number(text: str) -> int | None:
    """Return the number of a TCP port, or None if the text is none."""
    return int(text) if re.fullmatch(r"[0-9]{1,5}", text) and 1 <= int(text) <= 65535 else None


def is_user(text: str) -> bool:
    """Say whether the text can be a login name: not empty, no blanks, no leading ``-``."""
    return bool(text) and not text.startswith("-") and not _UNPRINTABLE.search(text)


def _user(node: Node, reader: Reader, _: Path) -> str | None:
    text = reader.text(node, "user")
    if text is not None and not is_user(text):
        reader.wrong(node, f"user must be a name without blanks or a leading '-', not {describe(node)}")
    return text


def _controller_path(node: Node, what: str, reader: Reader, folder: Path) -> Path | None:
    text = reader.text(node, what)
    if text is None:
        return None
    try:
        return folder / (Path(text).expanduser() if text.startswith("~/") else Path(text))
    except RuntimeError:
        reader.wrong(node, f"{what} begins with '~/', but there is no home folder")
        return None


def _key(node: Node, reader: Reader, folder: Path) -> Path | None:
    path = _controller_path(node, "key", reader, folder)
    if path is not None and (message := no_key_file(path)):
        reader.wrong(node, message, "leave 'key' out to let the ssh config decide")
    return path


def _known_hosts(node: Node, reader: Reader, folder: Path) -> Path | None:
    return _controller_path(node, "known_hosts", reader, folder)


def _password(node: Node, reader: Reader, folder: Path) -> PasswordSource | None:
    ways = "{env: NAME}, {file: PATH} or {command: [WORDS]}"
    if isinstance(node, Scalar):
        # Whatever stands there may be the password, so it is in no message.
        reader.wrong(node, "a password is never written down here", f"say where it comes from: password: {ways}")
        return None
    before = len(reader.problems)
    fields = reader.fields(node, "password", ("env", "file", "command"))
    if len(fields) != 1:
        if len(reader.problems) == before:
            reader.wrong(node, "password must have exactly one source", ways)
        return None
    [(way, value)] = fields.items()
    if way == "command":
        words = tuple(word.text for word in reader.words(value, "command"))
        if not words:
            reader.wrong(value, "command must be a list of words")
            return None
        return PasswordSource(command=words, position=node.position)
    if way == "file":
        path = _controller_path(value, "file", reader, folder)
        return PasswordSource(file=path, position=node.position) if path else None
    name = reader.text(value, "env")
    if name is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        reader.wrong(value, "env must be the name of an environment variable")
        return None
    return PasswordSource(env=name, position=node.position) if name else None


def _jump(node: Node, reader: Reader, _: Path) -> Scalar | None:
    return node if reader.text(node, "jump") is not None and isinstance(node, Scalar) else None


def _connection(node: Node, reader: Reader, _: Path) -> Connection | None:
    return cast(Connection | None, reader.choice(node, "connection", ("ssh", "local")))


def _become(node: Node, reader: Reader, _: Path) -> Become | None:
    return cast(Become | None, reader.choice(node, "become", ("auto", "never")))


def _host_key(node: Node, reader: Reader, _: Path) -> str | None:
    text = reader.text(node, "host_key")
    if text is not None and not _FINGERPRINT.fullmatch(text):
        hint = "ssh-keyscan HOST | ssh-keygen -lf - prints it"
        reader.wrong(node, f"host_key must be a fingerprint 'SHA256:' and 43 characters, not {describe(node)}", hint)
    return text.rstrip("=") if text is not None else None


def _gpu(node: Node, reader: Reader, _: Path) -> str | None:
    return reader.text(node, "gpu")


def _vars(node: Node, reader: Reader, _: Path) -> Mapping[str, Node]:
    return read_variables(node, reader, hint=ansible_hint)


def _paths(node: Node, reader: Reader, _: Path) -> Mapping[str, str]:
    found = {}
    for name, value in reader.fields(node, "paths", _PATH_KEYS).items():
        text = reader.text(value, name)
        if text is not None and (path := _host_path(text)) is not None:
            found[name] = path
        elif text is not None:
            reader.wrong(value, f"{name} must be an absolute path or begin with '~/', not {describe(value)}")
    return found


def _host_path(text: str) -> str | None:
    home = text.startswith("~/")
    try:
        normal = normal_path(text[1:] if home else text)
    except ValueError:
        return None
    if ".." in text.split("/") or (home and normal == "/"):
        return None
    return "~" + normal if home else normal


_READERS: Mapping[str, Any] = {
    "address": _address,
    "port": _port,
    "user": _user,
    "key": _key,
    "password": _password,
    "jump": _jump,
    "connection": _connection,
    "known_hosts": _known_hosts,
    "host_key": _host_key,
    "gpu": _gpu,
    "become": _become,
    "vars": _vars,
    "paths": _paths,
}
