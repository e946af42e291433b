"""Making it so: each node as soon as all that it needs is in place, everything else at the same time."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gpuprov.digest import digest
from gpuprov.engine.exchange import Done, Exchange
from gpuprov.engine.failing import OwnWords, job_failed, short_failed
from gpuprov.engine.graph import Graph, Node
from gpuprov.engine.judging import plan_of
from gpuprov.engine.planning import as_wanted
from gpuprov.engine.recovery import given_back
from gpuprov.engine.steps import Segment, Short, job_digest_parts, journaled, segments
from gpuprov.engine.transactions import Transactions
from gpuprov.errors import DidNotConverge, ErrorRecord, GpuprovError, HostFailed, LineLost, Locked, StepFailed, Unseen
from gpuprov.events import NodeEnded, NodeOutput, NodeProgress, NodeStarted, Sink
from gpuprov.jobs import Slot
from gpuprov.model import (
    Blocked,
    Change,
    Differs,
    Id,
    Job,
    Member,
    Obtain,
    Outcome,
    Put,
    Recheck,
    Same,
    Verdict,
)
from gpuprov.quote import command
from gpuprov.redaction import Redactor
from gpuprov.secret import Secret
from gpuprov.store import Cache, RunJob, obtain
from gpuprov.transport.frame import FRAME_DEADLINE, Connection, SectionResult

LINE_TRIES = 3
"""How often a change is tried when the line is lost under it."""


_PROGRESS = re.compile(r"\b(\d{1,15})/(\d{1,15}) bytes\b|^\s*\[(\d{1,9})/(\d{1,9})\]")
"""How downloads and ninja say how far they are."""


@dataclass(kw_only=True)
class Converge:
    """One play's changes on one host.

    Attributes:
        run_job: runs a job in a slot, given its digest, and hands over its output line by line.
        cache: the controller's, for what a host cannot download.
        reopened: called after the line was lost, before anything is tried again: takes the host lock back and
            closes open intents but those of the given numbers.
    """

    host: str
    run: str
    graph: Graph
    states: Mapping[Id, Any]
    verdicts: Mapping[Id, Verdict]
    connection: Connection
    prelude: str
    run_job: RunJob
    reopened: Callable[[Iterable[int]], Awaitable[None]]
    emit: Sink
    cache: Cache = field(default_factory=Cache)
    redactor: Redactor = field(default_factory=Redactor)
    first_number: int = 1
    changed: bool = False
    """Whether anything on the host was written, or may have been."""
    outcomes: dict[Id, Outcome] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._ended = {id_: asyncio.Event() for id_ in self.graph}
        self.next_number = self.first_number
        self._under_way: set[int] = set()
        self._exchange = Exchange(self.connection, self.prelude, self._waiting_on)
        self._transactions = Transactions(self._run_job)
        self._reopening = asyncio.Lock()
        self._undoing = f"gpuprov gives back {secrets.token_hex(16)}"
        """What no program on the host can print: it stands in no environment and no argument there."""

    async def go(self) -> dict[Id, Outcome]:
        """Converge every node; never raises for what a node does."""
        tasks = [asyncio.create_task(self._node(node)) for node in self.graph.values()]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._exchange.close()
        return self.outcomes

    # --- one node ---------------------------------------------------------------------------

    async def _node(self, node: Node) -> None:
        for need in node.needs:
            await self._ended[need].wait()
        began, action, error = time.monotonic(), "", None
        try:
            outcome, action = await self._outcome(node)
        except asyncio.CancelledError:
            raise
        except Exception as caught:
            error = ErrorRecord.of(_placed(caught, self.host, node.id))
            outcome = Outcome("unseen" if isinstance(caught, Unseen) else "failed", error.message)
        self.outcomes[node.id] = outcome
        self._ended[node.id].set()
        self.emit(
            NodeEnded(
                host=self.host,
                role=node.origin.role,
                id=node.id,
                outcome=outcome.kind,
                because=outcome.because,
                seconds=time.monotonic() - began,
                action=action,
                error=error,
            )
        )

    async def _outcome(self, node: Node) -> tuple[Outcome, str]:
        verdict = self.verdicts[node.id]
        if not node.selected:
            return Outcome("not-selected"), ""
        for need in sorted(node.needs):
            if self.outcomes[need].kind in ("failed", "skipped", "unseen"):
                return Outcome("skipped", f"needs {need}, which {_ended_as(self.outcomes[need])}"), ""
        match verdict:
            case Same():
                return self._same(node, self.states.get(node.id)), ""
            case Blocked():
                kind = Unseen if verdict.unseen else HostFailed
                raise kind(verdict.because, output=self.redactor(verdict.output), hint=verdict.hint)
            case Differs(change=change):
                pass
            case Recheck():
                state = await self._looked_again(node)
                again = plan_of(node, state)
                if again is None:
                    return self._same(node, state), ""
                change = again
        await self._change(node, change)
        return Outcome("changed"), change.action

    def _same(self, node: Node, state: Any) -> Outcome:
        return Outcome("same", as_wanted(node, state) if node.resource.reports else "")

    async def _looked_again(self, node: Node) -> Any:
        """Return the state after all that the node needs is in place."""
        if not any(self.outcomes[need].kind == "changed" for need in node.needs):
            return self.states.get(node.id)
        if node.id in self._exchange.fresh:
            return self._exchange.fresh.pop(node.id)
        return await self._look(node)

    async def _look(self, node: Node) -> Any:
        while True:
            try:
                return (await self._exchange.submit(look=node)).state
            except LineLost:
                await self._reopen()

    def _waiting_on(self, completing: frozenset[Id]) -> list[Node]:
        """Return the nodes whose last needs these are, and that are to be looked at again."""
        return [
            node
            for node in self.graph.values()
            if node.selected
            and isinstance(self.verdicts[node.id], Recheck)
            and node.id not in self.outcomes
            and node.needs & completing
            and all(need in completing or need in self.outcomes for need in node.needs)
        ]

    # --- one change -------------------------------------------------------------------------

    async def _change(self, node: Node, change: Change) -> None:
        self.redactor.learn(_secrets(change))
        title = change.steps[0].title if change.steps else str(change.action)
        self.emit(NodeStarted(host=self.host, role=node.origin.role, id=node.id, title=title))
        for attempt in range(1, LINE_TRIES + 1):
            number, self.next_number = self.next_number, self.next_number + 1
            self._under_way.add(number)
            try:
                await self._carry_out(node, change, number)
                return
            except LineLost:
                # It may have run, or in part: the probe says.
                self._under_way.discard(number)
                if attempt == LINE_TRIES:
                    raise
                await self._reopen()
                due = plan_of(node, await self._look(node))
                if due is None:
                    return
                change = due
            finally:
                self._under_way.discard(number)

    async def _carry_out(self, node: Node, change: Change, number: int) -> None:
        parts = segments(change, run=self.run, number=number)
        slot = Slot(node.id).folder if any(isinstance(part, Job) for part in parts) else ""
        record = json.dumps(
            {"id": node.id, "action": change.action, "before": change.before, "after": change.after, "at": time.time()}
        )
        self.changed = True
        done: Done | None = None
        if not parts or not isinstance(parts[0], Short):
            parts = (Short(script=":", titles=("write the journal",), deadline=FRAME_DEADLINE), *parts)
        for position, part in enumerate(parts):
            last = position == len(parts) - 1
            done = await self._segment(node, part, number, record, first=position == 0, last=last, slot=slot)
        if done is None:
            done = await self._exchange.submit(script=f"gp_done {number}", look=node, completes=True)
        left = plan_of(node, done.state)
        if left is not None:
            raise DidNotConverge(
                f"it was changed, and is still different: {left.before}, wanted {left.after}",
                hint="something undoes it, or its steps do not do what its probe looks for",
            )

    async def _segment(
        self, node: Node, part: Segment, number: int, record: str, *, first: bool, last: bool, slot: str
    ) -> Done | None:
        """Carry out one segment. Returns the state seen after it when it is the last and a short one."""
        if isinstance(part, Short):
            if part.uploads:
                await self._upload(node, part, number, record, first=first, slot=slot)
                first = False
            script = journaled(
                part,
                number=number,
                record=record,
                claims=node.resource.claims(),
                first=first,
                last=last,
                slot=slot,
                undoing=self._undoing,
            )
            look = node if last else None
            try:
                done = await self._exchange.submit(
                    script=script, env=part.env, look=look, completes=last, deadline=part.deadline
                )
            except StepFailed as never_began:
                raise await self._undone(node, number, never_began) from None
            result = done.script
            assert result is not None
            out, back = self._parted(result.stdout)
            self._say(node, out + back)
            if result.status != 0:
                failed = short_failed(part, result.status, out, result.stderr, redact=self.redactor)
                raise await self._undone(node, number, failed, result)
            return done if last else None
        try:
            if isinstance(part, Member):
                await self._transactions.join(part, lambda line: self._line(node, line))
            elif isinstance(part, Obtain):
                await obtain(
                    part,
                    run_job=self.run_job,
                    connection=self.connection,
                    emit_line=lambda line: self._line(node, line),
                    cache=self.cache,
                )
            else:
                await self._run_job(node.id, part, lambda line: self._line(node, line))
        except StepFailed as failed:
            raise await self._undone(node, number, failed) from None
        return None

    def _parted(self, stdout: bytes) -> tuple[bytes, bytes]:
        """Return what a section's steps printed, and what giving back said, which stands behind a line of ours."""
        out, _, back = stdout.partition(f"{self._undoing}\n".encode())
        return out, back

    async def _undone(
        self, node: Node, number: int, failed: StepFailed, section: SectionResult | None = None
    ) -> StepFailed:
        """Have what the failed change did given back, and return its error, which says what that was.

        ``section``: the one that failed. It gives back by itself, unless it was ended from outside: then its status is
        missing or over 128, as that of a script may be too.
        """
        said = self._parted(section.stdout)[1] if section is not None else b""
        if section is None or section.status is None or section.status > 128:
            undo = (await self._exchange.submit(script=f"gp_undo {number}")).script
            assert undo is not None
            self._say(node, undo.stdout)
            said += b"\n" + undo.stdout
        if back := given_back(said.decode(errors="replace").splitlines()):
            # Not written into it: those who failed in one transaction share it
            message = f"{failed.message}; {self.redactor(back)}"
            return StepFailed(message, status=failed.status, where=failed.where, output=failed.output, hint=failed.hint)
        return failed

    async def _upload(self, node: Node, part: Short, number: int, record: str, *, first: bool, slot: str) -> None:
        """Write what is too large for a frame, with the intent noted before, so that a cut-off file is found again."""
        if first:
            note = dataclasses.replace(part, script=":", titles=("write the journal",), uploads=())
            await self._segment(node, note, number, record, first=True, last=False, slot=slot)
        try:
            for path, content in part.uploads:
                await self.connection.put(path, content)
        except StepFailed as failed:
            await self._exchange.submit(script=command("rm", "-f", "--", *part.temps))
            raise await self._undone(node, number, failed) from None

    async def _run_job(self, slot: Id, job: Job, on_line: Callable[[str], None]) -> None:
        """Run a job to its end.

        Raises:
            StepFailed: with its last lines.
            Locked: other work has its slot, and still runs.
        """
        words = OwnWords(on_line, expected=job.own_words)
        result = await self.run_job(slot, job, digest(job_digest_parts(job)), words)
        if result.status == 0 and result.how == "ended":
            return
        tail = self.redactor(words.without_announcement(result.tail))
        if result.how == "ended":
            raise job_failed(job.title, result.status, tail, mark=words.mark)
        if result.how == "conflict":
            # Nothing is given back under the hands of the other, which may write the same paths
            raise Locked(
                f"{job.title}: the job could not start: its slot is taken by other work",
                output=words.shown(tail),
            )
        how = {
            "died": "died: its runner was ended from outside, or the host restarted",
            "cancelled": "was cancelled",
            "deadline": f"did not end within {job.deadline:.0f} s, and was ended",
            "silent": f"printed nothing for {job.silence:.0f} s, and was ended",
        }[result.how]
        raise StepFailed(f"{job.title}: the job {how}", status=result.status, output=words.shown(tail))

    async def _reopen(self) -> None:
        # One for all: whoever comes while another reopens finds the line whole
        async with self._reopening:
            await self.reopened(tuple(self._under_way))

    def _say(self, node: Node, raw: bytes) -> None:
        for line in raw.decode(errors="replace").splitlines():
            self._line(node, line)

    def _line(self, node: Node, line: str) -> None:
        self.emit(NodeOutput(host=self.host, id=node.id, line=self.redactor(line)))
        if found := _PROGRESS.search(line):
            done, total = (int(number) for number in found.groups() if number is not None)
            unit: Literal["bytes", "items"] = "bytes" if found[1] else "items"
            self.emit(NodeProgress(host=self.host, id=node.id, done=done, total=total, unit=unit))


def _secrets(change: Change) -> Iterator[Secret]:
    for step in change.steps:
        yield from (value for value in step.env.values() if isinstance(value, Secret))
        if isinstance(step, Put) and isinstance(step.content, Secret):
            yield step.content


def _ended_as(outcome: Outcome) -> str:
    return {"failed": "failed", "skipped": "was skipped", "unseen": "could not be looked at"}[outcome.kind]


def _placed(error: Exception, host: str, id_: Id) -> Exception:
    if isinstance(error, GpuprovError):
        error.where = f"{host}, {id_}"
    return error
