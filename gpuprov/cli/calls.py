"""The calls into inventory, playbook and engine: one function for each kind of command.

Each checks the words and files, contacts nobody, and returns what is `Ready` to run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.cli.words import Words, wants_traceback
from gpuprov.errors import InputError, Problem
from gpuprov.events import Sink

if TYPE_CHECKING:
    from gpuprov.engine import Options
    from gpuprov.inventory import Host, Inventory
    from gpuprov.playbook import Playbook

Approve = Callable[[str], Awaitable[bool]]


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A command whose words and files were found right.

    Attributes:
        hosts: the names of the hosts that are meant, in inventory order.
        run: does it and returns the exit code. The second argument is asked before a host is changed.
    """

    hosts: tuple[str, ...]
    run: Callable[[Sink, Approve | None], Awaitable[int]]


def play(playbook_file: str, words: Words) -> Ready:
    """Prepare ``plan`` or ``apply``.

    Raises:
        InputError: with every problem of words, inventory and playbook.
    """
    from gpuprov.engine import check_playbook, run_playbook
    from gpuprov.inventory import read_inventory

    options, told = _options(words)
    # Everything is read before anything is complained of: one round of corrections, not two.
    inventory = read_inventory(words.inventory, options.extra)
    checked = check_playbook(_playbook(playbook_file), inventory, words.limit, options, told)

    async def go(sink: Sink, approve: Approve | None) -> int:
        return await run_playbook(checked, inventory, dataclasses.replace(options, approve=approve), sink)

    return Ready(hosts=_names(checked.hosts), run=go)


def without_inventory(words: Words, playbook_file: str | None, missing: Problem) -> tuple[Problem, ...]:
    """Return all that is wrong with words and files where there is no inventory, ``missing`` among it."""
    from gpuprov.engine import check_playbook
    from gpuprov.inventory import Inventory

    options, told = _options(words)
    inventory = Inventory(hosts={}, groups={}, problems=(missing,), names_known=False, vars_known=False)
    if playbook_file is None:
        return (*told, missing)
    try:
        check_playbook(_playbook(playbook_file), inventory, words.limit, options, told)
    except InputError as error:
        return error.problems
    return (missing,)


def facts(pattern: str, words: Words) -> Ready:
    """Prepare ``facts``.

    Raises:
        InputError: with every problem of words and inventory.
    """
    from gpuprov.engine import read_facts

    inventory, hosts, options = _meant(pattern, words)

    async def go(sink: Sink, approve: Approve | None) -> int:
        return await read_facts(inventory, hosts, options, sink)

    return Ready(hosts=_names(hosts), run=go)


def command(pattern: str, line: str, words: Words) -> Ready:
    """Prepare ``exec``: ``line`` is for the host's shell.

    Raises:
        InputError: with every problem of words and inventory.
    """
    from gpuprov.engine import run_command

    inventory, hosts, options = _meant(pattern, words)

    async def go(sink: Sink, approve: Approve | None) -> int:
        return await run_command(inventory, hosts, line, options, sink)

    return Ready(hosts=_names(hosts), run=go)


def _playbook(word: str) -> Playbook:
    """Read a playbook; one that is not there is one that holds nothing but that mistake."""
    from gpuprov.playbook import Playbook, read_playbook
    from gpuprov.shipped import find_playbook

    try:
        return read_playbook(find_playbook(word))
    except InputError as error:
        return Playbook(path=Path(word), plays=(), problems=error.problems, whole=False)


def _options(words: Words) -> tuple[Options, list[Problem]]:
    """Return the options, and what is wrong with the variables among them."""
    from gpuprov.engine import Options
    from gpuprov.playbook import read_extra

    extra, problems = read_extra(words.extra_vars)
    options = Options(
        check=words.only_looks,
        tags=words.tags,
        skip_tags=words.skip_tags,
        forks=words.forks,
        accept_new=words.accept_new,
        timeout=words.timeout,
        reconnect_for=words.reconnect_for,
        lock_wait=words.lock_wait,
        extra=extra,
        traced=wants_traceback(words.verbosity),
    )
    return options, problems


def _meant(pattern: str, words: Words) -> tuple[Inventory, tuple[Host, ...], Options]:
    from gpuprov.inventory import read_inventory
    from gpuprov.yaml_text import in_order

    options, problems = _options(words)
    inventory = read_inventory(words.inventory, options.extra)
    problems += inventory.problems
    for selects in (pattern, words.limit):
        problems += inventory.pattern_problems(selects) if selects is not None else ()
    if problems:
        raise InputError(in_order(problems))
    hosts = inventory.select(pattern)
    if words.limit is not None:
        allowed = {host.name for host in inventory.select(words.limit)}
        hosts = tuple(host for host in hosts if host.name in allowed)
    if not hosts:
        raise InputError(f"no host is both in {pattern!r} and in the limit {words.limit!r}")
    return inventory, hosts, options


def _names(hosts: Sequence[Host]) -> tuple[str, ...]:
    return tuple(host.name for host in hosts)
