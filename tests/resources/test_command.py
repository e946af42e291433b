from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.model import Job, Run
from gpuprov.resources import Command
from gpuprov.secret import Secret

from .host import Host

BASE: dict[str, Any] = {"name": "swap off", "look": "echo on", "want": "off", "script": "true"}

SAME = None
PLANS: dict[str, tuple[str, str, tuple[str, str] | None]] = {
    "same": ("off", "off", SAME),
    "same but for blanks": ("\n off \n", "  off", SAME),
    "both nothing": ("", "\n", SAME),
    "inner blanks count": ("a  b", "a b", ("a b", "a  b")),
    "differs": ("off", "on", ("on", "off")),
    "nothing now": ("off", "", ("nothing", "off")),
    "nothing wanted": ("", "on", ("on", "nothing")),
    "several lines": ("a\nb", "a\nc", ("a…", "a…")),
    "long": ("x" * 100, "y", ("y", "x" * 72 + "…")),
}


@pytest.mark.parametrize("case", PLANS)
def test_plan(case: str) -> None:
    want, now, expected = PLANS[case]
    change = Command(**{**BASE, "want": want}).plan(now)
    assert (change and (change.before, change.after)) == expected


def test_several_lines_have_a_diff() -> None:
    change = Command(**{**BASE, "want": "a\nb"}).plan("a\nc")
    assert change
    assert " a\n-c\n+b\n" in change.diff


@pytest.mark.parametrize(
    ("fields", "kind", "deadline", "locks"),
    [
        ({}, Run, 60.0, None),
        ({"deadline": 5}, Run, 5.0, None),
        ({"long": True}, Job, 3600.0, set()),
        ({"long": True, "deadline": 9000}, Job, 9000.0, set()),
        ({"long": True, "apt": ("gcc-11",)}, Job, 3600.0, {"apt"}),
    ],
)
def test_step(fields: dict[str, Any], kind: type, deadline: float, locks: set[str] | None) -> None:
    change = Command(**{**BASE, **fields, "env": {"TOKEN": Secret("t")}}).plan("on")
    assert change
    (step,) = change.steps
    assert type(step) is kind
    assert step.deadline == deadline
    assert step.env == {"TOKEN": Secret("t")}
    assert locks is None or (isinstance(step, Job) and step.locks == locks)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"name": ""}, "name"),
        ({"name": " a"}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"present": False}, "absent"),
        ({"look": " "}, "look"),
        ({"script": ""}, "script"),
        ({"script": "a\0"}, "script"),
        ({"deadline": 0}, "deadline"),
        ({"deadline": float("nan")}, "deadline"),
        ({"deadline": 61}, "long=True"),
        ({"writes": "/etc"}, "tuple"),
        ({"writes": ("etc",)}, "absolute"),
        ({"apt": "gcc"}, "tuple"),
        ({"env": {"A B": "x"}}, "variable"),
        ({"env": {"1A": "x"}}, "variable"),
    ],
)
def test_wrong(fields: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        Command(**{**BASE, **fields})


def test_claims_and_identity() -> None:
    command = Command(**BASE, writes=("/etc//fstab",), apt=("zram",), services=("swap",))
    assert command.id == "command:swap off"
    claims = command.claims()
    assert claims.paths == {"/etc/fstab"}
    assert claims.apt == {"zram"}
    assert claims.services == {"swap"}
    assert command == Command(**BASE, writes=("/etc/fstab",), apt=("zram",), services=("swap",))
    assert hash(command)


@given(st.binary())
def test_parse_survives_any_bytes(data: bytes) -> None:
    seen = Command(**BASE).probe().parse(data)
    assert isinstance(seen, str)
    Command(**BASE).plan(seen)


def test_life_of_a_state(host: Host, tmp_path: Path) -> None:
    f = tmp_path / "state"
    look = f"if [ -f {f} ]; then cat {f}; else echo none; fi"
    command = Command(name="state", look=look, want="s3cret", script=f'printf %s "$WORD" >{f}', env={"WORD": "s3cret"})
    change = host.converge(command)
    assert change
    assert change.before == "none"
    assert host.converge(command) is None
