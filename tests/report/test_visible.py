from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.report.visible import last_state, visible, visible_lines


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("", ""),
        ("a\x1b[31mb", "a␛[31mb"),
        ("a\x1b]0;title\x07", "a␛]0;title␇"),
        ("a\nb\r", "a␊b␍"),
        ("\x00\x7f", "␀␡"),
        ("\x9b31m", "<9B>31m"),
        ("abc\u202etxt.exe", "abc<U+202E>txt.exe"),
        ("a\u200bb\ufeff", "a<U+200B>b<U+FEFF>"),
        ("\u2028", "<U+2028>"),
        ("\udcff", "�"),
        ("[bold]x[/bold] :smile:", "[bold]x[/bold] :smile:"),
        ("漢字 é\u00a0x", "漢字 é\u00a0x"),
        ("a\tb", "a       b"),
    ],
)
def test_what_acts_on_a_terminal_becomes_a_sign(raw: str, shown: str) -> None:
    assert visible(raw) == shown


@given(st.text(st.characters()))
def test_nothing_hidden_and_nothing_unwritable_is_left(text: str) -> None:
    shown = visible(text)
    shown.encode("utf-8")
    assert not [char for char in shown if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


def test_a_line_without_end_is_cut() -> None:
    assert visible("x" * 100_000, limit=10) == "x" * 10 + "…"


def test_lines_are_split_at_both_kinds_of_ends() -> None:
    assert visible_lines("a\r\nb\n\nc\n") == ["a", "b", "", "c"]
    assert visible_lines("") == []


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (" 10%\r 20%\r 30%", "30%"),
        (" 10%\r 20%\r", "20%"),
        ("\r\r", ""),
        ("\x1b[1;31merror\x1b[0m: x", "error: x"),
        ("half\x1b[", "half␛["),
    ],
)
def test_of_a_progress_bar_the_last_state_is_shown(line: str, shown: str) -> None:
    assert last_state(line) == shown
