"""The pins that a torch brings with it: its CUDA build and index, its partners, a numpy that it works with. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuprov.errors import InputError
from gpuprov.knowledge import numpy_pins
from gpuprov.knowledge import torch as torch_table
from gpuprov.knowledge.cuda import NotInTable, numbers, tables

PARTNERS = ("torchvision", "torchaudio")


@dataclass(frozen=True, kw_only=True)
class TorchPins:
    """What to install.

    Attributes:
        versions: by normalised name, in the order given; numpy may have been added.
        index: the index that has the build, to be used beside the usual one; None: the usual one has it.
    """

    versions: Mapping[str, str]
    index: str | None = None


def torch_pins(
    pins: Mapping[str, str],
    *,
    python: str,
    cuda: str | None = None,
    conda: frozenset[str] = frozenset(),
    glibc: str | None = None,
) -> TorchPins:
    """Return the pins with what the torch among them brings along; without a torch, or with one unknown, as they are.

    Args:
        pins: versions by normalised name.
        python: ``3.10`` or ``3.10.13``.
        cuda: the toolkit X.Y that the environment compiles with: torch's build must be for the same.
        conda: names of the packages that conda installs.
        glibc: the host's C library.

    Raises:
        InputError: they do not fit together, with what would.
    """
    if "torch" not in pins:
        return TorchPins(versions=pins)
    version, _, label = pins["torch"].partition("+")
    try:
        row = torch_table.torch(version)
    except NotInTable:
        return TorchPins(versions=pins)
    if row.version != version:
        return TorchPins(versions=pins)
    minor = ".".join(python.split(".")[:2])
    if minor not in row.python:
        raise InputError(f"torch {version} has no build for Python {minor}", hint=f"it has for {', '.join(row.python)}")
    build, index = _build(row, label, cuda)
    if build is not None and glibc and build.glibc_min and numbers(glibc) < numbers(build.glibc_min):
        raise InputError(
            f"torch {version}+{build.cuda} needs glibc {build.glibc_min}, and this host has {glibc}",
            hint="choose an older torch, or an image with a newer distribution",
        )
    versions = dict(pins)
    suffix = f"+{build.cuda}" if build is not None and index else f"+{label}" if label else ""
    versions["torch"] = version + suffix
    for partner in PARTNERS:
        if partner in pins:
            versions[partner] = _partner(row, partner, pins[partner], suffix)
    if row.numpy_lt_2 and "numpy" in pins and numbers(pins["numpy"])[:1] >= (2,):
        raise InputError(
            f"torch {version} does not work with numpy {pins['numpy']}", hint=f"pin {_numpy(python)} or leave it out"
        )
    if row.numpy_lt_2 and "numpy" not in pins and "numpy" not in conda:
        versions["numpy"] = numpy_pins.below_2(python)
    return TorchPins(versions=versions, index=index)


def _build(row: torch_table.Torch, label: str, cuda: str | None) -> tuple[torch_table.Build | None, str | None]:
    """Return the build and the index to get it from; None for one that is not in the tables, such as cpu."""
    if label:
        if not label.startswith("cu") or label not in row.builds:
            if cuda or label.startswith("cu"):
                raise InputError(
                    f"torch {row.version} has no build {label}",
                    hint=f"its CUDA builds are {', '.join(row.builds)}",
                )
            return None, _index(label)
        build = torch_table.build(row.version, label)
        if cuda and build.cuda_dotted != cuda:
            raise InputError(
                f"torch {row.version}+{label} is built for CUDA {build.cuda_dotted}, and the environment compiles with "
                f"{cuda}: extensions would not build",
                hint=f"pin torch=={row.version} and its build for {cuda} is chosen, or name the other toolkit",
            )
        return build, _index(label)
    if cuda:
        return torch_table.build(row.version, cuda), torch_table.index_url(row.version, cuda)
    return torch_table.build(row.version, row.pypi_default), None


def _index(label: str) -> str:
    download = tables("torch")["download"]
    return str(download["base_url"]) + str(download["index_path"]).format(build=label)


def _partner(row: torch_table.Torch, name: str, wanted: str, suffix: str) -> str:
    version, _, label = wanted.partition("+")
    right = getattr(row, name)
    if version != right:
        raise InputError(f"{name} {version} is not made for torch {row.version}", hint=f"{name} {right} is")
    if label and f"+{label}" != suffix:
        raise InputError(
            f"{name} {wanted} and torch {row.version}{suffix} are different builds",
            hint=f"pin {name}=={version}, and the build of torch is taken",
        )
    return version + suffix


def _numpy(python: str) -> str:
    try:
        return f"numpy=={numpy_pins.below_2(python)}"
    except NotInTable:
        return "a numpy below 2"
