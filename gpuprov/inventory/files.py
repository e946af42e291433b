"""One inventory file, taken apart: what it says of hosts and groups, before anything is laid over anything."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuprov.errors import InputError, Position, Problem
from gpuprov.inventory.reader import Reader
from gpuprov.inventory.settings import (
    COMMON_KEYS,
    GROUP_KEYS,
    HOST_KEYS,
    Settings,
    ansible_hint,
    endpoint,
    other_word,
    other_word_hint,
    read_settings,
)
from gpuprov.text_file import position_at, read_text
from gpuprov.yaml_text import Mapping, Node, Scalar, closest, is_null, read
from gpuprov.yaml_text import Sequence as TextSequence

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_INI = re.compile(r"^(?:\[[\w.-]+(?::(?:vars|children))?\]\s*$|[\w.-]+\s+ansible_\w+\s*=)", re.MULTILINE)
"""A section, or a host with a variable."""
_TOP_KEYS = ("defaults", "hosts", "groups")


@dataclass(frozen=True)
class HostEntry:
    """What one place says of a host."""

    name: Scalar
    settings: Settings = field(default_factory=Settings)
    groups: tuple[Scalar, ...] = ()


@dataclass(frozen=True)
class GroupEntry:
    """What one place says of a group."""

    name: Scalar
    settings: Settings
    hosts: tuple[Scalar, ...]
    children: tuple[Scalar, ...]


@dataclass(frozen=True)
class Source:
    """What one file says. ``start`` is its first character; ``named``: all names of hosts and groups could be read."""

    start: Position
    named: bool = True
    defaults: Settings = field(default_factory=Settings)
    hosts: tuple[HostEntry, ...] = ()
    groups: tuple[GroupEntry, ...] = ()


def files_of(path: Path) -> list[Path]:
    """Return the file itself, or the ``*.yaml`` and ``*.yml`` of a folder in the order of their names.

    Raises:
        InputError: nothing is there, or the folder holds no such file.
    """
    try:
        if not path.is_dir():
            found = [path] if path.exists() else []
            missing = f"there is no inventory {str(path)!r}"
            hint = f"to name a host and not a file, end it with a comma: '{path},'"
        else:
            inside = sorted(path.iterdir())
            found = [p for p in inside if p.suffix in (".yaml", ".yml") and not p.name.startswith(".") and p.is_file()]
            missing, hint = f"the folder {str(path)!r} holds no *.yaml or *.yml", ""
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror}") from None
    if not found:
        raise InputError(missing, hint=hint)
    return found


def read_file(path: Path, reader: Reader) -> Source | None:
    """Read one inventory file. Its mistakes go to ``reader``; None if it could not be read as YAML at all."""
    try:
        text = read_text(path)
    except InputError as error:
        reader.problems += error.problems
        return None
    try:
        node, slips = read(text, str(path))
    except InputError as error:
        # That it is no YAML either only follows
        reader.problems += [ini] if (ini := _ini_problem(text, path)) else error.problems
        return None
    if not isinstance(node, Mapping) and (ini := _ini_problem(text, path)):
        reader.problems.append(ini)
        return None
    reader.problems += slips
    return read_source(node, str(path), path.parent, reader)


def _ini_problem(text: str, path: Path) -> Problem | None:
    found = _INI.search(text)
    if not found:
        return None
    message, hint = "this looks like an Ansible inventory in INI form", "write YAML: hosts: {NAME: {address: IP}}"
    return Problem(message, position_at(text, found.start(), str(path)), hint)


def read_source(node: Node | None, file: str, folder: Path, reader: Reader) -> Source:
    """Take an inventory apart. Relative paths in it count from ``folder``."""
    start = Position(file, 1, 1)
    if node is None:
        return Source(start)
    lost = reader.lost
    top = reader.fields(node, "the inventory", _TOP_KEYS, _top_hint, hint=_no_inventory_hint(node, file))
    named = reader.lost == lost
    defaults = Settings()
    if "defaults" in top:
        defaults = read_settings(_fields(top["defaults"], "'defaults'", COMMON_KEYS, reader), reader, folder)
    hosts = tuple(_hosts(top["hosts"], reader, folder)) if "hosts" in top else ()
    groups = tuple(_groups(top["groups"], reader, folder)) if "groups" in top else ()
    named = named and _all_named(top, "hosts", hosts) and _all_named(top, "groups", groups)
    return Source(start, named, defaults, hosts, groups)


def _all_named(top: dict[str, Node], key: str, found: Collection[object]) -> bool:
    node = top.get(key)
    if node is None or is_null(node):
        return True
    return isinstance(node, Mapping) and len(found) == len(node.entries)


def named_hosts(words: str, reader: Reader) -> Source:
    """Read Ansible's comma form: ``[user@]host[:port],…``. With a port the name is ``host-port``."""
    entries = []
    offset = 0
    named = True
    for word in words.split(","):
        column = offset + len(word) - len(word.lstrip()) + 1
        offset += len(word) + 1
        word = word.strip()
        if not word:
            continue
        position = Position("-i", 1, column)
        found = endpoint(word)
        if found is None:
            named = False
            reader.wrong(position, f"{word!r} is not a host", "write [user@]host[:port]")
            continue
        name = found.address.replace(":", "-").replace("%", "-").strip("-") + (f"-{found.port}" if found.port else "")
        if not _NAME.fullmatch(name):
            named = False
            reader.wrong(position, f"{word!r} cannot be the name of a host", "name it in an inventory file")
            continue
        settings = Settings(address=found.address, user=found.user, port=found.port)
        entries.append(HostEntry(Scalar(name, position), settings))
    return Source(Position("-i", 1, 1), named, hosts=tuple(entries))


def _hosts(node: Node, reader: Reader, folder: Path) -> Iterator[HostEntry]:
    for name, value in reader.entries(node, "'hosts'"):
        fields = _fields(value, f"the host {name.text!r}", HOST_KEYS, reader, hint=_host_hint(name, value))
        settings = read_settings(fields, reader, folder)
        groups = reader.words(fields["groups"], "groups") if "groups" in fields else ()
        if _name_is_right(name, "host", reader):
            yield HostEntry(name, settings, groups)


def _groups(node: Node, reader: Reader, folder: Path) -> Iterator[GroupEntry]:
    for name, value in reader.entries(node, "'groups'"):
        if name.text == "all":
            reader.wrong(name, "no group can be called 'all'", "what is said of all hosts goes under 'defaults'")
            continue
        fields = _fields(value, f"the group {name.text!r}", GROUP_KEYS, reader)
        settings = read_settings(fields, reader, folder)
        hosts, children = (reader.words(fields[key], key) if key in fields else () for key in ("hosts", "children"))
        if _name_is_right(name, "group", reader):
            yield GroupEntry(name, settings, hosts, children)


def _fields(node: Node, what: str, known: Sequence[str], reader: Reader, *, hint: str = "") -> dict[str, Node]:
    lost = reader.lost
    fields = reader.fields(node, what, known, _setting_hint, hint=hint)
    foreign = [name.text for name, _ in node.entries if name.text not in known] if isinstance(node, Mapping) else []
    if foreign and all(_hides_nothing(key, known) for key in foreign):
        reader.lost = lost
    return fields


def _hides_nothing(key: str, known: Sequence[str]) -> bool:
    """Say whether a foreign key was meant to be a setting that nothing else refers to, such as the port."""
    meant = closest(key, known)
    settings = ansible_hint(key) or other_word_hint(key) or meant
    return bool(settings) and not {meant, other_word(key)} & {"vars", "groups", "hosts", "children"}


def _name_is_right(name: Scalar, kind: str, reader: Reader) -> bool:
    if _NAME.fullmatch(name.text) and len(name.text) <= 200 and name.text != "all":
        return True
    message = f"a {kind}'s name is made of letters, digits, '_', '.', '+' and '-', not {name.text[:60]!r}"
    reader.wrong(name, message, "an address goes under 'address'" if kind == "host" else "")
    return False


def _top_hint(key: str, value: Node) -> str:
    if key in ("all", "ungrouped"):
        return "that is Ansible's form; here the file has 'hosts', 'groups' and, for all hosts, 'defaults'"
    if key in ("vars", *COMMON_KEYS):
        return f"for all hosts: defaults: {{{key}: …}}"
    if isinstance(value, Mapping) and {"hosts", "children"} & set(value.keys()):
        return f"a group goes under 'groups': groups: {{{key[:60]}: …}}"
    return ""


def _no_inventory_hint(node: Node, file: str) -> str:
    """Say what a list is that was meant to be an inventory: a playbook, or the names of hosts."""
    items = node.items if isinstance(node, TextSequence) else ()
    if any(isinstance(item, Mapping) and {"hosts", "roles", "tasks"} & set(item.keys()) for item in items):
        return f"it is a playbook: gpuprov plan {file} -i INVENTORY"
    return "write: hosts: {NAME: {address: IP}}"


def _host_hint(name: Scalar, value: Node) -> str:
    """Say how to write a host of which only its address is said."""
    found = endpoint(value.text) if isinstance(value, Scalar) else None
    if found is None:
        return ""
    said = {"address": found.address, "user": found.user, "port": found.port}
    words = ", ".join(f"{key}: {text}" for key, text in said.items() if text is not None)
    return f"write {name.text}: {{{words}}}"


def _setting_hint(key: str, value: Node) -> str:
    if key in ("address", "host_key", "groups"):
        return "only a host has that"
    if key in ("hosts", "children"):
        return "only a group has that"
    return ansible_hint(key) or other_word_hint(key)


def all_words(entries: Collection[GroupEntry], kind: str) -> Iterator[tuple[GroupEntry, Scalar]]:
    """Yield the hosts or the children that group entries name."""
    for entry in entries:
        for word in entry.hosts if kind == "hosts" else entry.children:
            yield entry, word
