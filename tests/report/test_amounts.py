from __future__ import annotations

import pytest

from gpuprov.report.amounts import clock, counted, elapsed, progress, size, tally


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0s"),
        (0.44, "0.4s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (59.4, "59s"),
        (59.6, "1m 00s"),
        (65, "1m 05s"),
        (3599.7, "1h 00m"),
        (7384, "2h 03m"),
        (-5, "0.0s"),
        (float("nan"), "?"),
        (float("inf"), "?"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert elapsed(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (-3, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (1536 * 1024, "1.5 MiB"),
        (3 * 1024**4, "3.0 TiB"),
        (10**40, "1099511627776.0 TiB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("done", "total", "unit", "text"),
    [
        (37, 92, "items", "[37/92]"),
        (37, 0, "items", "[37]"),
        (1_288_490_189, 3_650_722_202, "bytes", "1.2 of 3.4 GiB"),
        (1_048_576, 3_650_722_202, "bytes", "1.0 MiB of 3.4 GiB"),
        (2048, 0, "bytes", "2.0 KiB"),
    ],
)
def test_progress(done: int, total: int, unit: str, text: str) -> None:
    assert progress(done, total, unit) == text


def test_a_tally_says_what_matters_first_and_leaves_out_what_is_not_there() -> None:
    assert tally({"same": 12, "recheck": 1, "change": 3, "blocked": 0}) == "3 to change, 12 as wanted, 1 checked again"
    assert tally({"same": 2, "failed": 1, "changed": 4}) == "4 changed, 1 failed, 2 as wanted"
    assert tally({}, also="change") == "0 to change"
    assert tally({"odd": 2}) == "2 odd"


def test_counted_knows_the_plural() -> None:
    assert [counted(n, "host") for n in (0, 1, 2)] == ["0 hosts", "1 host", "2 hosts"]


@pytest.mark.parametrize("at", [float("nan"), float("inf"), 1e300, -1e300])
def test_a_broken_clock_is_no_error(at: float) -> None:
    assert clock(at) == "--:--:--"
