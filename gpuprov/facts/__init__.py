"""What a host is: the parsers of the gathering script, and the values they give. No I/O."""

from __future__ import annotations

from gpuprov.facts.card import Driver, Gpu, Libcuda, Pci
from gpuprov.facts.difference import Difference, compare, compare_protected, to_json
from gpuprov.facts.host import (
    FACT_FIELDS,
    Boot,
    Conda,
    Container,
    Cpu,
    Env,
    Facts,
    Gcc,
    Memory,
    Mount,
    Os,
    Python,
    Service,
    Toolkit,
    User,
)
from gpuprov.facts.parse import parse
from gpuprov.facts.summary import summary

__all__ = [
    "FACT_FIELDS",
    "Boot",
    "Conda",
    "Container",
    "Cpu",
    "Difference",
    "Driver",
    "Env",
    "Facts",
    "Gcc",
    "Gpu",
    "Libcuda",
    "Memory",
    "Mount",
    "Os",
    "Pci",
    "Python",
    "Service",
    "Toolkit",
    "User",
    "compare",
    "compare_protected",
    "parse",
    "summary",
    "to_json",
]
