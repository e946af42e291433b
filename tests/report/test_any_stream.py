"""Whatever the stream says and in whatever order: no reader raises, and nothing acts on a terminal."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuprov import events
from gpuprov.errors import ErrorRecord
from gpuprov.events import Event, Sink
from gpuprov.report.board import Board
from gpuprov.report.command import command_lines
from gpuprov.report.facts import FactsReader
from gpuprov.report.jsonlines import JsonLines
from gpuprov.report.lines import PlainLog
from gpuprov.report.plan import PlanReader
from gpuprov.report.recap import Recap
from gpuprov.report.rows import frame

HOSTILE = ["", "gpu1", "gpu2", "apt:gcc-11", "\x1b[2J", "a\nb\r", "\u202ex", "[red]", "漢字" * 9, "x" * 300, "\udcff"]
text = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=12))
names = st.sampled_from(["gpu1", "gpu2", "\x1b[31m", "漢字"])
number = st.integers(-5, 10**18)
at = st.one_of(st.floats(0, 1e6), st.sampled_from([float("nan"), float("inf"), -1.0, 1e300]))
counts = st.dictionaries(st.sampled_from(["same", "changed", "failed", "odd\x1b"]), st.integers(0, 99), max_size=3)
errors = st.none() | st.builds(ErrorRecord, code=text, message=text, where=text, output=text, hint=text)
texts = st.lists(text, max_size=3).map(tuple)
plain = st.recursive(
    st.none() | st.booleans() | number | text | at,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)


def built(kind: type[Event], **fields: st.SearchStrategy[object]) -> st.SearchStrategy[Event]:
    return st.builds(kind, at=at, **fields)


any_event = st.one_of(
    built(
        events.RunStarted,
        run=text,
        command=st.sampled_from(["plan", "apply", "facts", "exec"]),
        playbook=text,
        hosts=st.lists(names, max_size=4).map(tuple),
    ),
    built(
        events.HostPhase,
        host=names,
        phase=st.sampled_from(["waiting", "connect", "lock", "converge", "done"]),
        note=text,
    ),
    built(
        events.PlanLine,
        host=names,
        play=text,
        role=text,
        id=text,
        verdict=st.sampled_from(["same", "change", "recheck", "blocked", "not-selected"]),
        action=st.sampled_from(["create", "update", "replace", "remove", "", "odd"]),
        before=text,
        after=text,
        why=text,
        diff=text,
        steps=texts,
        rechecked_after=texts,
    ),
    built(events.PlanReady, host=names, play=text, counts=counts, undeclared=texts, note=text),
    built(events.NodeStarted, host=names, role=text, id=text, title=text),
    built(events.NodeOutput, host=names, id=text, line=text),
    built(
        events.NodeProgress, host=names, id=text, done=number, total=number, unit=st.sampled_from(["bytes", "items"])
    ),
    built(
        events.NodeEnded,
        host=names,
        role=text,
        id=text,
        outcome=st.sampled_from(["same", "changed", "failed", "skipped", "not-selected", "unseen"]),
        because=text,
        seconds=at,
        action=text,
        error=errors,
    ),
    built(events.Notice, level=st.sampled_from(["warning", "info", "debug"]), text=text, host=text),
    built(events.FactsRead, host=names, facts=st.dictionaries(text, plain, max_size=3)),
    built(events.CommandEnded, host=names, status=st.integers(-64, 255), stdout=text, stderr=text, seconds=at),
    built(
        events.HostEnded,
        host=names,
        status=st.sampled_from(["ok", "changed", "failed", "unreachable", "interrupted"]),
        counts=counts,
        seconds=at,
        exchanges=number,
        error=errors,
    ),
    built(events.RunEnded, run=text, exit_code=st.integers(0, 255), seconds=at, next=text),
)


def again(command: str, *, hosts: Sequence[str] | None = None) -> str:
    return command


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stream=st.lists(any_event, max_size=25), width=st.integers(1, 120), height=st.integers(1, 12))
def test_no_stream_makes_a_reader_raise(stream: list[Event], width: int, height: int) -> None:
    said: list[str] = []
    file = io.StringIO()
    logs = [PlainLog(lambda line: said.append(line.plain), verbosity=level, diff=True) for level in range(4)]
    plan, recap, facts, board = PlanReader(), Recap(), FactsReader(), Board()
    readers: list[Sink] = [*logs, plan, recap, facts, board, JsonLines(file)]
    for event in stream:
        for reader in readers:
            reader(event)
        said += [line.plain for line in frame(board, 1e6, width, height)]
        if isinstance(event, events.CommandEnded):
            said += [line.plain for line in command_lines(event)]
    for cells in (None, max(20, width)):
        said += [line.plain for line in plan.render(cells, everything=True, diff=True)]
        said += [line.plain for line in facts.render(cells)]
        said += [line.plain for line in recap.render(cells, again=again, differing=("a",))]
    for line in said:
        line.encode("utf-8")
        assert not set("\x1b\r\n\u202e\x07") & set(line)
    lines = file.getvalue().splitlines()
    assert len(lines) == len(stream)
    assert all(json.loads(line)["v"] == 1 for line in lines)
