from __future__ import annotations

from collections.abc import Iterable

import pytest
from rich.cells import cell_len

from gpuprov.events import Event, PlanLine, PlanReady, RunStarted
from gpuprov.report.plan import PlanReader
from tests.report.story import plan_of, plan_story


def page(
    events: Iterable[Event],
    width: int | None = 100,
    *,
    hosts: list[str] | None = None,
    everything: bool = False,
    diff: bool = False,
) -> list[str]:
    reader = PlanReader()
    for event in events:
        reader(event)
    return [line.plain for line in reader.render(width, hosts=hosts, everything=everything, diff=diff)]


def one(verdict: str = "change", **more: object) -> list[Event]:
    line = PlanLine(host="gpu1", play="p", role="r", id="file:/x", verdict=verdict, **more)  # type: ignore[arg-type]
    return [line, PlanReady(host="gpu1", play="p")]


def test_the_whole_page() -> None:
    assert page(plan_story()) == [
        "gpu1, gpu3",
        "  gcc",
        "    + apt:gcc-11            11.3.0",
        "  cuda_toolkit",
        "    + cuda-toolkit:11.7     11.7.1 in /usr/local/cuda-11.7 (flash-attention 1.0.9 is built with it)",
        "  motd",
        "    ~ file:/etc/motd        0644 root → 0644 root, 1 line differs",
        "    - file:/etc/old         0644 root → absent",
        "  flash_attention",
        "    ? pip:train/flash-attn  1.0.9; checked again after conda-env:train",
        "    x check:flash-attn      blocked: nvidia-smi did not answer within 10 s",
        "  4 to change, 1 blocked, 1 as wanted, 1 checked again",
        "",
        "gpu2",
        "  gcc",
        "    ! apt:gcc-11  11.2.0 → 11.3.0",
        "  made by gpuprov, declared no more",
        "      file:/etc/former  left as it is",
        "  1 to change",
        "",
        "gpu4, gpu5  nothing to change",
        "",
        "Plan: 3 of 5 hosts differ; 9 to change, 2 blocked, 4 as wanted, 2 checked again.",
        "(+ create, ~ update, ! replace, - remove, ? checked again, x blocked)",
    ]


@pytest.mark.parametrize("width", [20, 33, 50, 79, 120])
def test_no_line_is_wider_than_the_terminal_and_none_ends_with_blanks(width: int) -> None:
    for line in page(plan_story(), width, everything=True, diff=True):
        assert cell_len(line) <= width
        assert line == line.rstrip()


def test_every_word_survives_wrapping() -> None:
    wide = page(plan_story(), None)
    narrow = page(plan_story(), 30)
    assert "".join("".join(wide).split()) == "".join("".join(narrow).split())


def test_without_a_terminal_each_change_is_one_line() -> None:
    why = "because " * 60
    lines = page(one(action="update", before="a", after="b", why=why), None)
    assert f"    ~ file:/x  a → b ({why})" in lines


def test_what_is_as_wanted_is_shown_when_asked_for() -> None:
    assert "    = apt:make              4.3" in page(plan_of("gpu1"), everything=True)
    assert not [line for line in page(plan_of("gpu1")) if "apt:make" in line]


def test_diffs_stand_under_their_line_when_asked_for() -> None:
    lines = page(plan_of("gpu1"), diff=True)
    at = next(number for number, line in enumerate(lines) if "file:/etc/motd" in line)
    assert lines[at + 1 : at + 6] == [
        "        --- /etc/motd",
        "        +++ /etc/motd",
        "        @@ -1 +1 @@",
        "        -old",
        "        +new",
    ]
    assert not [line for line in page(plan_of("gpu1")) if line.strip() == "+new"]


def test_hosts_that_differ_in_any_word_are_shown_apart() -> None:
    events = [*one(action="update", before="a", after="b", diff="-a\n+b\n")]
    other = PlanLine(
        host="gpu2", play="p", role="r", id="file:/x", verdict="change", action="update", before="a", after="b", diff=""
    )
    lines = page([*events, other, PlanReady(host="gpu2", play="p")])
    assert "gpu1" in lines
    assert "gpu2" in lines


def test_a_play_that_is_planned_again_replaces_the_former() -> None:
    again = PlanLine(host="gpu1", play="p", role="r", id="file:/y", verdict="change", action="create", after="b")
    lines = page([*one(action="create", after="a"), again, PlanReady(host="gpu1", play="p")])
    assert not [line for line in lines if "file:/x" in line]
    assert [line for line in lines if "file:/y" in line]


def test_plays_are_named_when_there_are_several_with_their_notes() -> None:
    second = PlanLine(host="gpu1", play="q", role="r", id="file:/y", verdict="change", action="create", after="b")
    ready = PlanReady(host="gpu1", play="q", note="may change after play p")
    lines = page([*one(action="create", after="a"), second, ready])
    assert "  play p" in lines
    assert lines[lines.index("  play q") + 1] == "  may change after play p"


def test_a_note_is_said_though_nothing_would_change() -> None:
    events = [PlanReady(host="gpu1", play="p", note="may change after play 1")]
    assert "  p: may change after play 1" in page(events)


def test_a_host_without_a_plan_is_not_shown_as_one_without_changes() -> None:
    lines = page([RunStarted(run="r", command="plan", hosts=("gpu1", "gone")), *one("same")])
    assert not [line for line in lines if "gone" in line]


def test_hosts_come_in_the_order_of_the_run() -> None:
    start = RunStarted(run="r", command="plan", hosts=("b", "a"))
    lines = page([start, *plan_of("a"), *plan_of("b")])
    assert lines[0] == "b, a"


@pytest.mark.parametrize(
    ("action", "before", "after", "shown"),
    [
        ("create", "absent", "1.0", "+ file:/x  1.0"),
        ("create", "", "1.0", "+ file:/x  1.0"),
        ("update", "a", "b", "~ file:/x  a → b"),
        ("replace", "a", "b", "! file:/x  a → b"),
        ("remove", "a", "absent", "- file:/x  a → absent"),
        ("remove", "a", "", "- file:/x  a → absent"),
        ("unheard-of", "a", "b", "~ file:/x  a → b"),
    ],
)
def test_signs_and_transitions(action: str, before: str, after: str, shown: str) -> None:
    assert "    " + shown in page(one(action=action, before=before, after=after))


def test_not_selected_is_no_difference() -> None:
    reader = PlanReader()
    for event in one("not-selected", action="create", after="b"):
        reader(event)
    assert reader.differing() == []
    assert "    . file:/x  b; not selected" in page(one("not-selected", action="create", after="b"), everything=True)


def test_wide_names_keep_the_column() -> None:
    narrow = PlanLine(host="h", play="p", role="r", id="file:/abcd", verdict="change", action="create", after="1")
    wide = PlanLine(host="h", play="p", role="r", id="file:/漢字", verdict="change", action="create", after="2")
    lines = page([narrow, wide, PlanReady(host="h", play="p")])
    starts = {cell_len(line[: line.index(mark)]) for line, mark in ((lines[2], "1"), (lines[3], "2"))}
    assert len(starts) == 1


def test_hostile_text_is_shown_and_does_nothing() -> None:
    evil = "\x1b[2J\x1b]0;x\x07[red]\u202e"
    text = "\n".join(page(one(action="update", before=evil, after=evil, why=evil, diff=f"-{evil}\n"), diff=True))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[red]" in text
