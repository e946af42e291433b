"""What ended badly says why in one line: our own scripts' words, else the last telling line of a program of others."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from gpuprov.causes import FULL_HINT, Cause, cause
from gpuprov.onhost import script

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
        "a write failed, so that the disk is full or broken: /x/script: 274: printf: printf: I/O error",
        FULL_HINT,
    ),
    "apt's words for a full disk": (
        "E: You don't have enough free space in /var/cache/apt/archives/.\nstopped: apt-get failed",
        1,
        "the disk is full: apt-get failed: E: You don't have enough free space in /var/cache/apt/archives/.",
        FULL_HINT,
    ),
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
    found = cause(text, status)
    assert (found.why, found.hint) == (why, hint)


def test_what_is_in_headline_and_hint_is_not_said_again() -> None:
    text = "making it\nstopped: no tool here\nadvice: install one\nremoving the rest"
    assert cause(text, 12) == Cause(
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
    assert cause(ended.stderr, 15) == Cause(why="no room", own=True, hint="make some; and more")


@pytest.mark.parametrize("path", sorted(Path("gpuprov/onhost").resolve().glob("*.sh")), ids=lambda path: path.name)
def test_each_documented_status_is_one_that_is_told_with_words(path: Path) -> None:
    """No script that a job is made of ends with a status of its own and says nothing."""
    bare = re.findall(r"^\s*exit (1[0-9])\b.*$", path.read_text(), re.MULTILINE)
    assert not bare or path.name == "apt_transaction.sh", "stop with gp_stop, which says why"
