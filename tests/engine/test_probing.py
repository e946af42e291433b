"""Probes to one frame's sections and back: asks are merged, and no answer is ever made up."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.engine.probing import batch
from gpuprov.errors import Unseen
from gpuprov.model import Id, Probe
from gpuprov.transport.frame import FrameResult, SectionResult


def probe(script: str = "", asks: tuple[tuple[str, str], ...] = (), parse: Any = bytes) -> Probe[Any]:
    return Probe(script=script, asks=asks, parse=parse)


def result(**sections: tuple[int | None, bytes]) -> FrameResult:
    return FrameResult(
        sections={
            name.replace("_", "-"): SectionResult(name=name, status=status, stdout=out)
            for name, (status, out) in sections.items()
        }
    )


A, B = Id("file:/a"), Id("file:/b")


def test_one_process_for_all_that_ask_the_same_command() -> None:
    looks = batch([(A, probe(asks=(("stat", "/a"),))), (B, probe(asks=(("stat", "/b"), ("stat", "/a"))))])
    assert [s.script for s in looks.sections] == ["gp_ask_stat /a /b"]
    states = looks.read(result(pask_stat=(0, b"one\n-\n")))
    assert states == {A: b"one\n", B: b"-\none\n"}


def test_arguments_are_words_whatever_they_hold() -> None:
    looks = batch([(A, probe(asks=(("stat", "/a b;$(x)"),)))])
    assert looks.sections[0].script == "gp_ask_stat '/a b;$(x)'"


def test_answers_come_before_what_the_script_printed() -> None:
    looks = batch([(A, probe("cat x", asks=(("have", "gcc"),)))])
    assert looks.read(result(pask_have=(0, b"/usr/bin/gcc\n"), p0=(0, b"x"))) == {A: b"/usr/bin/gcc\nx"}


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ({"pask_stat": (0, b"?no permission to look into /root\n")}, "no permission to look into /root"),
        ({"pask_stat": (0, b"\n")}, "no answer"),
        ({"pask_stat": (None, b"")}, "did not come back in time"),
    ],
)
def test_an_ask_that_could_not_be_answered_is_unseen(sections: Any, says: str) -> None:
    state = batch([(A, probe(asks=(("stat", "/a"),)))]).read(result(**sections))[A]
    assert isinstance(state, Unseen) and says in state.message and state.where == A


@pytest.mark.parametrize(
    ("section", "says"),
    [((3, b"oh"), "status 3"), ((None, b""), "within 60 s"), ((-9, b""), "status -9")],
)
def test_a_look_that_could_not_look_is_unseen_and_parse_is_not_called(section: Any, says: str) -> None:
    def parse(raw: bytes) -> Any:
        raise AssertionError("parse was called")

    state = batch([(A, probe("x", parse=parse))]).read(result(p0=section))[A]
    assert isinstance(state, Unseen) and says in state.message


def test_what_stood_behind_a_hung_probe_is_left_out_and_asked_again() -> None:
    looks = batch([(A, probe("hang")), (B, probe("fine"))])
    states = looks.read(result(p0=(None, b"")))
    assert isinstance(states[A], Unseen) and B not in states


def test_a_parser_that_fails_makes_its_own_node_unseen_only() -> None:
    looks = batch([(A, probe("x", parse=lambda raw: 1 // 0)), (B, probe("y"))])
    states = looks.read(result(p0=(0, b"secret?"), p1=(0, b"ok")))
    assert isinstance(states[A], Unseen) and "ZeroDivisionError" in states[A].message and states[B] == b"ok"


def test_clipped_output_is_never_parsed() -> None:
    looks = batch([(A, probe("x"))])
    clipped = FrameResult(sections={"p0": SectionResult(name="p0", status=0, stdout=b"half", clipped=9)})
    assert isinstance(looks.read(clipped)[A], Unseen)


def test_only_known_asks() -> None:
    with pytest.raises(ValueError, match="cannot ask for 'rm'"):
        batch([(A, probe(asks=(("rm", "/"),)))])


@given(st.binary(max_size=200), st.binary(max_size=200), st.sampled_from([0, 1, None]))
def test_any_bytes_give_a_state_or_unseen(asked: bytes, printed: bytes, status: int | None) -> None:
    looks = batch([(A, probe("x", asks=(("stat", "/a"), ("sha256sum", "/a")), parse=lambda raw: raw.decode()))])
    looks.read(result(pask_stat=(0, asked), pask_sha256sum=(0, asked), p0=(status, printed)))
