"""The flash-attn table held to itself and to torch's and CUDA's, and the look-ups over it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from gpuprov.knowledge.cuda import NotInTable, numbers, runfiles, toolkits
from gpuprov.knowledge.flash_attn import (
    flash_attn,
    flash_attns,
    max_jobs,
    supports,
    targets,
    wheel,
    wheel_labels,
)
from gpuprov.knowledge.gcc import distro
from gpuprov.knowledge.torch import torches

# --- the table -------------------------------------------------------------------------------


def test_releases_are_unique_and_in_order() -> None:
    versions = [Version(row.version) for row in flash_attns()]
    assert versions == sorted(set(versions))


@pytest.mark.parametrize("row", flash_attns(), ids=lambda row: row.version)
def test_a_release_agrees_with_itself_and_the_other_tables(row: Any) -> None:
    if row.min_nvcc is None:
        assert row.unsure
        return
    known = {toolkit.version for toolkit in toolkits()}
    assert {row.min_nvcc, row.arch_90_needs_nvcc or row.min_nvcc, row.arch_100_120_needs_nvcc or row.min_nvcc} <= known
    for toolkit in toolkits():
        if numbers(toolkit.version) >= numbers(row.min_nvcc):
            assert set(targets(row.version, toolkit.version)) <= set(toolkit.sm)
    assert set(targets(row.version, toolkits()[-1].version)) == set(row.archs)
    assert ("100" in row.archs) == ("120" in row.archs) == (row.arch_100_120_needs_nvcc is not None)
    assert "90" not in row.archs or row.arch_90_needs_nvcc
    assert "torch" in row.build_needs
    assert ("MAX_JOBS" in row.env) == row.max_jobs_auto
    assert ("NVCC_THREADS" in row.env) == row.nvcc_threads_settable
    assert ("FLASH_ATTN_CUDA_ARCHS" in row.env) == row.archs_selectable
    assert ("FLASH_ATTENTION_FORCE_BUILD" in row.env) == row.auto_download
    assert row.max_jobs_auto == ("psutil" in row.build_needs)
    assert row.auto_download == bool(row.wheel_torch) == bool(row.wheel_built_on)
    assert len(row.wheel_cu_label) == len(row.wheel_built_with_cuda)
    releases = {runfile.release for runfile in runfiles()}
    for label, release in zip(row.wheel_cu_label, row.wheel_built_with_cuda, strict=True):
        assert release in releases
        assert ("cu" + release.replace(".", "")).startswith(label)
    known_torch = {numbers(release.version)[:2] for release in torches()}
    assert {tuple(map(int, torch.split(".")[:2])) for torch in row.wheel_torch} <= known_torch
    if row.wheel_built_on:
        assert distro(*row.wheel_built_on.split("-")) is not None


def test_every_release_with_wheels_has_a_naming_rule() -> None:
    versions = [row.version for row in flash_attns()]
    covered: list[str] = []
    for rule in wheel_labels():
        last = versions.index(rule.last) if rule.last else len(versions) - 1
        covered += versions[versions.index(rule.first) : last + 1]
    assert len(covered) == len(set(covered))
    assert {row.version for row in flash_attns() if row.wheel_torch} <= set(covered)


# --- look-ups --------------------------------------------------------------------------------


def test_flash_attn() -> None:
    row = flash_attn(" 2.5.8 ")
    assert row.min_nvcc == "11.6"
    assert {"ninja", "packaging", "psutil", "torch", "wheel"} == set(row.build_needs)
    assert "FLASH_ATTENTION_FORCE_BUILD" in row.env


@pytest.mark.parametrize(
    ("wanted", "near"),
    [("2.5", "2.5.0"), ("2.5.10", "2.5.9.post1"), ("2.7.4.post2", "2.7.4.post1"), ("3.0.0", "2.8.3.post2")],
)
def test_no_such_release(wanted: str, near: str) -> None:
    with pytest.raises(NotInTable) as caught:
        flash_attn(wanted)
    assert near in caught.value.nearest


@pytest.mark.parametrize(
    ("version", "nvcc", "expected"),
    [
        ("1.0.9", "11.7", ("75", "80")),
        ("1.0.9", "11.8", ("75", "80", "90")),
        ("2.5.8", "11.7", ("80",)),
        ("2.5.8", "12.1", ("80", "90")),
        ("2.8.3", "12.4.1", ("80", "90")),
        ("2.8.3", "12.8", ("80", "90", "100", "120")),
        ("2.2.4", "12.1", ("80",)),
        ("2.8.3.post2", "12.8", ()),
    ],
)
def test_targets(version: str, nvcc: str, expected: tuple[str, ...]) -> None:
    assert targets(version, nvcc) == expected


@pytest.mark.parametrize(
    ("version", "card", "nvcc", "how", "words"),
    [
        ("2.5.8", "8.0", "11.7", "binary", "sm_80"),
        ("2.5.8", "8.9", "11.7", "binary", "sm_80"),
        ("2.5.8", "9.0", "11.7", "no-code", "nvcc 11.8 or newer"),
        ("2.5.8", "9.0", "12.1", "binary", "sm_90"),
        ("2.5.8", "8.0", "11.3", "too-old", "needs nvcc 11.6 or newer"),
        ("2.5.8", "7.5", "11.7", "no-code", "from 0.2.8 to 1.0.9"),
        ("1.0.9", "7.5", "11.7", "binary", "sm_75"),
        ("2.8.3", "12.0", "12.4", "no-code", "nvcc 12.8 or newer"),
        ("2.8.3", "12.0", "12.8", "binary", "sm_120"),
        ("2.5.8", "12.0", "12.8", "no-code", "from 2.7.3 to 2.8.3.post1"),
        ("2.2.4", "9.0", "12.1", "no-code", "sm_80"),
        ("2.8.3", "7.0", "12.8", "no-code", "no release does"),
        ("2.8.3.post2", "8.0", "12.8", "unknown", "build script not read"),
        ("2.8.3", "N/A", "12.8", "unreadable", "no compute capability"),
        ("2.8.3", "8.0", "none", "unreadable", "no nvcc version"),
    ],
)
def test_supports(version: str, card: str, nvcc: str, how: str, words: str) -> None:
    verdict = supports(version, card, nvcc)
    assert verdict.how == how
    assert bool(verdict) == (how == "binary")
    assert words in verdict.because


@pytest.mark.parametrize(
    ("version", "torch", "cuda", "abi", "python", "tags"),
    [
        ("2.5.8", "1.13.1", "11.7", False, "3.10", "cu118torch1.13cxx11abiFALSE-cp310-cp310"),
        ("2.1.1", "1.13.1", "11.7", False, "3.10", "cu117torch1.13cxx11abiFALSE-cp310-cp310"),
        ("2.2.2", "2.1.0", "12.1", False, "3.11", "cu121torch2.1cxx11abiFALSE-cp311-cp311"),
        ("2.3.5", "2.1.2", "12.1", False, "3.10", "cu122torch2.1cxx11abiFALSE-cp310-cp310"),
        ("2.6.3", "2.4.0", "12.1", False, "3.12", "cu123torch2.4cxx11abiFALSE-cp312-cp312"),
        ("2.7.4.post1", "2.6.0+cu124", "12.4", False, "3.11", "cu12torch2.6cxx11abiFALSE-cp311-cp311"),
        ("2.8.3", "2.8.0", "12.8", True, "3.12", "cu12torch2.8cxx11abiTRUE-cp312-cp312"),
    ],
)
def test_wheel(version: str, torch: str, cuda: str, abi: bool, python: str, tags: str) -> None:
    name = f"flash_attn-{version}+{tags}-linux_x86_64.whl"
    found = wheel(version, torch=torch, torch_cuda=cuda, cxx11_abi=abi, python=python)
    assert found is not None
    assert found.name == name
    assert found.url == f"https://github.com/Dao-AILab/flash-attention/releases/download/v{version}/{name}"


@pytest.mark.parametrize(
    ("version", "torch", "cuda", "python"),
    [
        ("2.8.3", "2.9.0", "13.0", "3.12"),  # CUDA 13: compiled from source
        ("2.8.3", "2.9.0", "12.8", "3.12"),
        ("2.8.3", "2.8.0", "12.8", "3.14"),
        ("2.7.4.post1", "2.6.0", "11.8", "3.11"),
        ("2.1.1", "1.12.1", "11.3", "3.10"),
        ("1.0.9", "1.13.1", "11.7", "3.10"),
        ("2.8.3.post2", "2.8.0", "12.8", "3.12"),
        ("2.8.3", "", "", ""),
    ],
)
def test_no_wheel_was_planned(version: str, torch: str, cuda: str, python: str) -> None:
    assert wheel(version, torch=torch, torch_cuda=cuda, cxx11_abi=False, python=python) is None


@pytest.mark.parametrize(
    ("version", "glibc", "nvcc", "runs_on_5090"),
    [("2.7.4.post1", "2.31", "12.4.1", False), ("2.8.2", "2.35", "12.9.1", True)],
)
def test_what_a_wheel_was_built_with(version: str, glibc: str, nvcc: str, runs_on_5090: bool) -> None:
    """pip installs the newer wheels on glibc 2.31 too, where they fail at import: "version `GLIBC_2.32' not found"."""
    found = wheel(version, torch="2.6.0", torch_cuda="12.4", cxx11_abi=False, python="3.11")
    assert found is not None
    assert (found.glibc, found.nvcc) == (glibc, nvcc)
    assert bool(supports(version, "12.0", found.nvcc)) is runs_on_5090


@pytest.mark.parametrize(
    ("cores", "memory", "jobs"),
    [(96, 850.0, 48), (96, 64.0, 7), (16, 120.0, 8), (2, 64.0, 1), (1, 2.0, 1), (64, 8.9, 1), (0, 0.0, 1)],
)
def test_max_jobs(cores: int, memory: float, jobs: int) -> None:
    assert max_jobs(cores=cores, memory_gib=memory) == jobs


@given(st.text(), st.text())
def test_no_text_breaks_a_look_up(one: str, other: str) -> None:
    try:
        flash_attn(one)
    except NotInTable as error:
        assert error.wanted == one.strip()
    assert supports("2.5.8", one, other).because
    assert wheel("2.5.8", torch=one, torch_cuda=other, cxx11_abi=True, python=one) is None
