from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.jobs.lines import LineSplitter
from gpuprov.redaction import Redactor
from gpuprov.secret import Secret


def split(*pieces: bytes, longest: int = 64) -> list[str]:
    splitter = LineSplitter(longest)
    return [line for piece in pieces for line in splitter.feed(piece)] + list(splitter.finish())


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([b""], []),
        ([b"a\nb\n"], ["a", "b"]),
        ([b"a\nb"], ["a", "b"]),
        ([b"a", b"b", b"\n"], ["ab"]),
        ([b"\n\n"], ["", ""]),
        ([b"a\r\nb\r\n"], ["a", "b"]),
        ([b"a\r", b"\nb"], ["a", "b"]),
        ([b"a\r\n\r\nb\n"], ["a", "b"]),
        ([b"\r 10%\r 20%\r 30%\n"], [" 10%", " 20%", " 30%"]),
        ([b" 10%\r\r\r 20%"], [" 10%", " 20%"]),
        ([b"\xe2\x82", b"\xac\n"], ["€"]),
        ([b"\xff\xfe\n"], ["��"]),
        ([b"x" * 64 + b"\n"], ["x" * 64]),
        ([b"x" * 65 + b"\ny\n"], ["x" * 64 + " … [1 more bytes]", "y"]),
        ([b"x" * 50, b"x" * 50, b"x" * 50], ["x" * 64 + " … [86 more bytes]"]),
    ],
)
def test_lines(pieces: list[bytes], lines: list[str]) -> None:
    assert split(*pieces) == lines


@given(st.binary(), st.lists(st.integers(0, 40)))
def test_how_it_comes_makes_no_difference(data: bytes, cuts: list[int]) -> None:
    pieces, rest = [], data
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    assert split(*pieces, rest, longest=8) == split(data, longest=8)


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))))
def test_lines_ended_by_newlines_come_back(lines: list[str]) -> None:
    assert split("".join(line + "\n" for line in lines).encode(), longest=10_000) == lines


def test_a_line_without_end_holds_no_memory() -> None:
    splitter = LineSplitter(1000)
    for _ in range(1000):
        assert not list(splitter.feed(b"x" * 10_000))
    assert list(splitter.finish()) == ["x" * 1000 + " … [9999000 more bytes]"]


@pytest.mark.parametrize(
    ("secrets", "line", "shown"),
    [
        ([], "token hunter22", "token hunter22"),
        (["hunter22"], "token hunter22, hunter22", "token ***, ***"),
        (["abcd", "abcdef"], "abcdef abcd", "*** ***"),
        (["first\nsecond\n"], "second", "***"),
        (["a.c+"], "abc+ a.c+", "abc+ ***"),
        (["abc"], "abc", "abc"),
        ([""], "x", "x"),
    ],
)
def test_redaction(secrets: list[str], line: str, shown: str) -> None:
    assert Redactor(map(Secret, secrets))(line) == shown
