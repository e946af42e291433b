from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from gpuprov.events import Event, NodeEnded, NodeOutput, NodeStarted, Notice, RunStarted
from gpuprov.report.lines import PlainLog
from tests.report.story import START, apply_story


def log(events: Iterable[Event], verbosity: int = 0, *, diff: bool = False, sole: bool = True) -> list[str]:
    lines: list[str] = []
    reader = PlainLog(lambda text: lines.append(text.plain), verbosity=verbosity, diff=diff, sole=sole)
    for event in events:
        reader(event)
    return [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in lines]


def test_a_quiet_log_tells_changes_failures_and_signs_of_life() -> None:
    assert log(apply_story()) == [
        "apply site.yaml on 3 hosts (run 20261130-133250-4f1c)",
        "gpu1 warning     roles/gcc beside the playbook shadows the shipped",
        "gpu1 changed     apt:gcc-11 (create 11.3.0)  12s",
        "gpu2 changed     apt:gcc-11 (create 11.3.0)  12s",
        "gpu2 failed      cuda-toolkit:11.7: the step 'run the installer' ended with status 255  16s",
        "gpu2 skipped     pip:train/flash-attn: cuda-toolkit:11.7 failed",
        "gpu2 failed      done: 2 changed, 1 failed, 1 skipped, 1 as wanted  30s",
        "gpu3 unreachable no connection to gpu3 (10.0.0.9:22) within 15 s, in phase tcp  30s",
        "gpu1 still on    cuda-toolkit:11.7 for 41s [37/92]  [37/92] c++ flash_fwd.o",
        "gpu1 changed     cuda-toolkit:11.7 (create 11.7.1 in /usr/local/cuda-11.7)  1m 16s",
        "gpu1 changed     done: 5 changed, 1 as wanted  1m 31s",
    ]


def test_every_line_has_the_time_of_day() -> None:
    lines: list[str] = []
    reader = PlainLog(lambda text: lines.append(text.plain))
    for event in apply_story():
        reader(event)
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in lines)


@pytest.mark.parametrize(
    ("verbosity", "there", "not_there"),
    [
        (0, "changed", "begins"),
        (1, "begins      apt:gcc-11 (install gcc-11)", "Unpacking"),
        (2, "|           apt:gcc-11  Unpacking gcc-11 (11.3.0-12) ...", "round trip"),
        (3, "7 round trips", "nothing is hidden here"),
    ],
)
def test_each_v_tells_more(verbosity: int, there: str, not_there: str) -> None:
    text = "\n".join(log(apply_story(), verbosity))
    assert there in text
    assert not_there not in text


@pytest.mark.parametrize(
    ("level", "verbosity", "said"),
    [("warning", 0, True), ("info", 0, False), ("info", 1, True), ("debug", 1, False), ("debug", 2, True)],
)
def test_notices_have_their_levels(level: str, verbosity: int, said: bool) -> None:
    assert bool(log([Notice(level=level, text="hello")], verbosity)) is said  # type: ignore[arg-type]


def test_same_is_said_only_when_asked_for() -> None:
    events = [NodeEnded(host="h", role="r", id="apt:make", outcome="same")]
    assert log(events) == []
    assert log(events, 1) == ["h same        apt:make"]


def test_the_diff_of_what_changed_is_shown_when_asked_for() -> None:
    ended = NodeEnded(host="gpu1", role="motd", id="file:/etc/motd", outcome="changed")
    lines = log([*apply_story(), ended], diff=True)
    assert lines[-5:] == ["    --- /etc/motd", "    +++ /etc/motd", "    @@ -1 +1 @@", "    -old", "    +new"]


def test_signs_of_life_come_at_most_twice_a_minute() -> None:
    start = NodeStarted(at=START, host="h", role="r", id="job", title="build")
    out = [NodeOutput(at=START + second, host="h", id="job", line=f"line {second}") for second in range(1, 121)]
    assert log([start, *out]) == [
        "h still on    job for 30s  line 30",
        "h still on    job for 1m 00s  line 60",
        "h still on    job for 1m 30s  line 90",
        "h still on    job for 2m 00s  line 120",
    ]
    assert log([start, *out], sole=False) == []


def test_hosts_stand_in_a_column() -> None:
    start = RunStarted(run="r", command="apply", hosts=("a", "longer"))
    lines = log([start, Notice(level="warning", host="a", text="x"), Notice(level="warning", host="longer", text="y")])
    assert lines[1:] == ["a      warning     x", "longer warning     y"]


def test_hostile_text_is_shown_and_does_nothing() -> None:
    evil = "\x1b[2J\r\n[red]\u202e"
    text = "\n".join(log([Notice(level="warning", host=evil, text=evil), NodeOutput(host=evil, id=evil, line=evil)], 3))
    assert not re.search("[\x1b\r\u202e]", text)
    assert len(text.split("\n")) == 2
