"""What the inventory says of a card is told when no such card is known, and when another one is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuprov.engine.cards import card_warnings
from gpuprov.facts import Facts, Gpu
from gpuprov.inventory import load_inventory

UNKNOWN = "which is in no table"


@pytest.mark.parametrize(
    ("said", "there", "words"),
    [
        ("RTX 4071", (), f"{UNKNOWN}; .*; did you mean NVIDIA GeForce RTX 4070"),
        ("RTX4090", (), f"{UNKNOWN}; .*; did you mean NVIDIA GeForce RTX 4090"),
        ("some card", (), f"{UNKNOWN}; .*before it is there$"),
        ("RTX 4070", (), ""),
        ("A100", (), ""),
        ("GRID A100-40C", (), ""),
        ("RTX 4070", ("NVIDIA GeForce RTX 4070",), ""),
        ("rtx 4090 24GB", ("GeForce RTX 4090",), ""),
        ("A100", ("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"), ""),
        ("H100", ("NVIDIA H100 80GB HBM3",), ""),
        ("A100", ("GRID A100-40C",), ""),
        ("Quadro K9", ("Quadro K9",), ""),
        (
            "RTX 4090",
            ("NVIDIA GeForce RTX 4070",),
            "and the host has 1 x NVIDIA GeForce RTX 4070; what is there counts",
        ),
        ("RTX 4070", ("NVIDIA GeForce RTX 4070 Ti",), "and the host has 1 x NVIDIA GeForce RTX 4070 Ti"),
        ("A100 PCIe 40GB", ("NVIDIA A10", "NVIDIA A10"), "and the host has 2 x NVIDIA A10"),
        ("RTX 4071", ("NVIDIA GeForce RTX 4070",), "and the host has 1 x NVIDIA GeForce RTX 4070"),
    ],
)
def test_what_is_doubtful_about_a_card(said: str, there: tuple[str, ...], words: str, tmp_path: Path) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_text(f"hosts:\n  h: {{gpu: {said}}}\n")
    facts = Facts(gpus=tuple(Gpu(index=number, name=name) for number, name in enumerate(there)))
    found = list(card_warnings(load_inventory([file]).hosts["h"], facts))
    assert len(found) == bool(words)
    for text in found:
        assert text.startswith(f"the inventory says gpu: {said} ({file}:2:12), ")
        assert re.search(words, text), text


def test_a_host_of_which_nothing_is_said() -> None:
    assert not list(card_warnings(load_inventory(["h,"]).hosts["h"], Facts()))
