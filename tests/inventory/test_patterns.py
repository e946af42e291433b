"""Patterns: which hosts are meant, in inventory order, and what is said of one that means none."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.errors import InputError, Position
from gpuprov.inventory.patterns import match

HOSTS = ("gpu1", "gpu2", "gpu3", "web-1", "web-2.example.com", "db")
GROUPS = {"train": ("gpu1", "gpu2"), "web": ("web-1", "web-2.example.com"), "one": ("gpu1", "web-1"), "none": ()}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("all", "gpu1 gpu2 gpu3 web-1 web-2.example.com db"),
        ("*", "gpu1 gpu2 gpu3 web-1 web-2.example.com db"),
        ("db", "db"),
        ("db,gpu1", "gpu1 db"),
        ("db:gpu1", "gpu1 db"),
        (" db , gpu1 ", "gpu1 db"),
        ("db,,gpu1,", "gpu1 db"),
        ("train", "gpu1 gpu2"),
        ("gpu*", "gpu1 gpu2 gpu3"),
        ("gpu[12]", "gpu1 gpu2"),
        ("gpu[!12]", "gpu3"),
        ("gpu?", "gpu1 gpu2 gpu3"),
        ("we?", "web-1 web-2.example.com"),
        ("*.example.com", "web-2.example.com"),
        ("train:&one", "gpu1"),
        ("&one:train", "gpu1"),
        ("all:!train", "gpu3 web-1 web-2.example.com db"),
        ("!train", "gpu3 web-1 web-2.example.com db"),
        ("!train:all", "gpu3 web-1 web-2.example.com db"),
        ("train:web:&one:!web-1", "gpu1"),
        ("all:!old*", "gpu1 gpu2 gpu3 web-1 web-2.example.com db"),
        ("~gpu[12]$", "gpu1 gpu2"),
        ("~(gpu|web-)1$", "gpu1 web-1"),
        ("~(?:gpu)[0-9]{1,2}:!gpu2", "gpu1 gpu3"),
        (r"~web-2\.example", "web-2.example.com"),
        ("all:!~web", "gpu1 gpu2 gpu3 db"),
    ],
)
def test_meaning(pattern: str, expected: str) -> None:
    assert match(pattern, HOSTS, GROUPS) == tuple(expected.split())


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("gpu4", ["no host or group is called 'gpu4' (did you mean 'gpu3'?)"]),
        ("trian", ["no host or group is called 'trian' (did you mean 'train'?)"]),
        ("all:!trian", ["no host or group is called 'trian' (did you mean 'train'?)"]),
        ("all:&trian", ["no host or group is called 'trian' (did you mean 'train'?)"]),
        ("zzzzz", [
            "no host or group is called 'zzzzz' "
            "(there are gpu1, gpu2, gpu3, web-1, web-2.example.com, db, train, web and 2 more)"
        ]),
        ("gpuu*,trian", [
            "'gpuu*' fits no host or group (did you mean 'gpu3'?)",
            "no host or group is called 'trian' (did you mean 'train'?)",
        ]),
        ("~[", ["the regular expression '[' is broken: unterminated character set at position 0"]),
        ("train:!train", ["the pattern 'train:!train' matches no host"]),
        ("train:&web", ["the pattern 'train:&web' matches no host"]),
        ("none", ["the pattern 'none' matches no host"]),
        ("", ["the pattern '' matches no host"]),
        (":,:", ["the pattern ':,:' matches no host"]),
        ("all:!", ["nothing follows '!' in the pattern 'all:!'"]),
        ("@/no/such", ["cannot read '/no/such': No such file or directory"]),
    ],
)  # fmt: skip
def test_a_pattern_that_means_nothing(pattern: str, expected: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        match(pattern, HOSTS, GROUPS)
    assert [str(problem) for problem in caught.value.problems] == expected


def test_the_place_of_the_pattern_is_told() -> None:
    with pytest.raises(InputError, match=r"^p.yaml:3:10: "):
        match("gpu9", HOSTS, GROUPS, Position("p.yaml", 3, 10))


def test_a_file_of_names(tmp_path: Path) -> None:
    file = tmp_path / "failed"
    file.write_text("# of the last run\ngpu3\n\n  db\nweb*\n")
    assert match(f"@{file}", HOSTS, GROUPS) == ("gpu3", "web-1", "web-2.example.com", "db")
    assert match(f"all:!@{file}", HOSTS, GROUPS) == ("gpu1", "gpu2")
    file.write_text("# nothing\n")
    with pytest.raises(InputError, match="names no host"):
        match(f"@{file}", HOSTS, GROUPS)
    file.write_bytes(b"\xff")
    with pytest.raises(InputError, match="not UTF-8"):
        match(f"@{file}", HOSTS, GROUPS)


@given(
    st.one_of(
        st.text(max_size=30),
        st.lists(
            st.sampled_from(["gpu1", "train", "all", ":", ",", "!", "&", "~", "*", "[", "]", "(", "\\", "@", "?"])
        ).map("".join),
    )
)
def test_any_text_gives_hosts_in_order_or_problems(pattern: str) -> None:
    try:
        found = match(pattern, HOSTS, GROUPS)
    except InputError as error:
        assert error.problems
    else:
        assert found
        assert list(found) == [host for host in HOSTS if host in found]
