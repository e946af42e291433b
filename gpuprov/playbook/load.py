"""Reading a playbook: every mistake of the file at once, templates and conditions included."""

from __future__ import annotations

import re
from pathlib import Path

from gpuprov import yaml_text
from gpuprov.errors import InputError, Position
from gpuprov.inventory.reader import Reader
from gpuprov.inventory.variables import read_variables
from gpuprov.playbook import ansible
from gpuprov.playbook.compiled import is_template
from gpuprov.playbook.plays import Play, Playbook, RoleEntry
from gpuprov.playbook.templating import Expression, names
from gpuprov.text_file import read_text
from gpuprov.yaml_text import Node, Scalar, closest, describe, in_order, is_null, nearest

_PLAY_KEYS = ("name", "hosts", "vars", "tags", "when", "roles")
_ENTRY_KEYS = ("role", "with", "tags", "when")
_ROLE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_PAIR = re.compile(r"(?:^|\s)([A-Za-z_]\w*)\s*=\s*([^\s\"']*)")
_TAG = re.compile(r"[\w.-]+")
_EXAMPLE = "write '- hosts: all' and below it 'roles: [...]'"


def load_playbook(path: Path) -> Playbook:
    """Read a playbook.

    Raises:
        InputError: the file cannot be read, or with all mistakes in it.
    """
    playbook = read_playbook(path)
    if playbook.problems:
        raise InputError(playbook.problems)
    return playbook


def read_playbook(path: Path) -> Playbook:
    """Read a playbook as `load_playbook` does, with all mistakes in ``problems`` of the answer.

    What holds mistakes is there as far as it could be read, so that what refers to it can be judged as well.
    """
    reader = Reader()
    try:
        node, slips = yaml_text.read(read_text(path), str(path))
    except InputError as error:
        reader.problems += error.problems
        items: tuple[Node, ...] = ()
    else:
        reader.problems += slips
        items = _items(node, Position(str(path), 1, 1), reader)
    plays = tuple(play for item in items if (play := _play(item, reader)) is not None)
    whole = bool(plays) and len(plays) == len(items)
    return Playbook(path=path, plays=plays, problems=tuple(in_order(reader.problems)), whole=whole)


def _items(node: Node | None, start: Position, reader: Reader) -> tuple[Node, ...]:
    if node is None or is_null(node) or (isinstance(node, yaml_text.Sequence) and not node.items):
        reader.wrong(start, "the playbook holds no play", _EXAMPLE)
    elif not isinstance(node, yaml_text.Sequence):
        reader.wrong(node, f"a playbook is a list of plays, not {describe(node)}", _EXAMPLE)
    return node.items if isinstance(node, yaml_text.Sequence) else ()


def _play(node: Node, reader: Reader) -> Play | None:
    if not isinstance(node, yaml_text.Mapping):
        reader.wrong(node, f"a play is a mapping, not {describe(node)}", _EXAMPLE)
        return None
    fields = reader.fields(node, "a play", _PLAY_KEYS, lambda key, _: ansible.PLAY.get(key, ""))
    unread = _meant(node) - set(fields)
    for key in ("hosts", "roles"):
        if key not in fields and key not in unread:
            reader.wrong(node, f"the play has no {key!r}", _EXAMPLE)
            unread.add(key)
    name = reader.text(fields["name"], "name") if "name" in fields else None
    before = len(reader.problems)
    hosts = _hosts(fields["hosts"], reader) if "hosts" in fields else ""
    if len(reader.problems) > before:
        unread.add("hosts")
    lost = reader.lost
    variables = read_variables(fields["vars"], reader) if "vars" in fields else {}
    if reader.lost > lost:
        unread.add("vars")
    for value in variables.values():
        _check_templates(value, reader)
    lost = reader.lost
    items = reader.items(fields["roles"], "roles") if "roles" in fields else ()
    if reader.lost > lost:
        unread.add("roles")
    roles = tuple(entry for item in items if (entry := _entry(item, reader)) is not None)
    if len(roles) < len(items):
        unread.add("roles")
    before = len(reader.problems)
    tags = _tags(fields, reader)
    if len(reader.problems) > before:
        unread.add("tags")
    return Play(
        name=name or hosts,
        hosts=hosts,
        vars=variables,
        roles=roles,
        tags=tags,
        when=_when(fields, reader),
        unread=frozenset(unread),
        position=node.position,
        hosts_position=fields["hosts"].position if "hosts" in fields else node.position,
    )


def _meant(node: yaml_text.Mapping) -> set[str]:
    """Return which keys of a play those that it does not have stand for: what is behind them is not missing."""
    foreign = [name.text for name, _ in node.entries if name.text not in _PLAY_KEYS]
    meant = {part for key in foreign for part in ansible.STANDS_FOR.get(key, ())}
    return meant | {closest(key, _PLAY_KEYS) for key in foreign if key not in ansible.PLAY} - {""}


def _hosts(node: Node, reader: Reader) -> str:
    words = reader.words(node, "hosts")
    if not words and (is_null(node) or isinstance(node, yaml_text.Sequence)):
        reader.wrong(node, "hosts names no host", "write a host, a group, a pattern or 'all'")
    for word in words:
        if is_template(word.text):
            reader.wrong(word, "hosts cannot be a template", "name a group, and choose among its hosts with --limit")
    return ",".join(word.text for word in words)


def _entry(node: Node, reader: Reader) -> RoleEntry | None:
    """Read a bare name, ``name: {params}`` or the long form with ``role``."""
    if isinstance(node, Scalar) and not is_null(node):
        return _named(node, None, {}, node.position, reader)
    if not isinstance(node, yaml_text.Mapping) or not node.entries:
        reader.wrong(node, f"a role is a name or a mapping, not {describe(node)}", "write '- name: {parameters}'")
        return None
    if node.get("role") is not None:
        fields = reader.fields(node, "a role in long form", _ENTRY_KEYS, _entry_hint)
        own = {name.text for name, _ in node.entries} - {*_ENTRY_KEYS, *(ansible.ENTRY.keys() - ansible.PARAMETERS)}
        unread = frozenset({"params", "tags"} if own else ())
        role = fields["role"]
        if not isinstance(role, Scalar) or is_null(role):
            reader.wrong(role, f"role must be a name, not {describe(role)}")
            return None
        return _named(role, fields.get("with"), fields, node.position, reader, unread)
    if len(node.entries) > 1:
        first, second = node.entries[0][0], node.entries[1][0]
        if second.text in _ENTRY_KEYS:
            hint = f"write 'role: {first.text[:60]}' with 'with', 'tags' and 'when' beside it"
        else:
            hint = f"indent the parameters below {first.text[:60]!r}"
        reader.wrong(second, f"{second.text!r} stands beside the role {first.text!r}", hint)
        return _named(first, None, {}, node.position, reader, frozenset({"params", "tags"}))
    [(name, params)] = node.entries
    return _named(name, params, {}, node.position, reader)


def _entry_hint(key: str, _: Node) -> str:
    if key in ansible.ENTRY:
        return ansible.ENTRY[key]
    return nearest(key, _ENTRY_KEYS) or f"a parameter goes under 'with': with: {{{key[:60]}: …}}"


def _named(
    name: Scalar,
    params: Node | None,
    fields: dict[str, Node],
    place: Position,
    reader: Reader,
    unread: frozenset[str] = frozenset(),
) -> RoleEntry | None:
    before = len(reader.problems)
    tags = _tags(fields, reader)
    if len(reader.problems) > before:
        unread |= {"tags"}
    when = _when(fields, reader)
    if params is not None and not is_null(params) and not isinstance(params, yaml_text.Mapping):
        reader.wrong(
            params, f"the parameters of {name.text!r} must be a mapping, not {describe(params)}", _pairs(params)
        )
        unread |= {"params"}
    if not isinstance(params, yaml_text.Mapping):
        params = yaml_text.Mapping((), place)
    _check_templates(params, reader)
    if not _ROLE.fullmatch(name.text):
        reader.wrong(name, f"a role's name is made of letters, digits, '_' and '-', not {name.text[:60]!r}")
        return None
    return RoleEntry(role=name.text, params=params, tags=tags, when=when, unread=unread, position=place)


def _pairs(params: Node) -> str:
    """Say how to write parameters that stand there as ``name=value name=value``, as Ansible's modules take them."""
    if not isinstance(params, Scalar) or not (pairs := _PAIR.findall(params.text)):
        return ""
    return "write {" + ", ".join(f'{name}: "{value}"' for name, value in pairs) + "}"


def _tags(fields: dict[str, Node], reader: Reader) -> frozenset[str]:
    found = set()
    for word in reader.words(fields["tags"], "tags") if "tags" in fields else ():
        for tag in (part.strip() for part in word.text.split(",")):
            if _TAG.fullmatch(tag):
                found.add(tag)
            else:
                reader.wrong(word, f"a tag is made of letters, digits, '_', '.' and '-', not {tag[:60]!r}")
    return frozenset(found)


def _when(fields: dict[str, Node], reader: Reader) -> Expression | None:
    node = fields.get("when")
    if node is None:
        return None
    text = reader.text(node, "when")
    if text is None or not isinstance(node, Scalar):
        return Expression("facts", node.position)  # whatever it was to be, it is not known when it holds
    answer = {"yes": "true", "on": "true", "no": "false", "off": "false"}.get(text.lower(), text)
    expression = Expression(answer, node.position, literal=node.literal)
    try:
        expression.names()
    except InputError as error:
        reader.problems += error.problems
    return expression


def _check_templates(node: Node, reader: Reader) -> None:
    try:
        names(node)
    except InputError as error:
        reader.problems += error.problems
