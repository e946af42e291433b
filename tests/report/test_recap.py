from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from rich.cells import cell_len

from gpuprov.errors import ErrorRecord
from gpuprov.events import Event, HostEnded, NodeEnded, RunEnded, RunStarted
from gpuprov.report.recap import OUTPUT_LINES, Recap
from tests.report.story import apply_story, broken, plan_story, refused


def again(command: str, *, hosts: Sequence[str] | None = None) -> str:
    return f"gpuprov {command} site.yaml" + (f" -l {','.join(hosts)}" if hosts else "")


def recap(
    events: Iterable[Event], width: int | None = 100, *, differing: Sequence[str] = (), command: str = ""
) -> list[str]:
    reader = Recap(command)
    for event in events:
        reader(event)
    return [line.plain for line in reader.render(width, again=again, differing=differing)]


def test_the_whole_recap() -> None:
    assert recap(apply_story()) == [
        "warning: gpu1: roles/gcc beside the playbook shadows the shipped",
        "",
        "gpu2  cuda-toolkit:11.7  step failed",
        "  the step 'run the installer' ended with status 255",
        "  │ [INFO]: Checking compiler version...",
        "  │ [ERROR]: unsupported compiler version: 12.2.0.",
        "  │  Failed to verify gcc version. See log at /var/log/cuda-installer.log for details.",
        "  hint: CUDA 11.7 takes gcc up to 11: add the role gcc with version 11 before it",
        "",
        "gpu3  unreachable",
        "  no connection to gpu3 (10.0.0.9:22) within 15 s, in phase tcp",
        "  hint: is the instance running, and the port the one the provider shows?",
        "",
        "gpu1  changed       1m 31s  5 changed, 1 as wanted",
        "gpu2  failed           30s  2 changed, 1 failed, 1 skipped, 1 as wanted",
        "gpu3  unreachable      30s",
        "3 hosts: 1 changed, 1 failed, 1 unreachable  1m 31s",
        "",
        "When that is repaired:",
        "  gpuprov apply site.yaml -l gpu2,gpu3",
    ]


@pytest.mark.parametrize("width", [24, 40, 60])
def test_only_the_command_to_copy_may_be_wider_than_the_terminal(width: int) -> None:
    lines = recap(apply_story(), width)
    assert all(cell_len(line) <= width for line in lines[:-1])
    assert lines[-1] == "  gpuprov apply site.yaml -l gpu2,gpu3"


def test_after_a_plan_that_differs_comes_the_apply() -> None:
    differing = ("gpu1", "gpu2", "gpu3")
    assert recap(plan_story(), differing=differing) == ["", "To make it so:", "  gpuprov apply site.yaml"]
    assert recap(plan_story()) == []


def test_after_a_plan_that_cannot_be_made_so_comes_another_plan() -> None:
    ends = [HostEnded(host="gpu1", status="failed", error=broken("gpu1"))]
    assert recap([*plan_story(), *ends], differing=("gpu1",))[-3:] == [
        "",
        "When that is repaired:",
        "  gpuprov plan site.yaml -l gpu1",
    ]


def test_hosts_that_can_be_made_so_need_not_wait_for_the_others() -> None:
    ends = [HostEnded(host="gpu2", status="unreachable", error=refused("gpu2"))]
    assert recap([*plan_story(), *ends], differing=("gpu1", "gpu2", "gpu3"))[-6:] == [
        "",
        "To make it so:",
        "  gpuprov apply site.yaml -l gpu1,gpu3",
        "",
        "When it answers again:",
        "  gpuprov plan site.yaml -l gpu2",
    ]


def test_an_apply_that_only_looks_is_a_plan() -> None:
    assert recap(plan_story(), differing=("gpu1",), command="plan")[-1] == "  gpuprov apply site.yaml"


def test_the_same_error_on_many_hosts_is_told_once() -> None:
    hosts = ("a", "b", "c")
    ends = [HostEnded(host=host, status="unreachable", error=refused(host)) for host in hosts]
    lines = recap([RunStarted(run="r", command="apply", hosts=hosts), *ends])
    assert lines[0] == "a, b, c  unreachable"
    assert sum("in phase tcp" in line for line in lines) == 1


def test_an_error_that_node_and_host_both_carry_is_told_once() -> None:
    node = NodeEnded(host="a", role="r", id="cuda-toolkit:11.7", outcome="failed", error=broken("a"))
    lines = recap([node, HostEnded(host="a", status="failed", error=broken("a"))])
    assert sum("ended with status 255" in line for line in lines) == 1


def test_of_long_output_the_last_lines_are_shown_and_the_rest_is_counted() -> None:
    error = ErrorRecord(code="step-failed", message="no", output="\n".join(f"line {n}" for n in range(100)))
    lines = recap([HostEnded(host="a", status="failed", error=error)])
    assert f"  │ … {100 - OUTPUT_LINES} lines before" in lines
    assert "  │ line 99" in lines
    assert "  │ line 79" not in lines


@pytest.mark.parametrize("code", ["unreachable", "host-key", "authentication", "line-lost", "locked"])
def test_an_error_without_a_hint_still_says_what_to_try(code: str) -> None:
    lines = recap([HostEnded(host="a", status="failed", error=ErrorRecord(code=code, message="no"))])
    assert [line for line in lines if line.startswith("  hint: ")]


def test_a_failure_without_an_error_is_still_told() -> None:
    lines = recap([NodeEnded(host="a", role="r", id="x", outcome="failed", because="it would not")])
    assert "  it would not" in lines


def test_after_an_interrupt_the_same_command_is_offered() -> None:
    started = RunStarted(run="r", command="apply", hosts=("a",))
    assert recap([started, HostEnded(host="a", status="interrupted")])[-1] == "  gpuprov apply site.yaml"


def test_what_the_run_itself_proposes_comes_first() -> None:
    ended = RunEnded(run="r", exit_code=1, seconds=1, next="gpuprov jobs gpu2")
    assert recap([*apply_story(), ended])[-1] == "  gpuprov jobs gpu2"


def test_hostile_text_is_shown_and_does_nothing() -> None:
    evil = "\x1b[2J[red]\u202e"
    error = ErrorRecord(code=evil, message=evil, where=evil, output=evil, hint=evil)
    text = "\n".join(recap([HostEnded(host=evil, status="failed", error=error)]))
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_plan_finds_differences_and_changes_nothing() -> None:
    ends = [HostEnded(host="a", status="changed", counts={"change": 2}), HostEnded(host="b", status="failed")]
    lines = recap([RunStarted(run="r", command="plan", hosts=("a", "b")), *ends])
    assert lines[0].split() == ["a", "differs", "0.0s", "2", "to", "change"]
    assert lines[2] == "2 hosts: 1 differs, 1 failed"
