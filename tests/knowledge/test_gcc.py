"""The compilers of distributions, and what CUDA accepts of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.knowledge.cuda import NotInTable, numbers, toolkits
from gpuprov.knowledge.gcc import distro, distros, gcc_for, glibc_conflict, glibc_limits, why_no_gcc


def test_distributions_agree_with_themselves() -> None:
    assert len({(row.id, row.release) for row in distros()}) == len(distros())
    for row in distros():
        majors = [numbers(n) for n in row.gcc_packages]
        assert majors == sorted(set(majors))
        assert set(row.gcc_versions) == {f"gcc-{n}" for n in row.gcc_packages}
        assert all(row.gcc_versions[f"gcc-{n}"].startswith(n) for n in row.gcc_packages)
        assert row.gcc_default.split(".")[0] in row.gcc_packages
        assert numbers(row.glibc)


def test_every_toolkit_has_a_compiler_somewhere() -> None:
    for row in toolkits():
        found = [gcc_for(row.version, host.id, host.release) for host in distros()]
        assert any(found), row.version
        assert all(choice is None or numbers(choice.package[4:])[0] <= row.gcc_max for choice in found)


def test_glibc_limits_name_known_toolkits() -> None:
    versions = {row.version for row in toolkits()}
    assert all(row.cuda_last in versions and numbers(row.glibc_first) for row in glibc_limits())


@pytest.mark.parametrize(
    ("cuda", "distro_id", "release", "package"),
    [
        ("11.7", "debian", "12", "gcc-11"),
        ("11.7.1", "Debian", "12.5", "gcc-11"),
        ("12.1", "debian", "12", "gcc-12"),
        ("12.6", "debian", "12", "gcc-12"),
        ("11.7", "debian", "11", "gcc-10"),
        ("11.0", "debian", "11", "gcc-9"),
        ("12.3", "debian", "13", "gcc-12"),
        ("13.4", "debian", "13", "gcc-14"),
        ("10.2", "ubuntu", "18.04", "gcc-8"),
        ("11.7", "ubuntu", "20.04", "gcc-10"),
        ("10.2", "ubuntu", "20.04", "gcc-8"),
        ("11.7", "ubuntu", "22.04", "gcc-11"),
        ("11.4.0", "ubuntu", "22.04", "gcc-10"),
        ("12.4", "ubuntu", "22.04", "gcc-12"),
        ("11.8", "ubuntu", "24.04", "gcc-11"),
        ("11.3", "ubuntu", "24.04", "gcc-10"),
        ("11.0", "ubuntu", "24.04", "gcc-9"),
        ("12.3", "ubuntu", "24.04", "gcc-12"),
        ("12.4", "ubuntu", "24.04", "gcc-13"),
        ("12.8", "ubuntu", "24.04", "gcc-14"),
    ],
)
def test_gcc_for(cuda: str, distro_id: str, release: str, package: str) -> None:
    choice = gcc_for(cuda, distro_id, release)
    assert choice is not None
    assert choice.package == package
    assert choice.cxx_package == package.replace("gcc", "g++")
    assert why_no_gcc(cuda, distro_id, release) == ""


@pytest.mark.parametrize(
    ("cuda", "distro_id", "release", "words"),
    [
        ("11.3", "debian", "12", ("CUDA 11.3 accepts gcc up to 10", "debian 12", "gcc-11")),
        ("11.4.0", "debian", "12", ("CUDA 11.4.0 accepts gcc up to 10", "gcc-11")),
        ("11.8", "debian", "13", ("accepts gcc up to 11", "gcc-12")),
        ("10.2", "ubuntu", "22.04", ("accepts gcc up to 8", "gcc-9", "may lack some")),
        ("11.7", "arch", "", ("arch", "not in the tables", "debian 12")),
        ("11.7", "ubuntu", "23.10", ("ubuntu 23.10", "not in the tables")),
    ],
)
def test_no_gcc_and_the_reason(cuda: str, distro_id: str, release: str, words: tuple[str, ...]) -> None:
    assert gcc_for(cuda, distro_id, release) is None
    assert all(word in why_no_gcc(cuda, distro_id, release) for word in words)


def test_an_unknown_toolkit_is_an_error() -> None:
    for look_up in (gcc_for, why_no_gcc):
        with pytest.raises(NotInTable):
            look_up("11.9", "debian", "12")


@pytest.mark.parametrize(
    ("cuda", "distro_id", "release", "default", "caution"),
    [
        ("11.7", "debian", "12", False, ""),
        ("12.1", "debian", "12", True, ""),
        ("11.7", "ubuntu", "22.04", True, ""),
        ("11.5", "ubuntu", "22.04", True, "prefer gcc 10 or lower"),
        ("11.1", "debian", "11", True, "gcc 9 is the quiet choice"),
        ("12.4", "debian", "13", False, "math_functions.h"),
        ("13.0", "debian", "13", True, ""),
    ],
)
def test_what_a_choice_warns_of(cuda: str, distro_id: str, release: str, default: bool, caution: str) -> None:
    choice = gcc_for(cuda, distro_id, release)
    assert choice is not None
    assert choice.is_default is default
    assert caution in choice.caution
    assert bool(caution) == bool(choice.caution)


@pytest.mark.parametrize(
    ("cuda", "glibc", "conflict"),
    [
        ("12.9", "2.40", False),
        ("12.9", "2.41", True),
        ("11.7", "2.41", True),
        ("13.0", "2.41", False),
        ("13.0", "2.42", True),
        ("13.1", "2.42", False),
        ("12.8", "2.26", True),
        ("12.8", "2.27", False),
        ("12.6", "2.17", False),
        ("12.8", "", False),
        ("12.8", "musl", False),
    ],
)
def test_glibc_conflict(cuda: str, glibc: str, conflict: bool) -> None:
    assert bool(glibc_conflict(cuda, glibc)) is conflict


@given(st.text(), st.text())
def test_what_a_host_says_of_itself_breaks_nothing(distro_id: str, release: str) -> None:
    assert distro(distro_id, release) or gcc_for("11.7", distro_id, release) is None
    assert distro(distro_id, release) or why_no_gcc("11.7", distro_id, release)
    assert glibc_conflict("12.8", release) is not None
