"""What renters check by hand before they pay for an hour: each layer of a GPU host, from the driver to the kernels.

Each check is a look that changes nothing. What it saw stands in the plan (`Check.words`), or it fails and says which
layer, what was seen and what to do.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from gpuprov.errors import HostFailed, Unseen
from gpuprov.facts import smi
from gpuprov.model import Change, Claims, Id, Probe, Resource, normal_path
from gpuprov.onhost import script
from gpuprov.quote import quote
from gpuprov.resources.answers import shown, split
from gpuprov.resources.driver import PENDING

TORCH_SECONDS = 50
"""How long torch may take for all that is asked of it. Reading it from a cold disk takes some seconds, and the first
use of eight cards some more; a frame of looks ends after a minute."""

_ENDED = frozenset({124, 137})
_BROKEN: frozenset[smi.SmiKind] = frozenset({"gpu-lost", "version-mismatch", "timed-out", "in-use"})
"""Answers that a card is there which does not work, whatever the inventory promises."""

_STATUS = re.compile(r"status ([0-9]{1,3})\Z")
_SIGNALLED = re.compile(r"(Killed|Aborted|Segmentation fault|Bus error|Illegal instruction)( \(core dumped\))?")
"""What a shell says itself when a signal ended a program."""

_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")

ENVS: Mapping[str, str] = {"torch113": "legacy-torch113.yaml", "torch-current": "torch-current.yaml"}
"""The environments that shipped playbooks make when nothing else is said."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a look came to. ``words``: what is there; ``problem``: what is wrong and what to do, empty when nothing."""

    words: str = ""
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Check(Resource[Seen]):
    """A layer that must work. It writes nothing: it holds, or it fails.

    Attributes:
        after: what must be there first, so that it is looked at when that was made.
    """

    kind: ClassVar[str] = "check"
    reports: ClassVar[bool] = True

    @property
    def wanted(self) -> str:
        """What must hold, in a few words."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it wants")

    def plan(self, now: Seen | None) -> Change | None:
        """Nothing to do. From absent, what is wanted in words.

        Raises:
            HostFailed: the layer does not work.
        """
        if now is None:
            return Change(action="update", before="not looked at", after=self.wanted, steps=())
        if now.problem:
            raise HostFailed(now.problem)
        return None

    def tell(self, now: Seen) -> str:
        """Return what was seen, for the plan's line of a check that holds."""
        return now.words

    def claims(self) -> Claims:
        """Nothing."""
        return Claims()


@dataclass(frozen=True, kw_only=True)
class SmiCheck(Check):
    """nvidia-smi answers and shows cards. ``pending``: why the card is not there yet; empty: it must be."""

    pending: str = ""

    @property
    def id(self) -> Id:
        """``check:nvidia-smi``."""
        return Id(f"{self.kind}:nvidia-smi")

    @property
    def wanted(self) -> str:
        """That it answers."""
        return "nvidia-smi shows a GPU"

    def probe(self) -> Probe[Seen]:
        """Ask it, for ten seconds at most."""
        return Probe(script=f"{script('acceptance_answer')}{script('acceptance_smi')}", parse=self._parse)

    def _parse(self, data: bytes) -> Seen:
        text, status = _answer(data)
        kind = smi.classify(text, status)
        cards = smi.rows(text, ("index", "name", "driver"))
        cards = [card for card in cards if card["index"].isdecimal()]
        if kind == "ok" and cards:
            counted = Counter(card["name"] for card in cards)
            return Seen(
                words=f"driver {cards[0]['driver']}, " + ", ".join(f"{n} x {name}" for name, n in counted.items())
            )
        if self.pending and not cards and kind not in _BROKEN:
            return Seen(words=self.pending)
        why = "it shows no card" if kind == "ok" else kind.replace("-", " ")
        return Seen(
            problem=f"nvidia-smi: {why}{_said(text)}; the driver is the provider's: restart the host or ask for "
            "another, and see what the role driver says of it"
        )


@dataclass(frozen=True, kw_only=True)
class NvccCheck(Check):
    """The compiler of a toolkit runs and is of the wanted CUDA. ``cuda``: X.Y; ``folder``: the toolkit's."""

    cuda: str
    folder: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", normal_path(self.folder, what="folder"))

    @property
    def id(self) -> Id:
        """``check:nvcc:X.Y``."""
        return Id(f"{self.kind}:nvcc:{self.cuda}")

    @property
    def wanted(self) -> str:
        """Its CUDA."""
        return f"nvcc of CUDA {self.cuda} at {self.folder}"

    def probe(self) -> Probe[Seen]:
        """Ask it for its version, for ten seconds at most."""
        ask = f"gp_answer 10 {quote(f'{self.folder}/bin/nvcc')} --version\n"
        return Probe(script=script("acceptance_answer") + ask, parse=self._parse)

    def _parse(self, data: bytes) -> Seen:
        text, status = _answer(data)
        nvcc = f"{self.folder}/bin/nvcc"
        found = re.search(r"release ([0-9]+\.[0-9]+), V([0-9.]+)", text, re.ASCII)
        if status == 127 and not found:
            return Seen(
                problem=f"nvcc: there is no {nvcc}; apply playbooks/cuda-side-by-side.yaml with -e cuda={self.cuda}, "
                f"or declare cuda_toolkit with version {self.cuda} before this role"
            )
        if status or not found:
            return Seen(
                problem=f"nvcc: {nvcc} does not run ({_ending(status)}{_said(text)}); install the toolkit again"
            )
        if found[1] != self.cuda:
            return Seen(
                problem=f"nvcc: {nvcc} is of CUDA {found[1]}, not {self.cuda}; declare cuda_toolkit with version "
                f"{self.cuda} and another path"
            )
        return Seen(words=f"nvcc {found[2]} at {self.folder}")


@dataclass(frozen=True, kw_only=True)
class ContainerCheck(Check):
    """Which container runtimes are there. It is told for information, and none is no failure."""

    COMMANDS: ClassVar[tuple[str, ...]] = ("docker", "podman", "nvidia-ctk", "nvidia-container-cli")

    @property
    def id(self) -> Id:
        """``check:containers``."""
        return Id(f"{self.kind}:containers")

    @property
    def wanted(self) -> str:
        """Nothing in particular."""
        return "container runtimes, for information"

    def probe(self) -> Probe[Seen]:
        """Whether the commands are there; none of them is run."""
        return Probe(asks=tuple(("have", name) for name in self.COMMANDS), parse=self._parse)

    def _parse(self, data: bytes) -> Seen:
        answers, _ = split(data, len(self.COMMANDS))
        found = [name for name, path in zip(self.COMMANDS, answers, strict=True) if path is not None]
        return Seen(words=", ".join(found) or "no container runtime (none is needed)")


@dataclass(frozen=True, kw_only=True)
class TorchCheck(Check):
    """torch of an environment, with its CUDA and cuDNN, on each card; and a package that was compiled against it.

    Attributes:
        folder: the environment's.
        version: of torch, ``1.13.1`` or with its build ``1.13.1+cu117``; empty: whichever is there.
        cuda: X.Y of the toolkit that is meant to compile against it; empty: none.
        cards: how many torch must be able to use, as the driver shows them; 0: at least one.
        pending: why the card is not there yet; empty: it must be.
        module, module_version: what is imported of the package, and the release it must be; empty: none, any.
        compare: Python source that compares its numbers with torch's on a card, given ``torch`` and ``module``.
        missing: what to do when the environment is not there; empty: what fits its name.

    Raises:
        ValueError: a field cannot be what it must be.
    """

    folder: str
    version: str = ""
    cuda: str = ""
    cards: int = 0
    pending: str = ""
    module: str = ""
    module_version: str = ""
    compare: str = ""
    missing: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", normal_path(self.folder, what="folder"))
        if self.module and not _MODULE.fullmatch(self.module):
            raise ValueError(f"module must be the name of a Python module, not {self.module!r}")

    @property
    def id(self) -> Id:
        """``check:torch:/path/of/env``."""
        return Id(f"{self.kind}:torch:{self.folder}")

    @property
    def wanted(self) -> str:
        """torch, and the package."""
        torch = f"torch {self.version}".rstrip()
        package = f" and {self.module} {self.module_version}".rstrip() if self.module else ""
        return f"{torch}{package} of {self.folder} on {'the GPU, once it is there' if self.pending else 'the GPU'}"

    def probe(self) -> Probe[Seen]:
        """One process of the environment's Python for all layers: importing torch takes seconds."""
        words = {
            "gp_prefix": self.folder,
            "gp_seconds_torch": str(TORCH_SECONDS),
            "gp_module": self.module,
            "gp_compare": self.compare if self.module else "",
        }
        variables = "".join(f"{name}={quote(value)}\n" for name, value in words.items())
        return Probe(script=f"{variables}{script('acceptance_answer')}{script('acceptance_torch')}", parse=self._parse)

    def _parse(self, data: bytes) -> Seen:
        if data.strip() == b"absent":
            make = f"{how_to_make(posixpath.basename(self.folder))}, or declare it with conda_env before this role"
            return Seen(
                problem=f"torch: there is no Python at {self.folder}/bin/python: the environment is not on this host; "
                f"{self.missing or make}"
            )
        text, status = _answer(data)
        said = [
            (what, rest)
            for line in text.splitlines()
            if line.startswith("gpuprov: ")
            for what, _, rest in [line.removeprefix("gpuprov: ").strip().partition(" ")]
        ]
        problems = list(self._problems(said))
        if ("end", "") not in said:
            stage = next((rest for what, rest in reversed(said) if what == "at"), "python")
            advice = "slow" if status in _ENDED else stage if stage in _DO else "torch"
            problems.append(f"{stage}: {_ending(status)}{_said(text)}; {_DO[advice]}")
        elif ("at", "torch") not in said:
            raise Unseen("what torch came to is missing: its libraries printed too much")
        return Seen(words=self._words(said), problem="; ".join(problems))

    def _problems(self, said: list[tuple[str, str]]) -> Iterator[str]:
        facts = dict(said)
        troubles = [rest.partition(" ")[::2] for what, rest in said if what == "trouble"]
        for layer, why in troubles:
            if layer == "torch" and why.startswith("ModuleNotFoundError: No module named 'torch'"):
                yield f"torch: it is not installed in {self.folder}; pin it among the pip packages of conda_env"
            else:
                yield f"{layer}: {why}; {_DO.get(layer, _DO['torch'])}"
        if "torch" not in facts:
            return
        version, _, cuda = facts["torch"].partition("|")
        if self.version and self.version not in (version, _public(version)):
            yield f"torch: it is {version}, and {self.version} is wanted; {_DO['torch']}"
        usable = sum(what == "card" for what, _ in said)
        if not cuda:
            yield f"torch: {version} is a build without CUDA; pin one for CUDA, whose label begins with +cu"
        elif ("end", "") in said and not any(layer == "device" for layer, _ in troubles):
            yield from self._device_problems(usable, facts.get("none", "it lists no card"))
        found = facts.get("module", "")
        if found and self.module_version and _public(found) != _public(self.module_version):
            yield f"module: {self.module} is {found}, and {self.module_version} is wanted; {_DO['module']}"

    def _device_problems(self, usable: int, why: str) -> Iterator[str]:
        if usable:
            if usable < self.cards:
                yield f"device: torch uses {usable} of {self.cards} GPUs; see CUDA_VISIBLE_DEVICES on the host"
        elif self.cards:
            there = f"{self.cards} GPU{'s are' if self.cards > 1 else ' is'} there"
            yield f"device: {there} and torch can use none ({why}); {_DO['device']}"
        elif not self.pending:
            yield f"device: no GPU ({why}); {_DO['card']}"

    def _words(self, said: list[tuple[str, str]]) -> str:
        facts = dict(said)
        version, _, cuda = facts.get("torch", "").partition("|")
        cards = Counter(
            f"{name} ({'sm_' + capability.replace('.', '')})"
            for number, capability, name in (f"{rest}||".split("|")[:3] for what, rest in said if what == "card")
        )
        device = ", ".join(f"{n} x {name}" for name, n in cards.items()) or self.pending or "none"
        library = f"cuDNN {facts['cudnn']}" if facts.get("cudnn") else "no cuDNN"
        parts = [f"torch {version}, CUDA {cuda or 'none'}, {library}", f"device: {device}"]
        if "module" in facts:
            compared = facts.get("compared") or ("imported" if cards else "imported, its numbers are pending GPU")
            parts.append(f"{self.module} {facts['module']}: {compared}")
        if self.cuda and cuda and cuda != self.cuda:
            parts.append(f"nothing can be compiled against it with CUDA {self.cuda}")
        return "; ".join(parts)


_DO = {
    "torch": "run the playbook with conda_env to have the environment's packages put right",
    "cudnn": "another cuDNN is loaded than torch was built with: look for one in LD_LIBRARY_PATH and among the pip "
    "packages",
    "device": "its CUDA may be newer than the driver, or have no code for this card: see what the role driver "
    "says, and pin a torch for both",
    "card": "if the host was started without its card, say which was rented with `gpu:` in the inventory",
    "module": "have it built again for this torch with flash_attention",
    "slow": "try again, as a cold disk is slow; if it stays so, see what the host is busy with",
}


def how_to_make(env: str) -> str:
    """Return which of the shipped playbooks makes an environment of that name."""
    books = [f"playbooks/{ENVS[env]}"] if env in ENVS else [f"playbooks/{book}" for book in ENVS.values()]
    return f"apply {' or '.join(books)}" + ("" if env in ENVS else f" with -e env={env}")


def pending_words(card: str) -> str:
    """Return the words of a check whose card is not there yet."""
    return f"{PENDING}: {card} is expected (no card: the instance was started without it)"


def _answer(data: bytes) -> tuple[str, int]:
    """Return what a program said and its status.

    Raises:
        Unseen: the status is missing: the look was cut short.
    """
    text = "".join(c if c.isprintable() or c == "\n" else " " for c in shown(data)).rstrip()
    found = _STATUS.search(text)
    if not found:
        raise Unseen("the look was cut short: how the program ended is missing")
    return text[: found.start()].strip(), int(found[1])


def _ending(status: int) -> str:
    if status in _ENDED:
        return "it was ended: it hung, or memory ran out"
    return f"it was ended by signal {status - 128}" if status > 128 else f"it ended with status {status}"


def _said(text: str) -> str:
    """Return the last line that is not ours, as the end of a sentence."""
    lines = [line.strip() for line in text.split("\n") if not line.startswith("gpuprov: ")]
    lines = [line for line in lines if line and not _SIGNALLED.fullmatch(line)]
    return f": {lines[-1][:200]}" if lines else ""


def _public(version: str) -> str:
    """Return a version without its build."""
    return version.partition("+")[0]
