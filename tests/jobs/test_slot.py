from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.jobs.slot import Slot, as_word, from_word
from gpuprov.model import Id

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(ANY_TEXT)
def test_any_identity_is_one_plain_file_name(text: str) -> None:
    folder = Slot(Id(text)).folder
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", folder)
    assert len(folder) < 100


@pytest.mark.parametrize(
    ("one", "other"), [("a/b", "a:b"), ("a", "A"), ("a b", "a  b"), ("", "."), ("..", "."), ("x" * 70, "x" * 71)]
)
def test_different_identities_have_different_folders(one: str, other: str) -> None:
    assert Slot(Id(one)).folder.lower() != Slot(Id(other)).folder.lower()


def test_the_folder_can_be_read_by_people() -> None:
    assert Slot(Id("cuda-toolkit:11.7")).folder.startswith("cuda-toolkit_11.7-")


@given(ANY_TEXT)
def test_a_word_holds_any_text(text: str) -> None:
    word = as_word(text)
    assert re.fullmatch(r"[!-~]+", word)
    assert from_word(word) == text
