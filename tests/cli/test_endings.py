"""How a command ends, and what it says then."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from gpuprov.cli import calls, main
from gpuprov.cli.words import Words
from gpuprov.errors import InputError, Position, Problem, Unreachable
from gpuprov.events import CommandEnded, FactsRead, HostEnded, RunStarted, Sink
from tests.cli.fake import install, telling
from tests.report.story import apply_story, plan_story

PLAN = ["plan", "site.yaml", "-i", "hosts.yaml"]


def refusing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def play(playbook: str, words: Words) -> calls.Ready:
        raise error

    monkeypatch.setattr(calls, "play", play)


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    async def body(sink: Sink, approve: calls.Approve | None) -> int:
        sink(RunStarted(run="r", command="plan", hosts=("gpu1",)))
        raise error

    install(monkeypatch, body)


WRONG = InputError(
    [
        Problem("no role is called 'cudda'", Position("site.yaml", 3, 7), "did you mean 'cuda'?"),
        Problem("unknown \x1b[31mkey", Position("hosts.yaml", 9, 1)),
    ]
)


def test_every_problem_of_words_and_files_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refusing(monkeypatch, WRONG)
    assert main(PLAN) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "site.yaml:3:7: no role is called 'cudda' (did you mean 'cuda'?)",
        "hosts.yaml:9:1: unknown ␛[31mkey",
    ]


def json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_with_json_problems_are_events(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    refusing(monkeypatch, WRONG)
    assert main([*PLAN, "--json"]) == 2
    out, err = capsys.readouterr()
    assert err == ""
    first, second = json_lines(out)
    assert (first["event"], first["v"], first["code"], first["exit_code"]) == ("error", 1, "input", 2)
    assert (first["file"], first["line"], first["column"]) == ("site.yaml", 3, 7)
    assert first["hint"] == "did you mean 'cuda'?"
    assert second["message"] == "unknown \x1b[31mkey"


@pytest.mark.parametrize("words", [["plan", "--json"], ["plan", "a", "b", "--json"], ["plan", "a", "--json", "--odd"]])
def test_with_json_wrong_words_are_an_event_as_well(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "-i", "hosts.yaml"]) == 2
    (event,) = json_lines(capsys.readouterr().out)
    assert event["event"] == "error"
    assert event["message"]


def test_json_after_the_dashes_belongs_to_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exec", "all", "--odd", "--", "x", "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "--odd" in err


def test_a_mistake_of_ours_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("GPUPROV_TRACEBACK", raising=False)
    failing(monkeypatch, KeyError("x"))
    assert main(PLAN) == 1
    err = capsys.readouterr().err
    assert err.startswith("gpuprov itself failed: KeyError: 'x'")
    assert "Traceback" not in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("how", ["words", "environment"])
def test_the_traceback_is_there_for_who_asks(
    how: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUPROV_TRACEBACK", "1" if how == "environment" else "")
    failing(monkeypatch, KeyError("x"))
    assert main([*PLAN, *(["-vvv"] if how == "words" else [])]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_mistake_of_ours_is_an_event_with_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(monkeypatch, ExceptionGroup("several", [KeyError("x")]))
    assert main([*PLAN, "--json"]) == 1
    out, err = capsys.readouterr()
    assert [event["event"] for event in json_lines(out)] == ["run-started", "error"]
    assert json_lines(out)[-1]["code"] == "bug"
    assert err == ""


def test_an_error_that_left_the_engine_is_told_in_full(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(monkeypatch, Unreachable("no route", phase="tcp", where="gpu1", output="a\nb", hint="look"))
    assert main(PLAN) == 3
    assert capsys.readouterr().err.splitlines() == ["  no route", "  where: gpu1", "  │ a", "  │ b", "  hint: look"]


@pytest.mark.parametrize("code", [0, 1, 3, 130])
def test_the_exit_code_is_the_engines(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, telling(apply_story(), code))
    assert main(["apply", "site.yaml", "-i", "hosts.yaml", "-y"]) == code


def test_with_json_stdout_holds_the_stream_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, telling(apply_story(), 3))
    assert main(["apply", "site.yaml", "-i", "hosts.yaml", "--json", "-vvv", "-D"]) == 3
    out, err = capsys.readouterr()
    assert [event["event"] for event in json_lines(out)] == [event.name for event in apply_story()]
    assert err == ""


def test_what_a_role_prints_does_not_stand_between_json_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def body(sink: Sink, approve: calls.Approve | None) -> int:
        for event in apply_story():
            print("I am a role")
            sink(event)
        return 0

    install(monkeypatch, body)
    assert main(["apply", "site.yaml", "-i", "hosts.yaml", "--json"]) == 0
    out, err = capsys.readouterr()
    assert [event["event"] for event in json_lines(out)] == [event.name for event in apply_story()]
    assert "I am a role" in err
    print("afterwards stdout is as it was")
    assert capsys.readouterr().out


def test_hosts_are_listed_and_not_contacted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def body(sink: Sink, approve: calls.Approve | None) -> int:
        raise AssertionError("contacted")

    install(monkeypatch, body, hosts=("gpu1", "gpu\x1b2"))
    assert main([*PLAN, "--list-hosts"]) == 0
    assert capsys.readouterr().out == "gpu1\ngpu␛2\n"
    assert main([*PLAN, "--list-hosts", "--json"]) == 0
    assert json_lines(capsys.readouterr().out)[0]["hosts"] == ["gpu1", "gpu\x1b2"]


def test_listing_resources_shows_all_of_them_and_proposes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, telling(plan_story()))
    assert main(["apply", "site.yaml", "-i", "hosts.yaml", "--list-resources"]) == 0
    out = capsys.readouterr().out
    assert "= apt:make" in out
    assert "To make it so" not in out


def test_a_plan_is_shown_at_the_end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    install(monkeypatch, telling(plan_story()))
    assert main(PLAN) == 0
    out = capsys.readouterr().out
    assert "gpu1, gpu3\n" in out
    assert "= apt:make" not in out
    assert out.endswith("To make it so:\n  gpuprov apply site.yaml -i hosts.yaml\n")


def test_exec_groups_output_by_host_and_ends_with_1_when_one_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [
        RunStarted(run="r", command="exec", hosts=("a", "b")),
        CommandEnded(host="a", status=0, stdout="one\n", stderr="", seconds=0.1),
        CommandEnded(host="b", status=2, stdout="", stderr="no\n", seconds=0.1),
        HostEnded(host="a", status="ok"),
        HostEnded(host="b", status="ok"),
    ]
    install(monkeypatch, telling(events, 0))
    assert main(["exec", "all", "-i", "hosts.yaml", "--", "x"]) == 1
    assert capsys.readouterr().out == "a  ok  0.1s\n  one\nb  status 2  0.1s\n! no\n"


def test_facts_are_a_table_in_the_order_of_the_hosts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [
        RunStarted(run="r", command="facts", hosts=("a", "b")),
        FactsRead(host="b", facts={"kernel": "6"}),
        FactsRead(host="a", facts={"kernel": "5"}),
    ]
    install(monkeypatch, telling(events))
    assert main(["facts", "-i", "hosts.yaml"]) == 0
    assert capsys.readouterr().out == "a\n  kernel  5\n\nb\n  kernel  6\n\n"


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("gpuprov ")


def test_starting_imports_nothing_heavy() -> None:
    script = (
        "import sys; from gpuprov.cli import main; code = main(['apply', '--help']) or main(['--help']);"
        "heavy = {'asyncssh', 'pydantic', 'rich', 'rich.live', 'jinja2', 'yaml', 'asyncio', 'gpuprov.engine'};"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.strip() == "[]"
    for command in ("plan", "apply", "facts", "exec"):
        assert f"\n  {command} " in done.stdout


def test_the_module_can_be_run() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpuprov", "nonsense"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "no such command 'nonsense'" in done.stderr
