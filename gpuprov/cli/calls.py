"""The calls into inventory, playbook and engine: one function for each kind of command.

Each checks the words and files, contacts nobody, and returns what is `Ready` to run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from gpuprov.cli.words import Words
from gpuprov.errors import InputError
from gpuprov.events import Sink

if TYPE_CHECKING:
    from gpuprov.engine import Options
    from gpuprov.inventory import Host, Inventory

A = TypeVar("A")
B = TypeVar("B")

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
    from gpuprov.inventory import load_inventory
    from gpuprov.playbook import load_playbook
    from gpuprov.shipped import find_playbook

    options = _options(words)
    # Both files are read before either is complained of: one round of corrections, not two.
    inventory, playbook = _both(
        lambda: load_inventory(words.inventory, options.extra), lambda: load_playbook(find_playbook(playbook_file))
    )
    checked = check_playbook(playbook, inventory, words.limit, options)

    async def go(sink: Sink, approve: Approve | None) -> int:
        return await run_playbook(checked, inventory, dataclasses.replace(options, approve=approve), sink)

    return Ready(hosts=_names(checked.hosts), run=go)


def facts(pattern: str, words: Words) -> Ready:
    """Prepare ``facts``.

    Raises:
        InputError: with every problem of words and inventory.
    """
    from gpuprov.engine import read_facts

    options = _options(words)
    inventory, hosts = _meant(pattern, words, options)

    async def go(sink: Sink, approve: Approve | None) -> int:
        return await read_facts(inventory, hosts, options, sink)

    return Ready(hosts=_names(hosts), run=go)


def command(pattern: str, line: str, words: Words) -> Ready:
    """Prepare ``exec``: ``line`` is for the host's shell.

    Raises:
        InputError: with every problem of words and inventory.
    """
    from gpuprov.engine import run_command

    options = _options(words)
    inventory, hosts = _meant(pattern, words, options)

    async def go(sink: Sink, approve: Approve | None) -> int:
        return await run_command(inventory, hosts, line, options, sink)

    return Ready(hosts=_names(hosts), run=go)


def _both(first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
    try:
        one = first()
    except InputError as error:
        try:
            second()
        except InputError as other:
            raise InputError((*error.problems, *other.problems)) from None
        raise
    return one, second()


def _options(words: Words) -> Options:
    from gpuprov.engine import Options
    from gpuprov.playbook import parse_extra

    return Options(
        check=words.only_looks,
        tags=words.tags,
        skip_tags=words.skip_tags,
        forks=words.forks,
        accept_new=words.accept_new,
        timeout=words.timeout,
        reconnect_for=words.reconnect_for,
        lock_wait=words.lock_wait,
        extra=parse_extra(words.extra_vars),
    )


def _meant(pattern: str, words: Words, options: Options) -> tuple[Inventory, tuple[Host, ...]]:
    from gpuprov.inventory import load_inventory

    inventory = load_inventory(words.inventory, options.extra)
    hosts = inventory.select(pattern)
    if words.limit is not None:
        allowed = {host.name for host in inventory.select(words.limit)}
        hosts = tuple(host for host in hosts if host.name in allowed)
    if not hosts:
        raise InputError(f"no host is both in {pattern!r} and in the limit {words.limit!r}")
    return inventory, hosts


def _names(hosts: Sequence[Host]) -> tuple[str, ...]:
    return tuple(host.name for host in hosts)
