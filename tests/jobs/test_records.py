from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.jobs.records import Chunk, Fate, Garbled, RecordReader, read_look

STREAM = b"D a-1 3 10 5\n12\n45E a-1 3 0 ended 15\nB\nX b-2 1 - - 0\nO c-3 2 - - 7\nE d-4 1 143 cancelled 0\n"
FATES = [
    Fate(folder="a-1", attempt=3, status=0, how="ended", size=15),
    Fate(folder="b-2", attempt=1, status=None, how="died", size=0),
    Fate(folder="c-3", attempt=2, status=None, how="orphaned", size=7),
    Fate(folder="d-4", attempt=1, status=143, how="cancelled", size=0),
]


def read(*pieces: bytes, word: str = "") -> list[Chunk | Fate]:
    reader = RecordReader(word)
    return [record for piece in pieces for record in reader.feed(piece)]


@given(st.lists(st.integers(1, 40)))
def test_records_come_whole_however_they_are_cut(cuts: list[int]) -> None:
    pieces, rest = [], STREAM
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    records = read(*pieces, rest)
    assert [record for record in records if isinstance(record, Fate)] == FATES
    chunks = [record for record in records if isinstance(record, Chunk)]
    assert b"".join(chunk.data for chunk in chunks) == b"12\n45"
    offset = 10
    for chunk in chunks:
        assert (chunk.folder, chunk.attempt, chunk.offset) == ("a-1", 3, offset)
        offset += len(chunk.data)


@pytest.mark.parametrize("noise", [b"", b"Welcome\r\n", b"x" * 5000, b"D a-1 1 0 5\nwo"])
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_what_a_login_shell_says_first_is_thrown_away(noise: bytes, step: int) -> None:
    data = noise + b"\nword\n" + b"X b-2 1 - - 0\n"
    assert read(*(data[i : i + step] for i in range(0, len(data), step)), word="word") == FATES[1:2]


@pytest.mark.parametrize(
    "data",
    [
        b"hello\n",
        b"D ../etc 1 0 5\n",
        b"D a 1 -1 5\n",
        b"D a 1 0 5 6\n",
        b"E a 1 0 won 5\n",
        b"E a 1 0 ended\n",
        b"\xff\n",
        b"x" * 600,
    ],
)
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(Garbled):
        read(data)


@given(st.binary())
def test_no_bytes_break_the_reader(data: bytes) -> None:
    with contextlib.suppress(Garbled):
        read(data)


@given(st.text())
def test_no_text_breaks_a_look(text: str) -> None:
    read_look(text)


def test_a_look() -> None:
    text = (
        "running 3 d1 a%2Fb ada@c 250 - - \tlast line\there\n"
        "ended 1 d2 %0A - -  7 ended \t\n"
        "ended 1 d2 x - - 7 ended \t\n"
        "odd 1 d2 x - - 7 ended \t\n"
        "died x d2 x - - - - \t\n"
        "died 4 d2 x - - - - \t\n"
    )
    first, second, third, fourth = read_look(text)
    assert (first.slot, first.state, first.attempt, first.age) == ("a/b", "running", 3, 2.5)
    assert (first.last, first.owner, first.digest, first.status, first.how) == (
        "last line\there",
        "ada@c",
        "d1",
        None,
        "",
    )
    assert (second.slot, second.status, second.how, second.age) == ("\n", 7, "ended", None)
    assert (third.slot, fourth.state, fourth.attempt) == ("x", "died", 4)
