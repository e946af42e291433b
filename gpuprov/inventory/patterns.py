"""Which hosts are meant: patterns as Ansible has them.

``a`` a host or group · ``all`` or ``*`` · ``gpu*`` globs over hosts and groups · ``a:b`` or ``a,b`` both ·
``:&x`` only those also in x · ``:!x`` without x · ``~regex`` from the start of a name · ``@file`` one
name, glob or regex a line. Unions are taken first, then intersections, then exclusions, wherever they stand.
The order is always that of the inventory.
"""

from __future__ import annotations

import fnmatch
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpuprov.errors import InputError, Position, Problem
from gpuprov.text_file import read_text
from gpuprov.yaml_text import nearest

_GLOB = re.compile(r"[*?\[]")


def match(
    pattern: str,
    hosts: Sequence[str],
    groups: Mapping[str, Sequence[str]],
    position: Position | None = None,
) -> tuple[str, ...]:
    """Return the names that ``pattern`` selects, in the order of ``hosts``.

    Raises:
        InputError: a name or glob fits nothing (a misspelt exclusion too, since it would let through
            what it was to keep out), a regular expression is broken, a file cannot be read, or no
            host is left. All mistakes at once.
    """
    terms = _Terms(hosts, groups, position)
    chosen: set[str] | None = None
    required: list[set[str]] = []
    excluded: set[str] = set()
    for sign, word in terms.of(pattern):
        found = terms.meant(word, must_fit=not sign)
        if sign == "&":
            required.append(found)
        elif sign == "!":
            excluded |= found
        else:
            chosen = (chosen or set()) | found
    names = set(hosts) if chosen is None and (required or excluded) else chosen or set()
    for other in required:
        names &= other
    names -= excluded
    if not names and not terms.problems:
        terms.wrong(f"the pattern {pattern!r} matches no host", "")
    if terms.problems:
        raise InputError(dict.fromkeys(terms.problems))
    return tuple(name for name in hosts if name in names)


def unknown_names(
    pattern: str, hosts: Sequence[str], groups: Mapping[str, Sequence[str]], position: Position | None = None
) -> tuple[Problem, ...]:
    """Return what is wrong with the words of ``pattern``, whatever hosts the groups hold."""
    terms = _Terms(hosts, groups, position)
    for sign, word in terms.of(pattern):
        terms.meant(word, must_fit=not sign)
    return tuple(dict.fromkeys(terms.problems))


class _Terms:
    """The words of a pattern, and what each means in one inventory."""

    def __init__(self, hosts: Sequence[str], groups: Mapping[str, Sequence[str]], position: Position | None) -> None:
        self.problems: list[Problem] = []
        self._hosts = hosts
        self._groups = groups
        self._position = position

    def wrong(self, message: str, hint: str) -> None:
        self.problems.append(Problem(message, self._position, hint))

    def of(self, pattern: str) -> list[tuple[str, str]]:
        """Return ``(sign, word)`` pairs; the sign is ``&``, ``!`` or empty."""
        terms: list[tuple[str, str]] = []
        for word in _split(pattern):
            sign = word[0] if word[0] in "&!" else ""
            rest = word[len(sign) :].strip()
            if not rest:
                self.wrong(f"nothing follows {sign!r} in the pattern {pattern!r}", "")
            elif rest.startswith("@"):
                terms += [(sign, line) for line in self._lines(rest[1:])]
            else:
                terms.append((sign, rest))
        return terms

    def _lines(self, file: str) -> list[str]:
        try:
            text = read_text(Path(file).expanduser() if file.startswith("~/") else Path(file))
        except InputError as error:
            self.problems += error.problems
            return []
        lines = [line.strip() for line in text.splitlines()]
        lines = [line for line in lines if line and not line.startswith("#")]
        if not lines:
            self.wrong(f"the file {file!r} names no host", "")
        return lines

    def meant(self, word: str, *, must_fit: bool) -> set[str]:
        """Return the hosts that one word names. Plain names must exist; globs need to fit only if ``must_fit``."""
        if word in ("all", "*"):
            return set(self._hosts)
        names = (*self._hosts, *self._groups)
        if word.startswith("~"):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", FutureWarning)  # of Python's plans for brackets within brackets
                    fits = re.compile(word[1:]).match
            except (re.error, OverflowError, RecursionError) as error:
                self.wrong(f"the regular expression {word[1:]!r} is broken: {error}", "")
                return set()
        elif _GLOB.search(word):
            fits = re.compile(fnmatch.translate(word)).match
        else:
            if word not in names:
                self.wrong(f"no host or group is called {word!r}", nearest(word, names) or _known(names))
            return self._members(word) if word in names else set()
        found = [name for name in names if fits(name)]
        if not found and must_fit:
            bare = re.sub(r"[^\w.-]", "", word)
            self.wrong(f"{word!r} fits no host or group", nearest(bare, names) or _known(names))
        return {host for name in found for host in self._members(name)}

    def _members(self, name: str) -> set[str]:
        return set(self._groups[name]) if name in self._groups else {name}


def _known(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8])
    return f"there are {shown}" + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _split(pattern: str) -> list[str]:
    """Split at ``,`` and ``:`` outside of brackets, where they belong to a glob or a regular expression."""
    words, depth, start, skip = [], 0, 0, False
    for index, char in enumerate(pattern):
        if skip or char == "\\":
            skip = not skip
        elif char in "[({":
            depth += 1
        elif char in "])}":
            depth = max(0, depth - 1)
        elif char in ",:" and not depth:
            words.append(pattern[start:index])
            start = index + 1
    words.append(pattern[start:])
    return [word.strip() for word in words if word.strip()]
