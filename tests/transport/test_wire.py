"""What is sent: whole or not at all, and fit for odd login shells."""

from __future__ import annotations

import subprocess

import pytest

from gpuprov.secret import Secret
from gpuprov.transport import wire
from gpuprov.transport.frame import Frame, Section
from gpuprov.transport.marks import Mark


def section(name: str, script: str = ":", **env: str | Secret) -> Section:
    return Section(name=name, script=script, env=env)


@pytest.mark.parametrize(
    "frame",
    [
        Frame(sections=(section("a"), section("a"))),
        Frame(sections=(section("before"),)),
        Frame(sections=(section("prelude"),)),
        Frame(sections=(section("a b"),)),
        Frame(sections=(section(""),)),
        Frame(sections=(section("a;id"),)),
        Frame(sections=(section("a"),), deadline=0),
        Frame(sections=(section("a"),), deadline=61),
        Frame(sections=(section("a"),), deadline=float("nan")),
        Frame(sections=(section("a", "echo \0"),)),
        Frame(sections=(section("a", env_="x\0"),)),
        Frame(sections=(Section(name="a", script=":", env={"A B": "x"}),)),
        Frame(sections=(Section(name="a", script=":", env={"A=": "x"}),)),
    ],
)
def test_what_cannot_be_sent_is_refused(frame: Frame) -> None:
    with pytest.raises(ValueError):
        wire.frame_text(frame, Mark())


def test_the_exec_command_suits_fish_and_csh() -> None:
    """Only single-quoted words, one line, and nothing in them that those shells still read."""
    text = wire.opening(Mark(), become=True)
    assert "\n" not in text and "!" not in text
    assert "\\" not in text.replace('"\\n', "").replace("\\n", "")
    assert text.startswith("exec /bin/sh -c '")
    assert "'\"'\"'" not in text


@pytest.mark.parametrize("size", [10, 20_000])
def test_a_frame_that_is_cut_short_does_not_run(sh: str, size: int) -> None:
    frame = Frame(sections=(section("a", f"echo ran-{'x'} # {'y' * size}"),), before="echo before-ran", prelude=":")
    whole = wire.frame_text(frame, Mark())
    ends = {1, 10, 40, 50, 60, len(whole) // 2, *range(len(whole) - 40, len(whole) - 1)}
    for end in sorted(ends):
        run = subprocess.run([sh], input=wire.definitions(sh) + whole[:end], capture_output=True, timeout=10)
        assert b"ran" not in run.stdout, whole[:end][-30:]
    run = subprocess.run([sh], input=wire.definitions(sh) + whole, capture_output=True, timeout=10)
    assert b"before-ran\n" in run.stdout and b"ran-x\n" in run.stdout


def test_long_scripts_fit_into_the_first_window() -> None:
    script = "".join(f'[ -e "/sys/class/{n}" ] && printf \'%s\\n\' "$name" || :\n' for n in range(500))
    frame = Frame(sections=(section("a", script),))
    assert len(wire.frame_text(frame, Mark(), pack=False)) > 25_000
    assert len(wire.frame_text(frame, Mark())) < 14_000
