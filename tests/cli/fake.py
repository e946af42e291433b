"""Stand-ins for what a command calls: no inventory, no playbook, no host."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

import pytest

from gpuprov.cli import calls
from gpuprov.cli.words import Words
from gpuprov.events import Event, HostEnded, RunEnded, RunStarted, Sink
from tests.report.story import plan_of


@dataclass
class Called:
    """What the command line asked for."""

    kind: str = ""
    subject: str = ""
    line: str = ""
    words: Words | None = None
    approved: dict[str, bool] = field(default_factory=dict)
    was_cancelled: bool = False

    @property
    def typed(self) -> Words:
        assert self.words is not None
        return self.words


Body = Callable[[Sink, calls.Approve | None], Awaitable[int]]


def install(monkeypatch: pytest.MonkeyPatch, body: Body, hosts: Sequence[str] = ("gpu1", "gpu2")) -> Called:
    """Put ``body`` where the engine would run."""
    called = Called()

    def play(playbook: str, words: Words) -> calls.Ready:
        called.kind, called.subject, called.words = words.command, playbook, words
        return calls.Ready(hosts=tuple(hosts), run=body)

    def facts(pattern: str, words: Words) -> calls.Ready:
        called.kind, called.subject, called.words = "facts", pattern, words
        return calls.Ready(hosts=tuple(hosts), run=body)

    def command(pattern: str, line: str, words: Words) -> calls.Ready:
        called.kind, called.subject, called.line, called.words = "exec", pattern, line, words
        return calls.Ready(hosts=tuple(hosts), run=body)

    monkeypatch.setattr(calls, "play", play)
    monkeypatch.setattr(calls, "facts", facts)
    monkeypatch.setattr(calls, "command", command)
    return called


def telling(events: Iterable[Event], code: int = 0) -> Body:
    """A run that says these events and ends with ``code``."""
    said = tuple(events)

    async def body(sink: Sink, approve: calls.Approve | None) -> int:
        for event in said:
            sink(event)
            await asyncio.sleep(0)
        return code

    return body


def asking(hosts: Sequence[str], answers: dict[str, bool]) -> Body:
    """A run that plans, asks for each host, and writes the answers down."""

    async def one(host: str, sink: Sink, approve: calls.Approve | None) -> None:
        for event in plan_of(host):
            sink(event)
        answers[host] = approve is None or await approve(host)
        sink(HostEnded(host=host, status="changed" if answers[host] else "ok", counts={"changed": 4}))

    async def body(sink: Sink, approve: calls.Approve | None) -> int:
        sink(RunStarted(run="r", command="apply", playbook="site.yaml", hosts=tuple(hosts)))
        await asyncio.gather(*(one(host, sink, approve) for host in hosts))
        sink(RunEnded(run="r", exit_code=0, seconds=0.1))
        return 0

    return body
