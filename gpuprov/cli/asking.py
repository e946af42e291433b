"""Asking once before anything is changed, when every host has shown its plan."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from gpuprov.events import Event, HostEnded, RunStarted


class Approval:
    """Collects the hosts whose plan differs and asks once for all of them.

    It waits until each host either waits here or has ended. Where only some hosts are worked on at a time
    it asks for those, and again for the next ones: the others cannot begin before these go on.

    Args:
        ask: shows the plans of these hosts and returns the answer.
        slots: how many hosts are worked on at a time; None: all.
    """

    def __init__(self, ask: Callable[[Sequence[str]], Awaitable[bool]], *, slots: int | None = None) -> None:
        self._ask = ask
        self._slots = slots
        self._order: tuple[str, ...] = ()
        self._coming: set[str] = set()
        self._waiting: dict[str, asyncio.Future[bool]] = {}
        self._at_work: set[str] = set()
        self._question: asyncio.Task[None] | None = None
        self.approved: list[str] = []
        self.declined: list[str] = []

    def __call__(self, event: Event) -> None:
        """Take one event: as a reader it learns which hosts are still to come."""
        match event:
            case RunStarted():
                self._order = event.hosts
                self._coming = set(event.hosts)
            case HostEnded():
                self._coming.discard(event.host)
                self._at_work.discard(event.host)
                self._look()

    async def approve(self, host: str) -> bool:
        """Wait for the answer. A host that was answered already gets the same answer again."""
        if host in self.approved or (self.declined and not self.approved):
            if host not in self.approved:
                self.declined.append(host)
            return host in self.approved
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._coming.discard(host)
        self._waiting[host] = answer
        self._look()
        try:
            return await answer
        finally:
            self._waiting.pop(host, None)
            if self._question is not None and not self._waiting:
                self._question.cancel()

    def _look(self) -> None:
        if not self._waiting or self._question is not None:
            return
        busy = len(self._waiting) + len(self._at_work)
        if self._coming and (self._slots is None or busy < self._slots):
            return
        self._question = asyncio.get_running_loop().create_task(self._put())

    async def _put(self) -> None:
        hosts = sorted(self._waiting, key=lambda host: (host not in self._order, self._place(host)))
        try:
            yes = await self._ask(hosts)
        except Exception as error:
            for host in hosts:
                self._settle(host, error)
        else:
            for host in hosts:
                self._settle(host, yes)
        finally:
            self._question = None
        self._look()

    def _place(self, host: str) -> int:
        return self._order.index(host) if host in self._order else 0

    def _settle(self, host: str, answer: bool | Exception) -> None:
        waiting = self._waiting.pop(host, None)
        if waiting is None or waiting.done():
            return
        if isinstance(answer, Exception):
            waiting.set_exception(answer)
            return
        (self.approved if answer else self.declined).append(host)
        if answer:
            self._at_work.add(host)
        waiting.set_result(answer)


def can_ask() -> bool:
    """Whether somebody sits at a terminal and can see the question as well as answer it."""
    try:
        return sys.stdin.isatty() and sys.stdout.isatty()
    except ValueError:
        return False


def forget_typed() -> None:
    """Throw away what was typed before a question: it cannot have been meant as its answer."""
    with suppress(termios.error, OSError, ValueError):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def answer_line() -> str:
    """Return the next line typed on stdin, without blocking the loop; empty at the end of input."""
    descriptor = sys.stdin.fileno()
    loop = asyncio.get_running_loop()
    line: asyncio.Future[bytes] = loop.create_future()

    def readable() -> None:
        if not line.done():
            try:
                line.set_result(os.read(descriptor, 4096))
            except OSError:
                line.set_result(b"")

    loop.add_reader(descriptor, readable)
    try:
        return (await line).decode(errors="replace")
    finally:
        loop.remove_reader(descriptor)


def is_yes(answer: str) -> bool:
    """Whether an answer agrees; anything else, nothing included, does not."""
    return answer.strip().lower() in ("y", "yes")
