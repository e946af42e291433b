"""nvidia-smi as people met it: each report is a case, and each must be told apart from the others."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprov.facts import smi

CASES = Path(__file__).parent / "cases"
DRIVER: list[dict[str, Any]] = tomllib.loads((CASES / "driver.toml").read_text(encoding="utf-8"))["case"]


def text_of(case: dict[str, Any]) -> str:
    return str(case["text"]) if "text" in case else (CASES / case["file"]).read_text(encoding="utf-8")


@pytest.mark.parametrize("case", DRIVER, ids=lambda case: str(case["id"]))
def test_a_reported_output_is_told_apart(case: dict[str, Any]) -> None:
    text = text_of(case)
    assert smi.classify(text, case["status"]) == case["kind"]
    assert list(smi.lost_gpus(text)) == case.get("lost", [])
    assert [[xid.code, xid.bus_id] for xid in smi.xids(text)] == case.get("xids", [])
    module = smi.module(text)
    assert ([module.version, module.flavour] if module else None) == case.get("module")


@pytest.mark.parametrize("case", [case for case in DRIVER if "table" in case], ids=lambda case: str(case["id"]))
def test_the_table_is_read_in_both_layouts_and_rows_of_mig_are_no_gpus(case: dict[str, Any]) -> None:
    table, wanted = smi.table(text_of(case)), case["table"]
    assert (table.driver, table.cuda, table.stub) == (
        wanted.get("driver"),
        wanted.get("cuda"),
        wanted.get("stub", False),
    )
    assert [gpu.name for gpu in table.gpus] == wanted["names"]
    assert [gpu.mig for gpu in table.gpus] == wanted["mig"]
    assert [gpu.memory_mib for gpu in table.gpus] == wanted["memory_mib"]


def test_a_hang_needs_no_text() -> None:
    assert smi.classify("", None) == "timed-out"


def test_the_reports_cover_every_kind_but_the_missing_command() -> None:
    kinds = {case["kind"] for case in DRIVER}
    assert kinds == set(smi.SmiKind.__args__) - {"not-found"}  # type: ignore[attr-defined]
    assert smi.classify("sh: 1: nvidia-smi: not found", 127) == "not-found"


@pytest.mark.parametrize(
    ("text", "figure"),
    [
        ("12282", 12282.0),
        ("52 %", 52.0),
        ("40960 MiB", 40960.0),
        ("91.5 W", 91.5),
        ("[Not Supported]", None),
        ("[N/A]", None),
        ("N/A", None),
        ("P0", None),
        ("", None),
        ("١٢", None),
    ],
)
def test_units_are_stripped_and_what_is_not_supported_is_not_known(text: str, figure: float | None) -> None:
    assert smi.number(text) == figure


def test_csv_rows_are_taken_by_their_columns() -> None:
    """tutulino/Megaminer#235, triton-inference-server/server#8070."""
    fields = ("gpu_name", "utilization.gpu", "temperature.gpu", "fan.speed")
    text = "GeForce GTX 770, [Not Supported], 52, 52 %\nNo devices were found\n"
    assert smi.rows(text, fields) == [
        dict(zip(fields, ["GeForce GTX 770", "[Not Supported]", "52", "52 %"], strict=True))
    ]
    mixed = "compute_cap, name, index\n7.0, NVIDIA TITAN V, 0\n8.9, NVIDIA RTX 5880 Ada Generation, 1\n"
    assert [row["compute_cap"] for row in smi.rows(mixed, ("compute_cap", "name", "index"))] == ["7.0", "8.9"]


@given(st.text(), st.none() | st.integers(-300, 300))
def test_any_text_is_some_kind(text: str, status: int | None) -> None:
    assert smi.classify(text, status) in smi.SmiKind.__args__  # type: ignore[attr-defined]
    smi.table(text)
    smi.lost_gpus(text)
    smi.module(text)
    smi.xids(text)
    smi.rows(text, ("index", "name"))
