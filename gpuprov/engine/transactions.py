"""Merged transactions: members that are ready together become one job (one apt run for ten packages)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from gpuprov.errors import StepFailed
from gpuprov.model import Id, Job, Member

QUIET_SECONDS = 0.02
"""How long a transaction waits for further members: one frame's answer wakes many nodes, one after another."""

OnLine = Callable[[str], None]


@dataclass(eq=False)
class _Waiting:
    member: Member
    on_line: OnLine
    future: asyncio.Future[None]


@dataclass(eq=False)
class Transactions:
    """The transactions of one host: one at a time in each group.

    ``run`` carries out one job in a slot, and raises `StepFailed` when it fails.
    """

    run: Callable[[Id, Job, OnLine], Awaitable[None]]
    _queues: dict[str, list[_Waiting]] = field(default_factory=dict)
    _workers: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def join(self, member: Member, on_line: OnLine) -> None:
        """Carry out a member together with all others of its group that are ready.

        When the transaction fails, its members are tried singly, so that one bad name fails alone.

        Raises:
            StepFailed: this member failed by itself.
        """
        waiting = _Waiting(member, on_line, asyncio.get_running_loop().create_future())
        self._queues.setdefault(member.group, []).append(waiting)
        worker = self._workers.get(member.group)
        if worker is None or worker.done():
            self._workers[member.group] = asyncio.create_task(self._work(member.group))
        try:
            await waiting.future
        except asyncio.CancelledError:
            worker = self._workers.get(member.group)
            if worker is not None:
                worker.cancel()
            raise

    async def _work(self, group: str) -> None:
        while self._queues[group]:
            await asyncio.sleep(QUIET_SECONDS)
            together, self._queues[group] = self._queues[group], []
            try:
                await self._transaction(group, together)
            except StepFailed as error:
                if len(together) == 1 or not all(one.member.separable for one in together):
                    for one in together:
                        _end(one, error)
                    continue
                for one in together:
                    try:
                        await self._transaction(group, [one])
                    except Exception as alone:
                        _end(one, alone)
            except Exception as error:
                for one in together:
                    _end(one, error)

    async def _transaction(self, group: str, together: list[_Waiting]) -> None:
        items = tuple(sorted({one.member.item for one in together}))

        def on_line(line: str) -> None:
            # Output belongs to the transaction; the first member's row shows it
            together[0].on_line(line)

        await self.run(Id(group), together[0].member.join(items), on_line)
        for one in together:
            if not one.future.done():
                one.future.set_result(None)


def _end(one: _Waiting, error: Exception) -> None:
    if not one.future.done():
        one.future.set_exception(error)
