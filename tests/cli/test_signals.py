"""Interrupts, pipes and terminals, with a real process on the other side."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import pyte
import pytest

WORDS = ["apply", "site.yaml", "-i", "hosts.yaml"]


def begin(kind: str, *words: str) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.cli.stage", kind, *WORDS, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if kind != "loud":
        assert child.stderr is not None
        assert child.stderr.readline() == "running\n"
    return child


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_lets_the_engine_tidy_up(number: signal.Signals) -> None:
    child = begin("slow")
    child.send_signal(number)
    out, err = child.communicate(timeout=20)
    assert child.returncode == 130
    assert "tidied up" in err
    assert "ending what runs, in good order" in out
    assert "gpu1  interrupted" in out
    assert "Traceback" not in err
    assert out.endswith("The same command goes on from there:\n  gpuprov apply site.yaml -i hosts.yaml\n")


@pytest.mark.parametrize("kind", ["stubborn", "hung"])
def test_the_second_signal_ends_it_at_once(kind: str) -> None:
    child = begin(kind)
    child.send_signal(signal.SIGINT)
    time.sleep(0.6)
    assert child.poll() is None
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=20)
    assert child.returncode == 130
    assert "ended at once" in err
    assert "Traceback" not in err


def test_one_key_press_that_arrives_twice_is_one() -> None:
    child = begin("slow")
    child.send_signal(signal.SIGINT)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=20)
    assert child.returncode == 130
    assert "tidied up" in err


def test_with_json_an_interrupt_is_in_the_stream() -> None:
    child = begin("slow", "--json")
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=20)
    assert child.returncode == 130
    assert [line for line in out.splitlines() if '"notice"' in line and "interrupted" in line]
    assert all(line.startswith("{") for line in out.splitlines())


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_reader_that_goes_away_does_not_end_the_run(words: list[str]) -> None:
    child = begin("loud", *words)
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.readline()
    child.stdout.close()
    err = child.stderr.read()
    child.stderr.close()
    assert child.wait(timeout=20) == 0
    assert err == "came to the end\n"


class OnTerminal:
    """A command on a terminal of its own."""

    def __init__(self, kind: str, *words: str, width: int = 100, height: int = 40, env: dict[str, str]) -> None:
        self.screen = pyte.Screen(width, height)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.environ.update(env, TERM="xterm-256color", COLUMNS=str(width), LINES=str(height))
            os.execv(sys.executable, [sys.executable, "-m", "tests.cli.stage", kind, *WORDS, *words])

    def until(self, pattern: str, seconds: float = 20) -> str:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            shown = "\n".join(line.rstrip() for line in self.screen.display)
            if re.search(pattern, shown):
                return shown
            if not self._read(0.1):
                break
        raise AssertionError(f"{pattern!r} never showed:\n" + "\n".join(self.screen.display))

    def _read(self, seconds: float) -> bool:
        if not select.select([self.terminal], [], [], seconds)[0]:
            return True
        try:
            part = os.read(self.terminal, 65536)
        except OSError:
            return False
        self.raw += part
        self._stream.feed(part)
        return bool(part)

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def end(self) -> int:
        """Read what is still said, and give the exit code; who does not end by itself is killed, and that is told."""
        deadline = time.monotonic() + 20
        talks = True
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if talks:
                talks = self._read(0 if pid else 0.1)
            else:
                time.sleep(0.01)
            if pid:
                while talks and select.select([self.terminal], [], [], 0)[0]:
                    talks = self._read(0)
                os.close(self.terminal)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError("the command does not end:\n" + "\n".join(self.screen.display))


@pytest.mark.parametrize(
    ("answer", "said", "agreed"),
    [("y\n", "2 hosts: 2 changed", True), ("\n", "Nothing was changed.", False), ("no\n", "Nothing was", False)],
)
def test_on_a_terminal_the_plans_are_shown_and_one_question_is_asked(answer: str, said: str, agreed: bool) -> None:
    seat = OnTerminal("asking", env={"NO_COLOR": "1"})
    shown = seat.until(r"Apply these changes to 2 hosts\? \[y/N\]")
    assert "gpu1, gpu2" in shown
    assert "+ cuda-toolkit:11.7" in shown
    seat.type(answer)
    after = seat.until("answers: ")
    assert said in after
    assert f"answers: [('gpu1', {agreed}), ('gpu2', {agreed})]" in after
    assert seat.end() == 0
    assert not seat.screen.cursor.hidden


def test_with_yes_nothing_is_asked() -> None:
    seat = OnTerminal("asking", "-y", env={})
    shown = seat.until("answers: ")
    assert "[y/N]" not in shown
    assert "('gpu1', True)" in shown
    assert seat.end() == 0


def test_an_interrupt_at_the_question_changes_nothing_and_gives_the_terminal_back() -> None:
    seat = OnTerminal("asking", env={})
    seat.until(r"\[y/N\]")
    seat.type("\x03")
    seat.until("interrupted: ending what runs")
    assert seat.end() == 130
    assert not seat.screen.cursor.hidden


def test_the_end_of_input_is_no_yes() -> None:
    seat = OnTerminal("asking", env={})
    seat.until(r"\[y/N\]")
    seat.type("\x04")
    assert "('gpu1', False)" in seat.until("answers: ")
    assert seat.end() == 0


@pytest.mark.parametrize(("variable", "colour"), [("NO_COLOR", False), ("COLORTERM", True)])
def test_colours_are_for_who_wants_them(variable: str, colour: bool) -> None:
    seat = OnTerminal("asking", "-y", env={variable: "1"})
    seat.until("answers: ")
    seat.end()
    assert bool(re.search(rb"\x1b\[[0-9;]*3[1-6]m", seat.raw)) is colour


def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines() -> None:
    seat = OnTerminal("asking", "-y", env={})
    seat.end()
    assert b"\x1b[?25l" in seat.raw
    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.stage", "asking", *WORDS],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert "\x1b" not in done.stdout
    assert "answers: [('gpu1', True), ('gpu2', True)]" in done.stdout
