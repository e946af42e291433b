"""CUDA toolkits: their installers, what they compile for, and which drivers run them.

All of it is for Linux x86_64. The tables are in ``cuda.toml``, with the source of every row; each is read once, at
the first look-up. A release is written ``11.7.1``, the toolkit that it belongs to ``11.7``.
"""

from __future__ import annotations

import bisect
import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar

from gpuprov.errors import InputError
from gpuprov.knowledge import table
from gpuprov.knowledge.gpus import ForwardCompat
from gpuprov.model import normal_path

R = TypeVar("R")


_SHOWN = 6
"""How many names of a table are told where none is near: the last."""


class NotInTable(InputError, KeyError):
    """A name that a table does not have. Nothing is ever composed for it: a guess would be a 404, or worse.

    Attributes:
        wanted: what was asked for.
        nearest: known names near it, in the order of the table.
    """

    def __init__(self, what: str, wanted: str, known: Iterable[str]) -> None:
        self.wanted = wanted
        names = tuple(known)
        self.nearest = _nearest(wanted, list(names))
        shown = wanted if len(wanted) <= 40 else wanted[:40] + "…"
        near = f"known near it: {', '.join(self.nearest)}" if self.nearest else f"known: {', '.join(names[-_SHOWN:])}"
        super().__init__(f"{what} {shown!r} is not in the tables", hint=near)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether one thing runs on another; true when it does.

    Attributes:
        how: ``full``; ``minor-version`` (binary code only: PTX is not compiled); ``binary`` or ``ptx`` (the code that
            a card runs); or why not: ``too-old`` (the driver or toolkit), ``no-code`` (for the card), ``unknown`` (the
            tables do not say), ``unreadable`` (the question).
        because: one sentence: why, and what would do.
        needs: the lowest driver or toolkit that would do; empty when it fits or none is known.
    """

    fits: bool
    how: Literal["full", "minor-version", "binary", "ptx", "too-old", "no-code", "unknown", "unreadable"]
    because: str
    needs: str = ""

    def __bool__(self) -> bool:
        return self.fits


@dataclass(frozen=True, kw_only=True)
class Runfile:
    """The installer of one toolkit release.

    Attributes:
        name: the exact file name. path: below NVIDIA's download host.
        driver: the driver packed in it; None from 13.4 on.
        toolkit_driver: the driver that runs this release with all functions; None where none is stated.
        min_driver: the lowest driver that runs it by minor-version compatibility; None before CUDA 11.
        sha256, md5: lower-case hex; None where none was published.
        sha256_independent: how many independent kinds of source carry that sum.
        size: bytes.
        unsure: why the row is not settled, or empty.
    """

    release: str
    toolkit: str
    name: str
    path: str
    driver_bundled: bool
    source: tuple[str, ...]
    driver: str | None = None
    toolkit_driver: str | None = None
    min_driver: str | None = None
    sha256: str | None = None
    sha256_sources: tuple[str, ...] = ()
    sha256_independent: int = 0
    md5: str | None = None
    md5_source: str = ""
    size: int | None = None
    note: str = ""
    unsure: str = ""

    @property
    def url(self) -> str:
        """Where NVIDIA serves it."""
        return f"{tables('cuda')['download']['base_url']}{self.path}"


@dataclass(frozen=True, kw_only=True)
class Toolkit:
    """The compilers of one toolkit X.Y.

    Attributes:
        gcc_max: highest gcc major that nvcc accepts. gcc_max_first_release: the same for X.Y.0, where it was lower.
        gcc_quiet: highest gcc major without reported trouble, where that is lower than ``gcc_max``.
        sm: targets, such as ``90``, ``90a`` (that architecture only) and ``100f`` (its family).
        verified_in_binary: read from the real nvcc, not from a table.
        glibc_min: oldest C library that it runs with, where stated.
    """

    version: str
    gcc_max: int
    sm: tuple[str, ...]
    sm_oldest: str
    sm_newest: str
    verified_in_binary: bool
    source: tuple[str, ...]
    gcc_max_first_release: int | None = None
    gcc_quiet: int | None = None
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    glibc_min: str | None = None
    note: str = ""
    unsure: str = ""

    def accepts_gcc(self, release: str) -> int:
        """Return the highest gcc major that nvcc of this release accepts (an X.Y means its newest release)."""
        first = release.strip() == f"{self.version}.0" and self.gcc_max_first_release
        return first or self.gcc_max


@dataclass(frozen=True, kw_only=True)
class DriverRule:
    """The lowest driver for a CUDA major, and whether it runs all minors of that major."""

    major: int
    min_driver: str
    scope: str
    minor_version_compatibility: bool
    source: tuple[str, ...]


# --- the tables ------------------------------------------------------------------------------

tables = cache(table)


def rows(kind: type[R], name: str, array: str) -> tuple[R, ...]:
    """Make values of the rows ``[[array]]`` of a table: a key is a field, and ``unsure_reason`` is ``unsure``.

    Raises:
        TypeError: a row has a key that ``kind`` lacks, or lacks one that it needs.
    """

    def value(row: dict[str, Any]) -> R:
        fields = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
        if fields.pop("unsure", False):
            fields["unsure"] = fields.pop("unsure_reason")
        return kind(**fields)

    return tuple(value(row) for row in tables(name)[array])


@cache
def runfiles() -> tuple[Runfile, ...]:
    """Return all installers, oldest first."""
    return rows(Runfile, "cuda", "runfile")


@cache
def toolkits() -> tuple[Toolkit, ...]:
    """Return all toolkits, oldest first."""
    return rows(Toolkit, "cuda", "toolkit")


@cache
def driver_rules() -> tuple[DriverRule, ...]:
    """Return the rules of driver and CUDA major, oldest first."""
    return rows(DriverRule, "cuda", "driver_rule")


# --- versions --------------------------------------------------------------------------------


def numbers(version: str) -> tuple[int, ...]:
    """Return a dotted version as numbers, for comparing; empty when it is none.

    >>> numbers("535.104.05") > numbers("535.86.10")
    True
    """
    return tuple(map(int, version.split("."))) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9}){0,3}", version) else ()


def driver_version(text: str) -> str | None:
    """Return the driver's version at the beginning of a text, or None.

    Two or three parts (``516.94``, ``470.57.02``); what a package adds behind a hyphen or a blank is dropped.
    """
    found = re.match(r"[0-9]{3,4}(\.[0-9]{1,4}){1,2}(?=$|[\s+~-])", text.strip())
    return found.group() if found else None


def cuda_of_number(number: int) -> str:
    """Return the CUDA level that the driver's interface states as a number.

    >>> cuda_of_number(11040)
    '11.4'
    """
    return f"{number // 1000}.{number % 1000 // 10}"


def _nearest(wanted: str, known: list[str]) -> tuple[str, ...]:
    def order(name: str) -> tuple[int, ...]:
        return tuple(map(int, re.findall(r"[0-9]{1,9}", name)[:6]))

    if re.fullmatch(r"[0-9]+(\.[0-9]+)*(\.?[a-z]+[0-9]*)?", wanted):
        at = bisect.bisect(sorted(map(order, known)), order(wanted))
        return tuple(sorted(known, key=order)[max(at - 2, 0) : at + 2])
    close = difflib.get_close_matches(wanted[:80], known, n=3, cutoff=0.5)
    return tuple(name for name in known if name in close)


def runfile(release: str) -> Runfile:
    """Return the installer of a release; for an X.Y that of its newest release whose file has a checksum.

    Raises:
        NotInTable: there is none.
    """
    wanted = release.strip()
    for row in reversed(runfiles()):
        if wanted == row.release or (wanted == row.toolkit and (row.sha256 or row.md5)):
            return row
    raise NotInTable("the installer of CUDA", wanted, (row.release for row in runfiles()))


def release_of_file(name: str) -> str:
    """Return the release that a .run file's name says by NVIDIA's pattern, such as 11.7.1; empty: it says none.

    Before 11.0 the third number is a build and no release, so that only X.Y is returned.
    """
    row = next((row for row in runfiles() if row.name == name), None)
    if row is not None:
        return row.release
    found = re.match(r"cuda_([0-9]+)\.([0-9]+)\.([0-9]+)_", name)
    if not found:
        return ""
    return ".".join(found.groups()) if int(found[1]) >= 11 else f"{found[1]}.{found[2]}"


def is_file_of(name: str, wanted: str) -> bool:
    """Say whether a .run file of that name may be the one of a release, or of an X.Y; a name that says nothing may."""
    said = release_of_file(name).split(".")
    return said == [""] or all(mine == theirs for mine, theirs in zip(said, wanted.split("."), strict=False))


def toolkit(version: str) -> Toolkit:
    """Return the toolkit of an X.Y, or of anything that begins with it (``11.7.1``, ``12.1.20230222``).

    Raises:
        NotInTable: there is none.
    """
    wanted = version.strip()
    for row in toolkits():
        if numbers(wanted)[:2] == numbers(row.version):
            return row
    raise NotInTable("CUDA", wanted, (row.version for row in toolkits()))


# --- drivers ---------------------------------------------------------------------------------


def _own_driver(cuda: str) -> str | None:
    """The driver from which on this CUDA has all its functions; an X.Y stands for its first release.

    Where NVIDIA states none for a release, that of the release before it in the same toolkit; for an X.Y that does
    not exist, that of the next one, since a driver runs what is older.
    """
    stated = [(numbers(row.release), row.toolkit_driver) for row in runfiles() if row.toolkit_driver]
    want = numbers(cuda)
    same = [(release, driver) for release, driver in stated if release[:2] == want[:2]]
    if len(want) > 2:
        upto = [driver for release, driver in same if release <= want]
        return upto[-1] if upto else None
    later = same or [(release, driver) for release, driver in stated if release > want]
    return later[0][1] if later else None


def _package(forward_compat: ForwardCompat | None) -> str:
    match forward_compat:
        case "yes":
            return ", or the forward-compatibility package (cuda-compat), which this card supports"
        case "no":
            return "; the forward-compatibility package does not work on this card"
        case "listed boards only":
            return ", or, if NVIDIA lists this board for it, the forward-compatibility package (cuda-compat)"
    return ", or, on a data-centre card only, the forward-compatibility package (cuda-compat)"


def driver_runs(driver: str, cuda: str, *, forward_compat: ForwardCompat | None = None) -> Verdict:
    """Say whether a driver runs programs of a CUDA toolkit, why, and what would do. Never raises.

    ``cuda`` is an X.Y or a release. ``forward_compat`` is the card's, from `gpuprov.knowledge.gpus`.
    """
    have, want, cuda = driver_version(driver), numbers(cuda.strip()), cuda.strip()
    if have is None:
        return Verdict(fits=False, how="unreadable", because=f"{driver[:40]!r} is no driver version")
    if len(want) < 2:
        return Verdict(fits=False, how="unreadable", because=f"{cuda[:40]!r} is no CUDA version such as 12.1")
    rule = next((rule for rule in driver_rules() if rule.major == want[0]), None)
    own = _own_driver(cuda)
    if want < numbers(toolkits()[0].version):
        rule, own = None, driver_rules()[0].min_driver
    if own and numbers(have) >= numbers(own):
        why = f"driver {have} runs CUDA {cuda} fully: every driver from {own} on does"
        return Verdict(fits=True, how="full", because=why)
    floor = rule.min_driver if rule and rule.minor_version_compatibility else own
    if rule is None or floor is None:
        known = f"{toolkits()[0].version} to {toolkits()[-1].version}"
        why = f"CUDA {cuda} is not in the tables ({known}), so no driver is known for it"
        return Verdict(fits=False, how="unknown", because=why)
    if numbers(have) >= numbers(floor):
        ptx = f"its PTX needs {own} or newer" if own else "which driver compiles its PTX is not known"
        why = f"driver {have} runs CUDA {cuda} by minor-version compatibility, binary code only: {ptx}"
        return Verdict(fits=True, how="minor-version", because=why)
    needs = min(floor, own or floor, key=numbers)
    newest = newest_cuda_for(have)
    runs = f"runs CUDA up to {newest}" if newest else "is too old for every CUDA in the tables"
    why = f"driver {have} {runs}: CUDA {cuda} needs {needs} or newer{_package(forward_compat)}"
    return Verdict(fits=False, how="too-old", because=why, needs=needs)


def newest_cuda_for(driver: str, *, full: bool = False) -> str | None:
    """Return the newest X.Y with an installer that a driver runs, or None (also when it is no driver version).

    ``full``: fully, PTX included (the "CUDA Version" of nvidia-smi), not merely by minor-version compatibility.
    """
    have = numbers(driver_version(driver) or "")
    minor = {rule.major: rule.min_driver for rule in driver_rules() if rule.minor_version_compatibility and not full}
    for row in reversed(runfiles()):
        least = (_own_driver(row.toolkit), minor.get(numbers(row.toolkit)[0]))
        if have and any(one and have >= numbers(one) for one in least):
            return row.toolkit
    return None


# --- the installer ---------------------------------------------------------------------------


def _in_range(row: dict[str, Any], version: str) -> bool:
    return numbers(row["first"]) <= numbers(version)[:2] <= numbers(row.get("last", "999.0"))


def installer_options(release: str, *, component: str | None = None) -> tuple[str, ...]:
    """Return the options that the installer of a release knows, or those of one component (``driver``)."""
    options = (row for row in tables("cuda")["installer_option"] if component in (None, row["component"]))
    return tuple(row["name"] for row in options if _in_range(row, release.strip()))


def installer_arguments(release: str, toolkitpath: str, tmpdir: str) -> tuple[str, ...]:
    """Return the arguments that install a toolkit alone, unattended, beside others: never the driver.

    They are for ``sh FILE``; each is one word, not yet quoted. What else it writes is in ``cuda.toml``.

    Raises:
        NotInTable: no command line is known for this release.
        ValueError: a path is not absolute.
    """
    paths = {"toolkitpath": normal_path(toolkitpath, what="toolkitpath"), "tmpdir": normal_path(tmpdir, what="tmpdir")}
    for row in tables("cuda")["installer_command"]:
        if _in_range(row, release.strip()):
            return tuple(word.format(**paths) for word in row["arguments"])
    raise NotInTable("the installer of CUDA", release.strip(), (row.version for row in toolkits()))
