"""Merging: what is ready at the same time on one host travels in one frame.

A run is slow by its round trips, so work is handed in here and goes out together: scripts first, then the
looks that tell whether they did what they should, and those that other nodes are waiting for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from gpuprov.engine.graph import Node
from gpuprov.engine.probing import batch
from gpuprov.errors import StepFailed, Unseen
from gpuprov.model import Id
from gpuprov.transport.frame import FRAME_DEADLINE, Connection, Frame, Section, SectionResult

QUIET_TURNS = 3
"""Turns of the event loop without new work before a frame goes out: tasks woken together hand in together."""

FRAME_TRIES = 3
"""How often what stood behind a hung section is sent again."""


@dataclass(frozen=True, kw_only=True)
class Done:
    """What came of one piece of work: the script's result, and the state seen afterwards."""

    script: SectionResult | None
    state: Any


@dataclass(eq=False, kw_only=True)
class _Work:
    script: str
    env: Any
    look: Node | None
    completes: bool
    deadline: float
    future: asyncio.Future[Done]
    result: SectionResult | None = None


@dataclass(eq=False)
class Exchange:
    """The frames of one host.

    ``waiting_on`` is told which nodes a frame completes, and says which others to look at in it; what
    those looks saw is left in ``fresh``.
    """

    connection: Connection
    prelude: str
    waiting_on: Callable[[frozenset[Id]], Iterable[Node]]
    fresh: dict[Id, Any] = field(default_factory=dict)
    _queue: list[_Work] = field(default_factory=list)
    _sender: asyncio.Task[None] | None = None

    async def submit(
        self,
        *,
        script: str = "",
        env: Any = None,
        look: Node | None = None,
        completes: bool = False,
        deadline: float = FRAME_DEADLINE,
    ) -> Done:
        """Run a script, then look at a node, in the next frame.

        ``deadline``: seconds for the script. What may take less than a frame's own deadline goes in a frame by
        itself, so that it is ended in time.
        ``completes``: with this the node is done, and what waits for it may be looked at in the same frame.

        Raises:
            LineLost: ``begun``: the script may have run.
            StepFailed: it never began although it was sent `FRAME_TRIES` times.
        """
        work = _Work(
            script=script,
            env=env or {},
            look=look,
            completes=completes,
            deadline=min(deadline, FRAME_DEADLINE),
            future=asyncio.get_running_loop().create_future(),
        )
        self._queue.append(work)
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send())
        return await work.future

    async def close(self) -> None:
        """Stop sending. What is under way on the host goes on to its end there."""
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)

    async def _send(self) -> None:
        while self._queue:
            seen, turns = len(self._queue), 0
            while turns < QUIET_TURNS:
                await asyncio.sleep(0)
                turns = turns + 1 if len(self._queue) == seen else 0
                seen = len(self._queue)
            works, self._queue = self._queue, []
            try:
                for together in _by_deadline(works):
                    await self._one_frame(together)
            except Exception as error:
                for work in works:
                    if not work.future.done():
                        work.future.set_exception(error)
            finally:
                for work in works:
                    work.future.cancel()  # those that have no result yet: the sender itself was cancelled

    async def _one_frame(self, works: list[_Work]) -> None:
        todo = works
        for _ in range(FRAME_TRIES):
            done = frozenset(w.look.id for w in todo if w.look and w.completes)
            # Steps of a node whose result is in hand already are not sent twice
            sections = [
                Section(name=f"w{n}", script=w.script, env=w.env)
                for n, w in enumerate(todo)
                if w.script and w.result is None
            ]
            own = [(w.look.id, w.look.resource.probe()) for w in todo if w.look]
            others = [(node.id, node.resource.probe()) for node in self.waiting_on(done)]
            looks = batch([*own, *others])
            frame = Frame(
                sections=(*sections, *looks.sections),
                prelude=self.prelude + looks.prelude,
                deadline=min(work.deadline for work in todo),
            )
            result = await self.connection.frame(frame)
            states = looks.read(result)
            self.fresh.update({id_: states[id_] for id_, _ in others if id_ in states})
            left = []
            for number, work in enumerate(todo):
                if work.script and work.result is None:
                    work.result = result.sections.get(f"w{number}")
                    if work.result is None:
                        left.append(work)
                        continue
                if work.look is not None and work.look.id not in states and _ended_well(work.result, work.script):
                    left.append(work)
                    continue
                state = states.get(work.look.id) if work.look else None
                if not work.future.done():
                    work.future.set_result(Done(script=work.result, state=state))
            if not left:
                return
            todo = left
        for work in todo:
            if not work.future.done():
                error = Unseen if work.result is not None or not work.script else StepFailed
                work.future.set_exception(error("it stood behind something that hung, and never began"))


def _by_deadline(works: list[_Work]) -> list[list[_Work]]:
    """Return what goes into a frame together: all that has a frame's own deadline, and each other by itself."""
    together = [work for work in works if work.deadline >= FRAME_DEADLINE]
    return [group for group in (together, *([work] for work in works if work not in together)) if group]


def _ended_well(result: SectionResult | None, script: str) -> bool:
    return not script or (result is not None and result.status == 0)
