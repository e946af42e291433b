"""A pretended host for tests of converging: it knows the scripts of `things`, and counts what was sent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuprov.engine.converge import Converge
from gpuprov.engine.graph import Declaration, build
from gpuprov.engine.judging import judge
from gpuprov.events import Event
from gpuprov.jobs import JobResult
from gpuprov.model import Id, Job
from gpuprov.secret import Secret
from gpuprov.transport.frame import Frame, FrameResult, SectionResult, Stream

MAKE = re.compile(r"^make (\S+) (\S+)$", re.MULTILINE)
LOOK = re.compile(r"^look (\S+)$", re.MULTILINE)


@dataclass(eq=False)
class PretendedHost:
    """Its state is a word for each name. ``before_frame`` may change the host or raise, as a line does.

    What is ``broken`` fails, and ``said`` is what it prints.
    """

    states: dict[str, str] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    said: bytes = b"broken\n"
    stubborn: set[str] = field(default_factory=set)
    frames: list[list[str]] = field(default_factory=list)
    journal: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    jobs: list[tuple[str, str]] = field(default_factory=list)
    job_status: int = 0
    bad_items: set[str] = field(default_factory=set)
    after_make: Callable[[str], None] | None = None
    before_frame: Callable[[int], None] | None = None
    after_frame: Callable[[int], None] | None = None
    host: str = "pretended"
    exchanges: int = 0
    on_open: str = ""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def put(self, path: str, content: bytes | Secret, *, deadline: float = 600.0) -> None: ...

    async def stream(self, script: str, *, deadline: float | None = None) -> Stream:
        raise AssertionError("nothing is streamed here")

    async def kill(self, group: int, *, grace: float = 5.0) -> bool:
        return True

    async def frame(self, frame: Frame) -> FrameResult:
        self.exchanges += 1
        if self.before_frame:
            self.before_frame(self.exchanges)
        told, results = [], {}
        for section in frame.sections:
            status, out = 0, b""
            for name, want in MAKE.findall(section.script):
                told.append(f"make {name}")
                self.made.append(name)
                if name in self.broken:
                    status, out = 1, self.said
                elif name not in self.stubborn:
                    self.states[name] = want
                if self.after_make:
                    self.after_make(name)
            for name in LOOK.findall(section.script):
                told.append(f"look {name}")
                out += self.states.get(name, "").encode()
            self.journal += re.findall(r"gp_(?:begin|done|undo) \d+", section.script)
            results[section.name] = SectionResult(name=section.name, status=status, stdout=out)
        self.frames.append(told)
        if self.after_frame:
            self.after_frame(self.exchanges)
        return FrameResult(sections=results)

    async def run_job(self, slot: Id, job: Job, digest: str, on_line: Callable[[str], None]) -> JobResult:
        items = job.script.split()
        self.jobs.append((slot, job.script))
        on_line(f"doing {job.script}")
        bad = self.bad_items & set(items)
        if not bad:
            self.states.update(dict.fromkeys(items, "there"))
        return JobResult(
            status=1 if bad else self.job_status,
            attempt=1,
            how="ended",
            tail="no such item" if bad else "",
            followed=False,
        )


async def converge(host: PretendedHost, *declarations: Declaration) -> tuple[Converge, list[Event]]:
    """Judge the host's present state and make it so, without a first exchange."""
    graph = build(declarations)
    states: Mapping[Id, Any] = {id_: host.states.get(id_.partition(":")[2]) for id_ in graph}
    events: list[Event] = []

    async def reopened(under_way: Any) -> None:
        host.journal.append(f"reopened {sorted(under_way)}")

    run = Converge(
        host="h",
        run="r",
        graph=graph,
        states=states,
        verdicts=judge(graph, states),
        connection=host,
        prelude="",
        run_job=host.run_job,
        reopened=reopened,
        emit=events.append,
    )
    await run.go()
    return run, events
