"""The CUDA tables held to themselves, and the look-ups over them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.errors import ExitCode, InputError
from gpuprov.knowledge import table
from gpuprov.knowledge.cuda import (
    NotInTable,
    cuda_of_number,
    driver_rules,
    driver_runs,
    driver_version,
    installer_arguments,
    installer_options,
    newest_cuda_for,
    numbers,
    runfile,
    runfiles,
    toolkit,
    toolkits,
)
from gpuprov.knowledge.gpus import ForwardCompat

ALL_ROWS = [
    pytest.param(row, id=f"{name}-{array}-{at}")
    for name in ("cuda", "gcc", "torch", "flash_attn")
    for array, found in table(name).items()
    for at, row in enumerate(found if isinstance(found, list) else [found])
]


# --- the tables ------------------------------------------------------------------------------


@pytest.mark.parametrize("row", ALL_ROWS)
def test_every_row_of_every_table_has_a_source_and_says_why_it_is_unsure(row: dict[str, Any]) -> None:
    assert isinstance(row["source"], list)
    assert row["source"]
    assert all(source.strip() for source in row["source"])
    assert ("unsure" in row) == ("unsure_reason" in row)
    assert row.get("unsure_reason", "x").strip()


def test_runfiles_are_unique_and_in_order() -> None:
    releases = [numbers(row.release) for row in runfiles()]
    assert releases == sorted(set(releases))
    assert len({row.name for row in runfiles()}) == len(runfiles())
    sums = [value for row in runfiles() for value in (row.sha256, row.md5) if value]
    assert len(sums) == len(set(sums))


@pytest.mark.parametrize("row", runfiles(), ids=lambda row: row.release)
def test_a_runfile_agrees_with_itself(row: Any) -> None:
    parts = ["cuda", row.release, *([row.driver] if row.driver else []), "linux.run"]
    assert row.name == "_".join(parts)
    assert row.path.endswith("/local_installers/" + row.name)
    assert row.url == "https://developer.download.nvidia.com/" + row.path
    assert numbers(row.release)[:2] == numbers(row.toolkit)
    assert row.driver_bundled == (row.driver is not None)
    assert row.sha256 is None or re.fullmatch("[0-9a-f]{64}", row.sha256)
    assert row.md5 is None or re.fullmatch("[0-9a-f]{32}", row.md5)
    assert row.sha256 or row.md5 or row.unsure
    assert bool(row.sha256) == bool(row.sha256_sources) == bool(row.sha256_independent)
    assert row.size is None or 3_000_000_000 < row.size < 7_000_000_000
    assert row.toolkit in {toolkit.version for toolkit in toolkits()}
    drivers = [value for value in (row.driver, row.toolkit_driver, row.min_driver) if value]
    assert all(driver_version(value) == value for value in drivers)


def test_drivers_rise_with_the_releases_of_a_major() -> None:
    for one, next_ in pairwise(row for row in runfiles() if row.toolkit_driver and row.driver):
        assert numbers(one.driver or "") <= numbers(next_.driver or "")
        assert numbers(one.toolkit_driver or "") <= numbers(next_.toolkit_driver or "")


def test_the_minimum_driver_is_that_of_the_major() -> None:
    rules = {rule.major: rule for rule in driver_rules()}
    assert sorted(rules) == [rule.major for rule in driver_rules()]
    for row in runfiles():
        rule = rules[numbers(row.toolkit)[0]]
        assert row.min_driver == (rule.min_driver if rule.minor_version_compatibility else None)
    least = [numbers(rule.min_driver) for rule in driver_rules()]
    assert least == sorted(least)


def test_toolkits_agree_with_each_other() -> None:
    for row in toolkits():
        plain = [target for target in row.sm if target.isdigit()]
        assert (plain[0], plain[-1]) == (row.sm_oldest, row.sm_newest)
        assert [int(target) for target in plain] == sorted({int(target) for target in plain})
        assert row.gcc_quiet is None or row.gcc_quiet <= row.gcc_max
        assert row.gcc_max_first_release is None or row.gcc_max_first_release < row.gcc_max
    for one, next_ in pairwise(toolkits()):
        assert numbers(one.version) < numbers(next_.version)
        assert one.gcc_max <= next_.gcc_max
        assert set(next_.sm) - set(one.sm) == set(next_.added)
        assert set(one.sm) - set(next_.sm) == set(next_.dropped)


def test_installer_commands_cover_all_releases_and_use_known_options_only() -> None:
    for row in runfiles():
        arguments = installer_arguments(row.release, "/usr/local/cuda-x", "/tmp")
        known = installer_options(row.release)
        assert {argument.partition("=")[0] for argument in arguments} <= set(known)
        assert not {argument.partition("=")[0] for argument in arguments} & set(
            installer_options(row.release, component="driver")
        )


def test_nothing_is_read_at_import() -> None:
    code = (
        "import sys; from gpuprov.knowledge import cuda, flash_attn, gcc, torch; "
        "print(cuda.tables.cache_info().currsize, 'pydantic' in sys.modules, 'asyncssh' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.split() == ["0", "False", "False"]


# --- look-ups --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("11.7", "cuda_11.7.1_515.65.01_linux.run"),
        ("11.7.0", "cuda_11.7.0_515.43.04_linux.run"),
        (" 11.7.1 ", "cuda_11.7.1_515.65.01_linux.run"),
        ("10.2", "cuda_10.2.89_440.33.01_linux.run"),
        ("13.1.0", "cuda_13.1.0_590.44.01_linux.run"),  # a guess by the former release's driver was a 404
        ("13.4", "cuda_13.4.1_linux.run"),  # 13.4.2 has no checksum: only who names it gets it
        ("13.4.2", "cuda_13.4.2_linux.run"),
    ],
)
def test_runfile(wanted: str, name: str) -> None:
    assert runfile(wanted).name == name


def test_runfile_facts() -> None:
    row = runfile("11.7")
    assert row.sha256 == "52286a29706549b7d0feeb0e7e3eca1b15287c436a69fa880ad385b1be3e04db"
    assert row.driver == "515.65.01"
    assert row.toolkit_driver == "515.48.07"
    assert row.min_driver == "450.80.02"


@pytest.mark.parametrize(
    ("wanted", "nearest"),
    [
        ("11.7.5", ("11.7.0", "11.7.1", "11.8.0", "12.0.0")),
        ("12.7", ("12.6.2", "12.6.3", "12.8.0", "12.8.1")),
        ("14.0", ("13.4.1", "13.4.2")),
        ("9.2", ("10.2.89", "11.0.2")),
        ("", ()),
        ("newest", ()),
    ],
)
def test_an_unknown_release_names_its_neighbours(wanted: str, nearest: tuple[str, ...]) -> None:
    with pytest.raises(NotInTable) as caught:
        runfile(wanted)
    assert caught.value.nearest == nearest
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, InputError)
    assert caught.value.exit_code == ExitCode.USAGE
    assert repr(wanted) in str(caught.value)
    assert all(name in str(caught.value) for name in nearest)


@given(st.text())
def test_any_text_is_a_release_or_a_typed_error(text: str) -> None:
    for look_up in (runfile, toolkit):
        try:
            look_up(text)
        except NotInTable as error:
            assert len(str(error)) < 300
    assert numbers(text) is not None


@pytest.mark.parametrize(
    ("wanted", "version"),
    [("11.7", "11.7"), ("11.7.1", "11.7"), ("12.1.20230222", "12.1"), ("10.2.89", "10.2")],
)
def test_toolkit(wanted: str, version: str) -> None:
    """The third part may be a build date (version.json of 11.7 to 12.2): only X.Y counts."""
    assert toolkit(wanted).version == version


@pytest.mark.parametrize("wanted", ["11", "12.7", "11.9", "11.7.x", "cuda", ""])
def test_no_toolkit(wanted: str) -> None:
    with pytest.raises(NotInTable):
        toolkit(wanted)


@pytest.mark.parametrize(
    ("release", "most"),
    [
        ("10.2", 8),
        ("11.0", 9),
        ("11.3.1", 10),
        ("11.4.0", 10),
        ("11.4.1", 11),
        ("11.4", 11),
        ("11.7.1", 11),
        ("12.0", 12),
        ("12.3.2", 12),
        ("12.4", 13),
        ("12.6.3", 13),
        ("12.8", 14),
        ("13.0", 15),
        ("13.4.1", 16),
    ],
)
def test_the_gcc_ceiling(release: str, most: int) -> None:
    assert toolkit(release).accepts_gcc(release) == most


# --- drivers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("470.57.02", "470.57.02"),
        (" 516.94\n", "516.94"),
        ("550.90.07  Fri May 31 09:35:42 UTC 2024", "550.90.07"),
        ("610.43.02  Release Build  (dvs-builder@U22-I3-H05-01-2)", "610.43.02"),
        ("535.183.01-0ubuntu1", "535.183.01"),
        ("580", None),
        ("N/A", None),
        ("[Not Supported]", None),
        ("470.57.02.1.5", None),
        ("12.4", None),
        ("٤٧٠.٥٧", None),
        ("", None),
    ],
)
def test_driver_version(text: str, version: str | None) -> None:
    assert driver_version(text) == version


@pytest.mark.parametrize(("number", "level"), [(11040, "11.4"), (12000, "12.0"), (13000, "13.0"), (10020, "10.2")])
def test_the_number_in_the_drivers_error_is_a_cuda_level(number: int, level: str) -> None:
    """ "The NVIDIA driver on your system is too old (found version 11040)"."""
    assert cuda_of_number(number) == level


@pytest.mark.parametrize(
    ("driver", "cuda", "how", "needs"),
    [
        # exactly, and by backward compatibility
        ("515.65.01", "11.7.1", "full", ""),
        ("515.65.01", "11.7", "full", ""),
        ("535.104.05", "11.7", "full", ""),
        ("535.104.05", "12.1", "full", ""),
        ("516.94", "11.6", "full", ""),
        ("470.57.02", "11.4", "full", ""),
        ("440.33.01", "10.2", "full", ""),
        ("595.71.05", "9.2", "full", ""),
        ("570.211.01", "12.7", "full", ""),
        # the release notes give 11.0 a driver below the floor of its major
        ("450.51.06", "11.0.3", "full", ""),
        ("450.51.05", "11.0.3", "too-old", "450.51.06"),
        ("450.51.06", "11.1", "too-old", "450.80.02"),
        # minor-version compatibility, from CUDA 11 on
        ("470.57.02", "11.7", "minor-version", ""),
        ("470.57.02", "11.7.1", "minor-version", ""),
        ("450.80.02", "11.8", "minor-version", ""),
        ("525.60.13", "12.1", "minor-version", ""),
        ("525.60.13", "12.9", "minor-version", ""),
        ("580.126.09", "13.2", "minor-version", ""),
        ("580.65.06", "13.9", "minor-version", ""),
        ("525.60.13", "12.1.20230222", "minor-version", ""),
        # per component, not as text: 535.86 < 535.104, 525.60 < 525.105
        ("535.86.10", "12.2.2", "minor-version", ""),
        ("535.104.05", "12.2.1", "full", ""),
        ("525.9.1", "12.0", "too-old", "525.60.13"),
        # too old
        ("470.57.02", "12.1", "too-old", "525.60.13"),
        ("470.86", "12.1", "too-old", "525.60.13"),
        ("515.105.01", "12.8", "too-old", "525.60.13"),
        ("525.60.12", "12.0", "too-old", "525.60.13"),
        ("575.57.08", "13.0", "too-old", "580.65.06"),
        ("418.87.00", "10.2", "too-old", "440.33"),
        ("440.33.01", "11.0", "too-old", "450.51.05"),
        # outside the tables
        ("595.71.05", "14.0", "unknown", ""),
        ("418.87.00", "10.1", "unknown", ""),
        # garbage
        ("", "12.1", "unreadable", ""),
        ("N/A", "12.1", "unreadable", ""),
        ("No devices were found", "12.1", "unreadable", ""),
        ("525.60.13", "", "unreadable", ""),
        ("525.60.13", "12", "unreadable", ""),
        ("525.60.13", "ERR!", "unreadable", ""),
    ],
)
def test_driver_runs(driver: str, cuda: str, how: str, needs: str) -> None:
    verdict = driver_runs(driver, cuda)
    assert (verdict.how, verdict.needs) == (how, needs)
    assert bool(verdict) == verdict.fits == (how in ("full", "minor-version"))
    assert needs in verdict.because


def test_a_verdict_says_why_and_what_would_do() -> None:
    assert driver_runs("470.57.02", "12.1").because == (
        "driver 470.57.02 runs CUDA up to 11.8: CUDA 12.1 needs 525.60.13 or newer, or, on a data-centre card only, "
        "the forward-compatibility package (cuda-compat)"
    )
    assert driver_runs("470.57.02", "11.7").because == (
        "driver 470.57.02 runs CUDA 11.7 by minor-version compatibility, binary code only: its PTX needs 515.43.04 "
        "or newer"
    )


@pytest.mark.parametrize(
    ("card", "words"),
    [
        ("yes", "which this card supports"),
        ("no", "does not work on this card"),
        ("listed boards only", "if NVIDIA lists this board"),
        ("not established", "on a data-centre card only"),
    ],
)
def test_the_forward_compatibility_package_is_for_some_cards(card: ForwardCompat, words: str) -> None:
    verdict = driver_runs("515.105.01", "12.8", forward_compat=card)
    assert not verdict
    assert words in verdict.because


@pytest.mark.parametrize(
    ("driver", "newest", "fully"),
    [
        ("418.87.00", None, None),
        ("440.33.01", "10.2", "10.2"),
        ("450.66", "11.0", "11.0"),
        ("450.80.02", "11.8", "11.0"),
        ("470.57.02", "11.8", "11.4"),
        ("520.61.05", "11.8", "11.8"),
        ("525.60.13", "12.9", "12.0"),
        ("530.30.02", "12.9", "12.1"),
        ("580.65.06", "13.4", "13.0"),
        ("999.1", "13.4", "13.3"),
        ("garbage", None, None),
    ],
)
def test_newest_cuda_for(driver: str, newest: str | None, fully: str | None) -> None:
    assert newest_cuda_for(driver) == newest
    assert newest_cuda_for(driver, full=True) == fully


DRIVERS = st.builds("{}.{}.{:02}".format, st.integers(300, 700), st.integers(0, 300), st.integers(0, 99))


@given(DRIVERS, DRIVERS, st.sampled_from([row.release for row in runfiles()] + [row.version for row in toolkits()]))
def test_a_newer_driver_runs_no_less(one: str, other: str, cuda: str) -> None:
    older, newer = sorted((one, other), key=numbers)
    assert driver_runs(newer, cuda) or not driver_runs(older, cuda)
    needs = driver_runs(older, cuda).needs
    assert driver_runs(needs, cuda) if needs else driver_runs(older, cuda)


@given(DRIVERS)
def test_the_newest_cuda_for_a_driver_runs_on_it(driver: str) -> None:
    newest, fully = newest_cuda_for(driver), newest_cuda_for(driver, full=True)
    assert newest is None or driver_runs(driver, newest)
    assert fully is None or driver_runs(driver, fully).how == "full"


@given(st.text(), st.text())
def test_no_text_breaks_a_verdict(driver: str, cuda: str) -> None:
    assert "\n" not in driver_runs(driver, cuda).because
    assert driver_runs(driver, "12.1").because
    assert driver_runs("525.60.13", cuda).because


# --- the installer ---------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["10.2", "11.7.1", "13.3.1", "13.4.1", "13.9"])
def test_installer_arguments(release: str) -> None:
    assert installer_arguments(release, "/opt/a b/{tmpdir}", "/data/tmp/") == (
        "--silent",
        "--toolkit",
        "--toolkitpath=/opt/a b/{tmpdir}",
        "--override",
        "--no-man-page",
        "--tmpdir=/data/tmp",
    )


@pytest.mark.parametrize(("path", "tmpdir"), [("cuda", "/tmp"), ("", "/tmp"), ("/a", "tmp"), ("/a\n--driver", "/tmp")])
def test_installer_arguments_take_absolute_paths(path: str, tmpdir: str) -> None:
    with pytest.raises(ValueError, match="must"):
        installer_arguments("11.7.1", path, tmpdir)


@pytest.mark.parametrize("release", ["8.0.61", "10.1", "", "x"])
def test_no_command_line_is_made_up_for_other_installers(release: str) -> None:
    with pytest.raises(NotInTable):
        installer_arguments(release, "/a", "/tmp")


def test_the_driver_options_are_gone_from_13_4_on() -> None:
    assert "--driver" in installer_options("13.3.1", component="driver")
    assert installer_options("13.4.1", component="driver") == ()
    assert "--samples" in installer_options("11.8.0")
    assert "--samples" not in installer_options("12.0.0")


@pytest.mark.parametrize("wanted", ["99.9", "11.9", "3.2", "latest", "??"])
@pytest.mark.parametrize("look", [runfile, toolkit])
def test_what_no_table_has_is_wrong_input_with_names_that_one_has(wanted: str, look: Callable[[str], object]) -> None:
    with pytest.raises(NotInTable) as caught:
        look(wanted)
    (problem,) = caught.value.problems
    assert caught.value.code == "input"
    names = problem.hint.partition(": ")[2].split(", ")
    assert all(look(name) for name in names) and 0 < len(names) <= 6
