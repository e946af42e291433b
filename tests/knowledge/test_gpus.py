"""The table of GPUs held to itself, and names as people and drivers write them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.knowledge import table
from gpuprov.knowledge.gpus import GpuRow, compute_capability, family, gpu, gpus, nearest_gpu

ARCHITECTURES = {
    "Pascal": {"6.0", "6.1"},
    "Volta": {"7.0"},
    "Turing": {"7.5"},
    "Ampere": {"8.0", "8.6"},
    "Ada Lovelace": {"8.9"},
    "Hopper": {"9.0"},
    "Blackwell": {"10.0", "10.3", "12.0", "12.1"},
}


def test_names_are_unique_however_they_are_written() -> None:
    names = [re.sub(r"[\s-]+", " ", row.name.lower().removeprefix("nvidia ")) for row in gpus()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("row", gpus(), ids=lambda row: str(row.name))
def test_a_row_is_whole(row: GpuRow) -> None:
    assert row.cc in ARCHITECTURES[row.arch]
    assert row.cls in {"datacenter", "workstation", "consumer"}
    assert row.forward_compat in {"yes", "no", "listed boards only", "not established"}
    assert row.source
    assert all(row.source)
    assert row.memory_gib is None or 2 <= row.memory_gib <= 512
    if row.memory_gib and row.mib_seen:
        assert 0.85 <= row.mib_seen / 1024 / row.memory_gib <= 1.05
    assert gpu(row.name) == row


def test_an_unsure_row_says_why() -> None:
    rows = table("gpus")["gpu"]
    assert all(bool(row.get("unsure")) == bool(row.get("unsure_reason")) for row in rows)
    assert all(rule["source"] for rule in table("gpus")["rule"])


@pytest.mark.parametrize("row", gpus(), ids=lambda row: str(row.name))
@pytest.mark.parametrize("spell", [str.upper, str.lower, lambda n: n.replace(" ", "  "), lambda n: n.replace("-", " ")])
def test_spelling_makes_no_difference(row: GpuRow, spell: object) -> None:
    assert callable(spell)
    assert gpu(spell(row.name)) == row
    assert gpu(spell(row.name.removeprefix("NVIDIA "))) == row


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("GeForce RTX 3090", "NVIDIA GeForce RTX 3090"),
        ("NVIDIA GeForce GTX 1080", "GeForce GTX 1080"),
        ("rtx 4090", "NVIDIA GeForce RTX 4090"),
        ("RTX 4090 24GB", "NVIDIA GeForce RTX 4090"),
        ("RTX 4090 48 GiB", "NVIDIA GeForce RTX 4090"),
        ("NVIDIA Tesla T4", "Tesla T4"),
        ("T4", "Tesla T4"),
        ("A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"),
        ("RTX 4000", None),  # Turing or Ada
        ("A100", None),  # several boards
        ("GeForce", None),
        ("", None),
        ("Radeon RX 7900", None),
    ],
)
def test_names_of_people(name: str, found: str | None) -> None:
    row = gpu(name)
    assert (row.name if row else None) == found


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("GRID A100-40C", "8.0"),
        ("GRID A100D-80C", "8.0"),
        ("GRID V100D-32C", "7.0"),
        ("NVIDIA A40-48C", "8.6"),
        ("NVIDIA L4-12Q", "8.9"),
        ("NVIDIA A100-SXM...", None),
        ("A100-SXM4-96GB", "8.0"),
        ("A100", "8.0"),
        ("NVIDIA GH200 96GB", "9.0"),
        ("RTX", None),
        ("", None),
    ],
)
def test_the_capability_of_families_slices_and_other_memory_sizes(name: str, capability: str | None) -> None:
    assert compute_capability(name) == capability


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("RTX 4O90", "NVIDIA GeForce RTX 4090"),
        ("RTX5090", "NVIDIA GeForce RTX 5090"),
        ("A100", "NVIDIA A100-SXM4-40GB"),
        ("zzzzzz", None),
        ("", None),
    ],
)
def test_did_you_mean(name: str, near: str | None) -> None:
    row = nearest_gpu(name)
    assert (row.name if row else None) == near


def test_the_compiler_s_name() -> None:
    row = gpu("RTX 5090")
    assert row is not None
    assert row.sm == "sm_120"


@given(st.text())
def test_any_text_may_be_asked(name: str) -> None:
    gpu(name)
    family(name)
    nearest_gpu(name)
    compute_capability(name)
