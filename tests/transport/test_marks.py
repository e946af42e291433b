"""Cutting streams: whatever the chunks, the same output; whatever the output, bounded memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.transport.marks import Clip, Cutter, Mark, Side

MARK = Mark(first="f1rst", second="s3cond")
LINE = b"\nf1rsts3cond "


def cut(*chunks: bytes) -> tuple[bytes, list[tuple[str, ...]]]:
    cutter, output, marks = Cutter(MARK), b"", []
    for chunk in chunks:
        for piece in cutter.feed(chunk):
            if isinstance(piece, bytes):
                output += piece
            else:
                marks.append(piece)
    return output, marks


@pytest.mark.parametrize(
    ("text", "output", "marks"),
    [
        (b"plain\n", b"plain\n", []),
        (LINE + b"end 0\n", b"", [("end", "0")]),
        (b"no newline" + LINE + b"] a 0\n", b"no newline", [("]", "a", "0")]),
        (b"a\n\n" + LINE + b"x\nb\n", b"a\n\nb\n", [("x",)]),
        (LINE + b"[ a\n" + LINE + b"] a 0\n" + LINE + b"[ b\n", b"", [("[", "a"), ("]", "a", "0"), ("[", "b")]),
        (b"\nf1rst s3cond end 0\n", b"\nf1rst s3cond end 0\n", []),
        (b"\n\n\nf1rst", b"\n\n\nf1rst", []),
        (LINE + b"x" * 5000 + b"\n", LINE + b"x" * 5000 + b"\n", []),
        (LINE + b"\xff\xfe\n", b"", [("\ufffd\ufffd",)]),
        (b"\0\xff\r\n", b"\0\xff\r\n", []),
    ],
)
def test_marks_are_told_from_output(text: bytes, output: bytes, marks: list[tuple[str, ...]]) -> None:
    # Followed by a mark, since what may yet become one is held back until then.
    assert cut(text, LINE + b"z\n") == (output, [*marks, ("z",)])


@given(
    st.lists(st.sampled_from([b"\n", b"f1rst", b"s3cond", b" ", LINE, b"a 1\n", b"\xff", b"f", b"\nf1rsts3con"])),
    st.data(),
)
def test_chunks_do_not_matter(parts: list[bytes], data: st.DataObject) -> None:
    text = b"".join(parts) + LINE + b"end\n"
    at = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    chunks = [text[start:stop] for start, stop in zip([0, *at], [*at, len(text)], strict=True)]
    assert cut(*chunks) == cut(text)


@given(st.lists(st.binary(max_size=40)), st.integers(1, 30))
def test_clip_keeps_both_ends_and_counts_the_rest(chunks: list[bytes], limit: int) -> None:
    clip, whole = Clip(limit), b"".join(chunks)
    for chunk in chunks:
        clip.add(chunk)
    kept = clip.value()
    assert len(kept) + clip.dropped == len(whole)
    if len(whole) <= 2 * limit:
        assert kept == whole
    else:
        assert kept == whole[:limit] + whole[-limit:]


def test_a_mark_is_never_echoed() -> None:
    """The halves stand apart in everything that is sent, so that an echo of it holds no mark."""
    assert MARK.needle == LINE
    assert Mark().needle != Mark().needle


@given(
    st.lists(
        st.sampled_from(["[ a", "] a 0", "] b 0", "begin x y z", "begin 1 2 3", "done", "end", "end 0 1.5 x", "", "["])
    )
)
def test_odd_marks_raise_nothing(words: list[str]) -> None:
    side = Side(mark=MARK)
    for word in words:
        side.feed(LINE + word.encode() + b"\nout")
    assert len(side.aside) <= 2048
