from __future__ import annotations

import io
import json
import os

from gpuprov.events import CommandEnded, Event, FactsRead, Notice, Sink
from gpuprov.report.command import command_lines
from gpuprov.report.facts import FactsReader
from gpuprov.report.fanout import Fanout
from gpuprov.report.jsonlines import JsonLines
from tests.report.story import apply_story


class Flushed(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.flushes = 0

    def flush(self) -> None:
        self.flushes += 1


def test_each_event_is_one_json_line_that_is_flushed() -> None:
    file = Flushed()
    reader = JsonLines(file)
    events = list(apply_story())
    for event in events:
        reader(event)
    lines = file.getvalue().splitlines()
    assert len(lines) == len(events) == file.flushes
    assert [json.loads(line)["event"] for line in lines] == [event.name for event in events]
    assert {json.loads(line)["v"] for line in lines} == {1}


def test_hostile_text_stays_on_its_json_line() -> None:
    file = io.StringIO()
    text = "a\n\u2028\x85\x1b[31m\udcff"
    JsonLines(file)(Notice(level="info", text=text))
    assert len(file.getvalue().splitlines()) == 1
    assert "\x1b" not in file.getvalue()
    assert json.loads(file.getvalue())["text"] == text


def test_json_whose_reader_went_away_is_dropped() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as file:
        reader = JsonLines(file)
        for event in apply_story():
            reader(event)
        assert reader.broken


def test_a_reader_that_fails_is_dropped_and_the_others_read_on() -> None:
    seen: list[Event] = []
    lost: list[tuple[Sink, Exception]] = []

    def bad(event: Event) -> None:
        raise ValueError("no")

    fanout = Fanout([bad, seen.append], lost=lambda reader, error: lost.append((reader, error)))
    for event in apply_story():
        fanout(event)
    assert len(seen) == len(list(apply_story()))
    assert [(reader, str(error)) for reader, error in lost] == [(bad, "no")]


def facts_page(facts: dict[str, object], width: int | None = 80) -> list[str]:
    reader = FactsReader()
    reader(FactsRead(host="gpu1", facts=facts))
    return [line.plain for line in reader.render(width)]


def test_facts_are_a_table() -> None:
    facts = {
        "kernel": "6.1.0",
        "container": False,
        "os": {"name": "debian", "version": "12"},
        "gpus": [{"name": "A100", "memory_mib": 81920}, {"name": "A100", "memory_mib": 81920}],
        "cuda": {"toolkits": ["11.7", "12.1"], "link": None, "extra": {"deep": [1, 2]}},
        "envs": [],
    }
    assert facts_page(facts) == [
        "gpu1",
        "  kernel     6.1.0",
        "  container  no",
        "  envs       none",
        "  os",
        "    name     debian",
        "    version  12",
        "  gpus",
        "    [0]  name=A100  memory_mib=81920",
        "    [1]  name=A100  memory_mib=81920",
        "  cuda",
        "    toolkits    11.7, 12.1",
        "    link        none",
        "    extra.deep  1, 2",
        "",
    ]


def test_long_groups_are_counted_unless_asked_for() -> None:
    reader = FactsReader()
    reader(FactsRead(host="a", facts={"protected": {f"file:{number}": "" for number in range(50)}}))
    assert [line.plain for line in reader.render(80)] == ["a", "  protected  50 facts, shown with -v", ""]
    assert "    file:49  -" in [line.plain for line in reader.render(80, everything=True)]


def test_hosts_come_in_the_order_asked_for() -> None:
    reader = FactsReader()
    for host in ("b", "a"):
        reader(FactsRead(host=host, facts={"kernel": "6"}))
    assert next(line.plain for line in reader.render(80, order=["a", "b"])) == "a"


def test_hostile_facts_do_nothing() -> None:
    text = "\n".join(facts_page({"\x1b[2J": "\u202ex\ny"}))
    assert "\x1b" not in text
    assert "x␊y" in text


def test_the_output_of_a_command_stands_under_its_host() -> None:
    event = CommandEnded(host="gpu1", status=0, stdout="one\n two\x1b[31m\n", stderr="", seconds=0.3)
    assert [line.plain for line in command_lines(event)] == ["gpu1  ok  0.3s", "  one", "   two␛[31m"]
    event = CommandEnded(host="gpu1", status=127, stdout="", stderr="sh: x: not found\n", seconds=0.3)
    assert [line.plain for line in command_lines(event)] == ["gpu1  status 127  0.3s", "! sh: x: not found"]
