"""The torch tables held to themselves and to CUDA's, and the look-ups over them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.knowledge.cuda import NotInTable, numbers, toolkit, toolkits
from gpuprov.knowledge.gpus import gpus
from gpuprov.knowledge.torch import (
    Build,
    build,
    builds,
    capability,
    code_for,
    extension_gccs,
    gcc_refused,
    index_url,
    supports,
    torch,
    torches,
)

# --- the tables ------------------------------------------------------------------------------


def test_releases_and_builds_are_unique_and_in_order() -> None:
    releases = [numbers(row.version) for row in torches()]
    assert releases == sorted(set(releases))
    keys = [(numbers(row.torch), row.cuda) for row in builds()]
    assert keys == sorted(set(keys))


@pytest.mark.parametrize("row", torches(), ids=lambda row: row.version)
def test_a_release_agrees_with_its_builds(row: Any) -> None:
    assert row.pypi_default in row.builds
    default = build(row.version, row.pypi_default)
    assert row.cxx11_abi == default.cxx11_abi
    assert row.glibc_min == default.glibc_min
    assert ("manylinux_2_28" in row.wheel_platform) == (row.glibc_min == "2.28")
    for pinned in (row.pypi_cuda_runtime, row.pypi_cuda_toolkit_meta):
        assert pinned is None or numbers(pinned)[:2] == numbers(default.cuda_dotted)
    assert row.numpy_lt_2 == (numbers(row.version) < (2, 3))
    assert list(row.python) == sorted(row.python, key=numbers)


def test_every_build_belongs_to_a_release() -> None:
    named = {(numbers(row.version)[:2], cuda) for row in torches() for cuda in row.builds}
    assert {(numbers(row.torch), row.cuda) for row in builds()} == named


@pytest.mark.parametrize("row", builds(), ids=lambda row: f"{row.torch}+{row.cuda}")
def test_a_build_agrees_with_its_toolkit(row: Build) -> None:
    assert row.cuda == "cu" + row.cuda_dotted.replace(".", "")
    assert {*row.sass, *row.ptx} <= set(toolkit(row.cuda_dotted).sm)
    assert list(row.sass) == sorted(row.sass, key=int)
    assert numbers(row.cudnn)


def test_every_release_has_its_partners() -> None:
    for one, next_ in pairwise(torches()):
        assert numbers(one.torchvision) <= numbers(next_.torchvision)
        assert numbers(one.torchaudio) <= numbers(next_.torchaudio)
        assert numbers(one.torchvision) < numbers(next_.torchvision) or next_.unsure
    # from 2.12 on there is no torchaudio of the same number
    assert all(
        numbers(row.torchaudio)[:2] == numbers(row.version)[:2] for row in torches() if (2, 1) <= n(row) < (2, 12)
    )


def n(row: Any) -> tuple[int, ...]:
    return numbers(row.version)


def test_compiler_limits_name_known_releases() -> None:
    versions = {row.version for row in torches()}
    for row in extension_gccs():
        assert {row.torch_first, row.torch_last} <= versions
        assert numbers(row.cuda_first) <= numbers(row.cuda_last)
        assert (row.upto is None) != (row.below is None)
        limit = numbers(row.upto or row.below or "")[0] - (1 if row.below else 0)
        first = toolkit(row.cuda_first)
        # where torch lets more through than nvcc, nvcc stops it (CUDA 12.3, as its row says)
        assert limit == first.gcc_max or "let gcc 13 through" in first.note


# --- look-ups --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "version", "torchvision", "torchaudio"),
    [
        ("1.13.1", "1.13.1", "0.14.1", "0.13.1"),
        ("1.13", "1.13.1", "0.14.1", "0.13.1"),
        ("2.0.0", "2.0.0", "0.15.1", "2.0.1"),
        ("2.6.0+cu124", "2.6.0", "0.21.0", "2.6.0"),
        (" 2.1.2\n", "2.1.2", "0.16.2", "2.1.2"),
    ],
)
def test_torch(wanted: str, version: str, torchvision: str, torchaudio: str) -> None:
    row = torch(wanted)
    assert (row.version, row.torchvision, row.torchaudio) == (version, torchvision, torchaudio)


@pytest.mark.parametrize(("version", "pinned"), [("1.13.1", True), ("2.2.2", True), ("2.3.0", False), ("2.9.1", False)])
def test_numpy_below_2(version: str, pinned: bool) -> None:
    """torch below 2.3 imports with numpy 2 and fails later, at tensor.numpy()."""
    assert torch(version).numpy_lt_2 is pinned


@pytest.mark.parametrize(
    ("wanted", "near"), [("1.14", "1.13.1"), ("1.13.2", "1.13.1"), ("3.0", "2.15.0"), ("1", "1.12.0")]
)
def test_no_such_torch(wanted: str, near: str) -> None:
    with pytest.raises(NotInTable) as caught:
        torch(wanted)
    assert near in caught.value.nearest


@pytest.mark.parametrize(
    ("version", "cuda", "cudnn", "abi", "glibc"),
    [
        ("1.13.1", "cu117", "8.5.0.96", False, None),
        ("1.13.1", "11.7", "8.5.0.96", False, None),
        ("2.6.0", "cu124", "9.1.0.70", False, None),
        ("2.6.0", "cu126", "9.5.1.17", True, "2.28"),  # one release, two ABIs
        ("2.7.1", "CU118", "9.1.0.70", True, "2.28"),
    ],
)
def test_build(version: str, cuda: str, cudnn: str, abi: bool, glibc: str | None) -> None:
    row = build(version, cuda)
    assert (row.cudnn, row.cxx11_abi, row.glibc_min) == (cudnn, abi, glibc)


@pytest.mark.parametrize(("version", "cuda"), [("1.13.1", "cu118"), ("2.0.1", "12.1"), ("2.6.0", ""), ("2.6.0", "cpu")])
def test_no_such_build(version: str, cuda: str) -> None:
    with pytest.raises(NotInTable, match=f"the build of torch {version}"):
        build(version, cuda)


@pytest.mark.parametrize(
    ("version", "cuda", "url"),
    [
        ("1.13.1", "cu117", None),
        ("1.13.1", "cu116", "https://download.pytorch.org/whl/cu116"),
        ("2.0.1", "cu118", "https://download.pytorch.org/whl/cu118"),
        ("2.6.0", "12.4", None),
    ],
)
def test_index_url(version: str, cuda: str, url: str | None) -> None:
    assert index_url(version, cuda) == url


@pytest.mark.parametrize(
    ("version", "cuda", "gcc", "refused"),
    [
        ("1.13.1", "11.7", "11.3.0", False),
        ("1.13.1+cu117", "11.7", "12.2.0", True),
        ("1.13.1", "11.3", "10.2.1", False),
        ("1.13.1", "11.3", "10.5.0", True),
        ("2.1.2", "11.7", "11.5.0", False),
        ("2.1.2", "11.7.1", "12.2.0", True),
        ("2.1.2", "12.1", "13.2.0", False),  # nvcc stops that one, torch does not
        ("2.12.1", "12.1", "13.2.0", True),
        ("1.12.1", "11.3", "12.2.0", False),  # not read: says nothing
        ("nonsense", "12.1", "13.2.0", False),
    ],
)
def test_gcc_refused_by_torch_itself(version: str, cuda: str, gcc: str, refused: bool) -> None:
    assert bool(gcc_refused(version, cuda, gcc)) is refused


# --- what runs on a card ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "is_"),
    [("8.9", (8, 9)), ("89", (8, 9)), ("sm_89", (8, 9)), ("12.0", (12, 0)), ("120", (12, 0)), ("compute_100", (10, 0))]
    + [(text, None) for text in ("", "8", "8.", "N/A", "8.9.1", "1200", "٨.٩")],
)
def test_capability(text: str, is_: tuple[int, int] | None) -> None:
    assert capability(text) == is_


@pytest.mark.parametrize(
    ("card", "sass", "ptx", "code"),
    [
        ("8.6", ["80"], [], "sm_80"),
        ("8.9", ["80", "86"], [], "sm_86"),
        ("8.0", ["86"], [], None),  # an equal or higher minor only
        ("9.0", ["80", "86"], [], None),  # nothing crosses a major ...
        ("9.0", ["80", "86"], ["86"], "compute_86"),  # ... except PTX
        ("7.0", [], ["80"], None),
        ("9.0", ["90a"], [], "sm_90a"),
        ("10.3", ["100a"], [], None),
        ("10.3", ["100f"], [], "sm_100f"),
        ("10.3", ["100"], ["100"], "sm_100"),
        ("12.1", ["120"], [], "sm_120"),
        ("garbage", ["80"], ["80"], None),
    ],
)
def test_code_for(card: str, sass: list[str], ptx: list[str], code: str | None) -> None:
    assert code_for(card, sass, ptx) == code


@pytest.mark.parametrize(
    ("version", "cuda", "card", "how", "words"),
    [
        ("1.13.1", "cu117", "8.6", "binary", "sm_86"),
        ("1.13.1", "cu117", "8.9", "binary", "sm_86"),
        ("1.13.1", "cu117", "9.0", "no-code", "torch 2.0+cu118 does"),
        ("2.0.1", "cu117", "9.0", "no-code", "torch 2.0+cu118 does"),
        ("2.0.1", "cu118", "9.0", "binary", "sm_90"),
        ("1.12.1", "cu102", "7.5", "binary", "sm_70"),
        ("1.12.1", "cu102", "8.0", "no-code", "torch 1.12+cu113 does"),
        # an RTX 5090 with cu124 or cu126: is_available() is True and the first kernel fails
        ("2.6.0", "cu124", "12.0", "no-code", "torch 2.7+cu128 does"),
        ("2.7.1", "cu126", "12.0", "no-code", "torch 2.7+cu128 does"),
        ("2.7.1", "cu128", "12.0", "binary", "sm_120"),
        ("2.7.1", "cu128", "10.3", "binary", "sm_100"),
        # a TITAN V beside an Ada card: one fails where the other works
        ("2.9.1", "cu130", "7.0", "no-code", "torch 2.9+cu126 does"),
        ("2.9.1", "cu130", "8.9", "binary", "sm_86"),
        ("2.9.1", "cu126", "7.0", "binary", "sm_70"),
        ("2.8.0", "cu129", "13.0", "ptx", "compute_120"),
        ("2.8.0", "cu129", "3.0", "no-code", "no build in the tables does"),
        ("2.8.0", "cu129", "N/A", "unreadable", "no compute capability"),
    ],
)
def test_supports(version: str, cuda: str, card: str, how: str, words: str) -> None:
    verdict = supports(build(version, cuda), card)
    assert verdict.how == how
    assert bool(verdict) == (how in ("binary", "ptx"))
    assert words in verdict.because


def test_the_rules_that_people_know() -> None:
    """The prose of torch.toml, held to its rows."""
    volta = {(row.torch, row.cuda) for row in builds() if supports(row, "7.0")}
    assert {row.torch for row in builds() if row.cuda == "cu126"} == {xy for xy, cuda in volta if cuda == "cu126"}
    assert {xy for xy, cuda in volta if cuda == "cu128"} == {"2.8", "2.9", "2.10"}
    assert not {cuda for _, cuda in volta} & {"cu130", "cu132"}
    first = next(row for row in builds() if supports(row, "12.0"))
    assert (first.torch, first.cuda) == ("2.7", "cu128")
    pascal = {row.cuda for row in builds() if numbers(row.torch) >= (2, 8) and supports(row, "6.1")}
    assert pascal == {"cu126"}
    assert not [row for row in builds() if "89" in row.sass]


def test_every_card_of_our_tables_is_run_by_some_build_and_toolkit() -> None:
    for card in {row.cc for row in gpus()}:
        assert any(supports(row, card) for row in builds()), card
        assert any(code_for(card, row.sm) for row in toolkits()), card


@given(st.text(), st.text())
def test_no_text_breaks_a_look_up(one: str, other: str) -> None:
    for look_up in (lambda: torch(one), lambda: build("1.13.1", other), lambda: build(one, other)):
        try:
            look_up()
        except NotInTable as error:
            assert error.wanted in (one.strip(), one.strip().partition("+")[0], other.strip().lower())
    assert supports(build("1.13.1", "cu117"), one).because
    assert gcc_refused(one, other, one) is not None
