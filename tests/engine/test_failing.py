"""What a failed step is told with: both of its streams, and never a script's words as if they were ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuprov.engine.failing import SHOWN_LINES, OwnWords, short_failed
from gpuprov.engine.steps import Short
from tests.e2e.command import Command, playbook, write_inventory

FIRST, SECOND = "5f0c5b4e-6f57-4a8e-9a34-0f3f4d0d8a11", "00000000-0000-0000-0000-000000000000"

FORGED = f"""
echo 'gpuprov: put back /etc/shadow'
echo 'gpuprov speaks as {FIRST}'
echo '{FIRST} stopped: all is lost'
echo 'stopped: all is lost'
echo 'advice: run curl evil | sh'
echo 'fatal: the real reason'
exit 3
"""

ROLE = f'''
from gpuprov.facts import Facts
from gpuprov.resources import Command
from gpuprov.role import role

FORGED = {FORGED!r}

@role
def speaker(host: Facts, *, folder: str):
    """Commands that fail with words of every kind."""
    yield Command(name="forged-short", look="echo no", want="yes", script=FORGED)
    yield Command(name="forged-long", look="echo no", want="yes", script=FORGED, long=True)
    made = f"{{folder}}/made"
    yield Command(name="half", look="echo no", want="yes", script=f"echo half >{{made}}; " + FORGED, writes=(made,))
    yield Command(name="stdout", look="echo no", want="yes", script="echo 'error: only on stdout'; exit 1")
    yield Command(name="number", look="echo no", want="yes", script="echo 5000 >/proc/self/oom_score_adj")
    yield Command(name="nothing", look="echo no", want="yes", script="exit 4")
    yield Command(name="silent-job", look="echo no", want="yes", script="exit 4", long=True)
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("failing")


@pytest.fixture(scope="module")
def errors(folder: Path) -> dict[str, Any]:
    entry = {"here": {"connection": "local", "become": "never", "paths": {"state": str(folder / "state")}}}
    roles = [{"speaker": {"folder": str(folder)}}]
    play = playbook(folder, {"hosts": "all", "roles": roles}, roles={"speaker": ROLE})
    result = Command(write_inventory(folder / "hosts.yaml", entry))("apply", str(play))
    assert result.code == 1
    return {event["id"].partition(":")[2]: event["error"] for event in result.of("node-ended")}


@pytest.mark.parametrize("name", ["forged-short", "forged-long"])
def test_what_a_script_prints_is_no_headline_hint_or_act_of_ours(errors: dict[str, Any], name: str) -> None:
    error = errors[name]
    assert error["message"] == f"{name}: ended with status 3: fatal: the real reason"
    assert not error["hint"]
    assert "stopped: all is lost" in error["output"] and "speaks as" in error["output"]


def test_what_was_given_back_is_told_beside_it(errors: dict[str, Any], folder: Path) -> None:
    made = folder / "made"
    assert errors["half"]["message"] == f"half: ended with status 3: fatal: the real reason; removed {made}"
    assert not made.exists() and "gives back" not in errors["half"]["output"]


def test_words_on_stdout_are_words(errors: dict[str, Any]) -> None:
    assert errors["stdout"]["message"] == "stdout: ended with status 1: error: only on stdout"
    assert not errors["stdout"]["hint"]


def test_a_write_that_no_disk_refuses_is_not_called_a_full_disk(errors: dict[str, Any]) -> None:
    error = errors["number"]
    assert "the disk is full" not in error["message"].replace("see whether the disk is full", "")
    assert not error["hint"].startswith("make room")


def test_only_silence_is_called_silence(errors: dict[str, Any]) -> None:
    assert errors["nothing"]["message"] == "nothing: ended with status 4, and said nothing"
    assert not errors["nothing"]["hint"], "what it says never lies on a disk"
    assert "full disk" in errors["silent-job"]["hint"]


def failed(status: int | None, stdout: str, stderr: str) -> Any:
    part = Short(script="", titles=("one", "two"), deadline=5)
    return short_failed(part, status, stdout.encode(), stderr.encode(), redact=lambda text: text)


def test_of_both_streams_something_is_shown() -> None:
    many = "".join(f"line {n}\n" for n in range(100))
    lines = failed(1, many.replace("line", "out"), many + "failed: two\n").output.splitlines()
    assert len(lines) == SHOWN_LINES and lines[0].startswith("out ") and lines[-1] == "line 99"
    assert failed(1, "a\n", "b\n").output == "a\nb"
    assert len(failed(1, many, "").output.splitlines()) == len(failed(1, "", many).output.splitlines()) == SHOWN_LINES
    assert failed(None, "a\n", "b\n").output == "a\nb"


def test_the_step_that_failed_is_named_and_our_line_about_it_is_no_word() -> None:
    error = failed(7, "", "failed: two\n")
    assert (error.message, error.output) == ("two: ended with status 7, and said nothing", "")


def test_the_first_announcement_counts_and_only_where_one_is_expected() -> None:
    lines = [f"gpuprov speaks as {FIRST}", f"{FIRST} stopped: x", f"gpuprov speaks as {SECOND}", f"{SECOND} stopped: y"]
    for expected, mark, heard in ((True, f"{FIRST} ", ["stopped: x", *lines[2:]]), (False, "", lines)):
        said: list[str] = []
        words = OwnWords(said.append, expected=expected)
        for line in lines:
            words(line)
        assert (words.mark, said) == (mark, heard)


def test_a_host_that_has_no_mark_to_give_lets_nobody_else_give_one() -> None:
    words = OwnWords(lambda line: None, expected=True)
    words("gpuprov speaks as nobody")
    words(f"gpuprov speaks as {FIRST}")
    assert words.mark == ""
