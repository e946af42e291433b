"""One host's run, from its first byte to its last: facts, probes, plan, converge, verify."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from gpuprov import guard
from gpuprov.engine import declaring
from gpuprov.engine.bounded import bounded
from gpuprov.engine.cards import card_warnings
from gpuprov.engine.checking import CheckedPlay, CheckedRun
from gpuprov.engine.converge import Converge
from gpuprov.engine.gathering import facts_frame, facts_of
from gpuprov.engine.graph import Declaration, build, contradictions
from gpuprov.engine.judging import may_change
from gpuprov.engine.looking import Planned, judged, left_to_do, look, probes_of
from gpuprov.engine.options import Options
from gpuprov.engine.planning import ended_undone, idle_notes, plan_lines, status_of_plan, verdict_counts
from gpuprov.engine.probing import batch
from gpuprov.engine.recovery import pending, pending_script, recover_script, recovered
from gpuprov.engine.reminding import Reminder
from gpuprov.engine.rights import Rights
from gpuprov.engine.tracing import recorded
from gpuprov.errors import (
    ErrorRecord,
    ExitCode,
    GpuprovError,
    InputError,
    Locked,
    Refused,
)
from gpuprov.events import HostEnded, HostPhase, HostStatus, Notice, Phase, PlanReady, Sink
from gpuprov.facts import Facts
from gpuprov.inventory import Host
from gpuprov.jobs import Jobs, LockState, Owner, acquire, heartbeat, parse
from gpuprov.model import Id, Outcome, Resource
from gpuprov.onhost import script
from gpuprov.quote import quote
from gpuprov.store import Cache
from gpuprov.transport.frame import Connection, Frame, FrameResult, Section

T = TypeVar("T")

HEARTBEAT = 20.0
"""Seconds between two signs of life to the host's lock."""
SILENT = 70.0
"""Seconds without an answer to one of them after which it is said: a frame of others may take 60."""
ROLE_DEADLINE = 120.0
"""Seconds for the roles of one play to declare their resources: they compute, and wait for nothing."""
LOCK_PAUSE = (1.0, 5.0)
"""Seconds between two tries for a lock that somebody else holds: the first, and the longest."""
GIVING_BACK = 10.0
"""Seconds that an interrupted run takes at most to give back what it has half made; else the next run does it."""


@dataclass(kw_only=True)
class HostRun:
    """One host's part of a run. `go` never raises for what the host does; it says so in its last event."""

    host: Host
    checked: CheckedRun
    connection: Connection
    options: Options
    run: str
    emit: Sink
    cache: Cache
    counts: Counter[str] = field(default_factory=Counter)
    changed: bool = False
    _facts: Facts | None = None
    _jobs: Jobs | None = None
    _number: int = 1
    _left_out: dict[int, list[str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The inventory name."""
        return self.host.name

    @property
    def writes(self) -> bool:
        """Whether this run may write on the host."""
        return not self.options.check

    async def go(self) -> HostEnded:
        """Run all plays of this host, and say how it ended."""
        began = time.monotonic()
        status: HostStatus = "ok"
        error: ErrorRecord | None = None
        try:
            status = await self._all()
        except asyncio.CancelledError:
            status = "interrupted"
            await self._give_back()
            await self._close()
            self._ended(status, began, None)
            raise
        except GpuprovError as caught:
            status = "unreachable" if caught.exit_code == ExitCode.UNREACHABLE else "failed"
            error = recorded(caught, traced=self.options.traced)
        except Exception as caught:
            # A bug of ours ends this host's work and nobody else's
            status, error = "failed", recorded(caught, traced=self.options.traced)
        await self._close()
        return self._ended(status, began, error)

    def _ended(self, status: HostStatus, began: float, error: ErrorRecord | None) -> HostEnded:
        event = HostEnded(
            host=self.name,
            status=status,
            counts=dict(self.counts),
            seconds=time.monotonic() - began,
            exchanges=self.connection.exchanges,
            error=error,
        )
        self.emit(event)
        return event

    # --- the way through --------------------------------------------------------------------

    async def _all(self) -> HostStatus:
        self._phase("connect")
        if self.writes:
            self.connection.on_open = acquire(self._owner, self.host.paths.state, protected=guard.PATTERNS)
        await self.connection.open()
        beat = asyncio.create_task(self._beat()) if self.writes else None
        try:
            return await self._plays()
        finally:
            if beat is not None:
                beat.cancel()
                await asyncio.gather(beat, return_exceptions=True)

    async def _plays(self) -> HostStatus:
        before = self._facts = await self._read_facts()
        for text in card_warnings(self.host, before):
            self._notice("warning", text)
        guard.refuse_paths(self.host, before)
        plays = [play for play in self.checked.plays if self.name in play.hosts]
        declared: dict[Id, Resource[Any]] = {}
        if len(plays) > 1:  # else declaring does it
            await self._roles(lambda: declaring.check_values(plays, self.host, before, self.options.extra), "all plays")
        declarations = [await self._declare(play, before, declared) for play in plays]
        if problems := contradictions(declarations):
            raise InputError(problems)
        planned = await self._look_and_judge(plays, declarations)
        self._show(planned)
        self._refuse(planned)
        if not self.writes:
            return status_of_plan(planned)
        differs = any(may_change(p.verdicts, p.graph) for p in planned)
        if differs and self.options.approve is not None and not await self.options.approve(self.name):
            self._notice("info", "left as it is: the changes were not approved")
            return "ok"
        for position, plan in enumerate(planned):
            if position and self.changed:
                # A play is where the host may be seen anew: facts and plan from now on
                declared = {}
                again = await self._declare(plan.checked, self._facts, declared)
                (plan,) = await self._look_and_judge([plan.checked], [again])
                self._show([plan])
                self._refuse([plan])
            if not await self._converge(plan, before):
                return "failed"
        return "changed" if self.changed else "ok"

    async def _read_facts(self) -> Facts:
        """Read facts, in apply with the host lock in hand.

        Raises:
            Locked: another controller kept the host for all of ``lock_wait``.
        """
        self._phase("facts")
        until = time.monotonic() + self.options.lock_wait
        pause, reminder = LOCK_PAUSE[0], Reminder()
        while True:
            result = await self.connection.frame(facts_frame(self.host.paths))
            lock = self._lock_state(result)
            if lock is None or lock.held:
                break
            if time.monotonic() >= until or lock.owner is None:
                raise Locked(
                    f"the host's lock cannot be had: {lock.reason}",
                    where=self.name,
                    hint="wait for the other run, or give --lock-wait a longer time" if lock.owner else "",
                )
            if reminder.due(lock.owner, time.monotonic()):
                self._phase("lock", lock.reason)
            await asyncio.sleep(pause)
            pause = min(LOCK_PAUSE[1], pause * 1.5)
        return facts_of(result, self.host)

    def _lock_state(self, result: FrameResult) -> LockState | None:
        section = result.sections.get("before")
        if not self.writes or section is None:
            return None
        lock = parse(section)
        if lock.held and lock.reason:
            self._notice("warning", lock.reason)
        return lock

    async def _look_and_judge(
        self, plays: Iterable[CheckedPlay], declarations: Iterable[list[Declaration]]
    ) -> list[Planned]:
        """Probe everything that all plays declare in one exchange, and judge each play."""
        plays = tuple(plays)
        graphs = [build(declared) for declared in declarations]
        self._phase("probe")
        # Ahead of the probes: what was cut off is given back, or in check mode told
        head = (Section(name="recover", script=recover_script() if self.writes else pending_script(self._state)),)
        assert self._facts is not None
        user = self._facts.user
        rights = Rights(root=user.uid in (0, None), user=user, never=self.host.become == "never")
        probes = probes_of(graphs, root=rights.root)
        states, first = await look(self.connection, probes, head=head, prelude=self._prelude if self.writes else "")
        self._say_recovered(first)
        self._phase("plan")
        protected = (*guard.PATHS, *guard.on_host(self._facts))
        return judged(plays, graphs, states, rights=rights, protected=protected)

    async def _declare(self, play: CheckedPlay, facts: Facts, declared: dict[Id, Resource[Any]]) -> list[Declaration]:
        out = self._left_out[play.number] = []
        extra = self.options.extra
        found = await self._roles(lambda: declaring.declare(play, self.host, facts, extra, declared, out), play.title)
        for text in out:
            self._notice("info", text)
        return found

    async def _roles(self, work: Callable[[], T], what: str) -> T:
        """Run what roles say. In a thread: a role is a person's code, and a slow one must hold up nobody else."""
        return await bounded(work, seconds=ROLE_DEADLINE, what=f"the roles of {what}", where=self.name)

    async def _converge(self, plan: Planned, before: Facts) -> bool:
        self._phase("converge", plan.checked.title)
        converge = Converge(
            host=self.name,
            run=self.run,
            graph=plan.graph,
            states=plan.states,
            verdicts=plan.verdicts,
            connection=self.connection,
            prelude=self._prelude,
            run_job=self._run_job,
            reopened=self._recover,
            emit=self.emit,
            cache=self.cache,
            first_number=self._number,
        )
        try:
            outcomes = await converge.go()
        finally:
            self._number = converge.next_number
            self.changed = self.changed or converge.changed
        good = not any(outcome.kind in ("failed", "skipped", "unseen") for outcome in outcomes.values())
        if converge.changed:
            undone = await self._verify(plan, outcomes, before)
            good = good and not undone
        self.counts.update(outcome.kind for outcome in outcomes.values())
        return good

    async def _verify(self, plan: Planned, outcomes: dict[Id, Outcome], before: Facts) -> bool:
        """Look at everything once more, and at what must not have changed. Returns whether anything is wrong."""
        self._phase("verify")
        nodes = [plan.graph[id_] for id_, outcome in outcomes.items() if outcome.kind in ("same", "changed")]
        looks = batch([(node.id, node.resource.probe()) for node in nodes])
        frame = facts_frame(self.host.paths, before=looks.sections, prelude=looks.prelude)
        result = await self.connection.frame(frame)
        states = looks.read(result)
        wrong = False
        for node in nodes:
            left = left_to_do(node, states)
            if left is not None:
                wrong = True
                event = ended_undone(self.name, node, left)
                self.emit(event)
                outcomes[node.id] = Outcome("failed", event.because)
        self._facts = facts_of(result, self.host)
        touched = guard.damage(before, self._facts)
        if touched:
            lines = "\n".join(map(str, touched))
            raise Refused(
                "something that must never change has changed during this run",
                where=self.name,
                output=lines,
                hint=f"the former files of this run are kept below {self._state}/journal/{self.run}/backup",
            )
        return wrong

    # --- small parts ------------------------------------------------------------------------

    def _refuse(self, planned: Iterable[Planned]) -> None:
        """Raise Refused when anything of the plan would touch what is protected: then none of it is done."""
        if lines := dict.fromkeys(str(refusal) for plan in planned for refusal in plan.refusals):
            raise Refused("\n".join(lines), where=self.name)

    def _show(self, planned: Sequence[Planned]) -> None:
        idle = idle_notes(planned, self._left_out)
        first_changing = 0
        for plan in planned:
            number = plan.checked.number
            for line in plan_lines(self.name, plan.checked.title, plan.graph, plan.verdicts, plan.states):
                self.emit(line)
            counts = verdict_counts(plan.graph, plan.verdicts)
            note = f"may change after play {first_changing}" if first_changing else idle.get(number, "")
            self.emit(PlanReady(host=self.name, play=plan.checked.title, counts=counts, note=note))
            if not first_changing and may_change(plan.verdicts, plan.graph):
                first_changing = number
            if not self.writes:
                self.counts.update(counts)

    async def _run_job(self, slot: Id, job: Any, digest: str, on_line: Any) -> Any:
        if self._jobs is None:
            patience = self.options.reconnect_for
            self._jobs = Jobs(self.connection, self._state, owner=self._owner, patience=patience)
        return await self._jobs.run(slot, job, digest=digest, on_line=on_line)

    async def _recover(self, under_way: Iterable[int]) -> None:
        """Take up the line again after it was lost: the lock comes with the shell, then open intents are closed."""
        section = Section(name="recover", script=recover_script(under_way))
        result = await self.connection.frame(Frame(sections=(section,), prelude=self._prelude))
        lock = self._lock_state(result)
        if lock is not None and not lock.held:
            raise Locked(f"while the line was down the host's lock was lost: {lock.reason}", where=self.name)
        self._say_recovered(result)

    def _say_recovered(self, result: FrameResult) -> None:
        section = result.sections.get("recover")
        told = recovered if self.writes else pending
        for level, text in told(section.stdout if section else b""):
            self._notice(level, text)

    async def _give_back(self) -> None:
        """After an interruption: what the frame that was cut off has half made goes at once, not with the next run."""
        if not self.changed:
            return
        with suppress(GpuprovError, TimeoutError):
            async with asyncio.timeout(GIVING_BACK):
                await self._recover(())

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT)
            section = Section(name="beat", script=heartbeat(self._owner, self.host.paths.state))
            answer = asyncio.create_task(self.connection.frame(Frame(sections=(section,), deadline=10.0)))
            try:
                done, _ = await asyncio.wait([answer], timeout=SILENT)
                if not done:
                    limit = self.options.reconnect_for
                    self._notice("warning", f"no answer for {SILENT:.0f} s; the line is tried again for {limit:.0f} s")
                await answer
                if not done:
                    self._notice("warning", "the host answers again")
            except asyncio.CancelledError:
                answer.cancel()
                raise
            except GpuprovError:
                # Whoever works on the host meets the same trouble, and says so better than a heartbeat can
                continue

    async def _close(self) -> None:
        """Let go of the host. Its lock ends with the shell that holds it, so giving it back costs no exchange."""
        try:
            async with asyncio.timeout(10):
                if self._jobs is not None:
                    await self._jobs.close()
        except (GpuprovError, TimeoutError):
            pass  # it only follows: the jobs are the host's
        finally:
            await self.connection.close()

    @property
    def _owner(self) -> Owner:
        return Owner.here(self.run)

    @property
    def _state(self) -> str:
        assert self._facts is not None
        return self._facts.paths.state

    @property
    def _prelude(self) -> str:
        names = f"gp_state={quote(self._state)} gp_run={quote(self.run)}\n"
        return names + script("put") + script("journal")

    def _phase(self, phase: Phase, note: str = "") -> None:
        self.emit(HostPhase(host=self.name, phase=phase, note=note))

    def _notice(self, level: Literal["warning", "info", "debug"], text: str) -> None:
        self.emit(Notice(level=level, host=self.name, text=text))
